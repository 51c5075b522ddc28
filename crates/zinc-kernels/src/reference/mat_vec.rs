//! Reference of `mat_vec` with f32 activations.

use super::HostMatrix;

/// `y[r] = row r . x`, every bit of it. What the kernel's epilogues add, the caller adds.
pub fn mat_vec(weights: &HostMatrix<'_>, x: &[f32], y: &mut [f32]) {
    for (index, y) in y.iter_mut().enumerate() {
        *y = weights.product(index, x);
    }
}
