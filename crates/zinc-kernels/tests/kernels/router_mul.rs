//! `router_mul` against its reference, and to the bit against `router`.

use zinc_kernels::ops::{ActFormat, Matrix, Norm, Router, RouterMul};
use zinc_kernels::step::StepShape;
use zinc_kernels::{Format, reference};

use crate::support::data::{Random, Scales, device_rows, host, weights};
use crate::support::many::{self, Output};
use crate::support::operand::{self, EPSILON};
use crate::support::{Arena, compare};

fn check(format: Format, (rows, room): (usize, u32), columns: usize, experts: usize, biased: bool) {
    let name = format!("{format}, {rows} of {room} rows, {experts} experts, {columns} columns, biased: {biased}");
    let mut random = Random::new(&name);
    let mut arena = Arena::new();
    let mut x: Vec<Vec<f32>> = (0..room).map(|_| random.vector(columns, 1.0)).collect();
    if rows > 2 {
        // What is beside a row changes nothing in it.
        x[1][columns / 2] = f32::NAN;
        x[2][0] = f32::INFINITY;
    }
    let norm = random.vector(columns, 1.5);
    let stored = weights(&mut random, format, experts, columns, Scales::Sane);
    let address = arena.input(&device_rows(format, columns, &stored)).address;
    let matrix = Matrix { address, format, rows: experts as u32, columns: columns as u32 };
    let biases = random.vector(experts, 3.0);
    let (bias, of_host) = biased.then(|| (arena.input(&biases).address, &biases[..])).unzip();
    let norm_of_x = Norm { weight: arena.input(&norm).address, epsilon: EPSILON };
    let (state, operand) = (arena.state(many::listed(rows)), many::values(&mut arena, &x));
    let empty = |arena: &mut Arena| Output::empty(arena, room as usize, experts);
    let (logits, one_by_one) = (empty(&mut arena), empty(&mut arena));
    let (shape, target) = (StepShape::of(room), arena.gpu.target());
    let many = RouterMul { state, x: operand, norm: norm_of_x, matrix, bias, logits: logits.operand, shape };
    let y = Output::empty(&mut arena, room as usize, operand::stored_bytes(ActFormat::F32, columns) / 4);
    let router = Router {
        state,
        x: operand,
        norm: norm_of_x,
        matrix,
        bias,
        y: y.operand,
        act: ActFormat::F32,
        ordered: false,
        logits: one_by_one.operand,
        shape,
    };
    arena.run(&[many.dispatch(&target), router.dispatch(&target)]);
    let host = host(format, columns, &stored);
    for (row, (found, alone)) in logits.read(&arena).iter().zip(one_by_one.read(&arena)).enumerate() {
        let name = format!("{name}, row {row}");
        if row >= rows || x[row].iter().all(|x| x.is_finite()) {
            compare::equal_bits(&name, found, &alone);
        } else {
            assert!(found.iter().all(|logit| !logit.is_finite() || *logit == 0.0), "{name}: {found:?}");
        }
        if row < rows && x[row].iter().all(|x| x.is_finite()) {
            let mut expected = vec![f32::NAN; experts];
            reference::router_mul(&x[row], &norm, EPSILON, &host, of_host, &mut expected);
            // The root and the division are the device's.
            let size = |i: usize| expected[i].abs() + 2.0 * of_host.map_or(0.0, |biases| biases[i].abs());
            compare::within(&name, found, &expected, |i| f64::from(size(i)) * 1e-6);
        }
    }
}

#[test]
fn rows_of_every_float_format() {
    for format in [Format::F32, Format::F16, Format::BF16] {
        for biased in [false, true] {
            check(format, (5, 8), 512, 9, biased);
        }
    }
}

#[test]
fn shapes() {
    for (rows, columns, experts) in [
        ((1, 1), 32, 4),
        ((0, 4), 256, 16),
        ((33, 64), 256, 60),
        ((64, 64), 2_048, 128),
        ((3, 32), 4_096, 9),
        ((7, 8), 288, 8),
        ((500, 512), 256, 33),
        ((19, 32), 2_880, 32),
        ((19, 32), 320, 128),
        ((19, 32), 2_048, 257),
        ((40, 64), 512, 513),
    ] {
        // Odd numbers of experts are those of a layer with a shared one, whose gate is the last row. Rows whose last group
        // has 64 columns are those of gpt-oss, which has biases.
        check(Format::F32, rows, columns, experts, columns % 256 == 64);
    }
}
