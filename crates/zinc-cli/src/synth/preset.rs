//! The shapes of the models that can be imitated, and the metadata that say so in a file.

use clap::ValueEnum;
use zinc_model::ModelConfig;
use zinc_model::gguf::{Value, Writer};

use super::Mix;

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
    /// gpt-oss-20b: 24 layers, every second one with a window, 32 experts of which a token uses 4
    #[value(name = "gpt-oss-20b")]
    GptOss20b,
    /// Qwen3.6-35B-A3B: 40 layers, three of four of them delta nets, 256 experts of which a token uses 8, and one that every token uses
    #[value(name = "qwen3.6-35b-a3b")]
    Qwen36Moe35bA3b,
    /// Qwen3.8-27B: 64 layers, three of four of them delta nets, dense, and a block that drafts tokens
    #[value(name = "qwen3.8-27b")]
    Qwen38Dense27b,
    /// Two small layers with experts, to try things
    #[value(name = "tiny-moe", hide = true)]
    TinyMoe,
    /// Two small layers as those of gpt-oss
    #[value(name = "tiny-gpt-oss", hide = true)]
    TinyGptOss,
    /// Four small layers as those of Qwen3.6-35B-A3B
    #[value(name = "tiny-qwen35-moe", hide = true)]
    TinyQwen35Moe,
    /// Four small layers as those of Qwen3.8-27B, and a block that drafts tokens
    #[value(name = "tiny-qwen35", hide = true)]
    TinyQwen35,
}

/// What the presets differ in.
struct Sizes {
    /// The name in `general.architecture`.
    architecture: &'static str,
    layers: u32,
    width: u32,
    heads: u32,
    kv_heads: u32,
    head: u32,
    network: Network,
    vocabulary: u32,
    tied: bool,
    context: u32,
    rms_epsilon: f32,
    rope_base: f32,
    /// The window of the layers that have one.
    window: Option<u32>,
    /// The factor of YaRN and its original context.
    yarn: Option<(f32, u32)>,
    /// The delta nets that all layers but every fourth one are, if there are any.
    delta_nets: Option<DeltaNets>,
    /// How many blocks behind the layers draft tokens.
    mtp_blocks: u32,
    /// How text is cut before tokens are merged, as files name it.
    pre_tokenizer: &'static str,
    /// The mix of formats that files of the model usually have.
    mix: Mix,
}

/// The feed-forward parts.
#[derive(Clone, Copy)]
enum Network {
    Dense {
        width: u32,
    },
    Experts {
        count: u32,
        used: u32,
        width: u32,
        /// Whether every token uses one more expert of that width.
        shared: bool,
    },
}

/// The heads of delta nets.
#[derive(Clone, Copy)]
struct DeltaNets {
    key_heads: u32,
    value_heads: u32,
    head: u32,
}

impl Preset {
    /// The name on the command line and in the file.
    pub(crate) fn name(self) -> String {
        self.to_possible_value().expect("every preset has a name").get_name().to_owned()
    }

    /// The mix of formats that files of the model usually have.
    pub(crate) fn usual_mix(self) -> Mix {
        self.sizes().mix
    }

    /// The config, with `layers` layers if that is given: that of a file with the preset's metadata.
    pub(crate) fn config(self, layers: Option<u32>) -> ModelConfig {
        let mut writer = Writer::new();
        self.set_metadata(layers, &mut writer);
        let config = ModelConfig::from_metadata(writer.metadata()).expect("the metadata of a preset are sound");
        ModelConfig { tied_embeddings: self.sizes().tied, ..config }
    }

    /// Sets the architecture and the keys under its name.
    pub(super) fn set_metadata(self, layers: Option<u32>, writer: &mut Writer) {
        let sizes = self.sizes();
        let layers = layers.unwrap_or(sizes.layers);
        writer.set("general.architecture", sizes.architecture);
        let mut set = |key: &str, value: Value| {
            writer.set(&format!("{}.{key}", sizes.architecture), value);
        };
        set("block_count", (layers + sizes.mtp_blocks).into());
        set("context_length", sizes.context.into());
        set("embedding_length", sizes.width.into());
        set("vocab_size", sizes.vocabulary.into());
        set("attention.head_count", sizes.heads.into());
        set("attention.head_count_kv", sizes.kv_heads.into());
        set("attention.key_length", sizes.head.into());
        set("attention.value_length", sizes.head.into());
        set("attention.layer_norm_rms_epsilon", sizes.rms_epsilon.into());
        if let Some(window) = sizes.window {
            set("attention.sliding_window", window.into());
        }
        match sizes.network {
            Network::Dense { width } => set("feed_forward_length", width.into()),
            Network::Experts { count, used, width, shared } => {
                // No layer is dense, but other programs require the key.
                set("feed_forward_length", (used * width).into());
                set("expert_count", count.into());
                set("expert_used_count", used.into());
                set("expert_feed_forward_length", width.into());
                if shared {
                    set("expert_shared_feed_forward_length", width.into());
                }
            }
        }
        set("rope.freq_base", sizes.rope_base.into());
        if let Some((factor, original_context)) = sizes.yarn {
            set("rope.scaling.type", "yarn".into());
            set("rope.scaling.factor", factor.into());
            set("rope.scaling.original_context_length", original_context.into());
        }
        if let Some(DeltaNets { key_heads, value_heads, head }) = sizes.delta_nets {
            set("ssm.conv_kernel", 4u32.into());
            set("ssm.group_count", key_heads.into());
            set("ssm.time_step_rank", value_heads.into());
            set("ssm.state_size", head.into());
            set("ssm.inner_size", (value_heads * head).into());
            set("full_attention_interval", 4u32.into());
            // A quarter of each head of attention is rotated. Its pairs belong to three coordinates of a position, which are equal in text.
            let pairs = sizes.head / 8;
            let sections = [(pairs + 1) / 3, (pairs + 1) / 3, pairs - 2 * ((pairs + 1) / 3), 0];
            set("rope.dimension_count", (2 * pairs).into());
            set("rope.dimension_sections", sections.map(u32::cast_signed).to_vec().into());
        }
        if sizes.mtp_blocks > 0 {
            set("nextn_predict_layers", sizes.mtp_blocks.into());
        }
    }

    /// How text is cut before tokens are merged, as files name it.
    pub(super) fn pre_tokenizer(self) -> &'static str {
        self.sizes().pre_tokenizer
    }

    fn sizes(self) -> Sizes {
        const QWEN3: Sizes = Sizes {
            architecture: "qwen3",
            layers: 28,
            width: 1024,
            heads: 16,
            kv_heads: 8,
            head: 128,
            network: Network::Dense { width: 3072 },
            vocabulary: 151_936,
            tied: false,
            context: 40_960,
            rms_epsilon: 1e-6,
            rope_base: 1e6,
            window: None,
            yarn: None,
            delta_nets: None,
            mtp_blocks: 0,
            pre_tokenizer: "qwen2",
            mix: Mix::Q4KM,
        };
        const QWEN35: Sizes = Sizes {
            architecture: "qwen35",
            head: 256,
            vocabulary: 248_320,
            context: 262_144,
            rope_base: 1e7,
            pre_tokenizer: "qwen35",
            mix: Mix::UdQ4KM,
            ..QWEN3
        };
        const TINY_QWEN35: Sizes = Sizes {
            layers: 4,
            width: 256,
            heads: 4,
            kv_heads: 2,
            head: 64,
            network: Network::Dense { width: 512 },
            vocabulary: 2048,
            delta_nets: Some(DeltaNets { key_heads: 2, value_heads: 4, head: 64 }),
            ..QWEN35
        };
        const GPT_OSS: Sizes = Sizes {
            architecture: "gpt-oss",
            layers: 24,
            width: 2880,
            heads: 64,
            kv_heads: 8,
            head: 64,
            network: Network::Experts { count: 32, used: 4, width: 2880, shared: false },
            vocabulary: 201_088,
            tied: false,
            context: 131_072,
            rms_epsilon: 1e-5,
            rope_base: 150_000.0,
            window: Some(128),
            yarn: Some((32.0, 4096)),
            mix: Mix::MXFP4Moe,
            ..QWEN3
        };
        match self {
            Self::Qwen3Moe30bA3b => Sizes {
                architecture: "qwen3moe",
                layers: 48,
                width: 2048,
                heads: 32,
                kv_heads: 4,
                network: Network::Experts { count: 128, used: 8, width: 768, shared: false },
                ..QWEN3
            },
            Self::Qwen3Dense8b => {
                Sizes { layers: 36, width: 4096, heads: 32, network: Network::Dense { width: 12_288 }, ..QWEN3 }
            }
            Self::Qwen3Dense600m => Sizes { tied: true, ..QWEN3 },
            Self::GptOss20b => GPT_OSS,
            Self::TinyMoe => Sizes {
                architecture: "qwen3moe",
                layers: 2,
                width: 256,
                heads: 4,
                kv_heads: 2,
                head: 64,
                network: Network::Experts { count: 8, used: 2, width: 256, shared: false },
                vocabulary: 2048,
                ..QWEN3
            },
            // Widths that are no multiple of 256, as those of gpt-oss.
            Self::TinyGptOss => Sizes {
                layers: 2,
                width: 320,
                heads: 8,
                kv_heads: 1,
                network: Network::Experts { count: 8, used: 4, width: 320, shared: false },
                vocabulary: 2048,
                ..GPT_OSS
            },
            Self::Qwen36Moe35bA3b => Sizes {
                architecture: "qwen35moe",
                layers: 40,
                width: 2048,
                heads: 16,
                kv_heads: 2,
                network: Network::Experts { count: 256, used: 8, width: 512, shared: true },
                delta_nets: Some(DeltaNets { key_heads: 16, value_heads: 32, head: 128 }),
                ..QWEN35
            },
            Self::Qwen38Dense27b => Sizes {
                layers: 64,
                width: 5120,
                heads: 24,
                kv_heads: 4,
                network: Network::Dense { width: 17_408 },
                delta_nets: Some(DeltaNets { key_heads: 16, value_heads: 48, head: 128 }),
                mtp_blocks: 1,
                ..QWEN35
            },
            Self::TinyQwen35Moe => Sizes {
                architecture: "qwen35moe",
                network: Network::Experts { count: 8, used: 2, width: 256, shared: true },
                ..TINY_QWEN35
            },
            Self::TinyQwen35 => Sizes { mtp_blocks: 1, ..TINY_QWEN35 },
        }
    }
}
