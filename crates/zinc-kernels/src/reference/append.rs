//! Reference of `append`, by row.

use super::{cache_row, rope_head};
use crate::ops::{CacheFormat, Pairing};

/// Makes of a row's keys and values (`[kv_heads, head_size]`) what the cache gives back for them: keys are normalised (where `norm` gives weights
/// and epsilon) and rotated, then both are stored. `formats` are those of keys and of values, and `rotation` holds the angles of the row's position.
/// A value head that is not finite in the cache is stored as zeros, and its key as NaN.
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
    for (key, value) in keys.chunks_exact_mut(head_size).zip(values.chunks_exact_mut(head_size)) {
        if value.iter().any(|x| !x.is_finite()) {
            value.fill(0.0);
            key.fill(f32::NAN);
        }
    }
}
