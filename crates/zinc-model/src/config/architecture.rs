//! The architectures that zinc can run, and what their layers have beyond what files say: the only place that tells one architecture from another.

use std::fmt;

use super::RopePairing;
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
}

/// What the models of an architecture have.
#[derive(Clone, Copy, Debug)]
pub(super) struct Traits {
    /// The name in `general.architecture`, which is also what the model's keys start with.
    name: &'static str,
    /// Which elements of a head are rotated together.
    pub(super) rope_pairing: RopePairing,
    /// Whether a file may have factors for each frequency of the position embedding.
    pub(super) rope_factors: bool,
    /// Whether each head of queries and keys is normed.
    pub(super) qk_norm: bool,
    /// Whether queries, keys and values have a bias.
    pub(super) qkv_bias: Bias,
    /// Whether layers have experts; otherwise they are dense.
    pub(super) experts: bool,
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
    const ALL: [Self; 4] = [Self::Qwen3Moe, Self::Qwen3, Self::Qwen2, Self::Llama];

    /// The architecture of a name in `general.architecture`.
    ///
    /// # Errors
    /// [`Error::Architecture`] with the names that are known.
    pub fn from_name(name: &str) -> Result<Self> {
        let found = Self::ALL.into_iter().find(|known| known.name() == name);
        found.ok_or_else(|| Error::Architecture {
            found: name.to_owned(),
            supported: Self::ALL.map(Self::name).to_vec(),
        })
    }

    /// The name in `general.architecture`, which is also what the model's keys start with.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.traits().name
    }

    /// The names of the architectures whose layers have experts.
    pub(super) fn names_with_experts() -> Vec<&'static str> {
        Self::ALL.into_iter().filter(|known| known.traits().experts).map(Self::name).collect()
    }

    /// The table of what each architecture has.
    pub(super) const fn traits(self) -> Traits {
        const QWEN3: Traits = Traits {
            name: "qwen3",
            rope_pairing: RopePairing::Halves,
            rope_factors: false,
            qk_norm: true,
            qkv_bias: Bias::Never,
            experts: false,
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
                experts: false,
            },
        }
    }
}

impl fmt::Display for Architecture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
