//! Reference of `delta_gate`, by head.

use super::{ordered_sum, silu};

/// `y = x / sqrt(mean(x^2) + epsilon) * weight * silu(z)`.
pub fn delta_gate(x: &[f32], z: &[f32], weight: &[f32], epsilon: f32, y: &mut [f32]) {
    let squares: Vec<f32> = x.iter().map(|x| x * x).collect();
    let scale = 1.0 / (ordered_sum(&squares) * (1.0 / x.len() as f32) + epsilon).sqrt();
    for (((y, x), z), weight) in y.iter_mut().zip(x).zip(z).zip(weight) {
        *y = silu(*z) * (x * scale * weight);
    }
}
