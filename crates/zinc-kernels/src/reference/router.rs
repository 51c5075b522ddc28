//! Reference of `router`.

use super::{HostMatrix, mat_vec, rms_norm};

/// Normalises `x` into `normed`, both `[width]`, and computes the router's logits `[experts]` of it with `matrix`, `[experts, width]`.
pub fn router(x: &[f32], norm: &[f32], epsilon: f32, matrix: &HostMatrix<'_>, normed: &mut [f32], logits: &mut [f32]) {
    rms_norm(x, norm, epsilon, normed);
    mat_vec(matrix, normed, logits);
}
