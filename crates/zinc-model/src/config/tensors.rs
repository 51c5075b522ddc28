//! The tensors that a config asks for, by name and shape.

use std::collections::HashSet;

use zinc_kernels::Format;

use crate::config::{AttentionLayer, DeltaNetLayer, FeedForward, Layer, Mixer, ModelConfig, names};
use crate::error::{Error, Result};
use crate::gguf::{self, TensorInfo};

/// A tensor that a model must or may have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpectedTensor {
    /// Its name in the file.
    pub name: String,
    /// Elements per dimension, fastest first.
    pub shape: Vec<u64>,
    /// Whether the file must have it.
    pub presence: Presence,
    /// The formats that it may have.
    pub storage: Storage,
}

/// Positions that the convolution of a delta net takes, the present one included.
pub(super) const TAPS: u32 = 4;

/// Whether a file must have a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    /// The model cannot be computed without it.
    Required,
    /// The file may have it, and then the model uses it.
    Optional,
}

/// The formats that a tensor may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Storage {
    /// F32 alone: norms, biases and factors.
    Single,
    /// Any format that kernels read: matrices.
    Any,
}

impl Storage {
    /// Whether a tensor in `format` can be used.
    pub fn allows(self, format: gguf::TensorFormat) -> bool {
        match self {
            Self::Single => format.to_kernel() == Some(Format::F32),
            Self::Any => format.to_kernel().is_some(),
        }
    }

    fn names(self) -> Vec<&'static str> {
        match self {
            Self::Single => vec![Format::F32.name()],
            Self::Any => Format::ALL.map(Format::name).to_vec(),
        }
    }
}

/// The tensors of a model, in network order. In place of two matrices of a layer a file may have one in which blocks of rows of both alternate: those of
/// the gates and ups of experts, and those of beta and alpha of a delta net.
pub fn expected_tensors(config: &ModelConfig) -> Vec<ExpectedTensor> {
    let embd = config.n_embd;
    let mut list = List { tensors: Vec::new(), layer: None };
    list.matrix(names::TOKEN_EMBEDDING, &[embd, config.n_vocab]);
    if config.architecture.traits().rope_factors {
        list.vector(names::ROPE_FACTORS, config.rope.dims / 2);
        list.make_last_optional();
    }
    for (index, layer) in (0..).zip(&config.layers) {
        list.layer = Some(index);
        list.add_layer(layer, embd, config.architecture.feed_forward_norm());
    }
    list.layer = None;
    list.vector(names::OUTPUT_NORM, embd);
    if !config.tied_embeddings {
        list.matrix(names::OUTPUT, &[embd, config.n_vocab]);
    }
    let mtp = mtp_tensors_of(config, usize::from(config.mtp));
    list.tensors.into_iter().chain(mtp).collect()
}

/// The tensors of the blocks behind the layers, which draft tokens. Where a block has no norm, embedding or head of its own, it uses the model's.
pub fn mtp_tensors(config: &ModelConfig) -> Vec<ExpectedTensor> {
    mtp_tensors_of(config, config.mtp_blocks.len())
}

/// The tensors of the first so many of these blocks.
fn mtp_tensors_of(config: &ModelConfig, blocks: usize) -> Vec<ExpectedTensor> {
    let embd = config.n_embd;
    let mut list = List { tensors: Vec::new(), layer: None };
    for (index, block) in (config.n_layer()..).zip(config.mtp_blocks.iter().take(blocks)) {
        list.layer = Some(index);
        list.add_layer(block, embd, config.architecture.feed_forward_norm());
        list.matrix(names::MTP_INPUT, &[2 * embd, embd]);
        list.vector(names::MTP_EMBEDDING_NORM, embd);
        list.vector(names::MTP_HIDDEN_NORM, embd);
        list.vector(names::MTP_OUTPUT_NORM, embd);
        list.make_last_optional();
        for name in [names::MTP_TOKEN_EMBEDDING, names::MTP_OUTPUT] {
            list.matrix(name, &[embd, config.n_vocab]);
            list.make_last_optional();
        }
    }
    list.tensors
}

/// The list of tensors as it grows.
struct List {
    tensors: Vec<ExpectedTensor>,
    /// The layer that tensors are added to, if they belong to one.
    layer: Option<u32>,
}

impl List {
    /// Adds the tensors of a layer on a residual stream of width `embd`, whose feed-forward part has a norm of this name.
    fn add_layer(&mut self, layer: &Layer, embd: u32, feed_forward_norm: &str) {
        self.vector(names::ATTENTION_NORM, embd);
        match &layer.mixer {
            Mixer::Attention(attention) => self.add_attention(attention, embd),
            Mixer::DeltaNet(delta_net) => self.add_delta_net(delta_net, embd),
        }
        self.vector(feed_forward_norm, embd);
        match layer.feed_forward {
            FeedForward::Dense { n_ff, .. } => {
                self.matrix(names::GATE, &[embd, n_ff]);
                self.matrix(names::UP, &[embd, n_ff]);
                self.matrix(names::DOWN, &[n_ff, embd]);
            }
            FeedForward::Experts { n_expert, n_ff, bias, shared, .. } => {
                // With the row of the shared expert it becomes one matrix, in the format of that row.
                let storage = if shared.is_some() { Storage::Single } else { Storage::Any };
                self.add(names::ROUTER, &[embd, n_expert], storage);
                self.matrix(names::EXPERT_GATES, &[embd, n_ff, n_expert]);
                self.matrix(names::EXPERT_UPS, &[embd, n_ff, n_expert]);
                self.matrix(names::EXPERT_DOWNS, &[n_ff, embd, n_expert]);
                if bias {
                    self.vector(names::ROUTER_BIAS, n_expert);
                    self.vectors(names::EXPERT_GATE_BIASES, n_ff, n_expert);
                    self.vectors(names::EXPERT_UP_BIASES, n_ff, n_expert);
                    self.vectors(names::EXPERT_DOWN_BIASES, embd, n_expert);
                }
                if let Some(shared) = shared {
                    self.vector(names::SHARED_ROUTER, embd);
                    self.matrix(names::SHARED_GATE, &[embd, shared.n_ff]);
                    self.matrix(names::SHARED_UP, &[embd, shared.n_ff]);
                    self.matrix(names::SHARED_DOWN, &[shared.n_ff, embd]);
                }
            }
        }
    }

    fn add_attention(&mut self, attention: &AttentionLayer, embd: u32) {
        let (q, kv) = (attention.q_width(), attention.kv_width());
        // Of each head, the rows of its gate follow those of its query.
        let q_rows = if attention.gate { 2 * q } else { q };
        let qkv = [(names::Q, names::Q_BIAS, q_rows), (names::K, names::K_BIAS, kv), (names::V, names::V_BIAS, kv)];
        for (weights, bias, width) in qkv {
            self.matrix(weights, &[embd, width]);
            if attention.qkv_bias {
                self.vector(bias, width);
            }
        }
        if attention.qk_norm {
            self.vector(names::Q_NORM, attention.head_dim);
            self.vector(names::K_NORM, attention.head_dim);
        }
        self.matrix(names::ATTENTION_OUTPUT, &[q, embd]);
        if attention.output_bias {
            self.vector(names::ATTENTION_OUTPUT_BIAS, embd);
        }
        if attention.sinks {
            self.vector(names::SINKS, attention.n_head);
        }
    }

    fn add_delta_net(&mut self, delta_net: &DeltaNetLayer, embd: u32) {
        let heads = delta_net.heads();
        self.matrix(names::DELTA_QKV, &[embd, heads.channels()]);
        self.matrix(names::DELTA_GATE, &[embd, heads.values()]);
        self.matrix(names::DELTA_BETA, &[embd, heads.value_heads]);
        self.matrix(names::DELTA_ALPHA, &[embd, heads.value_heads]);
        self.vectors(names::DELTA_CONVOLUTION, TAPS, heads.channels());
        self.vector(names::DELTA_ALPHA_BIAS, heads.value_heads);
        self.vector(names::DELTA_DECAY, heads.value_heads);
        self.vector(names::DELTA_NORM, heads.head_size);
        self.matrix(names::DELTA_OUTPUT, &[heads.values(), embd]);
    }

    fn add(&mut self, name: &str, shape: &[u32], storage: Storage) {
        let name = self.layer.map_or_else(|| name.to_owned(), |layer| names::in_layer(layer, name));
        let shape = shape.iter().map(|&dimension| dimension.into()).collect();
        self.tensors.push(ExpectedTensor { name, shape, presence: Presence::Required, storage });
    }

    /// A file need not have the tensor that was added last.
    fn make_last_optional(&mut self) {
        self.tensors.last_mut().expect("a tensor was just added").presence = Presence::Optional;
    }

    fn matrix(&mut self, name: &str, shape: &[u32]) {
        self.add(name, shape, Storage::Any);
    }

    fn vector(&mut self, name: &str, elements: u32) {
        self.add(name, &[elements], Storage::Single);
    }

    fn vectors(&mut self, name: &str, elements: u32, count: u32) {
        self.add(name, &[elements, count], Storage::Single);
    }
}

/// Whether a tensor of this name belongs to a model of vision that lies in the same file. Text is computed without it.
#[must_use]
pub fn is_of_vision(name: &str) -> bool {
    ["v.", "mm."].iter().any(|prefix| name.starts_with(prefix))
}

/// Whether a tensor of this name belongs to blocks behind the layers that could draft tokens and do not. Tokens are computed without it.
#[must_use]
pub fn is_of_mtp(name: &str, config: &ModelConfig) -> bool {
    let index = names::layer_of(name).and_then(|layer| layer.checked_sub(config.n_layer()));
    index.is_some_and(|index| (index as usize) < config.mtp_blocks.len())
}

/// Puts one tensor in the place of the two that a file has it for.
fn fused(tensors: Vec<ExpectedTensor>, file: &gguf::File) -> Vec<ExpectedTensor> {
    let of_file = |tensor: &ExpectedTensor, part: usize| {
        let fused = |names: &[&str; 3]| Some(format!("{}{}", tensor.name.strip_suffix(names[part])?, names[2]));
        names::FUSED.iter().find_map(fused).filter(|name| file.tensor(name).is_some())
    };
    let fuse = |mut tensor: ExpectedTensor| {
        if of_file(&tensor, 1).is_some() {
            return None;
        }
        if let Some(name) = of_file(&tensor, 0) {
            tensor.shape[1] *= 2;
            tensor.name = name;
        }
        Some(tensor)
    };
    tensors.into_iter().filter_map(fuse).collect()
}

/// Checks that a file has the tensors of its config in shapes and formats that can be used, and no others but those that tokens are computed without:
/// those of a model of vision, and of blocks that could draft tokens.
///
/// # Errors
/// [`Error::MissingTensor`], [`Error::TensorShape`], [`Error::UnsupportedFormat`], or [`Error::UnexpectedTensor`] for a tensor that the
/// forward pass would ignore, so that the results would not be the model's.
pub fn check_tensors(file: &gguf::File, config: &ModelConfig) -> Result<()> {
    let mut known = HashSet::new();
    for tensor in &fused(expected_tensors(config), file) {
        match find(file, &tensor.name) {
            Some(found) => {
                check(tensor, found)?;
                known.insert(found.name.as_str());
            }
            None if tensor.presence == Presence::Optional => {}
            None => {
                let (name, expected) = (tensor.name.clone(), tensor.shape.clone());
                return Err(Error::MissingTensor { name, expected });
            }
        }
    }
    let is_unexpected = |name: &str| !known.contains(name) && !is_of_vision(name) && !is_of_mtp(name, config);
    match file.tensors().iter().find(|tensor| is_unexpected(&tensor.name)) {
        Some(tensor) => {
            let architecture = config.architecture.name();
            Err(Error::UnexpectedTensor { name: tensor.name.clone(), architecture })
        }
        None => Ok(()),
    }
}

/// Finds a tensor by its name, or by the one that older files have.
pub(crate) fn find<'a>(file: &'a gguf::File, name: &str) -> Option<&'a TensorInfo> {
    file.tensor(name).or_else(|| file.tensor(&names::older_name(name)?))
}

fn check(expected: &ExpectedTensor, found: &TensorInfo) -> Result<()> {
    let name = || expected.name.clone();
    // Trailing dimensions of one element do not matter.
    let significant = found.shape.iter().rposition(|&dimension| dimension != 1).map_or(1, |last| last + 1);
    let shape = &found.shape[..significant.max(expected.shape.len()).min(found.shape.len())];
    if shape != expected.shape {
        return Err(Error::TensorShape { name: name(), expected: expected.shape.clone(), found: found.shape.clone() });
    }
    if !expected.storage.allows(found.format) {
        let (format, supported) = (found.format.name(), expected.storage.names());
        return Err(Error::UnsupportedFormat { name: name(), format, supported });
    }
    Ok(())
}
