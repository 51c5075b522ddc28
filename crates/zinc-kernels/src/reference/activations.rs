//! Reference of the 8-bit activations that kernels hand to each other.

use crate::ops::RUN;

const RUN_LEN: usize = RUN as usize;

/// What a quantised vector holds: `n` signed bytes, then a scale and a sum for each run of 16.
#[derive(Clone, Debug, PartialEq)]
pub struct Quantised {
    /// `[n]`.
    pub q: Vec<i8>,
    /// `[n / 16]`: the scale, and the sum of the run's elements after rounding.
    pub scales: Vec<[f32; 2]>,
}

impl Quantised {
    /// The nearest multiples of each run's largest magnitude / 127, ties to even. A value that is not finite makes its run's scale so;
    /// magnitudes below 1e-30 become 0.
    ///
    /// # Panics
    /// If `x` is not a whole number of runs.
    #[must_use]
    pub fn new(x: &[f32]) -> Self {
        assert!(x.len().is_multiple_of(RUN_LEN), "{} activations are not whole runs of {RUN_LEN}", x.len());
        let mut quantised = Self { q: Vec::with_capacity(x.len()), scales: Vec::with_capacity(x.len() / RUN_LEN) };
        for run in x.chunks_exact(RUN_LEN) {
            // As integers, the magnitudes of floats compare with NaN above infinity.
            let largest = f32::from_bits(run.iter().map(|x| x.abs().to_bits()).max().unwrap_or(0));
            let negligible = largest < 1e-30;
            let inverse = if negligible || !largest.is_finite() { 0.0 } else { 127.0 / largest };
            let q = run.iter().map(|x| if inverse == 0.0 { 0 } else { (x * inverse).round_ties_even() as i8 });
            quantised.q.extend(q);
            let sum: i32 = quantised.q[quantised.q.len() - RUN_LEN..].iter().map(|q| i32::from(*q)).sum();
            let scale = if negligible { 0.0 } else { largest / 127.0 };
            quantised.scales.push([scale, scale * sum as f32]);
        }
        quantised
    }

    /// What the vector stands for.
    #[must_use]
    pub fn values(&self) -> Vec<f32> {
        let runs = self.q.chunks_exact(RUN_LEN).zip(&self.scales);
        runs.flat_map(|(run, [scale, _])| run.iter().map(|q| f32::from(*q) * *scale)).collect()
    }

    /// The bytes as kernels read and write them.
    #[must_use]
    pub fn bytes(&self) -> Vec<u8> {
        let q = self.q.iter().map(|q| q.cast_unsigned());
        q.chain(self.scales.iter().flatten().flat_map(|value| value.to_le_bytes())).collect()
    }
}
