//! Every tolerance of the kernel tests, with its reason. Whatever is not here compares bit for bit.
//!
//! Bounds are absolute differences between a kernel and its reference, so they cover the rounding of both.

/// Half a unit in the last place of a number in [1, 2): the relative error of one rounded operation.
pub const ROUNDING: f64 = 1.0 / (1u64 << 24) as f64;

/// Results below the smallest normal number may be flushed to zero, by one side or both.
pub const SMALLEST_NORMAL: f64 = f32::MIN_POSITIVE as f64;

/// A sum of `terms` numbers whose magnitudes add up to `magnitude`, in any order.
///
/// Each addition rounds by at most [`ROUNDING`] of its partial sum, which is at most `magnitude`. The errors of n additions are
/// independent, so they grow as the square root of n; 2 covers both sides and the products' own rounding. For 2,048 terms this is 5e-6 of
/// the magnitude, and one missing or wrong term of average size is 5e-4.
pub fn sum(terms: usize, magnitude: f64) -> f64 {
    2.0 * (terms as f64).sqrt() * ROUNDING * magnitude + SMALLEST_NORMAL
}

/// An element that passes through `operations` rounded operations on both sides, each accurate to `units` units in the last place.
pub fn chain(operations: u32, units: f64, value: f64) -> f64 {
    2.0 * f64::from(operations) * units * 2.0 * ROUNDING * value.abs() + SMALLEST_NORMAL
}

/// Relative error of `exp(x)`: Vulkan allows 3 + 2 |x| units in the last place.
pub fn exp(x: f64) -> f64 {
    (3.0 + 2.0 * x.abs()) * 2.0 * ROUNDING
}
