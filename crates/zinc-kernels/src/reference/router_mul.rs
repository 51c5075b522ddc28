//! Reference of `router_mul`, by row.

use super::{HostMatrix, float_product, ordered_sum};

/// The router's logits `[experts]` of `x`, with a matrix `[experts, width]`: products of the weights with `x` times the norm's weights, in
/// the order of [`ordered_sum`], times 1 / root mean square of `x`, plus `bias`, `[experts]`. Every bit but those of the root and the division is defined.
pub fn router_mul(
    x: &[f32],
    norm: &[f32],
    epsilon: f32,
    matrix: &HostMatrix<'_>,
    bias: Option<&[f32]>,
    logits: &mut [f32],
) {
    let squares: Vec<f32> = x.iter().map(|x| x * x).collect();
    let scale = 1.0 / (ordered_sum(&squares) * (1.0 / x.len() as f32) + epsilon).sqrt();
    let weighted: Vec<f32> = x.iter().zip(norm).map(|(x, norm)| x * norm).collect();
    let rows = matrix.bytes.chunks_exact(matrix.format.row_bytes(matrix.columns));
    for (expert, (logit, row)) in logits.iter_mut().zip(rows).enumerate() {
        *logit = float_product(matrix.format, row, &weighted) * scale;
        if let Some(bias) = bias {
            *logit += bias[expert];
        }
    }
}
