//! `gate_up` against its reference: dense and with experts, in every format and form of activations.

use crate::support::data::{Random, Scales, device_rows, host, in_turn, live, magnitudes, weights, widths};
use crate::support::gating::{self, Biases, CLAMPED, Gating, PLAIN};
use crate::support::operand::{self, Operand, Source};
use crate::support::rows::{self, Builder, Use, View};
use crate::support::{Arena, compare, tolerance};
use zinc_kernels::ops::{
    ActFormat, Activation, ExpertSelection, GateUp, GateUpBiases, Input, Matrix, Norm, Routing, Weighting,
};
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
    gating: Gating,
}

const EXPERTS: Case = Case {
    gate: Format::Q8_0,
    up: Format::Q8_0,
    rows: 48,
    columns: 96,
    experts: 6,
    ids: &[5, 0, 3, 1],
    scales: Scales::Sane,
    gating: PLAIN,
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
    let &Case { rows, columns, experts, scales, gating, .. } = case;
    let mut random = Random::new(&name);
    let gate = weights(&mut random, case.gate, experts * rows, columns, scales);
    let up = weights(&mut random, case.up, experts * rows, columns, scales);
    let slots = case.ids.len().max(1);
    let biases = gating.biases(&mut random, experts * rows);

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
        biases: biases.as_ref().map(|biases| biases.operands(&mut arena)),
        activation: gating.activation,
        y: y.row(),
        shape: StepShape::ONE,
    };
    arena.run(&[op.dispatch(target)]);
    for (slot, found) in arena.read(y).chunks(rows).enumerate() {
        let expert = case.ids.get(slot).copied().unwrap_or(0);
        let name = format!("{name}, slot {slot}");
        let (gate, up) = (host(case.gate, columns, &gate), host(case.up, columns, &up));
        let mut expected = vec![f32::NAN; rows];
        let of_host = biases.as_ref().map(Biases::host);
        reference::gate_up(&gate, &up, of_host, gating.activation, expert, &operand.values, &mut expected);

        let first = expert as usize * rows;
        // Each product of the expert with its bias, and how far it may be off.
        let products = |matrix: &reference::HostMatrix<'_>, biases: Option<&[f32]>| -> Vec<(f32, f64)> {
            let mut all = vec![0.0; experts * rows];
            reference::mat_vec(matrix, &operand.values, &mut all);
            let of_operand = operand.bounds(matrix, first..first + rows);
            let magnitudes = magnitudes(matrix, first..first + rows, &operand.values);
            let of_row = |row: usize| {
                let bias = biases.map_or(0.0, |biases| biases[first + row]);
                let size = if bias.is_finite() { f64::from(bias.abs()) } else { 0.0 };
                let magnitude = magnitudes[row] + size;
                (all[first + row] + bias, tolerance::sum(columns, magnitude) + of_operand[row])
            };
            (0..rows).map(of_row).collect()
        };
        let gates = products(&gate, of_host.map(|biases| biases.gate));
        let ups = products(&up, of_host.map(|biases| biases.up));
        compare::within(&name, found, &expected, |row| tolerance::activated(gating.activation, gates[row], ups[row]));
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
            for &gating in [PLAIN].iter().chain(in_turn(&gating::OTHERS, turn)) {
                for scales in [Scales::Sane, Scales::Whole] {
                    let case = Case { gate, up, columns: 256, experts: 1, ids: &[], scales, gating, ..EXPERTS };
                    check_forms(&case, act, source, &target);
                }
            }
        }
    }
}

#[test]
fn different_formats_with_experts() {
    for (gate, up) in [(Format::Q4K, Format::Q6K), (Format::F32, Format::Q5_0)] {
        for gating in [PLAIN, CLAMPED] {
            for scales in [Scales::Sane, Scales::Whole] {
                check(&Case { gate, up, columns: 512, scales, gating, ..EXPERTS });
            }
        }
    }
}

/// As gpt-oss has them: experts in MXFP4, or in BF16, of 2,880 columns, of which the last group has 64; and fewer such columns.
#[test]
fn a_last_group_of_64() {
    for format in [Format::MXFP4, Format::BF16, Format::Q8_0] {
        for (columns, gating) in [(320, CLAMPED), (2_880, CLAMPED), (320, PLAIN)] {
            for scales in [Scales::Sane, Scales::Whole] {
                check(&Case { gate: format, up: format, columns, scales, gating, ..EXPERTS });
            }
        }
    }
}

#[test]
fn experts_in_any_order() {
    for ids in [&[0u32][..], &[5], &[3, 1, 4, 0, 5, 2], &[2, 4], &[5, 4, 3, 2, 1, 0]] {
        for rows in [16, 64, 112] {
            for scales in [Scales::Sane, Scales::Whole] {
                check(&Case { ids, rows, scales, ..EXPERTS });
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
            let case = Case { gate: format, up: format, columns: 544, ..EXPERTS };
            check_bits(&case, (act, Source::Floats), &target);
            check_clamped_bits(&Case { gating: CLAMPED, ..case }, (act, Source::Floats), &target);
        }
    }
}

/// Each row chooses experts of its own.
#[test]
fn rows_of_a_step() {
    let (experts, used) = (6, 3);
    let normalised = Some(Source::Normalised);
    for (act, dense, gating) in [
        (ActFormat::Q14, None, PLAIN),
        (ActFormat::F32, None, PLAIN),
        (ActFormat::Q14, normalised, PLAIN),
        (ActFormat::Q14, Some(Source::Rounded), PLAIN),
        (ActFormat::F32, normalised, PLAIN),
        (ActFormat::Q14, None, CLAMPED),
        (ActFormat::F32, None, CLAMPED),
        (ActFormat::Q14, normalised, CLAMPED),
        (ActFormat::Q14, Some(Source::Rounded), CLAMPED),
    ] {
        // Dense layers have the source of the vector, experts none.
        let (is_dense, is_normalised) = (dense.is_some(), dense == normalised);
        let name = format!("{act:?}, dense: {dense:?}, {gating:?}");
        rows::check(
            &name,
            |_| live(),
            |b: &mut Builder| {
                let (slots, matrices) = if is_dense { (1, 1) } else { (used, experts) };
                let gate = b.matrix(Format::Q4K, matrices, 48, 512);
                let up = b.matrix(Format::Q6K, matrices, 48, 512);
                let x = b.activations(if is_normalised { ActFormat::F32 } else { act }, 512);
                let norm = Norm { weight: b.shared(512), epsilon: operand::EPSILON };
                let biases =
                    gating.biased.then(|| GateUpBiases { gate: b.shared(matrices * 48), up: b.shared(matrices * 48) });
                let y = b.output(slots * 48 * 4);
                let selection = (!is_dense).then(|| ExpertSelection {
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
                    let x = match (is_normalised, act) {
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
                        biases,
                        activation: gating.activation,
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
fn check_bits(case: &Case, form: (ActFormat, Source), target: &Target) {
    assert_eq!(case.gating.activation, Activation::SwiGlu);
    let name = format!("{case:?}, {form:?}, {:?}", target.tuning);
    let mut compared = 0;
    // One of either sign makes a row's gate large and positive.
    for size in [1e5, -1e5] {
        let biases = case.gating.biases(&mut Random::new(&format!("{name}, biases")), case.experts * case.rows);
        for (row, (gate, up, found)) in joined(&name, case, form, size, biases.as_ref(), target).into_iter().enumerate()
        {
            if gate > 104.0 {
                compare::equal_bits(&format!("{name}, row {row}"), &[found], &[gate * up]);
                compared += 1;
            } else if gate < -104.0 && gate.is_finite() && up.is_finite() {
                // Infinite, or so large that the quotient is next to nothing.
                assert!(found.abs() < 1e-20, "{name}, row {row}: {found}");
            }
        }
    }
    assert!(compared >= case.rows * case.ids.len() / 2, "{name}: only {compared} rows had a large gate");
}

/// With the gate clamped, which a bias sees to, the first factor is one number, the device's: what is multiplied with it is the reference's, to the bit.
fn check_clamped_bits(case: &Case, form: (ActFormat, Source), target: &Target) {
    assert!(case.gating.activation == Activation::ClampedSwiGlu && case.gating.biased);
    let name = format!("{case:?}, {form:?}, {:?}", target.tuning);
    let biases = case.gating.biases(&mut Random::new(&format!("{name}, biases")), case.experts * case.rows);
    let biases = biases.map(|biases| Biases { gate: vec![1e6; biases.gate.len()], ..biases });
    // So small that few products reach the limit by themselves.
    let all = joined(&name, case, form, 0.02, biases.as_ref(), target);
    // The other product is clamped as well where its bias is infinite, and 7 + 1 is a power of two.
    let factor = all.iter().find(|(_, up, _)| *up >= 7.0).map_or(f32::NAN, |(_, _, found)| found / 8.0);
    assert!((factor - 7.0).abs() < 1e-4, "{name}: {factor}");
    for (row, &(gate, up, found)) in all.iter().enumerate() {
        assert!(gate > 7.0, "{name}, row {row}: a gate of {gate}");
        let expected = factor * (up.clamp(-7.0, 7.0) + 1.0);
        compare::equal_bits(&format!("{name}, row {row}"), &[found], &[expected]);
    }
    let free = all.iter().filter(|(_, up, _)| up.abs() < 7.0).count();
    assert!(free >= all.len() / 2, "{name}: {free} rows of {} are not clamped", all.len());
}

/// What the kernel makes of a case with activations up to `size`, behind the reference's two products with their biases: by slot and row.
fn joined(
    name: &str,
    case: &Case,
    (act, source): (ActFormat, Source),
    size: f32,
    biases: Option<&Biases>,
    target: &Target,
) -> Vec<(f32, f32, f32)> {
    let &Case { gate, up, rows, columns, experts, ids, scales, gating } = case;
    let mut random = Random::new(name);
    let gates = weights(&mut random, gate, experts * rows, columns, scales);
    let ups = weights(&mut random, up, experts * rows, columns, scales);
    let mut arena = Arena::new();
    let x = Operand::new(&mut random, &mut arena, columns, (act, source), (scales, size));
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
        biases: biases.map(|biases| biases.operands(&mut arena)),
        activation: gating.activation,
        y: y.row(),
        shape: StepShape::ONE,
    };
    arena.run(&[op.dispatch(target)]);
    let product = |format: Format, bytes: &[u8], bias: Option<f32>, row: usize| {
        let row_bytes = format.row_bytes(columns);
        let row = &bytes[row * row_bytes..][..row_bytes];
        let product = match &x.rounded {
            Some(x) => reference::quantised_product(format, row, x),
            None => reference::float_product(format, row, &x.values),
        };
        bias.map_or(product, |bias| product + bias)
    };
    let places = ids.iter().flat_map(|&id| (0..rows).map(move |row| id as usize * rows + row));
    let joined = places.zip(arena.read(y)).map(|(at, found)| {
        let gate = product(gate, &gates, biases.map(|biases| biases.gate[at]), at);
        let up = product(up, &ups, biases.map(|biases| biases.up[at]), at);
        (gate, up, found)
    });
    joined.collect()
}

#[test]
fn products_have_the_bits_of_the_reference() {
    let target = Arena::new().gpu.target();
    let biased = Gating { biased: true, ..PLAIN };
    for (turn, format) in Format::ALL.into_iter().enumerate() {
        let cases = widths(format, &[32, 96, 288, 768, 2_048], operand::forms(format));
        for (case, (columns, act)) in cases.into_iter().enumerate() {
            let rounded = act == ActFormat::Q14 && (turn + case / 2) % 2 == 1;
            let source = if rounded { Source::Rounded } else { Source::Floats };
            let of_experts = Case { gate: format, up: format, rows: 32, columns, ids: &[5, 0, 3], ..EXPERTS };
            check_bits(&of_experts, (act, source), &target);
            for &gating in in_turn(&[CLAMPED, biased], turn + case) {
                let of_experts = Case { gating, ..of_experts };
                match gating.activation {
                    Activation::SwiGlu => check_bits(&of_experts, (act, source), &target),
                    Activation::ClampedSwiGlu => check_clamped_bits(&of_experts, (act, source), &target),
                }
            }
        }
    }
    let of_two = |(gate, up)| Case { gate, up, rows: 48, columns: 512, ids: &[1, 2], ..EXPERTS };
    for formats in [(Format::Q4K, Format::Q6K), (Format::Q6K, Format::Q8_0), (Format::Q5_1, Format::Q4K)] {
        check_bits(&of_two(formats), (ActFormat::Q14, Source::Rounded), &target);
    }
    for formats in [(Format::F16, Format::Q6K), (Format::Q5_1, Format::F32)] {
        check_bits(&of_two(formats), (ActFormat::F32, Source::Floats), &target);
    }
}
