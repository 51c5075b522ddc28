//! `join` against its reference, bit for bit.

use zinc_kernels::ops::{Join, SharedExpert};
use zinc_kernels::reference;
use zinc_kernels::step::{Rows, StepShape};

use crate::support::data::Random;
use crate::support::many::{self, Output};
use crate::support::sigmoids::sigmoids;
use crate::support::{Arena, compare};

fn check(with_shared: bool) {
    for (rows, room, slots, width) in [(1, 1, 1, 4), (3, 4, 8, 256), (32, 32, 2, 300), (0, 2, 3, 64), (70, 128, 5, 36)]
    {
        let name = format!("{slots} of {width}, {rows} of {room} rows, shared: {with_shared}");
        let mut random = Random::new(&name);
        let mut arena = Arena::new();
        let mut vectors = |len: usize| -> Vec<Vec<f32>> { (0..room).map(|_| random.vector(len, 1.0)).collect() };
        let (mut products, weights, before) = (vectors(slots * width), vectors(slots), vectors(width));
        // The gate's logit stands behind those of the router, which are nothing to the kernel.
        let mut of_shared = vectors(width);
        let mut logits: Vec<Vec<f32>> = (0..room).map(|_| vec![f32::NAN, f32::NAN, random.unit() * 6.0]).collect();
        if rows > 2 {
            // What is beside a row changes nothing in it.
            products[1].fill(f32::NAN);
            of_shared[2].fill(f32::INFINITY);
        }
        // One gate is closed and another open.
        logits[0][2] = -200.0;
        logits[room as usize - 1][2] = 200.0;
        let opened = sigmoids(&logits.iter().map(|logits| logits[2]).collect::<Vec<f32>>());
        let shared = with_shared.then(|| {
            let logits = many::values(&mut arena, &logits);
            let logit = Rows { address: logits.address + 8, ..logits };
            SharedExpert { y: many::values(&mut arena, &of_shared), logit }
        });
        let y = Output::new(&mut arena, &before);
        let op = Join {
            state: arena.state(many::listed(rows)),
            products: many::values(&mut arena, &products),
            weights: many::values(&mut arena, &weights),
            shared,
            y: y.operand,
            width: width as u32,
            slots: slots as u32,
            shape: StepShape::of(room),
        };
        arena.run(&[op.dispatch(&arena.gpu.target())]);
        for (row, found) in y.read(&arena).iter().enumerate() {
            let mut expected = before[row].clone();
            if row < rows {
                let shared = with_shared.then(|| reference::SharedExpert { y: &of_shared[row], opened: opened[row] });
                reference::join(&products[row], &weights[row], shared, &mut expected);
            }
            compare::equal_bits(&format!("{name}, row {row}"), found, &expected);
        }
    }
}

#[test]
fn experts_are_joined_by_rank() {
    check(false);
}

#[test]
fn a_shared_expert_is_joined_last() {
    check(true);
}
