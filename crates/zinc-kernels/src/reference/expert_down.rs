//! Reference of `expert_down` with f32 activations.

use super::HostMatrix;

/// What an expert gives that is not chosen but shared by all tokens.
#[derive(Clone, Copy, Debug)]
pub struct SharedExpert<'a> {
    /// `[width]`.
    pub y: &'a [f32],
    /// The [`sigmoid`](super::sigmoid) of its gate's logit, by which it is multiplied.
    pub opened: f32,
}

impl SharedExpert<'_> {
    /// The sum of the chosen experts' shares of element `index`, with the share of this one.
    pub(super) fn add_to(&self, sum: f32, index: usize) -> f32 {
        sum + self.opened * self.y[index]
    }
}

/// `y += sum over slots of weights[s] * (D[ids[s]] h[s] + bias[ids[s]])`, in slot order, and then the share of a shared expert; `h` is `[slots, columns]`,
/// `bias` `[experts, rows]`, and `y` has one place a row. Every bit of it is defined.
pub fn expert_down(
    down: &HostMatrix<'_>,
    bias: Option<&[f32]>,
    ids: &[u32],
    weights: &[f32],
    h: &[f32],
    shared: Option<SharedExpert<'_>>,
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
        let sum = shares.reduce(|sum, share| sum + share).unwrap_or(0.0);
        *y += shared.map_or(sum, |shared| shared.add_to(sum, index));
    }
}
