//! Reference of `delta_conv`, by row.

use super::silu;

/// `y[c] = silu(sum over j of weights[c][j] * window[j][c])`. `window` has the last four positions of the sequence, the present one last; those
/// before its beginning are zeros. `weights` is `[channels, 4]`.
pub fn delta_conv(window: [&[f32]; 4], weights: &[f32], y: &mut [f32]) {
    for (c, (y, weights)) in y.iter_mut().zip(weights.as_chunks::<4>().0).enumerate() {
        let mut sum = weights[0] * window[0][c];
        for (weight, x) in weights.iter().zip(window).skip(1) {
            sum += weight * x[c];
        }
        *y = silu(sum);
    }
}
