//! Products of rows of weights with rows of activations, as `docs/arithmetic.md` defines them: every kernel that computes one gives these
//! bits.

use super::q14::{GROUP, Q14};
use crate::formats::{Block, Block256, Format, decode, read_block};

/// Elements of a chunk of float weights, whose products are summed in order.
const CHUNK: usize = 32;

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
        // The only block of its group.
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

/// The product of a row of weights of any format, as floats, with f32 activations: each chunk of 32 in order from 0, then the chunks in
/// order. Products and sums are rounded by themselves.
///
/// # Panics
/// If `row` has not as many elements as `x`.
#[must_use]
pub fn float_product(format: Format, row: &[u8], x: &[f32]) -> f32 {
    let mut weights = vec![0.0; x.len()];
    decode(format, row, &mut weights);
    weights
        .chunks(CHUNK)
        .zip(x.chunks(CHUNK))
        .fold(0.0, |sum, (weights, x)| sum + weights.iter().zip(x).fold(0.0, |sum, (weight, x)| sum + weight * x))
}

/// Places that the elements of a row are summed in.
const PLACES: usize = 256;

/// The sum of a row: element `e` is added to place `e / 4 % 256`, in order; then neighbouring places are joined until one is left.
#[must_use]
pub fn ordered_sum(x: &[f32]) -> f32 {
    let mut places = vec![0.0f32; PLACES];
    for (part, x) in x.chunks(4).enumerate() {
        for x in x {
            places[part % PLACES] += x;
        }
    }
    while places.len() > 1 {
        places = places.chunks(2).map(|pair| pair[0] + pair[1]).collect();
    }
    places[0]
}

#[cfg(test)]
mod tests {
    use super::super::random::philox;
    use super::*;

    const QUANTISED: [Format; 13] = [
        Format::Q4_0,
        Format::Q4_1,
        Format::Q5_0,
        Format::Q5_1,
        Format::Q8_0,
        Format::Q4K,
        Format::Q5K,
        Format::Q6K,
        Format::Q2K,
        Format::Q3K,
        Format::IQ4NL,
        Format::IQ4XS,
        Format::MXFP4,
    ];

    /// The places of the halves in a block.
    fn halves(format: Format) -> &'static [usize] {
        match format {
            Format::F32 | Format::F16 | Format::BF16 | Format::MXFP4 => &[],
            Format::Q4_0 | Format::Q5_0 | Format::Q8_0 | Format::IQ4NL | Format::IQ4XS => &[0],
            Format::Q4_1 | Format::Q5_1 | Format::Q4K | Format::Q5K => &[0, 2],
            Format::Q2K => &[80, 82],
            Format::Q3K => &[108],
            Format::Q6K => &[208],
        }
    }

    /// A row of random blocks with these halves as their scales; the exponents of MXFP4 are 127.
    fn row(format: Format, columns: usize, seed: u32, half: [u8; 2]) -> Vec<u8> {
        let bytes = (0..).flat_map(|i| philox([i, seed, 0, 0], [0; 2])).flat_map(u32::to_le_bytes);
        let mut row: Vec<u8> = bytes.take(format.row_bytes(columns)).collect();
        for block in row.chunks_exact_mut(format.block_bytes()) {
            for &at in halves(format) {
                block[at..at + 2].copy_from_slice(&half);
            }
            if format == Format::MXFP4 {
                block[0] = 127;
            }
        }
        row
    }

    fn activations(columns: usize, seed: u32) -> Vec<f32> {
        let bits = (0..).flat_map(|i| philox([i, seed, 1, 0], [0; 2]));
        bits.take(columns).map(|bits| bits.cast_signed() as f32 / 2.0f32.powi(28)).collect()
    }

    /// The product of the decoded weights with what the activations stand for, in f64, and the sum of its terms' magnitudes.
    fn in_f64(format: Format, row: &[u8], x: &Q14) -> (f64, f64) {
        let mut weights = vec![0.0; x.q.len()];
        decode(format, row, &mut weights);
        let terms =
            x.q.iter()
                .zip(&weights)
                .enumerate()
                .map(|(i, (&q, &weight))| f64::from(weight) * f64::from(q) * f64::from(x.scales[i / GROUP]));
        terms.fold((0.0, 0.0), |(sum, magnitude), term| (sum + term, magnitude + term.abs()))
    }

    #[test]
    fn products_are_close_to_those_in_double_precision() {
        for format in QUANTISED {
            for columns in [32usize, 64, 224, 256, 288, 768, 2_048] {
                if !columns.is_multiple_of(format.block_elements()) {
                    continue;
                }
                for seed in 0..20 {
                    let (row, x) = (row(format, columns, seed, [0x34, 0x12]), Q14::new(&activations(columns, seed)));
                    let (expected, magnitude) = in_f64(format, &row, &x);
                    let error = (f64::from(quantised_product(format, &row, &x)) - expected).abs();
                    // The weights of K formats are rounded when they are decoded and not here; minimums may cancel most of the terms.
                    assert!(error <= 4e-6 * magnitude, "{format}, {columns} columns: {error} of {magnitude}");
                }
            }
        }
    }

    /// The largest sums of every format fit 32 bits: with the largest codes, scales, minimums and activations nothing overflows, which
    /// would panic here, and the sums are those of 64 bits.
    #[test]
    fn the_largest_sums_fit() {
        for format in QUANTISED {
            for fill in [0x00, 0xff, 0x80, 0x7f, 0x08] {
                let columns = format.block_elements().max(32);
                let mut row = vec![fill; format.row_bytes(columns)];
                for &at in halves(format) {
                    row[at..at + 2].copy_from_slice(&0x3c00u16.to_le_bytes());
                }
                if format == Format::MXFP4 {
                    row[0] = 127;
                }
                for signs in [[1.0, 1.0], [-1.0, -1.0], [1.0, -1.0]] {
                    let x: Vec<f32> = (0..columns).map(|i| 8_191.0 * signs[i % 2]).collect();
                    let x = Q14::new(&x);
                    assert!(x.q.iter().all(|q| q.abs() == 8_191));
                    let (expected, magnitude) = in_f64(format, &row, &x);
                    let error = (f64::from(quantised_product(format, &row, &x)) - expected).abs();
                    assert!(error <= 4e-6 * magnitude, "{format} of bytes {fill:#x}: {error} of {magnitude}");
                }
            }
        }
    }

    /// Nothing in a product is subnormal, so that devices that flush such numbers give the same bits.
    #[test]
    fn no_product_is_subnormal() {
        for format in QUANTISED {
            // The smallest half, and the smallest exponents.
            for exponent in [0, 1, 30, 64] {
                let mut row = row(format, 256, 7, [1, 0]);
                if format == Format::MXFP4 {
                    row.chunks_exact_mut(17).for_each(|block| block[0] = exponent);
                }
                for size in [2.0f32.powi(-64), 1e-10, 1.0, 1e30] {
                    let x: Vec<f32> = activations(256, 3).iter().map(|x| x / 16.0 * size).collect();
                    let product = quantised_product(format, &row, &Q14::new(&x));
                    assert!(product == 0.0 || product.is_normal(), "{format}, {exponent}, {size}: {product:e}");
                }
            }
        }
    }

    #[test]
    fn a_group_that_is_not_finite_makes_the_product_so() {
        for format in QUANTISED {
            let row = row(format, 512, 1, [0x34, 0x12]);
            for odd in [f32::NAN, f32::INFINITY] {
                let mut x = activations(512, 1);
                x[300] = odd;
                assert!(quantised_product(format, &row, &Q14::new(&x)).is_nan(), "{format}, {odd}");
            }
        }
    }

    #[test]
    fn sums_have_one_order() {
        // Of these numbers each order of summation has a sum of its own.
        let x: Vec<f32> = activations(2_100, 5).iter().map(|x| x * x * x).collect();
        let place = |j: usize| {
            let own = x.iter().enumerate().filter(|(e, _)| e / 4 % 256 == j);
            own.fold(0.0f32, |sum, (_, x)| sum + x)
        };
        fn joined(first: usize, count: usize, place: &dyn Fn(usize) -> f32) -> f32 {
            if count == 1 {
                return place(first);
            }
            joined(first, count / 2, place) + joined(first + count / 2, count / 2, place)
        }
        assert_eq!(ordered_sum(&x), joined(0, 256, &place));
        assert_ne!(ordered_sum(&x), x.iter().fold(0.0, |sum, x| sum + x));
        assert_eq!(ordered_sum(&[]), 0.0);
        assert_eq!(ordered_sum(&[1.0, 2.0, 3.0]), 6.0);
    }

    #[test]
    fn chunks_of_floats_are_summed_in_order() {
        // 2^24 + 1 is not a float: whether the ones are summed among themselves or onto the large number shows.
        let mut x = vec![1.0f32; 64];
        x[0] = 2.0f32.powi(24);
        let weights = [1.0f32; 64].map(f32::to_le_bytes).concat();
        assert_eq!(float_product(Format::F32, &weights, &x), 2.0f32.powi(24) + 32.0);
        x.rotate_right(31);
        assert_eq!(float_product(Format::F32, &weights, &x), 2.0f32.powi(24) + 32.0 + 32.0);
    }
}
