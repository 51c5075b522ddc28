//! The random numbers of sampling, and a logarithm and an exponential, bit for bit what `shaders/include/random.glsl` computes: Rust never
//! contracts a product and a sum.

/// Natural logarithm of a positive normal number: Cephes' `logf` (S. Moshier), restated with plain additions and multiplications.
/// Within 2 units in the last place of the true value on the range that [`gumbel`] needs.
#[must_use]
pub fn exact_log(x: f32) -> f32 {
    let bits = x.to_bits();
    let mut exponent = (bits >> 23) as i32 - 126;
    let mut m = f32::from_bits((bits & 0x7f_ffff) | 0x3f00_0000);
    if m < std::f32::consts::FRAC_1_SQRT_2 {
        exponent -= 1;
        m += m;
    }
    const COEFFICIENTS: [f32; 9] = [
        7.037_683_6e-2,
        -1.151_461e-1,
        1.167_699_87e-1,
        -1.242_014_1e-1,
        1.424_932_3e-1,
        -1.666_805_7e-1,
        2.000_071_4e-1,
        -2.499_999_4e-1,
        3.333_333e-1,
    ];
    let f = m - 1.0;
    let z = f * f;
    let polynomial = COEFFICIENTS[1..].iter().fold(COEFFICIENTS[0], |y, c| y * f + c);
    let e = exponent as f32;
    let y = polynomial * f * z + e * -2.121_944_4e-4 - z * 0.5;
    f + y + e * 0.693_359_4
}

/// The exponential of a number from -87 to 87, so that it is normal: Cephes' `expf` (S. Moshier), restated with plain additions and
/// multiplications. Within 2 units in the last place of the true value.
#[must_use]
pub fn exact_exp(x: f32) -> f32 {
    const COEFFICIENTS: [f32; 6] = [1.987_569_1e-4, 1.398_199_9e-3, 8.333_452e-3, 4.166_579_6e-2, 1.666_666_5e-1, 0.5];
    let scaled = x * std::f32::consts::LOG2_E + 0.5;
    let exponent = scaled.floor();
    let f = x - exponent * 0.693_359_4 - exponent * -2.121_944_4e-4;
    let polynomial = COEFFICIENTS[1..].iter().fold(COEFFICIENTS[0], |y, c| y * f + c);
    let y = polynomial * (f * f) + f + 1.0;
    f32::from_bits(y.to_bits().wrapping_add(((exponent as i32) << 23) as u32))
}

/// Philox4x32-10 (Salmon, Moraes, Dror, Shaw: Parallel random numbers: as easy as 1, 2, 3; SC 2011).
#[must_use]
pub fn philox(mut counter: [u32; 4], mut key: [u32; 2]) -> [u32; 4] {
    for _ in 0..10 {
        let product0 = u64::from(counter[0]) * 0xD251_1F53;
        let product1 = u64::from(counter[2]) * 0xCD9E_8D57;
        counter = [
            (product1 >> 32) as u32 ^ counter[1] ^ key[0],
            product1 as u32,
            (product0 >> 32) as u32 ^ counter[3] ^ key[1],
            product0 as u32,
        ];
        key = [key[0].wrapping_add(0x9E37_79B9), key[1].wrapping_add(0xBB67_AE85)];
    }
    counter
}

/// A Gumbel variate from 23 random bits: `-log(-log(u))` with `u` at the middle of its 2^-23 interval, so that neither logarithm sees 0 or 1.
#[must_use]
pub fn gumbel(random: u32) -> f32 {
    let u = ((random >> 9) as f32 + 0.5) * 1.192_092_9e-7;
    -exact_log(-exact_log(u))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Known answers published with the Random123 library.
    #[test]
    fn philox_gives_the_published_values() {
        assert_eq!(philox([0; 4], [0; 2]), [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]);
        assert_eq!(philox([u32::MAX; 4], [u32::MAX; 2]), [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]);
    }

    #[test]
    fn the_logarithm_is_close_to_the_true_one() {
        for step in 1..200_000u32 {
            let x = step as f32 * 1e-4;
            let truth = f64::from(x).ln();
            let error = (f64::from(exact_log(x)) - truth).abs();
            assert!(error <= 2.4e-7 * truth.abs().max(0.1), "log({x}) = {} is off by {error}", exact_log(x));
        }
    }

    #[test]
    fn the_exponential_is_close_to_the_true_one() {
        for step in -870_000..=870_000i32 {
            let x = step as f32 * 1e-4;
            let truth = f64::from(x).exp();
            let error = (f64::from(exact_exp(x)) - truth).abs();
            assert!(error <= 2.4e-7 * truth, "exp({x}) = {} is off by {error}", exact_exp(x));
        }
        assert_eq!([0.0, -0.0, f32::MIN_POSITIVE / 4.0].map(exact_exp), [1.0; 3]);
    }

    #[test]
    fn gumbel_variates_are_finite_at_both_ends() {
        assert!((-2.9..-2.7).contains(&gumbel(0)), "{}", gumbel(0));
        assert!((16.0..17.0).contains(&gumbel(u32::MAX)), "{}", gumbel(u32::MAX));
    }
}
