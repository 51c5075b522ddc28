//! Reference of `attention_merge`, by head.

use super::Partial;

/// Joins the shares of one head into `y`. A head without any position gives 0; NaN is passed on.
pub fn attention_merge(partials: &[Partial], y: &mut [f32]) {
    let maximum = partials.iter().map(|p| p.maximum).fold(f32::NEG_INFINITY, f32::max);
    let scaled = || partials.iter().filter(|p| p.sum != 0.0).map(|p| (p, (p.maximum - maximum).exp()));
    let sum: f32 = scaled().map(|(p, scale)| p.sum * scale).sum();
    for (index, y) in y.iter_mut().enumerate() {
        let value: f32 = scaled().map(|(p, scale)| p.values[index] * scale).sum();
        *y = if sum != 0.0 { value / sum } else { 0.0 };
    }
}
