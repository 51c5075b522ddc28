//! Reference of `attention`, by head, once queries and keys are prepared ([`rope_head`](super::rope_head)) and in the cache.

use super::dot;

/// How a cache is laid out.
#[derive(Clone, Copy, Debug)]
pub struct AttentionShape {
    /// Key and value heads.
    pub kv_heads: usize,
    /// Elements of a head.
    pub head_size: usize,
    /// Query heads that share a key and value head.
    pub group: usize,
}

/// Attention of query head `head` over the given positions of the caches (`[context, kv_heads * head_size]`, as they read back).
pub fn attention(
    shape: AttentionShape,
    head: usize,
    q: &[f32],
    keys: &[f32],
    values: &[f32],
    positions: impl Iterator<Item = usize> + Clone,
    y: &mut [f32],
) {
    let scale = 1.0 / (shape.head_size as f32).sqrt();
    let first = |position: usize| (position * shape.kv_heads + head / shape.group) * shape.head_size;
    let scores: Vec<f32> =
        positions.clone().map(|p| dot(q, &keys[first(p)..first(p) + shape.head_size]) * scale).collect();
    let maximum = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let mut sum = 0.0;
    y.fill(0.0);
    for (position, score) in positions.zip(scores) {
        let weight = (score - maximum).exp();
        sum += weight;
        for (total, value) in y.iter_mut().zip(&values[first(position)..]) {
            *total += weight * value;
        }
    }
    for total in y {
        *total /= sum;
    }
}
