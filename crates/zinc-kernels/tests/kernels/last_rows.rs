//! `last_rows` against its reference: the state, the lanes and the residual stream compare exactly.

use crate::support::Arena;
use crate::support::data::{Random, live};
use zinc_kernels::generated::lane::FINISH_CANCELLED;
use zinc_kernels::ops::LastRows;
use zinc_kernels::reference;
use zinc_kernels::step::{Lane, MOST_LANES, MOST_ROWS, Row, Rows, StepShape, StepState};

/// What a lane has in the step: its rows, and the tokens of its prompt that are left behind them.
type Part = (u32, u32);

/// Runs the kernel over a step of these lanes, which are listed in the opposite order of their numbers. Returns the rows that are left, and all lanes.
fn check(name: &str, width: usize, parts: &[Part]) -> (Vec<Row>, Vec<Lane>) {
    let count: u32 = parts.iter().map(|(rows, _)| rows).sum();
    let lane = |(number, &(rows, left)): (u32, &Part)| {
        let (position, finish) = (10 * number, if rows == 0 { FINISH_CANCELLED } else { 0 });
        Lane { position, prompt_length: position + rows + left, rows, finish, token: 7, ..live() }
    };
    let mut lanes: Vec<Lane> = (0..).zip(parts).map(lane).collect();
    let mut state = StepState { row_count: count, lane_count: parts.len() as u32, ..StepState::default() };
    let mut first = 0;
    for (place, number) in (0..parts.len() as u32).rev().enumerate() {
        state.listed[place] = number;
        let lane = &mut lanes[number as usize];
        lane.first_row = first;
        for offset in 0..lane.rows {
            let position = lane.position + offset;
            let token = 1_000 * number + position;
            state.rows[(first + offset) as usize] = Row { offset, token, position, lane: number };
        }
        first += lane.rows;
    }

    // A row has other arrays behind its residual stream.
    let apart = width + 36;
    let x: Vec<f32> = (0..count.max(1) as usize * apart).map(|i| i as f32).collect();
    let mut arena = Arena::new();
    let lanes_on_device = arena.in_out(&lanes);
    state.lanes = lanes_on_device.address;
    let (state_on_device, x_on_device) = (arena.in_out(&[state]), arena.in_out(&x));
    let op = LastRows {
        state: state_on_device.address,
        x: Rows { address: x_on_device.address, stride: 4 * apart as u32 },
        width: width as u32,
        shape: StepShape::of(count.max(1)),
    };
    arena.run(&[op.dispatch(&arena.gpu.target())]);

    let (mut expected, mut expected_lanes, mut expected_x) = (state, lanes, x);
    for (row, from) in reference::last_rows(&mut expected, &mut expected_lanes).into_iter().enumerate() {
        expected_x.copy_within(from * apart..from * apart + width, row * apart);
    }
    let found = arena.read(state_on_device)[0];
    let lanes = arena.read(lanes_on_device);
    let rows = found.rows[..found.row_count as usize].to_vec();
    assert!(found == expected, "{name}: {rows:?}");
    assert_eq!(lanes, expected_lanes, "{name}");
    assert!(arena.read(x_on_device) == expected_x, "{name}: the residual stream");
    (rows, lanes)
}

#[test]
fn the_last_row_of_a_prompt_becomes_the_only_one() {
    for (width, counts) in [(32, &[1, 2, 3, 16, 17, 33, MOST_ROWS][..]), (4_096 + 32, &[2, 64])] {
        for &count in counts {
            let name = format!("{count} rows of {width}");
            let (rows, lanes) = check(&name, width, &[(count, 0)]);
            // What is meant is said once more without the reference.
            let last = count - 1;
            assert_eq!(rows, [Row { offset: 0, token: last, position: last, lane: 0 }], "{name}");
            let Lane { token, position, first_row, rows, .. } = lanes[0];
            assert_eq!((token, position, first_row, rows), (last, last, 0, 1), "{name}");
        }
    }
}

#[test]
fn the_prompts_that_end_leave_a_row_each() {
    // By lane: rows, and tokens left. Lanes are listed from the last to the first.
    for (parts, expected) in [
        (&[(3, 0), (5, 0)][..], &[(1, 14), (0, 2)][..]),
        (&[(3, 0), (5, 1), (4, 0)], &[(2, 23), (0, 2)]),
        (&[(3, 7), (5, 1)], &[]),
        (&[(1, 0), (1, 0), (1, 0)], &[(2, 20), (1, 10), (0, 0)]),
        // One that was cancelled has no rows.
        (&[(3, 0), (0, 4), (2, 0)], &[(2, 21), (0, 2)]),
        (&[(0, 0)], &[]),
    ] {
        let (rows, lanes) = check(&format!("{parts:?}"), 64, parts);
        let found: Vec<(u32, u32)> = rows.iter().map(|row| (row.lane, row.position)).collect();
        assert_eq!(found, expected, "{parts:?}");
        for (number, &(rows, _)) in parts.iter().enumerate() {
            let ends = expected.iter().any(|(lane, _)| *lane == number as u32);
            assert_eq!(lanes[number].rows, if ends { 1 } else { rows }, "{parts:?}: rows of lane {number}");
        }
    }
}

#[test]
fn random_steps() {
    for round in 0..30 {
        let name = format!("step {round}");
        let mut random = Random::new(&name);
        let parts: Vec<Part> = (0..1 + random.below(MOST_LANES as usize))
            .map(|_| (random.below(9) as u32, random.below(3) as u32))
            .collect();
        check(&name, 32 + 32 * random.below(5), &parts);
    }
}
