//! That what the chain draws is distributed as what it keeps: the softmax of the surviving logits over the temperature.

use crate::support::data::live;
use crate::support::distribution::{chi_square, softmax};
use zinc_kernels::reference::{StepLimits, draw};
use zinc_kernels::sampler::{Breakers, SamplerSettings};
use zinc_kernels::step::Lane;

const DRAWS: u32 = 40_000;

const LOGITS: [f32; 10] = [0.0, 1.5, -1.0, 0.3, f32::NEG_INFINITY, 2.0, -0.5, 0.3, 1.0, -3.0];
/// Token 5 occurred twice and token 1 once.
const HISTORY: [u32; 3] = [5, 1, 5];

struct Case {
    name: &'static str,
    settings: SamplerSettings,
    temperature: f32,
    /// The logits that the definitions leave, minus infinity for what is dropped.
    left: [f32; 10],
    /// What chi-square of so many degrees of freedom exceeds once in a thousand seeds. The seed is fixed.
    bound: f64,
}

const NONE: f32 = f32::NEG_INFINITY;

fn cases() -> Vec<Case> {
    let off = SamplerSettings::OFF;
    vec![
        Case { name: "off", settings: off.clone(), temperature: 1.0, left: LOGITS, bound: 26.12 },
        Case {
            name: "penalties: 2.0 / 2 - 2 * 0.5 - 0.25 and 1.5 / 2 - 0.5 - 0.25",
            settings: SamplerSettings { penalty_repeat: 2.0, penalty_freq: 0.5, penalty_present: 0.25, ..off.clone() },
            temperature: 1.3,
            left: [0.0, 0.0, -1.0, 0.3, NONE, -0.25, -0.5, 0.3, 1.0, -3.0],
            bound: 26.12,
        },
        Case {
            name: "top 3",
            settings: SamplerSettings { top_k: 3, ..off.clone() },
            temperature: 0.7,
            left: [NONE, 1.5, NONE, NONE, NONE, 2.0, NONE, NONE, 1.0, NONE],
            bound: 13.82,
        },
        Case {
            // The probabilities are 0.38, 0.23, 0.14, 0.069, ...
            name: "top-p 0.7 before the temperature",
            settings: SamplerSettings { top_p: 0.7, ..off.clone() },
            temperature: 2.0,
            left: [NONE, 1.5, NONE, NONE, NONE, 2.0, NONE, NONE, 1.0, NONE],
            bound: 13.82,
        },
        Case {
            // ln 0.1 is -2.3.
            name: "min-p 0.1",
            settings: SamplerSettings { min_p: 0.1, ..off.clone() },
            temperature: 1.0,
            left: [0.0, 1.5, NONE, 0.3, NONE, 2.0, NONE, 0.3, 1.0, NONE],
            bound: 20.52,
        },
        Case {
            name: "XTC of what reaches 0.1, always: 1.0 is the least",
            settings: SamplerSettings { xtc_probability: 1.0, xtc_threshold: 0.1, ..off },
            temperature: 1.0,
            left: [0.0, NONE, -1.0, 0.3, NONE, NONE, -0.5, 0.3, 1.0, -3.0],
            bound: 22.46,
        },
    ]
}

#[test]
fn draws_follow_what_is_left() {
    for Case { name, settings, temperature, left, bound } in cases() {
        let tables = settings.tables(LOGITS.len() as u32, 100, &Breakers::default()).expect("settings in their ranges");
        let probabilities = softmax(&left, temperature);
        let mut counts = [0; LOGITS.len()];
        for position in 0..DRAWS {
            let lane = Lane { inverse_temperature: 1.0 / temperature, seed_low: 0x5eed, position, ..live() };
            counts[draw(&LOGITS, &HISTORY, StepLimits::default(), &tables, &lane).id as usize] += 1;
        }
        let found = chi_square(&counts, &probabilities);
        assert!(found < bound, "{name}: {found} with counts {counts:?}");
    }
}

/// Half of the time XTC drops the two most probable: the draws are a mixture of both distributions.
#[test]
fn xtc_draws_a_mixture() {
    let settings = SamplerSettings { xtc_probability: 0.5, xtc_threshold: 0.1, ..SamplerSettings::OFF };
    let tables = settings.tables(LOGITS.len() as u32, 100, &Breakers::default()).expect("settings in their ranges");
    let mut without = LOGITS;
    (without[5], without[1]) = (NONE, NONE);
    let probabilities: Vec<f64> =
        softmax(&LOGITS, 1.0).iter().zip(softmax(&without, 1.0)).map(|(all, some)| (all + some) / 2.0).collect();
    let mut counts = [0; LOGITS.len()];
    for position in 0..DRAWS {
        let lane = Lane { inverse_temperature: 1.0, seed_low: 99, position, ..live() };
        counts[draw(&LOGITS, &HISTORY, StepLimits::default(), &tables, &lane).id as usize] += 1;
    }
    let found = chi_square(&counts, &probabilities);
    assert!(found < 26.12, "{found} with counts {counts:?}");
}
