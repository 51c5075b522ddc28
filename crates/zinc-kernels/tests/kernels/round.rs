//! `round` against its reference.

use crate::support::arena::Array;
use crate::support::data::{Random, device_rows, live};
use crate::support::rows::{self, Builder, Use, View};
use crate::support::{Arena, compare, operand};
use zinc_kernels::ops::{ActFormat, Input, MatVec, Matrix, Norm, Product, Round};
use zinc_kernels::reference::Q14;
use zinc_kernels::step::{Rows, StepShape};
use zinc_kernels::{Format, Target};

/// Vectors of every size of number, with groups that are not finite, zero or next to it.
#[test]
fn integers_and_scales_have_the_bits_of_the_reference() {
    for (columns, vectors, ordered) in [
        (32usize, 1usize, false),
        (256, 3, false),
        (288, 2, true),
        (320, 4, false),
        (320, 4, true),
        (2_048, 8, false),
        (2_880, 4, false),
        (2_880, 4, true),
        (9_728, 1, false),
    ] {
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
            x: Input::Floats(arena.input(&x).row()),
            y: y.row(),
            vectors: vectors as u32,
            columns: columns as u32,
            ordered,
            shape: StepShape::ONE,
        };
        arena.run(&[op.dispatch(&arena.gpu.target())]);
        for (vector, (found, x)) in arena.read(y).chunks(bytes).zip(x.chunks(columns)).enumerate() {
            let (found, expected) = (Q14::from_bytes(found, columns, ordered), Q14::new(x));
            assert_eq!(found.q, expected.q, "{columns} columns, vector {vector}");
            let bits = |scales: &[f32]| scales.iter().map(|scale| scale.to_bits()).collect::<Vec<u32>>();
            assert_eq!(bits(&found.scales), bits(&expected.scales), "{columns} columns, vector {vector}: scales");
        }
    }
}

/// A normalised vector is what products round for themselves, to the bit: with the identity as weights, they give its integers.
#[test]
fn a_normalised_vector_is_the_one_that_products_make() {
    for columns in [32usize, 288, 2_048] {
        let mut random = Random::new(&format!("{columns} columns"));
        let mut arena = Arena::new();
        let (x, weight) = (random.vector(columns, 3.0), random.vector(columns, 1.5));
        let norm = Norm { weight: arena.input(&weight).address, epsilon: operand::EPSILON };
        let x = Input::Normalised(arena.input(&x).row(), norm);
        let rounded = arena.output::<u8>(operand::stored_bytes(ActFormat::Q14, columns));
        // Q8_0 with a scale of one and a single one in each row.
        let identity: Vec<u8> = (0..columns * columns / 32)
            .flat_map(|block| {
                let (row, first) = (block * 32 / columns, block * 32 % columns);
                let ones = (0..32).map(move |column| u8::from(first + column == row));
                [0x00, 0x3c].into_iter().chain(ones)
            })
            .collect();
        let address = arena.input(&device_rows(Format::Q8_0, columns, &identity)).address;
        let size = columns as u32;
        let weights = Matrix { address, format: Format::Q8_0, rows: size, columns: size };
        let (direct, by_round) = (arena.output::<f32>(columns), arena.output::<f32>(columns));
        let (state, target, shape) = (arena.state(live()), arena.gpu.target(), StepShape::ONE);
        let product = |x, y: Array<f32>| {
            let products = &[Product { weights, bias: None, y: y.row() }];
            MatVec { state, products, x, act: ActFormat::Q14, accumulate: false, shape }.dispatch(&target)
        };
        arena.run(&[
            Round { state, x, y: rounded.row(), vectors: 1, columns: size, ordered: false, shape }.dispatch(&target),
            product(x, direct),
            product(Input::Rounded(rounded.row()), by_round),
        ]);
        let stored = Q14::from_bytes(&arena.read(rounded), columns, false).values();
        compare::equal_bits(&format!("{columns} columns"), &arena.read(by_round), &arena.read(direct));
        compare::equal_bits(&format!("{columns} columns, stored"), &stored, &arena.read(direct));
    }
}

#[test]
fn rows_of_a_step() {
    for normalised in [false, true] {
        let vectors = if normalised { 1 } else { 2 };
        rows::check(
            &format!("normalised: {normalised}"),
            |_| live(),
            |b: &mut Builder| {
                let x = b.vector(Use::Input, vectors * 1_312);
                let norm = Norm { weight: b.shared(1_312), epsilon: operand::EPSILON };
                let y = b.output(vectors * operand::stored_bytes(ActFormat::Q14, 1_312));
                let target = b.arena.gpu.target();
                move |v: &View| {
                    let x = if normalised { Input::Normalised(v.own(x), norm) } else { Input::Floats(v.own(x)) };
                    Round {
                        state: v.state,
                        x,
                        y: v.own(y),
                        vectors: vectors as u32,
                        columns: 1_312,
                        ordered: false,
                        shape: v.shape,
                    }
                    .dispatch(&target)
                }
            },
        );
    }
}

#[test]
#[should_panic(expected = "2 vectors to be rounded: any number of floats is supported, or one that is normalised")]
fn several_normalised_vectors_are_refused() {
    let nowhere = Rows::one(0);
    let x = Input::Normalised(nowhere, Norm { weight: 0, epsilon: 0.0 });
    let _ = Round { state: 0, x, y: nowhere, vectors: 2, columns: 32, ordered: false, shape: StepShape::ONE }
        .dispatch(&Target::new(32));
}
