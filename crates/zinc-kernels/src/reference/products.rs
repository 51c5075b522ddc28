//! Products of rows of weights with rows of activations, as `docs/arithmetic.md` defines them: a kernel that computes one
//! by that page has to give these bits.

use super::ordered_sum;
use super::round::{GROUP, Q14};
use crate::formats::{Block, Block256, Format, decode, read_block};

/// Below this magnitude, 2^-102, products with scales of MXFP4 count as 0: their scales go down to where floats are subnormal, which devices
/// may flush, and the sum of two such products could be subnormal, too.
const MXFP4_NEGLIGIBLE: f32 = f32::from_bits((127 - 102) << 23);

/// The product of a row of weights in a quantised format with activations of 14 bits: the groups of 256 in order.
///
/// # Panics
/// If the format is one of floats, or `row` has not as many elements as `x`.
#[must_use]
pub fn quantised_product(format: Format, row: &[u8], x: &Q14) -> f32 {
    let blocks_of_group = GROUP / format.block_elements();
    assert_eq!(row.len(), format.row_bytes(x.q.len()), "{} activations", x.q.len());
    let groups = row.chunks(blocks_of_group * format.block_bytes()).zip(x.q.chunks(GROUP)).zip(&x.scales);
    let values = groups.map(|((blocks, q), &scale)| {
        let value = scale * group_value(format, blocks, q);
        if format == Format::MXFP4 { flushed(value) } else { value }
    });
    values.reduce(|sum, value| sum + value).unwrap_or(0.0)
}

/// The product of the blocks of one group with its integers, without the scale of the activations.
fn group_value(format: Format, blocks: &[u8], q: &[i16]) -> f32 {
    let blocks = blocks.chunks_exact(format.block_bytes()).zip(q.chunks_exact(format.block_elements()));
    let terms = blocks.flat_map(|(bytes, q)| match read_block(format, bytes) {
        Some(Block::Of32(block)) => {
            let product = block.scale * integer_dot(&block.codes, q) as f32;
            let product = if format == Format::MXFP4 { flushed(product) } else { product };
            [Some(product), block.offset.map(|offset| offset * integer_sum(q) as f32)]
        }
        // A block of 256 is the only one of its group.
        Some(Block::Of256(block)) => [Some(block_256(&block, q, has_apart_planes(format))), None],
        None => panic!("{format} is not quantised"),
    });
    terms.flatten().reduce(|sum, term| sum + term).unwrap_or(0.0)
}

/// Whether the sums of a format's blocks of 256 need more than 32 bits, so that they are taken apart by the planes of the activations.
const fn has_apart_planes(format: Format) -> bool {
    matches!(format, Format::Q5K | Format::Q6K | Format::IQ4XS)
}

fn block_256(block: &Block256, q: &[i16], apart: bool) -> f32 {
    // The sum over sub-blocks of the scale times the dot product with integers that `of` takes from the activations.
    let sum = |of: &dyn Fn(i16) -> i16| -> i32 {
        let sub_blocks = block.codes.chunks_exact(block.sub_block).zip(q.chunks_exact(block.sub_block));
        let products = sub_blocks.zip(block.scales).map(|((codes, q), scale)| {
            let q: Vec<i16> = q.iter().map(|&q| of(q)).collect();
            i32::from(scale) * integer_dot(codes, &q)
        });
        products.sum()
    };
    let sum = if apart {
        let [high, low] = [0, 1].map(|plane| sum(&|q| i16::from(Q14::planes(q)[plane])));
        128.0 * high as f32 + low as f32
    } else {
        sum(&|q| q) as f32
    };
    let value = block.scale * sum;
    block.minimums.map_or(value, |minimums| {
        let sums = q.chunks_exact(block.sub_block).zip(minimums.minimums);
        let sum: i32 = sums.map(|(q, minimum)| i32::from(minimum) * integer_sum(q)).sum();
        value - minimums.scale * sum as f32
    })
}

fn integer_dot(codes: &[i8], q: &[i16]) -> i32 {
    codes.iter().zip(q).map(|(&code, &q)| i32::from(code) * i32::from(q)).sum()
}

fn integer_sum(q: &[i16]) -> i32 {
    q.iter().map(|&q| i32::from(q)).sum()
}

fn flushed(value: f32) -> f32 {
    if value.abs() < MXFP4_NEGLIGIBLE { 0.0 } else { value }
}

/// The product of a row of weights of any format, as floats, with f32 activations: products, each rounded by itself, in the order of [`ordered_sum`].
///
/// # Panics
/// If `row` has not as many elements as `x`.
#[must_use]
pub fn float_product(format: Format, row: &[u8], x: &[f32]) -> f32 {
    let mut products = vec![0.0; x.len()];
    decode(format, row, &mut products);
    products.iter_mut().zip(x).for_each(|(weight, x)| *weight *= x);
    ordered_sum(&products)
}
