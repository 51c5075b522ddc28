//! How tests of the first half of a feed-forward layer join its two products.

use zinc_kernels::ops::{self, Activation};
use zinc_kernels::reference;

use super::Arena;
use super::data::Random;

/// What becomes of the two products.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Gating {
    pub(crate) activation: Activation,
    /// Whether biases are added to the products first.
    pub(crate) biased: bool,
}

/// As in Qwen.
pub(crate) const PLAIN: Gating = Gating { activation: Activation::SwiGlu, biased: false };
/// As in gpt-oss.
pub(crate) const CLAMPED: Gating = Gating { activation: Activation::ClampedSwiGlu, biased: true };
/// Every other one.
pub(crate) const OTHERS: [Gating; 3] = [CLAMPED, Gating { biased: false, ..CLAMPED }, Gating { biased: true, ..PLAIN }];

impl Gating {
    /// Biases for so many rows of all matrices, if there are any. Some are not finite, each in one of the two arrays.
    pub(crate) fn biases(self, random: &mut Random, rows: usize) -> Option<Biases> {
        const ODD: [f32; 4] = [f32::NAN, -f32::NAN, f32::INFINITY, f32::NEG_INFINITY];
        self.biased.then(|| {
            let [mut gate, mut up] = [(); 2].map(|()| random.vector(rows, 2.0));
            for row in (3..rows).step_by(5) {
                let array = if row % 2 == 0 { &mut gate } else { &mut up };
                array[row] = ODD[row / 5 / 2 % 4];
            }
            Biases { gate, up }
        })
    }
}

/// `[experts, rows]` of each of the two matrices.
pub(crate) struct Biases {
    pub(crate) gate: Vec<f32>,
    pub(crate) up: Vec<f32>,
}

impl Biases {
    /// On the device.
    pub(crate) fn operands(&self, arena: &mut Arena) -> ops::GateUpBiases {
        ops::GateUpBiases { gate: arena.input(&self.gate).address, up: arena.input(&self.up).address }
    }

    /// As the references take them.
    pub(crate) fn host(&self) -> reference::GateUpBiases<'_> {
        reference::GateUpBiases { gate: &self.gate, up: &self.up }
    }
}
