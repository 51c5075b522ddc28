//! The configuration of a model: its architecture and sizes, read from metadata and checked, and the tensors that follow from them.
//!
//! A [`ModelConfig`] is always sound: heads divide evenly, counts are within limits, and what zinc cannot compute has been refused with the
//! key and the numbers. The operations of the forward pass are in [`plan`](crate::plan).

mod keys;
pub(crate) mod names;
mod rope;
mod tensors;

use std::fmt;

use crate::error::{Error, Result};
use crate::gguf;
use keys::Keys;

pub use rope::{Rope, RopeOverrides, RopePairing, RopeScaling, RopeScalingKind, Yarn};
pub use tensors::{ExpectedTensor, Presence, Storage, check_tensors, expected_tensors};

/// A family of models that zinc can run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Architecture {
    /// Qwen3 with experts.
    Qwen3Moe,
    /// Qwen3, dense.
    Qwen3,
    /// Qwen2 and Qwen2.5, dense.
    Qwen2,
    /// Llama and models of the same shape, dense.
    Llama,
}

impl Architecture {
    const NAMES: &[&str] = &["qwen3moe", "qwen3", "qwen2", "llama"];

    /// The architecture of a name in `general.architecture`.
    pub fn from_name(name: &str) -> Result<Self> {
        match name {
            "qwen3moe" => Ok(Self::Qwen3Moe),
            "qwen3" => Ok(Self::Qwen3),
            "qwen2" => Ok(Self::Qwen2),
            "llama" => Ok(Self::Llama),
            _ => Err(Error::Architecture { found: name.to_owned(), supported: Self::NAMES }),
        }
    }

    /// The name in `general.architecture`, which is also what the model's keys start with.
    pub fn name(self) -> &'static str {
        match self {
            Self::Qwen3Moe => "qwen3moe",
            Self::Qwen3 => "qwen3",
            Self::Qwen2 => "qwen2",
            Self::Llama => "llama",
        }
    }

    fn rope_pairing(self) -> RopePairing {
        match self {
            Self::Qwen3Moe | Self::Qwen3 | Self::Qwen2 => RopePairing::Halves,
            Self::Llama => RopePairing::Neighbours,
        }
    }

    fn has_qk_norm(self) -> bool {
        matches!(self, Self::Qwen3Moe | Self::Qwen3)
    }
}

impl fmt::Display for Architecture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// What follows attention in a layer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum FeedForward {
    /// One gated network.
    Dense {
        /// Width of the network.
        n_ff: u32,
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
    },
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

/// The sizes of a model, and the options that its family leaves open.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelConfig {
    /// The family.
    pub architecture: Architecture,
    /// Number of layers.
    pub n_layer: u32,
    /// Width of the residual stream.
    pub n_embd: u32,
    /// Number of query heads.
    pub n_head: u32,
    /// Number of key and value heads; divides `n_head`.
    pub n_head_kv: u32,
    /// Elements of a head, the same for queries, keys and values.
    pub head_dim: u32,
    /// The feed-forward part of each layer.
    pub feed_forward: FeedForward,
    /// Added to the mean square in every norm.
    pub rms_eps: f32,
    /// Position embedding.
    pub rope: Rope,
    /// Number of positions that the model was trained on.
    pub n_ctx_train: u32,
    /// Size of the vocabulary, which is the number of rows of the embedding.
    pub n_vocab: u32,
    /// Whether each head of queries and keys is normed.
    pub qk_norm: bool,
    /// Whether queries, keys and values have a bias.
    pub qkv_bias: bool,
    /// Whether the embedding also serves as the output matrix.
    pub tied_embeddings: bool,
}

// Limits far above those of any model. A larger number means that the file is damaged; products of numbers up to these fit 64 bits.
const MAX_LAYERS: u32 = 1024;
const MAX_WIDTH: u32 = 1 << 20;
const MAX_HEADS: u32 = 4096;
const MAX_HEAD_DIM: u32 = 1024;
const MAX_EXPERTS: u32 = 1024;
const MAX_VOCABULARY: u32 = 1 << 24;
const MAX_CONTEXT: u32 = 1 << 30;

impl ModelConfig {
    /// Reads the config of a file and checks it; the tensors are checked by [`check_tensors`].
    ///
    /// Keys that may be missing, and what holds then: `attention.head_count_kv` (as many as query heads),
    /// `attention.key_length` and `value_length` (`embedding_length` / `attention.head_count`), `rope.freq_base`
    /// (10,000), `rope.dimension_count` (the whole head), `rope.scaling.*` (none, and for YaRN the original context is `context_length` and the
    /// other numbers are those of its paper), `expert_weights_scale` (1), `vocab_size`
    /// (the length of the tokenizer's list, or else the rows of the embedding).
    ///
    /// # Errors
    /// A missing key, a value that is out of range, or a feature that is not supported. Each error names the key.
    pub fn from_gguf(file: &gguf::File) -> Result<Self> {
        Self::with_overrides(file, &RopeOverrides::default())
    }

    /// As [`Self::from_gguf`], with a position embedding of which `overrides` replaces parts.
    ///
    /// # Errors
    /// Those of [`Self::from_gguf`], and [`Error::RopeNumber`], [`Error::RopeNumberUnused`] or [`Error::RopeFactorMissing`] for overrides that are out
    /// of range or do not go with the file.
    pub fn with_overrides(file: &gguf::File, overrides: &RopeOverrides) -> Result<Self> {
        let name = file.metadata().require_str("general.architecture")?;
        let architecture = Architecture::from_name(name)?;
        let keys = Keys { metadata: file.metadata(), architecture: architecture.name() };

        let n_layer = keys.require_count("block_count", MAX_LAYERS)?;
        let n_embd = keys.require_count("embedding_length", MAX_WIDTH)?;
        let n_head = keys.require_count("attention.head_count", MAX_HEADS)?;
        let n_head_kv = keys.count("attention.head_count_kv", MAX_HEADS)?.unwrap_or(n_head);
        if !n_head.is_multiple_of(n_head_kv) {
            let expected = format!("a divisor of the {n_head} heads in {}", keys.full("attention.head_count"));
            return Err(keys.bad("attention.head_count_kv", n_head_kv, expected));
        }
        let head_dim = head_dim(&keys, n_embd, n_head)?;

        let rms_eps = keys.require_f32("attention.layer_norm_rms_epsilon")?;
        if !(0.0..1.0).contains(&rms_eps) {
            return Err(keys.bad("attention.layer_norm_rms_epsilon", rms_eps, "from 0 to less than 1"));
        }
        let n_ctx_train = keys.require_count("context_length", MAX_CONTEXT)?;
        let qkv_bias = match architecture {
            Architecture::Qwen2 => true,
            // Some models of this shape have biases.
            Architecture::Llama => file.tensor(&names::in_layer(0, names::Q_BIAS)).is_some(),
            Architecture::Qwen3 | Architecture::Qwen3Moe => false,
        };
        Ok(Self {
            architecture,
            n_layer,
            n_embd,
            n_head,
            n_head_kv,
            head_dim,
            feed_forward: feed_forward(&keys, architecture)?,
            rms_eps,
            rope: rope::rope(&keys, architecture, (head_dim, n_ctx_train), overrides)?,
            n_ctx_train,
            n_vocab: n_vocab(&keys, file)?,
            qk_norm: architecture.has_qk_norm(),
            qkv_bias,
            tied_embeddings: file.tensor(names::OUTPUT).is_none(),
        })
    }

    /// Elements of all query heads together.
    pub fn q_width(&self) -> u32 {
        self.n_head * self.head_dim
    }

    /// Elements of all key heads together, and of all value heads.
    pub fn kv_width(&self) -> u32 {
        self.n_head_kv * self.head_dim
    }
}

fn head_dim(keys: &Keys<'_>, n_embd: u32, n_head: u32) -> Result<u32> {
    let key_length = match keys.count("attention.key_length", MAX_HEAD_DIM)? {
        Some(length) => length,
        None if n_embd.is_multiple_of(n_head) && n_embd / n_head <= MAX_HEAD_DIM => n_embd / n_head,
        None => {
            let expected = format!(
                "a divisor of the width {n_embd} that leaves heads of at most {MAX_HEAD_DIM}, for {} is missing",
                keys.full("attention.key_length")
            );
            return Err(keys.bad("attention.head_count", n_head, expected));
        }
    };
    let value_length = keys.count("attention.value_length", MAX_HEAD_DIM)?.unwrap_or(key_length);
    if value_length != key_length {
        let expected = format!("{key_length} as the length of keys: other heads are not supported");
        return Err(keys.bad("attention.value_length", value_length, expected));
    }
    Ok(key_length)
}

fn feed_forward(keys: &Keys<'_>, architecture: Architecture) -> Result<FeedForward> {
    // Files of dense models may have the key with the value 0.
    let n_expert = keys.get_u32("expert_count")?.unwrap_or(0);
    if architecture != Architecture::Qwen3Moe {
        if n_expert != 0 {
            return Err(keys.bad("expert_count", n_expert, "0: experts are supported in qwen3moe only"));
        }
        return Ok(FeedForward::Dense { n_ff: keys.require_count("feed_forward_length", MAX_WIDTH)? });
    }
    let n_expert = keys.require_count("expert_count", MAX_EXPERTS)?;
    let n_expert_used = keys.require_count("expert_used_count", MAX_EXPERTS)?;
    if n_expert_used > n_expert {
        let expected = format!("at most the {n_expert} experts in {}", keys.full("expert_count"));
        return Err(keys.bad("expert_used_count", n_expert_used, expected));
    }
    // Models of this family normalise the weights, unless the file says otherwise.
    let sum = match keys.get_bool("expert_weights_norm")? {
        Some(false) => ExpertWeightSum::Part,
        Some(true) | None => ExpertWeightSum::One,
    };
    let scale = match keys.get_f32("expert_weights_scale")? {
        // Files of other programs use 0 for no scale.
        None | Some(0.0) => 1.0,
        Some(scale) if scale.is_finite() => scale,
        Some(scale) => return Err(keys.bad("expert_weights_scale", scale, "finite")),
    };
    Ok(FeedForward::Experts {
        n_expert,
        n_expert_used,
        n_ff: keys.require_count("expert_feed_forward_length", MAX_WIDTH)?,
        weights: ExpertWeights { sum, scale },
    })
}

fn n_vocab(keys: &Keys<'_>, file: &gguf::File) -> Result<u32> {
    if let Some(n_vocab) = keys.count("vocab_size", MAX_VOCABULARY)? {
        return Ok(n_vocab);
    }
    let listed = file.metadata().get_strings("tokenizer.ggml.tokens")?.map(|tokens| tokens.len() as u64);
    let rows = || file.tensor(names::TOKEN_EMBEDDING).and_then(|tensor| tensor.shape.get(1).copied());
    let n_vocab = listed.or_else(rows).ok_or_else(|| Error::MissingKey { key: keys.full("vocab_size") })?;
    match u32::try_from(n_vocab) {
        Ok(n_vocab) if (1..=MAX_VOCABULARY).contains(&n_vocab) => Ok(n_vocab),
        _ => Err(keys.bad("vocab_size", n_vocab, format!("1 to {MAX_VOCABULARY}"))),
    }
}
