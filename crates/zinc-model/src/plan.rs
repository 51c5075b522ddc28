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
mod sampling;

pub use arrays::{ALIGNMENT, Array, CacheOptions, Sizes};
pub use barriers::barriers_before;
pub use cost::Cost;
pub use sampling::{Sampler, SamplingStage};

use std::ops::RangeInclusive;

use zinc_kernels::ops::{ActFormat, MAX_BATCH};

use crate::weights::TensorId;

/// What a step is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PlanKind {
    /// Takes one prompt token through the layers; its logits are nobody's business and are not computed.
    Feed,
    /// Takes one token through the layers and samples the next; and drafts of those after it, where the plan has room for them.
    Decode,
}

/// One operation. Operands that every op of its kind shares (state, positions, caches of the layer) are implied; [`Op::reads`] and
/// [`Op::writes`] list them all.
#[derive(Clone, Debug, PartialEq)]
pub enum Op {
    /// Drafts of the tokens to come: those that followed an earlier place in the sequence.
    Lookup {
        /// How many of the last tokens the place has in common.
        ngrams: RangeInclusive<u32>,
        /// The most drafts.
        drafts: u32,
    },
    /// `residual = table[token]`.
    Gather {
        /// `[vocabulary, width]`.
        table: TensorId,
    },
    /// `y = W x`, or what is added to it, for up to three matrices and one vector.
    MatVec {
        /// The matrices, with their outputs.
        products: Vec<Product>,
        /// Input.
        x: Array,
        /// Weights that normalise the input on the way, `[width]`.
        norm: Option<TensorId>,
        /// The form of the activations that the matrices meet.
        act: ActFormat,
        /// Whether the products are added to what the outputs hold.
        accumulate: bool,
    },
    /// Head norms, rotary embedding, the append to the cache of `layer`, and attention over it.
    Attention {
        /// Whose cache.
        layer: u32,
        /// Weights of the query and key head norms, where the model has them.
        norms: Option<(TensorId, TensorId)>,
        /// The form of the result.
        out: ActFormat,
        /// The weights that the op after it reads.
        next: TensorId,
    },
    /// `normed = rms_norm(residual) * norm`, and the router's logits `matrix normed`.
    Router {
        /// `[width]`.
        norm: TensorId,
        /// `[experts, width]`.
        matrix: TensorId,
        /// The form of `normed`.
        out: ActFormat,
    },
    /// `hidden = silu(gate x) * (up x)`, of the chosen experts or of a dense layer.
    GateUp {
        /// `[experts, rows, columns]`.
        gate: TensorId,
        /// `[experts, rows, columns]`.
        up: TensorId,
        /// Which matrices are used, and of which input.
        routing: Routing,
        /// The form of the activations that the matrices meet.
        act: ActFormat,
        /// The form of `hidden`.
        out: ActFormat,
    },
    /// `residual += sum of weight * (down hidden)` over the chosen experts.
    ExpertDown {
        /// `[experts, rows, columns]`.
        down: TensorId,
        /// The form of `hidden`.
        act: ActFormat,
    },
    /// Repetitions that each token would continue.
    Dry,
    /// The logits after bias, penalties and what the host allows, listed by shares.
    Adjust,
    /// The candidate that the chain of samplers draws.
    Choose,
    /// The best candidates of the logits.
    Sample,
    /// The next tokens, the state, the report.
    Advance {
        /// What the step is for.
        kind: PlanKind,
        /// What left the candidates.
        sampler: Sampler,
    },
    /// The likeliest tokens of each share of the raw logits.
    LogprobShares,
    /// The report of log-probabilities.
    Logprobs,
}

/// One matrix of an [`Op::MatVec`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Product {
    /// `[rows, columns]`.
    pub weights: TensorId,
    /// `[rows]`, to be added.
    pub bias: Option<TensorId>,
    /// Output.
    pub y: Array,
}

/// Which matrices a feed-forward layer uses, and of which input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Routing {
    /// One pair of matrices, of the residual stream normalised by these weights.
    Dense {
        /// `[width]`.
        norm: TensorId,
    },
    /// The pairs of the experts with the highest logits, of what the router normalised.
    Experts,
}

/// The operations of one step.
#[derive(Clone, Debug)]
pub struct StepPlan {
    /// In network order.
    pub ops: Vec<Op>,
    /// What the step is for.
    pub kind: PlanKind,
    /// Tokens that the step can take: the last one of the sequence and drafts of those after it. Each op does all of them.
    pub batch: u32,
}

impl StepPlan {
    /// The same for up to `batch` tokens at once. The model must have been loaded with room for them.
    ///
    /// # Panics
    /// If that is none or more than [`MAX_BATCH`], or if the step feeds a prompt: that goes by ones.
    #[must_use]
    pub fn with_batch(self, batch: u32) -> Self {
        assert!(
            self.kind == PlanKind::Decode && (1..=MAX_BATCH).contains(&batch),
            "a {:?} step of {batch} tokens",
            self.kind
        );
        Self { batch, ..self }
    }

    /// The same, for tokens that are looked up first: as many as the plan has room for, at places that have as many tokens in common with the
    /// end of the sequence as `ngrams` says.
    #[must_use]
    pub fn with_lookup(mut self, ngrams: RangeInclusive<u32>) -> Self {
        self.ops.insert(0, Op::Lookup { ngrams, drafts: self.batch - 1 });
        self
    }
}

/// What the two ops of log-probabilities hand to each other.
const LOGPROB_ARRAYS: [Array; 3] = [Array::LogprobItems, Array::LogprobShares, Array::LogprobMasses];

impl Op {
    /// A short name for traces and tables: the kernel's.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Lookup { .. } => "lookup",
            Self::Gather { .. } => "gather",
            Self::MatVec { .. } => "mat_vec",
            Self::Attention { .. } => "attention",
            Self::Router { .. } => "router",
            Self::GateUp { .. } => "gate_up",
            Self::ExpertDown { .. } => "expert_down",
            Self::Dry => "dry",
            Self::Adjust => "adjust",
            Self::Choose => "choose",
            Self::Sample => "sample",
            Self::Advance { .. } => "advance",
            Self::LogprobShares => "logprob_shares",
            Self::Logprobs => "logprobs",
        }
    }

    /// Arrays that the op reads. Every op reads [`Array::State`]; weights never change and are not listed.
    #[must_use]
    pub fn reads(&self) -> Vec<Array> {
        let mut arrays = match self {
            Self::Lookup { .. } | Self::Gather { .. } => vec![Array::Tokens],
            Self::MatVec { products, x, accumulate, .. } => {
                let outputs = products.iter().filter(|_| *accumulate).map(|product| product.y);
                std::iter::once(*x).chain(outputs).collect()
            }
            Self::Attention { layer, .. } => {
                let caches = [Array::KeyCache(*layer), Array::ValueCache(*layer)];
                [Array::Query, Array::Key, Array::Value, Array::Counters].into_iter().chain(caches).collect()
            }
            Self::Router { .. } => vec![Array::Residual],
            Self::GateUp { routing: Routing::Dense { .. }, .. } => vec![Array::Residual],
            Self::GateUp { routing: Routing::Experts, .. } => vec![Array::Normed, Array::RouterLogits],
            Self::ExpertDown { .. } => {
                vec![Array::Hidden, Array::ExpertIds, Array::ExpertWeights, Array::Residual]
            }
            Self::Dry => vec![Array::Tokens],
            Self::Adjust => vec![Array::Logits, Array::Tokens, Array::TokenCounts, Array::DryLengths],
            Self::Choose => vec![Array::Logits, Array::Items, Array::Shares, Array::Moments],
            Self::Sample | Self::LogprobShares => vec![Array::Logits],
            Self::Advance { kind: PlanKind::Feed, .. } => vec![Array::Tokens],
            Self::Advance { kind: PlanKind::Decode, .. } => {
                vec![Array::Tokens, Array::TokenCounts, Array::Candidates]
            }
            Self::Logprobs => LOGPROB_ARRAYS.to_vec(),
        };
        arrays.push(Array::State);
        arrays
    }

    /// Arrays that the op writes.
    #[must_use]
    pub fn writes(&self) -> Vec<Array> {
        match self {
            Self::Gather { .. } | Self::ExpertDown { .. } => vec![Array::Residual],
            Self::MatVec { products, .. } => products.iter().map(|product| product.y).collect(),
            Self::Attention { layer, .. } => {
                let caches = [Array::KeyCache(*layer), Array::ValueCache(*layer)];
                [Array::Attended, Array::Partials, Array::Counters].into_iter().chain(caches).collect()
            }
            Self::Router { .. } => vec![Array::Normed, Array::RouterLogits],
            Self::GateUp { routing: Routing::Dense { .. }, .. } => vec![Array::Hidden],
            Self::GateUp { routing: Routing::Experts, .. } => {
                vec![Array::Hidden, Array::ExpertIds, Array::ExpertWeights]
            }
            Self::Dry => vec![Array::DryLengths],
            Self::Adjust => vec![Array::Items, Array::Shares, Array::Moments, Array::DryLengths],
            Self::Choose | Self::Sample => vec![Array::Candidates],
            Self::Lookup { .. } => vec![Array::State, Array::Tokens],
            Self::Advance { .. } => vec![Array::State, Array::Tokens, Array::TokenCounts],
            Self::LogprobShares => LOGPROB_ARRAYS.to_vec(),
            Self::Logprobs => vec![],
        }
    }
}
