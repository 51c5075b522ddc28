//! What the samplers that drop candidates keep: hand-computed cases, and their definitions in f64 for random logits.

use crate::support::data::live;
use proptest::prelude::*;
use zinc_kernels::reference::{HistoryCounts, StepLimits, adjust, survivors};
use zinc_kernels::sampler::{Breakers, SamplerSettings};
use zinc_kernels::step::Lane;

/// Ids of what is left, by falling probability.
fn kept(logits: &[f32], settings: &SamplerSettings, lane: &Lane) -> Vec<u32> {
    let tables = settings.tables(logits.len() as u32, 100, &Breakers::default()).expect("settings in their ranges");
    let (lists, moments) = adjust(logits, HistoryCounts::default(), StepLimits::default(), &tables, lane);
    survivors(&lists, &moments, &tables.params, lane).iter().map(|item| item.id).collect()
}

/// Logits of a distribution.
fn logits_of(probabilities: &[f64]) -> Vec<f32> {
    probabilities.iter().map(|p| p.ln() as f32).collect()
}

/// A distribution, a parameter, and the ids that are left.
type Case = (&'static [f64], f32, &'static [u32]);

#[track_caller]
fn check(cases: &[Case], settings: impl Fn(f32) -> SamplerSettings) {
    assert!(cases.len() >= 20, "{} cases", cases.len());
    for (probabilities, parameter, expected) in cases {
        let found = kept(&logits_of(probabilities), &settings(*parameter), &live());
        assert_eq!(found, *expected, "{parameter} of {probabilities:?}");
    }
}

const HALVES: &[f64] = &[0.5, 0.25, 0.125, 0.125];
const TENTHS: &[f64] = &[0.4, 0.3, 0.2, 0.1];
const SKEWED: &[f64] = &[0.05, 0.9, 0.03, 0.02];
const EQUAL: &[f64] = &[0.25, 0.25, 0.25, 0.25];
const PEAK: &[f64] = &[0.97, 0.01, 0.01, 0.01];

/// Min-p keeps the tokens whose probability is at least min_p times the highest one. (Nguyen et al., Turning up the heat, 2024.)
#[test]
fn published_min_p() {
    let cases: &[Case] = &[
        (HALVES, 0.0, &[0, 1, 2, 3]),  // off
        (HALVES, 0.25, &[0, 1, 2, 3]), // 0.125
        (HALVES, 0.26, &[0, 1]),       // 0.13
        (HALVES, 0.5, &[0, 1]),        // 0.25
        (HALVES, 0.51, &[0]),          // 0.255
        (HALVES, 1.0, &[0]),           // 0.5
        (TENTHS, 0.24, &[0, 1, 2, 3]), // 0.096
        (TENTHS, 0.26, &[0, 1, 2]),    // 0.104
        (TENTHS, 0.49, &[0, 1, 2]),    // 0.196
        (TENTHS, 0.51, &[0, 1]),       // 0.204
        (TENTHS, 0.74, &[0, 1]),       // 0.296
        (TENTHS, 0.76, &[0]),          // 0.304
        (SKEWED, 0.02, &[1, 0, 2, 3]), // 0.018
        (SKEWED, 0.03, &[1, 0, 2]),    // 0.027
        (SKEWED, 0.05, &[1, 0]),       // 0.045
        (SKEWED, 0.06, &[1]),          // 0.054
        (EQUAL, 0.3, &[0, 1, 2, 3]),   // 0.075
        (EQUAL, 1.0, &[0, 1, 2, 3]),   // 0.25
        (PEAK, 0.01, &[0, 1, 2, 3]),   // 0.0097
        (PEAK, 0.011, &[0]),           // 0.01067
        (&[1.0], 1.0, &[0]),
    ];
    check(cases, |min_p| SamplerSettings { min_p, ..SamplerSettings::OFF });
}

/// Typical sampling keeps the tokens whose information content -ln p is nearest to the entropy H, in that order, until their probabilities sum to
/// more than p. (Meister et al., Locally typical sampling, 2022; "more than" is llama.cpp's reading.)
#[test]
fn published_typical() {
    // -ln p is 0.69, 1.39, 2.08, 2.08 and H = 1.21: the distances 0.52, 0.17, 0.87, 0.87 make the order 1, 0, 2, 3 and the sums 0.25, 0.75, 0.875, 1.
    // Of TENTHS: 0.92, 1.20, 1.61, 2.30, H = 1.28, 0.36, 0.08, 0.33, 1.02; order 1, 2, 0, 3; sums 0.3, 0.5, 0.9, 1.
    // Of SKEWED: 3.00, 0.11, 3.51, 3.91, H = 0.43, 2.57, 0.32, 3.08, 3.48; order 1, 0, 2, 3; sums 0.9, 0.95, 0.98, 1.
    // Of EQUAL: all distances are 0, the order is that of the ids.
    // Of PEAK: 0.03, 4.61, H = 0.17, 0.14, 4.44; order 0, 1, 2, 3; sums 0.97, 0.98, 0.99, 1.
    let cases: &[Case] = &[
        (HALVES, 0.0, &[1]),
        (HALVES, 0.24, &[1]),
        (HALVES, 0.26, &[0, 1]),
        (HALVES, 0.74, &[0, 1]),
        (HALVES, 0.76, &[0, 1, 2]),
        (HALVES, 0.88, &[0, 1, 2, 3]),
        (HALVES, 1.0, &[0, 1, 2, 3]), // off
        (TENTHS, 0.2, &[1]),
        (TENTHS, 0.4, &[1, 2]),
        (TENTHS, 0.49, &[1, 2]),
        (TENTHS, 0.6, &[0, 1, 2]),
        (TENTHS, 0.95, &[0, 1, 2, 3]),
        (SKEWED, 0.5, &[1]),
        (SKEWED, 0.92, &[1, 0]),
        (SKEWED, 0.96, &[1, 0, 2]),
        (SKEWED, 0.99, &[1, 0, 2, 3]),
        (EQUAL, 0.2, &[0]),
        (EQUAL, 0.25, &[0, 1]), // 0.25 is not more than 0.25
        (EQUAL, 0.6, &[0, 1, 2]),
        (PEAK, 0.96, &[0]),
        (PEAK, 0.975, &[0, 1]),
        (&[1.0], 0.5, &[0]),
    ];
    check(cases, |typical_p| SamplerSettings { typical_p, ..SamplerSettings::OFF });
}

/// XTC drops, of the tokens whose probability is at least the threshold, all but the least probable, if there are two or more. (p-e-w,
/// oobabooga/text-generation-webui, pull request 6335, 2024.) Here it always does; of equal ones the highest id stays.
#[test]
fn published_xtc() {
    let cases: &[Case] = &[
        (TENTHS, 0.09, &[3]),                     // all four reach it
        (TENTHS, 0.15, &[2, 3]),                  // three do
        (TENTHS, 0.25, &[1, 2, 3]),               // two do
        (TENTHS, 0.35, &[0, 1, 2, 3]),            // one does
        (TENTHS, 0.45, &[0, 1, 2, 3]),            // none does
        (TENTHS, 0.51, &[0, 1, 2, 3]),            // above 0.5 it is off
        (HALVES, 0.1, &[3]),                      // four
        (HALVES, 0.2, &[1, 2, 3]),                // two
        (HALVES, 0.3, &[0, 1, 2, 3]),             // one
        (&[0.6, 0.4], 0.3, &[1]),                 // two
        (&[0.6, 0.4], 0.41, &[0, 1]),             // one
        (&[0.6, 0.4], 0.0, &[1]),                 // two
        (SKEWED, 0.01, &[3]),                     // four
        (SKEWED, 0.025, &[2, 3]),                 // three
        (SKEWED, 0.04, &[0, 2, 3]),               // two: 0.9 and 0.05
        (SKEWED, 0.06, &[1, 0, 2, 3]),            // one
        (EQUAL, 0.2, &[3]),                       // four
        (EQUAL, 0.25, &[3]),                      // four: 0.25 is at least 0.25
        (EQUAL, 0.3, &[0, 1, 2, 3]),              // none
        (PEAK, 0.005, &[3]),                      // four
        (PEAK, 0.02, &[0, 1, 2, 3]),              // one
        (&[0.34, 0.33, 0.33], 0.32, &[2]),        // three
        (&[0.34, 0.33, 0.33], 0.335, &[0, 1, 2]), // one
        (&[1.0], 0.1, &[0]),
    ];
    check(cases, |xtc_threshold| SamplerSettings { xtc_probability: 1.0, xtc_threshold, ..SamplerSettings::OFF });
    let never = SamplerSettings { xtc_probability: 0.0, xtc_threshold: 0.09, ..SamplerSettings::OFF };
    assert_eq!(kept(&logits_of(TENTHS), &never, &live()), [0, 1, 2, 3]);
}

/// XTC acts with its probability, whatever is drawn at the same position.
#[test]
fn xtc_acts_as_often_as_it_is_asked_to() {
    const POSITIONS: u32 = 40_000;
    for xtc_probability in [0.1, 0.5, 0.9] {
        let settings = SamplerSettings { xtc_probability, ..SamplerSettings::OFF };
        let acts = |position| kept(&[1.0, 1.0], &settings, &Lane { position, seed_low: 5, ..live() }).len() == 1;
        let found = (0..POSITIONS).filter(|position| acts(*position)).count() as f64;
        let (n, p) = (f64::from(POSITIONS), f64::from(xtc_probability));
        // Four standard deviations; the seed is fixed.
        assert!((found - n * p).abs() < 4.0 * (n * p * (1.0 - p)).sqrt(), "{found} of {POSITIONS} for {p}");
    }
}

/// The definitions, in f64. `None` where a decision is so near to its edge that rounding may turn it.
mod definition {
    use super::SamplerSettings;

    /// Ids and logits by falling logit, then by id.
    type Tokens = Vec<(u32, f64)>;

    fn probabilities(tokens: &Tokens) -> Vec<f64> {
        let highest = tokens[0].1;
        let weights: Vec<f64> = tokens.iter().map(|(_, logit)| (logit - highest).exp()).collect();
        let total: f64 = weights.iter().sum();
        weights.iter().map(|weight| weight / total).collect()
    }

    /// Relative to 1, sums of weights are off by 2^-24 for the parameter, and by 2^-40 and a float's rounding for each weight.
    const EDGE: f64 = 1e-5;

    fn is_clear(distance: f64) -> Option<()> {
        (distance.abs() > EDGE).then_some(())
    }

    /// How many it takes until the sum of their probabilities passes p.
    fn until(probabilities: impl Iterator<Item = f64>, p: f64) -> Option<usize> {
        let mut sum = 0.0;
        let mut count = 0;
        for probability in probabilities {
            sum += probability;
            count += 1;
            is_clear(sum - p)?;
            if sum > p {
                break;
            }
        }
        Some(count)
    }

    pub(super) fn kept(logits: &[f32], settings: &SamplerSettings) -> Option<Vec<u32>> {
        let mut tokens: Tokens = (0..).zip(logits.iter().map(|logit| f64::from(*logit))).collect();
        tokens.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        let parameter = |p: f32| f64::from(p);
        if settings.top_n_sigma > 0.0 {
            let n = tokens.len() as f64;
            let mean = tokens.iter().map(|token| token.1).sum::<f64>() / n;
            let variance = tokens.iter().map(|token| (token.1 - mean).powi(2)).sum::<f64>() / n;
            let least = tokens[0].1 - parameter(settings.top_n_sigma) * variance.sqrt();
            // Logits are rounded to 2^-10, the deviation as well.
            let edge = 2e-3 * (1.0 + parameter(settings.top_n_sigma));
            tokens.iter().skip(1).all(|token| (token.1 - least).abs() > edge).then_some(())?;
            tokens.retain(|token| token.1 >= least);
        }
        if settings.top_k > 0 {
            tokens.truncate(settings.top_k as usize);
        }
        if settings.typical_p < 1.0 {
            let mut places: Vec<(f64, usize)> = Vec::new();
            let p = probabilities(&tokens);
            let entropy: f64 = p.iter().map(|p| -p * p.ln()).sum();
            places.extend(p.iter().enumerate().map(|(index, p)| ((-p.ln() - entropy).abs(), index)));
            places.sort_by(|a, b| a.0.total_cmp(&b.0).then(tokens[a.1].0.cmp(&tokens[b.1].0)));
            for pair in places.windows(2) {
                let equal = tokens[pair[0].1].1 == tokens[pair[1].1].1;
                (equal || pair[1].0 - pair[0].0 > EDGE).then_some(())?;
            }
            let count = until(places.iter().map(|place| p[place.1]), parameter(settings.typical_p))?;
            let mut indices: Vec<usize> = places[..count].iter().map(|place| place.1).collect();
            indices.sort_unstable();
            tokens = indices.into_iter().map(|index| tokens[index]).collect();
        }
        if settings.top_p < 1.0 {
            let count = until(probabilities(&tokens).into_iter(), parameter(settings.top_p))?;
            tokens.truncate(count);
        }
        if settings.min_p > 0.0 {
            let least = tokens[0].1 + parameter(settings.min_p).ln();
            tokens.iter().skip(1).try_for_each(|token| is_clear(token.1 - least))?;
            tokens.retain(|token| token.1 >= least);
        }
        if settings.xtc_probability == 1.0 && settings.xtc_threshold <= 0.5 {
            let p = probabilities(&tokens);
            p.iter().try_for_each(|p| is_clear(p - parameter(settings.xtc_threshold)))?;
            let reach = p.iter().filter(|p| **p >= parameter(settings.xtc_threshold)).count();
            tokens.drain(..reach.max(1) - 1);
        }
        Some(tokens.into_iter().map(|token| token.0).collect())
    }
}

fn some_settings() -> impl Strategy<Value = SamplerSettings> {
    let sometimes = |strategy: BoxedStrategy<f32>, off: f32| prop_oneof![Just(off), strategy].boxed();
    let unit = || (0.0f32..1.0).boxed();
    (
        sometimes((0.1f32..3.0).boxed(), -1.0),
        prop_oneof![Just(0), 1..60i32],
        sometimes(unit(), 1.0),
        sometimes(unit(), 1.0),
        sometimes((0.0f32..0.5).boxed(), 0.0),
        sometimes(Just(1.0f32).boxed(), 0.0),
        0.0f32..0.3,
    )
        .prop_map(|(top_n_sigma, top_k, typical_p, top_p, min_p, xtc_probability, xtc_threshold)| {
            SamplerSettings {
                top_n_sigma,
                top_k,
                typical_p,
                top_p,
                min_p,
                xtc_probability,
                xtc_threshold,
                ..SamplerSettings::OFF
            }
        })
}

/// Logits of several spreads, some of them equal to others.
fn some_logits() -> impl Strategy<Value = Vec<f32>> {
    let spread = prop_oneof![Just(0.1f32), Just(2.0), Just(10.0)];
    (spread, prop::collection::vec(prop_oneof![3 => -1.0f32..1.0, 1 => (-3..3i32).prop_map(|x| x as f32 / 4.0)], 1..80))
        .prop_map(|(spread, logits)| logits.into_iter().map(|logit| logit * spread).collect())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4_000, max_global_rejects: 40_000, ..ProptestConfig::default() })]

    #[test]
    fn what_is_kept_is_what_the_definitions_say(logits in some_logits(), settings in some_settings()) {
        let expected = definition::kept(&logits, &settings);
        prop_assume!(expected.is_some());
        prop_assert_eq!(Some(kept(&logits, &settings, &live())), expected);
    }

    #[test]
    fn at_least_one_is_kept(
        logits in prop::collection::vec(any::<f32>().prop_filter("finite", |x| x.is_finite()), 1..80),
        settings in some_settings(),
    ) {
        let found = kept(&logits, &settings, &live());
        prop_assert!(!found.is_empty());
        prop_assert!(settings.top_k == 0 || found.len() <= settings.top_k as usize);
    }
}
