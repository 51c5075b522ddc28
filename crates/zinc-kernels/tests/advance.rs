//! `advance` against its reference, branch by branch: state and report compare exactly.

#![cfg(feature = "vk")]

mod support;

use support::Arena;
use support::data::Random;
use zinc_kernels::generated::candidates::NO_ID;
use zinc_kernels::generated::state::{
    FINISH_BUDGET, FINISH_CANCELLED, FINISH_CONTEXT_FULL, FINISH_END_OF_GENERATION, FINISH_NON_FINITE, FINISH_NONE,
    STATUS_FED, STATUS_NO_OP, STATUS_SAMPLED, StepReport, StepState,
};
use zinc_kernels::ops::{Advance, candidate_count};
use zinc_kernels::reference::{self, Candidate};

const SEQUENCE: u32 = 41;
const OTHER: u32 = 40;
const PROMPT: [u32; 12] = [500, 501, 502, 503, 504, 505, 506, 507, 508, 509, 510, 511];

/// A step at position 7 of a prompt of 6 tokens: it samples.
const SAMPLING: StepState = StepState {
    live: 1,
    token: 9,
    position: 7,
    prompt_length: 6,
    budget: 5,
    context_length: 100,
    end_token_count: 0,
    finish: FINISH_NONE,
    seed_low: 77,
    seed_high: 88,
    inverse_temperature: 0.5,
    sequence: SEQUENCE,
};
/// A step whose next token is the prompt's.
const FEEDING: StepState = StepState { prompt_length: 12, ..SAMPLING };

const fn candidate(id: u32, score: f32) -> Candidate {
    Candidate { score, logit: score / 2.0, id, non_finite: 0 }
}
const BEST: Candidate = candidate(300, 4.5);
const FEW: &[Candidate] = &[candidate(3, 1.0), BEST, candidate(1_100, -2.0)];

struct Case {
    name: &'static str,
    state: StepState,
    end_tokens: &'static [u32],
    cancelled: u32,
    candidates: Vec<Candidate>,
    /// Status, token and finish of the report.
    expected: (u32, u32, u32),
}

fn cases() -> Vec<Case> {
    let plain = |name, state, expected| Case {
        name,
        state,
        end_tokens: &[],
        cancelled: OTHER,
        candidates: FEW.to_vec(),
        expected,
    };
    let sampled = |name, candidates: Vec<Candidate>, token| Case {
        candidates,
        ..plain(name, SAMPLING, (STATUS_SAMPLED, token, FINISH_NONE))
    };
    let ending = |name, state: StepState, end_tokens: &'static [u32], expected| Case {
        end_tokens,
        ..plain(name, StepState { end_token_count: end_tokens.len() as u32, ..state }, expected)
    };
    let end = (STATUS_SAMPLED, BEST.id, FINISH_END_OF_GENERATION);
    let none = Candidate::NONE;
    let broken = Candidate { non_finite: 1, ..candidate(8, -9.0) };
    let non_finite = (STATUS_SAMPLED, 0, FINISH_NON_FINITE);
    let last = StepState { budget: 1, context_length: 8, ..SAMPLING };

    vec![
        // Not live.
        plain(
            "stopped before",
            StepState { live: 0, finish: FINISH_BUDGET, ..SAMPLING },
            (STATUS_NO_OP, 9, FINISH_BUDGET),
        ),
        plain("never started", StepState::default(), (STATUS_NO_OP, 0, FINISH_NONE)),
        Case {
            cancelled: SEQUENCE,
            ..plain(
                "stopped before, and cancelled now",
                StepState { live: 0, finish: FINISH_END_OF_GENERATION, ..FEEDING },
                (STATUS_NO_OP, 9, FINISH_END_OF_GENERATION),
            )
        },
        // Feeding.
        Case { candidates: vec![], ..plain("feeds", FEEDING, (STATUS_FED, 508, FINISH_NONE)) },
        plain("feeds, whatever is sampled", FEEDING, (STATUS_FED, 508, FINISH_NONE)),
        plain("feeds from the start", StepState { position: 0, ..FEEDING }, (STATUS_FED, 501, FINISH_NONE)),
        plain("feeds the last of the prompt", StepState { position: 10, ..FEEDING }, (STATUS_FED, 511, FINISH_NONE)),
        plain("feeds without a budget", StepState { budget: 0, ..FEEDING }, (STATUS_FED, 508, FINISH_NONE)),
        Case { candidates: vec![broken], ..plain("feeds over broken logits", FEEDING, (STATUS_FED, 508, FINISH_NONE)) },
        ending("feeds an end token", FEEDING, &[508, 300], (STATUS_FED, 508, FINISH_NONE)),
        Case { cancelled: SEQUENCE, ..plain("cancelled while it feeds", FEEDING, (STATUS_FED, 508, FINISH_CANCELLED)) },
        // Sampling.
        plain(
            "samples behind the last of the prompt",
            StepState { position: 11, ..FEEDING },
            (STATUS_SAMPLED, BEST.id, FINISH_NONE),
        ),
        sampled("one candidate", vec![candidate(7, -1.0)], 7),
        sampled("the best is first", vec![BEST, candidate(1, 4.0), candidate(2, 3.0)], BEST.id),
        sampled("the best is last", vec![candidate(1, 4.0), candidate(2, 3.0), BEST], BEST.id),
        sampled("a tie goes to the lower id", vec![candidate(9, 2.0), candidate(5, 2.0), candidate(7, 2.0)], 5),
        sampled("shares without a candidate", vec![none, candidate(5, -2.0), none, none], 5),
        sampled("minus infinity is a score", vec![none, candidate(5, f32::NEG_INFINITY)], 5),
        sampled("zeros of both signs tie", vec![candidate(6, 0.0), candidate(5, -0.0)], 5),
        sampled("more candidates than threads", many(700, 699), 699),
        sampled("more candidates than threads, the best in front", many(700, 0), 0),
        sampled("a large vocabulary's", many(149, 77), 77),
        // Ends.
        ending("the first end token", SAMPLING, &[300, 1, 2], end),
        ending("the last end token", SAMPLING, &[1, 2, 300], end),
        ending("no end token", SAMPLING, &[1, 2, 3, 301, 299], (STATUS_SAMPLED, BEST.id, FINISH_NONE)),
        Case {
            end_tokens: &[1, 2, 300],
            ..plain(
                "an end token behind the valid ones",
                StepState { end_token_count: 2, ..SAMPLING },
                (STATUS_SAMPLED, BEST.id, FINISH_NONE),
            )
        },
        plain("the budget's last token", StepState { budget: 1, ..SAMPLING }, (STATUS_SAMPLED, BEST.id, FINISH_BUDGET)),
        plain("the budget's last but one", StepState { budget: 2, ..SAMPLING }, (STATUS_SAMPLED, BEST.id, FINISH_NONE)),
        plain(
            "the context's last position",
            StepState { context_length: 8, ..SAMPLING },
            (STATUS_SAMPLED, BEST.id, FINISH_CONTEXT_FULL),
        ),
        plain(
            "the context's last but one",
            StepState { context_length: 9, ..SAMPLING },
            (STATUS_SAMPLED, BEST.id, FINISH_NONE),
        ),
        plain("budget before context", last, (STATUS_SAMPLED, BEST.id, FINISH_BUDGET)),
        ending("end of generation before budget and context", last, &[300], end),
        // Logits that are not finite.
        Case { candidates: vec![BEST, broken], ..plain("one broken logit", SAMPLING, non_finite) },
        Case { candidates: vec![none, none], ..plain("no candidate", SAMPLING, non_finite) },
        Case { candidates: vec![], ..plain("a feeding step behind the prompt", SAMPLING, non_finite) },
        Case {
            candidates: vec![broken],
            cancelled: SEQUENCE,
            ..ending("broken logits before everything", last, &[8, 0], non_finite)
        },
        Case {
            candidates: vec![Candidate { non_finite: 3, ..none }, Candidate { non_finite: 2, ..none }],
            ..plain("nothing but broken logits", SAMPLING, non_finite)
        },
        Case { candidates: vec![none], ..ending("NO_ID is not an end token", SAMPLING, &[NO_ID], non_finite) },
        // Cancellation.
        Case { cancelled: SEQUENCE, ..plain("cancelled", SAMPLING, (STATUS_SAMPLED, BEST.id, FINISH_CANCELLED)) },
        Case { cancelled: SEQUENCE, ..ending("ended before it was cancelled", SAMPLING, &[300], end) },
        Case {
            cancelled: SEQUENCE,
            ..plain(
                "out of budget before it was cancelled",
                StepState { budget: 1, ..SAMPLING },
                (STATUS_SAMPLED, BEST.id, FINISH_BUDGET),
            )
        },
    ]
}

/// `count` random candidates of which number `best` is the best, each from the share of its index.
fn many(count: u32, best: u32) -> Vec<Candidate> {
    let mut random = Random::new("many");
    (0..count).map(|id| candidate(id, if id == best { 2.0 } else { random.unit() })).collect()
}

#[test]
fn the_table() {
    for Case { name, state, end_tokens, cancelled, candidates, expected } in cases() {
        let vocabulary = (!candidates.is_empty()).then_some(candidates.len() as u32 * 1_024);
        assert_eq!(vocabulary.map_or(0, candidate_count) as usize, candidates.len());
        let mut arena = Arena::new();
        let state_on_device = arena.in_out(&[state]);
        let report = arena.output::<StepReport>(1);
        let op = Advance {
            state: state_on_device.address,
            report: report.address,
            prompt: arena.input(&PROMPT).address,
            end_tokens: arena.input(end_tokens).address,
            cancelled: arena.input(&[cancelled]).address,
            candidates: arena.input(&candidates).address,
            vocabulary,
        };
        arena.run(&[op.dispatch(&arena.gpu.target())]);

        let mut expected_state = state;
        let expected_report = reference::advance(&mut expected_state, &PROMPT, end_tokens, cancelled, &candidates);
        let [found] = arena.read(report)[..] else { unreachable!("one report") };
        assert_eq!(found, expected_report, "{name}: report");
        assert_eq!(found.logit.to_bits(), expected_report.logit.to_bits(), "{name}: logit");
        assert_eq!(arena.read(state_on_device), [expected_state], "{name}: state");
        // The table says what is meant, so that a mistake which both sides share does not pass.
        assert_eq!((found.status, found.token, found.finish), expected, "{name}: status, token and finish");
    }
}

/// Three steps in one recording: one feeds, one samples the last of the budget, one finds the sequence stopped.
#[test]
fn steps_hand_the_state_on() {
    let mut arena = Arena::new();
    let target = arena.gpu.target();
    let state = StepState { position: 3, prompt_length: 5, budget: 1, ..SAMPLING };
    let state_on_device = arena.in_out(&[state]);
    let prompt = arena.input(&PROMPT).address;
    let end_tokens = arena.input::<u32>(&[]).address;
    let cancelled = arena.input(&[OTHER]).address;
    let candidates = arena.input(FEW).address;
    let mut step = |vocabulary| {
        let report = arena.output::<StepReport>(1);
        let op = Advance {
            state: state_on_device.address,
            report: report.address,
            prompt,
            end_tokens,
            cancelled,
            candidates,
            vocabulary,
        };
        (op.dispatch(&target), report)
    };
    let steps = [step(None), step(Some(3 * 1_024)), step(Some(3 * 1_024))];
    arena.run(&steps.each_ref().map(|(dispatch, _)| dispatch.clone()));

    let mut expected_state = state;
    for (index, ((_, report), candidates)) in steps.iter().zip([&[][..], FEW, FEW]).enumerate() {
        let expected = reference::advance(&mut expected_state, &PROMPT, &[], OTHER, candidates);
        assert_eq!(arena.read(*report), [expected], "step {index}");
    }
    assert_eq!(arena.read(state_on_device), [expected_state]);
    assert_eq!((expected_state.live, expected_state.position, expected_state.token), (0, 5, BEST.id));
}
