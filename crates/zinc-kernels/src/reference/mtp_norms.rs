//! Reference of `mtp_norms`.

use super::rms_norm;

/// Normalises the embedding that is the first half of `x`, and puts the hidden vector behind it: the residual stream, normalised as a head takes it and then
/// once more. `norms` are the weights of the embedding's norm, of the head's and of the hidden vector's.
///
/// # Panics
/// If the lengths do not agree.
pub fn mtp_norms(x: &mut [f32], residual: &[f32], norms: [&[f32]; 3], epsilon: f32) {
    let [embedding_norm, head_norm, hidden_norm] = norms;
    let (embedding, hidden) = x.split_at_mut(residual.len());
    let from = embedding.to_vec();
    rms_norm(&from, embedding_norm, epsilon, embedding);
    let mut of_head = vec![0.0; residual.len()];
    rms_norm(residual, head_norm, epsilon, &mut of_head);
    rms_norm(&of_head, hidden_norm, epsilon, hidden);
}
