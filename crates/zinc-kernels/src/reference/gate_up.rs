//! Reference of `gate_up` with f32 activations.

use super::{HostMatrix, silu};
use crate::generated::swiglu;
use crate::ops::Activation;

/// What is added to the products of the first half of a feed-forward layer.
#[derive(Clone, Copy, Debug)]
pub struct GateUpBiases<'a> {
    /// Of the gate: `[experts, rows]`, or `[rows]` of a dense layer.
    pub gate: &'a [f32],
    /// Of the other matrix, of the same shape.
    pub up: &'a [f32],
}

/// The most that a gate counts for in [`Activation::ClampedSwiGlu`], and the largest magnitude that the other product counts for.
const LIMIT: f32 = f32::from_bits(swiglu::LIMIT);
/// The factor of the gate in the sigmoid of [`Activation::ClampedSwiGlu`].
const SLOPE: f32 = f32::from_bits(swiglu::SLOPE);

/// What two products, of the gate and of the other matrix, become, by the sequence of operations of `docs/arithmetic.md`. NaN in one of them gives NaN.
#[must_use]
pub fn activated(activation: Activation, gate: f32, up: f32) -> f32 {
    match activation {
        Activation::SwiGlu => silu(gate) * up,
        Activation::ClampedSwiGlu => {
            let gate = if gate > LIMIT { LIMIT } else { gate };
            gate / (1.0 + (-(SLOPE * gate)).exp()) * (up.clamp(-LIMIT, LIMIT) + 1.0)
        }
    }
}

/// `y = activation(G x + bg, U x + bu)` for the matrices and biases of expert `expert` in their stacks (0 for a dense layer); `y` has one place a row.
pub fn gate_up(
    gate: &HostMatrix<'_>,
    up: &HostMatrix<'_>,
    biases: Option<GateUpBiases<'_>>,
    activation: Activation,
    expert: u32,
    x: &[f32],
    y: &mut [f32],
) {
    let first = expert as usize * y.len();
    for (row, y) in (first..).zip(y) {
        *y = joined(biases, activation, row, [gate, up].map(|matrix| matrix.product(row, x)));
    }
}

/// What the products of row `row` of the stacks, of the gate's and of the other, become with their biases.
pub(super) fn joined(
    biases: Option<GateUpBiases<'_>>,
    activation: Activation,
    row: usize,
    [gate, up]: [f32; 2],
) -> f32 {
    match biases {
        Some(biases) => activated(activation, gate + biases.gate[row], up + biases.up[row]),
        None => activated(activation, gate, up),
    }
}
