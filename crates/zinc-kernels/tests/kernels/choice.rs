//! The choice of experts in `gate_up` against its reference: ids compare exactly.

use crate::support::data::{Random, live};
use crate::support::{Arena, compare, tolerance};
use zinc_kernels::ops::{ActFormat, Activation, ExpertSelection, GateUp, Input, Matrix, Routing, Weighting};
use zinc_kernels::step::{Rows, StepShape};
use zinc_kernels::{Format, Target, Tuning, reference};

/// A run of outputs: what the experts compute is not looked at here.
const ROWS: u32 = 16;
const COLUMNS: u32 = 32;
const NOWHERE: Rows = Rows::one(0);

fn op(selection: ExpertSelection, state: u64, x: Rows, matrix: u64, y: Rows) -> GateUp {
    let gate = Matrix { address: matrix, format: Format::F16, rows: ROWS, columns: COLUMNS };
    let (routing, act) = (Routing::Experts(selection), ActFormat::F32);
    let (biases, activation) = (None, Activation::SwiGlu);
    GateUp { state, gate, up: gate, routing, x: Input::Floats(x), act, biases, activation, y, shape: StepShape::ONE }
}

/// The ids and weights that the kernel chooses. Behind the logits stands that of a shared expert's gate, which is no expert's.
fn chosen(logits: &[f32], used: usize, weighting: Weighting, target: &Target) -> (Vec<u32>, Vec<f32>) {
    let mut arena = Arena::new();
    let (ids, weights) = (arena.output::<u32>(used), arena.output::<f32>(used));
    let selection = ExpertSelection {
        logits: arena.input(&[logits, &[f32::INFINITY]].concat()).row(),
        experts: logits.len() as u32,
        used: used as u32,
        weighting,
        ids: ids.row(),
        weights: weights.row(),
    };
    let matrices = vec![0u16; logits.len() * (ROWS * COLUMNS) as usize];
    let y = arena.output::<f32>(used * ROWS as usize);
    let (state, x) = (arena.state(live()), arena.input(&[0.0f32; COLUMNS as usize]).row());
    let matrices = arena.input(&matrices).address;
    arena.run(&[op(selection, state, x, matrices, y.row()).dispatch(target)]);
    (arena.read(ids), arena.read(weights))
}

fn check(name: &str, logits: &[f32], used: usize) {
    let target = Arena::new().gpu.target();
    for weighting in [Weighting::SoftmaxOfChosen, Weighting::SoftmaxOfAll] {
        let name = format!("{name}, {used} of {}, {weighting:?}", logits.len());
        let (ids, weights) = chosen(logits, used, weighting, &target);

        let expected = reference::select_experts(logits, used, weighting);
        let (expected_ids, expected_weights): (Vec<u32>, Vec<f32>) = expected.into_iter().unzip();
        assert_eq!(ids, expected_ids, "{name}: ids");
        let highest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        compare::within(&format!("{name}: weights"), &weights, &expected_weights, |i| {
            let below = f64::from(highest - logits[expected_ids[i] as usize]);
            // Beyond this the weight is 0 on both sides.
            let below = if below.is_finite() { below } else { 200.0 };
            tolerance::softmax_weight(expected_weights[i], below, logits.len())
        });
    }
}

#[test]
fn random_logits() {
    for (experts, used) in
        [(4, 1), (4, 3), (7, 2), (32, 4), (32, 5), (60, 4), (128, 4), (128, 8), (1_000, 6), (1_024, 8)]
    {
        {
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
        ("far apart", &[-3e38, 3e38, 0.0, 1e-40]),
    ];
    for (name, logits) in cases {
        for used in 1..=logits.len() {
            check(name, logits, used);
        }
        let wide: Vec<f32> = logits.iter().copied().cycle().take(logits.len() * 14).collect();
        check(name, &wide, 8);
    }
}

/// The exponential is the device's, so that the order of a sum shows in this: experts may change places within what is joined as a whole, and no bit
/// of any weight changes. Parts `i` and `i + 32` of a group are joined first, for one; then two such sums 16 apart, and so on.
#[test]
fn the_softmax_of_all_has_the_order_of_a_row() {
    let target = Arena::new().gpu.target();
    let weights_of = |logits: &[f32], target: &Target| {
        let (ids, weights) = chosen(logits, 8, Weighting::SoftmaxOfAll, target);
        (ids, weights.into_iter().map(f32::to_bits).collect::<Vec<u32>>())
    };
    let mut other_sums = 0;
    for case in 0..8 {
        let experts = [256, 1_000][case % 2];
        let logits = Random::new(&format!("order {case}")).vector(experts, 3.0);
        let (ids, weights) = weights_of(&logits, &target);
        let tuning = Tuning { gate_up_width: [1, 4, 8, 16][case / 2], ..target.tuning };
        assert_eq!(weights_of(&logits, &Target { tuning, ..target }).1, weights, "{experts} experts, {tuning:?}");
        for apart in [32, 16, 8, 4, 2, 1] {
            // Of the first group, the parts whose numbers are multiples of `apart` change places.
            let place = |i: usize| if i < 256 && (i / 4).is_multiple_of(apart) { i ^ (4 * apart) } else { i };
            let moved: Vec<f32> = (0..experts).map(|i| logits[place(i)]).collect();
            let (moved_ids, moved_weights) = weights_of(&moved, &target);
            assert_eq!(moved_weights, weights, "{experts} experts, parts that are {apart} apart change places");
            assert_eq!(moved_ids.iter().map(|i| place(*i as usize) as u32).collect::<Vec<u32>>(), ids);
        }
        for by in [1, 2, 4, 8] {
            let mut moved = logits.clone();
            moved.rotate_left(by);
            other_sums += u32::from(weights_of(&moved, &target).1 != weights);
        }
    }
    assert!(other_sums > 0, "the order of a sum does not show");
}

#[test]
#[should_panic(expected = "choosing 5 of 4 experts")]
fn more_experts_than_there_are_is_refused() {
    let selection = ExpertSelection {
        logits: NOWHERE,
        experts: 4,
        used: 5,
        weighting: Weighting::SoftmaxOfAll,
        ids: NOWHERE,
        weights: NOWHERE,
    };
    let _ = op(selection, 0, NOWHERE, 0, NOWHERE).dispatch(&Target::new(32));
}
