//! What a layer consists of. Each layer of a model describes itself, so that layers of one model may differ.

use zinc_kernels::ops::{Activation, DeltaHeads, HeadOrder};

/// A layer: a part that mixes positions and a part that works on each position by itself. Each takes the normalised residual stream and adds to it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Layer {
    /// The part that mixes positions.
    pub mixer: Mixer,
    /// The part that works on each position by itself.
    pub feed_forward: FeedForward,
}

/// What a layer mixes positions by.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Mixer {
    /// Attention over the keys and values of earlier positions, which are in a cache of the layer.
    Attention(AttentionLayer),
    /// A gated delta net: memories of a fixed size, which each position changes and reads.
    DeltaNet(DeltaNetLayer),
}

/// The attention of a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttentionLayer {
    /// Number of query heads.
    pub n_head: u32,
    /// Number of key and value heads; divides `n_head`.
    pub n_head_kv: u32,
    /// Elements of a head, the same for queries, keys and values.
    pub head_dim: u32,
    /// How many positions each position attends to, its own and those before it; `None`: all.
    pub window: Option<u32>,
    /// Whether each head of queries and keys is normed.
    pub qk_norm: bool,
    /// Whether queries, keys and values have a bias.
    pub qkv_bias: bool,
    /// Whether the product behind attention has a bias.
    pub output_bias: bool,
    /// Whether each query head has a sink: a score that joins its softmax and has no value.
    pub sinks: bool,
    /// Whether each element of the result is multiplied with the sigmoid of an element of a gate, which comes out of the layer's input.
    pub gate: bool,
}

impl AttentionLayer {
    /// Elements of all query heads together.
    #[must_use]
    pub const fn q_width(&self) -> u32 {
        self.n_head * self.head_dim
    }

    /// Elements of all key heads together, and of all value heads.
    #[must_use]
    pub const fn kv_width(&self) -> u32 {
        self.n_head_kv * self.head_dim
    }
}

/// The gated delta net of a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeltaNetLayer {
    /// Number of heads of queries, and of keys.
    pub n_key_head: u32,
    /// Number of heads of values, each with a memory of its own; a multiple of `n_key_head`.
    pub n_value_head: u32,
    /// Elements of a head, the same for queries, keys and values.
    pub head_dim: u32,
    /// Which value heads a key head serves.
    pub order: HeadOrder,
}

impl DeltaNetLayer {
    /// Its shape, as kernels take it.
    #[must_use]
    pub const fn heads(&self) -> DeltaHeads {
        let &Self { n_key_head, n_value_head, head_dim, order } = self;
        DeltaHeads { key_heads: n_key_head, value_heads: n_value_head, head_size: head_dim, order }
    }
}

/// What follows the mixer in a layer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum FeedForward {
    /// One gated network.
    Dense {
        /// Width of the network.
        n_ff: u32,
        /// What joins the gate with what it opens for.
        activation: Activation,
    },
    /// Several gated networks, of which a router chooses a few for each token.
    Experts {
        /// Number of experts.
        n_expert: u32,
        /// Number of experts for a token.
        n_expert_used: u32,
        /// Width of an expert.
        n_ff: u32,
        /// What the router's softmax probabilities of the chosen experts become.
        weights: ExpertWeights,
        /// What joins the gate of an expert with what it opens for.
        activation: Activation,
        /// Whether the router and the experts' matrices have biases.
        bias: bool,
        /// The expert that every token uses beside the chosen ones, where there is one.
        shared: Option<SharedExpert>,
    },
}

/// An expert that every token uses. What it gives is multiplied with the sigmoid of a logit of the token's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharedExpert {
    /// Its width.
    pub n_ff: u32,
}

impl FeedForward {
    /// The number of experts, and how many of them a token uses; both are 0 in a dense layer.
    #[must_use]
    pub const fn experts(&self) -> (u32, u32) {
        match *self {
            Self::Dense { .. } => (0, 0),
            Self::Experts { n_expert, n_expert_used, .. } => (n_expert, n_expert_used),
        }
    }

    /// The shape of the activations inside: slots, one for each network that a token uses, and the width of each.
    #[must_use]
    pub const fn hidden(&self) -> (u32, u32) {
        match *self {
            Self::Dense { n_ff, .. } => (1, n_ff),
            Self::Experts { n_expert_used, n_ff, .. } => (n_expert_used, n_ff),
        }
    }

    /// The expert that every token uses, where there is one.
    #[must_use]
    pub const fn shared(&self) -> Option<SharedExpert> {
        match *self {
            Self::Dense { .. } => None,
            Self::Experts { shared, .. } => shared,
        }
    }

    /// What joins gates with what they open for.
    #[must_use]
    pub const fn activation(&self) -> Activation {
        let (Self::Dense { activation, .. } | Self::Experts { activation, .. }) = self;
        *activation
    }
}

/// How the chosen experts are weighted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ExpertWeights {
    /// Whether the probabilities are kept or made to sum to 1.
    pub sum: ExpertWeightSum,
    /// A factor on all of them.
    pub scale: f32,
}

/// What the weights of the chosen experts sum to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExpertWeightSum {
    /// Their share of the softmax over all experts, so less than 1.
    Part,
    /// 1: the softmax probabilities are scaled to it.
    One,
}
