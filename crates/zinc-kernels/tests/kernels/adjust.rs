//! `adjust`: hand-computed penalties, biases, masks and drafts, and what the lists hold. All of it on the device, too, bit for bit.

use crate::support::chain::{Case, tables};
use crate::support::data::{Random, live};
use zinc_kernels::generated::shares::SHARE_IDS;
use zinc_kernels::reference::{ShareList, StepLimits};
use zinc_kernels::sampler::{Bias, Breakers, SamplerSettings};

const OFF: SamplerSettings = SamplerSettings::OFF;

/// Runs a case with no temperature on both sides; the lists.
#[track_caller]
fn lists(
    name: &str,
    logits: &[f32],
    tokens: &[u32],
    settings: &SamplerSettings,
    limits: StepLimits<'_>,
) -> Vec<ShareList> {
    let tables = tables(settings, logits.len(), &Breakers::default());
    let case = Case { logits, tokens, drafts: 0, tables: &tables, limits, lane: live() };
    case.check(name);
    case.on_the_host(0).lists
}

/// Logits that a history of tokens changes. The repetition penalty is that of Keskar et al. (CTRL, 2019), with the usual remedy for negative
/// logits, which are multiplied and not divided; frequency and presence penalties are OpenAI's: logit - count * frequency - (count > 0) * presence.
#[test]
fn published_penalties() {
    const LOGITS: [f32; 4] = [2.0, -2.0, 1.0, 0.0];
    let repeat = |penalty_repeat| SamplerSettings { penalty_repeat, ..OFF };
    let freq = |penalty_freq| SamplerSettings { penalty_freq, ..OFF };
    let present = |penalty_present| SamplerSettings { penalty_present, ..OFF };
    let window = |penalty_last_n, settings| SamplerSettings { penalty_last_n, ..settings };
    let three = SamplerSettings { penalty_repeat: 2.0, penalty_freq: 0.25, penalty_present: 0.5, ..OFF };
    let cases: [(&str, SamplerSettings, &[u32], [f32; 4]); 24] = [
        ("a positive logit is divided", repeat(2.0), &[0], [1.0, -2.0, 1.0, 0.0]),
        ("a negative logit is multiplied", repeat(2.0), &[1], [2.0, -4.0, 1.0, 0.0]),
        ("zero stays", repeat(2.0), &[3], LOGITS),
        ("however often it occurred", repeat(2.0), &[0, 0, 0], [1.0, -2.0, 1.0, 0.0]),
        ("all have occurred", repeat(2.0), &[3, 2, 1, 0], [1.0, -4.0, 0.5, 0.0]),
        ("a reward", repeat(0.5), &[0, 1], [4.0, -1.0, 1.0, 0.0]),
        ("repeat 1 is off", repeat(1.0), &[0, 1, 2, 3], LOGITS),
        ("once", freq(0.5), &[0], [1.5, -2.0, 1.0, 0.0]),
        ("three times", freq(0.5), &[0, 0, 0], [0.5, -2.0, 1.0, 0.0]),
        ("once and twice", freq(0.5), &[1, 0, 1], [1.5, -3.0, 1.0, 0.0]),
        ("a reward for frequency", freq(-0.5), &[3, 3], [2.0, -2.0, 1.0, 1.0]),
        ("present", present(0.75), &[0], [1.25, -2.0, 1.0, 0.0]),
        ("present three times", present(0.75), &[0, 0, 0], [1.25, -2.0, 1.0, 0.0]),
        ("a reward for presence", present(-1.0), &[1], [2.0, -1.0, 1.0, 0.0]),
        (
            "frequency and presence: 1 - 2 * 0.25 - 0.5",
            SamplerSettings { penalty_repeat: 1.0, ..three.clone() },
            &[2, 2],
            [2.0, -2.0, 0.0, 0.0],
        ),
        ("all three: 2 / 2 - 2 * 0.25 - 0.5", three.clone(), &[0, 0], [0.0, -2.0, 1.0, 0.0]),
        ("all three: -2 * 2 - 0.25 - 0.5", three.clone(), &[1], [2.0, -4.75, 1.0, 0.0]),
        ("all three: 0 - 3 * 0.25 - 0.5", three.clone(), &[3, 3, 3], [2.0, -2.0, 1.0, -1.25]),
        ("the last two count", window(2, repeat(2.0)), &[0, 1, 2], [2.0, -4.0, 0.5, 0.0]),
        ("the last one counts", window(1, freq(0.5)), &[0, 0, 0], [1.5, -2.0, 1.0, 0.0]),
        ("none counts", window(0, three), &[0, 1, 2, 3], LOGITS),
        ("all count", window(-1, freq(0.5)), &[0, 1, 2, 3, 0], [1.0, -2.5, 0.5, -0.5]),
        ("more than there are", window(64, present(1.0)), &[2], [2.0, -2.0, 0.0, 0.0]),
        (
            "the bias comes first: (-2 + 3) / 2",
            SamplerSettings { logit_bias: vec![(1, 2.0), (1, 1.0)], ..repeat(2.0) },
            &[1],
            [2.0, 0.5, 1.0, 0.0],
        ),
    ];
    for (name, settings, history, expected) in cases {
        let lists = lists(name, &LOGITS, history, &settings, StepLimits::default());
        let found: Vec<f32> = lists[0].items.iter().map(|item| item.logit).collect();
        assert_eq!(found, expected, "{name}");
    }
}

#[test]
fn biases_of_the_sequence_and_of_the_step() {
    let vocabulary = 5_000;
    let logits = Random::new("biases").vector(vocabulary, 4.0);
    let last = vocabulary as u32 - 1;
    let settings = SamplerSettings {
        logit_bias: vec![(last, -3.0), (2_047, 2.0), (2_048, 1.5), (0, f32::NEG_INFINITY), (7, 100.0)],
        ..OFF
    };
    let step = [Bias { id: 7, bias: -200.0 }, Bias { id: 8, bias: f32::NEG_INFINITY }, Bias { id: last, bias: 50.0 }];
    let limits = StepLimits { mask: None, biases: &step };
    let lists = lists("biases", &logits, &[0], &settings, limits);
    let logit = |id: u32| lists.iter().flat_map(|list| &list.items).find(|item| item.id == id).map(|item| item.logit);
    assert_eq!((logit(0), logit(8)), (None, None), "forbidden tokens");
    assert_eq!(logit(7), Some(logits[7] + 100.0 - 200.0));
    assert_eq!(logit(2_048), Some(logits[2_048] + 1.5));
    assert_eq!(logit(last), Some(logits[last as usize] - 3.0 + 50.0));
    assert_eq!(logit(1), Some(logits[1]));
}

/// As many biases as a step can have, for a vocabulary with several shares.
#[test]
fn many_biases() {
    let mut random = Random::new("many biases");
    let logits = random.vector(9_000, 4.0);
    let step: Vec<Bias> = (0..1_024).map(|index| Bias { id: index * 8 + 3, bias: random.unit() * 3.0 }).collect();
    let settings = SamplerSettings {
        logit_bias: (0..3_000).map(|index| (index * 3, random.unit())).collect(),
        penalty_repeat: 1.2,
        ..OFF
    };
    lists("many biases", &logits, &[3, 9, 4], &settings, StepLimits { mask: None, biases: &step });
}

#[test]
fn masks() {
    for vocabulary in [1, 31, 32, 33, 2_049, 5_000] {
        let mut random = Random::new("masks");
        let logits = random.vector(vocabulary, 4.0);
        for likely in [0, 1, 2, 30] {
            let mask: Vec<u32> = (0..vocabulary.div_ceil(32))
                .map(|_| (0..32).fold(0, |word, bit| word | u32::from(random.below(32) < likely) << bit))
                .collect();
            let name = format!("{vocabulary} tokens, {likely} of 32 allowed");
            let lists = lists(&name, &logits, &[0], &OFF, StepLimits { mask: Some(&mask), biases: &[] });
            let ids: Vec<u32> = lists.iter().flat_map(|list| &list.items).map(|item| item.id).collect();
            let allowed: Vec<u32> =
                (0..vocabulary as u32).filter(|id| mask[*id as usize / 32] >> (id % 32) & 1 == 1).collect();
            assert_eq!(ids, allowed, "{name}");
        }
    }
}

/// A token that the mask forbids does not hide that its logit is not finite.
#[test]
fn masked_logits_that_are_not_finite() {
    let logits = [f32::NAN, 1.0, f32::INFINITY];
    let lists = lists("masked", &logits, &[0], &OFF, StepLimits { mask: Some(&[0b010]), biases: &[] });
    assert_eq!((lists[0].share.non_finite, lists[0].share.listed), (2, 1));
}

/// Each row sees the drafts before it in the window, and what they push out of it.
#[test]
fn drafts_move_the_window() {
    let mut random = Random::new("drafts");
    for vocabulary in [3, 40, 2_500] {
        let logits = random.vector(vocabulary, 4.0);
        let tokens: Vec<u32> = (0..60).map(|_| random.below(vocabulary) as u32).collect();
        for penalty_last_n in [-1, 1, 2, 3, 7, 8, 52, 53, 64] {
            let settings = SamplerSettings {
                penalty_last_n,
                penalty_repeat: 1.3,
                penalty_freq: 0.25,
                penalty_present: -0.5,
                top_k: 5,
                ..OFF
            };
            let tables = tables(&settings, vocabulary, &Breakers::default());
            for drafts in [1, 15] {
                let lane = live();
                let limits = StepLimits::default();
                let case = Case { logits: &logits, tokens: &tokens, drafts, tables: &tables, limits, lane };
                case.check(&format!("{vocabulary} tokens, the last {penalty_last_n}, {drafts} drafts"));
            }
        }
    }
}

/// With top-k a list holds the k highest of its share, and little more where values differ.
#[test]
fn lists_are_cut() {
    let vocabulary = 3 * SHARE_IDS as usize - 100;
    let logits = Random::new("lists").vector(vocabulary, 8.0);
    for top_k in [1, 2, 40, 500, 2_047] {
        let settings = SamplerSettings { top_k, ..OFF };
        for list in lists("cut", &logits, &[0], &settings, StepLimits::default()) {
            let k = (top_k as u32).min(list.share.finite);
            assert!((k..=k + k / 4 + 50).contains(&list.share.listed), "top {top_k}: {:?}", list.share);
            let mut share: Vec<f32> = logits
                .chunks(SHARE_IDS as usize)
                .nth(list.items[0].id as usize / SHARE_IDS as usize)
                .expect("a share of the vocabulary")
                .to_vec();
            share.sort_by(|a, b| b.total_cmp(a));
            let mut listed: Vec<f32> = list.items.iter().map(|item| item.logit).collect();
            listed.sort_by(|a, b| b.total_cmp(a));
            assert_eq!(listed, share[..listed.len()], "top {top_k}");
        }
    }
}

/// Subnormal logits, the largest ones, and what overflows.
#[test]
fn extremes() {
    let smallest = f32::from_bits(1);
    let logits = [smallest, -smallest, f32::MIN_POSITIVE, -0.0, 3e38, -3e38, f32::MAX, f32::MIN, 1e-30];
    for settings in [
        OFF,
        SamplerSettings { penalty_repeat: 4.0, penalty_freq: 0.5, ..OFF },
        SamplerSettings { penalty_repeat: 0.25, top_n_sigma: 1.0, ..OFF },
        SamplerSettings { logit_bias: (0..9).map(|id| (id, 3e38)).collect(), min_p: 0.1, typical_p: 0.9, ..OFF },
        SamplerSettings { top_n_sigma: 255.0, top_p: 0.5, ..OFF },
    ] {
        lists(&format!("{settings:?}"), &logits, &[0, 1, 2, 3, 4, 5, 6, 7, 8], &settings, StepLimits::default());
    }
}
