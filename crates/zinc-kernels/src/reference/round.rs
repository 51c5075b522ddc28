//! Reference of `round`, and of what other kernels round: activations as integers of 14 bits with a scale for each 256, as
//! `docs/arithmetic.md` defines them.

use crate::ops::{self, rounded_bytes};

/// Elements that share a scale; the last group of a row may have fewer.
pub(super) const GROUP: usize = ops::GROUP as usize;

const RUN_LEN: usize = ops::RUN as usize;

/// Where run `run` of a row of so many groups stands among the high, or low, bytes: the first runs of all quarters of groups come first. A place
/// is left free before the third ones. Or the runs are `ordered`.
fn place(groups: usize, run: usize, ordered: bool) -> usize {
    if ordered { run } else { run % 4 * groups * 4 + run / 4 + run % 4 / 2 }
}

/// Bytes of the high, or low, bytes of a row of so many groups.
fn plane_bytes(groups: usize) -> usize {
    groups * GROUP + RUN_LEN
}

/// The largest magnitude of an integer.
const LEVELS: i16 = 8_191;

/// A group whose largest magnitude is below this, 2^-64, counts as zeros, so that no product with a group is subnormal.
const NEGLIGIBLE: f32 = f32::from_bits((127 - 64) << 23);

/// A row of activations: element `i` is `scales[i / 256] * q[i]`.
#[derive(Clone, Debug, PartialEq)]
pub struct Q14 {
    /// The integers, `[n]`, from -8,191 to 8,191.
    pub q: Vec<i16>,
    /// The scale of each group, `[ceil(n / 256)]`. It is infinite or NaN where an element of the group is, and then the group's integers are 0.
    pub scales: Vec<f32>,
}

impl Q14 {
    /// Rounds each element to the nearest multiple of its group's largest magnitude / 8,191, ties to even.
    #[must_use]
    pub fn new(x: &[f32]) -> Self {
        let (mut q, mut scales) = (Vec::with_capacity(x.len()), Vec::with_capacity(x.len().div_ceil(GROUP)));
        for group in x.chunks(GROUP) {
            // Magnitudes compare like the integers of their bits, with NaN above infinity.
            let largest = f32::from_bits(group.iter().map(|x| x.abs().to_bits()).max().unwrap_or(0));
            if !largest.is_finite() || largest < NEGLIGIBLE {
                q.extend(group.iter().map(|_| 0));
                scales.push(if largest.is_finite() { 0.0 } else { largest });
                continue;
            }
            let scale = largest * (1.0 / f32::from(LEVELS));
            let inverse = reciprocal(scale);
            q.extend(group.iter().map(|x| (x * inverse).round_ties_even() as i16));
            scales.push(scale);
        }
        Self { q, scales }
    }

    /// The elements that the row stands for, `[n]`: each integer times its group's scale, rounded to f32.
    #[must_use]
    pub fn values(&self) -> Vec<f32> {
        let groups = self.q.chunks(GROUP).zip(&self.scales);
        groups.flat_map(|(group, scale)| group.iter().map(move |q| scale * f32::from(*q))).collect()
    }

    /// The row as kernels store it: the layout is in `shaders/include/activations.glsl`. In steps of many rows its runs are `ordered`.
    #[must_use]
    pub fn bytes(&self, ordered: bool) -> Vec<u8> {
        let groups = self.scales.len();
        let mut bytes = vec![0; rounded_bytes((groups * GROUP) as u64) as usize];
        let (planes, rest) = bytes.split_at_mut(2 * plane_bytes(groups));
        let (high, low) = planes.split_at_mut(plane_bytes(groups));
        let (sums, scales) = rest.split_at_mut(groups * GROUP / RUN_LEN * 4);
        for (run, q) in self.q.chunks(RUN_LEN).enumerate() {
            let at = place(groups, run, ordered) * RUN_LEN;
            for (i, &q) in q.iter().enumerate() {
                [high[at + i], low[at + i]] = Self::planes(q).map(i8::cast_unsigned);
            }
            let sum: i32 = q.iter().map(|&q| i32::from(q)).sum();
            sums[run * 4..][..4].copy_from_slice(&sum.to_le_bytes());
        }
        let (scales, parts) = scales.split_at_mut((groups * 4).next_multiple_of(16));
        for (bytes, scale) in scales.chunks_exact_mut(4).zip(&self.scales) {
            bytes.copy_from_slice(&scale.to_le_bytes());
        }
        if ordered {
            for (run, q) in self.q.chunks(RUN_LEN).enumerate() {
                let (group, run) = (run / 16, run % 16);
                for (part, byte) in sum_parts(q.iter().map(|&q| i32::from(q)).sum()).into_iter().enumerate() {
                    parts[group * 64 + part * 16 + run] = byte.cast_unsigned();
                }
            }
        }
        bytes
    }

    /// Reads the `n` elements of a row that a kernel has stored.
    ///
    /// # Panics
    /// If there are too few bytes, or if the sum of a run is not that of its integers.
    #[must_use]
    pub fn from_bytes(bytes: &[u8], n: usize, ordered: bool) -> Self {
        let groups = n.div_ceil(GROUP);
        let (planes, rest) = bytes.split_at(2 * plane_bytes(groups));
        let (high, low) = planes.split_at(plane_bytes(groups));
        let (sums, scales) = rest.split_at(groups * GROUP / RUN_LEN * 4);
        let word = |bytes: &[u8], i: usize| [bytes[i * 4], bytes[i * 4 + 1], bytes[i * 4 + 2], bytes[i * 4 + 3]];
        let integer = |i: usize| {
            let at = place(groups, i / RUN_LEN, ordered) * RUN_LEN + i % RUN_LEN;
            128 * i16::from(high[at].cast_signed()) + i16::from(low[at].cast_signed())
        };
        let all: Vec<i16> = (0..groups * GROUP).map(integer).collect();
        for (i, run) in all.chunks(RUN_LEN).enumerate() {
            let sum: i32 = run.iter().map(|&q| i32::from(q)).sum();
            assert_eq!(i32::from_le_bytes(word(sums, i)), sum, "the sum of run {i}: {run:?}");
            if ordered {
                let first = (groups * 4).next_multiple_of(16) + i / 16 * 64 + i % 16;
                let parts = [0, 16, 32, 48].map(|part| scales[first + part].cast_signed());
                assert_eq!(parts, sum_parts(sum), "the parts of the sum of run {i}, {sum}");
            }
        }
        Self { q: all[..n].to_vec(), scales: (0..groups).map(|i| f32::from_le_bytes(word(scales, i))).collect() }
    }

    /// The two signed bytes that stand for an integer: `q = 128 * high + low` with `low` from -64 to 63 and `high` from -64 to 64.
    #[must_use]
    pub fn planes(q: i16) -> [i8; 2] {
        let low = ((q + 64) & 127) - 64;
        [((q - low) >> 7) as i8, low as i8]
    }
}

/// The signed bytes that stand for the sum of a run: `512 * (a + 2 * b) + c + 2 * d`.
fn sum_parts(sum: i32) -> [i8; 4] {
    let high = (sum + 256) >> 9;
    let low = sum - 512 * high;
    let halves = |x: i32| {
        let half = (x >> 1).min(127);
        [(x - 2 * half) as i8, half as i8]
    };
    let ([a, b], [c, d]) = (halves(high), halves(low));
    [a, b, c, d]
}

/// `1 / x` for a normal `x` from 2^-78 to 2^116, to two units in the last place: an estimate from the bits of `x` and four steps of Newton's
/// method, `y * (2 - x * y)`, of products and differences that are rounded by themselves. A division may differ from one device to another.
fn reciprocal(x: f32) -> f32 {
    let mut y = f32::from_bits(0x7ef3_11c7 - x.to_bits());
    for _ in 0..4 {
        y *= 2.0 - x * y;
    }
    y
}

#[cfg(test)]
mod tests {
    use super::super::random::philox;
    use super::*;

    fn bits(i: u32) -> u32 {
        philox([i, 0, 0, 0], [14, 0])[0]
    }

    #[test]
    fn the_reciprocal_is_close_to_the_true_one() {
        for i in 0..1_000_000 {
            // The number has a random mantissa and an exponent from -78 to 115.
            let x = f32::from_bits((bits(i) & 0x7f_ffff) | (127 - 78 + i % 194) << 23);
            let error = (f64::from(reciprocal(x)) * f64::from(x) - 1.0).abs();
            assert!(error <= 2.0 * f64::from(f32::EPSILON), "1 / {x} is off by {error}");
        }
    }

    #[test]
    fn integers_stay_in_range_and_are_the_nearest() {
        for i in 0..20_000u32 {
            // The groups have every length and every size that does not count as zeros, and one element is the largest.
            let size = f32::from_bits((bits(i) & 0x7f_ffff) | (127 - 64 + i % 191) << 23);
            let length = 1 + (i % GROUP as u32);
            let x: Vec<f32> = (0..length)
                .map(|j| size * (bits(i * 256 + j).cast_signed() as f32 / 2.0f32.powi(31)))
                .chain([if i % 2 == 0 { size } else { -size }])
                .collect();
            for (group, x) in Q14::new(&x).q.chunks(GROUP).zip(x.chunks(GROUP)) {
                let largest = x.iter().fold(0.0f32, |a, b| a.max(b.abs()));
                if largest < NEGLIGIBLE {
                    continue;
                }
                for (&q, &x) in group.iter().zip(x) {
                    let exact = f64::from(x) / f64::from(largest) * 8_191.0;
                    assert!((f64::from(q) - exact).abs() <= 0.503, "{x} of at most {largest} is {q}, not {exact}");
                    assert!(q.abs() <= LEVELS, "{q}");
                }
                assert!(group.iter().any(|q| q.abs() == LEVELS), "{group:?}");
            }
        }
    }

    #[test]
    fn planes_make_up_the_integer() {
        for q in -LEVELS..=LEVELS {
            let [high, low] = Q14::planes(q);
            assert_eq!(128 * i16::from(high) + i16::from(low), q);
            assert!((-64..=64).contains(&high) && (-64..=63).contains(&low), "{q}: {high}, {low}");
        }
    }

    #[test]
    fn parts_of_sums_give_them_back() {
        for sum in -16 * i32::from(LEVELS)..=16 * i32::from(LEVELS) {
            let [a, b, c, d] = sum_parts(sum).map(i32::from);
            assert_eq!(512 * (a + 2 * b) + c + 2 * d, sum);
        }
    }

    #[test]
    fn rows_are_stored_and_read() {
        for n in [32, 256, 288, 2_048] {
            let x: Vec<f32> = (0..n).map(|i| bits(i).cast_signed() as f32).collect();
            let row = Q14::new(&x);
            for ordered in [false, true] {
                let bytes = row.bytes(ordered);
                assert_eq!(bytes.len() as u64, rounded_bytes(u64::from(n)));
                assert_eq!(Q14::from_bytes(&bytes, n as usize, ordered), row);
            }
        }
        // The second run of the first quarter stands behind the first runs of all eight quarters of two groups.
        let mut x = [0.0; 512];
        x[16] = 1.0;
        let bytes = Q14::new(&x).bytes(false);
        let [high, low] = Q14::planes(LEVELS).map(i8::cast_unsigned);
        assert_eq!([bytes[8 * 16], bytes[528 + 8 * 16]], [high, low]);
        assert_eq!(Q14::new(&x).bytes(true)[16], high);
        assert_eq!(bytes[1_056 + 4..][..4], i32::from(LEVELS).to_le_bytes());
        assert_eq!(bytes[1_056 + 128..][..4], (1.0f32 * (1.0 / 8_191.0)).to_le_bytes());
    }

    #[test]
    fn what_is_not_finite_or_negligible_is_in_the_scale() {
        let mut x = vec![1.0f32; 600];
        x[3] = f32::NAN;
        x[300] = f32::NEG_INFINITY;
        x[512..].fill(f32::from_bits(NEGLIGIBLE.to_bits() - 1));
        let row = Q14::new(&x);
        assert!(row.q.iter().all(|&q| q == 0));
        assert!(row.scales[0].is_nan());
        assert_eq!(row.scales[1..], [f32::INFINITY, 0.0]);
        x[512] = -NEGLIGIBLE;
        assert_eq!(Q14::new(&x).q[512], -LEVELS);
        assert_eq!(Q14::new(&[]), Q14 { q: vec![], scales: vec![] });
    }
}
