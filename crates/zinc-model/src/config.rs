//! The configuration of a model: its architecture and sizes, read from metadata and checked, and the tensors that follow from them.
//!
//! A [`ModelConfig`] is always sound: heads divide evenly, counts are within limits, and what zinc cannot compute has been refused with the
//! key and the numbers. The operations of the forward pass are in [`plan`](crate::plan).

mod architecture;
mod delta;
mod keys;
mod layer;
pub(crate) mod names;
mod rope;
mod tensors;

use crate::error::{Error, Result};
use crate::gguf;
use architecture::{Bias, Windows};
use keys::Keys;

pub use architecture::Architecture;
pub use layer::{
    AttentionLayer, DeltaNetLayer, ExpertWeightSum, ExpertWeights, FeedForward, Layer, Mixer, SharedExpert,
};
pub use rope::{Rope, RopeOverrides, RopePairing, RopeScaling, RopeScalingKind, Yarn};
pub(crate) use tensors::find;
pub use tensors::{
    ExpectedTensor, Presence, Storage, check_tensors, expected_tensors, is_of_mtp, is_of_vision, mtp_tensors,
};

/// The sizes of a model, and the options that its family leaves open.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelConfig {
    /// The family.
    pub architecture: Architecture,
    /// Width of the residual stream.
    pub n_embd: u32,
    /// The layers, in network order; at least one.
    pub layers: Vec<Layer>,
    /// The blocks behind the layers, which draft further tokens (multi-token prediction). Tokens are computed without them.
    pub mtp_blocks: Vec<Layer>,
    /// Whether the first of these blocks drafts. Otherwise all of them are left out.
    pub mtp: bool,
    /// Added to the mean square in every norm.
    pub rms_eps: f32,
    /// Position embedding.
    pub rope: Rope,
    /// Number of positions that the model was trained on.
    pub n_ctx_train: u32,
    /// Size of the vocabulary, which is the number of rows of the embedding.
    pub n_vocab: u32,
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
    /// other numbers are those of its paper), `expert_weights_scale` (1), `expert_shared_feed_forward_length` (the width of the other experts),
    /// `full_attention_interval` (4), `nextn_predict_layers` (0), `vocab_size` (the length of the tokenizer's list, or else the rows of the embedding).
    ///
    /// # Errors
    /// A missing key, a value that is out of range, or a feature that is not supported. Each error names the key.
    pub fn from_gguf(file: &gguf::File) -> Result<Self> {
        Self::with_options(file, &ModelOptions::default())
    }

    /// As [`Self::from_gguf`], with what is left to whoever opens the file.
    ///
    /// # Errors
    /// Those of [`Self::from_gguf`]; [`Error::RopeNumber`], [`Error::RopeNumberUnused`] or [`Error::RopeFactorMissing`] for overrides that are out of range
    /// or do not go with the file; and [`Error::MtpMissing`].
    pub fn with_options(file: &gguf::File, options: &ModelOptions) -> Result<Self> {
        Self::read(file.metadata(), &|name| file.tensor(name), options)
    }

    /// As [`Self::from_gguf`], of a file with these metadata and without tensors: what depends on whether it has one is as if it had not.
    ///
    /// # Errors
    /// Those of [`Self::from_gguf`].
    pub fn from_metadata(metadata: &gguf::Metadata) -> Result<Self> {
        Self::read(metadata, &|_| None, &ModelOptions::default())
    }

    fn read(metadata: &gguf::Metadata, tensor: &FindTensor<'_>, options: &ModelOptions) -> Result<Self> {
        let name = metadata.require_str("general.architecture")?;
        let architecture = Architecture::from_name(name)?;
        let keys = Keys { metadata, architecture: name };

        let (n_layer, mtp_blocks) = blocks(&keys, architecture)?;
        if options.mtp && mtp_blocks == 0 {
            return Err(Error::MtpMissing { key: keys.full("nextn_predict_layers") });
        }
        let n_embd = keys.require_count("embedding_length", MAX_WIDTH)?;
        let attention = attention(&keys, architecture, tensor, n_embd)?;
        let rms_eps = keys.require_f32("attention.layer_norm_rms_epsilon")?;
        if !(0.0..1.0).contains(&rms_eps) {
            return Err(keys.bad("attention.layer_norm_rms_epsilon", rms_eps, "from 0 to less than 1"));
        }
        let n_ctx_train = keys.require_count("context_length", MAX_CONTEXT)?;
        let feed_forward = feed_forward(&keys, architecture)?;
        let window = window(&keys, architecture)?;
        let delta_nets = delta::delta_nets(&keys, architecture, n_layer)?;
        let layer = |index: u32| {
            let window = window.filter(|_| architecture.traits().windows.has(index));
            let attention = Mixer::Attention(AttentionLayer { window, ..attention });
            let mixer = delta_nets.get(index as usize).copied().flatten().map_or(attention, Mixer::DeltaNet);
            Layer { mixer, feed_forward }
        };
        Ok(Self {
            architecture,
            n_embd,
            layers: (0..n_layer).map(layer).collect(),
            // They have attention whatever the layers have.
            mtp_blocks: vec![Layer { mixer: Mixer::Attention(attention), feed_forward }; mtp_blocks as usize],
            mtp: options.mtp,
            rms_eps,
            rope: rope::rope(&keys, architecture, (attention.head_dim, n_ctx_train), &options.rope)?,
            n_ctx_train,
            n_vocab: n_vocab(&keys, tensor)?,
            tied_embeddings: tensor(names::OUTPUT).is_none(),
        })
    }

    /// Number of layers.
    #[must_use]
    pub fn n_layer(&self) -> u32 {
        // The config of a file has at most `MAX_LAYERS`.
        self.layers.len() as u32
    }

    /// Number of layers and of blocks behind them that draft.
    #[must_use]
    pub fn n_block(&self) -> u32 {
        self.n_layer() + u32::from(self.mtp)
    }

    /// The layers, and behind them that of the block which drafts.
    pub fn blocks(&self) -> impl Iterator<Item = &Layer> + Clone {
        self.layers.iter().chain(self.mtp_blocks.iter().take(usize::from(self.mtp)))
    }

    /// Layer number `layer`, from 0; the number of the last one and 1 is the block that drafts.
    ///
    /// # Panics
    /// If the model has fewer.
    #[must_use]
    pub fn block(&self, layer: u32) -> &Layer {
        self.blocks().nth(layer as usize).unwrap_or_else(|| panic!("layer {layer} of {}", self.n_block()))
    }

    /// The attention of layer number `layer` ([`Self::block`]); `None` if the layer has another mixer.
    ///
    /// # Panics
    /// If the model has fewer layers.
    #[must_use]
    pub fn attention(&self, layer: u32) -> Option<&AttentionLayer> {
        match &self.block(layer).mixer {
            Mixer::Attention(attention) => Some(attention),
            Mixer::DeltaNet(_) => None,
        }
    }

    /// The attention of a layer that an op of attention belongs to.
    ///
    /// # Panics
    /// If the layer has another mixer: plans have such ops for layers with attention alone.
    pub(crate) fn attention_of_op(&self, layer: u32) -> &AttentionLayer {
        self.attention(layer).unwrap_or_else(|| panic!("layer {layer} has an op of attention, but no attention"))
    }

    /// The delta net of layer number `layer` ([`Self::block`]); `None` if the layer has another mixer.
    ///
    /// # Panics
    /// If the model has fewer layers.
    #[must_use]
    pub fn delta_net(&self, layer: u32) -> Option<&DeltaNetLayer> {
        match &self.block(layer).mixer {
            Mixer::DeltaNet(delta_net) => Some(delta_net),
            Mixer::Attention(_) => None,
        }
    }

    /// The delta net of a layer that an op of a delta net belongs to.
    ///
    /// # Panics
    /// If the layer has another mixer: plans have such ops for layers with a delta net alone.
    pub(crate) fn delta_net_of_op(&self, layer: u32) -> &DeltaNetLayer {
        self.delta_net(layer).unwrap_or_else(|| panic!("layer {layer} has an op of a delta net, but none"))
    }

    /// Bytes of the recurrent state of a lane, of all layers together, where a step takes at most so many drafts of a lane; 0 in a model without delta nets.
    #[must_use]
    pub fn recurrent_bytes(&self, drafts: u32) -> u64 {
        let layers = (0..self.n_layer()).filter_map(|layer| self.delta_net(layer));
        layers.map(|delta_net| delta_net.heads().recurrent_bytes(drafts)).sum()
    }

    /// The feed-forward part of layer number `layer` ([`Self::block`]).
    ///
    /// # Panics
    /// If the model has fewer layers.
    #[must_use]
    pub fn feed_forward(&self, layer: u32) -> &FeedForward {
        &self.block(layer).feed_forward
    }
}

/// What is left to whoever opens a model file. Nothing of it changes which tokens a model that is opened generates but `rope`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ModelOptions {
    /// What replaces parts of the file's position embedding.
    pub rope: RopeOverrides,
    /// Whether the block for multi-token prediction is to draft tokens. Otherwise it is left out.
    pub mtp: bool,
}

/// Finds a tensor of a file by its name.
type FindTensor<'a> = dyn Fn(&str) -> Option<&'a gguf::TensorInfo> + 'a;

/// How many layers a file has, and how many blocks behind them that draft tokens: `block_count` counts both.
fn blocks(keys: &Keys<'_>, architecture: Architecture) -> Result<(u32, u32)> {
    let blocks = keys.require_count("block_count", MAX_LAYERS)?;
    let mtp_blocks = if architecture.traits().mtp { keys.get_u32("nextn_predict_layers")?.unwrap_or(0) } else { 0 };
    if mtp_blocks >= blocks {
        let expected = format!("less than the {blocks} blocks in {}", keys.full("block_count"));
        return Err(keys.bad("nextn_predict_layers", mtp_blocks, expected));
    }
    Ok((blocks - mtp_blocks, mtp_blocks))
}

/// What the attention layers of a file have in common: all but their windows.
fn attention(
    keys: &Keys<'_>,
    architecture: Architecture,
    tensor: &FindTensor<'_>,
    n_embd: u32,
) -> Result<AttentionLayer> {
    let n_head = keys.require_count("attention.head_count", MAX_HEADS)?;
    let n_head_kv = keys.count("attention.head_count_kv", MAX_HEADS)?.unwrap_or(n_head);
    if !n_head.is_multiple_of(n_head_kv) {
        let expected = format!("a divisor of the {n_head} heads in {}", keys.full("attention.head_count"));
        return Err(keys.bad("attention.head_count_kv", n_head_kv, expected));
    }
    let traits = architecture.traits();
    let qkv_bias = match traits.qkv_bias {
        Bias::Never => false,
        Bias::Always => true,
        Bias::IfInFile => tensor(&names::in_layer(0, names::Q_BIAS)).is_some(),
    };
    Ok(AttentionLayer {
        n_head,
        n_head_kv,
        head_dim: head_dim(keys, n_embd, n_head)?,
        // Layers differ in it.
        window: None,
        qk_norm: traits.qk_norm,
        qkv_bias,
        output_bias: traits.output_bias,
        sinks: traits.sinks,
        gate: traits.attention_gate,
    })
}

/// How many positions the layers with a window attend to; `None` if the architecture has no such layers.
fn window(keys: &Keys<'_>, architecture: Architecture) -> Result<Option<u32>> {
    if architecture.traits().windows == Windows::None {
        return Ok(None);
    }
    keys.require_count("attention.sliding_window", MAX_CONTEXT).map(Some)
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
    let traits = architecture.traits();
    if !traits.experts {
        if n_expert != 0 {
            let expected =
                format!("0: experts are supported in {} only", Architecture::names_with_experts().join(", "));
            return Err(keys.bad("expert_count", n_expert, expected));
        }
        let n_ff = keys.require_count("feed_forward_length", MAX_WIDTH)?;
        return Ok(FeedForward::Dense { n_ff, activation: traits.activation });
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
    let n_ff = keys.require_count("expert_feed_forward_length", MAX_WIDTH)?;
    let shared = if traits.shared_expert {
        let n_ff = keys.count("expert_shared_feed_forward_length", MAX_WIDTH)?.unwrap_or(n_ff);
        Some(SharedExpert { n_ff })
    } else {
        None
    };
    Ok(FeedForward::Experts {
        n_expert,
        n_expert_used,
        n_ff,
        weights: ExpertWeights { sum, scale },
        activation: traits.activation,
        bias: traits.expert_bias,
        shared,
    })
}

fn n_vocab(keys: &Keys<'_>, tensor: &FindTensor<'_>) -> Result<u32> {
    if let Some(n_vocab) = keys.count("vocab_size", MAX_VOCABULARY)? {
        return Ok(n_vocab);
    }
    let listed = keys.metadata.get_strings("tokenizer.ggml.tokens")?.map(|tokens| tokens.len() as u64);
    let rows = || tensor(names::TOKEN_EMBEDDING).and_then(|tensor| tensor.shape.get(1).copied());
    let n_vocab = listed.or_else(rows).ok_or_else(|| Error::MissingKey { key: keys.full("vocab_size") })?;
    match u32::try_from(n_vocab) {
        Ok(n_vocab) if (1..=MAX_VOCABULARY).contains(&n_vocab) => Ok(n_vocab),
        _ => Err(keys.bad("vocab_size", n_vocab, format!("1 to {MAX_VOCABULARY}"))),
    }
}
