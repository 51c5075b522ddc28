//! Reference of `head_gate`, by head.

use super::{ordered_sum, sigmoid, silu};
use crate::ops::Opening;

/// `y = opened(gate) * x`, where `x` is normalised before if there is a `norm`, weights and epsilon. All have the elements of a head.
pub fn head_gate(x: &[f32], gate: &[f32], norm: Option<(&[f32], f32)>, opening: Opening, y: &mut [f32]) {
    y.copy_from_slice(x);
    if let Some((weights, epsilon)) = norm {
        let squares: Vec<f32> = x.iter().map(|x| x * x).collect();
        let scale = 1.0 / (ordered_sum(&squares) * (1.0 / x.len() as f32) + epsilon).sqrt();
        y.iter_mut().zip(weights).for_each(|(y, weight)| *y = *y * scale * weight);
    }
    for (y, &gate) in y.iter_mut().zip(gate) {
        let opened = match opening {
            Opening::Silu => silu(gate),
            Opening::Sigmoid => sigmoid(gate),
        };
        *y *= opened;
    }
}
