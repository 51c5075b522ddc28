//! Reference of `mat_vec`.

use super::HostMatrix;

/// `y[r] = row r . x`. What the kernel's epilogues add, the caller adds.
pub fn mat_vec(weights: &HostMatrix<'_>, x: &[f32], y: &mut [f32]) {
    let mut row = vec![0.0; weights.columns];
    for (index, y) in y.iter_mut().enumerate() {
        *y = weights.dot(index, x, &mut row);
    }
}
