//! `sample` against its reference, candidate for candidate and bit for bit; and that what the reference draws is the softmax.

use crate::support::Arena;
use crate::support::data::{Random, live};
use crate::support::distribution::{chi_square, softmax};
use crate::support::rows::{self, Builder, Use, View};
use zinc_kernels::generated::candidates::NO_ID;
use zinc_kernels::ops::{CANDIDATE_BYTES, Sample, candidate_count};
use zinc_kernels::reference::{self, Candidate};
use zinc_kernels::step::{Lane, StepShape};

/// Ids of a workgroup, as `candidate_count` implies.
const SHARE: usize = 1_024;

fn greedy() -> Lane {
    Lane { seed_low: 1, position: 5, ..live() }
}

fn drawing(temperature: f32, seed: u64, position: u32) -> Lane {
    Lane {
        inverse_temperature: 1.0 / temperature,
        seed_low: seed as u32,
        seed_high: (seed >> 32) as u32,
        position,
        ..live()
    }
}

/// Compares all candidates, then the best of them; returns it.
#[track_caller]
fn check(name: &str, logits: &[f32], lane: Lane) -> Candidate {
    let vocabulary = logits.len() as u32;
    let mut arena = Arena::new();
    let candidates = arena.output::<Candidate>(candidate_count(vocabulary) as usize);
    let op = Sample {
        state: arena.state(lane),
        logits: arena.input(logits).row(),
        candidates: candidates.row(),
        vocabulary,
        shape: StepShape::ONE,
    };
    arena.run(&[op.dispatch(&arena.gpu.target())]);

    let found = arena.read(candidates);
    let expected = reference::sample(logits, &lane, SHARE);
    assert_eq!(found.len(), expected.len(), "{name}: candidates");
    for (index, (found, expected)) in found.iter().zip(&expected).enumerate() {
        let words = |candidate| bytemuck::cast::<Candidate, [u32; 4]>(candidate);
        assert_eq!(words(*found), words(*expected), "{name}: candidate {index} is {found:?} instead of {expected:?}");
    }
    let best = found.into_iter().fold(Candidate::NONE, Candidate::better);
    assert_eq!(best, reference::sample_best(logits, &lane), "{name}: the best");
    best
}

#[test]
fn shares_are_of_the_size_that_this_test_assumes() {
    let share = SHARE as u32;
    assert_eq!([1, share, share + 1, 2 * share + 1].map(candidate_count), [1, 1, 2, 3]);
}

const VOCABULARIES: [usize; 9] = [1, 2, 3, 4, 1_023, 1_024, 1_025, 8_192, 151_936];

#[test]
fn greedy_takes_the_highest() {
    for vocabulary in VOCABULARIES {
        let name = format!("{vocabulary} ids");
        let mut logits = Random::new(&name).vector(vocabulary, 20.0);
        check(&name, &logits, greedy());
        for highest in [0, vocabulary / 2, vocabulary - 1] {
            let before = std::mem::replace(&mut logits[highest], 30.0);
            assert_eq!(check(&name, &logits, greedy()).id, highest as u32, "{name}");
            logits[highest] = before;
        }
    }
}

#[test]
fn ties_go_to_the_lower_id() {
    for vocabulary in [3, 1_025, 8_192] {
        for distinct in [1, 3] {
            let name = format!("{vocabulary} ids, {distinct} values");
            check(&name, &Random::new(&name).whole(vocabulary, distinct), greedy());
        }
        assert_eq!(check("all equal", &vec![-3.5; vocabulary], greedy()).id, 0);
    }
    let mut zeros = vec![-0.0; 2_000];
    zeros[7] = 0.0;
    zeros[1_500] = 0.0;
    assert_eq!(check("zeros of both signs", &zeros, greedy()).id, 0);
    let mut pair = vec![0.0; 3_000];
    pair[1_023] = 1.0;
    pair[1_024] = 1.0;
    pair[2_999] = 1.0;
    assert_eq!(check("on both sides of a share's end", &pair, greedy()).id, 1_023);
}

#[test]
fn logits_that_are_not_finite_are_counted() {
    for lane in [greedy(), drawing(0.8, 3, 9)] {
        for vocabulary in [3, 1_025, 8_192] {
            let mut logits = Random::new("not finite").vector(vocabulary, 5.0);
            logits[0] = f32::NAN;
            logits[vocabulary - 1] = f32::INFINITY;
            let best = check("NaN and infinity", &logits, lane);
            assert_eq!(best.non_finite, 2);
            assert!((best.id as usize) < vocabulary);

            let none = check("nothing but NaN", &vec![f32::NAN; vocabulary], lane);
            assert_eq!((none.id, none.non_finite), (NO_ID, vocabulary as u32));

            let mut masked = vec![f32::NEG_INFINITY; vocabulary];
            masked[vocabulary / 2] = -8.0;
            let only = check("one id allowed", &masked, lane);
            assert_eq!((only.id, only.non_finite), (vocabulary as u32 / 2, 0));

            let first = check("nothing allowed", &vec![f32::NEG_INFINITY; vocabulary], lane);
            assert_eq!((first.id, first.non_finite), (0, 0));
        }
    }
}

#[test]
fn draws_are_those_of_the_host() {
    for vocabulary in VOCABULARIES {
        let name = format!("{vocabulary} ids");
        let logits = Random::new(&name).vector(vocabulary, 6.0);
        // Every draw of the largest vocabulary is millions of variates on the host as well.
        let draws = if vocabulary > 100_000 { 5 } else { 50 };
        for draw in 0..draws {
            let seed = Random::new(&format!("{name} {draw}")).bits();
            let temperature = [0.1, 0.7, 1.0, 1.3, 5.0][draw as usize % 5];
            check(&format!("{name}, draw {draw}"), &logits, drawing(temperature, seed, draw * 97));
        }
    }
}

/// Equal logits leave the noise alone to decide: every bit of it counts.
#[test]
fn noise_alone() {
    for position in 0..50 {
        check("equal logits", &[0.0; 8_192], drawing(1.0, u64::MAX - u64::from(position), position));
    }
}

/// A row draws with the noise of its own position.
#[test]
fn rows_of_a_step() {
    const VOCABULARY: usize = 2_500;
    for temperature in [f32::INFINITY, 0.8] {
        let lane_of = |row| match temperature {
            f32::INFINITY => Lane { position: 5 + row, ..greedy() },
            _ => drawing(temperature, 77, 5 + row),
        };
        rows::check(&format!("temperature {temperature}"), lane_of, |b: &mut Builder| {
            let count = candidate_count(VOCABULARY as u32);
            let logits = b.vector(Use::Input, VOCABULARY);
            let candidates = b.output((count * CANDIDATE_BYTES) as usize);
            let target = b.arena.gpu.target();
            move |v: &View| {
                let (logits, candidates) = (v.own(logits), v.own(candidates));
                let vocabulary = VOCABULARY as u32;
                Sample { state: v.state, logits, candidates, vocabulary, shape: v.shape }.dispatch(&target)
            }
        });
    }
}

const DRAWS: usize = 40_000;
/// What chi-square of 7 and of 63 degrees of freedom exceeds once in a thousand seeds. The seed is fixed.
const CHI_SQUARE_7: f64 = 24.32;
const CHI_SQUARE_63: f64 = 103.4;

/// Nine logits, one of them forbidden: eight outcomes.
const LOGITS: [f32; 9] = [0.0, 1.5, -1.0, 0.3, f32::NEG_INFINITY, 2.0, -0.5, 0.3, 1.0];

#[test]
fn draws_follow_the_softmax() {
    for temperature in [0.5, 1.0, 2.0] {
        let probabilities = softmax(&LOGITS, temperature);
        for vary in ["position", "seed"] {
            let mut counts = [0; LOGITS.len()];
            for draw in 0..DRAWS {
                let lane = match vary {
                    "position" => drawing(temperature, 0x5eed, draw as u32),
                    _ => drawing(temperature, draw as u64, 17),
                };
                counts[reference::sample_best(&LOGITS, &lane).id as usize] += 1;
            }
            let found = chi_square(&counts, &probabilities);
            assert!(found < CHI_SQUARE_7, "temperature {temperature}, by {vary}: {found} with counts {counts:?}");
        }
    }
}

/// What is drawn at one position says nothing of the next.
#[test]
fn draws_at_neighbouring_positions_are_independent() {
    let allowed: Vec<f32> = LOGITS.into_iter().filter(|logit| logit.is_finite()).collect();
    let probabilities = softmax(&allowed, 1.0);
    let pairs: Vec<f64> = probabilities.iter().flat_map(|a| probabilities.iter().map(move |b| a * b)).collect();
    let mut counts = vec![0; pairs.len()];
    let draw = |position| reference::sample_best(&allowed, &drawing(1.0, 0x5eed, position)).id as usize;
    for pair in 0..DRAWS as u32 {
        counts[draw(2 * pair) * allowed.len() + draw(2 * pair + 1)] += 1;
    }
    let found = chi_square(&counts, &pairs);
    assert!(found < CHI_SQUARE_63, "{found}");
}
