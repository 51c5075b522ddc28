//! The reference's preparation of heads: normalisation, rotation, and what the cache gives back.

use half::f16;

use super::rms_norm;
use crate::ops::{CacheFormat, Pairing};

/// Normalises one head (where `norm` gives weights and epsilon) and rotates its leading elements; `rotation` holds one pair (cos, sin) for
/// each two of them.
pub fn rope_head(head: &mut [f32], norm: Option<(&[f32], f32)>, rotation: &[[f32; 2]], pairing: Pairing) {
    if let Some((weight, epsilon)) = norm {
        let x = head.to_vec();
        rms_norm(&x, weight, epsilon, head);
    }
    for (pair, &[cosine, sine]) in rotation.iter().enumerate() {
        let (first, second) = match pairing {
            Pairing::Halves => (pair, pair + rotation.len()),
            Pairing::Interleaved => (2 * pair, 2 * pair + 1),
        };
        let (a, b) = (head[first], head[second]);
        head[first] = a * cosine - b * sine;
        head[second] = a * sine + b * cosine;
    }
}

/// What the cache gives back for keys or values that were stored in it.
pub fn cache_row(format: CacheFormat, row: &mut [f32]) {
    if format == CacheFormat::F16 {
        for x in row {
            *x = f16::from_f32(*x).to_f32();
        }
    }
}
