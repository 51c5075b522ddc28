//! The table of rotary angles: cosines and sines in double precision, rounded once.

use crate::config::{ModelConfig, RopeScaling};

/// `[context][rope.dims / 2]` pairs (cos, sin) of `position * base^(-2 i / rope.dims) / factor`. `factors` divides each frequency
/// (`rope_freqs.weight` of LLaMA 3), linear scaling divides the position.
#[must_use]
pub fn rotation_table(config: &ModelConfig, factors: Option<&[f32]>, context: u32) -> Vec<[f32; 2]> {
    let pairs = config.rope.dims / 2;
    let position_scale = match config.rope.scaling {
        RopeScaling::None => 1.0,
        RopeScaling::Linear { factor } => 1.0 / f64::from(factor),
    };
    let frequencies: Vec<f64> = (0..pairs)
        .map(|i| {
            let frequency = f64::from(config.rope.base).powf(-2.0 * f64::from(i) / f64::from(config.rope.dims));
            frequency / factors.map_or(1.0, |f| f64::from(f[i as usize]))
        })
        .collect();
    (0..context)
        .flat_map(|position| {
            let position = f64::from(position) * position_scale;
            frequencies.iter().map(move |frequency| {
                let (sine, cosine) = (position * frequency).sin_cos();
                [cosine as f32, sine as f32]
            })
        })
        .collect()
}
