//! `last_accepted` against its reference: the drafting lane and the vector compare exactly.

use crate::support::Arena;
use crate::support::data::live;
use zinc_kernels::generated::lane::{FINISH_BUDGET, FINISH_NONE};
use zinc_kernels::ops::LastAccepted;
use zinc_kernels::reference;
use zinc_kernels::step::{Lane, Rows, StepShape, StepState};

/// Runs the kernel behind a step that listed so many rows from position 20 on and took the sequence on by `moved`, with drafts that go to other tokens or not.
/// Returns which row's vector was taken, and the drafting lane.
fn check(rows: u32, moved: u32, elsewhere: bool, width: usize) -> (Option<usize>, Lane) {
    let name = format!("{rows} rows, {moved} tokens, elsewhere: {elsewhere}, {width} wide");
    let lane = Lane { position: 20, sequence: 7, inverse_temperature: 0.7, samplers: 5, seed_low: 3, ..live() };
    let mut state = StepState::new(Lane { tokens: 4_096, ..lane }, &vec![1; rows as usize]);
    (state.lane.token, state.lane.position) = (77, 20 + moved);
    // What the drafting lane has from another sequence.
    let left = Lane { position: 900, finish: FINISH_BUDGET, budget: 0, sequence: 3, end_token_count: 2, ..lane };
    let drafting = StepState { lane: left, ..StepState::default() };

    let apart = width + 36;
    let x: Vec<f32> = (0..rows.max(1) as usize * apart).map(|i| i as f32).collect();
    let mut arena = Arena::new();
    let (on_device, y) = (arena.in_out(&[drafting]), arena.output::<f32>(width));
    let op = LastAccepted {
        state: arena.state(state),
        draft: on_device.address,
        tokens: elsewhere.then_some(8_192),
        x: Rows { address: arena.input(&x).address, stride: 4 * apart as u32 },
        y: y.address,
        width: width as u32,
        shape: StepShape::of(rows.max(1)),
    };
    let before = arena.outputs();
    arena.run(&[op.dispatch(&arena.gpu.target())]);

    let mut expected = drafting;
    let tokens = if elsewhere { 8_192 } else { 4_096 };
    let row = reference::last_accepted(&state, &state.lane, &mut expected.lane, tokens);
    assert!(arena.read(on_device)[0] == expected, "{name}: {:?}", arena.read(on_device)[0].lane);
    match row {
        Some(row) => assert!(arena.read(y)[..] == x[row * apart..][..width], "{name}: the vector of row {row}"),
        None => assert!(arena.outputs() == before, "{name}: nothing is written"),
    }
    (row, expected.lane)
}

#[test]
fn the_last_row_that_was_accepted_is_drafted_behind() {
    for (rows, moved, expected) in [(1, 1, 0), (4, 1, 0), (4, 3, 2), (4, 4, 3), (16, 16, 15), (16, 2, 1)] {
        for (elsewhere, width) in [(false, 32), (true, 4_096 + 32)] {
            let (row, lane) = check(rows, moved, elsewhere, width);
            assert_eq!(row, Some(expected), "{rows} rows, {moved} tokens");
            // What is meant is said once more without the reference.
            let tokens = if elsewhere { 8_196 } else { 4_100 };
            assert_eq!((lane.token, lane.position, lane.tokens), (77, 19 + moved, tokens));
            assert_eq!((lane.finish, lane.sequence, lane.inverse_temperature), (FINISH_NONE, 7, 0.0));
            assert_eq!((lane.context_length, lane.samplers, lane.end_token_count), (live().context_length - 1, 0, 0));
        }
    }
}

#[test]
fn nothing_is_drafted_behind_a_step_without_rows() {
    assert_eq!(check(0, 0, false, 64).0, None);
}
