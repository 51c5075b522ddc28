//! Reference of `join`.

/// `y += sum over slots of weights[s] * products[s]`, in slot order; `products` is `[slots, width]`, `y` has `width` places. Every bit of it is
/// defined.
pub fn join(products: &[f32], weights: &[f32], y: &mut [f32]) {
    let width = y.len();
    for (i, y) in y.iter_mut().enumerate() {
        let shares = weights.iter().enumerate().map(|(slot, weight)| weight * products[slot * width + i]);
        *y += shares.reduce(|sum, share| sum + share).unwrap_or(0.0);
    }
}
