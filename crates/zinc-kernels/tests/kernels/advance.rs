//! `advance` against its reference, branch by branch: state, tokens and report compare exactly.

use crate::support::arena::{Arena, Array};
use crate::support::data::Random;
use zinc_kernels::generated::candidates::NO_ID;
use zinc_kernels::generated::sampler::SamplerParams;
use zinc_kernels::generated::state::{
    FINISH_BUDGET, FINISH_CANCELLED, FINISH_CONTEXT_FULL, FINISH_END_OF_GENERATION, FINISH_NON_FINITE, FINISH_NONE,
    STATUS_FED, STATUS_NO_OP, STATUS_SAMPLED, StepReport, StepState,
};
use zinc_kernels::ops::{Advance, Batch, CANDIDATE_BYTES, MAX_BATCH, PenaltyWindow};
use zinc_kernels::reference::{self, Candidate};

const SEQUENCE: u32 = 41;
/// More than any id here.
const VOCABULARY: u32 = 8_192;
const OTHER: u32 = 40;
const PROMPT: [u32; 12] = [500, 501, 502, 503, 504, 505, 506, 507, 508, 509, 510, 511];
/// Places of the array of tokens.
const PLACES: usize = 100 + MAX_BATCH as usize;

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
    /// What stands behind the state's position before the step.
    drafts: &'static [u32],
    /// Of each token that the launch is for, as many as of the others.
    candidates: Vec<Vec<Candidate>>,
    /// Status, tokens and finish of the report.
    expected: (u32, Vec<u32>, u32),
}

/// A step without drafts; `expected` has one token, which a step that does nothing does not report.
fn plain(name: &'static str, state: StepState, (status, token, finish): (u32, u32, u32)) -> Case {
    let tokens = if status == STATUS_NO_OP { vec![] } else { vec![token] };
    let expected = (status, tokens, finish);
    Case { name, state, end_tokens: &[], cancelled: OTHER, drafts: &[], candidates: vec![FEW.to_vec()], expected }
}

fn cases() -> Vec<Case> {
    let sampled = |name, candidates: Vec<Candidate>, token| Case {
        candidates: vec![candidates],
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
            (STATUS_NO_OP, 0, FINISH_BUDGET),
        ),
        plain("never started", StepState::default(), (STATUS_NO_OP, 0, FINISH_NONE)),
        Case {
            cancelled: SEQUENCE,
            ..plain(
                "stopped before, and cancelled now",
                StepState { live: 0, finish: FINISH_END_OF_GENERATION, ..FEEDING },
                (STATUS_NO_OP, 0, FINISH_END_OF_GENERATION),
            )
        },
        // Feeding.
        Case { candidates: vec![vec![]], ..plain("feeds", FEEDING, (STATUS_FED, 508, FINISH_NONE)) },
        plain("feeds, whatever is sampled", FEEDING, (STATUS_FED, 508, FINISH_NONE)),
        plain("feeds from the start", StepState { position: 0, ..FEEDING }, (STATUS_FED, 501, FINISH_NONE)),
        plain("feeds the last of the prompt", StepState { position: 10, ..FEEDING }, (STATUS_FED, 511, FINISH_NONE)),
        plain("feeds without a budget", StepState { budget: 0, ..FEEDING }, (STATUS_FED, 508, FINISH_NONE)),
        Case {
            candidates: vec![vec![broken]],
            ..plain("feeds over broken logits", FEEDING, (STATUS_FED, 508, FINISH_NONE))
        },
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
        Case { candidates: vec![vec![BEST, broken]], ..plain("one broken logit", SAMPLING, non_finite) },
        Case { candidates: vec![vec![none, none]], ..plain("no candidate", SAMPLING, non_finite) },
        Case { candidates: vec![vec![]], ..plain("a feeding step behind the prompt", SAMPLING, non_finite) },
        Case {
            candidates: vec![vec![broken]],
            cancelled: SEQUENCE,
            ..ending("broken logits before everything", last, &[8, 0], non_finite)
        },
        Case {
            candidates: vec![vec![Candidate { non_finite: 3, ..none }, Candidate { non_finite: 2, ..none }]],
            ..plain("nothing but broken logits", SAMPLING, non_finite)
        },
        Case { candidates: vec![vec![none]], ..ending("NO_ID is not an end token", SAMPLING, &[NO_ID], non_finite) },
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

/// A step of four tokens, whose candidates choose 21, 22, 23 and 24 in turn.
const BATCH: StepState = StepState { live: 4, ..SAMPLING };

/// Steps with drafts.
fn batches() -> Vec<Case> {
    let chosen = |count: u32| (0..count).map(|i| vec![candidate(90, 1.0), candidate(21 + i, 2.0)]).collect::<Vec<_>>();
    let case = |name, state, drafts: &'static [u32], tokens: &[u32], finish| Case {
        drafts,
        candidates: chosen(4),
        expected: (STATUS_SAMPLED, tokens.to_vec(), finish),
        ..plain(name, state, (STATUS_SAMPLED, 0, finish))
    };
    let right = &[21, 22, 23];
    let ending = |name, drafts, end_tokens: &'static [u32], tokens: &[u32], finish| Case {
        end_tokens,
        ..case(name, StepState { end_token_count: end_tokens.len() as u32, ..BATCH }, drafts, tokens, finish)
    };
    let broken = |name, at: usize, drafts, tokens: &[u32], finish| {
        let mut case = case(name, BATCH, drafts, tokens, finish);
        case.candidates[at][0].non_finite = 1;
        case
    };
    vec![
        case("every draft is right", BATCH, right, &[21, 22, 23, 24], FINISH_NONE),
        case("the first draft is wrong", BATCH, &[20, 22, 23], &[21], FINISH_NONE),
        case("the second draft is wrong", BATCH, &[21, 20, 23], &[21, 22], FINISH_NONE),
        case("the third draft is wrong", BATCH, &[21, 22, 20], &[21, 22, 23], FINISH_NONE),
        case("a draft that is next best", BATCH, &[90, 90, 90], &[21], FINISH_NONE),
        case("what is right behind the drafts is none", StepState { live: 2, ..BATCH }, right, &[21, 22], FINISH_NONE),
        case("no drafts in a step that has room", StepState { live: 1, ..BATCH }, right, &[21], FINISH_NONE),
        Case {
            candidates: chosen(2),
            ..case("a step with less room than drafts", BATCH, right, &[21, 22], FINISH_NONE)
        },
        Case { candidates: chosen(1), ..case("a step without room", BATCH, right, &[21], FINISH_NONE) },
        Case {
            candidates: chosen(8),
            ..case(
                "as many drafts as there can be",
                StepState { live: 8, budget: 50, ..BATCH },
                &[21, 22, 23, 24, 25, 26, 27],
                &[21, 22, 23, 24, 25, 26, 27, 28],
                FINISH_NONE,
            )
        },
        Case {
            candidates: (0..8).map(|i| many(700, 21 + i)).collect(),
            ..case(
                "more candidates than threads, for many tokens",
                StepState { live: 8, budget: 50, ..BATCH },
                &[21, 22, 23, 24, 25, 26, 20],
                &[21, 22, 23, 24, 25, 26, 27],
                FINISH_NONE,
            )
        },
        // Ends on the way.
        case("the budget's end", StepState { budget: 3, ..BATCH }, right, &[21, 22, 23], FINISH_BUDGET),
        case("the budget's end at the last", StepState { budget: 4, ..BATCH }, right, &[21, 22, 23, 24], FINISH_BUDGET),
        case("a budget of one", StepState { budget: 1, ..BATCH }, right, &[21], FINISH_BUDGET),
        case(
            "the budget lies behind a wrong draft",
            StepState { budget: 3, ..BATCH },
            &[21, 20],
            &[21, 22],
            FINISH_NONE,
        ),
        case("the context's end", StepState { context_length: 9, ..BATCH }, right, &[21, 22], FINISH_CONTEXT_FULL),
        ending("an end token is right", right, &[5, 22], &[21, 22], FINISH_END_OF_GENERATION),
        ending("an end token instead of a draft", &[21, 20], &[22], &[21, 22], FINISH_END_OF_GENERATION),
        ending("an end token that is drafted wrongly", &[21, 20], &[20], &[21, 22], FINISH_NONE),
        ending("the last is an end token", right, &[24], &[21, 22, 23, 24], FINISH_END_OF_GENERATION),
        broken("broken logits on the way", 1, right, &[21, 0], FINISH_NON_FINITE),
        broken("broken logits behind a wrong draft", 2, &[21, 20, 23], &[21, 22], FINISH_NONE),
        Case { cancelled: SEQUENCE, ..case("cancelled", BATCH, right, &[21], FINISH_CANCELLED) },
        // The prompt.
        Case {
            expected: (STATUS_FED, vec![508], FINISH_NONE),
            ..case("a prompt is fed by ones", StepState { live: 4, ..FEEDING }, &[], &[], FINISH_NONE)
        },
        case(
            "the last of the prompt takes drafts",
            StepState { position: 11, budget: 50, ..StepState { live: 4, ..FEEDING } },
            right,
            &[21, 22, 23, 24],
            FINISH_NONE,
        ),
        Case {
            expected: (STATUS_NO_OP, vec![], FINISH_BUDGET),
            ..case("stopped before", StepState { live: 0, finish: FINISH_BUDGET, ..BATCH }, right, &[], FINISH_BUDGET)
        },
    ]
}

/// What the array of tokens holds before a step: the prompt, then numbers that are no token's, and drafts behind the position.
fn tokens_before(state: &StepState, drafts: &[u32]) -> Vec<u32> {
    let mut tokens = PROMPT.to_vec();
    tokens.extend((tokens.len()..PLACES).map(|place| 7_000 + place as u32));
    tokens[state.position as usize + 1..][..drafts.len()].copy_from_slice(drafts);
    tokens
}

/// Candidates as sampling leaves them, those of each token `stride` bytes behind those of the one before. What lies between would win.
fn lay_out(arena: &mut Arena, candidates: &[Vec<Candidate>]) -> (u64, Batch) {
    let mut rows = Vec::new();
    for own in candidates {
        rows.extend_from_slice(own);
        rows.extend([candidate(1, 1e9); 3]);
    }
    let stride = (candidates[0].len() as u32 + 3) * CANDIDATE_BYTES;
    (arena.input(&rows).address, Batch { tokens: candidates.len() as u32, stride })
}

fn check(cases: Vec<Case>) {
    for (index, case) in cases.into_iter().enumerate() {
        let Case { name, state, end_tokens, cancelled, drafts, candidates, expected } = case;
        let mut arena = Arena::new();
        let mut tokens = tokens_before(&state, drafts);
        // Windows of the chain's penalties, from none to one that is longer than the history.
        let window = [0, 1, 3, 64][index % 4];
        let occurrences =
            |tokens: &[u32], position: u32| reference::window_counts(&tokens[..=position as usize], window, VOCABULARY);
        let params = SamplerParams { penalty_window: window, ..SamplerParams::default() };
        let counts = arena.in_out(&occurrences(&tokens, state.position));
        let (state_on_device, tokens_on_device) = (arena.in_out(&[state]), arena.in_out(&tokens));
        let report = arena.output::<StepReport>(1);
        let [untouched] = arena.read(report)[..] else { unreachable!("one report") };
        let (address, batch) = lay_out(&mut arena, &candidates);
        let op = Advance {
            state: state_on_device.address,
            report: report.address,
            tokens: tokens_on_device.address,
            end_tokens: arena.input(end_tokens).address,
            cancelled: arena.input(&[cancelled]).address,
            candidates: address,
            candidate_count: candidates[0].len() as u32,
            window: Some(PenaltyWindow { params: arena.input(&[params]).address, counts: counts.address }),
            batch,
        };
        arena.run(&[op.dispatch(&arena.gpu.target())]);

        let mut expected_state = state;
        let candidates: Vec<&[Candidate]> = candidates.iter().map(Vec::as_slice).collect();
        let mut expected_report =
            reference::advance(&mut expected_state, &mut tokens, end_tokens, cancelled, &candidates);
        let reported = expected_report.count as usize;
        expected_report.tokens[reported..].copy_from_slice(&untouched.tokens[reported..]);
        let [found] = arena.read(report)[..] else { unreachable!("one report") };
        assert_eq!(found, expected_report, "{name}: report");
        assert_eq!(found.logit.to_bits(), expected_report.logit.to_bits(), "{name}: logit");
        assert_eq!(arena.read(state_on_device), [expected_state], "{name}: state");
        assert_eq!(arena.read(tokens_on_device), tokens, "{name}: tokens");
        // A prompt is counted before its steps.
        let counted = if expected.0 == STATUS_SAMPLED { found.position } else { state.position };
        assert_eq!(arena.read(counts), occurrences(&tokens, counted), "{name}: the last {window} tokens");
        // The table says what is meant, so that a mistake which both sides share does not pass.
        let (status, expected_tokens, finish) = expected;
        assert_eq!((found.status, found.finish), (status, finish), "{name}: status and finish");
        assert_eq!(found.tokens[..reported], expected_tokens, "{name}: tokens reported");
        assert_eq!(found.position, state.position + found.count, "{name}: position");
        let fed = u32::from(status == STATUS_FED);
        let sampled = found.count - fed;
        assert_eq!(expected_state.budget, state.budget.wrapping_sub(sampled), "{name}: budget");
        let goes_on = finish == FINISH_NONE && status != STATUS_NO_OP;
        assert_eq!(expected_state.live, u32::from(goes_on), "{name}: live");
    }
}

#[test]
fn the_table() {
    check(cases());
}

#[test]
fn drafts_are_accepted_as_far_as_they_are_right() {
    check(batches());
}

/// Three steps in one recording: one feeds, one samples the last of the budget, one finds the sequence stopped.
#[test]
fn steps_hand_the_state_on() {
    let mut arena = Arena::new();
    let target = arena.gpu.target();
    let state = StepState { position: 3, prompt_length: 5, budget: 1, ..SAMPLING };
    let mut tokens = tokens_before(&state, &[]);
    let (state_on_device, tokens_on_device) = (arena.in_out(&[state]), arena.in_out(&tokens));
    let end_tokens = arena.input::<u32>(&[]).address;
    let cancelled = arena.input(&[OTHER]).address;
    let candidates = arena.input(FEW).address;
    let mut step = |candidate_count| -> (_, Array<StepReport>) {
        let report = arena.in_out(&[StepReport::default()]);
        let op = Advance {
            state: state_on_device.address,
            report: report.address,
            tokens: tokens_on_device.address,
            end_tokens,
            cancelled,
            candidates,
            candidate_count,
            window: None,
            batch: Batch::ONE,
        };
        (op.dispatch(&target), report)
    };
    let steps = [step(0), step(3), step(3)];
    arena.run(&steps.each_ref().map(|(dispatch, _)| dispatch.clone()));

    let mut expected_state = state;
    for (index, ((_, report), candidates)) in steps.iter().zip([&[][..], FEW, FEW]).enumerate() {
        let expected = reference::advance(&mut expected_state, &mut tokens, &[], OTHER, &[candidates]);
        assert_eq!(arena.read(*report), [expected], "step {index}");
    }
    assert_eq!(arena.read(state_on_device), [expected_state]);
    assert_eq!(arena.read(tokens_on_device), tokens);
    assert_eq!((expected_state.live, expected_state.position, expected_state.token), (0, 5, BEST.id));
    assert_eq!(tokens[5], BEST.id);
}
