//! `router` against its reference: the chosen ids compare exactly, given the logits.

#![cfg(feature = "vk")]

mod support;

use support::data::{Random, Scales, device_rows, host, live, magnitudes, weights};
use support::operand::{self, Operand};
use support::{Arena, compare, tolerance};
use zinc_kernels::ops::{ActFormat, Matrix, Norm, Router, Weighting};
use zinc_kernels::{Format, reference};

const WEIGHTINGS: [Weighting; 2] = [Weighting::SoftmaxOfChosen, Weighting::SoftmaxOfAll];

/// What a launch leaves.
struct Chosen {
    logits: Vec<f32>,
    ids: Vec<u32>,
    weights: Vec<f32>,
    normed: Vec<u8>,
}

/// Routes `x`, normalised with `norm`, by `rows` (of a file) of `columns` elements.
struct Routed<'a> {
    format: Format,
    rows: &'a [u8],
    columns: usize,
    used: usize,
    weighting: Weighting,
    out: ActFormat,
}

impl Routed<'_> {
    fn run(&self, arena: &mut Arena, x: u64, norm: u64) -> Chosen {
        let &Self { format, rows, columns, used, weighting, out } = self;
        let experts = rows.len() / format.row_bytes(columns);
        let (ids, weights) = (arena.output::<u32>(used), arena.output::<f32>(used));
        let logits = arena.output::<f32>(experts);
        let y = arena.output::<u8>(out.bytes(columns as u64) as usize);
        let counter = arena.in_out(&[0u32]);
        let address = arena.input(&device_rows(format, columns, rows)).address;
        let op = Router {
            state: arena.state(live()),
            x,
            norm: Norm { weight: norm, epsilon: operand::EPSILON },
            matrix: Matrix { address, format, rows: experts as u32, columns: columns as u32 },
            y: y.address,
            out,
            logits: logits.address,
            ids: ids.address,
            weights: weights.address,
            counter: counter.address,
            used: used as u32,
            weighting,
        };
        arena.run(&[op.dispatch(&arena.gpu.target())]);
        assert_eq!(arena.read(counter), [0], "the counter is left as it was found");
        Chosen { logits: arena.read(logits), ids: arena.read(ids), weights: arena.read(weights), normed: arena.read(y) }
    }
}

fn check_choice(name: &str, chosen: &Chosen, used: usize, weighting: Weighting) {
    let logits = &chosen.logits;
    let (ids, weights): (Vec<u32>, Vec<f32>) = reference::router(logits, used, weighting).into_iter().unzip();
    assert_eq!(chosen.ids, ids, "{name}: ids");
    let highest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    compare::within(&format!("{name}: weights"), &chosen.weights, &weights, |i| {
        let below = f64::from(highest - logits[ids[i] as usize]);
        // Beyond this the weight is 0 on both sides.
        let below = if below.is_finite() { below } else { 200.0 };
        tolerance::softmax_weight(weights[i], below, logits.len())
    });
}

/// Logits of any kind: the vector has one element that counts, and the rows begin with the logits.
fn check(name: &str, wanted: &[f32], used: usize) {
    const COLUMNS: usize = 64;
    for weighting in WEIGHTINGS {
        let name = format!("{name}, {used} of {}, {weighting:?}", wanted.len());
        let mut rows = vec![0.0f32; wanted.len() * COLUMNS];
        rows.iter_mut().step_by(COLUMNS).zip(wanted).for_each(|(row, logit)| *row = *logit);
        let mut x = [0.0f32; COLUMNS];
        x[0] = 1_000.0; // large beside the epsilon: the normalised element is 8, times its weight 1
        let mut arena = Arena::new();
        let (x, norm) = (arena.input(&x).address, arena.input(&[0.125f32; COLUMNS]).address);
        let rows = bytemuck::cast_slice(&rows);
        let routed = Routed { format: Format::F32, rows, columns: COLUMNS, used, weighting, out: ActFormat::F32 };
        let chosen = routed.run(&mut arena, x, norm);
        compare::within(&format!("{name}: logits"), &chosen.logits, wanted, |i| {
            tolerance::rms_norm(COLUMNS, wanted[i])
        });
        check_choice(&name, &chosen, used, weighting);
    }
}

#[test]
fn every_format_and_form() {
    for format in Format::ALL {
        for (columns, experts, used) in [(256, 128, 8), (512, 60, 4), (2_048, 9, 9)] {
            for out in [ActFormat::F32, ActFormat::Q8, ActFormat::Q16] {
                for weighting in WEIGHTINGS {
                    let name = format!("{format}, {used} of {experts}, {columns} columns, {out:?}, {weighting:?}");
                    let mut random = Random::new(&name);
                    let mut arena = Arena::new();
                    let act = ActFormat::F32;
                    let operand = Operand::new(&mut random, &mut arena, columns, act, true, Scales::Sane);
                    let rows = weights(&mut random, format, experts, columns, Scales::Sane);
                    let routed = Routed { format, rows: &rows, columns, used, weighting, out };
                    let chosen = routed.run(&mut arena, operand.x, operand.norm);

                    let matrix = host(format, columns, &rows);
                    let mut logits = vec![f32::NAN; experts];
                    reference::mat_vec(&matrix, &operand.values, &mut logits);
                    let (bounds, magnitudes) =
                        (operand.bounds(&matrix, 0..experts), magnitudes(&matrix, 0..experts, &operand.values));
                    compare::within(&format!("{name}: logits"), &chosen.logits, &logits, |i| {
                        bounds[i] + tolerance::sum(columns, magnitudes[i])
                    });
                    check_choice(&name, &chosen, used, weighting);
                    let normed = operand::stored(out, &chosen.normed, columns);
                    compare::within(&format!("{name}: normed"), &normed, &operand.values, |i| {
                        operand::step(out, &operand.values, i) + tolerance::rms_norm(columns, operand.values[i])
                    });
                }
            }
        }
    }
}
#[test]
fn random_logits() {
    for experts in [4, 7, 32, 60, 128, 1_000, 1_024] {
        for used in 1..=8.min(experts) {
            let logits = Random::new(&format!("{experts} {used}")).vector(experts, 6.0);
            check("random", &logits, used);
        }
    }
}

#[test]
fn every_expert_is_used() {
    for experts in [1, 4, 8, 33, 128] {
        check("all", &Random::new("all").vector(experts, 3.0), experts);
    }
}

/// Few distinct values, so that equal ones meet within a lane and across lanes.
#[test]
fn ties_go_to_the_lower_index() {
    for experts in [4, 32, 128, 1_000] {
        for distinct in [1, 2, 5] {
            for case in 0..4 {
                let logits = Random::new(&format!("{experts} {distinct} {case}")).whole(experts, distinct);
                check("ties", &logits, 8.min(experts));
            }
        }
        check("all equal", &vec![0.25; experts], 8.min(experts));
    }
    let mut signs = vec![-0.0; 64];
    signs[5] = 0.0;
    signs[63] = 0.0;
    check("zeros of both signs", &signs, 8);
}

#[test]
fn logits_that_are_not_finite() {
    let (nan, low, high) = (f32::NAN, f32::NEG_INFINITY, f32::INFINITY);
    let cases: &[(&str, &[f32])] = &[
        ("NaN is below everything", &[nan, -5.0, nan, -7.0, -6.0]),
        ("NaN of the other sign", &[-nan, -5.0, -7.0, -nan]),
        ("NaN ties with minus infinity", &[1.0, nan, low, nan, low]),
        ("minus infinity before NaN", &[low, nan, 0.0, low]),
        ("one finite", &[low, low, 3.0, low, low, nan]),
        ("plus infinity", &[0.0, high, 1.0, 2.0]),
        ("two of plus infinity", &[high, 5.0, high, 1.0]),
        ("nothing but NaN", &[nan; 9]),
        ("nothing but minus infinity", &[low; 9]),
        ("far apart", &[-3e34, 3e34, 0.0, 1e-30]),
    ];
    for (name, logits) in cases {
        for used in 1..=logits.len() {
            check(name, logits, used);
        }
        let wide: Vec<f32> = logits.iter().copied().cycle().take(logits.len() * 14).collect();
        check(name, &wide, 8);
    }
}

#[test]
#[should_panic(expected = "choosing 5 of 4 experts")]
fn more_experts_than_there_are_is_refused() {
    let op = Router {
        state: 0,
        x: 0,
        norm: Norm { weight: 0, epsilon: 0.0 },
        matrix: Matrix { address: 0, format: Format::F32, rows: 4, columns: 32 },
        y: 0,
        out: ActFormat::F32,
        logits: 0,
        ids: 0,
        weights: 0,
        counter: 0,
        used: 5,
        weighting: Weighting::SoftmaxOfAll,
    };
    let _ = op.dispatch(&zinc_kernels::Target::new(32));
}
