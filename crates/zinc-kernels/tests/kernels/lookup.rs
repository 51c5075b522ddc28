//! `lookup` against its reference: state and tokens compare exactly.

use std::ops::RangeInclusive;

use crate::support::Arena;
use crate::support::data::{Random, live};
use zinc_kernels::Target;
use zinc_kernels::ops::Lookup;
use zinc_kernels::reference;
use zinc_kernels::step::{Lane, MOST_RUN, StepState};

/// What stands behind the position before the launch, and behind the drafts after it.
const NOTHING: u32 = 9_999;

/// A lane at the last of `said`.
fn at(said: &[u32]) -> Lane {
    Lane { position: said.len() as u32 - 1, token: said[said.len() - 1], ..live() }
}

/// Runs the kernel over a sequence; gives the drafts.
#[track_caller]
fn check(name: &str, said: &[u32], state: impl Into<StepState>, ngrams: RangeInclusive<u32>, drafts: u32) -> Vec<u32> {
    let state: StepState = state.into();
    let mut tokens = said.to_vec();
    tokens.extend([NOTHING; MOST_RUN as usize]);
    let mut arena = Arena::new();
    let tokens_on_device = arena.in_out(&tokens);
    let state = StepState { lane: Lane { tokens: tokens_on_device.address, ..state.lane }, ..state };
    let state_on_device = arena.in_out(&[state]);
    let mut expected = state;
    reference::lookup(&mut expected, &mut tokens, &ngrams, drafts);
    let op = Lookup { state: state_on_device.address, ngrams, drafts };
    arena.run(&[op.dispatch(&arena.gpu.target())]);
    let [found] = arena.read(state_on_device)[..] else { unreachable!("one state") };
    assert_eq!(found, expected, "{name}: state");
    assert_eq!(arena.read(tokens_on_device), tokens, "{name}: tokens");
    let rows = &expected.rows[..expected.row_count as usize];
    rows.iter().skip(1).map(|row| row.token).collect()
}

#[test]
fn the_longest_match_wins_and_then_the_latest() {
    let cases = [
        ("nothing stood there before", vec![1, 2, 3, 4, 5], 1..=3, 7, vec![]),
        ("one token", vec![1], 1..=3, 7, vec![]),
        ("a match of one", vec![1, 2, 3, 4, 1], 1..=3, 7, vec![2, 3, 4, 1]),
        ("a match of one is too short", vec![1, 2, 3, 4, 1], 2..=3, 7, vec![]),
        ("as many drafts as asked for", vec![1, 2, 3, 4, 1], 1..=3, 2, vec![2, 3]),
        ("no drafts asked for", vec![1, 2, 3, 4, 1], 1..=3, 0, vec![]),
        ("the latest of two", vec![1, 2, 7, 1, 2, 8, 1, 2], 2..=2, 1, vec![8]),
        ("the longer of two, though earlier", vec![5, 1, 2, 7, 6, 1, 2, 8, 5, 1, 2], 1..=3, 1, vec![7]),
        ("beyond the longest it makes no difference", vec![5, 1, 2, 7, 6, 1, 2, 8, 5, 1, 2], 1..=2, 1, vec![8]),
        ("a match at the very beginning", vec![1, 2, 3, 9, 9, 1, 2], 2..=2, 7, vec![3, 9, 9, 1, 2]),
        ("a match that the beginning cuts off", vec![2, 3, 9, 8, 1, 2], 1..=2, 7, vec![3, 9, 8, 1, 2]),
        ("a match that overlaps the end", vec![4, 4, 4, 4], 1..=2, 7, vec![4]),
        ("a match longer than the sequence is not asked for", vec![3, 3], 1..=100, 7, vec![3]),
        ("what stood there before is the end itself", vec![7, 8], 1..=2, 7, vec![]),
        ("more drafts than lanes of a narrow subgroup", (0..20).chain(0..3).collect(), 2..=3, 15, (3..18).collect()),
    ];
    for (name, said, ngrams, drafts, expected) in cases {
        assert_eq!(check(name, &said, at(&said), ngrams, drafts), expected, "{name}");
    }
}

#[test]
fn drafts_end_with_the_budget_and_the_context() {
    let said = &[1, 2, 3, 4, 5, 6, 1, 2];
    let lane = at(said);
    let count = |name, state: StepState| check(name, said, state, 2..=3, 7).len();
    assert_eq!(count("room for all", lane.into()), 6);
    assert_eq!(count("budget", Lane { budget: 4, ..lane }.into()), 3);
    assert_eq!(count("a budget of one", Lane { budget: 1, ..lane }.into()), 0);
    assert_eq!(count("context", Lane { context_length: 11, ..lane }.into()), 3);
    assert_eq!(count("the context's last position", Lane { context_length: 8, ..lane }.into()), 0);
    assert_eq!(count("the last of the prompt", Lane { prompt_length: 8, ..lane }.into()), 6);
    assert_eq!(count("within the prompt", Lane { prompt_length: 9, ..lane }.into()), 0);
    assert_eq!(count("drafts that were left over", StepState::new(lane, &[2, 9, 9, 9, 9])), 6);
    assert_eq!(count("ended", StepState::new(lane, &[])), 0);
}

/// What lies behind the position is not part of the sequence.
#[test]
fn the_sequence_ends_at_the_position() {
    let said = &[1, 2, 3, 1, 2, 4, 1, 2, 5, 1, 2];
    let state = Lane { position: 4, token: 2, ..live() };
    assert_eq!(check("the middle", said, state, 2..=2, 2), [3, 1]);
}

/// Few distinct tokens, so that there are many matches of every length, in sequences of more places than threads.
#[test]
fn random_sequences() {
    for length in [2, 3, 30, 127, 128, 129, 1_025, 20_000] {
        for distinct in [1, 2, 3, 50] {
            for (min, max) in [(1, 1), (2, 4), (1, 9)] {
                let name = format!("{length} tokens of {distinct}, {min} to {max}");
                let mut random = Random::new(&name);
                let said: Vec<u32> = (0..length).map(|_| random.below(distinct) as u32).collect();
                let state = Lane { context_length: length as u32 + 100, ..at(&said) };
                check(&name, &said, state, min..=max, 7);
            }
        }
    }
}

#[test]
#[should_panic(expected = "places with 0 to 3 tokens in common are looked for: at least 1 is needed")]
fn no_tokens_in_common_are_refused() {
    let _ = Lookup { state: 0, ngrams: 0..=3, drafts: 1 }.dispatch(&Target::new(32));
}

#[test]
#[should_panic(expected = "16 drafts: less than 16 are supported")]
fn too_many_drafts_are_refused() {
    let _ = Lookup { state: 0, ngrams: 1..=3, drafts: 16 }.dispatch(&Target::new(32));
}
