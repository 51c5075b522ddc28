//! `delta_gate` against its reference, and row by row.

use zinc_kernels::ops::{ActFormat, DeltaGate, DeltaHeads, Norm, rounded_bytes};
use zinc_kernels::reference::{self, Q14};
use zinc_kernels::step::StepShape;

use crate::support::data::{Random, live};
use crate::support::delta::SHAPES;
use crate::support::many::{self, Output};
use crate::support::rows::{self, Builder, Use};
use crate::support::{Arena, compare, tolerance};

const EPSILON: f32 = 1e-6;

/// Runs a step of as many rows as there are vectors, and returns what it leaves of each row: words of the result.
fn run(heads: DeltaHeads, (act, ordered): (ActFormat, bool), [x, z]: [&[Vec<f32>]; 2], norm: &[f32]) -> Vec<Vec<f32>> {
    let mut arena = Arena::new();
    let len = match act {
        ActFormat::F32 => heads.values() as usize,
        ActFormat::Q14 => rounded_bytes(u64::from(heads.values())) as usize / 4,
    };
    let y = Output::empty(&mut arena, x.len(), len);
    let op = DeltaGate {
        state: arena.state(many::listed(x.len())),
        x: many::values(&mut arena, x),
        z: many::values(&mut arena, z),
        norm: Norm { weight: arena.input(norm).address, epsilon: EPSILON },
        y: y.operand,
        heads,
        act,
        ordered,
        shape: StepShape::of(x.len() as u32),
    };
    arena.run(&[op.dispatch(&arena.gpu.target())]);
    y.read(&arena)
}

#[test]
fn heads_are_normalised_and_gated() {
    for heads in SHAPES {
        let mut random = Random::new(&format!("gate of {heads:?}"));
        let (len, size) = (heads.values() as usize, heads.head_size as usize);
        let mut vectors = |scale| -> Vec<Vec<f32>> { (0..3).map(|_| random.vector(len, scale)).collect() };
        let (mut x, z) = (vectors(0.1), vectors(8.0));
        // A head that is not finite stays by itself.
        x[1][size / 2] = f32::NAN;
        let norm = random.vector(size, 1.5);
        let found = run(heads, (ActFormat::F32, false), [&x, &z], &norm);
        for (row, found) in found.iter().enumerate() {
            for head in 0..heads.value_heads as usize {
                let of_head = head * size..(head + 1) * size;
                let (x, z) = (&x[row][of_head.clone()], &z[row][of_head.clone()]);
                let mut expected = vec![f32::NAN; size];
                reference::delta_gate(x, z, &norm, EPSILON, &mut expected);
                let mut normalised = vec![0.0; size];
                reference::rms_norm(x, &norm, EPSILON, &mut normalised);
                assert_eq!(expected.iter().all(|y| y.is_nan()), row == 1 && head == 0, "{heads:?}, row {row}");
                compare::within(&format!("{heads:?}, row {row}, head {head}"), &found[of_head], &expected, |i| {
                    tolerance::gate_up(z[i], 0.0, normalised[i], tolerance::rms_norm(size, normalised[i]))
                });
            }
        }
        // What is rounded is the same, rounded.
        for ordered in [false, true] {
            let rounded = run(heads, (ActFormat::Q14, ordered), [&x, &z], &norm);
            for (row, (words, found)) in rounded.iter().zip(&found).enumerate() {
                let words = Q14::from_bytes(bytemuck::cast_slice(words), len, ordered);
                let expected = Q14::new(found);
                assert_eq!(words.q, expected.q, "{heads:?}, row {row}, ordered: {ordered}");
                compare::equal_bits(&format!("{heads:?}, row {row}: scales"), &words.scales, &expected.scales);
            }
        }
    }
}

#[test]
fn a_row_is_what_it_is_alone() {
    for (act, ordered) in [(ActFormat::F32, false), (ActFormat::Q14, true)] {
        let heads = SHAPES[0];
        let len = heads.values() as usize;
        rows::check(
            &format!("delta_gate, {act:?}"),
            |row| zinc_kernels::step::Lane { position: 5 + row, ..live() },
            |b: &mut Builder| {
                let (x, z) = (b.vector(Use::Input, len), b.vector(Use::Input, len));
                let y = b.output(if act == ActFormat::F32 { 4 * len } else { rounded_bytes(len as u64) as usize });
                let norm = Norm { weight: b.shared(heads.head_size as usize), epsilon: EPSILON };
                let target = b.arena.gpu.target();
                move |view| {
                    let (state, shape) = (view.state, view.shape);
                    let [x, z, y] = [x, z, y].map(|operand| view.own(operand));
                    DeltaGate { state, x, z, norm, y, heads, act, ordered, shape }.dispatch(&target)
                }
            },
        );
    }
}
