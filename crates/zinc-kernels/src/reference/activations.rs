//! Reference of the quantised activations that kernels hand to each other.

use crate::ops::{ActFormat, RUN};

const RUN_LEN: usize = RUN as usize;

/// What a quantised vector holds.
#[derive(Clone, Debug, PartialEq)]
pub struct Quantised {
    /// [`ActFormat::Q8`] or [`ActFormat::Q16`].
    pub form: ActFormat,
    /// `[n]`.
    pub q: Vec<i16>,
    /// `[n / 16]`: the scale, and the sum of the run's elements after rounding.
    pub scales: Vec<[f32; 2]>,
}

impl Quantised {
    /// The nearest multiples of each run's largest magnitude / 127 or 32,512, ties to even. A value that is not finite makes its run's scale
    /// so; magnitudes below 1e-30 become 0.
    ///
    /// # Panics
    /// If `x` is not a whole number of runs, or the form is f32.
    #[must_use]
    pub fn new(form: ActFormat, x: &[f32]) -> Self {
        assert!(x.len().is_multiple_of(RUN_LEN), "{} activations are not whole runs of {RUN_LEN}", x.len());
        let levels = match form {
            ActFormat::F32 => panic!("f32 activations are not quantised"),
            ActFormat::Q8 => 127.0,
            ActFormat::Q16 => 32_512.0,
        };
        let mut quantised =
            Self { form, q: Vec::with_capacity(x.len()), scales: Vec::with_capacity(x.len() / RUN_LEN) };
        for run in x.chunks_exact(RUN_LEN) {
            // As integers, the magnitudes of floats compare with NaN above infinity.
            let largest = f32::from_bits(run.iter().map(|x| x.abs().to_bits()).max().unwrap_or(0));
            let negligible = largest < 1e-30;
            let inverse = if negligible || !largest.is_finite() { 0.0 } else { levels / largest };
            let q = run.iter().map(|x| if inverse == 0.0 { 0 } else { (x * inverse).round_ties_even() as i16 });
            quantised.q.extend(q);
            let sum: i32 = quantised.q[quantised.q.len() - RUN_LEN..].iter().map(|q| i32::from(*q)).sum();
            let scale = if negligible { 0.0 } else { largest / levels };
            quantised.scales.push([scale, scale * sum as f32]);
        }
        quantised
    }

    /// Reads what [`Quantised::bytes`] wrote.
    ///
    /// # Panics
    /// If there are fewer bytes than `n` elements take, or the form is f32.
    #[must_use]
    pub fn from_bytes(form: ActFormat, bytes: &[u8], n: usize) -> Self {
        let byte = |i: usize| i16::from(bytes[i].cast_signed());
        let q = match form {
            ActFormat::F32 => panic!("f32 activations are not quantised"),
            ActFormat::Q8 => (0..n).map(byte).collect(),
            ActFormat::Q16 => (0..n).map(|i| 256 * byte(i) + byte(n + i)).collect(),
        };
        let scales = &bytes[form.bytes(n as u64) as usize - n / 2..];
        let float = |bytes: &[u8]| f32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        let scales = scales.chunks_exact(8).take(n / RUN_LEN).map(|pair| [float(pair), float(&pair[4..])]).collect();
        Self { form, q, scales }
    }

    /// What the vector stands for.
    #[must_use]
    pub fn values(&self) -> Vec<f32> {
        let runs = self.q.chunks_exact(RUN_LEN).zip(&self.scales);
        runs.flat_map(|(run, [scale, _])| run.iter().map(|q| f32::from(*q) * *scale)).collect()
    }

    /// The bytes as kernels read and write them: of Q16 the high ones first, each with the low one's sign made up for.
    #[must_use]
    pub fn bytes(&self) -> Vec<u8> {
        let low_byte = |q: i16| q.to_le_bytes()[0];
        let mut bytes: Vec<u8> = match self.form {
            ActFormat::Q16 => self.q.iter().map(|q| low_byte((q + 128) >> 8)).collect(),
            _ => Vec::new(),
        };
        bytes.extend(self.q.iter().map(|q| low_byte(*q)));
        bytes.extend(self.scales.iter().flatten().flat_map(|value| value.to_le_bytes()));
        bytes
    }
}
