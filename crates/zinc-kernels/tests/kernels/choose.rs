//! The sampler chain against its reference: every stage compares bit for bit.

use crate::support::Gpu;
use crate::support::chain::{Case, tables};
use crate::support::data::{Random, live};
use zinc_kernels::generated::candidates::NO_ID;
use zinc_kernels::reference::{Candidate, StepLimits};
use zinc_kernels::sampler::{Breakers, SamplerSettings};
use zinc_kernels::step::Lane;
use zinc_kernels::{Target, Tuning};

/// Vocabularies of one share and of several, whole and not.
const VOCABULARIES: [usize; 6] = [1, 2, 31, 1_031, 2_049, 8_192];

fn drawing(temperature: f32, seed: u32) -> Lane {
    Lane { inverse_temperature: 1.0 / temperature, seed_low: seed, seed_high: 77, ..live() }
}

/// Every sampler alone, at its edges, and together.
fn settings() -> Vec<(&'static str, SamplerSettings)> {
    let off = SamplerSettings::OFF;
    let all = SamplerSettings {
        penalty_repeat: 1.1,
        penalty_freq: 0.2,
        penalty_present: 0.3,
        dry_multiplier: 0.8,
        top_n_sigma: 2.5,
        top_k: 40,
        typical_p: 0.95,
        top_p: 0.9,
        min_p: 0.02,
        xtc_probability: 0.5,
        xtc_threshold: 0.05,
        ..off.clone()
    };
    vec![
        ("off", off.clone()),
        ("top-n-sigma 1", SamplerSettings { top_n_sigma: 1.0, ..off.clone() }),
        ("top-n-sigma 0.001", SamplerSettings { top_n_sigma: 0.001, ..off.clone() }),
        ("top-n-sigma 100", SamplerSettings { top_n_sigma: 100.0, ..off.clone() }),
        ("top-k 1", SamplerSettings { top_k: 1, ..off.clone() }),
        ("top-k 40", SamplerSettings { top_k: 40, ..off.clone() }),
        ("top-k 1500", SamplerSettings { top_k: 1_500, ..off.clone() }),
        ("top-k beyond the vocabulary", SamplerSettings { top_k: i32::MAX, ..off.clone() }),
        ("typical 0", SamplerSettings { typical_p: 0.0, ..off.clone() }),
        ("typical 0.5", SamplerSettings { typical_p: 0.5, ..off.clone() }),
        ("typical 0.999", SamplerSettings { typical_p: 0.999, ..off.clone() }),
        ("top-p 0", SamplerSettings { top_p: 0.0, ..off.clone() }),
        ("top-p 0.5", SamplerSettings { top_p: 0.5, ..off.clone() }),
        ("top-p 0.9999999", SamplerSettings { top_p: 0.999_999_9, ..off.clone() }),
        ("min-p 0.1", SamplerSettings { min_p: 0.1, ..off.clone() }),
        ("min-p 1", SamplerSettings { min_p: 1.0, ..off.clone() }),
        ("XTC", SamplerSettings { xtc_probability: 1.0, xtc_threshold: 0.01, ..off.clone() }),
        ("XTC 0", SamplerSettings { xtc_probability: 1.0, xtc_threshold: 0.0, ..off.clone() }),
        ("XTC, sometimes", SamplerSettings { xtc_probability: 0.3, ..off }),
        ("all", all.clone()),
        ("all but top-k", SamplerSettings { top_k: 0, ..all }),
    ]
}

/// Runs every set of samplers, greedy and with temperature.
#[track_caller]
fn check(name: &str, logits: &[f32]) -> Vec<Candidate> {
    let mut chosen = Vec::new();
    for (samplers, settings) in settings() {
        let tables = tables(&settings, logits.len(), &Breakers::default());
        for (index, lane) in [live(), drawing(0.8, 3)].into_iter().enumerate() {
            let last = logits.len() as u32 - 1;
            let case = Case {
                logits,
                tokens: &[0, last, 0, last, 0],
                drafts: 0,
                tables: &tables,
                limits: StepLimits::default(),
                lane,
            };
            chosen.extend(case.check(&format!("{name}, {samplers}, lane {index}")));
        }
    }
    chosen
}

#[test]
fn every_sampler_alone_and_together() {
    for vocabulary in VOCABULARIES {
        let name = format!("{vocabulary} ids");
        for spread in [0.01, 3.0, 30.0] {
            check(&format!("{name}, spread {spread}"), &Random::new(&name).vector(vocabulary, spread));
        }
    }
}

#[test]
fn ties() {
    for vocabulary in [31, 2_049, 8_192] {
        check("all equal", &vec![-3.5; vocabulary]);
        for distinct in [1, 3] {
            let name = format!("{vocabulary} ids, {distinct} values");
            check(&name, &Random::new(&name).whole(vocabulary, distinct));
        }
    }
}

#[test]
fn logits_that_are_not_finite() {
    for vocabulary in [5, 2_049] {
        let mut logits = Random::new("not finite").vector(vocabulary, 5.0);
        logits[vocabulary / 2] = f32::NEG_INFINITY;
        check("one forbidden", &logits);
        logits[0] = f32::NAN;
        logits[vocabulary - 1] = f32::INFINITY;
        assert!(
            check("NaN and infinity", &logits).iter().all(|best| best.non_finite == 2 && best.id < vocabulary as u32)
        );
        assert!(
            check("nothing allowed", &vec![f32::NEG_INFINITY; vocabulary])
                .iter()
                .all(|best| (best.id, best.non_finite) == (NO_ID, 0))
        );
        assert!(
            check("nothing but NaN", &vec![f32::NAN; vocabulary])
                .iter()
                .all(|best| (best.id, best.non_finite) == (NO_ID, vocabulary as u32))
        );
        let mut only = vec![f32::NEG_INFINITY; vocabulary];
        only[vocabulary / 2] = -1e30;
        assert!(check("one allowed", &only).iter().all(|best| best.id == vocabulary as u32 / 2));
    }
}

/// The vocabulary of a real model, with logits like one's: a few likely tokens far above the others.
#[test]
fn a_large_vocabulary() {
    let vocabulary = 151_936;
    let mut random = Random::new("a large vocabulary");
    let logits: Vec<f32> = (0..vocabulary)
        .map(|_| (0..8).map(|_| random.unit()).sum::<f32>() * 2.0 + if random.below(4_000) == 0 { 12.0 } else { 0.0 })
        .collect();
    for (samplers, settings) in settings() {
        let tables = tables(&settings, vocabulary, &Breakers::default());
        let tokens = [3, 9, 3, 9, 3];
        let (limits, lane) = (StepLimits::default(), drawing(0.8, 11));
        Case { logits: &logits, tokens: &tokens, drafts: 0, tables: &tables, limits, lane }.check(samplers);
    }
}

/// Workgroups from the smallest that a device may allow to the largest, and candidates one or four at a time.
#[test]
fn any_launch_shape() {
    let target = Gpu::get().target();
    for (max_workgroup, candidates_at_a_time) in [(256, 1), (target.max_workgroup, 4)] {
        let tuning = Tuning { candidates_at_a_time, ..target.tuning };
        let target = Target { max_workgroup, tuning, ..target };
        for (samplers, settings) in settings() {
            let logits = Random::new(samplers).vector(5_000, 4.0);
            let tables = tables(&settings, logits.len(), &Breakers::default());
            let (limits, lane) = (StepLimits::default(), drawing(1.2, 6));
            let case = Case { logits: &logits, tokens: &[1, 2, 1, 2, 1], drafts: 2, tables: &tables, limits, lane };
            case.check_on(&format!("{samplers}, {max_workgroup} threads, {candidates_at_a_time} at a time"), &target);
        }
    }
}
