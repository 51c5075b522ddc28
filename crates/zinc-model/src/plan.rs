//! The forward pass as data: a list of operations in network order.
//!
//! The Vulkan recorder, the CPU interpreter, the barrier pass, the trace and the cost model all read the same list. It is not a compiler:
//! nothing rewrites it, and a fusion is another [`Op`]. An op names its operands ([`Array`], [`TensorId`]); sizes follow from the
//! [`Model`](crate::Model) and the [`CacheOptions`].

mod arrays;
mod barriers;
mod build;
mod cost;
mod label;

pub use arrays::{Array, CacheOptions, Sizes};
pub use barriers::barriers_before;
pub use cost::Cost;

use crate::weights::TensorId;

/// What a step is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Shape {
    /// Takes one prompt token through the layers; its logits are nobody's business and are not computed.
    Feed,
    /// Takes one token through the layers and samples the next.
    Decode,
}

/// One operation. Operands that every op of its kind shares (state, positions, caches of the layer) are implied; [`Op::reads`] and
/// [`Op::writes`] list them all.
#[derive(Clone, Debug, PartialEq)]
pub enum Op {
    /// `residual = table[token]`.
    Gather {
        /// `[vocabulary, width]`.
        table: TensorId,
    },
    /// `normed = rms_norm(residual) * weight`.
    Norm {
        /// `[width]`.
        weight: TensorId,
    },
    /// `y = W x` and what [`Epilogue`] says.
    MatVec {
        /// `[rows, columns]`.
        weights: TensorId,
        /// Input.
        x: Array,
        /// Output.
        y: Array,
        /// What becomes of the product.
        epilogue: Epilogue,
    },
    /// Head norms, rotary embedding and the append to the cache of `layer`.
    RopeKv {
        /// Whose cache.
        layer: u32,
        /// Weights of the query and key head norms, where the model has them.
        norms: Option<(TensorId, TensorId)>,
    },
    /// Attention over the cache of `layer`, in shares.
    Attention {
        /// Whose cache.
        layer: u32,
    },
    /// The shares joined.
    AttentionMerge,
    /// The choice of experts from the router's logits.
    Router,
    /// `hidden = silu(gate x) * (up x)`, of the chosen experts or of a dense layer.
    GateUp {
        /// `[experts, rows, columns]`.
        gate: TensorId,
        /// `[experts, rows, columns]`.
        up: TensorId,
        /// Which matrices are used.
        routing: Routing,
    },
    /// `residual += sum of weight * (down hidden)` over the chosen experts.
    ExpertDown {
        /// `[experts, rows, columns]`.
        down: TensorId,
    },
    /// The best candidates of the logits.
    Sample,
    /// The next token, the state, the report.
    Advance {
        /// What the step is for.
        shape: Shape,
    },
}

/// What becomes of a matrix product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Epilogue {
    /// It is stored.
    Store,
    /// A bias is added.
    AddBias(TensorId),
    /// It is added to what is there.
    Accumulate,
}

/// Which matrices a feed-forward layer uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Routing {
    /// One pair of matrices.
    Dense,
    /// The chosen experts' pairs.
    Experts,
}

/// The operations of one step.
#[derive(Clone, Debug)]
pub struct Plan {
    /// In network order.
    pub ops: Vec<Op>,
    /// What the step is for.
    pub shape: Shape,
}

impl Op {
    /// A short name for traces and tables: the kernel's.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Gather { .. } => "gather",
            Self::Norm { .. } => "rms_norm",
            Self::MatVec { .. } => "mat_vec",
            Self::RopeKv { .. } => "rope_kv",
            Self::Attention { .. } => "attention",
            Self::AttentionMerge => "attention_merge",
            Self::Router => "router",
            Self::GateUp { .. } => "gate_up",
            Self::ExpertDown { .. } => "expert_down",
            Self::Sample => "sample",
            Self::Advance { .. } => "advance",
        }
    }

    /// Arrays that the op reads. Every op reads [`Array::State`]; weights never change and are not listed.
    #[must_use]
    pub fn reads(&self) -> Vec<Array> {
        let mut arrays = match self {
            Self::Gather { .. } => vec![],
            Self::Norm { .. } => vec![Array::Residual],
            Self::MatVec { x, y, epilogue: Epilogue::Accumulate, .. } => vec![*x, *y],
            Self::MatVec { x, .. } => vec![*x],
            Self::RopeKv { .. } => vec![Array::Query, Array::Key, Array::Value],
            Self::Attention { layer } => vec![Array::Query, Array::KeyCache(*layer), Array::ValueCache(*layer)],
            Self::AttentionMerge => vec![Array::Partials],
            Self::Router => vec![Array::RouterLogits],
            Self::GateUp { routing: Routing::Dense, .. } => vec![Array::Normed],
            Self::GateUp { routing: Routing::Experts, .. } => vec![Array::Normed, Array::ExpertIds],
            Self::ExpertDown { .. } => {
                vec![Array::Hidden, Array::ExpertIds, Array::ExpertWeights, Array::Residual]
            }
            Self::Sample => vec![Array::Logits],
            Self::Advance { shape: Shape::Feed } => vec![],
            Self::Advance { shape: Shape::Decode } => vec![Array::Candidates],
        };
        arrays.push(Array::State);
        arrays
    }

    /// Arrays that the op writes.
    #[must_use]
    pub fn writes(&self) -> Vec<Array> {
        match self {
            Self::Gather { .. } | Self::ExpertDown { .. } => vec![Array::Residual],
            Self::Norm { .. } => vec![Array::Normed],
            Self::MatVec { y, .. } => vec![*y],
            Self::RopeKv { layer, .. } => vec![Array::Query, Array::KeyCache(*layer), Array::ValueCache(*layer)],
            Self::Attention { .. } => vec![Array::Partials],
            Self::AttentionMerge => vec![Array::Attended],
            Self::Router => vec![Array::ExpertIds, Array::ExpertWeights],
            Self::GateUp { .. } => vec![Array::Hidden],
            Self::Sample => vec![Array::Candidates],
            Self::Advance { .. } => vec![Array::State],
        }
    }
}
