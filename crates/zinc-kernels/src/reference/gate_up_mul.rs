//! Reference of `gate_up_mul`, by vector.

use super::gate_up::joined;
use super::{GateUpBiases, HostMatrix, Q14, mat_mul};
use crate::ops::Activation;

/// `y = activation(G x + bg, U x + bu)` for the matrices and biases of expert `expert` in their stacks (0 for a dense layer); `y` has one place a row.
pub fn gate_up_mul(
    gate: &HostMatrix<'_>,
    up: &HostMatrix<'_>,
    biases: Option<GateUpBiases<'_>>,
    activation: Activation,
    expert: u32,
    x: &Q14,
    y: &mut [f32],
) {
    let first = expert as usize * y.len();
    let mut ups = vec![0.0; y.len()];
    mat_mul(gate, expert, x, y);
    mat_mul(up, expert, x, &mut ups);
    for ((row, y), up) in (first..).zip(y).zip(ups) {
        *y = joined(biases, activation, row, [*y, up]);
    }
}
