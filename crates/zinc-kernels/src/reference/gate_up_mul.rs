//! Reference of `gate_up_mul`, by vector.

use super::{HostMatrix, Q14, mat_mul, silu};

/// `y = silu(G x) * (U x)` for the matrices of expert `expert` in their stacks (0 for a dense layer); `y` has one place a row.
pub fn gate_up_mul(gate: &HostMatrix<'_>, up: &HostMatrix<'_>, expert: u32, x: &Q14, y: &mut [f32]) {
    let mut ups = vec![0.0; y.len()];
    mat_mul(gate, expert, x, y);
    mat_mul(up, expert, x, &mut ups);
    for (y, up) in y.iter_mut().zip(ups) {
        *y = silu(*y) * up;
    }
}
