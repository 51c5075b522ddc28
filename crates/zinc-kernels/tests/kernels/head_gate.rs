//! `head_gate` against its reference, and row by row.

use zinc_kernels::ops::{ActFormat, HeadGate, Norm, Opening, rounded_bytes};
use zinc_kernels::reference::{self, Q14};
use zinc_kernels::step::{Rows, StepShape};
use zinc_kernels::{Dispatch, Target};

use crate::support::data::{Random, live};
use crate::support::delta::SHAPES;
use crate::support::many::{self, Output};
use crate::support::rows::{self, Builder, Use};
use crate::support::{Arena, compare, tolerance};

const EPSILON: f32 = 1e-6;

/// What there is of a layer: its heads and their size, what opens their gates, and the weights of the heads' norm.
#[derive(Clone, Copy, Debug)]
struct Gates<'a> {
    heads: u32,
    head_size: u32,
    opening: Opening,
    norm: Option<&'a [f32]>,
}

impl Gates<'_> {
    fn len(&self) -> usize {
        (self.heads * self.head_size) as usize
    }

    /// The launch for vectors at `x` and `gate`. `norm` is the address of the weights.
    fn dispatch(
        &self,
        (state, shape): (u64, StepShape),
        [x, gate, y]: [Rows; 3],
        norm: Option<u64>,
        (act, ordered): (ActFormat, bool),
        target: &Target,
    ) -> Dispatch {
        let &Self { heads, head_size, opening, .. } = self;
        let norm = norm.map(|weight| Norm { weight, epsilon: EPSILON });
        HeadGate { state, x, gate, norm, opening, y, heads, head_size, act, ordered, shape }.dispatch(target)
    }

    /// Runs a step of as many rows as there are vectors, and returns what it leaves of each row: words of the result.
    fn run(&self, form: (ActFormat, bool), [x, gate]: [&[Vec<f32>]; 2]) -> Vec<Vec<f32>> {
        let mut arena = Arena::new();
        let len = match form.0 {
            ActFormat::F32 => self.len(),
            ActFormat::Q14 => rounded_bytes(self.len() as u64) as usize / 4,
        };
        let y = Output::empty(&mut arena, x.len(), len);
        let step = (arena.state(many::listed(x.len())), StepShape::of(x.len() as u32));
        let operands = [many::values(&mut arena, x), many::values(&mut arena, gate), y.operand];
        let norm = self.norm.map(|norm| arena.input(norm).address);
        arena.run(&[self.dispatch(step, operands, norm, form, &arena.gpu.target())]);
        y.read(&arena)
    }

    /// What is rounded is `exact`, rounded.
    fn check_rounded(&self, vectors: [&[Vec<f32>]; 2], exact: &[Vec<f32>]) {
        for ordered in [false, true] {
            let rounded = self.run((ActFormat::Q14, ordered), vectors);
            for (row, (words, exact)) in rounded.iter().zip(exact).enumerate() {
                let words = Q14::from_bytes(bytemuck::cast_slice(words), self.len(), ordered);
                let expected = Q14::new(exact);
                assert_eq!(words.q, expected.q, "{self:?}, row {row}, ordered: {ordered}");
                compare::equal_bits(&format!("{self:?}, row {row}: scales"), &words.scales, &expected.scales);
            }
        }
    }
}

const EXACT: (ActFormat, bool) = (ActFormat::F32, false);

#[test]
fn heads_are_normalised_and_gated() {
    for (turn, heads) in SHAPES.into_iter().enumerate() {
        let opening = [Opening::Silu, Opening::Sigmoid][turn % 2];
        let mut random = Random::new(&format!("gate of {heads:?}"));
        let (len, size) = (heads.values() as usize, heads.head_size as usize);
        let mut vectors = |scale| -> Vec<Vec<f32>> { (0..3).map(|_| random.vector(len, scale)).collect() };
        let (mut x, gate) = (vectors(0.1), vectors(8.0));
        // A head that is not finite stays by itself.
        x[1][size / 2] = f32::NAN;
        let norm = random.vector(size, 1.5);
        let gates = Gates { heads: heads.value_heads, head_size: heads.head_size, opening, norm: Some(&norm) };
        let found = gates.run(EXACT, [&x, &gate]);
        for (row, found) in found.iter().enumerate() {
            for head in 0..heads.value_heads as usize {
                let of_head = head * size..(head + 1) * size;
                let (x, gate) = (&x[row][of_head.clone()], &gate[row][of_head.clone()]);
                let mut expected = vec![f32::NAN; size];
                reference::head_gate(x, gate, Some((&norm, EPSILON)), opening, &mut expected);
                let mut normalised = vec![0.0; size];
                reference::rms_norm(x, &norm, EPSILON, &mut normalised);
                assert_eq!(expected.iter().all(|y| y.is_nan()), row == 1 && head == 0, "{gates:?}, row {row}");
                compare::within(&format!("{gates:?}, row {row}, head {head}"), &found[of_head], &expected, |i| {
                    let error = tolerance::rms_norm(size, normalised[i]);
                    match opening {
                        Opening::Silu => tolerance::gate_up(gate[i], 0.0, normalised[i], error),
                        Opening::Sigmoid => tolerance::opened(gate[i], normalised[i], error),
                    }
                });
            }
        }
        gates.check_rounded([&x, &gate], &found);
    }
}

/// Without a norm every bit follows from what opens the gate, which the device says itself: ones times that. Heads are those of attention, whose sizes are
/// no powers of two and whose groups go across heads.
#[test]
fn heads_are_gated_as_they_are() {
    for (heads, head_size) in [(1, 16), (3, 80), (14, 64), (5, 96), (4, 256), (7, 48), (2, 144)] {
        for opening in [Opening::Silu, Opening::Sigmoid] {
            let gates = Gates { heads, head_size, opening, norm: None };
            let mut random = Random::new(&format!("{gates:?}"));
            let mut vectors = |scale| -> Vec<Vec<f32>> { (0..3).map(|_| random.vector(gates.len(), scale)).collect() };
            let (mut x, mut gate) = (vectors(2.0), vectors(8.0));
            // Gates that are wholly open or closed, and half open; and an element that is not finite, which stays by itself.
            gate[0][..3].copy_from_slice(&[200.0, -200.0, 0.0]);
            x[1][5] = f32::INFINITY;
            let ones = vec![vec![1.0; gates.len()]; 3];
            let (found, opened) = (gates.run(EXACT, [&x, &gate]), gates.run(EXACT, [&ones, &gate]));
            for row in 0..3 {
                let expected: Vec<f32> = opened[row].iter().zip(&x[row]).map(|(opened, x)| opened * x).collect();
                compare::equal_bits(&format!("{gates:?}, row {row}"), &found[row], &expected);
                let mut of_host = vec![f32::NAN; gates.len()];
                reference::head_gate(&ones[row], &gate[row], None, opening, &mut of_host);
                compare::within(&format!("{gates:?}, row {row}: opened"), &opened[row], &of_host, |i| match opening {
                    Opening::Silu => tolerance::gate_up(gate[row][i], 0.0, 1.0, 0.0),
                    Opening::Sigmoid => tolerance::opened(gate[row][i], 1.0, 0.0),
                });
            }
            let exact = match opening {
                Opening::Silu => [200.0, -0.0, 0.0],
                Opening::Sigmoid => [1.0, 0.0, 0.5],
            };
            assert_eq!(opened[0][..3], exact, "{gates:?}: wholly open, closed and half open");
            gates.check_rounded([&x, &gate], &found);
        }
    }
}

/// The result may take the place of what is multiplied.
#[test]
fn heads_are_gated_in_place() {
    let norm = Random::new("weights").vector(64, 1.5);
    for norm in [None, Some(&norm[..])] {
        let gates = Gates { heads: 7, head_size: 64, opening: Opening::Sigmoid, norm };
        let mut random = Random::new("in place");
        let mut vectors = || -> Vec<Vec<f32>> { (0..3).map(|_| random.vector(gates.len(), 3.0)).collect() };
        let (x, gate) = (vectors(), vectors());
        let mut arena = Arena::new();
        let y = Output::new(&mut arena, &x);
        let step = (arena.state(many::listed(2)), StepShape::of(3));
        let operands = [y.operand, many::values(&mut arena, &gate), y.operand];
        let weights = norm.map(|norm| arena.input(norm).address);
        arena.run(&[gates.dispatch(step, operands, weights, EXACT, &arena.gpu.target())]);
        let mut expected = gates.run(EXACT, [&x, &gate]);
        // The step does not list the last row.
        expected[2].clone_from(&x[2]);
        for (row, (found, expected)) in y.read(&arena).iter().zip(&expected).enumerate() {
            compare::equal_bits(&format!("{gates:?}, row {row}"), found, expected);
        }
    }
}

#[test]
fn a_row_is_what_it_is_alone() {
    for (form, normalised, head_size) in
        [((ActFormat::F32, false), true, 64), ((ActFormat::Q14, true), true, 128), ((ActFormat::Q14, false), false, 80)]
    {
        let opening = if normalised { Opening::Silu } else { Opening::Sigmoid };
        let gates = Gates { heads: 6, head_size, opening, norm: None };
        let len = gates.len();
        rows::check(
            &format!("head_gate, {form:?}, {gates:?}, normalised: {normalised}"),
            |row| zinc_kernels::step::Lane { position: 5 + row, ..live() },
            |b: &mut Builder| {
                let (x, gate) = (b.vector(Use::Input, len), b.vector(Use::Input, len));
                let y = b.output(if form.0 == ActFormat::F32 { 4 * len } else { rounded_bytes(len as u64) as usize });
                let norm = normalised.then(|| b.shared(head_size as usize));
                let target = b.arena.gpu.target();
                move |view| {
                    let operands = [x, gate, y].map(|operand| view.own(operand));
                    gates.dispatch((view.state, view.shape), operands, norm, form, &target)
                }
            },
        );
    }
}

#[test]
#[should_panic(expected = "heads of 80 elements: 32, 64, 128 and 256 can be normalised")]
fn a_norm_of_heads_of_another_size_is_refused() {
    let gates = Gates { heads: 2, head_size: 80, opening: Opening::Silu, norm: None };
    let _ = gates.dispatch((0, StepShape::ONE), [Rows::one(0); 3], Some(0), EXACT, &Target::new(32));
}
