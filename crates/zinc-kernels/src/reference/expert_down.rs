//! Reference of `expert_down` with f32 activations.

use super::HostMatrix;

/// `y += sum over slots of weights[s] * (D[ids[s]] h[s] + bias[ids[s]])`, in slot order; `h` is `[slots, columns]`, `bias` `[experts, rows]`, and `y` has
/// one place a row. Every bit of it is defined.
pub fn expert_down(
    down: &HostMatrix<'_>,
    bias: Option<&[f32]>,
    ids: &[u32],
    weights: &[f32],
    h: &[f32],
    y: &mut [f32],
) {
    let rows = y.len();
    for (index, y) in y.iter_mut().enumerate() {
        let slots = ids.iter().zip(weights).zip(h.chunks_exact(down.columns));
        let shares = slots.map(|((&id, weight), h)| {
            let row = id as usize * rows + index;
            let product = down.product(row, h);
            weight * bias.map_or(product, |bias| product + bias[row])
        });
        *y += shares.reduce(|sum, share| sum + share).unwrap_or(0.0);
    }
}
