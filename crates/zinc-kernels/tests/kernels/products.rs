//! Products with activations of 14 bits on the host: against double precision, and that nothing in them overflows or is subnormal.

use zinc_kernels::Format;
use zinc_kernels::formats::decode;
use zinc_kernels::reference::{Q14, quantised_product};

use crate::support::data::{Random, Scales, halves, weights};

/// Activations that share a scale.
const GROUP: usize = 256;

fn quantised() -> impl Iterator<Item = Format> {
    Format::ALL.into_iter().filter(|format| !format.is_float())
}

/// A row of random blocks with this half as their scales; the exponents of MXFP4 are 127.
fn row(format: Format, columns: usize, seed: u32, half: [u8; 2]) -> Vec<u8> {
    let mut row = weights(&mut Random::new(&format!("{format} {seed}")), format, 1, columns, Scales::Sane);
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

/// Random activations from -8 to 8.
fn activations(columns: usize, seed: u32) -> Vec<f32> {
    Random::new(&format!("activations {seed}")).vector(columns, 8.0)
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

/// Compares a product with that in double precision. Its sum has up to 8 terms a group and 8 groups, each rounded once or twice by 2^-24 of the
/// sum so far: 2e-6 of the terms' magnitudes. Decoded weights, of which the expected product is made, are rounded too, by 2^-24 of a number that
/// a minimum may have cancelled to a fraction of itself: as much again.
fn compare(what: &str, format: Format, row: &[u8], x: &Q14) {
    let (expected, magnitude) = in_f64(format, row, x);
    let error = (f64::from(quantised_product(format, row, x)) - expected).abs();
    assert!(error <= 4e-6 * magnitude, "{what}: {error} of {magnitude}");
}

#[test]
fn products_are_close_to_those_in_double_precision() {
    for format in quantised() {
        for columns in [32usize, 64, 224, 256, 288, 768, 2_048] {
            if !columns.is_multiple_of(format.block_elements()) {
                continue;
            }
            for seed in 0..20 {
                let (row, x) = (row(format, columns, seed, [0x34, 0x12]), Q14::new(&activations(columns, seed)));
                compare(&format!("{format}, {columns} columns"), format, &row, &x);
            }
        }
    }
}

/// The largest sums of every format fit 32 bits: whatever combination of extreme codes, scales and minimums the largest activations meet,
/// nothing overflows, which would panic here, and the sums are those of double precision.
#[test]
fn the_largest_sums_fit() {
    const FILLS: [u8; 5] = [0x00, 0xff, 0x80, 0x7f, 0x08];
    for format in quantised() {
        let columns = format.block_elements();
        // The planes of the device's layout are the fields of a block: each is filled with each byte.
        for case in 0..FILLS.len().pow(format.planes().len() as u32) {
            let mut row = vec![0; format.row_bytes(columns)];
            for (field, plane) in (0..).zip(format.planes()) {
                row[plane.from..][..plane.bytes].fill(FILLS[case / FILLS.len().pow(field) % FILLS.len()]);
            }
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
                compare(&format!("{format}, fields of case {case}"), format, &row, &x);
            }
        }
    }
}

/// Nothing in a product is subnormal, so that devices that flush such numbers give the same bits.
#[test]
fn no_product_is_subnormal() {
    for format in quantised() {
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
    for format in quantised() {
        let row = row(format, 512, 1, [0x34, 0x12]);
        for odd in [f32::NAN, f32::INFINITY] {
            let mut x = activations(512, 1);
            x[300] = odd;
            assert!(quantised_product(format, &row, &Q14::new(&x)).is_nan(), "{format}, {odd}");
        }
    }
}
