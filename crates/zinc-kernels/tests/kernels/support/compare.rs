//! Comparisons that say what differs, where and by how much.

use super::tolerance::SMALLEST_NORMAL;

/// Fails unless every element is within its bound: `bound(i)` is the largest difference allowed to element `i`.
/// NaN matches NaN, an infinity its like.
#[track_caller]
pub(crate) fn within(case: &str, found: &[f32], expected: &[f32], bound: impl Fn(usize) -> f64) {
    assert_eq!(found.len(), expected.len(), "{case}: lengths");
    for (index, (&found, &expected)) in found.iter().zip(expected).enumerate() {
        let same = found == expected || found.is_nan() && expected.is_nan();
        let difference = (f64::from(found) - f64::from(expected)).abs();
        let bound = bound(index);
        assert!(
            same || expected.is_finite() && difference <= bound,
            "{case}: element {index} is {found:e} instead of {expected:e}: off by {difference:e}, at most {bound:e} is allowed"
        );
    }
}

/// Fails unless every element has the expected bits. NaN matches NaN: the payload is the processor's choice.
#[track_caller]
pub(crate) fn equal_bits(case: &str, found: &[f32], expected: &[f32]) {
    assert_eq!(found.len(), expected.len(), "{case}: lengths");
    for (index, (found, expected)) in found.iter().zip(expected).enumerate() {
        assert!(
            found.to_bits() == expected.to_bits() || found.is_nan() && expected.is_nan(),
            "{case}: element {index} is {found:e} ({:#010x}) instead of {expected:e} ({:#010x})",
            found.to_bits(),
            expected.to_bits()
        );
    }
}

/// As [`equal_bits`], for sums of so many terms that may be subnormal, which a device may flush: results so small that it shows, below 2^-100, may be
/// as many of the smallest normal number off.
#[track_caller]
pub(crate) fn equal_bits_or_flushed(case: &str, found: &[f32], expected: &[f32], terms: usize) {
    let flushed = |found: f32, expected: f32| {
        let difference = (f64::from(found) - f64::from(expected)).abs();
        expected.abs() < 2.0f32.powi(-100) && difference <= terms as f64 * SMALLEST_NORMAL
    };
    let pairs = found.iter().zip(expected);
    let found: Vec<f32> =
        pairs.map(|(&found, &expected)| if flushed(found, expected) { expected } else { found }).collect();
    equal_bits(case, &found, expected);
}
