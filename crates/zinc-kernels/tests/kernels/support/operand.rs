//! The vector that a matrix product takes: as a kernel reads it, as the reference computes with it, and how far the two may be apart.

use std::ops::Range;

use zinc_kernels::Format;
use zinc_kernels::ops::{ActFormat, RUN};
use zinc_kernels::reference::{self, HostMatrix, Quantised};

use super::arena::{Arena, values};
use super::data::{Random, Scales};
use super::tolerance;

/// Of the normalisation.
pub(crate) const EPSILON: f32 = 1e-6;

/// A vector on the device.
pub(crate) struct Operand {
    /// Its address.
    pub(crate) x: u64,
    /// Address of the weights that normalise it, 0 if it is not normalised.
    pub(crate) norm: u64,
    /// What the products are to be computed with: normalised, and quantised if the form is.
    pub(crate) values: Vec<f32>,
    act: ActFormat,
    normalised: bool,
    /// The largest scale of a quantised run.
    largest_scale: f32,
}

impl Operand {
    pub(crate) fn new(
        random: &mut Random,
        arena: &mut Arena,
        columns: usize,
        act: ActFormat,
        norm: bool,
        scales: Scales,
    ) -> Self {
        let mut x = if scales == Scales::Whole { random.whole(columns, 2) } else { random.vector(columns, 1.0) };
        if scales == Scales::Whole && act != ActFormat::F32 {
            // The largest element of each run makes its scale 1, or 1/256.
            x.iter_mut().step_by(RUN as usize).for_each(|x| *x = 127.0);
        }
        let (mut values, mut weights) = (x.clone(), 0);
        if norm {
            let weight = random.vector(columns, 1.0);
            reference::rms_norm(&x, &weight, EPSILON, &mut values);
            weights = arena.input(&weight).address;
        }
        let mut largest_scale = 0.0f32;
        let address = match act {
            ActFormat::Q8 | ActFormat::Q16 => {
                let quantised = Quantised::new(act, &values);
                values = quantised.values();
                largest_scale = quantised.scales.iter().fold(0.0, |largest, [scale, _]| largest.max(*scale));
                if norm { arena.input(&x).address } else { arena.input(&quantised.bytes()).address }
            }
            ActFormat::F32 => arena.input(&x).address,
        };
        Self { x: address, norm: weights, values, act, normalised: norm, largest_scale }
    }

    /// Whether products with whole weights are exact.
    pub(crate) fn is_exact(&self) -> bool {
        !self.normalised
    }

    /// How far the products of some rows may be off because of the vector, beyond the rounding of their sums.
    pub(crate) fn bounds(&self, matrix: &HostMatrix<'_>, rows: Range<usize>) -> Vec<f64> {
        let mut row = vec![0.0; matrix.columns];
        let size: f64 = self.values.iter().map(|x| f64::from(x.abs())).sum();
        rows.map(|index| {
            matrix.decode_row(index, &mut row);
            let largest = f64::from(row.iter().fold(0.0f32, |largest, w| largest.max(w.abs())));
            let mut bound = 0.0;
            if !matrix.format.is_float() {
                // Scaled values and offsets are summed apart, and each may be as large as the largest weight, or twice that.
                bound += tolerance::sum(matrix.columns, 3.0 * largest * size);
            }
            if self.normalised {
                bound += tolerance::rms_norm(matrix.columns, 1.0) * largest * size;
                if self.act != ActFormat::F32 {
                    // A normalised element that lies within its rounding of a tie may go to the other side; of a few thousand elements,
                    // hardly more than one or two do.
                    bound += 4.0 * largest * f64::from(self.largest_scale);
                }
            }
            bound
        })
        .collect()
    }
}

/// The forms of activations that weights of a format can meet.
pub(crate) fn forms(format: Format) -> &'static [ActFormat] {
    if format.is_float() { &[ActFormat::F32] } else { &[ActFormat::F32, ActFormat::Q8, ActFormat::Q16] }
}

/// What a vector of `n` elements that a kernel stored in form `act` stands for.
pub(crate) fn stored(act: ActFormat, bytes: &[u8], n: usize) -> Vec<f32> {
    match act {
        ActFormat::F32 => values(&bytes[..n * 4]),
        ActFormat::Q8 | ActFormat::Q16 => {
            let stored = Quantised::from_bytes(act, bytes, n);
            for (run, [scale, sum]) in stored.q.chunks(RUN as usize).zip(&stored.scales) {
                let total: i32 = run.iter().map(|q| i32::from(*q)).sum();
                let same = *sum == scale * total as f32 || sum.is_nan();
                assert!(same, "a run's sum is {sum}, not {scale} times {total}");
            }
            stored.values()
        }
    }
}

/// How far an element stored in form `act` may be from what was computed: half a step of its run, and a hundredth of that, since of up to 32,512
/// steps the product with the inverse scale may round twice, 0.004 of a step.
pub(crate) fn step(act: ActFormat, expected: &[f32], index: usize) -> f64 {
    match act {
        ActFormat::F32 => 0.0,
        ActFormat::Q8 | ActFormat::Q16 => {
            let levels = if act == ActFormat::Q8 { 127.0 } else { 32_512.0 };
            let run = &expected[index / RUN as usize * RUN as usize..][..RUN as usize];
            f64::from(run.iter().fold(0.0f32, |largest, x| largest.max(x.abs()))) / levels / 2.0 * (1.0 + 1e-2)
        }
    }
}
