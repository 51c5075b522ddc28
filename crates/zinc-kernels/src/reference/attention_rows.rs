//! Reference of `attention_rows`, by row: all of its query heads, once queries and keys are prepared and in the cache.

use super::{AttentionShape, attention};

/// Attention of a row at `position` with the queries `q`, `[query_heads, head_size]`: each head is that of [`attention`].
pub fn attention_rows(
    shape: AttentionShape,
    q: &[f32],
    caches: [&[f32]; 2],
    sinks: Option<&[f32]>,
    position: usize,
    y: &mut [f32],
) {
    let heads = q.chunks_exact(shape.head_size).zip(y.chunks_exact_mut(shape.head_size));
    for (head, (q, y)) in heads.enumerate() {
        attention(shape, head, q, caches, sinks, position, y);
    }
}
