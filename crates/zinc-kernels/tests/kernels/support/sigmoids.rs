//! The device's sigmoids.

use zinc_kernels::ops::{ActFormat, HeadGate, Opening};
use zinc_kernels::step::StepShape;

use super::Arena;
use super::data::live;

/// What the device makes of `1 / (1 + exp(-x))`: exponentials and divisions are its own, so that what follows from them can be compared bit for bit.
pub(crate) fn sigmoids(x: &[f32]) -> Vec<f32> {
    let mut arena = Arena::new();
    let len = x.len().next_multiple_of(4);
    let mut gate = x.to_vec();
    gate.resize(len, 0.0);
    let y = arena.output::<f32>(len);
    let op = HeadGate {
        state: arena.state(live()),
        x: arena.input(&vec![1.0f32; len]).row(),
        gate: arena.input(&gate).row(),
        norm: None,
        opening: Opening::Sigmoid,
        y: y.row(),
        heads: 1,
        head_size: len as u32,
        act: ActFormat::F32,
        ordered: false,
        shape: StepShape::ONE,
    };
    arena.run(&[op.dispatch(&arena.gpu.target())]);
    arena.read(y)[..x.len()].to_vec()
}
