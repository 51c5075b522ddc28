//! `gate_up` against its reference: dense and with experts, in every pair of formats that models mix.

#![cfg(feature = "vk")]

mod support;

use support::data::{Random, Scales, host, live, magnitudes, weights};
use support::{Arena, compare, tolerance};
use zinc_kernels::ops::{GateUp, Matrix, Routing};
use zinc_kernels::{Format, Target, reference};

#[derive(Clone, Copy, Debug)]
struct Case {
    gate: Format,
    up: Format,
    rows: usize,
    columns: usize,
    experts: usize,
    /// The chosen experts; none for a dense layer.
    ids: &'static [u32],
    scales: Scales,
}

const PLAIN: Case = Case {
    gate: Format::Q8_0,
    up: Format::Q8_0,
    rows: 37,
    columns: 96,
    experts: 6,
    ids: &[5, 0, 3, 3],
    scales: Scales::Sane,
};

fn check(case: &Case) {
    let name = format!("{case:?}");
    let &Case { rows, columns, experts, scales, .. } = case;
    let mut random = Random::new(&name);
    let gate = weights(&mut random, case.gate, experts * rows, columns, scales);
    let up = weights(&mut random, case.up, experts * rows, columns, scales);
    let x = if scales == Scales::Whole { random.whole(columns, 2) } else { random.vector(columns, 1.0) };
    let slots = case.ids.len().max(1);

    let mut arena = Arena::new();
    let y = arena.output(slots * rows);
    let mut matrix = |bytes: &[u8], format| Matrix {
        address: arena.input(bytes).address,
        format,
        rows: rows as u32,
        columns: columns as u32,
    };
    let (gate_matrix, up_matrix) = (matrix(&gate, case.gate), matrix(&up, case.up));
    let op = GateUp {
        state: arena.state(live()),
        gate: gate_matrix,
        up: up_matrix,
        routing: match case.ids {
            [] => Routing::Dense,
            ids => Routing::Experts { ids: arena.input(ids).address, slots: slots as u32 },
        },
        x: arena.input(&x).address,
        y: y.address,
    };
    arena.run(&[op.dispatch(&arena.gpu.target())]);
    let found: Vec<f32> = arena.read(y);

    for (slot, found) in found.chunks(rows).enumerate() {
        let expert = case.ids.get(slot).copied().unwrap_or(0);
        let name = format!("{name}, slot {slot}");
        let (gate, up) = (host(case.gate, columns, &gate), host(case.up, columns, &up));
        let mut expected = vec![f32::NAN; rows];
        reference::gate_up(&gate, &up, expert, &x, &mut expected);

        let first = expert as usize * rows;
        let product = |matrix: &reference::HostMatrix<'_>| {
            let mut all = vec![0.0; experts * rows];
            reference::mat_vec(matrix, &x, &mut all);
            let error = |magnitude| if scales == Scales::Whole { 0.0 } else { tolerance::sum(columns, magnitude) };
            let errors: Vec<f64> = magnitudes(matrix, first..first + rows, &x).into_iter().map(error).collect();
            (all[first..first + rows].to_vec(), errors)
        };
        let ((gate, gate_errors), (up, up_errors)) = (product(&gate), product(&up));
        compare::within(&name, found, &expected, |row| {
            tolerance::gate_up(gate[row], gate_errors[row], up[row], up_errors[row])
        });
    }
}

#[test]
fn every_format_dense() {
    for format in Format::ALL {
        for scales in [Scales::Sane, Scales::Whole] {
            check(&Case { gate: format, up: format, columns: 256, experts: 1, ids: &[], scales, ..PLAIN });
        }
    }
}

#[test]
fn different_formats_of_gate_and_up() {
    for (gate, up, ids) in
        [(Format::Q4K, Format::Q6K, PLAIN.ids), (Format::Q6K, Format::Q4K, &[]), (Format::F32, Format::Q5_0, PLAIN.ids)]
    {
        for scales in [Scales::Sane, Scales::Whole] {
            check(&Case { gate, up, columns: 512, ids, scales, ..PLAIN });
        }
    }
}

#[test]
fn experts_in_any_order() {
    for ids in [&[0u32][..], &[5], &[3, 1, 4, 0, 5, 2], &[2, 2, 2], &[5, 4, 3, 2, 1, 0, 5, 4]] {
        for rows in [1, 3, 4, 37, 130] {
            for scales in [Scales::Sane, Scales::Whole] {
                check(&Case { ids, rows, scales, ..PLAIN });
            }
        }
    }
}

#[test]
#[should_panic(expected = "gate is 4 x 64 but up is 5 x 64")]
fn matrices_of_different_shapes_are_refused() {
    let gate = Matrix { address: 0, format: Format::F16, rows: 4, columns: 64 };
    let up = Matrix { rows: 5, ..gate };
    let _ = GateUp { state: 0, gate, up, routing: Routing::Dense, x: 0, y: 0 }.dispatch(&Target::new(32));
}
