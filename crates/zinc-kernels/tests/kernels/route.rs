//! `route` against its reference: ids, lists and numbers of workgroups exactly, weights as `gate_up` gives them.

use zinc_kernels::ops::{Activation, ExpertSelection, GateUpMul, MatMul, Matrix, Product, Route, Tiles, Weighting};
use zinc_kernels::reference;
use zinc_kernels::step::{Grid, MOST_ROWS, Rows, StepShape, Tile};
use zinc_kernels::{Format, Target, Tuning};

use crate::support::data::Random;
use crate::support::many::{self, Output};
use crate::support::{Arena, compare, tolerance};

const fn matrix(format: Format, rows: u32) -> Matrix {
    Matrix { address: 0, format, rows, columns: 256 }
}

/// The matrices of the products. With matrix units, those of the first product cut tiles into parts, since they have two formats.
const GATE: Matrix = matrix(Format::Q4K, 96);
const UP: Matrix = matrix(Format::Q6K, 96);
const DOWN: Matrix = matrix(Format::Q5K, 700);

/// The grids of both products for so many tiles.
fn grids(tiles: Tiles, count: usize, shape: StepShape, target: &Target) -> [Grid; 2] {
    let (state, x, y, tiles) = (0, Rows::one(0), Rows::one(0), Some(tiles));
    let products = [Product { weights: DOWN, bias: None, y }];
    let gate_up = GateUpMul {
        state,
        gate: GATE,
        up: UP,
        tiles,
        group_values: None,
        x,
        biases: None,
        activation: Activation::SwiGlu,
        y,
        shape,
    }
    .dispatch(target);
    let down =
        MatMul { state, products: &products, x, accumulate: false, tiles, group_values: None, shape }.dispatch(target);
    [gate_up, down].map(|product| many::grid(&product, count))
}

/// Chooses `used` of `experts` for each row by `logits`, `[rows][experts]`; the step lists the first `rows` of them. Behind the logits of a row stands that of
/// a shared expert's gate, which is no expert's.
fn check(name: &str, logits: &[Vec<f32>], rows: usize, used: usize, target: &Target) {
    let (room, experts) = (logits.len(), logits[0].len());
    let name = format!("{name}, {used} of {experts}, {rows} of {room} rows, tiles of {}", target.tuning.tile_vectors);
    let mut arena = Arena::new();
    let [ids, weights] = [(); 2].map(|()| Output::empty(&mut arena, room, used));
    let pairs = arena.output::<u32>(room * experts);
    let tiles = arena.in_out(&vec![Tile { expert: 9, first: 9, count: 9, unused: 0 }; room * used]);
    let written = arena.in_out(&[Grid { x: 9, y: 9, z: 9 }; 2]);
    let counters = arena.scratch(&vec![0u32; 1 + experts]);
    let shape = StepShape::of(room as u32);
    let with_gate: Vec<Vec<f32>> = logits.iter().map(|row| [&row[..], &[f32::INFINITY]].concat()).collect();
    let op = Route {
        state: arena.state(many::listed(rows)),
        selection: ExpertSelection {
            logits: many::values(&mut arena, &with_gate),
            experts: experts as u32,
            used: used as u32,
            weighting: Weighting::SoftmaxOfChosen,
            ids: ids.operand,
            weights: weights.operand,
        },
        tiles: Tiles {
            pairs: pairs.address,
            tiles: tiles.address,
            grids: written.address,
            experts: experts as u32,
            used: used as u32,
        },
        gate: GATE,
        up: UP,
        down: DOWN,
        counters: counters.address,
        shape,
    };
    // Twice: the counters are left as they were found.
    for _ in 0..2 {
        arena.run(&[op.dispatch(target)]);
        assert!(arena.read(counters).iter().all(|count| *count == 0), "{name}: the counters");
    }

    let expected: Vec<Vec<(u32, f32)>> =
        logits[..rows].iter().map(|row| reference::select_experts(row, used, Weighting::SoftmaxOfChosen)).collect();
    let all_ids: Vec<u32> = expected.iter().flatten().map(|(id, _)| *id).collect();
    for (row, (found_ids, found_weights)) in ids.read(&arena).iter().zip(weights.read(&arena)).enumerate() {
        if row >= rows {
            assert!(found_ids.iter().all(|id| id.is_nan()), "{name}: row {row} is not listed, but was written");
            continue;
        }
        let found_ids: Vec<u32> = found_ids.iter().map(|id| id.to_bits()).collect();
        assert_eq!(found_ids, all_ids[row * used..][..used], "{name}: ids of row {row}");
        let weights: Vec<f32> = expected[row].iter().map(|(_, weight)| *weight).collect();
        let highest = logits[row].iter().copied().fold(f32::NEG_INFINITY, f32::max);
        compare::within(&format!("{name}: weights of row {row}"), &found_weights, &weights, |i| {
            let below = f64::from(highest - logits[row][found_ids[i] as usize]);
            tolerance::softmax_weight(weights[i], below, experts)
        });
    }
    let (expected_pairs, expected_tiles) = reference::route(
        &all_ids,
        experts as u32,
        room as u32,
        target.listed_pairs(shape, experts as u32, used as u32),
    );
    assert_eq!(arena.read(written)[..], grids(op.tiles, expected_tiles.len(), shape, target), "{name}: the grids");
    let (found_pairs, found_tiles) = (arena.read(pairs), arena.read(tiles));
    assert_eq!(found_tiles[..expected_tiles.len()], expected_tiles, "{name}: the tiles");
    // The pairs of an expert may stand in any order.
    for (expert, (found, expected)) in found_pairs.chunks(room).zip(expected_pairs.chunks(room)).enumerate() {
        let count = all_ids.iter().filter(|id| **id == expert as u32).count();
        let mut found = found[..count].to_vec();
        found.sort_unstable();
        assert_eq!(found, expected[..count], "{name}: pairs of expert {expert}");
    }
}

#[test]
fn rows_are_sorted_by_expert() {
    let target = Arena::new().gpu.target();
    for tile_vectors in [1, 4, 8] {
        let target = Target { tuning: Tuning { tile_vectors, ..target.tuning }, ..target };
        for (rows, room, experts, used) in [
            (1, 1, 4, 1),
            (3, 4, 7, 2),
            (32, 32, 60, 4),
            (100, 128, 128, 8),
            (33, 64, 32, 4),
            (33, 64, 128, 4),
            (17, 32, 1_000, 6),
            (64, 64, 8, 8),
        ] {
            let mut random = Random::new(&format!("{rows} {experts} {used}"));
            let logits: Vec<Vec<f32>> = (0..room).map(|_| random.vector(experts, 4.0)).collect();
            check("random", &logits, rows, used, &target);
        }
    }
}

#[test]
fn all_rows_may_choose_the_same_experts() {
    let target = Arena::new().gpu.target();
    let logits: Vec<f32> = (0..24).map(|i| (i % 7) as f32).collect();
    check("same", &vec![logits; 64], 64, 3, &target);
}

/// Products of a step that lists no rows have no workgroups, whatever was written before.
#[test]
fn a_step_without_rows_has_no_workgroups() {
    let target = Arena::new().gpu.target();
    check("none", &vec![vec![0.5; 6]; 32], 0, 2, &target);
}

/// By matrix units, where a product cuts the tiles of the list into parts; and where the blocks of rows are more than the device's grid is wide.
#[test]
fn workgroups_of_every_form_are_counted() {
    let units = many::with_units();
    let narrow = Target { max_groups: [3, 65_535], ..many::without_units() };
    let mut random = Random::new("forms");
    let logits: Vec<Vec<f32>> = (0..64).map(|_| random.vector(9, 4.0)).collect();
    for target in [units, narrow] {
        check("forms", &logits, 50, 4, &target);
        let [gate_up, down] =
            grids(Tiles { pairs: 0, tiles: 0, grids: 0, experts: 9, used: 4 }, 1, StepShape::of(64), &target);
        assert!(
            if target.units.is_some() { gate_up.z > 1 } else { down.x == 3 && down.y > 1 },
            "{gate_up:?}, {down:?}"
        );
    }
}

/// The largest step, of a mixture of experts as large as they come.
#[test]
fn the_most_rows_are_sorted() {
    let (rows, experts, used) = (MOST_ROWS as usize, 128, 8);
    let mut random = Random::new("most");
    let logits: Vec<Vec<f32>> = (0..rows).map(|_| random.vector(experts, 4.0)).collect();
    let target = Arena::new().gpu.target();
    check("most", &logits, rows - 1, used, &target);
}

#[test]
fn rows_choose_alike_whatever_is_beside_them() {
    let target = Arena::new().gpu.target();
    let mut random = Random::new("odd");
    let logits: Vec<Vec<f32>> = (0..32)
        .map(|row| match row % 4 {
            0 => random.vector(20, 4.0),
            1 => vec![0.5; 20],
            2 => random.whole(20, 2),
            _ => (0..20).map(|i| if i % 3 == 0 { f32::NEG_INFINITY } else { i as f32 }).collect(),
        })
        .collect();
    check("odd", &logits, 32, 4, &target);
}

#[test]
#[should_panic(expected = "experts, and chosen ones, of tiles and of rows")]
fn tiles_of_other_experts_are_refused() {
    let nowhere = Rows::one(0);
    let op = Route {
        state: 0,
        selection: ExpertSelection {
            logits: nowhere,
            experts: 8,
            used: 2,
            weighting: Weighting::SoftmaxOfChosen,
            ids: nowhere,
            weights: nowhere,
        },
        tiles: Tiles { pairs: 0, tiles: 0, grids: 0, experts: 8, used: 3 },
        gate: GATE,
        up: UP,
        down: DOWN,
        counters: 0,
        shape: StepShape::ONE,
    };
    let _ = op.dispatch(&Target::new(32));
}
