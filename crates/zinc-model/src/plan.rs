//! The forward pass as data: a list of operations in network order.
//!
//! The Vulkan recorder, the pass that places barriers, the trace and the cost model read one [`StepPlan`]. The CPU interpreter runs plans that
//! are built by the same function, with f32 activations, and of their sampling stages only the plain one. An op names its operands
//! ([`Array`], [`TensorId`]); sizes follow from the [`Model`](crate::Model) and the [`CacheOptions`].
//!
//! A plan is no input of a compiler: no pass optimises it, and a fused operation is another [`Op`]. [`StepPlan::new`] joins two parts: the
//! forward pass, up to the logits ([`StepPlan::forward`]), and the tail behind it, which chooses tokens and ends the step ([`StepPlan::tail`]).
//! A step that feeds the ends of prompts and samples has two plans, since its layers take many rows and what is behind them takes one of each prompt: the layers
//! ([`StepPlan::forward`] of a feed), and the rest ([`StepPlan::behind_last_rows`]).
//! [`PlanOptions`] says what both are made for.

mod arrays;
mod barriers;
mod build;
mod cache;
mod cost;
mod label;
mod mtp;
mod ranges;
mod sampling;

pub use arrays::{ALIGNMENT, Array, ArrayClass, MANY_ROWS, RowCounts, Sizes};
pub use barriers::barriers_before;
pub use cache::CacheOptions;
pub use cost::Cost;
pub use mtp::MtpDraft;
pub use sampling::{Sampler, SamplingStage};

use std::ops::RangeInclusive;

use zinc_kernels::ops::ActFormat;
use zinc_kernels::step::StepShape;

use crate::weights::TensorId;

/// What the step of a plan is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PlanKind {
    /// Takes rows of a prompt through the layers, to compute their keys and values. The logits are not computed.
    Feed,
    /// Takes rows through the layers and samples after each of them: after the last token of a sequence, and after drafts of those behind it. Or it
    /// samples behind layers that the plan of a feed has, after the last rows of prompts ([`StepPlan::behind_last_rows`]).
    Decode,
}

/// One operation. Operands that all ops of a kind have in common (state, positions, the caches of the layer) have no field. [`Op::reads`] and
/// [`Op::writes`] list every operand that changes during a sequence.
#[derive(Clone, Debug, PartialEq)]
pub enum Op {
    /// Begins the step: lists its lanes and their rows.
    List,
    /// Drafts tokens by look-up, which become further rows of the step.
    Lookup(Lookup),
    /// Makes tokens that were drafted before the step further rows of it.
    Propose {
        /// The most tokens that are drafted for a step.
        drafts: u32,
    },
    /// `y = table[token]`.
    Gather {
        /// `[vocabulary, width]`.
        table: TensorId,
        /// Whether it is the token behind each row's.
        behind: bool,
        /// The output vector, or the beginning of it.
        y: Array,
    },
    /// The input of the block for multi-token prediction: the embedding in [`Array::MtpInput`] is normalised, and the residual stream, normalised twice, put behind it.
    MtpNorms {
        /// `[width]`.
        embedding_norm: TensorId,
        /// `[width]`: as a head normalises the residual stream.
        head_norm: TensorId,
        /// `[width]`.
        hidden_norm: TensorId,
    },
    /// Begins drafts by that block behind a step that has ended: the last of its rows that was accepted becomes the row of the drafting state.
    LastAccepted,
    /// `y = W x`, or `y += W x`, for up to three matrices and one vector.
    MatVec {
        /// The matrices, with their outputs.
        products: Vec<Product>,
        /// The input vector.
        x: Array,
        /// Weights that normalise the input on the way, `[width]`.
        norm: Option<TensorId>,
        /// What the products compute with.
        act: ActFormat,
        /// Whether the products are added to the outputs, instead of replacing them.
        accumulate: bool,
    },
    /// `y = W x`, or `y += W x`, for up to three matrices in quantised formats and the rounded vectors of many rows.
    MatMul {
        /// The matrices, with their outputs.
        products: Vec<Product>,
        /// The input vector, rounded.
        x: Array,
        /// Whether the products are added to the outputs, instead of replacing them.
        accumulate: bool,
        /// Which [`Array::GroupValues`] the workgroups have if they share groups; without it they do not.
        group_values: Option<u32>,
    },
    /// The norm and the rotary embedding of queries, in place, and of keys, and the append of keys and values to the cache of `layer`, for many rows.
    Append {
        /// The layer, from 0.
        layer: u32,
        /// Weights of the query and key head norms, where the model has them.
        norms: Option<(TensorId, TensorId)>,
        /// Whether there are queries; otherwise keys and values alone are appended.
        queries: bool,
    },
    /// Attention of many rows over the cache of `layer`, with prepared queries.
    AttentionRows {
        /// The layer, from 0.
        layer: u32,
        /// `[heads]`: scores that join the softmax of each query head, where the model has them.
        sinks: Option<TensorId>,
    },
    /// Head norms, rotary embedding, the append to the cache of `layer`, and attention over it.
    Attention {
        /// The layer, from 0.
        layer: u32,
        /// Weights of the query and key head norms, where the model has them.
        norms: Option<(TensorId, TensorId)>,
        /// `[heads]`: scores that join the softmax of each query head, where the model has them.
        sinks: Option<TensorId>,
        /// What the product that takes the result computes with.
        act: ActFormat,
        /// The weights that the next op reads; idle workgroups may bring them into the device's cache.
        next: TensorId,
    },
    /// The short convolution of a delta net's queries, keys and values, with earlier positions from the recurrent state of `layer`.
    DeltaConv {
        /// The layer, from 0.
        layer: u32,
        /// `[channels * 4]`.
        weights: TensorId,
    },
    /// Takes rows into the memories of a delta net's heads, which are in the recurrent state of `layer`, and reads of them what the rows' queries ask for.
    DeltaNet {
        /// The layer, from 0.
        layer: u32,
        /// `[value_heads]`, added to [`Array::DeltaAlpha`].
        alpha_bias: TensorId,
        /// `[value_heads]`, at most 0.
        decay: TensorId,
    },
    /// Multiplies the results of a mixer's heads with what opens [`Array::MixerGate`]: its silu in a delta net, its sigmoid in attention.
    HeadGate {
        /// The layer, from 0.
        layer: u32,
        /// The results.
        x: Array,
        /// Weights that normalise each head's result before, `[head_size]`.
        norm: Option<TensorId>,
        /// [`Array::Attended`], in f32, or [`Array::RoundedAttended`].
        y: Array,
        /// Whether the runs of the rounded form stand in order, for products of many rows.
        ordered: bool,
    },
    /// `normed = rms_norm(residual) * norm`, and the router's logits `matrix normed + bias`.
    Router {
        /// `[width]`.
        norm: TensorId,
        /// `[experts, width]`.
        matrix: TensorId,
        /// `[experts]`.
        bias: Option<TensorId>,
        /// What the products that take `normed` compute with: it is rounded for [`ActFormat::Q14`].
        act: ActFormat,
        /// Whether the runs of the rounded form stand in order, for products of many rows.
        ordered: bool,
    },
    /// The router's logits `matrix (rms_norm(residual) * norm) + bias` of many rows, with a matrix in a float format.
    RouterMul {
        /// `[width]`.
        norm: TensorId,
        /// `[experts, width]`.
        matrix: TensorId,
        /// `[experts]`.
        bias: Option<TensorId>,
    },
    /// `hidden = activation(gate x, up x)`, of the selected experts, of a dense layer or of a shared expert.
    GateUp {
        /// The layer, from 0.
        layer: u32,
        /// `[experts, rows, columns]`.
        gate: TensorId,
        /// `[experts, rows, columns]`.
        up: TensorId,
        /// What is added to the products, where the model has biases.
        biases: Option<GateUpBiases>,
        /// Which matrices are used, and what their input is.
        routing: Routing,
        /// What the products compute with.
        act: ActFormat,
        /// [`Array::Hidden`], or [`Array::SharedHidden`] of a shared expert.
        y: Array,
    },
    /// Chooses the experts of many rows, sorts the rows by expert, and says how many workgroups the products with these experts have.
    Route {
        /// The layer, from 0.
        layer: u32,
        /// `[experts, rows, columns]`, which the [`Op::GateUpMul`] behind it reads.
        gate: TensorId,
        /// `[experts, rows, columns]`, which that op reads too.
        up: TensorId,
        /// `[experts, rows, columns]`, which the [`Op::ExpertMul`] behind it reads.
        down: TensorId,
    },
    /// `hidden = activation(gate x, up x)` of many rows, in quantised formats. The input is [`Array::Normed`], rounded. The workgroups of a dense layer
    /// or a shared expert have the first [`Array::GroupValues`] if they share groups.
    GateUpMul {
        /// The layer, from 0.
        layer: u32,
        /// `[experts, rows, columns]`.
        gate: TensorId,
        /// `[experts, rows, columns]`.
        up: TensorId,
        /// What is added to the products, where the model has biases.
        biases: Option<GateUpBiases>,
        /// Whether the matrices are those of the selected experts; otherwise it is a dense layer or a shared expert.
        experts: bool,
        /// [`Array::Hidden`], or [`Array::SharedHidden`] of a shared expert.
        y: Array,
    },
    /// What each selected expert of many rows gives: `down hidden + bias`, of the rounded hidden vectors.
    ExpertMul {
        /// The layer, from 0.
        layer: u32,
        /// `[experts, rows, columns]`, in a quantised format.
        down: TensorId,
        /// `[experts, rows]`.
        bias: Option<TensorId>,
    },
    /// `residual += sum of weight * product` over the selected experts' products, of many rows.
    Join {
        /// The layer, from 0.
        layer: u32,
        /// Whether [`Array::SharedOutput`], times the sigmoid of the router's last logit, is added to the sum.
        shared: bool,
    },
    /// Rounds vectors for products whose workgroups could not keep them, or would each round them again.
    Round {
        /// What is rounded.
        x: Array,
        /// Weights that normalise the only vector on the way, `[columns]`.
        norm: Option<TensorId>,
        /// The rounded form.
        y: Array,
        /// Vectors: one a slot of a feed-forward layer, otherwise one.
        vectors: u32,
        /// Elements of each.
        columns: u32,
        /// Whether their runs stand in order, for products of many rows.
        ordered: bool,
    },
    /// `residual += sum of weight * (down hidden + bias)` over the selected experts.
    ExpertDown {
        /// The layer, from 0.
        layer: u32,
        /// `[experts, rows, columns]`.
        down: TensorId,
        /// `[experts, rows]`.
        bias: Option<TensorId>,
        /// The vectors: [`Array::Hidden`], or [`Array::RoundedHidden`].
        h: Array,
        /// What the products compute with.
        act: ActFormat,
        /// Whether [`Array::SharedOutput`], times the sigmoid of the router's last logit, is added to the sum.
        shared: bool,
    },
    /// Makes the last rows of the prompts that end in the layers before it the only ones: the first of the table and of the residual stream. Their lanes move on to
    /// their last tokens.
    LastRows,
    /// Finds the length of the repetition that each token would continue, for the DRY sampler.
    Dry,
    /// Adjusts the logits by biases, penalties and what the host allows, and lists the highest ones of each share of the vocabulary.
    Adjust,
    /// Chooses one candidate by the rest of the sampler chain.
    Choose,
    /// Samples greedily or by temperature alone: the best candidate of each share of the vocabulary.
    Sample,
    /// Ends the step: stores the sampled tokens, moves the lanes on, and writes their reports.
    Advance {
        /// What the step is for.
        kind: PlanKind,
        /// What has left the candidates.
        sampler: Sampler,
    },
    /// Ends sequences of the step between two of its ranges if the host has cancelled them: what follows changes nothing for them.
    Cancel,
    /// Finds the likeliest tokens and the softmax mass of each share of the raw logits.
    LogprobShares,
    /// Writes the report of log-probabilities.
    Logprobs,
}

/// One matrix of an [`Op::MatVec`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Product {
    /// `[rows, columns]`.
    pub weights: TensorId,
    /// `[rows]` to be added to the product.
    pub bias: Option<TensorId>,
    /// The output vector.
    pub y: Array,
}

/// The biases of an [`Op::GateUp`] or [`Op::GateUpMul`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GateUpBiases {
    /// `[experts, rows]` to be added to the products of the gate.
    pub gate: TensorId,
    /// `[experts, rows]` to be added to the other products.
    pub up: TensorId,
}

/// Which matrices the feed-forward part of a layer uses, and what its input is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Routing {
    /// One pair of matrices. The input is the residual stream, normalised.
    Dense {
        /// The weights that normalise it, `[width]`; `None` if an [`Op::Round`] before has done so.
        norm: Option<TensorId>,
    },
    /// The pairs of the experts with the highest router logits. The input is what the router has normalised.
    Experts,
}

/// The operations of one step.
#[derive(Clone, Debug)]
pub struct StepPlan {
    /// The ops in network order.
    pub ops: Vec<Op>,
    /// What the step is for.
    pub kind: PlanKind,
    /// The rows that each op works on.
    pub shape: StepShape,
}

/// What the plan of a step is made for. [`PlanOptions::new`] makes options for a step of one row, whose fields can then be set.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct PlanOptions {
    /// What the step is for.
    pub kind: PlanKind,
    /// The form of activations where they are multiplied with matrices in quantised formats. With matrices in float formats, and with the router's,
    /// they are f32.
    pub act: ActFormat,
    /// The rows that the step has room for.
    pub shape: StepShape,
    /// How a step of [`PlanKind::Decode`] chooses its tokens.
    pub sampling: SamplingStage,
    /// Where drafts come from that the step verifies.
    pub drafts: Option<Drafts>,
    /// The fewest rows of a step whose products go by tiles of vectors: [`MANY_ROWS`], or what suits a device in steps that sample.
    pub tiled_rows: u32,
}

impl PlanOptions {
    /// A step of one row that samples, if it does, by [`Sampler::Plain`].
    #[must_use]
    pub const fn new(kind: PlanKind, act: ActFormat) -> Self {
        Self { kind, act, shape: StepShape::ONE, sampling: SamplingStage::PLAIN, drafts: None, tiled_rows: MANY_ROWS }
    }

    /// These options with room for other rows.
    #[must_use]
    pub const fn with_shape(mut self, shape: StepShape) -> Self {
        self.shape = shape;
        self
    }

    /// These options with another sampling stage.
    #[must_use]
    pub const fn with_sampling(mut self, sampling: SamplingStage) -> Self {
        self.sampling = sampling;
        self
    }

    /// These options with tiles from so many rows on.
    #[must_use]
    pub const fn with_tiled_rows(mut self, tiled_rows: u32) -> Self {
        self.tiled_rows = tiled_rows;
        self
    }

    /// These options with drafts.
    #[must_use]
    pub fn with_drafts(mut self, drafts: Drafts) -> Self {
        self.drafts = Some(drafts);
        self
    }
}

/// Where the drafts of a step come from, whose only lane has a row for its last token and one for each draft.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Drafts {
    /// The step looks them up.
    Lookup(Lookup),
    /// They were made before it, at most so many: fewer than the step has rows.
    Proposed(u32),
}

impl Drafts {
    /// The most tokens that are drafted for a step, however they are drafted.
    #[must_use]
    pub fn most(&self) -> u32 {
        match self {
            Self::Lookup(Lookup { drafts, .. }) | Self::Proposed(drafts) => *drafts,
        }
    }
}

/// A look-up of drafts: the tokens that followed an earlier place in the sequence whose last tokens are the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lookup {
    /// How many of the last tokens must be the same.
    pub ngrams: RangeInclusive<u32>,
    /// The most drafts, fewer than the step has rows.
    pub drafts: u32,
}

/// The arrays that [`Op::LogprobShares`] writes and [`Op::Logprobs`] reads.
const LOGPROB_ARRAYS: [Array; 3] = [Array::LogprobItems, Array::LogprobShares, Array::LogprobMasses];

/// What the end of an expert layer reads of a shared expert.
fn arrays_of_shared(shared: bool) -> impl Iterator<Item = Array> {
    [Array::SharedOutput, Array::RouterLogits].into_iter().filter(move |_| shared)
}

impl Op {
    /// The name of the op's kernel, for traces and tables.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::List => "list",
            Self::Lookup(_) => "lookup",
            Self::Propose { .. } => "propose",
            Self::Gather { .. } => "gather",
            Self::MatVec { .. } => "mat_vec",
            Self::Append { .. } => "append",
            Self::Attention { .. } => "attention",
            Self::AttentionRows { .. } => "attention_rows",
            Self::DeltaConv { .. } => "delta_conv",
            Self::DeltaNet { .. } => "delta_net",
            Self::HeadGate { .. } => "head_gate",
            Self::Router { .. } => "router",
            Self::RouterMul { .. } => "router_mul",
            Self::GateUp { .. } => "gate_up",
            Self::Round { .. } => "round",
            Self::ExpertDown { .. } => "expert_down",
            Self::MatMul { .. } | Self::ExpertMul { .. } => "mat_mul",
            Self::Route { .. } => "route",
            Self::GateUpMul { .. } => "gate_up_mul",
            Self::Join { .. } => "join",
            Self::LastRows => "last_rows",
            Self::LastAccepted => "last_accepted",
            Self::MtpNorms { .. } => "mtp_norms",
            Self::Dry => "dry",
            Self::Adjust => "adjust",
            Self::Choose => "choose",
            Self::Sample => "sample",
            Self::Advance { .. } => "advance",
            Self::Cancel => "cancel",
            Self::LogprobShares => "logprob_shares",
            Self::Logprobs => "logprobs",
        }
    }

    /// Arrays that the op reads. Every op reads [`Array::State`]; weights never change and are not listed.
    #[must_use]
    pub fn reads(&self) -> Vec<Array> {
        let mut arrays = match self {
            Self::List | Self::Lookup(_) | Self::Propose { .. } => vec![Array::Tokens],
            Self::Gather { behind: true, .. } => vec![Array::Tokens],
            Self::Gather { behind: false, .. } | Self::Cancel => vec![],
            Self::MtpNorms { .. } => vec![Array::MtpInput, Array::Residual],
            Self::LastAccepted => vec![Array::MtpResidual],
            Self::MatVec { products, x, accumulate, .. } | Self::MatMul { products, x, accumulate, .. } => {
                let outputs = products.iter().filter(|_| *accumulate).map(|product| product.y);
                std::iter::once(*x).chain(outputs).chain(self.group_values()).collect()
            }
            Self::Append { queries, .. } => {
                let arrays = [Array::Key, Array::Value];
                arrays.into_iter().chain(queries.then_some(Array::Query)).collect()
            }
            Self::AttentionRows { layer, .. } => {
                vec![Array::Query, Array::KeyCache(*layer), Array::ValueCache(*layer)]
            }
            Self::Attention { layer, .. } => {
                let caches = [Array::KeyCache(*layer), Array::ValueCache(*layer)];
                [Array::Query, Array::Key, Array::Value, Array::Counters].into_iter().chain(caches).collect()
            }
            Self::DeltaConv { layer, .. } => vec![Array::DeltaInput, Array::Recurrent(*layer)],
            Self::DeltaNet { layer, .. } => {
                vec![Array::DeltaConvolved, Array::DeltaBeta, Array::DeltaAlpha, Array::Recurrent(*layer)]
            }
            Self::HeadGate { x, .. } => vec![*x, Array::MixerGate],
            Self::Router { .. } | Self::RouterMul { .. } | Self::LastRows => vec![Array::Residual],
            Self::Route { .. } => vec![Array::RouterLogits, Array::Counters],
            Self::GateUpMul { experts: true, .. } => vec![Array::Normed, Array::Pairs, Array::Tiles, Array::Grids],
            Self::GateUpMul { experts: false, .. } => {
                std::iter::once(Array::Normed).chain(self.group_values()).collect()
            }
            Self::ExpertMul { .. } => vec![Array::RoundedHidden, Array::Pairs, Array::Tiles, Array::Grids],
            Self::Join { shared, .. } => {
                let arrays = [Array::ExpertProducts, Array::ExpertWeights, Array::Residual];
                arrays.into_iter().chain(arrays_of_shared(*shared)).collect()
            }
            Self::GateUp { routing: Routing::Dense { norm: Some(_) }, .. } => vec![Array::Residual],
            Self::GateUp { routing: Routing::Dense { norm: None }, .. } => vec![Array::Normed],
            Self::GateUp { routing: Routing::Experts, .. } => vec![Array::Normed, Array::RouterLogits],
            Self::Round { x, .. } => vec![*x],
            Self::ExpertDown { h, shared, .. } => {
                let arrays = [*h, Array::ExpertIds, Array::ExpertWeights, Array::Residual];
                arrays.into_iter().chain(arrays_of_shared(*shared)).collect()
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

    /// The array in which the workgroups of a product leave the values of groups, and count how many of them have done so.
    fn group_values(&self) -> Option<Array> {
        match self {
            Self::MatMul { group_values, .. } => group_values.map(Array::GroupValues),
            Self::GateUpMul { experts: false, .. } => Some(Array::GroupValues(0)),
            _ => None,
        }
    }

    /// Arrays that the op writes.
    #[must_use]
    pub fn writes(&self) -> Vec<Array> {
        match self {
            Self::Gather { y, .. } => vec![*y],
            Self::ExpertDown { .. } | Self::Join { .. } => vec![Array::Residual],
            Self::MtpNorms { .. } => vec![Array::MtpInput],
            Self::Route { .. } => {
                vec![Array::ExpertIds, Array::ExpertWeights, Array::Pairs, Array::Tiles, Array::Grids, Array::Counters]
            }
            Self::HeadGate { y, .. } => vec![*y],
            Self::GateUpMul { y, .. } => std::iter::once(*y).chain(self.group_values()).collect(),
            Self::DeltaConv { layer, .. } => vec![Array::DeltaConvolved, Array::Recurrent(*layer)],
            Self::DeltaNet { layer, .. } => vec![Array::DeltaRead, Array::Recurrent(*layer)],
            Self::ExpertMul { .. } => vec![Array::ExpertProducts],
            Self::MatVec { products, .. } | Self::MatMul { products, .. } => {
                products.iter().map(|product| product.y).chain(self.group_values()).collect()
            }
            Self::Append { layer, queries, .. } => {
                let caches = [Array::KeyCache(*layer), Array::ValueCache(*layer)];
                caches.into_iter().chain(queries.then_some(Array::Query)).collect()
            }
            Self::AttentionRows { .. } => vec![Array::Attended],
            Self::Attention { layer, .. } => {
                let caches = [Array::KeyCache(*layer), Array::ValueCache(*layer)];
                [Array::Attended, Array::Partials, Array::Counters].into_iter().chain(caches).collect()
            }
            Self::Router { .. } => vec![Array::Normed, Array::RouterLogits],
            Self::RouterMul { .. } => vec![Array::RouterLogits],
            Self::Round { y, .. } => vec![*y],
            Self::GateUp { routing: Routing::Dense { .. }, y, .. } => vec![*y],
            Self::GateUp { routing: Routing::Experts, y, .. } => vec![*y, Array::ExpertIds, Array::ExpertWeights],
            Self::LastRows | Self::LastAccepted => vec![Array::State, Array::Residual],
            Self::Dry => vec![Array::DryLengths],
            Self::Adjust => vec![Array::Items, Array::Shares, Array::Moments, Array::DryLengths],
            Self::Choose | Self::Sample => vec![Array::Candidates],
            Self::Lookup(_) => vec![Array::State, Array::Tokens],
            Self::Advance { .. } => vec![Array::State, Array::Tokens, Array::TokenCounts],
            Self::List | Self::Propose { .. } | Self::Cancel => vec![Array::State],
            Self::LogprobShares => LOGPROB_ARRAYS.to_vec(),
            Self::Logprobs => vec![],
        }
    }
}
