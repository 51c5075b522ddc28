//! `list` against its reference: the state and the lanes compare exactly.

use crate::support::Arena;
use crate::support::arena::values;
use crate::support::data::{Random, live};
use zinc_kernels::generated::lane::{FINISH_BUDGET, FINISH_CANCELLED, FINISH_NONE};
use zinc_kernels::ops::List;
use zinc_kernels::reference;
use zinc_kernels::step::{Lane, MOST_LANES, MOST_ROWS, StepLanes, StepState, WantedLane};

/// Pages that the table of a lane has room for.
const LANE_PAGES: u32 = 5;

/// The token of a lane at a position.
fn token(lane: u32, position: u32) -> u32 {
    1_000 * lane + position
}

/// Runs the kernel over lanes of which those that `wanted` names take part. Returns the state and the lanes that it leaves.
fn check(
    name: &str,
    lanes: &[Lane],
    wanted: &StepLanes,
    cancelled: &[u32],
    leader: Option<&Lane>,
) -> (StepState, Vec<Lane>) {
    let tables: Vec<u32> = (0..MOST_LANES * LANE_PAGES).map(|entry| 1_000 + entry).collect();
    let mut arena = Arena::new();
    let lanes: Vec<Lane> = (0..)
        .zip(lanes)
        .map(|(number, lane)| {
            let tokens: Vec<u32> = (0..lane.prompt_length.max(lane.position + 1)).map(|at| token(number, at)).collect();
            Lane { tokens: arena.input(&tokens).address, ..*lane }
        })
        .collect();
    let lanes_on_device = arena.in_out(&lanes);
    // What an earlier step has left.
    let state = StepState { lanes: lanes_on_device.address, row_count: 7, lane_count: 3, ..StepState::default() };
    let with_tables = [bytemuck::bytes_of(&state), bytemuck::cast_slice(&tables)].concat();
    let state_on_device = arena.in_out(&with_tables);
    let op = List {
        state: state_on_device.address,
        wanted: arena.input(&[*wanted]).address,
        cancelled: arena.input(cancelled).address,
        leader: leader.map_or(0, |leader| arena.input(&[*leader]).address),
    };
    arena.run(&[op.dispatch(&arena.gpu.target())]);
    let (mut expected, mut expected_lanes, mut expected_tables) = (state, lanes, tables);
    reference::list(&mut expected, &mut expected_lanes, &mut expected_tables, wanted, cancelled, leader, token);
    let found = arena.read(state_on_device);
    let (found, tables) = found.split_at(size_of::<StepState>());
    assert_eq!(values::<u32>(tables), expected_tables, "{name}: tables of pages");
    let found: StepState = bytemuck::pod_read_unaligned(found);
    let lanes = arena.read(lanes_on_device);
    assert!(found == expected, "{name}: {:?}", &found.rows[..(found.row_count as usize).min(20)]);
    assert_eq!(lanes, expected_lanes, "{name}: lanes");
    (found, lanes)
}

/// A lane whose last token is the one at its position.
fn lane(number: u32, position: u32, prompt_length: u32) -> Lane {
    Lane { token: token(number, position), position, prompt_length, sequence: 90 + number, ..live() }
}

#[test]
fn lanes_have_rows_while_their_sequences_go_on() {
    let lanes: Vec<Lane> = (0..6).map(|number| lane(number, 10 + number, 3)).collect();
    let mut with_ended = lanes.clone();
    with_ended[2].finish = FINISH_BUDGET;
    let none = [0; 6];
    let rows = |(state, _): (StepState, Vec<Lane>)| -> Vec<(u32, u32, u32)> {
        let rows = state.rows[..state.row_count as usize].iter();
        rows.map(|row| (row.lane, row.token, row.position)).collect()
    };
    let wanted = StepLanes::of(&[4, 2, 0], 1);
    let all = [(4, 4_014, 14), (2, 2_012, 12), (0, 10, 10)];
    assert_eq!(rows(check("all go on", &lanes, &wanted, &none, None)), all);
    assert_eq!(rows(check("one has ended", &with_ended, &wanted, &none, None)), [all[0], all[2]]);
    let leader = Lane { finish: FINISH_BUDGET, ..live() };
    assert_eq!(rows(check("their leader goes on", &lanes, &wanted, &none, Some(&live()))), all);
    assert_eq!(rows(check("their leader has ended", &lanes, &wanted, &none, Some(&leader))), []);
    assert_eq!(rows(check("nobody is wanted", &lanes, &StepLanes::of(&[], 1), &none, None)), []);

    // A cancellation is for one sequence of one lane.
    let cancelled = [0, 0, 92, 90, 93, 0];
    let (state, after) = check("one is cancelled", &with_ended, &wanted, &[0, 0, 92, 0, 0, 0], None);
    assert_eq!((state.row_count, after[2].finish), (2, FINISH_BUDGET), "it had ended by itself");
    let (state, after) = check("one is cancelled", &lanes, &wanted, &cancelled, None);
    assert_eq!((state.row_count, after[2].finish, after[2].rows), (2, FINISH_CANCELLED, 0));
    assert_eq!((after[0].finish, after[4].finish), (FINISH_NONE, FINISH_NONE), "other lanes' numbers");
}

#[test]
fn a_prompt_has_as_many_rows_as_are_wanted_and_left() {
    for (position, prompt_length, wanted, rows) in [
        (0, 1, 1, 1),
        (0, 1, 512, 1),
        (0, 5, 1, 1),
        (0, 5, 3, 3),
        (0, 5, 5, 5),
        (2, 5, 100, 3),
        (4, 5, 100, 1),
        (5, 5, 100, 1),
        (9, 5, 100, 1),
        (3, 700, 512, 512),
        (0, 5_000, MOST_ROWS, MOST_ROWS),
        (0, 5_000, u32::MAX, MOST_ROWS),
        (0, 5, 0, 1),
    ] {
        let name = format!("{position} of {prompt_length}, {wanted} wanted");
        let lanes = [live(), lane(1, position, prompt_length)];
        let (state, lanes) = check(&name, &lanes, &StepLanes::of(&[1], wanted), &[0; 2], None);
        assert_eq!((state.row_count, lanes[1].first_row, lanes[1].rows), (rows, 0, rows), "{name}");
        let last = state.rows[rows as usize - 1];
        assert_eq!(
            (last.offset, last.position, last.token, last.lane),
            (rows - 1, position + rows - 1, 1_000 + last.position, 1)
        );
    }
}

#[test]
fn each_prompt_has_rows_of_its_own() {
    let lanes = [lane(0, 4, 50), lane(1, 0, 9), lane(2, 30, 20), lane(3, 7, 10)];
    let wanted = [(3, 100), (0, 6), (2, 5), (1, 0)].map(|(lane, rows)| WantedLane { lane, rows });
    let (state, after) = check("four prompts", &lanes, &StepLanes::with_rows(&wanted), &[0; 4], None);
    let rows = |number: usize| (after[number].first_row, after[number].rows);
    assert_eq!([3, 0, 2, 1].map(rows), [(0, 3), (3, 6), (9, 1), (10, 1)]);
    let places: Vec<(u32, u32)> = state.rows[..11].iter().map(|row| (row.lane, row.position)).collect();
    let expected = [(3, 7), (3, 8), (3, 9), (0, 4), (0, 5), (0, 6), (0, 7), (0, 8), (0, 9), (2, 30), (1, 0)];
    assert_eq!((state.row_count, &places[..]), (11, &expected[..]));
    let offsets: Vec<u32> = state.rows[..11].iter().map(|row| row.offset).collect();
    assert_eq!(offsets, [0, 1, 2, 0, 1, 2, 3, 4, 5, 0, 0]);
}

#[test]
fn a_step_has_no_more_rows_than_its_table() {
    let lanes: Vec<Lane> = (0..4).map(|number| lane(number, 0, 900 + number)).collect();
    let (state, lanes) = check("four prompts", &lanes, &StepLanes::of(&[3, 0, 2, 1], MOST_ROWS), &[0; 4], None);
    assert_eq!(state.row_count, MOST_ROWS);
    assert_eq!(lanes.iter().map(|lane| lane.rows).collect::<Vec<u32>>(), [900, 0, MOST_ROWS - 1_803, 903]);
}

#[test]
fn random_steps() {
    for round in 0..40 {
        let name = format!("step {round}");
        let mut random = Random::new(&name);
        let count = 1 + random.below(MOST_LANES as usize) as u32;
        let lanes: Vec<Lane> = (0..count)
            .map(|number| {
                let (position, prompt) = (random.below(40) as u32, random.below(60) as u32);
                let finish = if random.below(4) == 0 { FINISH_BUDGET } else { FINISH_NONE };
                Lane { finish, ..lane(number, position, prompt) }
            })
            .collect();
        let cancelled: Vec<u32> = (0..count).map(|number| if random.below(6) == 0 { 90 + number } else { 0 }).collect();
        let mut numbers: Vec<u32> = (0..count).collect();
        for place in (1..numbers.len()).rev() {
            numbers.swap(place, random.below(place + 1));
        }
        numbers.truncate(1 + random.below(numbers.len()));
        let wanted: Vec<WantedLane> =
            numbers.iter().map(|lane| WantedLane { lane: *lane, rows: 1 + random.below(20) as u32 }).collect();
        let mut wanted = StepLanes::with_rows(&wanted);
        for _ in 0..random.below(MOST_LANES as usize + 1) {
            // Each entry once: what a step writes twice is not defined.
            let (lane, index) = (wanted.grown_count, random.below(LANE_PAGES as usize) as u32);
            wanted.grow(lane, index, random.below(1_000) as u32, LANE_PAGES);
        }
        let (state, after) = check(&name, &lanes, &wanted, &cancelled, None);
        let listed: u32 = numbers.iter().map(|number| after[*number as usize].rows).sum();
        assert_eq!((state.row_count, state.lane_count), (listed, numbers.len() as u32), "{name}");
    }
}
