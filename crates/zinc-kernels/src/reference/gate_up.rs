//! Reference of `gate_up` with f32 activations.

use super::{HostMatrix, silu};

/// `y = silu(G x) * (U x)` for the matrices of expert `expert` in their stacks (0 for a dense layer); `y` has one place a row.
pub fn gate_up(gate: &HostMatrix<'_>, up: &HostMatrix<'_>, expert: u32, x: &[f32], y: &mut [f32]) {
    let first = expert as usize * y.len();
    for (index, y) in y.iter_mut().enumerate() {
        *y = silu(gate.product(first + index, x)) * up.product(first + index, x);
    }
}
