//! How many bytes an operation moves and how many floating-point operations it does, for roofline figures.

use super::{Array, Op, Routing, Sizes};
use crate::weights::{ModelWeights, TensorId};

/// Bytes moved and floating-point operations done by one op, or by many.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// Weights read, in bytes, as they lie on a device.
    pub weight_bytes: u64,
    /// KV cache read and written, in bytes.
    pub cache_bytes: u64,
    /// Floating-point operations, a multiplication and an addition counted as two.
    pub flops: u64,
}

impl std::ops::Add for Cost {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            weight_bytes: self.weight_bytes + other.weight_bytes,
            cache_bytes: self.cache_bytes + other.cache_bytes,
            flops: self.flops + other.flops,
        }
    }
}

impl std::iter::Sum for Cost {
    fn sum<I: Iterator<Item = Self>>(costs: I) -> Self {
        costs.fold(Self::default(), |a, b| a + b)
    }
}

impl Op {
    /// The cost of the op for one token at `position`. Activations are not counted, since they stay in the device's caches.
    #[must_use]
    pub fn cost(&self, weights: &ModelWeights, sizes: &Sizes<'_>, position: u32) -> Cost {
        let whole = |id: TensorId| {
            let tensor = weights.tensor(id);
            Cost { weight_bytes: tensor.device_bytes(), flops: 2 * tensor.elements(), ..Cost::default() }
        };
        // The cost of a tensor of which only `used` of `of` equal parts are read: one row, or the selected experts.
        let share = |id: TensorId, used: u64, of: u64| {
            let cost = whole(id);
            Cost { weight_bytes: cost.weight_bytes / of * used, flops: cost.flops / of * used, ..cost }
        };
        let (experts, used) = sizes.experts();
        let (experts, used) = (u64::from(experts), u64::from(used));
        let row = |array: Array| sizes.bytes(array) / u64::from(sizes.cache.context.max(1));
        match self {
            Self::Gather { table } => Cost { flops: 0, ..share(*table, 1, u64::from(sizes.config.n_vocab)) },
            Self::MatVec { products, norm, .. } => {
                let matrices = products.iter().map(|p| p.weights).chain(products.iter().filter_map(|p| p.bias));
                matrices.chain(*norm).map(whole).sum::<Cost>()
            }
            Self::Attention { layer, norms, .. } => {
                let (q, kv) = (u64::from(sizes.config.q_width()), u64::from(sizes.config.kv_width()));
                let positions = u64::from(position) + 1;
                let attention = Cost {
                    // The keys and values of all positions are read, and those of the last one are written first.
                    cache_bytes: (row(Array::KeyCache(*layer)) + row(Array::ValueCache(*layer))) * (positions + 1),
                    flops: 4 * q * positions + 6 * (q + kv),
                    ..Cost::default()
                };
                attention + norms.iter().copied().flat_map(|(q, k)| [q, k]).map(whole).sum::<Cost>()
            }
            Self::Router { norm, matrix, .. } => whole(*norm) + whole(*matrix),
            Self::Lookup { .. }
            | Self::Round { .. }
            | Self::Dry
            | Self::Adjust
            | Self::Choose
            | Self::Sample
            | Self::Advance { .. }
            | Self::LogprobShares
            | Self::Logprobs => Cost::default(),
            Self::GateUp { gate, up, routing: Routing::Dense { norm }, .. } => whole(*norm) + whole(*gate) + whole(*up),
            Self::GateUp { gate, up, routing: Routing::Experts, .. } => {
                share(*gate, used, experts) + share(*up, used, experts)
            }
            Self::ExpertDown { down, .. } => share(*down, used, experts),
        }
    }
}
