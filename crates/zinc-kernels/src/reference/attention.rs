//! Reference of `attention`, by head.

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

/// A share of one head's attention: `exp(score - maximum)`-weighted values, the maximum and the sum of the weights.
#[derive(Clone, Debug, PartialEq)]
pub struct Partial {
    /// `[head_size]`.
    pub values: Vec<f32>,
    /// The highest score, or minus infinity for an empty share.
    pub maximum: f32,
    /// The sum of the weights: 0 for an empty share.
    pub sum: f32,
}

/// The share of query head `head` over the given positions of the caches (`[context, kv_heads * head_size]`, as they read back).
pub fn attention(
    shape: AttentionShape,
    head: usize,
    q: &[f32],
    keys: &[f32],
    values: &[f32],
    positions: impl Iterator<Item = usize> + Clone,
) -> Partial {
    let scale = 1.0 / (shape.head_size as f32).sqrt();
    let row = |cache: &[f32], position: usize| {
        let first = (position * shape.kv_heads + head / shape.group) * shape.head_size;
        cache[first..first + shape.head_size].to_vec()
    };
    let scores: Vec<f32> = positions.clone().map(|p| dot(q, &row(keys, p)) * scale).collect();
    let maximum = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let mut partial = Partial { values: vec![0.0; shape.head_size], maximum, sum: 0.0 };
    for (position, score) in positions.zip(scores) {
        let weight = (score - maximum).exp();
        partial.sum += weight;
        for (total, value) in partial.values.iter_mut().zip(row(values, position)) {
            *total += weight * value;
        }
    }
    partial
}
