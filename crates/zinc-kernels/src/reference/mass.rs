//! Softmax weights as integers, bit for bit what `shaders/include/mass.glsl` computes: their sums do not depend on an order.

use super::random::exact_exp;
use crate::generated::sampler::PROBABILITY_ONE;

/// The weight of the highest logit.
pub const MASS_ONE: u64 = 1 << 40;

/// The softmax weight of a logit that lies `below` (a number that is not positive) the highest one: `exp(below) * 2^40`, rounded down.
///
/// # Panics
/// If `below` is positive or NaN.
#[must_use]
pub fn weight(below: f32) -> u64 {
    assert!(below <= 0.0, "a logit lies {below} above the highest one");
    if below < -28.0 {
        return 0; // 2^-40 is exp(-27.7)
    }
    let bits = exact_exp(below).to_bits();
    let (exponent, significand) = (bits >> 23, u64::from(bits & 0x7f_ffff | 0x80_0000));
    // The float is significand * 2^(exponent - 150).
    if exponent >= 110 { significand << (exponent - 110) } else { significand >> (110 - exponent) }
}

/// A probability in units of 2^-24.
#[must_use]
pub fn probability(p: f32) -> u32 {
    (f64::from(p.clamp(0.0, 1.0)) * f64::from(PROBABILITY_ONE)).round() as u32
}

/// The part `p`, in units of 2^-24, of a mass, rounded down.
#[must_use]
pub fn part(mass: u64, p: u32) -> u64 {
    ((u128::from(mass) * u128::from(p)) >> 24) as u64
}

/// The part `p`, in units of 2^-24, of a mass, rounded up.
#[must_use]
pub fn part_rounded_up(mass: u64, p: u32) -> u64 {
    (u128::from(mass) * u128::from(p)).div_ceil(u128::from(PROBABILITY_ONE)) as u64
}

/// A mass that is relative to a logit of the given weight, relative to what that weight is: their product over 2^40, rounded down.
#[must_use]
pub fn weighted(mass: u64, weight: u64) -> u64 {
    ((u128::from(mass) * u128::from(weight)) >> 40) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_are_those_of_the_exponential() {
        assert_eq!([0.0, -0.0].map(weight), [MASS_ONE; 2]);
        assert_eq!([-28.1, -1e30, f32::MIN, f32::NEG_INFINITY].map(weight), [0; 4]);
        for step in 0..28_000 {
            let below = -step as f32 * 1e-3;
            let truth = f64::from(below).exp() * MASS_ONE as f64;
            let found = weight(below) as f64;
            assert!((found - truth).abs() <= 1.0 + truth * 2.4e-7, "exp({below}) is {found} instead of {truth}");
        }
    }

    #[test]
    fn parts_of_a_mass() {
        let half = probability(0.5);
        assert_eq!((part(7, half), part_rounded_up(7, half)), (3, 4));
        assert_eq!((part(8, half), part_rounded_up(8, half)), (4, 4));
        // 2^18 candidates of the highest weight.
        let most = MASS_ONE << 18;
        assert_eq!((part(most, PROBABILITY_ONE), part_rounded_up(most, PROBABILITY_ONE)), (most, most));
        assert_eq!([-1.0, 0.0, 0.25, 1.0, 7.0, f32::NAN].map(probability)[..5], [0, 0, 1 << 22, 1 << 24, 1 << 24]);
    }
}
