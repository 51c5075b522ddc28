//! Reference of `attention`, by head, once queries and keys are prepared ([`rope_head`](super::rope_head)) and in the cache.

use std::ops::RangeInclusive;

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
    /// How many keys a row attends to, its own and those before it; `None`: all.
    pub window: Option<u32>,
}

impl AttentionShape {
    /// The positions that a row at `position` attends to.
    fn attended(&self, position: usize) -> RangeInclusive<usize> {
        let first = self.window.map_or(0, |window| (position + 1).saturating_sub(window as usize));
        first..=position
    }
}

/// Attention of query head `head` of a row at `position` over the caches of keys and values (`[context, kv_heads * head_size]`, as they read back).
/// `sinks` has a score of each query head that takes part in the softmax and has no value.
pub fn attention(
    shape: AttentionShape,
    head: usize,
    q: &[f32],
    [keys, values]: [&[f32]; 2],
    sinks: Option<&[f32]>,
    position: usize,
    y: &mut [f32],
) {
    let scale = 1.0 / (shape.head_size as f32).sqrt();
    let first = |position: usize| (position * shape.kv_heads + head / shape.group) * shape.head_size;
    let attended = shape.attended(position);
    let scores: Vec<f32> =
        attended.clone().map(|p| dot(q, &keys[first(p)..first(p) + shape.head_size]) * scale).collect();
    let sink = sinks.map(|sinks| sinks[head]);
    let maximum = scores.iter().copied().chain(sink).fold(f32::NEG_INFINITY, f32::max);
    let mut sum = sink.map_or(0.0, |sink| (sink - maximum).exp());
    y.fill(0.0);
    for (position, score) in attended.zip(scores) {
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
