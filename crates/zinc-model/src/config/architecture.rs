//! The architectures that zinc can run, and what their layers have beyond what files say: the only place that tells one architecture from another.

use std::fmt;

use zinc_kernels::ops::{Activation, HeadOrder};

use super::{RopePairing, names};
use crate::error::{Error, Result};

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
    /// gpt-oss, with experts.
    GptOss,
    /// Qwen3.5 and its successors of the same shape (3.6, 3.8), dense.
    Qwen35,
    /// Qwen3.5 and its successors of the same shape, with experts.
    Qwen35Moe,
    /// Qwen3-Next, with experts.
    Qwen3Next,
}

/// What the models of an architecture have.
#[derive(Clone, Copy, Debug)]
pub(super) struct Traits {
    /// The name in `general.architecture`, which is also what the model's keys start with.
    name: &'static str,
    /// Another name, which older files have in its place.
    older_name: Option<&'static str>,
    /// Which elements of a head are rotated together.
    pub(super) rope_pairing: RopePairing,
    /// Whether a file may have factors for each frequency of the position embedding.
    pub(super) rope_factors: bool,
    /// Whether each head of queries and keys is normed.
    pub(super) qk_norm: bool,
    /// Whether queries, keys and values have a bias.
    pub(super) qkv_bias: Bias,
    /// Whether the product behind attention has a bias.
    pub(super) output_bias: bool,
    /// Whether each query head has a sink.
    pub(super) sinks: bool,
    /// The layers with a window.
    pub(super) windows: Windows,
    /// Whether YaRN blends between whole pairs ([`Yarn::whole_pairs`](super::Yarn::whole_pairs)).
    pub(super) yarn_whole_pairs: bool,
    /// The name that the norm of the feed-forward part has in a layer.
    feed_forward_norm: &'static str,
    /// Whether layers have experts; otherwise they are dense.
    pub(super) experts: bool,
    /// Whether the router and the experts have biases.
    pub(super) expert_bias: bool,
    /// What joins the gate with what it opens for.
    pub(super) activation: Activation,
    /// Whether the result of attention has a gate.
    pub(super) attention_gate: bool,
    /// Whether most layers are delta nets, and which value heads their key heads serve.
    pub(super) delta_net: Option<HeadOrder>,
    /// Whether every token uses one more expert.
    pub(super) shared_expert: bool,
    /// Whether a file may have blocks behind the layers that draft tokens.
    pub(super) mtp: bool,
}

/// Which layers attend to a window of positions only, whose length is the key `attention.sliding_window`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Windows {
    /// None; a file's key says nothing then.
    None,
    /// Every second layer, the first one included.
    EverySecond,
}

impl Windows {
    /// Whether layer number `layer`, from 0, has a window.
    pub(super) const fn has(self, layer: u32) -> bool {
        match self {
            Self::None => false,
            Self::EverySecond => layer.is_multiple_of(2),
        }
    }
}

/// Whether there is a bias.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bias {
    /// In no model.
    Never,
    /// In every model.
    Always,
    /// In those whose file has one in the first layer.
    IfInFile,
}

impl Architecture {
    const ALL: [Self; 8] = [
        Self::Qwen3Moe,
        Self::Qwen3,
        Self::Qwen2,
        Self::Llama,
        Self::GptOss,
        Self::Qwen35,
        Self::Qwen35Moe,
        Self::Qwen3Next,
    ];

    /// The architecture of a name in `general.architecture`.
    ///
    /// # Errors
    /// [`Error::Architecture`] with the names that are known.
    pub fn from_name(name: &str) -> Result<Self> {
        let found = Self::ALL.into_iter().find(|known| known.name() == name || known.traits().older_name == Some(name));
        found.ok_or_else(|| Error::Architecture {
            found: name.to_owned(),
            supported: Self::ALL.map(Self::name).to_vec(),
        })
    }

    /// The name in `general.architecture`, which is also what the model's keys start with. Older files may have another one in both places.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.traits().name
    }

    /// The name that the norm of the feed-forward part has in a layer.
    pub(crate) const fn feed_forward_norm(self) -> &'static str {
        self.traits().feed_forward_norm
    }

    /// The names of the architectures whose layers have experts.
    pub(super) fn names_with_experts() -> Vec<&'static str> {
        Self::ALL.into_iter().filter(|known| known.traits().experts).map(Self::name).collect()
    }

    /// The table of what each architecture has.
    pub(super) const fn traits(self) -> Traits {
        const QWEN3: Traits = Traits {
            name: "qwen3",
            older_name: None,
            rope_pairing: RopePairing::Halves,
            rope_factors: false,
            qk_norm: true,
            qkv_bias: Bias::Never,
            output_bias: false,
            sinks: false,
            windows: Windows::None,
            yarn_whole_pairs: true,
            feed_forward_norm: names::FEED_FORWARD_NORM,
            experts: false,
            expert_bias: false,
            activation: Activation::SwiGlu,
            attention_gate: false,
            delta_net: None,
            shared_expert: false,
            mtp: false,
        };
        const QWEN35: Traits = Traits {
            name: "qwen35",
            feed_forward_norm: names::POST_ATTENTION_NORM,
            attention_gate: true,
            delta_net: Some(HeadOrder::Tiled),
            mtp: true,
            ..QWEN3
        };
        match self {
            Self::Qwen3Moe => Traits { name: "qwen3moe", experts: true, ..QWEN3 },
            Self::Qwen3 => QWEN3,
            Self::Qwen2 => Traits { name: "qwen2", qk_norm: false, qkv_bias: Bias::Always, ..QWEN3 },
            Self::Llama => Traits {
                name: "llama",
                rope_pairing: RopePairing::Neighbours,
                rope_factors: true,
                qk_norm: false,
                // Some models of this shape have biases.
                qkv_bias: Bias::IfInFile,
                ..QWEN3
            },
            Self::GptOss => Traits {
                name: "gpt-oss",
                older_name: Some("gptoss"),
                qk_norm: false,
                qkv_bias: Bias::Always,
                output_bias: true,
                sinks: true,
                windows: Windows::EverySecond,
                yarn_whole_pairs: false,
                feed_forward_norm: names::POST_ATTENTION_NORM,
                experts: true,
                expert_bias: true,
                activation: Activation::ClampedSwiGlu,
                ..QWEN3
            },
            Self::Qwen35 => QWEN35,
            Self::Qwen35Moe => Traits { name: "qwen35moe", experts: true, shared_expert: true, ..QWEN35 },
            Self::Qwen3Next => Traits {
                name: "qwen3next",
                experts: true,
                shared_expert: true,
                delta_net: Some(HeadOrder::Grouped),
                ..QWEN35
            },
        }
    }
}

impl fmt::Display for Architecture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
