//! How many bytes an operation moves and how many floating-point operations it does, for roofline figures and for the lengths of submissions.

use zinc_kernels::step::StepShape;

use super::{GateUpBiases, Op, Product, Routing, Sizes};
use crate::weights::{ModelWeights, TensorId};

/// Bytes of memory that a card reads in a second: a Radeon AI PRO R9700, by its data sheet (docs/rdna4.md).
const BYTES_PER_SECOND: f64 = 640e9;

/// Operations that a card does in a second, a multiplication and an addition counted as two. An R9700 does 383e12 with signed bytes (docs/rdna4.md). A
/// product of activations of 14 bits takes two of them, and matrix units reach an eighth of the rate on an H200 (docs/perf-log.md). Half of that is counted,
/// so that ranges are rather too short. A quarter of the card's 48e12 with f32 is as much: attention without matrix units.
const OPERATIONS_PER_SECOND: f64 = 383e12 / 2.0 / 16.0;

/// Bytes moved and floating-point operations done by one op, or by many.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// Weights read, in bytes, as they lie on a device.
    pub weight_bytes: u64,
    /// KV cache and recurrent states read and written, in bytes.
    pub cache_bytes: u64,
    /// Floating-point operations, a multiplication and an addition counted as two.
    pub flops: u64,
}

impl Cost {
    /// The seconds that this takes in a step of many rows on the card whose figures stand above: what its weights or its operations take, whichever is
    /// longer. The cache is not counted, since the rows share what they read of it.
    #[must_use]
    pub fn seconds(self) -> f64 {
        let Self { weight_bytes, flops, .. } = self;
        (weight_bytes as f64 / BYTES_PER_SECOND).max(flops as f64 / OPERATIONS_PER_SECOND)
    }
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

impl std::ops::Div<u32> for Cost {
    type Output = Self;

    /// The mean over so many rows.
    fn div(self, rows: u32) -> Self {
        let rows = u64::from(rows);
        Self { weight_bytes: self.weight_bytes / rows, cache_bytes: self.cache_bytes / rows, flops: self.flops / rows }
    }
}

impl std::iter::Sum for Cost {
    fn sum<I: Iterator<Item = Self>>(costs: I) -> Self {
        costs.fold(Self::default(), |a, b| a + b)
    }
}

impl Op {
    /// The cost of the op in a step whose rows are at `position` and behind it. A matrix that all rows are multiplied with is read once for all
    /// of them, and so are experts in steps of many rows, of which as many are counted as the rows can choose. In other steps each row reads the
    /// experts that it has chosen for itself, and in all of them the cache. Activations are not counted, since they stay in the
    /// device's caches.
    #[must_use]
    pub fn cost(&self, weights: &ModelWeights, sizes: &Sizes<'_>, position: u32, shape: StepShape) -> Cost {
        let rows = u64::from(shape.rows());
        let whole = |id: TensorId| {
            let tensor = weights.tensor(id);
            Cost { weight_bytes: tensor.device_bytes(), flops: 2 * tensor.elements() * rows, ..Cost::default() }
        };
        // The cost of a tensor of which each row reads only `used` of `of` equal parts: one line, or the selected experts.
        let share = |id: TensorId, used: u64, of: u64| {
            let cost = whole(id);
            Cost { weight_bytes: cost.weight_bytes / of * used * rows, flops: cost.flops / of * used, ..cost }
        };
        // The cost of the experts of a layer that the rows have chosen, each row for itself.
        let chosen = |layer: u32, id: TensorId| {
            let (experts, used) = sizes.config.feed_forward(layer).experts();
            share(id, used.into(), experts.into())
        };
        // The cost of the experts of a layer that the rows have chosen, each of which is read once: as many as there can be.
        let together = |layer: u32, id: TensorId| {
            let cost = chosen(layer, id);
            Cost { weight_bytes: cost.weight_bytes.min(whole(id).weight_bytes), ..cost }
        };
        let multiply = |products: &[Product]| -> Cost {
            products.iter().flat_map(|product| [Some(product.weights), product.bias]).flatten().map(whole).sum()
        };
        let key_and_value = |layer: u32| sizes.entry_bytes(layer);
        // The preparation of the rows' queries and keys, and the append of keys and values, which are written.
        let append = |layer: u32, norms: Option<(TensorId, TensorId)>, queries: bool| {
            let cost = norms.map(|(q, k)| whole(q) + whole(k)).unwrap_or_default();
            let attention = sizes.config.attention_of_op(layer);
            let heads = u64::from(if queries { attention.q_width() } else { 0 }) + u64::from(attention.kv_width());
            Cost { cache_bytes: key_and_value(layer) * rows, flops: cost.flops + 6 * heads * rows, ..cost }
        };
        // Attention to the positions up to each row's own, or to those of its window, whose keys and values are read.
        let attend = |layer: u32, sinks: Option<TensorId>| {
            let window = sizes.config.attention_of_op(layer).window.map_or(u64::MAX, u64::from);
            let positions: u64 = (0..rows).map(|row| (u64::from(position) + row + 1).min(window)).sum();
            let sinks = sinks.map(whole).unwrap_or_default();
            let flops = 4 * u64::from(sizes.config.attention_of_op(layer).q_width()) * positions;
            Cost { cache_bytes: key_and_value(layer) * positions, flops, ..Cost::default() } + sinks
        };
        let delta_heads = |layer: u32| sizes.config.delta_net_of_op(layer).heads();
        match self {
            Self::Gather { table, .. } => Cost { flops: 0, ..share(*table, 1, u64::from(sizes.config.n_vocab)) },
            Self::MatVec { products, norm, .. } => multiply(products) + norm.map(whole).unwrap_or_default(),
            Self::MatMul { products, .. } => multiply(products),
            Self::Append { layer, norms, queries } => append(*layer, *norms, *queries),
            Self::MtpNorms { embedding_norm, head_norm, hidden_norm } => {
                [*embedding_norm, *head_norm, *hidden_norm].map(whole).into_iter().sum()
            }
            Self::AttentionRows { layer, sinks } => attend(*layer, *sinks),
            Self::Attention { layer, norms, sinks, .. } => append(*layer, *norms, true) + attend(*layer, *sinks),
            Self::DeltaConv { layer, weights } => {
                let taps = 2 * u64::from(delta_heads(*layer).channels()) * 4;
                Cost { flops: taps * rows, ..whole(*weights) }
            }
            Self::DeltaNet { layer, alpha_bias, decay } => {
                let heads = delta_heads(*layer);
                // A row keeps a share of each element of the memories, reads them twice, and adds to them; the step reads and writes them.
                let elements = u64::from(heads.values()) * u64::from(heads.head_size);
                let weights = whole(*alpha_bias) + whole(*decay);
                Cost { cache_bytes: 2 * 4 * elements, flops: 7 * elements * rows, ..weights }
            }
            Self::HeadGate { norm, .. } => norm.map(whole).unwrap_or_default(),
            Self::Router { norm, matrix, bias, .. } | Self::RouterMul { norm, matrix, bias } => {
                whole(*norm) + whole(*matrix) + bias.map(whole).unwrap_or_default()
            }
            Self::Round { norm, .. } => norm.map(whole).unwrap_or_default(),
            Self::List
            | Self::Lookup(_)
            | Self::Propose { .. }
            | Self::LastRows
            | Self::LastAccepted
            | Self::Dry
            | Self::Route { .. }
            | Self::Join { .. }
            | Self::Adjust
            | Self::Choose
            | Self::Sample
            | Self::Advance { .. }
            | Self::Cancel
            | Self::LogprobShares
            | Self::Logprobs => Cost::default(),
            Self::GateUp { gate, up, routing: Routing::Dense { norm }, .. } => {
                norm.map(whole).unwrap_or_default() + whole(*gate) + whole(*up)
            }
            Self::GateUp { layer, gate, up, biases, routing: Routing::Experts, .. } => {
                gate_up(*gate, *up, *biases).map(|id| chosen(*layer, id)).sum()
            }
            Self::ExpertDown { layer, down, bias, .. } => {
                [Some(*down), *bias].into_iter().flatten().map(|id| chosen(*layer, id)).sum()
            }
            Self::GateUpMul { gate, up, biases, experts: false, .. } => gate_up(*gate, *up, *biases).map(whole).sum(),
            Self::GateUpMul { layer, gate, up, biases, experts: true, .. } => {
                gate_up(*gate, *up, *biases).map(|id| together(*layer, id)).sum()
            }
            Self::ExpertMul { layer, down, bias } => {
                [Some(*down), *bias].into_iter().flatten().map(|id| together(*layer, id)).sum()
            }
        }
    }
}

/// What the first half of a feed-forward layer reads.
fn gate_up(gate: TensorId, up: TensorId, biases: Option<GateUpBiases>) -> impl Iterator<Item = TensorId> {
    [gate, up].into_iter().chain(biases.into_iter().flat_map(|biases| [biases.gate, biases.up]))
}
