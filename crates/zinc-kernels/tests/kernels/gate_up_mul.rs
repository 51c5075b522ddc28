//! `gate_up_mul` against its reference, and against `gate_up`, which computes one row: their bits are equal.

use zinc_kernels::ops::{ActFormat, Activation, ExpertSelection, GateUp, GateUpMul, Input, Routing, Weighting};
use zinc_kernels::reference;
use zinc_kernels::step::{Rows, StepShape};
use zinc_kernels::{Format, Target, Tuning};

use crate::matrix;
use crate::support::data::{Random, host, in_turn, live, widths};
use crate::support::gating::{Biases, CLAMPED, Gating, OTHERS, PLAIN};
use crate::support::many::{self, Choice, Output, Splits, Vectors};
use crate::support::{Arena, compare, tolerance};

/// `experts` is the number of experts and of those that a row uses; `None` for a dense layer. Returns how many workgroups share the groups of a block.
fn check(
    ((gate, up), gating): ((Format, Format), Gating),
    (height, columns): (usize, usize),
    experts: Option<(usize, usize)>,
    (rows, room): (usize, u32),
    choice: Choice,
    target: &Target,
) -> u32 {
    let name = format!(
        "{gate}, {up} {height} x {columns}, {gating:?}, {experts:?}, {rows} of {room} rows, {choice:?}, {:?}",
        target.tuning
    );
    let (matrices, used) = experts.unwrap_or((1, 1));
    let mut random = Random::new(&name);
    let mut arena = Arena::new();
    let x = Vectors::new(&mut random, &mut arena, (room as usize, 1), columns, 2.0);
    let (gate, gates) = many::matrices(&mut random, &mut arena, gate, matrices, (height, columns));
    let (up, ups) = many::matrices(&mut random, &mut arena, up, matrices, (height, columns));
    let biases = gating.biases(&mut random, matrices * height);
    let ids = many::chosen(&mut random, choice, rows, (matrices, used));
    let y = Output::empty(&mut arena, room as usize, used * height);
    let (state, shape) = (arena.state(many::listed(rows)), StepShape::of(room));
    let splits = Splits::new(&mut arena, &[2 * height.next_multiple_of(32)], columns, room);
    let op = GateUpMul {
        state,
        gate,
        up,
        tiles: None,
        group_values: Some(splits.memory),
        x: x.operand,
        biases: biases.as_ref().map(|biases| biases.operands(&mut arena)),
        activation: gating.activation,
        y: y.operand,
        shape,
    };
    let launch = match experts {
        None => op.dispatch(target),
        Some(_) => many::tiled(&mut arena, target, shape, &ids, matrices, |tiles| {
            GateUpMul { tiles: Some(tiles), ..op }.dispatch(target)
        }),
    };
    let without_rows = GateUpMul { state: arena.state(many::listed(0)), ..op };
    let shared_by = splits.run(&arena, &launch, &without_rows.dispatch(target));
    for (row, found) in y.read(&arena).iter().enumerate() {
        let name = format!("{name}, row {row}");
        if row >= rows {
            assert!(found.iter().all(|y| y.is_nan()), "{name} is not listed, but was written");
            continue;
        }
        // The last kernel's results, of one row by itself.
        let alone = {
            let x = Rows { address: x.unordered.address + u64::from(row as u32 * x.unordered.stride), stride: 0 };
            alone(&mut arena, &GateUpMul { x, ..op }, experts.map(|_| (&ids[row][..], matrices)))
        };
        if height.is_multiple_of(16) {
            compare::equal_bits(&format!("{name}, against gate_up"), found, &alone);
        }
        for (slot, found) in found.chunks_exact(height).enumerate() {
            let (gates, ups) = (host(gate.format, columns, &gates), host(up.format, columns, &ups));
            let (expert, x) = (ids[row][slot], &x.rounded[row][0]);
            let of_host = biases.as_ref().map(Biases::host);
            let products = |matrix, biases: Option<&[f32]>| {
                let mut y = vec![0.0; height];
                reference::mat_mul(matrix, expert, x, &mut y);
                let biases = biases.map(|biases| &biases[expert as usize * height..]);
                y.iter_mut().zip(biases.into_iter().flatten()).for_each(|(y, bias)| *y += bias);
                y
            };
            let of_gate = products(&gates, of_host.map(|biases| biases.gate));
            let of_up = products(&ups, of_host.map(|biases| biases.up));
            let mut expected = vec![0.0; height];
            reference::gate_up_mul(&gates, &ups, of_host, gating.activation, expert, x, &mut expected);
            // The argument of a gate's exponential, and what the gate opens for.
            let parts = |row: usize| match gating.activation {
                Activation::SwiGlu => (of_gate[row], of_up[row]),
                Activation::ClampedSwiGlu => (1.702 * of_gate[row], of_up[row].clamp(-7.0, 7.0) + 1.0),
            };
            // The exponential of a gate far below 0 may overflow on a device, or be too large for its division: the quotient is next to nothing then, or 0, whose
            // product with an infinite factor is no number.
            let is_far_below = |row: usize| parts(row).0 < -80.0;
            let known = |(row, y): (usize, &f32)| {
                let may_be_nan = is_far_below(row) && parts(row).1.is_infinite();
                if y.is_nan() && may_be_nan { expected[row] } else { *y }
            };
            let found: Vec<f32> = found.iter().enumerate().map(known).collect();
            compare::within(&name, &found, &expected, |row| {
                let tiny = if is_far_below(row) { 1e-30 * f64::from(parts(row).1.abs()) } else { 0.0 };
                tolerance::activated(gating.activation, (of_gate[row], 0.0), (of_up[row], 0.0)) + tiny
            });
        }
    }
    shared_by
}

/// What `gate_up` computes of a row; nothing for heights that it does not take.
fn alone(arena: &mut Arena, op: &GateUpMul, experts: Option<(&[u32], usize)>) -> Vec<f32> {
    let &GateUpMul { gate, up, biases, activation, x, .. } = op;
    if !gate.rows.is_multiple_of(16) {
        return Vec::new();
    }
    let slots = experts.map_or(1, |(ids, _)| ids.len());
    let y = arena.output::<f32>(slots * gate.rows as usize);
    let routing = experts.map_or(Routing::Dense, |(ids, matrices)| {
        let rank = |id: u32| ids.iter().position(|other| *other == id).unwrap_or(ids.len());
        let logits: Vec<f32> = (0..matrices as u32).map(|id| -(rank(id) as f32)).collect();
        Routing::Experts(ExpertSelection {
            logits: arena.input(&logits).row(),
            experts: matrices as u32,
            used: slots as u32,
            weighting: Weighting::SoftmaxOfChosen,
            ids: arena.output::<u32>(slots).row(),
            weights: arena.output::<f32>(slots).row(),
        })
    });
    let op = GateUp {
        state: arena.state(live()),
        gate,
        up,
        routing,
        x: Input::Rounded(x),
        act: ActFormat::Q14,
        biases,
        activation,
        y: y.row(),
        shape: StepShape::ONE,
    };
    arena.run(&[op.dispatch(&arena.gpu.target())]);
    arena.read(y)
}

#[test]
fn every_format_has_the_bits_of_one_row() {
    let quantised: Vec<Format> = Format::ALL.into_iter().filter(|format| !format.is_float()).collect();
    for (turn, format) in quantised.iter().copied().enumerate() {
        let (columns, ()) = widths(format, &[32, 96, 256, 768], &[()])[0];
        let choice = [Choice::Random, Choice::Same, Choice::Spread][turn % 3];
        for target in many::tile_forms(turn / 4) {
            for &gating in in_turn(&[PLAIN, CLAMPED, OTHERS[1], OTHERS[2]], turn) {
                check(((format, format), gating), (32, columns), Some((5, 2)), (6, 8), choice, &target);
            }
        }
    }
}

#[test]
fn two_formats_dense_and_with_experts() {
    for formats in [(Format::Q4K, Format::Q6K), (Format::Q8_0, Format::Q5K), (Format::Q5_1, Format::Q4K)] {
        for experts in [None, Some((6, 3))] {
            for (turn, gating) in [PLAIN, CLAMPED].into_iter().enumerate() {
                for target in many::tile_forms(turn) {
                    check((formats, gating), (48, 256), experts, (5, 8), Choice::Random, &target);
                }
            }
        }
    }
}

/// Without whole matrices the first two forms by sets, and of those one by one.
#[test]
fn tiles_of_every_form() {
    let target = many::without_units();
    let by_sets = [(2, 2, 2, false), (8, 2, 4, false), (1, 1, 1, false), (4, 1, 4, false), (16, 2, 8, false)];
    let one_by_one = [(4, 4, 2, true), (8, 16, 1, true), (1, 1, 1, true), (16, 8, 8, true)];
    let most = if matrix::is_full() { by_sets.len() } else { 2 };
    let forms = by_sets.into_iter().take(most).chain(one_by_one.into_iter().take(most));
    for (tile_vectors, tile_rows, tile_width, tile_in_turn) in forms {
        let tuning = Tuning { tile_vectors, tile_rows, tile_width, tile_in_turn, ..target.tuning };
        let target = Target { tuning, ..target };
        for rows in [1, 4, 9, 17] {
            for (experts, height) in [(None, 52), (Some((6, 3)), 16)] {
                let gating = if experts.is_some() { CLAMPED } else { PLAIN };
                check(
                    ((Format::Q4K, Format::Q4K), gating),
                    (height, 256),
                    experts,
                    (rows, 32),
                    Choice::Random,
                    &target,
                );
            }
        }
    }
}

/// Pairs of one format by matrix units; and pairs of two, by tiles of dot products that are parts of theirs.
#[test]
fn matrix_units_have_the_bits_of_one_row() {
    let target = many::with_units();
    let formats =
        [Format::Q4K, Format::Q6K, Format::Q2K, Format::Q3K, Format::Q5K, Format::IQ4XS, Format::Q8_0, Format::MXFP4];
    // What stands in for matrix units takes a CPU's compiler long.
    let most = if many::is_emulated(&target) { 1 } else { formats.len() };
    for (turn, format) in formats.into_iter().take(most).enumerate() {
        let choice = [Choice::Random, Choice::Same, Choice::Spread][turn % 3];
        check(((format, format), PLAIN), (48, 512), Some((5, 2)), (20, 32), choice, &target);
    }
    // Heights of whole quads of rows, and others: results are stored otherwise.
    for height in [80, 50] {
        check(((Format::Q4K, Format::Q4K), CLAMPED), (height, 256), None, (33, 64), Choice::Random, &target);
    }
    check(((Format::Q4K, Format::Q6K), PLAIN), (48, 256), Some((6, 3)), (33, 64), Choice::Same, &target);
}

/// As many workgroups as a block has groups, or fewer, in formats of either kind.
#[test]
fn workgroups_share_groups() {
    for ((format, gating), (height, columns), split_workgroups, splits) in [
        ((Format::Q4K, PLAIN), (80, 768), 1_024, 2),
        ((Format::Q6K, CLAMPED), (50, 1_024), 1_024, 4),
        ((Format::Q8_0, OTHERS[1]), (32, 1_056), 1_024, 4),
        ((Format::Q4K, OTHERS[2]), (64, 2_048), 16, 4),
    ] {
        let target = many::splitting(split_workgroups);
        for rows in [33, 64, 9] {
            let found = check(((format, format), gating), (height, columns), None, (rows, 64), Choice::Random, &target);
            assert_eq!(found, splits, "{format} {height} x {columns}");
        }
    }
    // Experts have their own blocks, which are not shared out.
    let target = many::splitting(1_024);
    let formats = (Format::Q4K, Format::Q4K);
    assert_eq!(check((formats, PLAIN), (48, 768), Some((5, 2)), (20, 32), Choice::Random, &target), 1);
}

/// As gpt-oss has them: experts in MXFP4 of 2,880 columns, of which the last group has 64, with biases and its activation; and fewer such columns. All
/// rows choose the same experts, so that these have every row, or choose at random.
#[test]
fn a_last_group_of_64() {
    for target in [many::without_units(), many::with_units()] {
        for (columns, choice) in [(320, Choice::Same), (320, Choice::Random), (2_880, Choice::Random)] {
            if columns == 2_880 && many::is_emulated(&target) {
                continue;
            }
            let formats = (Format::MXFP4, Format::MXFP4);
            check((formats, CLAMPED), (48, columns), Some((8, 4)), (19, 32), choice, &target);
        }
    }
}
