//! `cancel` against its reference: the state and the lanes compare exactly.

use crate::support::Arena;
use crate::support::data::{Random, live};
use zinc_kernels::generated::lane::{FINISH_BUDGET, FINISH_CANCELLED, FINISH_NONE};
use zinc_kernels::ops::Cancel;
use zinc_kernels::reference;
use zinc_kernels::step::{Lane, MOST_LANES, MOST_ROWS, StepState};

/// Runs the kernel over a state and its lanes. Returns both as they are left.
fn check(name: &str, state: StepState, lanes: &[Lane], cancelled: &[u32]) -> (StepState, Vec<Lane>) {
    let mut arena = Arena::new();
    let lanes_on_device = arena.in_out(lanes);
    let state = StepState { lanes: lanes_on_device.address, ..state };
    let state_on_device = arena.in_out(&[state]);
    let op = Cancel { state: state_on_device.address, cancelled: arena.input(cancelled).address };
    arena.run(&[op.dispatch(&arena.gpu.target())]);
    let (mut expected, mut expected_lanes) = (state, lanes.to_vec());
    reference::cancel(&mut expected, &mut expected_lanes, cancelled);
    assert!(arena.read(state_on_device) == [expected], "{name}");
    assert_eq!(arena.read(lanes_on_device), expected_lanes, "{name}");
    (expected, expected_lanes)
}

#[test]
fn the_sequence_that_the_host_names_ends() {
    let lane = Lane { sequence: 7, position: 20, ..live() };
    let many: Vec<u32> = (0..MOST_ROWS).collect();
    let ended = StepState::new(Lane { finish: FINISH_BUDGET, ..lane }, &[]);
    let cases: [(&str, StepState, u32, (u32, u32)); 6] = [
        ("nobody is cancelled", lane.into(), 0, (1, FINISH_NONE)),
        ("the sequence", lane.into(), 7, (0, FINISH_CANCELLED)),
        ("one before it", lane.into(), 6, (1, FINISH_NONE)),
        ("a chunk", StepState::new(lane, &many), 7, (0, FINISH_CANCELLED)),
        ("a chunk of another sequence", StepState::new(lane, &many), 8, (MOST_ROWS, FINISH_NONE)),
        ("a sequence that has ended by itself", ended, 7, (0, FINISH_BUDGET)),
    ];
    for (name, state, cancelled, left) in cases {
        let (state, lanes) = check(name, state, &[state.lane], &[cancelled]);
        // The table says what is meant, so that a mistake which both sides share does not pass.
        assert_eq!((state.row_count, lanes[0].finish), left, "{name}");
    }
}

/// A step of so many lanes, with rows of each, or none if it has ended; and the lanes.
fn step(rows: &[u32]) -> (StepState, Vec<Lane>) {
    let mut state = StepState { lane_count: rows.len() as u32, ..StepState::default() };
    let lane = |(number, &rows): (u32, &u32)| {
        state.listed[number as usize] = number;
        let finish = if rows == 0 { FINISH_BUDGET } else { FINISH_NONE };
        let lane = Lane { sequence: 90 + number, first_row: state.row_count, rows, finish, ..live() };
        state.row_count += rows;
        lane
    };
    let lanes = (0..).zip(rows).map(lane).collect();
    (state, lanes)
}

#[test]
fn the_others_go_on_until_nobody_does() {
    for (rows, cancelled, row_count, left) in [
        (&[3, 4, 5][..], &[0, 91, 0][..], 12, &[3, 0, 5][..]),
        (&[3, 4, 5], &[90, 0, 92], 12, &[0, 4, 0]),
        (&[3, 4, 5], &[90, 91, 92], 0, &[0, 0, 0]),
        (&[3, 4, 5], &[91, 90, 0], 12, &[3, 4, 5]),
        (&[0, 4, 0], &[0, 91, 0], 0, &[0, 0, 0]),
        (&[0, 4, 0], &[90, 0, 92], 4, &[0, 4, 0]),
    ] {
        let (state, lanes) = step(rows);
        let (state, lanes) = check(&format!("{rows:?}, {cancelled:?}"), state, &lanes, cancelled);
        assert_eq!(state.row_count, row_count, "{rows:?}, {cancelled:?}");
        assert_eq!(lanes.iter().map(|lane| lane.rows).collect::<Vec<u32>>(), left, "{rows:?}, {cancelled:?}");
    }
}

/// More lanes than a subgroup has threads, of which many end, or all.
#[test]
fn random_steps() {
    for round in 0..30 {
        let name = format!("step {round}");
        let mut random = Random::new(&name);
        let rows: Vec<u32> = (0..1 + random.below(MOST_LANES as usize)).map(|_| random.below(3) as u32).collect();
        let most = if round % 3 == 0 { 1 } else { 4 };
        let cancelled: Vec<u32> =
            (0..rows.len() as u32).map(|number| if random.below(most) == 0 { 90 + number } else { 0 }).collect();
        let (state, lanes) = step(&rows);
        let (state, _) = check(&name, state, &lanes, &cancelled);
        assert!(most > 1 || state.row_count == 0, "{name}: all are cancelled");
    }
}
