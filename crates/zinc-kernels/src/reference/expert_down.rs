//! Reference of `expert_down`.

use super::HostMatrix;

/// `y += sum over slots of weights[s] * (D[ids[s]] h[s])`, in slot order; `h` is `[slots, columns]`, `y` has one place a row.
pub fn expert_down(down: &HostMatrix<'_>, ids: &[u32], weights: &[f32], h: &[f32], y: &mut [f32]) {
    let rows = y.len();
    let mut row = vec![0.0; down.columns];
    for (index, y) in y.iter_mut().enumerate() {
        let mut sum = 0.0;
        for ((&id, weight), h) in ids.iter().zip(weights).zip(h.chunks_exact(down.columns)) {
            sum += weight * down.dot(id as usize * rows + index, h, &mut row);
        }
        *y += sum;
    }
}
