//! The tensors of a model: where they are in its file, under the names that the forward pass uses. Nothing is read or copied here.

use zinc_kernels::Format;

use crate::config::{FeedForward, Layer, ModelConfig, check_tensors, find, names};
use crate::error::{Error, Result};
use crate::gguf::File;

/// Names a tensor of a [`ModelWeights`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TensorId(u32);

impl TensorId {
    /// The tensor at `index` of [`ModelWeights::tensors`].
    #[must_use]
    pub const fn new(index: u32) -> Self {
        Self(index)
    }

    /// Its index in [`ModelWeights::tensors`].
    #[must_use]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// Where a tensor is and what shape it has.
#[derive(Clone, Debug)]
pub struct WeightTensor {
    /// Its index in [`File::tensors`].
    pub file_index: usize,
    /// How the elements are stored.
    pub format: Format,
    /// Elements of a row.
    pub columns: u32,
    /// Rows of one matrix; 1 for a vector.
    pub rows: u32,
    /// How many matrices: one for each expert, and 1 where there are no experts.
    pub matrices: u32,
    /// Bytes of all matrices in the file.
    pub bytes: u64,
}

impl WeightTensor {
    /// Elements of all matrices.
    #[must_use]
    pub fn elements(&self) -> u64 {
        u64::from(self.columns) * u64::from(self.rows) * u64::from(self.matrices)
    }

    /// Bytes of a row on a device.
    #[must_use]
    pub fn device_row_bytes(&self) -> u64 {
        self.format.device_row_bytes(self.columns as usize) as u64
    }

    /// Bytes of all matrices on a device; `u64::MAX` if the number does not fit 64 bits.
    #[must_use]
    pub fn device_bytes(&self) -> u64 {
        (u64::from(self.rows) * u64::from(self.matrices)).saturating_mul(self.device_row_bytes())
    }
}

/// The weights of one layer, with their shapes, slowest dimension first.
#[derive(Clone, Debug)]
pub struct LayerWeights {
    /// `[width]`.
    pub attention_norm: TensorId,
    /// `[heads * head_size, width]`.
    pub q: TensorId,
    /// `[kv_heads * head_size, width]`.
    pub k: TensorId,
    /// `[kv_heads * head_size, width]`.
    pub v: TensorId,
    /// `[heads * head_size]`.
    pub q_bias: Option<TensorId>,
    /// `[kv_heads * head_size]`.
    pub k_bias: Option<TensorId>,
    /// `[kv_heads * head_size]`.
    pub v_bias: Option<TensorId>,
    /// `[head_size]`.
    pub q_norm: Option<TensorId>,
    /// `[head_size]`.
    pub k_norm: Option<TensorId>,
    /// `[heads]`: a score of each query head that joins its softmax and has no value.
    pub sinks: Option<TensorId>,
    /// `[width, heads * head_size]`.
    pub attention_output: TensorId,
    /// `[width]`.
    pub attention_output_bias: Option<TensorId>,
    /// `[width]`.
    pub feed_forward_norm: TensorId,
    /// The feed-forward part of the layer.
    pub feed_forward: FeedForwardWeights,
}

/// The weights of the feed-forward part of a layer.
#[derive(Clone, Debug)]
pub enum FeedForwardWeights {
    /// One gated network.
    Dense {
        /// `[hidden, width]`.
        gate: TensorId,
        /// `[hidden, width]`.
        up: TensorId,
        /// `[width, hidden]`.
        down: TensorId,
    },
    /// A router and several gated networks, the experts.
    Experts {
        /// `[experts, width]`.
        router: TensorId,
        /// `[experts, hidden, width]`.
        gate: TensorId,
        /// `[experts, hidden, width]`.
        up: TensorId,
        /// `[experts, width, hidden]`.
        down: TensorId,
        /// `[experts]`.
        router_bias: Option<TensorId>,
        /// `[experts, hidden]`.
        gate_bias: Option<TensorId>,
        /// `[experts, hidden]`.
        up_bias: Option<TensorId>,
        /// `[experts, width]`.
        down_bias: Option<TensorId>,
        /// Experts that a token uses.
        used: u32,
    },
}

/// The tensors of a model.
#[derive(Clone, Debug)]
pub struct ModelWeights {
    /// All tensors that the forward pass uses, by [`TensorId`].
    pub tensors: Vec<WeightTensor>,
    /// `[vocabulary, width]`.
    pub embedding: TensorId,
    /// The layers, in network order.
    pub layers: Vec<LayerWeights>,
    /// `[width]`.
    pub output_norm: TensorId,
    /// `[vocabulary, width]`: the embedding where the file has no matrix of its own.
    pub output: TensorId,
    /// Divisors of the rotary frequencies, `[rope_dims / 2]`, if the model has them.
    pub rope_factors: Option<TensorId>,
}

impl ModelWeights {
    /// Finds the tensors that `config` calls for.
    ///
    /// # Errors
    /// A tensor that is missing, has another shape, or is stored in a format without a kernel.
    pub fn find(file: &File, config: &ModelConfig) -> Result<Self> {
        check_tensors(file, config)?;
        let mut finder = Finder { file, tensors: Vec::new() };
        let embedding = finder.required(names::TOKEN_EMBEDDING)?;
        let output_norm = finder.required(names::OUTPUT_NORM)?;
        let output = finder.optional(names::OUTPUT)?.unwrap_or(embedding);
        let rope_factors = finder.optional(names::ROPE_FACTORS)?;
        let feed_forward_norm = config.architecture.feed_forward_norm();
        let layers = (0..).zip(&config.layers).map(|(index, layer)| finder.layer(index, layer, feed_forward_norm));
        let layers = layers.collect::<Result<_>>()?;
        Ok(Self { tensors: finder.tensors, embedding, layers, output_norm, output, rope_factors })
    }

    /// The tensor of an id.
    #[must_use]
    pub fn tensor(&self, id: TensorId) -> &WeightTensor {
        &self.tensors[id.index()]
    }

    /// Bytes of all tensors in the file.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.tensors.iter().map(|t| t.bytes).sum()
    }
}

/// Finds tensors by name, and numbers them in the order in which they are found.
struct Finder<'a> {
    file: &'a File,
    tensors: Vec<WeightTensor>,
}

impl Finder<'_> {
    fn layer(&mut self, index: u32, layer: &Layer, feed_forward_norm: &str) -> Result<LayerWeights> {
        let name = |part: &str| names::in_layer(index, part);
        let feed_forward = match layer.feed_forward {
            FeedForward::Experts { n_expert_used, .. } => FeedForwardWeights::Experts {
                router: self.required(&name(names::ROUTER))?,
                gate: self.required(&name(names::EXPERT_GATES))?,
                up: self.required(&name(names::EXPERT_UPS))?,
                down: self.required(&name(names::EXPERT_DOWNS))?,
                router_bias: self.optional(&name(names::ROUTER_BIAS))?,
                gate_bias: self.optional(&name(names::EXPERT_GATE_BIASES))?,
                up_bias: self.optional(&name(names::EXPERT_UP_BIASES))?,
                down_bias: self.optional(&name(names::EXPERT_DOWN_BIASES))?,
                used: n_expert_used,
            },
            FeedForward::Dense { .. } => FeedForwardWeights::Dense {
                gate: self.required(&name(names::GATE))?,
                up: self.required(&name(names::UP))?,
                down: self.required(&name(names::DOWN))?,
            },
        };
        Ok(LayerWeights {
            attention_norm: self.required(&name(names::ATTENTION_NORM))?,
            q: self.required(&name(names::Q))?,
            k: self.required(&name(names::K))?,
            v: self.required(&name(names::V))?,
            q_bias: self.optional(&name(names::Q_BIAS))?,
            k_bias: self.optional(&name(names::K_BIAS))?,
            v_bias: self.optional(&name(names::V_BIAS))?,
            q_norm: self.optional(&name(names::Q_NORM))?,
            k_norm: self.optional(&name(names::K_NORM))?,
            sinks: self.optional(&name(names::SINKS))?,
            attention_output: self.required(&name(names::ATTENTION_OUTPUT))?,
            attention_output_bias: self.optional(&name(names::ATTENTION_OUTPUT_BIAS))?,
            feed_forward_norm: self.required(&name(feed_forward_norm))?,
            feed_forward,
        })
    }

    fn required(&mut self, name: &str) -> Result<TensorId> {
        Ok(self.optional(name)?.unwrap_or_else(|| panic!("the tensor check accepted a file without {name}")))
    }

    fn optional(&mut self, name: &str) -> Result<Option<TensorId>> {
        let Some(info) = find(self.file, name) else { return Ok(None) };
        let Some(file_index) = self.file.tensors().iter().position(|t| t.name == info.name) else { return Ok(None) };
        let format = info.format.to_kernel().ok_or_else(|| Error::UnsupportedFormat {
            name: name.to_owned(),
            format: info.format.name(),
            supported: Format::ALL.iter().map(|format| format.name()).collect(),
        })?;
        let dimension = |i: usize| info.shape.get(i).map_or(1, |d| u32::try_from(*d).unwrap_or(u32::MAX));
        let id = TensorId(u32::try_from(self.tensors.len()).unwrap_or(u32::MAX));
        self.tensors.push(WeightTensor {
            file_index,
            format,
            columns: dimension(0),
            rows: dimension(1),
            matrices: dimension(2),
            bytes: info.bytes,
        });
        Ok(Some(id))
    }
}
