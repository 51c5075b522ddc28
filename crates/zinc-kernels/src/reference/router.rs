//! Reference of `router`.

use super::{HostMatrix, rms_norm, router_mul};

/// Normalises `x` into `normed`, both `[width]`, and computes the router's logits `[experts]` with `matrix`, `[experts, width]`, and `bias`, `[experts]`, as
/// [`router_mul`] does.
pub fn router(
    x: &[f32],
    norm: &[f32],
    epsilon: f32,
    matrix: &HostMatrix<'_>,
    bias: Option<&[f32]>,
    normed: &mut [f32],
    logits: &mut [f32],
) {
    rms_norm(x, norm, epsilon, normed);
    router_mul(x, norm, epsilon, matrix, bias, logits);
}
