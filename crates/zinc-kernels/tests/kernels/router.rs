//! `router` against its reference.

use crate::support::data::{Random, Scales, device_rows, host, in_turn, live, magnitudes, weights};
use crate::support::operand::{self, Operand, Source};
use crate::support::rows::{self, Builder, Use, View};
use crate::support::{Arena, compare, tolerance};
use zinc_kernels::ops::{ActFormat, Input, Matrix, Norm, Router};
use zinc_kernels::step::StepShape;
use zinc_kernels::{Format, reference};

fn check(format: Format, columns: usize, experts: usize, act: ActFormat, biased: bool) {
    // Both orders of runs are tested, each with some sizes.
    let ordered = columns.is_multiple_of(512);
    let name = format!("{format}, {experts} experts, {columns} columns, {act:?}, biased: {biased}");
    let mut random = Random::new(&name);
    let mut arena = Arena::new();
    let operand =
        Operand::new(&mut random, &mut arena, columns, (ActFormat::F32, Source::Normalised), (Scales::Sane, 1.0));
    let Input::Normalised(x, norm) = operand.input else { panic!("{:?} is not normalised", operand.input) };
    let rows = weights(&mut random, format, experts, columns, Scales::Sane);
    let biases = random.vector(experts, if biased { 3.0 } else { 0.0 });
    let logits = arena.output::<f32>(experts);
    let y = arena.output::<u8>(operand::stored_bytes(act, columns));
    let address = arena.input(&device_rows(format, columns, &rows)).address;
    let op = Router {
        state: arena.state(live()),
        x,
        norm,
        matrix: Matrix { address, format, rows: experts as u32, columns: columns as u32 },
        bias: biased.then(|| arena.input(&biases).address),
        y: y.row(),
        act,
        ordered,
        logits: logits.row(),
        shape: StepShape::ONE,
    };
    arena.run(&[op.dispatch(&arena.gpu.target())]);

    let matrix = host(format, columns, &rows);
    let mut expected = vec![f32::NAN; experts];
    reference::mat_vec(&matrix, &operand.values, &mut expected);
    expected.iter_mut().zip(&biases).for_each(|(logit, bias)| *logit += bias);
    let (bounds, magnitudes) = (operand.bounds(&matrix, 0..experts), magnitudes(&matrix, 0..experts, &operand.values));
    compare::within(&format!("{name}: logits"), &arena.read(logits), &expected, |i| {
        bounds[i] + tolerance::sum(columns, magnitudes[i] + f64::from(biases[i].abs()))
    });
    let normed = operand::stored(act, &arena.read::<u8>(y), columns, ordered);
    compare::within(&format!("{name}: normed"), &normed, &operand.values, |i| {
        operand::step(act, &operand.values, i) + tolerance::rms_norm(columns, operand.values[i])
    });
}

#[test]
fn every_format() {
    for (turn, format) in Format::ALL.into_iter().enumerate() {
        for &biased in in_turn(&[false, true], turn) {
            check(format, 256, 9, ActFormat::F32, biased);
        }
    }
}

#[test]
fn shapes_and_forms() {
    // Odd numbers are those of experts and the gate of one that is shared.
    for (columns, experts, biased) in [
        (32, 4, false),
        (256, 128, true),
        (2_048, 60, false),
        (4_096, 9, false),
        (2_880, 32, true),
        (320, 128, true),
        (2_048, 257, false),
        (512, 513, false),
    ] {
        for act in [ActFormat::F32, ActFormat::Q14] {
            check(Format::F32, columns, experts, act, biased);
        }
    }
}

#[test]
fn rows_of_a_step() {
    for (act, biased) in [(ActFormat::F32, false), (ActFormat::Q14, false), (ActFormat::Q14, true)] {
        rows::check(
            &format!("{act:?}, biased: {biased}"),
            |_| live(),
            |b: &mut Builder| {
                let x = b.vector(Use::Input, 256);
                let norm = Norm { weight: b.shared(256), epsilon: operand::EPSILON };
                let matrix = b.matrix(Format::F32, 1, 9, 256);
                let bias = biased.then(|| b.shared(9));
                let (y, logits) = (b.output(operand::stored_bytes(act, 256)), b.output(9 * 4));
                let target = b.arena.gpu.target();
                move |v: &View| {
                    let (y, logits) = (v.own(y), v.own(logits));
                    Router {
                        state: v.state,
                        x: v.own(x),
                        norm,
                        matrix,
                        bias,
                        y,
                        act,
                        ordered: false,
                        logits,
                        shape: v.shape,
                    }
                    .dispatch(&target)
                }
            },
        );
    }
}
