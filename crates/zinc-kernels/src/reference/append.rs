//! Reference of `append`, by row.

use super::{cache_row, rope_head};
use crate::ops::{CacheFormat, Pairing};

/// Makes of a row's keys and values (`[kv_heads, head_size]`) what the cache gives back for them: keys are normalised (where `norm` gives weights
/// and epsilon) and rotated, then both are stored. `formats` are those of keys and of values, and `rotation` holds the angles of the row's position.
pub fn append(
    head_size: usize,
    norm: Option<(&[f32], f32)>,
    rotation: &[[f32; 2]],
    pairing: Pairing,
    formats: [CacheFormat; 2],
    [keys, values]: [&mut [f32]; 2],
) {
    for head in keys.chunks_exact_mut(head_size) {
        rope_head(head, norm, rotation, pairing);
    }
    cache_row(formats[0], keys);
    cache_row(formats[1], values);
}
