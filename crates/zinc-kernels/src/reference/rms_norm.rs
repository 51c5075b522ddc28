//! Reference of `rms_norm`.

/// `y = x / sqrt(mean(x^2) + epsilon) * weight`.
pub fn rms_norm(x: &[f32], weight: &[f32], epsilon: f32, y: &mut [f32]) {
    let mean = x.iter().map(|x| x * x).sum::<f32>() / x.len() as f32;
    let scale = 1.0 / (mean + epsilon).sqrt();
    for ((y, x), weight) in y.iter_mut().zip(x).zip(weight) {
        *y = x * scale * weight;
    }
}
