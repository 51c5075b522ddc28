//! Reference of `join`.

use super::SharedExpert;

/// `y += sum over slots of weights[s] * products[s]`, in slot order, and then the share of a shared expert; `products` is `[slots, width]`, `y` has `width`
/// places. Every bit of it is defined.
pub fn join(products: &[f32], weights: &[f32], shared: Option<SharedExpert<'_>>, y: &mut [f32]) {
    let width = y.len();
    for (i, y) in y.iter_mut().enumerate() {
        let shares = weights.iter().enumerate().map(|(slot, weight)| weight * products[slot * width + i]);
        let sum = shares.reduce(|sum, share| sum + share).unwrap_or(0.0);
        *y += shared.map_or(sum, |shared| shared.add_to(sum, i));
    }
}
