//! `round` against its reference.

use crate::support::batch::{self, Builder, Use, View};
use crate::support::data::{Random, live};
use crate::support::{Arena, operand};
use zinc_kernels::ops::{ActFormat, Batch, Round};
use zinc_kernels::reference::Q14;

/// Vectors of every size of number, with groups that are not finite, zero or next to it.
#[test]
fn integers_and_scales_have_the_bits_of_the_reference() {
    for (columns, vectors) in [(32usize, 1usize), (256, 3), (288, 2), (2_048, 8), (9_728, 1)] {
        let mut random = Random::new(&format!("{columns} columns, {vectors} vectors"));
        let mut arena = Arena::new();
        let sizes = [1.0, 1e-18, 3e-20, 5e-20, 6e-20, 1e-30, 1e-38, 1e30, 3e38, 0.0];
        let mut x: Vec<f32> = Vec::new();
        for group in 0..(vectors * columns).div_ceil(32) {
            x.extend(random.vector(32, sizes[group / 8 % sizes.len()]));
        }
        if columns > 256 {
            x[40] = f32::NAN;
            x[columns + 3 - 32] = f32::NEG_INFINITY;
        }
        let bytes = operand::stored_bytes(ActFormat::Q14, columns);
        let y = arena.output::<u8>(vectors * bytes);
        let op = Round {
            state: arena.state(live()),
            x: arena.input(&x).address,
            y: y.address,
            vectors: vectors as u32,
            columns: columns as u32,
            batch: Batch::ONE,
        };
        arena.run(&[op.dispatch(&arena.gpu.target())]);
        for (vector, (found, x)) in arena.read(y).chunks(bytes).zip(x.chunks(columns)).enumerate() {
            let (found, expected) = (Q14::from_bytes(found, columns), Q14::new(x));
            assert_eq!(found.q, expected.q, "{columns} columns, vector {vector}");
            let bits = |scales: &[f32]| scales.iter().map(|scale| scale.to_bits()).collect::<Vec<u32>>();
            assert_eq!(bits(&found.scales), bits(&expected.scales), "{columns} columns, vector {vector}: scales");
        }
    }
}

#[test]
fn batches() {
    batch::check(
        "round",
        4_096,
        |_| live(),
        |b: &mut Builder| {
            let x = b.vector(Use::Input, 2 * 288);
            let y = b.output(2 * operand::stored_bytes(ActFormat::Q14, 288));
            let target = b.arena.gpu.target();
            move |v: &View| {
                Round { state: v.state, x: v.own(x), y: v.own(y), vectors: 2, columns: 288, batch: v.batch }
                    .dispatch(&target)
            }
        },
    );
}
