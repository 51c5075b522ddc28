//! Reference of `gate_up`.

use super::{HostMatrix, silu};

/// `y = silu(G x) * (U x)` for the matrices of expert `expert` in their stacks (0 for a dense layer); `y` has one place a row.
pub fn gate_up(gate: &HostMatrix<'_>, up: &HostMatrix<'_>, expert: u32, x: &[f32], y: &mut [f32]) {
    let first = expert as usize * y.len();
    let mut row = vec![0.0; gate.columns];
    for (index, y) in y.iter_mut().enumerate() {
        *y = silu(gate.dot(first + index, x, &mut row)) * up.dot(first + index, x, &mut row);
    }
}
