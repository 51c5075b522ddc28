//! The arrays that a step works on, and how large they are.

use zinc_kernels::ops::{
    CANDIDATE_BYTES, CacheFormat, DeltaHeads, GRIDS_BYTES, GROUP, GROUP_COUNTERS_BYTES, Heads, TILE_BYTES,
    candidate_count, items_bytes, masses_bytes, moments_bytes, rounded_bytes, shares_bytes,
};
use zinc_kernels::step::{PAGE_POSITIONS, StepShape, StepState};

use super::CacheOptions;
use crate::config::{AttentionLayer, FeedForward, ModelConfig};

/// Arrays and tensors start at multiples of this many bytes: the widest load of a kernel, and the granularity of every device's caches.
pub const ALIGNMENT: u64 = 256;

/// The fewest rows of a step whose products go by tiles, and whose attention goes by rows where they are of one lane: a power of two, as all shapes of steps.
pub const MANY_ROWS: u32 = 2 * StepShape::SEVERAL.rows();

/// How many [`Array::GroupValues`] there are: as many launches as read one vector beside each other in the models that are known.
pub(crate) const GROUP_VALUES: u32 = 3;

/// The most bytes of the first [`Array::GroupValues`], and of each further one. Products that need more are left to a workgroup for each block. The
/// 17,408 columns of Qwen3.8-27B's second halves need 85 MiB for 64 rows.
const MOST_GROUP_VALUES: [u64; 2] = [96 << 20, 16 << 20];

/// An array that ops read and write. Weights are not among them, since they never change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Array {
    /// The state of the step, a [`StepState`], and its lanes.
    State,
    /// The tokens of the sequence, and drafts behind them, [`CacheOptions::token_places`] u32.
    Tokens,
    /// The residual stream, `[width]` f32.
    Residual,
    /// The residual stream of a step that is submitted in ranges of layers, between which other steps may run, `[width]` f32. It is all that such a step
    /// carries from one range to the next, beside its state and the cache; see [`StepPlan::carried`](super::StepPlan::carried).
    CarriedResidual,
    /// The normalised residual stream that experts read, `[width]` f32 or rounded.
    Normed,
    /// Queries, `[heads, head_size]` f32.
    Query,
    /// New keys, `[kv_heads, head_size]` f32.
    Key,
    /// New values, `[kv_heads, head_size]` f32.
    Value,
    /// Keys of a layer, `[positions, kv_heads * head_size]`, of all lanes: those of the pool, or of the lanes' rings ([`CacheOptions::ring_pages`]).
    KeyCache(u32),
    /// Values of a layer, `[positions, kv_heads * head_size]`, of all lanes, likewise.
    ValueCache(u32),
    /// The recurrent state of a layer, [`DeltaHeads::recurrent_bytes`](zinc_kernels::ops::DeltaHeads::recurrent_bytes), of all lanes.
    Recurrent(u32),
    /// Queries, keys and values of a delta net before the convolution, `[channels]` f32.
    DeltaInput,
    /// Queries, keys and values of a delta net behind the convolution, `[channels]` f32.
    DeltaConvolved,
    /// What says how much of a change a delta net writes, `[value_heads]` f32.
    DeltaBeta,
    /// What says how much of its memories a delta net keeps, `[value_heads]` f32.
    DeltaAlpha,
    /// What a delta net has read from its memories, `[value_heads, head_size]` f32.
    DeltaRead,
    /// The gates of a mixer's result, `[heads, head_size]` f32.
    MixerGate,
    /// Partial results of attention over splits of the context, in the layout of its kernel, in steps of few rows.
    Partials,
    /// The result of attention, or of a mixer behind its gate, `[heads, head_size]` f32 or rounded.
    Attended,
    /// [`Array::Attended`] rounded, where products need it.
    RoundedAttended,
    /// The router's logits, `[experts]` f32, and behind them that of the shared expert's gate where there is one.
    RouterLogits,
    /// The selected experts, `[used]` u32.
    ExpertIds,
    /// The weights of the selected experts, `[used]` f32.
    ExpertWeights,
    /// Activations inside the feed-forward part, `[slots, rows]` f32: one slot for each selected expert, one in a dense layer.
    Hidden,
    /// [`Array::Hidden`] rounded, where products need it.
    RoundedHidden,
    /// Activations inside the shared expert, `[rows]` f32.
    SharedHidden,
    /// [`Array::SharedHidden`] rounded, where products need it.
    RoundedSharedHidden,
    /// What the shared expert gives, before its gate, `[width]` f32.
    SharedOutput,
    /// The input of the block for multi-token prediction, `[2, width]` f32: the embedding of the token behind the row's, and the hidden vector.
    MtpInput,
    /// [`Array::MtpInput`] rounded, where products need it.
    RoundedMtpInput,
    /// What that block's layer begins with for each row of a step, `[width]` f32.
    MtpResidual,
    /// The logits of a draft by that block, `[vocabulary]` f32, which stand beside [`Array::Logits`] of the step that it follows.
    MtpLogits,
    /// What each selected expert gives, `[used, width]` f32, in steps of many rows.
    ExpertProducts,
    /// The pairs of a row and one of its slots, by expert, in steps of many rows: `[experts, rows]` u32 of the step, any expert being chosen by all rows.
    Pairs,
    /// The tiles of [`Array::Pairs`], `[used]` [`Tile`](zinc_kernels::step::Tile) of each row.
    Tiles,
    /// How many workgroups the products have that take [`Array::Tiles`], a [`Grid`](zinc_kernels::step::Grid) of each. The device reads it when it
    /// launches them. [`Op::Route`](super::Op::Route) writes it before each launch of them, even in a step that changes
    /// nothing, unless the device leaves out both.
    Grids,
    /// What workgroups that share the groups of a product leave for the last of them, [`GroupValues`](zinc_kernels::ops::GroupValues), in steps of
    /// many rows: for as many launches as run at the same time, which are numbered from 0.
    GroupValues(u32),
    /// The logits of the next token, `[vocabulary]` f32.
    Logits,
    /// The candidates for the next token, one for each share of the vocabulary.
    Candidates,
    /// Occurrences of each token in the window of the penalties, `[vocabulary]` u32.
    TokenCounts,
    /// Lengths of the repetitions that each token would continue, `[vocabulary]` u32, 0 between steps.
    DryLengths,
    /// Candidates of the sampler chain, listed by shares of the vocabulary.
    Items,
    /// Summaries of the shares of [`Array::Items`].
    Shares,
    /// Sums over the logits of the shares of [`Array::Items`], for top-n-sigma.
    Moments,
    /// The likeliest tokens of each share of the vocabulary, by the raw logits.
    LogprobItems,
    /// Summaries of the shares of [`Array::LogprobItems`].
    LogprobShares,
    /// Softmax masses of the shares of [`Array::LogprobItems`].
    LogprobMasses,
    /// Counters of workgroups of one dispatch, by which they find out which of them is the last, and of pairs of each expert: u32, 0 between dispatches.
    Counters,
}

/// How many rows the steps of a loaded model may have. Memory is set aside for as many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowCounts {
    /// Rows of a step, 1 to [`MOST_ROWS`](zinc_kernels::step::MOST_ROWS).
    pub rows: u32,
    /// Rows of a step that samples after each of them: at most as many as `rows`, and at most
    /// [`MOST_SAMPLING_ROWS`](zinc_kernels::step::MOST_SAMPLING_ROWS).
    pub sampling_rows: u32,
}

impl RowCounts {
    /// One row.
    pub const ONE: Self = Self { rows: 1, sampling_rows: 1 };

    /// Counts for steps of `rows` rows, of which those that sample have `sampling_rows`, or as many as `rows` where that is more.
    #[must_use]
    pub const fn new(rows: u32, sampling_rows: u32) -> Self {
        let rows = if rows < sampling_rows { sampling_rows } else { rows };
        Self { rows, sampling_rows }
    }

    /// How many places an array of a class needs in a model of so many lanes.
    #[must_use]
    pub fn of(self, class: ArrayClass, lanes: u32) -> u32 {
        match class {
            ArrayClass::Packed | ArrayClass::Row => self.rows,
            ArrayClass::SamplingRow => self.sampling_rows,
            ArrayClass::Workgroups => self.rows.min(MANY_ROWS / 2).max(self.sampling_rows),
            ArrayClass::Step => 1,
            ArrayClass::Tiled => u32::from(self.rows >= MANY_ROWS / 2),
            // With one lane nothing runs between the ranges of a step, and steps of few rows have no ranges.
            ArrayClass::Carried => {
                if lanes > 1 && self.rows >= MANY_ROWS {
                    self.rows
                } else {
                    0
                }
            }
        }
    }
}

/// What has an activation of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ArrayClass {
    /// Each row. What one row has lies right behind what the row before has, so that kernels can take what all rows have for one array. Some kernels share the
    /// array out otherwise than by rows.
    Packed,
    /// Each row of a step. All arrays of a row lie together, so that each has the same stride.
    Row,
    /// Each row that samples; these arrays lie together likewise.
    SamplingRow,
    /// The workgroups of each row, in a step of fewer than [`MANY_ROWS`] or that samples after each row. What those of one row have lies right behind what those of the row before have.
    Workgroups,
    /// The step, whatever its rows.
    Step,
    /// The step, where it may have as many rows as products by matrix units are for: half of [`MANY_ROWS`].
    Tiled,
    /// Each row of a step that feeds, of a model of several lanes whose steps are cut into ranges. These arrays lie together likewise.
    Carried,
}

impl ArrayClass {
    /// The classes in the order in which they lie in memory. What a step of one row touches most lies close together at the beginning: on an H200 the
    /// demo model generated 0.8 % slower where the large arrays of hundreds of rows lay between.
    pub(crate) const IN_MEMORY: [Self; 7] =
        [Self::Packed, Self::Row, Self::SamplingRow, Self::Workgroups, Self::Step, Self::Carried, Self::Tiled];
}

impl Array {
    /// The activations and what has them, in a fixed order.
    pub const ACTIVATIONS: [(Self, ArrayClass); 44] = {
        use ArrayClass::{Carried, Packed, Row, SamplingRow, Step, Tiled, Workgroups};
        [
            (Self::Residual, Row),
            (Self::Normed, Row),
            (Self::Query, Row),
            (Self::Key, Row),
            (Self::Value, Row),
            (Self::Attended, Row),
            (Self::RouterLogits, Row),
            (Self::ExpertIds, Row),
            (Self::ExpertWeights, Row),
            (Self::Hidden, Row),
            (Self::RoundedHidden, Row),
            (Self::RoundedAttended, Row),
            (Self::ExpertProducts, Row),
            (Self::DeltaInput, Row),
            (Self::DeltaConvolved, Row),
            (Self::DeltaBeta, Row),
            (Self::DeltaAlpha, Row),
            (Self::DeltaRead, Row),
            (Self::MixerGate, Row),
            (Self::SharedHidden, Row),
            (Self::RoundedSharedHidden, Row),
            (Self::SharedOutput, Row),
            (Self::MtpInput, Row),
            (Self::RoundedMtpInput, Row),
            (Self::MtpResidual, Row),
            (Self::Logits, SamplingRow),
            (Self::Candidates, SamplingRow),
            (Self::DryLengths, SamplingRow),
            (Self::Items, SamplingRow),
            (Self::Shares, SamplingRow),
            (Self::Moments, SamplingRow),
            (Self::LogprobItems, SamplingRow),
            (Self::LogprobShares, SamplingRow),
            (Self::LogprobMasses, SamplingRow),
            (Self::Partials, Workgroups),
            (Self::Counters, Packed),
            (Self::Pairs, Packed),
            (Self::Tiles, Packed),
            (Self::Grids, Step),
            (Self::MtpLogits, Step),
            (Self::CarriedResidual, Carried),
            (Self::GroupValues(0), Tiled),
            (Self::GroupValues(1), Tiled),
            (Self::GroupValues(2), Tiled),
        ]
    };

    /// The activations that must be 0 before the first step, wholly or in part ([`Sizes::zeroed_bytes`]). The ids of experts are among them because
    /// `expert_down` loads weights by them before it knows whether the step lists its row: an id that nothing has written yet must be one of the
    /// model's.
    pub const ZEROED: [Self; 6] = [
        Self::ExpertIds,
        Self::DryLengths,
        Self::Counters,
        Self::GroupValues(0),
        Self::GroupValues(1),
        Self::GroupValues(2),
    ];
}

/// Sizes of the arrays of one model with one cache.
#[derive(Clone, Copy, Debug)]
pub struct Sizes<'a> {
    /// The model.
    pub config: &'a ModelConfig,
    /// Its cache.
    pub cache: CacheOptions,
}

impl Sizes<'_> {
    /// The numbers and the size of the heads of a layer's attention.
    ///
    /// # Panics
    /// If the layer has another mixer.
    #[must_use]
    pub fn heads(&self, layer: u32) -> Heads {
        heads(self.config.attention_of_op(layer))
    }

    /// The attention of each layer that has any.
    pub(crate) fn attentions(&self) -> impl Iterator<Item = &AttentionLayer> {
        (0..self.config.n_block()).filter_map(|layer| self.config.attention(layer))
    }

    /// The most of what the attention of a layer has.
    fn most_of_attention(&self, size: impl Fn(&AttentionLayer) -> u64) -> u64 {
        self.attentions().map(size).max().unwrap_or(0)
    }

    /// The most of what the delta net of a layer has.
    fn most_of_delta_net(&self, size: impl Fn(&DeltaHeads) -> u32) -> u64 {
        let delta_nets = (0..self.config.n_layer()).filter_map(|layer| self.config.delta_net(layer));
        delta_nets.map(|delta_net| size(&delta_net.heads()).into()).max().unwrap_or(0)
    }

    /// The most of what the feed-forward part of a layer has.
    fn most_of_feed_forward(&self, size: impl Fn(&FeedForward) -> u64) -> u64 {
        self.config.blocks().map(|layer| size(&layer.feed_forward)).max().unwrap_or(0)
    }

    /// Bytes of an array. What is f32 or rounded has room for either, and what all layers share has room for the largest of them.
    #[must_use]
    pub fn bytes(&self, array: Array) -> u64 {
        let c = self.config;
        let either = |n: u64| (n * 4).max(rounded_bytes(n));
        let q_width = || self.most_of_attention(|attention| attention.q_width().into());
        let experts = || self.most_of_feed_forward(|part| part.experts().0.into());
        let used = || self.most_of_feed_forward(|part| part.experts().1.into());
        let shared = || self.most_of_feed_forward(|part| part.shared().map_or(0, |shared| shared.n_ff.into()));
        let values = || self.most_of_delta_net(DeltaHeads::values);
        let mtp_width = || if c.mtp { u64::from(c.n_embd) } else { 0 };
        let elements = match array {
            Array::State => return size_of::<StepState>() as u64,
            Array::Tokens => self.cache.token_places(),
            Array::KeyCache(layer) => return self.cache_bytes(layer, self.cache.key_format),
            Array::ValueCache(layer) => return self.cache_bytes(layer, self.cache.value_format),
            Array::Items | Array::LogprobItems => return items_bytes(c.n_vocab),
            Array::Shares | Array::LogprobShares => return shares_bytes(c.n_vocab),
            Array::Moments => return moments_bytes(c.n_vocab),
            Array::LogprobMasses => return masses_bytes(c.n_vocab),
            Array::Candidates => {
                return u64::from(candidate_count(c.n_vocab)) * u64::from(CANDIDATE_BYTES);
            }
            Array::Normed => return either(c.n_embd.into()),
            Array::Attended => return either(q_width().max(values())),
            Array::RoundedAttended => return rounded_bytes(q_width().max(values())),
            Array::Recurrent(layer) => return u64::from(self.cache.lanes) * self.recurrent_bytes(layer),
            Array::DeltaInput | Array::DeltaConvolved => self.most_of_delta_net(DeltaHeads::channels),
            Array::DeltaBeta | Array::DeltaAlpha => self.most_of_delta_net(|heads| heads.value_heads),
            Array::DeltaRead => values(),
            Array::MixerGate => {
                let gates = |attention: &AttentionLayer| if attention.gate { attention.q_width().into() } else { 0 };
                self.most_of_attention(gates).max(values())
            }
            Array::SharedHidden => shared(),
            Array::RoundedSharedHidden => return if shared() == 0 { 0 } else { rounded_bytes(shared()) },
            Array::SharedOutput => {
                if shared() == 0 {
                    0
                } else {
                    c.n_embd.into()
                }
            }
            Array::MtpInput => 2 * mtp_width(),
            Array::RoundedMtpInput => return if c.mtp { rounded_bytes(2 * mtp_width()) } else { 0 },
            Array::MtpResidual => mtp_width(),
            Array::MtpLogits => {
                if c.mtp {
                    c.n_vocab.into()
                } else {
                    0
                }
            }
            Array::ExpertProducts => used() * u64::from(c.n_embd),
            Array::Tiles => return used() * u64::from(TILE_BYTES),
            Array::Grids => return u64::from(GRIDS_BYTES),
            Array::GroupValues(number) => return self.group_values_bytes(number),
            Array::Residual | Array::CarriedResidual => u64::from(c.n_embd),
            Array::Query => q_width(),
            Array::Key | Array::Value => self.most_of_attention(|attention| attention.kv_width().into()),
            Array::Partials => self.most_of_attention(|attention| heads(attention).partials(self.cache.context)),
            Array::Counters => self.most_of_attention(|attention| attention.n_head.into()).max(1 + experts()),
            Array::RouterLogits => {
                self.most_of_feed_forward(|part| (part.experts().0 + u32::from(part.shared().is_some())).into())
            }
            Array::Pairs => experts(),
            Array::ExpertIds | Array::ExpertWeights => used(),
            Array::Hidden => self.most_of_feed_forward(|part| {
                let (slots, width) = part.hidden();
                u64::from(slots) * u64::from(width)
            }),
            Array::RoundedHidden => {
                return self.most_of_feed_forward(|part| {
                    let (slots, width) = part.hidden();
                    u64::from(slots) * rounded_bytes(width.into())
                });
            }
            Array::Logits | Array::TokenCounts | Array::DryLengths => u64::from(c.n_vocab),
        };
        elements * 4
    }

    /// Bytes of [`Array::GroupValues`]. A step of 64 rows, [`Tuning::split_rows`](zinc_kernels::Tuning::split_rows), leaves a value of four bytes for
    /// each of them, each row of a matrix and each group of 256 columns: a byte for each weight of a launch. The widest launches of a layer are counted.
    fn group_values_bytes(&self, number: u32) -> u64 {
        let c = self.config;
        let attention = |of: &AttentionLayer| u64::from(of.q_width()) + 2 * u64::from(of.kv_width());
        let delta_net = |heads: &DeltaHeads| heads.channels() + heads.values();
        let hidden = |part: &FeedForward| {
            let dense = if part.experts().0 == 0 { part.hidden().1 } else { 0 };
            2 * u64::from(dense.max(part.shared().map_or(0, |shared| shared.n_ff)))
        };
        let rows = self
            .most_of_attention(attention)
            .max(self.most_of_delta_net(delta_net))
            .max(self.most_of_feed_forward(hidden));
        // Blocks have up to 128 rows.
        let weights = rows.next_multiple_of(128) * u64::from(c.n_embd.next_multiple_of(GROUP));
        u64::from(GROUP_COUNTERS_BYTES) + weights.min(MOST_GROUP_VALUES[usize::from(number > 0)])
    }

    /// Bytes from the beginning of one of [`Array::ZEROED`] that must be 0 before the first step.
    #[must_use]
    pub fn zeroed_bytes(&self, array: Array) -> u64 {
        match array {
            Array::GroupValues(_) => GROUP_COUNTERS_BYTES.into(),
            _ => self.bytes(array),
        }
    }

    /// Bytes of an array in a row's record: whole cache lines of every device.
    pub(crate) fn aligned_bytes(&self, array: Array) -> u64 {
        self.bytes(array).next_multiple_of(ALIGNMENT)
    }

    /// Bytes of all arrays of a class that one row has.
    pub(crate) fn record_bytes(&self, class: ArrayClass) -> u64 {
        let arrays = Array::ACTIVATIONS.iter().filter(|(_, of)| *of == class);
        arrays.map(|(array, _)| self.aligned_bytes(*array)).sum()
    }

    /// Bytes of the activations of a step.
    #[must_use]
    pub fn activation_bytes(&self, counts: RowCounts) -> u64 {
        let lanes = self.cache.lanes;
        ArrayClass::IN_MEMORY.map(|class| u64::from(counts.of(class, lanes)) * self.record_bytes(class)).iter().sum()
    }

    /// Bytes of the keys, or values, of one layer; 0 if it has no attention.
    fn cache_bytes(&self, layer: u32, format: CacheFormat) -> u64 {
        let attention = self.config.attention(layer);
        attention.map_or(0, |attention| self.layer_positions(attention) * row_bytes(attention, format))
    }

    /// Bytes of the keys and the values of a layer at one position.
    ///
    /// # Panics
    /// If the layer has no attention.
    pub(crate) fn entry_bytes(&self, layer: u32) -> u64 {
        self.bytes_at_position(self.config.attention_of_op(layer))
    }

    /// Pages of the ring that each lane has in a layer; 0 if there are no rings.
    ///
    /// # Panics
    /// If the layer has no attention.
    #[cfg(feature = "vk")]
    pub(crate) fn ring_pages(&self, layer: u32) -> u32 {
        self.cache.ring_pages(self.config.attention_of_op(layer).window)
    }

    /// Positions that a layer has room for, of all lanes.
    fn layer_positions(&self, attention: &AttentionLayer) -> u64 {
        match self.cache.ring_pages(attention.window) {
            0 => self.cache.positions(),
            pages => u64::from(self.cache.lanes) * u64::from(pages) * u64::from(PAGE_POSITIONS),
        }
    }

    fn bytes_at_position(&self, attention: &AttentionLayer) -> u64 {
        row_bytes(attention, self.cache.key_format) + row_bytes(attention, self.cache.value_format)
    }

    /// Bytes of the recurrent state of a lane and a layer, a multiple of 16; 0 if it has none.
    #[must_use]
    pub fn recurrent_bytes(&self, layer: u32) -> u64 {
        let delta_net = self.config.delta_net(layer);
        delta_net.map_or(0, |delta_net| delta_net.heads().recurrent_bytes(self.cache.drafts))
    }

    /// Bytes of the keys and values at one position of all layers whose part of the cache grows with the context: those without rings.
    #[must_use]
    pub fn position_bytes(&self) -> u64 {
        let growing = self.attentions().filter(|attention| self.cache.ring_pages(attention.window) == 0);
        growing.map(|attention| self.bytes_at_position(attention)).sum()
    }

    /// Bytes of the keys and values of all layers.
    #[must_use]
    pub fn kv_bytes(&self) -> u64 {
        self.attentions().map(|attention| self.layer_positions(attention) * self.bytes_at_position(attention)).sum()
    }

    /// Bytes of the keys and values that a checkpoint has of the rings of a lane, at most; 0 if there are no rings.
    #[must_use]
    pub fn window_bytes(&self) -> u64 {
        let pages = |attention: &AttentionLayer| u64::from(self.cache.kept_pages(attention.window));
        let bytes = |attention| pages(attention) * u64::from(PAGE_POSITIONS) * self.bytes_at_position(attention);
        self.attentions().map(bytes).sum()
    }

    /// Bytes of the table of rotations.
    #[must_use]
    pub fn rotation_bytes(&self) -> u64 {
        u64::from(self.cache.context) * u64::from(self.config.rope.dims) * 4
    }
}

/// Bytes of the keys, or the values, of a layer at one position.
fn row_bytes(attention: &AttentionLayer, format: CacheFormat) -> u64 {
    u64::from(attention.kv_width()) * u64::from(format.bytes())
}

fn heads(attention: &AttentionLayer) -> Heads {
    let &AttentionLayer { n_head, n_head_kv, head_dim, .. } = attention;
    Heads { query_heads: n_head, kv_heads: n_head_kv, head_size: head_dim }
}

#[cfg(test)]
mod tests {
    use zinc_kernels::ops::Activation;

    use super::*;
    use crate::config::{Architecture, ExpertWeightSum, ExpertWeights, Layer, Mixer, Rope, RopePairing, RopeScaling};

    const CACHE: CacheOptions = CacheOptions::new(100, CacheFormat::F16, CacheFormat::F32);

    /// A model of layers with so many query heads and key heads of 64, and such feed-forward parts.
    fn config(layers: &[(u32, u32, FeedForward)]) -> ModelConfig {
        let layer = |&(n_head, n_head_kv, feed_forward)| {
            let attention = AttentionLayer {
                n_head,
                n_head_kv,
                head_dim: 64,
                window: None,
                qk_norm: false,
                qkv_bias: false,
                output_bias: false,
                sinks: false,
                gate: false,
            };
            Layer { mixer: Mixer::Attention(attention), feed_forward }
        };
        ModelConfig {
            architecture: Architecture::Llama,
            n_embd: 256,
            layers: layers.iter().map(layer).collect(),
            mtp_blocks: Vec::new(),
            mtp: false,
            rms_eps: 1e-6,
            rope: Rope { base: 1e4, dims: 64, pairing: RopePairing::Halves, scaling: RopeScaling::None },
            n_ctx_train: 4_096,
            n_vocab: 1_000,
            tied_embeddings: false,
        }
    }

    /// What layers share is as large as the largest of them needs, whichever that is; caches are each layer's own.
    #[test]
    fn layers_of_different_sizes_share_arrays() {
        let dense = |n_ff| FeedForward::Dense { n_ff, activation: Activation::SwiGlu };
        let experts = |n_expert, n_expert_used, n_ff| FeedForward::Experts {
            n_expert,
            n_expert_used,
            n_ff,
            weights: ExpertWeights { sum: ExpertWeightSum::One, scale: 1.0 },
            activation: Activation::SwiGlu,
            bias: false,
            shared: None,
        };
        let kinds = [(8, 2, dense(700)), (4, 4, experts(16, 3, 200)), (2, 1, experts(5, 4, 160))];
        let alone = kinds.map(|kind| config(&[kind]));
        let together = config(&kinds);
        let reversed = config(&[kinds[2], kinds[1], kinds[0]]);
        let bytes = |config: &ModelConfig, array| Sizes { config, cache: CACHE }.bytes(array);
        for (array, _) in Array::ACTIVATIONS {
            let largest = alone.iter().map(|config| bytes(config, array)).max();
            assert_eq!(Some(bytes(&together, array)), largest, "{array:?}");
            assert_eq!(bytes(&reversed, array), bytes(&together, array), "{array:?}");
        }
        for (layer, config) in (0..).zip(&alone) {
            assert_eq!(bytes(&together, Array::KeyCache(layer)), bytes(config, Array::KeyCache(0)), "layer {layer}");
            assert_eq!(
                bytes(&together, Array::ValueCache(layer)),
                bytes(config, Array::ValueCache(0)),
                "layer {layer}"
            );
        }
        // Seven key heads in all, of 64 elements of 2 bytes and 64 of 4.
        assert_eq!(Sizes { config: &together, cache: CACHE }.position_bytes(), 7 * 64 * 6);
    }
}
