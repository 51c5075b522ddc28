//! `join` against its reference, bit for bit.

use zinc_kernels::ops::Join;
use zinc_kernels::reference;
use zinc_kernels::step::StepShape;

use crate::support::data::Random;
use crate::support::many::{self, Output};
use crate::support::{Arena, compare};

#[test]
fn experts_are_joined_by_rank() {
    for (rows, room, slots, width) in [(1, 1, 1, 4), (3, 4, 8, 256), (32, 32, 2, 300), (0, 2, 3, 64), (70, 128, 5, 36)]
    {
        let name = format!("{slots} of {width}, {rows} of {room} rows");
        let mut random = Random::new(&name);
        let mut arena = Arena::new();
        let mut vectors = |len: usize| -> Vec<Vec<f32>> { (0..room).map(|_| random.vector(len, 1.0)).collect() };
        let (mut products, weights, before) = (vectors(slots * width), vectors(slots), vectors(width));
        if rows > 2 {
            // What is beside a row changes nothing in it.
            products[1].fill(f32::NAN);
        }
        let y = Output::new(&mut arena, &before);
        let op = Join {
            state: arena.state(many::listed(rows)),
            products: many::values(&mut arena, &products),
            weights: many::values(&mut arena, &weights),
            y: y.operand,
            width: width as u32,
            slots: slots as u32,
            shape: StepShape::of(room),
        };
        arena.run(&[op.dispatch(&arena.gpu.target())]);
        for (row, found) in y.read(&arena).iter().enumerate() {
            let mut expected = before[row].clone();
            if row < rows {
                reference::join(&products[row], &weights[row], &mut expected);
            }
            compare::equal_bits(&format!("{name}, row {row}"), found, &expected);
        }
    }
}
