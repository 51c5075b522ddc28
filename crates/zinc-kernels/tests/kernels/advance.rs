//! `advance` against its reference, branch by branch: state, tokens and report compare exactly.

use crate::support::arena::Arena;
use crate::support::data::Random;
use zinc_kernels::generated::candidates::NO_ID;
use zinc_kernels::generated::lane::{
    FINISH_BUDGET, FINISH_CANCELLED, FINISH_CONTEXT_FULL, FINISH_END_OF_GENERATION, FINISH_NON_FINITE, FINISH_NONE,
    GATE_OPEN, GATE_TOKEN, STATUS_FED, STATUS_NO_OP, STATUS_SAMPLED,
};
use zinc_kernels::generated::sampler::SamplerParams;
use zinc_kernels::ops::{Advance, CANDIDATE_BYTES, PerLane};
use zinc_kernels::reference::{self, Candidate};
use zinc_kernels::step::{Lane, MOST_RUN, Rows, StepReport, StepShape, StepState};

const SEQUENCE: u32 = 41;
const OTHER: u32 = 40;
/// More than any id here.
const VOCABULARY: u32 = 8_192;
const PROMPT: [u32; 12] = [500, 501, 502, 503, 504, 505, 506, 507, 508, 509, 510, 511];
/// Places of the array of tokens.
const PLACES: usize = 100 + MOST_RUN as usize;

/// At position 7 of a prompt of 6 tokens: a step samples.
const SAMPLING: Lane = Lane {
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
    gate: GATE_OPEN,
    first_row: 0,
    rows: 0,
    tokens: 0,
    end_tokens: 0,
    samplers: 0,
};
/// The next tokens are the prompt's.
const FEEDING: Lane = Lane { prompt_length: 12, ..SAMPLING };

const fn candidate(id: u32, score: f32) -> Candidate {
    Candidate { score, logit: score / 2.0, id, non_finite: 0 }
}
const BEST: Candidate = candidate(300, 4.5);
const FEW: &[Candidate] = &[candidate(3, 1.0), BEST, candidate(1_100, -2.0)];

struct Case {
    name: &'static str,
    lane: Lane,
    /// Rows that the step lists: those of the lane's last token and of what stands behind it.
    rows: u32,
    end_tokens: &'static [u32],
    cancelled: u32,
    /// What stands behind the lane's position before the step.
    drafts: &'static [u32],
    /// Of each row that the launch is for, as many as of the others.
    candidates: Vec<Vec<Candidate>>,
    /// Status, tokens and finish of the report.
    expected: (u32, Vec<u32>, u32),
}

/// A step of one row; `expected` has one token, which a step that does not sample does not report.
fn plain(name: &'static str, lane: Lane, (status, token, finish): (u32, u32, u32)) -> Case {
    let tokens = if status == STATUS_SAMPLED { vec![token] } else { vec![] };
    let (rows, expected) = (u32::from(status != STATUS_NO_OP), (status, tokens, finish));
    Case { name, lane, rows, end_tokens: &[], cancelled: OTHER, drafts: &[], candidates: vec![FEW.to_vec()], expected }
}

fn cases() -> Vec<Case> {
    let sampled = |name, candidates: Vec<Candidate>, token| Case {
        candidates: vec![candidates],
        ..plain(name, SAMPLING, (STATUS_SAMPLED, token, FINISH_NONE))
    };
    let ending = |name, lane: Lane, end_tokens: &'static [u32], expected| Case {
        end_tokens,
        ..plain(name, Lane { end_token_count: end_tokens.len() as u32, ..lane }, expected)
    };
    let end = (STATUS_SAMPLED, BEST.id, FINISH_END_OF_GENERATION);
    let none = Candidate::NONE;
    let broken = Candidate { non_finite: 1, ..candidate(8, -9.0) };
    let non_finite = (STATUS_SAMPLED, 0, FINISH_NON_FINITE);
    let last = Lane { budget: 1, context_length: 8, ..SAMPLING };

    vec![
        // Not live.
        plain("stopped before", Lane { finish: FINISH_BUDGET, ..SAMPLING }, (STATUS_NO_OP, 0, FINISH_BUDGET)),
        plain("never started", Lane::default(), (STATUS_NO_OP, 0, FINISH_NONE)),
        Case {
            cancelled: SEQUENCE,
            ..plain(
                "stopped before, and cancelled now",
                Lane { finish: FINISH_END_OF_GENERATION, ..FEEDING },
                (STATUS_NO_OP, 0, FINISH_END_OF_GENERATION),
            )
        },
        // Feeding.
        Case { cancelled: SEQUENCE, ..plain("cancelled while it feeds", FEEDING, (STATUS_FED, 508, FINISH_CANCELLED)) },
        Case { candidates: vec![vec![]], ..plain("feeds", FEEDING, (STATUS_FED, 508, FINISH_NONE)) },
        plain("feeds, whatever is sampled", FEEDING, (STATUS_FED, 508, FINISH_NONE)),
        plain("feeds from the start", Lane { position: 0, ..FEEDING }, (STATUS_FED, 501, FINISH_NONE)),
        plain("feeds the last of the prompt", Lane { position: 10, ..FEEDING }, (STATUS_FED, 511, FINISH_NONE)),
        plain("feeds without a budget", Lane { budget: 0, ..FEEDING }, (STATUS_FED, 508, FINISH_NONE)),
        Case {
            candidates: vec![vec![broken]],
            ..plain("feeds over broken logits", FEEDING, (STATUS_FED, 508, FINISH_NONE))
        },
        ending("feeds an end token", FEEDING, &[508, 300], (STATUS_FED, 508, FINISH_NONE)),
        // Sampling.
        plain(
            "samples behind the last of the prompt",
            Lane { position: 11, ..FEEDING },
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
                Lane { end_token_count: 2, ..SAMPLING },
                (STATUS_SAMPLED, BEST.id, FINISH_NONE),
            )
        },
        plain("the budget's last token", Lane { budget: 1, ..SAMPLING }, (STATUS_SAMPLED, BEST.id, FINISH_BUDGET)),
        plain("the budget's last but one", Lane { budget: 2, ..SAMPLING }, (STATUS_SAMPLED, BEST.id, FINISH_NONE)),
        plain(
            "the context's last position",
            Lane { context_length: 8, ..SAMPLING },
            (STATUS_SAMPLED, BEST.id, FINISH_CONTEXT_FULL),
        ),
        plain(
            "the context's last but one",
            Lane { context_length: 9, ..SAMPLING },
            (STATUS_SAMPLED, BEST.id, FINISH_NONE),
        ),
        plain("budget before context", last, (STATUS_SAMPLED, BEST.id, FINISH_BUDGET)),
        ending("end of generation before budget and context", last, &[300], end),
        // Logits that are not finite.
        Case { candidates: vec![vec![BEST, broken]], ..plain("one broken logit", SAMPLING, non_finite) },
        Case { candidates: vec![vec![none, none]], ..plain("no candidate", SAMPLING, non_finite) },
        Case { candidates: vec![vec![]], ..plain("a feeding step behind the prompt", SAMPLING, non_finite) },
        Case { candidates: vec![vec![broken]], ..ending("broken logits before everything", last, &[8, 0], non_finite) },
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
                Lane { budget: 1, ..SAMPLING },
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

/// Steps with drafts: of four rows, whose candidates choose 21, 22, 23 and 24 in turn.
fn drafted() -> Vec<Case> {
    let chosen = |count: u32| (0..count).map(|i| vec![candidate(90, 1.0), candidate(21 + i, 2.0)]).collect::<Vec<_>>();
    let case = |name, lane, drafts: &'static [u32], tokens: &[u32], finish| Case {
        rows: 4,
        drafts,
        candidates: chosen(4),
        expected: (STATUS_SAMPLED, tokens.to_vec(), finish),
        ..plain(name, lane, (STATUS_SAMPLED, 0, finish))
    };
    let right = &[21, 22, 23];
    let ending = |name, drafts, end_tokens: &'static [u32], tokens: &[u32], finish| Case {
        end_tokens,
        ..case(name, Lane { end_token_count: end_tokens.len() as u32, ..SAMPLING }, drafts, tokens, finish)
    };
    let broken = |name, at: usize, drafts, tokens: &[u32], finish| {
        let mut case = case(name, SAMPLING, drafts, tokens, finish);
        case.candidates[at][0].non_finite = 1;
        case
    };
    const ALL: [u32; 16] = [21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35, 36];
    let rich = Lane { budget: 50, ..SAMPLING };
    vec![
        case("every draft is right", SAMPLING, right, &[21, 22, 23, 24], FINISH_NONE),
        case("the first draft is wrong", SAMPLING, &[20, 22, 23], &[21], FINISH_NONE),
        case("the second draft is wrong", SAMPLING, &[21, 20, 23], &[21, 22], FINISH_NONE),
        case("the third draft is wrong", SAMPLING, &[21, 22, 20], &[21, 22, 23], FINISH_NONE),
        case("a draft that is next best", SAMPLING, &[90, 90, 90], &[21], FINISH_NONE),
        Case { rows: 2, ..case("what is right behind the drafts is none", SAMPLING, right, &[21, 22], FINISH_NONE) },
        Case { rows: 1, ..case("no drafts in a step that has room", SAMPLING, right, &[21], FINISH_NONE) },
        Case {
            rows: MOST_RUN,
            candidates: chosen(MOST_RUN),
            ..case("as many drafts as there can be", rich, &ALL[..15], &ALL, FINISH_NONE)
        },
        Case {
            rows: 8,
            candidates: (0..8).map(|i| many(700, 21 + i)).collect(),
            ..case(
                "more candidates than threads, for many rows",
                rich,
                &[21, 22, 23, 24, 25, 26, 20],
                &ALL[..7],
                FINISH_NONE,
            )
        },
        // Ends on the way.
        case("the budget's end", Lane { budget: 3, ..SAMPLING }, right, &[21, 22, 23], FINISH_BUDGET),
        case("the budget's end at the last", Lane { budget: 4, ..SAMPLING }, right, &[21, 22, 23, 24], FINISH_BUDGET),
        case("a budget of one", Lane { budget: 1, ..SAMPLING }, right, &[21], FINISH_BUDGET),
        case("the budget lies behind a wrong draft", Lane { budget: 3, ..SAMPLING }, &[21, 20], &[21, 22], FINISH_NONE),
        case("the context's end", Lane { context_length: 9, ..SAMPLING }, right, &[21, 22], FINISH_CONTEXT_FULL),
        ending("an end token is right", right, &[5, 22], &[21, 22], FINISH_END_OF_GENERATION),
        ending("an end token instead of a draft", &[21, 20], &[22], &[21, 22], FINISH_END_OF_GENERATION),
        ending("an end token that is drafted wrongly", &[21, 20], &[20], &[21, 22], FINISH_NONE),
        ending("the last is an end token", right, &[24], &[21, 22, 23, 24], FINISH_END_OF_GENERATION),
        broken("broken logits on the way", 1, right, &[21, 0], FINISH_NON_FINITE),
        broken("broken logits behind a wrong draft", 2, &[21, 20, 23], &[21, 22], FINISH_NONE),
        Case { cancelled: SEQUENCE, ..case("cancelled", SAMPLING, right, &[21], FINISH_CANCELLED) },
        case(
            "the last of the prompt takes drafts",
            Lane { position: 11, budget: 50, ..FEEDING },
            right,
            &[21, 22, 23, 24],
            FINISH_NONE,
        ),
        Case {
            rows: 0,
            expected: (STATUS_NO_OP, vec![], FINISH_BUDGET),
            ..case("stopped before", Lane { finish: FINISH_BUDGET, ..SAMPLING }, right, &[], FINISH_BUDGET)
        },
    ]
}

/// Steps of several rows of a prompt of 12 tokens, and of each the position that it leads to.
fn fed() -> Vec<(Case, u32)> {
    let case = |name, position, rows| Case {
        rows,
        candidates: vec![vec![]; rows as usize],
        ..plain(name, Lane { position, ..FEEDING }, (STATUS_FED, 0, FINISH_NONE))
    };
    vec![
        (case("some of the prompt", 0, 4), 4),
        (case("all but the last token", 0, 11), 11),
        (case("no more than the prompt has", 9, 6), 11),
        (case("one row", 2, 1), 3),
        (Case { candidates: vec![FEW.to_vec(); 4], ..case("whatever is sampled", 1, 4) }, 5),
        (Case { cancelled: SEQUENCE, expected: (STATUS_FED, vec![], FINISH_CANCELLED), ..case("cancelled", 0, 4) }, 4),
    ]
}

/// What the array of tokens holds before a step: the prompt, then numbers that are no token's, and drafts behind the position.
fn tokens_before(lane: &Lane, drafts: &[u32]) -> Vec<u32> {
    let mut tokens = PROMPT.to_vec();
    tokens.extend((tokens.len()..PLACES).map(|place| 7_000 + place as u32));
    tokens[lane.position as usize + 1..][..drafts.len()].copy_from_slice(drafts);
    tokens
}

/// Candidates as sampling leaves them, those of each row some bytes behind those of the one before. What lies between would win.
fn lay_out(arena: &mut Arena, candidates: &[Vec<Candidate>]) -> Rows {
    let mut rows = Vec::new();
    for own in candidates {
        rows.extend_from_slice(own);
        rows.extend([candidate(1, 1e9); 3]);
    }
    let stride = (candidates[0].len() as u32 + 3) * CANDIDATE_BYTES;
    Rows { address: arena.input(&rows).address, stride }
}

/// What is behind the penalties of a lane, where their window is `window` long.
fn samplers(arena: &mut Arena, window: u32, counts: u64) -> u64 {
    arena.input(&[SamplerParams { penalty_window: window, counts, ..SamplerParams::default() }]).address
}

/// Compares a step with the reference and with what the case says. Returns the lane that it leaves.
fn check(index: usize, case: Case) -> Lane {
    let Case { name, lane, rows, end_tokens, cancelled, drafts, candidates, expected } = case;
    let mut arena = Arena::new();
    let mut tokens = tokens_before(&lane, drafts);
    let first = lane.position as usize;
    // Windows of the chain's penalties, from none to one that is longer than the history.
    let window = [0, 1, 3, 64][index % 4];
    let occurrences =
        |tokens: &[u32], position: u32| reference::window_counts(&tokens[..=position as usize], window, VOCABULARY);
    let counts = arena.in_out(&occurrences(&tokens, lane.position));
    let tokens_on_device = arena.in_out(&tokens);
    let lane = Lane {
        tokens: tokens_on_device.address,
        end_tokens: arena.input(end_tokens).address,
        samplers: samplers(&mut arena, window, counts.address),
        ..lane
    };
    let state = StepState::new(lane, &[&[lane.token], &tokens[first + 1..]].concat()[..rows as usize]);
    let state_on_device = arena.in_out(&[state]);
    let report = arena.output::<StepReport>(1);
    let [untouched] = arena.read(report)[..] else { unreachable!("one report") };
    let op = Advance {
        state: state_on_device.address,
        reports: PerLane { address: report.address, stride: 0 },
        cancelled: arena.input(&[cancelled]).address,
        candidates: lay_out(&mut arena, &candidates),
        candidate_count: candidates[0].len() as u32,
        choices: PerLane::default(),
        lanes: 1,
        shape: StepShape::of(candidates.len() as u32),
    };
    arena.run(&[op.dispatch(&arena.gpu.target())]);

    let mut expected_state = state;
    let candidates: Vec<&[Candidate]> = candidates.iter().map(Vec::as_slice).collect();
    let mut expected_report =
        reference::advance(&mut expected_state.lane, &mut tokens, end_tokens, cancelled, &candidates);
    let reported = expected_report.count as usize;
    expected_report.tokens[reported..].copy_from_slice(&untouched.tokens[reported..]);
    let [found] = arena.read(report)[..] else { unreachable!("one report") };
    assert_eq!(found, expected_report, "{name}: report");
    assert_eq!(found.logit.to_bits(), expected_report.logit.to_bits(), "{name}: logit");
    let [StepState { lane: after, .. }] = arena.read(state_on_device)[..] else { unreachable!("one state") };
    assert!(arena.read(state_on_device) == [expected_state], "{name}: state");
    assert_eq!(arena.read(tokens_on_device), tokens, "{name}: tokens");
    // A prompt is counted before its steps.
    let counted = if expected.0 == STATUS_SAMPLED { found.position } else { lane.position };
    assert_eq!(arena.read(counts), occurrences(&tokens, counted), "{name}: the last {window} tokens");
    // The table says what is meant, so that a mistake which both sides share does not pass.
    let (status, expected_tokens, finish) = expected;
    assert_eq!((found.status, found.finish), (status, finish), "{name}: status and finish");
    assert_eq!(found.tokens[..reported], expected_tokens, "{name}: tokens reported");
    assert_eq!(found.position, lane.position + found.fed + found.count, "{name}: position");
    assert_eq!(found.fed > 0, status == STATUS_FED, "{name}: rows of the prompt");
    let drafts = if status == STATUS_SAMPLED { rows - 1 } else { 0 };
    assert_eq!(found.drafts, drafts, "{name}: drafts");
    assert_eq!(after.budget, lane.budget.wrapping_sub(found.count), "{name}: budget");
    assert_eq!(after.finish, finish, "{name}: whether it goes on");
    let last = tokens[after.position as usize];
    if status != STATUS_NO_OP {
        assert_eq!(after.token, last, "{name}: the last token");
    }
    after
}

#[test]
fn the_table() {
    for (index, case) in cases().into_iter().enumerate() {
        check(index, case);
    }
}

#[test]
fn drafts_are_accepted_as_far_as_they_are_right() {
    for (index, case) in drafted().into_iter().enumerate() {
        check(index, case);
    }
}

#[test]
fn a_prompt_is_fed_by_as_many_rows_as_there_are() {
    for (index, (case, position)) in fed().into_iter().enumerate() {
        let name = case.name;
        assert_eq!(check(index, case).position, position, "{name}");
    }
}

/// A step of lanes that differ: one has ended, the host chooses the token of another, and each has its own tokens, ends and penalties.
#[test]
fn each_lane_goes_its_own_way() {
    const WINDOWS: [u32; 5] = [0, 3, 64, 0, 2];
    let mut arena = Arena::new();
    let ended = Lane { finish: FINISH_BUDGET, ..SAMPLING };
    let lanes = [
        SAMPLING,
        ended,
        Lane { position: 9, budget: 1, ..SAMPLING },
        Lane { position: 20, gate: GATE_TOKEN, ..SAMPLING },
        Lane { position: 30, end_token_count: 1, ..SAMPLING },
    ];
    let mut tokens: Vec<Vec<u32>> = (0..).zip(&lanes).map(|(i, lane)| tokens_before(lane, &[50 + i])).collect();
    let end_tokens = [BEST.id];
    let mut counts = Vec::new();
    let mut on_device = Vec::new();
    let mut rows = 0;
    let lanes: Vec<Lane> = (0..5)
        .map(|number| {
            let lane = lanes[number];
            let own = reference::window_counts(&tokens[number][..=lane.position as usize], WINDOWS[number], VOCABULARY);
            counts.push(arena.in_out(&own));
            on_device.push(arena.in_out(&tokens[number]));
            let first_row = rows;
            rows += u32::from(lane.finish == FINISH_NONE);
            Lane {
                sequence: 70 + number as u32,
                first_row,
                rows: rows - first_row,
                tokens: on_device[number].address,
                end_tokens: arena.input(&end_tokens).address,
                samplers: samplers(&mut arena, WINDOWS[number], counts[number].address),
                ..lane
            }
        })
        .collect();
    // The list has the lanes in another order than that of their numbers.
    let listed = [4, 2, 0, 1, 3];
    let lanes_on_device = arena.in_out(&lanes);
    let mut state =
        StepState { row_count: rows, lane_count: 5, lanes: lanes_on_device.address, ..StepState::default() };
    state.listed[..5].copy_from_slice(&listed);
    let state = arena.state(state);
    let mut candidates: Vec<Vec<Candidate>> = (0..rows).map(|row| many(2, row % 2)).collect();
    // The last row is that of the lane whose list of ends has the best candidate.
    candidates[3] = vec![candidate(3, 1.0), BEST];
    // Of lane 3 another sequence, and of lane 0 this one.
    let cancelled = [70, 0, 0, 70, 0];
    let choice = |id| [candidate(id, 0.5), Candidate::NONE];
    let choices: Vec<Candidate> = (0..5).flat_map(|number| choice(900 + number)).collect();
    let reports = arena.in_out(&[StepReport::default(); 10]);
    let op = Advance {
        state,
        reports: PerLane { address: reports.address, stride: 2 * size_of::<StepReport>() as u32 },
        cancelled: arena.input(&cancelled).address,
        candidates: lay_out(&mut arena, &candidates),
        candidate_count: 2,
        choices: PerLane { address: arena.input(&choices).address, stride: 2 * CANDIDATE_BYTES },
        lanes: 8,
        shape: StepShape::of(8),
    };
    arena.run(&[op.dispatch(&arena.gpu.target())]);
    let (after, found) = (arena.read(lanes_on_device), arena.read(reports));
    for number in 0..5 {
        let mut lane = lanes[number];
        let own = if lane.gate == GATE_TOKEN {
            &choices[2 * number..][..1]
        } else {
            &candidates[lane.first_row as usize % 4][..]
        };
        let ends = &end_tokens[..lane.end_token_count as usize];
        let expected = reference::advance(&mut lane, &mut tokens[number], ends, cancelled[number], &[own]);
        assert_eq!(found[2 * number], expected, "lane {number}: report");
        assert_eq!(after[number], lane, "lane {number}");
        assert_eq!(arena.read(on_device[number]), tokens[number], "lane {number}: tokens");
        let own = reference::window_counts(&tokens[number][..=lane.position as usize], WINDOWS[number], VOCABULARY);
        assert_eq!(arena.read(counts[number]), own, "lane {number}: counts");
    }
    let status: Vec<(u32, u32, u32)> = found.iter().step_by(2).map(|r| (r.status, r.finish, r.tokens[0])).collect();
    assert_eq!(
        status,
        [
            (STATUS_SAMPLED, FINISH_CANCELLED, 0),
            (STATUS_NO_OP, FINISH_BUDGET, 0),
            (STATUS_SAMPLED, FINISH_BUDGET, 1),
            (STATUS_SAMPLED, FINISH_NONE, 903),
            (STATUS_SAMPLED, FINISH_END_OF_GENERATION, BEST.id),
        ]
    );
}
