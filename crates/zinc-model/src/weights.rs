//! The tensors of a model: where they are in its file, under the names that the forward pass uses. Nothing is read or copied here.

use std::borrow::Cow;
use std::ops::Range;

use zinc_kernels::Format;

use crate::config::{
    AttentionLayer, DeltaNetLayer, FeedForward, Layer, Mixer, ModelConfig, check_tensors, find, names,
};
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
    /// The parts of the file that it consists of, one behind the other.
    pub sources: Vec<Source>,
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

/// Rows of a tensor of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Source {
    /// The index of the file's tensor in [`File::tensors`].
    pub file_index: usize,
    /// Which of its rows, all matrices of it being one behind the other; `None` is all of them.
    pub blocks: Option<RowBlocks>,
}

/// Rows that stand together in blocks at equal distances: block `i` has the rows from `i * stride + first` on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowBlocks {
    /// The first row of the first block.
    pub first: u32,
    /// Rows of a block.
    pub block: u32,
    /// Rows from one block's first to the next one's.
    pub stride: u32,
}

impl Source {
    /// The bytes of the source within its tensor of the file, as ranges in order, where a row of that tensor has `row_bytes` and all of them `bytes`.
    pub(crate) fn ranges(&self, row_bytes: usize, bytes: usize) -> impl Iterator<Item = Range<usize>> {
        let rows = (bytes / row_bytes.max(1)) as u32;
        let RowBlocks { first, block, stride } =
            self.blocks.unwrap_or(RowBlocks { first: 0, block: rows, stride: rows });
        let row = move |row: u32| row as usize * row_bytes;
        (0..rows).step_by(stride.max(1) as usize).map(move |start| row(start + first)..row(start + first + block))
    }
}

impl WeightTensor {
    /// The bytes of the tensor in its file: its rows one behind the other, copied where they are not so there.
    #[must_use]
    pub fn data<'a>(&self, file: &'a File) -> Cow<'a, [u8]> {
        let of_file = |source: &Source| file.data(&file.tensors()[source.file_index]);
        if let [source @ Source { blocks: None, .. }] = &self.sources[..] {
            return Cow::Borrowed(of_file(source));
        }
        let row_bytes = self.format.row_bytes(self.columns as usize);
        let of_source = |source| {
            let data = of_file(source);
            source.ranges(row_bytes, data.len()).map(|range| &data[range])
        };
        Cow::Owned(self.sources.iter().flat_map(of_source).collect::<Vec<_>>().concat())
    }

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
    /// `[width]`, of the mixer's input.
    pub mixer_norm: TensorId,
    /// The part that mixes positions.
    pub mixer: MixerWeights,
    /// `[width]`.
    pub feed_forward_norm: TensorId,
    /// The feed-forward part of the layer.
    pub feed_forward: FeedForwardWeights,
}

/// The weights of the part of a layer that mixes positions.
#[derive(Clone, Debug)]
pub enum MixerWeights {
    /// Attention.
    Attention(AttentionWeights),
    /// A gated delta net.
    DeltaNet(DeltaNetWeights),
}

/// The weights of attention, with their shapes, slowest dimension first.
#[derive(Clone, Debug)]
pub struct AttentionWeights {
    /// `[heads * head_size, width]`.
    pub q: TensorId,
    /// `[kv_heads * head_size, width]`.
    pub k: TensorId,
    /// `[kv_heads * head_size, width]`.
    pub v: TensorId,
    /// `[heads * head_size, width]`: the sigmoid of what comes out is multiplied with the result.
    pub gate: Option<TensorId>,
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
    pub output: TensorId,
    /// `[width]`.
    pub output_bias: Option<TensorId>,
}

/// The weights of a gated delta net, with their shapes, slowest dimension first.
#[derive(Clone, Debug)]
pub struct DeltaNetWeights {
    /// `[channels, width]`: queries, keys and values before the convolution.
    pub qkv: TensorId,
    /// `[value_heads * head_size, width]`: the silu of what comes out is multiplied with the normalised result.
    pub gate: TensorId,
    /// `[value_heads, width]`: the sigmoid of what comes out is the share of a change that is written.
    pub beta: TensorId,
    /// `[value_heads, width]`: with its bias and the decay it says how much of a memory is kept.
    pub alpha: TensorId,
    /// `[channels * 4]`: of each channel a weight for each of the last four positions, the present one last.
    pub convolution: TensorId,
    /// `[value_heads]`.
    pub alpha_bias: TensorId,
    /// `[value_heads]`, at most 0.
    pub decay: TensorId,
    /// `[head_size]`, of each head's result.
    pub norm: TensorId,
    /// `[width, value_heads * head_size]`.
    pub output: TensorId,
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
        /// `[experts, width]`, with one row more for the logit of the shared expert where there is one.
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
        /// The expert that every token uses, where there is one.
        shared: Option<SharedExpertWeights>,
    },
}

/// The weights of the expert that every token uses.
#[derive(Clone, Copy, Debug)]
pub struct SharedExpertWeights {
    /// `[hidden, width]`.
    pub gate: TensorId,
    /// `[hidden, width]`.
    pub up: TensorId,
    /// `[width, hidden]`.
    pub down: TensorId,
}

/// The weights of a block for multi-token prediction.
#[derive(Clone, Debug)]
pub struct MtpWeights {
    /// `[vocabulary, width]`: the model's, unless the block has its own.
    pub embedding: TensorId,
    /// `[width]`, of the embedding.
    pub embedding_norm: TensorId,
    /// `[width]`, of the hidden vector.
    pub hidden_norm: TensorId,
    /// `[width, 2 * width]`: what makes the layer's input of the embedding and the hidden vector behind it.
    pub input: TensorId,
    /// The layer.
    pub layer: LayerWeights,
    /// `[width]`, before the head: the model's, unless the block has its own.
    pub head_norm: TensorId,
    /// `[vocabulary, width]`: the model's, unless the block has its own.
    pub head: TensorId,
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
    /// The block for multi-token prediction, if it is to draft.
    pub mtp: Option<MtpWeights>,
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
        let mtp = match config.mtp_blocks.first() {
            Some(layer) if config.mtp => {
                let index = config.n_layer();
                let name = |part: &str| names::in_layer(index, part);
                Some(MtpWeights {
                    embedding: finder.optional(&name(names::MTP_TOKEN_EMBEDDING))?.unwrap_or(embedding),
                    embedding_norm: finder.required(&name(names::MTP_EMBEDDING_NORM))?,
                    hidden_norm: finder.required(&name(names::MTP_HIDDEN_NORM))?,
                    input: finder.required(&name(names::MTP_INPUT))?,
                    layer: finder.layer(index, layer, feed_forward_norm)?,
                    head_norm: finder.optional(&name(names::MTP_OUTPUT_NORM))?.unwrap_or(output_norm),
                    head: finder.optional(&name(names::MTP_OUTPUT))?.unwrap_or(output),
                })
            }
            _ => None,
        };
        Ok(Self { tensors: finder.tensors, embedding, layers, output_norm, output, rope_factors, mtp })
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
        Ok(LayerWeights {
            mixer_norm: self.required(&name(names::ATTENTION_NORM))?,
            mixer: match &layer.mixer {
                Mixer::Attention(attention) => MixerWeights::Attention(self.attention(index, attention)?),
                Mixer::DeltaNet(delta_net) => MixerWeights::DeltaNet(self.delta_net(index, delta_net)?),
            },
            feed_forward_norm: self.required(&name(feed_forward_norm))?,
            feed_forward: self.feed_forward(index, &layer.feed_forward)?,
        })
    }

    fn attention(&mut self, index: u32, attention: &AttentionLayer) -> Result<AttentionWeights> {
        let name = |part: &str| names::in_layer(index, part);
        let (q, gate) = if attention.gate {
            let [q, gate] = self.alternating(&name(names::Q), attention.head_dim)?;
            (q, Some(gate))
        } else {
            (self.required(&name(names::Q))?, None)
        };
        Ok(AttentionWeights {
            q,
            k: self.required(&name(names::K))?,
            v: self.required(&name(names::V))?,
            gate,
            q_bias: self.optional(&name(names::Q_BIAS))?,
            k_bias: self.optional(&name(names::K_BIAS))?,
            v_bias: self.optional(&name(names::V_BIAS))?,
            q_norm: self.optional(&name(names::Q_NORM))?,
            k_norm: self.optional(&name(names::K_NORM))?,
            sinks: self.optional(&name(names::SINKS))?,
            output: self.required(&name(names::ATTENTION_OUTPUT))?,
            output_bias: self.optional(&name(names::ATTENTION_OUTPUT_BIAS))?,
        })
    }

    fn delta_net(&mut self, index: u32, delta_net: &DeltaNetLayer) -> Result<DeltaNetWeights> {
        let name = |part: &str| names::in_layer(index, part);
        let heads_of_key = delta_net.n_value_head / delta_net.n_key_head;
        let [beta, alpha] = self.pair(index, [names::DELTA_BETA, names::DELTA_ALPHA], heads_of_key)?;
        Ok(DeltaNetWeights {
            qkv: self.required(&name(names::DELTA_QKV))?,
            gate: self.required(&name(names::DELTA_GATE))?,
            beta,
            alpha,
            convolution: self.flat(&name(names::DELTA_CONVOLUTION))?,
            alpha_bias: self.required(&name(names::DELTA_ALPHA_BIAS))?,
            decay: self.required(&name(names::DELTA_DECAY))?,
            norm: self.required(&name(names::DELTA_NORM))?,
            output: self.required(&name(names::DELTA_OUTPUT))?,
        })
    }

    fn feed_forward(&mut self, index: u32, part: &FeedForward) -> Result<FeedForwardWeights> {
        let name = |part: &str| names::in_layer(index, part);
        Ok(match *part {
            FeedForward::Experts { n_expert_used, n_ff, shared, .. } => {
                let [gate, up] = self.pair(index, [names::EXPERT_GATES, names::EXPERT_UPS], n_ff)?;
                FeedForwardWeights::Experts {
                    router: match shared {
                        Some(_) => self.joined(&[name(names::ROUTER), name(names::SHARED_ROUTER)])?,
                        None => self.required(&name(names::ROUTER))?,
                    },
                    gate,
                    up,
                    down: self.required(&name(names::EXPERT_DOWNS))?,
                    router_bias: self.optional(&name(names::ROUTER_BIAS))?,
                    gate_bias: self.optional(&name(names::EXPERT_GATE_BIASES))?,
                    up_bias: self.optional(&name(names::EXPERT_UP_BIASES))?,
                    down_bias: self.optional(&name(names::EXPERT_DOWN_BIASES))?,
                    used: n_expert_used,
                    shared: match shared {
                        Some(_) => Some(SharedExpertWeights {
                            gate: self.required(&name(names::SHARED_GATE))?,
                            up: self.required(&name(names::SHARED_UP))?,
                            down: self.required(&name(names::SHARED_DOWN))?,
                        }),
                        None => None,
                    },
                }
            }
            FeedForward::Dense { .. } => FeedForwardWeights::Dense {
                gate: self.required(&name(names::GATE))?,
                up: self.required(&name(names::UP))?,
                down: self.required(&name(names::DOWN))?,
            },
        })
    }

    /// Two matrices of a layer, for which the file may have one tensor, whose blocks of `block` rows are of the one and the other in turn.
    fn pair(&mut self, layer: u32, parts: [&str; 2], block: u32) -> Result<[TensorId; 2]> {
        let fused = names::FUSED.iter().find(|[first, second, _]| [*first, *second] == parts).map(|names| names[2]);
        let fused = fused.map(|fused| names::in_layer(layer, fused)).filter(|fused| self.file.tensor(fused).is_some());
        match fused {
            Some(fused) => self.alternating(&fused, block),
            None => {
                let [first, second] = parts.map(|part| names::in_layer(layer, part));
                Ok([self.required(&first)?, self.required(&second)?])
            }
        }
    }

    /// The two matrices of a tensor whose blocks of `block` rows are of the one and the other in turn.
    fn alternating(&mut self, name: &str, block: u32) -> Result<[TensorId; 2]> {
        let whole = self.find(name)?.unwrap_or_else(|| missing(name));
        let half = |first| {
            let blocks = Some(RowBlocks { first, block, stride: 2 * block });
            let sources = whole.sources.iter().map(|source| Source { blocks, ..*source }).collect();
            WeightTensor { sources, rows: whole.rows / 2, bytes: whole.bytes / 2, ..whole }
        };
        Ok([half(0), half(block)].map(|half| self.push(half)))
    }

    /// One matrix of the rows of several tensors, which have one format and rows of one length. A vector is a row.
    fn joined(&mut self, names: &[String]) -> Result<TensorId> {
        let mut parts = Vec::new();
        for name in names {
            parts.push(self.find(name)?.unwrap_or_else(|| missing(name)));
        }
        let (first, others) = parts.split_first().expect("a matrix has parts");
        let mut joined = first.clone();
        for other in others {
            joined.sources.extend(&other.sources);
            joined.rows += other.rows;
            joined.bytes += other.bytes;
        }
        Ok(self.push(joined))
    }

    /// A tensor of several dimensions as one vector.
    fn flat(&mut self, name: &str) -> Result<TensorId> {
        let tensor = self.find(name)?.unwrap_or_else(|| missing(name));
        let columns = u32::try_from(tensor.elements()).unwrap_or(u32::MAX);
        Ok(self.push(WeightTensor { columns, rows: 1, matrices: 1, ..tensor }))
    }

    fn required(&mut self, name: &str) -> Result<TensorId> {
        Ok(self.optional(name)?.unwrap_or_else(|| missing(name)))
    }

    fn optional(&mut self, name: &str) -> Result<Option<TensorId>> {
        Ok(self.find(name)?.map(|tensor| self.push(tensor)))
    }

    fn push(&mut self, tensor: WeightTensor) -> TensorId {
        let id = TensorId(u32::try_from(self.tensors.len()).unwrap_or(u32::MAX));
        self.tensors.push(tensor);
        id
    }

    /// A whole tensor of the file.
    fn find(&self, name: &str) -> Result<Option<WeightTensor>> {
        let Some(info) = find(self.file, name) else { return Ok(None) };
        let Some(file_index) = self.file.tensors().iter().position(|t| t.name == info.name) else { return Ok(None) };
        let format = info.format.to_kernel().ok_or_else(|| Error::UnsupportedFormat {
            name: name.to_owned(),
            format: info.format.name(),
            supported: Format::ALL.iter().map(|format| format.name()).collect(),
        })?;
        let dimension = |i: usize| info.shape.get(i).map_or(1, |d| u32::try_from(*d).unwrap_or(u32::MAX));
        Ok(Some(WeightTensor {
            sources: vec![Source { file_index, blocks: None }],
            format,
            columns: dimension(0),
            rows: dimension(1),
            matrices: dimension(2),
            bytes: info.bytes,
        }))
    }
}

/// Panics because the file lacks a tensor that it has been checked for.
fn missing<T>(name: &str) -> T {
    panic!("the tensor check accepted a file without {name}")
}
