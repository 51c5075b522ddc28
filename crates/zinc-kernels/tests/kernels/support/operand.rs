//! The vector that a matrix product takes: as a kernel reads it, as the reference computes with it, and how far the two may be apart.

use std::ops::Range;

use zinc_kernels::Format;
use zinc_kernels::ops::{ActFormat, GROUP, Input, Norm, rounded_bytes};
use zinc_kernels::reference::{self, HostMatrix, Q14};

use super::arena::{Arena, values};
use super::data::{Random, Scales};
use super::tolerance;

/// Of the normalisation.
pub(crate) const EPSILON: f32 = 1e-6;

/// Where a kernel finds a vector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    Floats,
    Normalised,
    Rounded,
}

/// A vector on the device.
pub(crate) struct Operand {
    /// As a kernel takes it.
    pub(crate) input: Input,
    /// What the products are to be computed with: normalised, and rounded if the products round it.
    pub(crate) values: Vec<f32>,
    /// The integers that a product has to take; none where they depend on the device, because it normalises, or where there are none.
    pub(crate) rounded: Option<Q14>,
    act: ActFormat,
    normalised: bool,
    /// The largest scale of a rounded group.
    largest_scale: f32,
}

impl Operand {
    pub(crate) fn new(
        random: &mut Random,
        arena: &mut Arena,
        columns: usize,
        (act, source): (ActFormat, Source),
        (scales, size): (Scales, f32),
    ) -> Self {
        let x = if scales == Scales::Whole { random.whole(columns, 2) } else { random.vector(columns, size) };
        let normalised = source == Source::Normalised;
        let (mut values, mut norm) = (x.clone(), Norm { weight: 0, epsilon: EPSILON });
        if normalised {
            let weight = random.vector(columns, 1.0);
            reference::rms_norm(&x, &weight, EPSILON, &mut values);
            norm.weight = arena.input(&weight).address;
        }
        let rounded = (act == ActFormat::Q14).then(|| Q14::new(&values));
        let input = match source {
            Source::Floats => Input::Floats(arena.input(&x).row()),
            Source::Normalised => Input::Normalised(arena.input(&x).row(), norm),
            Source::Rounded => Input::Rounded(arena.input(&Q14::new(&x).bytes(false)).row()),
        };
        let mut largest_scale = 0.0f32;
        if let Some(rounded) = &rounded {
            values = rounded.values();
            largest_scale = rounded.scales.iter().fold(0.0, |largest, scale| largest.max(*scale));
        }
        Self { input, values, rounded: rounded.filter(|_| !normalised), act, normalised, largest_scale }
    }

    /// How far the products of some rows may be off because of the vector, beyond the rounding of their sums.
    pub(crate) fn bounds(&self, matrix: &HostMatrix<'_>, rows: Range<usize>) -> Vec<f64> {
        let mut row = vec![0.0; matrix.columns];
        let size: f64 = self.values.iter().map(|x| f64::from(x.abs())).sum();
        rows.map(|index| {
            matrix.decode_row(index, &mut row);
            let largest = f64::from(row.iter().fold(0.0f32, |largest, w| largest.max(w.abs())));
            let mut bound = 0.0;
            if self.act == ActFormat::Q14 {
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
    if format.is_float() { &[ActFormat::F32] } else { &[ActFormat::F32, ActFormat::Q14] }
}

/// Bytes of `n` elements that a kernel stores for products which compute with `act`.
pub(crate) fn stored_bytes(act: ActFormat, n: usize) -> usize {
    match act {
        ActFormat::F32 => n * 4,
        ActFormat::Q14 => rounded_bytes(n as u64) as usize,
    }
}

/// What a vector of `n` elements that a kernel stored for products which compute with `act` stands for. The runs of a rounded one may be `ordered`.
pub(crate) fn stored(act: ActFormat, bytes: &[u8], n: usize, ordered: bool) -> Vec<f32> {
    match act {
        ActFormat::F32 => values(&bytes[..n * 4]),
        ActFormat::Q14 => Q14::from_bytes(bytes, n, ordered).values(),
    }
}

/// How far an element that is stored so may be from what was computed: half a step of its group, and a hundredth of that, since of up to 8,191
/// steps the product with the inverse scale may round, 0.001 of a step.
pub(crate) fn step(act: ActFormat, expected: &[f32], index: usize) -> f64 {
    match act {
        ActFormat::F32 => 0.0,
        ActFormat::Q14 => {
            let group = expected.chunks(GROUP as usize).nth(index / GROUP as usize).unwrap_or(&[]);
            f64::from(group.iter().fold(0.0f32, |largest, x| largest.max(x.abs()))) / 8_191.0 / 2.0 * (1.0 + 1e-2)
        }
    }
}
