//! Makes random weights directly as blocks of their format, without quantising anything.
//!
//! Quants are random bytes. Scales are set so that the weights have zero mean and the wanted standard deviation. Where a format has
//! a minimum, that balances the scale in each block; where the range of its quants is lopsided, such as -8 to 7, the scale has
//! either sign.

use half::{bf16, f16};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::RngCore as _;
use zinc_kernels::Format;

/// The distribution of the numbers of a tensor.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Numbers {
    /// Their mean is zero, and this is their standard deviation.
    Spread(f32),
    /// They are between `middle - reach` and `middle + reach`.
    Within { middle: f32, reach: f32 },
}

impl Numbers {
    /// Those of a matrix with so many columns, whose products with vectors have the magnitude of these.
    pub(super) fn keeping_magnitude(columns: u64) -> Self {
        Self::Spread((columns as f32).sqrt().recip())
    }
}

/// Root mean square of the scales within a K-quant block, which are 16 to 31.
const K_SCALE_RMS: f32 = 23.947_86;
/// Root mean square of the scales within a Q6_K block, which are 4 to 7 with either sign.
const Q6K_SCALE_RMS: f32 = 5.612_486;

/// Root mean square of the numbers of MXFP4: 0, 0.5, 1, 1.5, 2, 3, 4 and 6 with either sign.
const E2M1_RMS: f32 = 2.926_175;

/// Fills `out`, whole blocks of `format`, with random numbers.
///
/// # Panics
/// If `out` is not whole blocks, or the numbers are [`Numbers::Within`] and the format is not F32, or no
/// mix uses the format.
pub(super) fn fill(format: Format, numbers: Numbers, random: &mut Xoshiro256PlusPlus, out: &mut [u8]) {
    let block = format.block_bytes();
    assert!(out.len().is_multiple_of(block), "{} bytes are no whole blocks of {format}", out.len());
    assert!(is_in_a_mix(format), "{format} blocks are in no mix");
    random.fill_bytes(out);
    let (mean, deviation) = match numbers {
        Numbers::Spread(deviation) => (0.0, deviation),
        Numbers::Within { middle, reach } => {
            assert!(format == Format::F32, "numbers around another than 0 are F32, not {format}");
            (middle, reach / 3.0f32.sqrt())
        }
    };
    let blocks = out.chunks_exact_mut(block);
    match format {
        Format::F32 => blocks.for_each(|b| {
            let value = mean + uniform(deviation, &b[..2]);
            b.copy_from_slice(&value.to_le_bytes());
        }),
        Format::F16 => blocks.for_each(|b| {
            let value = f16::from_f32(uniform(deviation, b));
            b.copy_from_slice(&value.to_le_bytes());
        }),
        Format::BF16 => blocks.for_each(|b| {
            let value = bf16::from_f32(uniform(deviation, b));
            b.copy_from_slice(&value.to_le_bytes());
        }),
        Format::Q4_0 => lopsided(blocks, deviation / lopsided_rms(16)),
        Format::Q5_0 => lopsided(blocks, deviation / lopsided_rms(32)),
        Format::Q8_0 => lopsided(blocks, deviation / lopsided_rms(256)),
        Format::Q4_1 => with_minimum(blocks, deviation / centred_rms(16), -7.5),
        Format::Q5_1 => with_minimum(blocks, deviation / centred_rms(32), -15.5),
        Format::Q4K => k_quant(blocks, deviation / (K_SCALE_RMS * centred_rms(16)), 7.5),
        Format::Q5K => k_quant(blocks, deviation / (K_SCALE_RMS * centred_rms(32)), 15.5),
        Format::Q6K => q6_k(blocks, deviation / (Q6K_SCALE_RMS * lopsided_rms(64))),
        Format::MXFP4 => mxfp4(blocks, deviation / E2M1_RMS),
        Format::Q2K | Format::Q3K | Format::IQ4NL | Format::IQ4XS => unreachable!("asserted above"),
    }
}

/// Whether a [`Mix`](super::mix::Mix) uses the format, so that blocks of it can be made.
fn is_in_a_mix(format: Format) -> bool {
    !matches!(format, Format::Q2K | Format::Q3K | Format::IQ4NL | Format::IQ4XS)
}

/// Root mean square of the numbers 0 to `levels - 1` after their mean is subtracted.
fn centred_rms(levels: u16) -> f32 {
    let levels = f32::from(levels);
    ((levels * levels - 1.0) / 12.0).sqrt()
}

/// Root mean square of the numbers `-levels / 2` to `levels / 2 - 1`.
fn lopsided_rms(levels: u16) -> f32 {
    centred_rms(levels).hypot(0.5)
}

/// A number with zero mean and this deviation, from two random bytes.
fn uniform(deviation: f32, random: &[u8]) -> f32 {
    // Half a step is added, so that the mean is zero.
    let step = f32::from(i16::from_le_bytes([random[0], random[1]])) + 0.5;
    step * (deviation * 3.0f32.sqrt() / 32_768.0)
}

type Blocks<'a> = std::slice::ChunksExactMut<'a, u8>;

/// Fills a block that has a scale and then quants. Since the middle of the quants is half a step off zero, the sign of the scale is random.
fn lopsided(blocks: Blocks<'_>, scale: f32) {
    let signed = [f16::from_f32(scale).to_le_bytes(), f16::from_f32(-scale).to_le_bytes()];
    for block in blocks {
        let sign = usize::from(block[0] & 1);
        block[..2].copy_from_slice(&signed[sign]);
    }
}

/// Fills a block that has a scale, a minimum of `middle` scales, and then quants from 0.
fn with_minimum(blocks: Blocks<'_>, scale: f32, middle: f32) {
    let (scale, minimum) = (f16::from_f32(scale).to_le_bytes(), f16::from_f32(scale * middle).to_le_bytes());
    for block in blocks {
        block[..2].copy_from_slice(&scale);
        block[2..4].copy_from_slice(&minimum);
    }
}

/// Fills the head of a K-quant block: a scale, the scale of the minimums, eight scales and eight minimums of 6 bits. Each minimum equals its
/// scale; since the scale of the minimums is `middle` times as large, the minimum subtracts the mean of the quants.
fn k_quant(blocks: Blocks<'_>, scale: f32, middle: f32) {
    let (scale, minimums) = (f16::from_f32(scale).to_le_bytes(), f16::from_f32(scale * middle).to_le_bytes());
    for block in blocks {
        block[..2].copy_from_slice(&scale);
        block[2..4].copy_from_slice(&minimums);
        for i in 4..8 {
            // The lower bits hold a number from 16 to 31, the others the upper bits of another such number.
            let first = 0x50 | block[i] & 15;
            block[i] = first;
            block[i + 4] = first;
            let last = block[i + 8] & 15;
            block[i + 8] = last << 4 | last;
        }
    }
}

/// Fills a Q6_K block: 192 bytes of quants, 16 signed scales, and a scale.
fn q6_k(blocks: Blocks<'_>, scale: f32) {
    let scale = f16::from_f32(scale).to_le_bytes();
    for block in blocks {
        let (scales, last) = block[192..].split_at_mut(16);
        for sub in scales {
            let magnitude = (4 + (*sub & 3)).cast_signed();
            *sub = (if *sub & 4 == 0 { magnitude } else { -magnitude }).cast_unsigned();
        }
        last.copy_from_slice(&scale);
    }
}

/// Fills an MXFP4 block: an exponent with bias 127, and nibbles. Since scales are powers of two, those of the blocks are the one below `scale` and the one above it,
/// as often as makes the mean of their squares that of `scale`.
fn mxfp4(blocks: Blocks<'_>, scale: f32) {
    let below = scale.log2().floor();
    let square_over_below = (scale / below.exp2()).powi(2);
    // Squares of the two scales are 1 and 4 times that of the lower one. A random byte is below `higher` as often as the higher one is due.
    let higher = (256.0 * (square_over_below - 1.0) / 3.0).round() as u32;
    let exponent = (below + 127.0) as u8;
    for block in blocks {
        block[0] = exponent + u8::from(u32::from(block[0]) < higher);
    }
}

#[cfg(test)]
mod tests {
    use rand_xoshiro::rand_core::SeedableRng as _;
    use zinc_kernels::formats::decode;

    use super::*;

    const COUNT: usize = 256 * 512;

    fn sample(format: Format, numbers: Numbers) -> Vec<f32> {
        let mut bytes = vec![0; format.row_bytes(COUNT)];
        fill(format, numbers, &mut Xoshiro256PlusPlus::seed_from_u64(7), &mut bytes);
        let mut values = vec![0.0; COUNT];
        decode(format, &bytes, &mut values);
        values
    }

    fn moments(values: &[f32]) -> (f64, f64) {
        let count = values.len() as f64;
        let mean = values.iter().map(|&v| f64::from(v)).sum::<f64>() / count;
        let square = values.iter().map(|&v| (f64::from(v) - mean).powi(2)).sum::<f64>() / count;
        (mean, square.sqrt())
    }

    /// The mean of so many independent numbers is off by 0.003 of their deviation; those of a block share its scale's sign, which
    /// makes that of Q4_0 (half a step of 4.6) 0.0017 more.
    #[test]
    fn every_format_has_zero_mean_and_the_wanted_deviation() {
        for columns in [768.0f32, 2048.0, 12_288.0] {
            let wanted = f64::from(columns.sqrt().recip());
            for format in Format::ALL.into_iter().filter(|format| is_in_a_mix(*format)) {
                let (mean, deviation) = moments(&sample(format, Numbers::Spread(wanted as f32)));
                assert!(mean.abs() < 0.012 * wanted, "{format}, {columns} columns: mean {mean}");
                assert!((deviation / wanted - 1.0).abs() < 0.01, "{format}, {columns} columns: deviation {deviation}");
            }
        }
    }

    #[test]
    fn numbers_are_within_their_bounds() {
        let values = sample(Format::F32, Numbers::Within { middle: 1.0, reach: 0.1 });
        assert!(values.iter().all(|value| (0.9..=1.1).contains(value)));
        assert!((moments(&values).0 - 1.0).abs() < 1e-3);
    }
}
