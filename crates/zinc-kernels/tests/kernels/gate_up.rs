//! `gate_up` against its reference: dense and with experts, in every format and form of activations.

use crate::support::data::{Random, Scales, device_rows, host, live, magnitudes, weights, widths};
use crate::support::operand::{self, Operand, Source};
use crate::support::rows::{self, Builder, Use, View};
use crate::support::{Arena, compare, tolerance};
use zinc_kernels::ops::{ActFormat, Activation, ExpertSelection, GateUp, Input, Matrix, Norm, Routing, Weighting};
use zinc_kernels::reference;
use zinc_kernels::step::{Rows, StepShape};
use zinc_kernels::{Format, Target, Tuning};

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
    rows: 48,
    columns: 96,
    experts: 6,
    ids: &[5, 0, 3, 1],
    scales: Scales::Sane,
};

/// Every form of the activations that both formats can meet.
fn check(case: &Case) {
    let target = Arena::new().gpu.target();
    let form = if case.gate.is_float() { case.gate } else { case.up };
    for &act in operand::forms(form) {
        check_forms(case, act, if act == ActFormat::F32 { Source::Floats } else { Source::Rounded }, &target);
    }
}

/// Logits of which those of `ids` are the highest, in that order.
fn logits_that_choose(ids: &[u32], experts: usize) -> Vec<f32> {
    let rank = |expert: usize| ids.iter().position(|id| *id as usize == expert).unwrap_or(ids.len());
    (0..experts).map(|expert| -(rank(expert) as f32)).collect()
}

fn check_forms(case: &Case, act: ActFormat, source: Source, target: &Target) {
    let name = format!("{case:?}, {act:?}, {source:?}, {:?}", target.tuning);
    let &Case { rows, columns, experts, scales, .. } = case;
    let mut random = Random::new(&name);
    let gate = weights(&mut random, case.gate, experts * rows, columns, scales);
    let up = weights(&mut random, case.up, experts * rows, columns, scales);
    let slots = case.ids.len().max(1);

    let mut arena = Arena::new();
    let operand = Operand::new(&mut random, &mut arena, columns, (act, source), (scales, 1.0));
    let y = arena.output::<f32>(slots * rows);
    let mut matrix = |bytes: &[u8], format| Matrix {
        address: arena.input(&device_rows(format, columns, bytes)).address,
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
            ids => Routing::Experts(ExpertSelection {
                logits: arena.input(&logits_that_choose(ids, experts)).row(),
                experts: experts as u32,
                used: slots as u32,
                weighting: Weighting::SoftmaxOfChosen,
                ids: arena.output::<u32>(slots).row(),
                weights: arena.output::<f32>(slots).row(),
            }),
        },
        x: operand.input,
        act,
        biases: None,
        activation: Activation::SwiGlu,
        y: y.row(),
        shape: StepShape::ONE,
    };
    arena.run(&[op.dispatch(target)]);
    for (slot, found) in arena.read(y).chunks(rows).enumerate() {
        let expert = case.ids.get(slot).copied().unwrap_or(0);
        let name = format!("{name}, slot {slot}");
        let (gate, up) = (host(case.gate, columns, &gate), host(case.up, columns, &up));
        let mut expected = vec![f32::NAN; rows];
        reference::gate_up(&gate, &up, None, Activation::SwiGlu, expert, &operand.values, &mut expected);

        let first = expert as usize * rows;
        let product = |matrix: &reference::HostMatrix<'_>| {
            let mut all = vec![0.0; experts * rows];
            reference::mat_vec(matrix, &operand.values, &mut all);
            let of_operand = operand.bounds(matrix, first..first + rows);
            let magnitudes = magnitudes(matrix, first..first + rows, &operand.values);
            let errors: Vec<f64> =
                magnitudes.iter().zip(of_operand).map(|(m, bound)| tolerance::sum(columns, *m) + bound).collect();
            (all[first..first + rows].to_vec(), errors)
        };
        let ((gate, gate_errors), (up, up_errors)) = (product(&gate), product(&up));
        compare::within(&name, found, &expected, |row| {
            tolerance::gate_up(gate[row], gate_errors[row], up[row], up_errors[row])
        });
    }
}

/// Building a pipeline takes nearly all of the time: each is for two formats, both of which meet each form of the activations, some normalised
/// and some as they are.
#[test]
fn every_format_dense() {
    let target = Arena::new().gpu.target();
    let (floats, quantised): (Vec<_>, Vec<_>) = Format::ALL.into_iter().partition(|format| format.is_float());
    for (pair, formats) in floats.chunks(2).chain(quantised.chunks(2)).enumerate() {
        let (gate, up) = (formats[0], formats[formats.len() - 1]);
        for (turn, &act) in (pair..).zip(operand::forms(gate)) {
            let source = if turn % 2 == 1 { Source::Normalised } else { Source::Floats };
            for scales in [Scales::Sane, Scales::Whole] {
                let case = Case { gate, up, columns: 256, experts: 1, ids: &[], scales, ..PLAIN };
                check_forms(&case, act, source, &target);
            }
        }
    }
}

#[test]
fn different_formats_with_experts() {
    for (gate, up) in [(Format::Q4K, Format::Q6K), (Format::F32, Format::Q5_0)] {
        for scales in [Scales::Sane, Scales::Whole] {
            check(&Case { gate, up, columns: 512, scales, ..PLAIN });
        }
    }
}

#[test]
fn experts_in_any_order() {
    for ids in [&[0u32][..], &[5], &[3, 1, 4, 0, 5, 2], &[2, 4], &[5, 4, 3, 2, 1, 0]] {
        for rows in [16, 64, 112] {
            for scales in [Scales::Sane, Scales::Whole] {
                check(&Case { ids, rows, scales, ..PLAIN });
            }
        }
    }
}

/// However few rows a subgroup takes and however much it loads beforehand.
#[test]
fn every_tuning() {
    let target = Arena::new().gpu.target();
    for (gate_up_width, quarters_ahead) in [(1, 1), (2, 2), (4, 4), (8, 4), (16, 4)] {
        let tuning = Tuning { gate_up_width, quarters_ahead, ..target.tuning };
        let target = Target { tuning, ..target };
        for (format, act) in
            [(Format::Q8_0, ActFormat::Q14), (Format::Q8_0, ActFormat::F32), (Format::F16, ActFormat::F32)]
        {
            check_bits(format, format, (48, 544), &[5, 0, 3, 1], (act, Source::Floats), &target);
        }
    }
}

/// Each row chooses experts of its own.
#[test]
fn rows_of_a_step() {
    let (experts, used) = (6, 3);
    for (act, dense) in [(ActFormat::Q14, false), (ActFormat::F32, false), (ActFormat::Q14, true)] {
        let name = format!("{act:?}, dense: {dense}");
        rows::check(
            &name,
            |_| live(),
            |b: &mut Builder| {
                let (slots, matrices) = if dense { (1, 1) } else { (used, experts) };
                let gate = b.matrix(Format::Q4K, matrices, 48, 512);
                let up = b.matrix(Format::Q6K, matrices, 48, 512);
                let x = b.activations(if dense { ActFormat::F32 } else { act }, 512);
                let norm = Norm { weight: b.shared(512), epsilon: operand::EPSILON };
                let y = b.output(slots * 48 * 4);
                let selection = (!dense).then(|| ExpertSelection {
                    logits: b.vector(Use::Input, experts),
                    experts: experts as u32,
                    used: used as u32,
                    weighting: Weighting::SoftmaxOfAll,
                    ids: b.output(used * 4),
                    weights: b.output(used * 4),
                });
                let target = b.arena.gpu.target();
                move |v: &View| {
                    let routing = selection.map_or(Routing::Dense, |selection| {
                        let (logits, ids, weights) =
                            (v.own(selection.logits), v.own(selection.ids), v.own(selection.weights));
                        Routing::Experts(ExpertSelection { logits, ids, weights, ..selection })
                    });
                    let x = match (dense, act) {
                        (true, _) => Input::Normalised(v.own(x), norm),
                        (false, ActFormat::F32) => Input::Floats(v.own(x)),
                        (false, ActFormat::Q14) => Input::Rounded(v.own(x)),
                    };
                    GateUp {
                        state: v.state,
                        gate,
                        up,
                        routing,
                        x,
                        act,
                        biases: None,
                        activation: Activation::SwiGlu,
                        y: v.own(y),
                        shape: v.shape,
                    }
                    .dispatch(&target)
                }
            },
        );
    }
}

fn refused(gate: Matrix, up: Matrix) {
    let act = ActFormat::F32;
    let (routing, nowhere) = (Routing::Dense, Rows::one(0));
    let op = GateUp {
        state: 0,
        gate,
        up,
        routing,
        x: Input::Floats(nowhere),
        act,
        biases: None,
        activation: Activation::SwiGlu,
        y: nowhere,
        shape: StepShape::ONE,
    };
    let _ = op.dispatch(&Target::new(32));
}

#[test]
#[should_panic(expected = "gate is 16 x 64 but up is 32 x 64")]
fn matrices_of_different_shapes_are_refused() {
    let gate = Matrix { address: 0, format: Format::F16, rows: 16, columns: 64 };
    refused(gate, Matrix { rows: 32, ..gate });
}

#[test]
#[should_panic(expected = "20 rows are not a multiple of 16")]
fn a_part_of_a_run_is_refused() {
    let gate = Matrix { address: 0, format: Format::F16, rows: 20, columns: 64 };
    refused(gate, gate);
}

/// The products are the reference's, to the bit. The gate's are so large that the function between the two is the
/// identity on every device, since the exponential of their negatives is lost beside 1.
fn check_bits(
    gate: Format,
    up: Format,
    (rows, columns): (usize, usize),
    ids: &[u32],
    form: (ActFormat, Source),
    target: &Target,
) {
    // One of either sign makes a row's gate large and positive.
    let compared = [1e5, -1e5].map(|size| large_gates(gate, up, (rows, columns), ids, form, size, target));
    assert!(compared[0] + compared[1] >= rows * ids.len() / 2, "only {compared:?} rows had a large gate");
}

/// Compares the rows whose gate is large and positive, and returns how many there are.
fn large_gates(
    gate: Format,
    up: Format,
    (rows, columns): (usize, usize),
    ids: &[u32],
    (act, source): (ActFormat, Source),
    size: f32,
    target: &Target,
) -> usize {
    let name =
        format!("{gate} and {up}, {rows} x {columns}, experts {ids:?}, {act:?}, {source:?}, {:?}", target.tuning);
    let experts = 6;
    let mut random = Random::new(&name);
    let gates = weights(&mut random, gate, experts * rows, columns, Scales::Sane);
    let ups = weights(&mut random, up, experts * rows, columns, Scales::Sane);
    let mut arena = Arena::new();
    let x = Operand::new(&mut random, &mut arena, columns, (act, source), (Scales::Sane, size));
    let y = arena.output::<f32>(ids.len() * rows);
    let mut matrix = |bytes: &[u8], format| Matrix {
        address: arena.input(&device_rows(format, columns, bytes)).address,
        format,
        rows: rows as u32,
        columns: columns as u32,
    };
    let (gate_matrix, up_matrix) = (matrix(&gates, gate), matrix(&ups, up));
    let op = GateUp {
        state: arena.state(live()),
        gate: gate_matrix,
        up: up_matrix,
        routing: Routing::Experts(ExpertSelection {
            logits: arena.input(&logits_that_choose(ids, experts)).row(),
            experts: experts as u32,
            used: ids.len() as u32,
            weighting: Weighting::SoftmaxOfChosen,
            ids: arena.output::<u32>(ids.len()).row(),
            weights: arena.output::<f32>(ids.len()).row(),
        }),
        x: x.input,
        act,
        biases: None,
        activation: Activation::SwiGlu,
        y: y.row(),
        shape: StepShape::ONE,
    };
    arena.run(&[op.dispatch(target)]);
    let product = |format: Format, bytes: &[u8], row: usize| {
        let row_bytes = format.row_bytes(columns);
        let row = &bytes[row * row_bytes..][..row_bytes];
        match &x.rounded {
            Some(x) => reference::quantised_product(format, row, x),
            None => reference::float_product(format, row, &x.values),
        }
    };
    let mut compared = 0;
    for (found, &id) in arena.read(y).chunks(rows).zip(ids) {
        for (row, &found) in found.iter().enumerate() {
            let at = id as usize * rows + row;
            let gate = product(gate, &gates, at);
            if gate > 104.0 {
                let expected = gate * product(up, &ups, at);
                assert_eq!(
                    found.to_bits(),
                    expected.to_bits(),
                    "{name}, expert {id}, row {row}: {found}, not {expected}"
                );
                compared += 1;
            } else if gate < -104.0 {
                // Infinite, or so large that the quotient is next to nothing.
                assert!(found.abs() < 1e-20, "{name}, expert {id}, row {row}: {found}");
            }
        }
    }
    compared
}

#[test]
fn products_have_the_bits_of_the_reference() {
    let target = Arena::new().gpu.target();
    for (turn, format) in Format::ALL.into_iter().enumerate() {
        let cases = widths(format, &[32, 96, 288, 768, 2_048], operand::forms(format));
        for (case, (columns, act)) in cases.into_iter().enumerate() {
            let rounded = act == ActFormat::Q14 && (turn + case / 2) % 2 == 1;
            let source = if rounded { Source::Rounded } else { Source::Floats };
            check_bits(format, format, (32, columns), &[5, 0, 3], (act, source), &target);
        }
    }
    for (gate, up) in [(Format::Q4K, Format::Q6K), (Format::Q6K, Format::Q8_0), (Format::Q5_1, Format::Q4K)] {
        check_bits(gate, up, (48, 512), &[1, 2], (ActFormat::Q14, Source::Rounded), &target);
    }
    for (gate, up) in [(Format::F16, Format::Q6K), (Format::Q5_1, Format::F32)] {
        check_bits(gate, up, (48, 512), &[1, 2], (ActFormat::F32, Source::Floats), &target);
    }
}
