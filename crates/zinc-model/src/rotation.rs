//! The table of rotary angles: cosines and sines in double precision, rounded once.
//!
//! The pair `i` of a head turns by `f_i = base^(-2 i / dims)` for each position, and what it gets from `rope_freqs.weight` divides `f_i`. Linear
//! scaling by `s` divides the position by `s`. YaRN (arXiv 2309.00071) divides the frequencies of slow pairs by `s`, keeps those of fast pairs,
//! blends between them, and multiplies cosines and sines with a factor that sharpens the scores of attention:
//!
//! ```text
//! h_i = f_i (g_i + (1 - g_i) / s)            g_i = e clamp((high - i) / (high - low), 0, 1)
//! low  = floor(pair(beta_fast)), 0 at least  high = ceil(pair(beta_slow)), dims - 1 at most, or both without floor and ceil
//! pair(b) = dims ln(L / (2 pi b)) / (2 ln base)
//! m = a (0.1 ln s + 1), or a alone where e = 0
//! ```
//!
//! `pair(b)` is the pair, as a real number, that turns around `b` times within the original context of `L` positions; `e` is the share of
//! extrapolation and `a` the attention factor. The paper blends along the number of turns. The programs of its authors, Hugging Face's transformers and
//! llama.cpp blend along the number of the pair, between whole pairs, and models are trained with that, so it is done here. gpt-oss is trained with a blend that begins and ends
//! between pairs ([`Yarn::whole_pairs`]).

use std::f64::consts::TAU;

use crate::config::{ModelConfig, Rope, RopeScaling, Yarn};

/// `[context][rope.dims / 2]` pairs (cos, sin) of what each pair of elements turns by at each position, in the scaling that the model has. `factors`,
/// `[rope.dims / 2]`, divides the frequencies (`rope_freqs.weight` of LLaMA 3).
#[must_use]
pub fn rotation_table(config: &ModelConfig, factors: Option<&[f32]>, context: u32) -> Vec<[f32; 2]> {
    let rope = &config.rope;
    let (position_scale, magnitude) = match rope.scaling {
        RopeScaling::None => (1.0, 1.0),
        RopeScaling::Linear { factor } => (1.0 / f64::from(factor), 1.0),
        RopeScaling::Yarn(yarn) => (1.0, magnitude(&yarn)),
    };
    let frequencies: Vec<f64> = (0..rope.dims / 2)
        .map(|pair| {
            let frequency = f64::from(rope.base).powf(-2.0 * f64::from(pair) / f64::from(rope.dims));
            let frequency = frequency / factors.map_or(1.0, |f| f64::from(f[pair as usize]));
            match rope.scaling {
                RopeScaling::None | RopeScaling::Linear { .. } => frequency,
                RopeScaling::Yarn(yarn) => {
                    let kept = kept_share(rope, &yarn, pair);
                    frequency * (kept + (1.0 - kept) / f64::from(yarn.factor))
                }
            }
        })
        .collect();
    (0..context)
        .flat_map(|position| {
            let position = f64::from(position) * position_scale;
            frequencies.iter().map(move |frequency| {
                let (sine, cosine) = (position * frequency).sin_cos();
                [(cosine * magnitude) as f32, (sine * magnitude) as f32]
            })
        })
        .collect()
}

/// `m`: what cosines and sines are multiplied with, so that the scores of attention are multiplied with its square.
fn magnitude(yarn: &Yarn) -> f64 {
    let sharpened = if yarn.extrapolation == 0.0 { 1.0 } else { 0.1 * f64::from(yarn.factor).ln() + 1.0 };
    f64::from(yarn.attention_factor) * sharpened
}

/// `g_i`: the share of its own frequency that a pair keeps, from 0 to 1.
fn kept_share(rope: &Rope, yarn: &Yarn, pair: u32) -> f64 {
    let dims = f64::from(rope.dims);
    let pair_turning = |turns: f32| {
        let periods = f64::from(yarn.original_context) / (TAU * f64::from(turns));
        dims * periods.ln() / (2.0 * f64::from(rope.base).ln())
    };
    let (low, high) = (pair_turning(yarn.beta_fast), pair_turning(yarn.beta_slow));
    let (low, high) = if yarn.whole_pairs { (low.floor(), high.ceil()) } else { (low, high) };
    let (low, high) = (low.max(0.0), high.min(dims - 1.0));
    // Where both are the same pair, the step from fast to slow is steep instead of infinite, as in the programs named above.
    let stretched = (f64::from(pair) - low) / (high - low).max(0.001);
    f64::from(yarn.extrapolation) * (1.0 - stretched.clamp(0.0, 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::RopePairing;

    /// The rope of gpt-oss, but for its blend, which here is between whole pairs.
    const ROPE: Rope =
        Rope { base: 150_000.0, dims: 64, pairing: RopePairing::Halves, scaling: RopeScaling::Yarn(YARN) };
    const YARN: Yarn = Yarn {
        factor: 32.0,
        original_context: 4096,
        extrapolation: 1.0,
        attention_factor: 1.0,
        beta_fast: 32.0,
        beta_slow: 1.0,
        whole_pairs: true,
    };

    /// The pairs that turn around 32 times and once within 4,096 positions are 8.09 and 17.40.
    #[test]
    fn pairs_are_kept_blended_and_stretched_between_the_betas() {
        for (pair, kept) in [(0, 1.0), (8, 1.0), (9, 0.9), (13, 0.5), (17, 0.1), (18, 0.0), (31, 0.0)] {
            let found = kept_share(&ROPE, &YARN, pair);
            assert!((found - kept).abs() < 1e-12, "pair {pair}: {found}");
        }
        let exact = Yarn { whole_pairs: false, ..YARN };
        for (pair, kept) in [(0, 1.0), (8, 1.0), (9, 0.902_504), (13, 0.472_639), (17, 0.042_774), (18, 0.0)] {
            let found = kept_share(&ROPE, &exact, pair);
            assert!((found - kept).abs() < 1e-6, "pair {pair}: {found}");
        }
        let half = Yarn { extrapolation: 0.5, ..YARN };
        assert!((kept_share(&ROPE, &half, 9) - 0.45).abs() < 1e-12);
        // All pairs are slow where the original context is short, and fast where it is long.
        let pairs = |original_context| {
            let yarn = Yarn { original_context, ..YARN };
            (0..32).map(|pair| kept_share(&ROPE, &yarn, pair)).collect::<Vec<f64>>()
        };
        assert_eq!(pairs(1)[1..], [0.0; 31]);
        assert_eq!(pairs(1 << 30), [1.0; 32]);
    }

    #[test]
    fn scores_are_sharpened_by_the_logarithm_of_the_factor() {
        assert!((magnitude(&YARN) - 1.346_573_590).abs() < 1e-9);
        assert!((magnitude(&Yarn { attention_factor: 0.5, ..YARN }) - 0.673_286_795).abs() < 1e-9);
        assert!((magnitude(&Yarn { factor: 1.0, ..YARN }) - 1.0).abs() < 1e-12);
        assert!((magnitude(&Yarn { extrapolation: 0.0, attention_factor: 0.75, ..YARN }) - 0.75).abs() < 1e-12);
    }
}
