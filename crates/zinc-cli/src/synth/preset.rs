//! The shapes of the models that can be imitated, and the metadata that say so in a file.

use clap::ValueEnum;
use zinc_model::ModelConfig;
use zinc_model::config::{
    Architecture, AttentionLayer, ExpertWeightSum, ExpertWeights, FeedForward, Layer, Mixer, Rope, RopePairing,
    RopeScaling,
};
use zinc_model::gguf::Writer;

/// A model whose shapes are imitated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Preset {
    /// Qwen3-30B-A3B: 48 layers, 128 experts of which a token uses 8
    #[value(name = "qwen3-30b-a3b")]
    Qwen3Moe30bA3b,
    /// Qwen3-8B: 36 layers, dense
    #[value(name = "qwen3-8b")]
    Qwen3Dense8b,
    /// Qwen3-0.6B: 28 layers, dense, the embedding is the head too
    #[value(name = "qwen3-0.6b")]
    Qwen3Dense600m,
    /// Two small layers with experts, to try things
    #[value(name = "tiny-moe", hide = true)]
    TinyMoe,
}

/// The sizes in which the presets differ.
struct Sizes {
    layers: u32,
    width: u32,
    heads: u32,
    kv_heads: u32,
    head: u32,
    feed_forward: FeedForward,
    vocabulary: u32,
    tied: bool,
}

impl Preset {
    /// The name on the command line and in the file.
    pub(crate) fn name(self) -> String {
        self.to_possible_value().expect("every preset has a name").get_name().to_owned()
    }

    /// The config, with `layers` layers if that is given.
    pub(crate) fn config(self, layers: Option<u32>) -> ModelConfig {
        let sizes = self.sizes();
        let attention = AttentionLayer {
            n_head: sizes.heads,
            n_head_kv: sizes.kv_heads,
            head_dim: sizes.head,
            qk_norm: true,
            qkv_bias: false,
        };
        let layer = Layer { mixer: Mixer::Attention(attention), feed_forward: sizes.feed_forward };
        ModelConfig {
            architecture: match sizes.feed_forward {
                FeedForward::Experts { .. } => Architecture::Qwen3Moe,
                FeedForward::Dense { .. } => Architecture::Qwen3,
            },
            n_embd: sizes.width,
            layers: vec![layer; layers.unwrap_or(sizes.layers) as usize],
            rms_eps: 1e-6,
            rope: Rope { base: 1e6, dims: sizes.head, pairing: RopePairing::Halves, scaling: RopeScaling::None },
            n_ctx_train: 40_960,
            n_vocab: sizes.vocabulary,
            tied_embeddings: sizes.tied,
        }
    }

    fn sizes(self) -> Sizes {
        let experts = |n_expert, n_expert_used, n_ff| FeedForward::Experts {
            n_expert,
            n_expert_used,
            n_ff,
            weights: ExpertWeights { sum: ExpertWeightSum::One, scale: 1.0 },
        };
        match self {
            Self::Qwen3Moe30bA3b => Sizes {
                layers: 48,
                width: 2048,
                heads: 32,
                kv_heads: 4,
                head: 128,
                feed_forward: experts(128, 8, 768),
                vocabulary: 151_936,
                tied: false,
            },
            Self::Qwen3Dense8b => Sizes {
                layers: 36,
                width: 4096,
                heads: 32,
                kv_heads: 8,
                head: 128,
                feed_forward: FeedForward::Dense { n_ff: 12_288 },
                vocabulary: 151_936,
                tied: false,
            },
            Self::Qwen3Dense600m => Sizes {
                layers: 28,
                width: 1024,
                heads: 16,
                kv_heads: 8,
                head: 128,
                feed_forward: FeedForward::Dense { n_ff: 3072 },
                vocabulary: 151_936,
                tied: true,
            },
            Self::TinyMoe => Sizes {
                layers: 2,
                width: 256,
                heads: 4,
                kv_heads: 2,
                head: 64,
                feed_forward: experts(8, 2, 256),
                vocabulary: 2048,
                tied: false,
            },
        }
    }
}

/// Sets the keys under the architecture's name.
pub(super) fn set_metadata(config: &ModelConfig, writer: &mut Writer) {
    let mut set = |key: &str, value: u32| {
        writer.set(&format!("{}.{key}", config.architecture), value);
    };
    // The layers of a preset have the same shapes.
    let (attention, feed_forward) = (config.attention(0), config.feed_forward(0));
    set("block_count", config.n_layer());
    set("context_length", config.n_ctx_train);
    set("embedding_length", config.n_embd);
    set("attention.head_count", attention.n_head);
    set("attention.head_count_kv", attention.n_head_kv);
    set("attention.key_length", attention.head_dim);
    set("attention.value_length", attention.head_dim);
    match *feed_forward {
        FeedForward::Dense { n_ff } => set("feed_forward_length", n_ff),
        FeedForward::Experts { n_expert, n_expert_used, n_ff, .. } => {
            // No layer is dense, but other programs require the key.
            set("feed_forward_length", n_expert_used * n_ff);
            set("expert_count", n_expert);
            set("expert_used_count", n_expert_used);
            set("expert_feed_forward_length", n_ff);
        }
    }
    let key = |name: &str| format!("{}.{name}", config.architecture);
    writer.set(&key("attention.layer_norm_rms_epsilon"), config.rms_eps);
    writer.set(&key("rope.freq_base"), config.rope.base);
}
