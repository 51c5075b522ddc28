//! How much of a device's memory a model needs, computed before anything is uploaded. Pure arithmetic.

use crate::config::ModelConfig;
use crate::error::{Error, Result};
use crate::plan::{ALIGNMENT, Array, CacheOptions, RowCounts, Sizes};
use crate::weights::ModelWeights;

/// The largest weight buffer that holds several tensors, in bytes, even where the device allows more, because very
/// large buffers take less common paths in allocators and drivers. A larger tensor gets a buffer of its own.
const WEIGHT_BUFFER_BYTES: u64 = 1 << 30;

/// What is decided when a model is loaded onto a device: the size of its cache and the rows of its steps. Memory is set aside
/// for both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LoadOptions {
    /// The size and the formats of its KV cache. Its rings, if it has any, are for as many rows as a step can have.
    pub cache: CacheOptions,
    /// The most rows that a step can have. More than one is of use for prompts and for speculative decoding.
    pub counts: RowCounts,
}

impl LoadOptions {
    /// Options for a cache like `cache` and for steps of one row.
    #[must_use]
    pub const fn new(cache: CacheOptions) -> Self {
        Self { cache, counts: RowCounts::ONE }
    }

    /// These options with steps of so many rows.
    #[must_use]
    pub const fn with_counts(self, counts: RowCounts) -> Self {
        Self { counts, ..self }
    }

    /// These options with rings for layers with a window, for steps of as many rows as these options have; or, with `full_windows`, with all positions in these
    /// layers.
    #[must_use]
    pub const fn with_windows(self, full_windows: bool) -> Self {
        Self { cache: self.cache.with_rings(if full_windows { 0 } else { self.counts.rows }), ..self }
    }
}

impl From<CacheOptions> for LoadOptions {
    /// Options for a model whose steps have one row each.
    fn from(cache: CacheOptions) -> Self {
        Self::new(cache)
    }
}

/// Bytes that a model needs on a device, by purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryPlan {
    /// Bytes of all tensors.
    pub weights: u64,
    /// Bytes of the keys and values of all layers, in all pages of the pool and in all rings.
    pub kv_cache: u64,
    /// Bytes of the recurrent states of all layers and lanes.
    pub recurrent: u64,
    /// Bytes of the activations of one step, the tokens and the sampler tables of each lane, and the table of rotations.
    pub work: u64,
    /// Positions that a sequence may have.
    pub context: u32,
    /// Bytes that one more position of context costs at least: its keys and values, its rotations, its token id and the place of a
    /// repetition of that length among a sampler's tables. Partial results of attention grow
    /// with long contexts, too, by about a hundredth of that.
    pub bytes_per_position: u64,
}

impl MemoryPlan {
    /// Works out the bytes that a model needs if it is loaded with these options.
    #[must_use]
    pub fn new(config: &ModelConfig, weights: &ModelWeights, options: impl Into<LoadOptions>) -> Self {
        let LoadOptions { cache, counts } = options.into();
        let sizes = Sizes { config, cache };
        let per_position = Sizes { config, cache: CacheOptions { context: 1, ..cache } };
        // The size of the pool may be given.
        let cached_bytes = if cache.cache_tokens.is_some() && cache.lanes > 1 { 0 } else { sizes.position_bytes() };
        Self {
            weights: weights.tensors.iter().map(|t| t.device_bytes().next_multiple_of(ALIGNMENT)).sum(),
            kv_cache: sizes.kv_bytes(),
            recurrent: u64::from(cache.lanes) * config.recurrent_bytes(cache.drafts),
            work: sizes.activation_bytes(counts)
                + u64::from(cache.lanes) * (sizes.bytes(Array::Tokens) + sampler_table_bytes(config, cache.context))
                + sizes.rotation_bytes(),
            context: cache.context,
            bytes_per_position: u64::from(cache.lanes) * (cached_bytes + 8) + per_position.rotation_bytes(),
        }
    }

    /// The sum of the weights, the cache, the recurrent states and the working memory, in bytes.
    #[must_use]
    pub fn total(&self) -> u64 {
        [self.kv_cache, self.recurrent, self.work].into_iter().fold(self.weights, u64::saturating_add)
    }

    /// Checks that `available` bytes suffice.
    ///
    /// # Errors
    /// [`Error::DoesNotFit`] with the bytes needed and available, and the largest context that would fit.
    pub fn check(&self, available: u64) -> Result<()> {
        let need = self.total();
        if need <= available {
            return Ok(());
        }
        let fixed = need.saturating_sub(u64::from(self.context).saturating_mul(self.bytes_per_position));
        let largest_context = available.saturating_sub(fixed) / self.bytes_per_position.max(1);
        Err(Error::DoesNotFit {
            need,
            available,
            weights: self.weights,
            kv_cache: self.kv_cache,
            context: self.context,
            largest_context: u32::try_from(largest_context).unwrap_or(u32::MAX),
        })
    }
}

/// Bytes of a sampler's tables that grow with the model: how often each token occurs (4 bytes), whether it breaks repetitions (1), and the penalty of a
/// repetition of each length (4).
fn sampler_table_bytes(config: &ModelConfig, context: u32) -> u64 {
    5 * u64::from(config.n_vocab) + 4 * u64::from(context)
}

/// Where a tensor lies on a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TensorLocation {
    /// The index of the buffer.
    pub buffer: usize,
    /// Offset in that buffer, in bytes.
    pub offset: u64,
}

/// Packs tensors of the given sizes, in bytes, into buffers of at most `max_buffer` bytes, in order. Returns the location of each tensor and
/// the sizes of the buffers.
///
/// # Errors
/// [`Error::TensorTooLarge`] with the index of a tensor that exceeds `max_buffer` by itself.
pub fn pack(sizes: &[u64], max_buffer: u64) -> Result<(Vec<TensorLocation>, Vec<u64>)> {
    let preferred = max_buffer.min(WEIGHT_BUFFER_BYTES);
    let mut locations = Vec::with_capacity(sizes.len());
    let mut buffers: Vec<u64> = Vec::new();
    for (index, &bytes) in sizes.iter().enumerate() {
        if bytes > max_buffer {
            return Err(Error::TensorTooLarge { index, bytes, limit: max_buffer });
        }
        let end = buffers.last().map(|used| used.next_multiple_of(ALIGNMENT));
        match end {
            Some(offset) if offset.saturating_add(bytes) <= preferred => {
                locations.push(TensorLocation { buffer: buffers.len() - 1, offset });
                let last = buffers.len() - 1;
                buffers[last] = offset + bytes;
            }
            _ => {
                locations.push(TensorLocation { buffer: buffers.len(), offset: 0 });
                buffers.push(bytes);
            }
        }
    }
    Ok((locations, buffers))
}

#[cfg(test)]
mod tests {
    use zinc_kernels::ops::{Activation, CacheFormat};
    use zinc_kernels::step::MOST_ROWS;

    use super::*;
    use crate::config::{
        Architecture, AttentionLayer, ExpertWeightSum, ExpertWeights, FeedForward, Layer, Mixer, Rope, RopePairing,
        RopeScaling,
    };

    #[test]
    fn tensors_are_packed_in_order_and_never_overlap() {
        let sizes = [100, 256, 1, 0, 5_000, 4_096, 3];
        let (locations, buffers) = pack(&sizes, 5_000).expect("everything fits");
        for (i, (place, bytes)) in locations.iter().zip(sizes).enumerate() {
            assert_eq!(place.offset % ALIGNMENT, 0, "tensor {i}");
            assert!(place.offset + bytes <= buffers[place.buffer], "tensor {i}");
            assert!(buffers[place.buffer] <= 5_000, "tensor {i}");
            for (other, other_bytes) in locations[..i].iter().zip(sizes) {
                let apart = place.buffer != other.buffer || other.offset + other_bytes <= place.offset;
                assert!(apart, "tensor {i} overlaps an earlier one");
            }
        }
    }

    #[test]
    fn a_tensor_above_the_limit_is_named() {
        let error = pack(&[1, 6_000], 5_000).expect_err("the second is too large");
        assert!(matches!(error, Error::TensorTooLarge { index: 1, bytes: 6_000, limit: 5_000 }), "{error}");
    }

    #[test]
    fn buffers_stay_below_four_gib_and_huge_sizes_do_not_overflow() {
        let gib = 1 << 30;
        let (_, buffers) = pack(&[gib, gib, 3 * gib, gib / 2, gib / 2], 4 * gib - 1).expect("everything fits");
        assert_eq!(buffers, [gib, gib, 3 * gib, gib]);
        assert!(pack(&[u64::MAX], 4 * gib).is_err());
    }

    /// Qwen3-30B-A3B, whose chosen experts' products take the most of a step.
    #[test]
    fn steps_of_thousands_of_rows_are_planned() {
        let weights = ExpertWeights { sum: ExpertWeightSum::One, scale: 1.0 };
        let attention = AttentionLayer {
            n_head: 32,
            n_head_kv: 4,
            head_dim: 128,
            window: None,
            qk_norm: true,
            qkv_bias: false,
            output_bias: false,
            sinks: false,
            gate: false,
        };
        let layer = Layer {
            mixer: Mixer::Attention(attention),
            feed_forward: FeedForward::Experts {
                n_expert: 128,
                n_expert_used: 8,
                n_ff: 768,
                weights,
                activation: Activation::SwiGlu,
                bias: false,
                shared: None,
            },
        };
        let config = ModelConfig {
            architecture: Architecture::Qwen3Moe,
            n_embd: 2_048,
            layers: vec![layer; 48],
            mtp_blocks: Vec::new(),
            mtp: false,
            rms_eps: 1e-6,
            rope: Rope { base: 1e6, dims: 128, pairing: RopePairing::Halves, scaling: RopeScaling::None },
            n_ctx_train: 40_960,
            n_vocab: 151_936,
            tied_embeddings: false,
        };
        let sizes = Sizes { config: &config, cache: CacheOptions::new(4_096, CacheFormat::F16, CacheFormat::F16) };
        let bytes = |rows| sizes.activation_bytes(RowCounts::new(rows, 1));
        assert_eq!(u64::from(MOST_ROWS) * sizes.bytes(Array::ExpertProducts), 128 << 20);
        assert!((256 << 20..512 << 20).contains(&bytes(MOST_ROWS)), "{}", bytes(MOST_ROWS));
        // Each row costs the same, whatever the most rows are, but for what only the workgroups of few rows have.
        let row = bytes(513) - bytes(512);
        assert_eq!(bytes(MOST_ROWS) - bytes(512), u64::from(MOST_ROWS - 512) * row);
    }

    /// gpt-oss-20b: 24 layers with eight key heads of 64, every second of which attends to 128 positions.
    #[test]
    fn rings_take_the_place_of_half_of_a_long_context() {
        let layer = |index: u32| {
            let attention = AttentionLayer {
                n_head: 64,
                n_head_kv: 8,
                head_dim: 64,
                window: index.is_multiple_of(2).then_some(128),
                qk_norm: false,
                qkv_bias: true,
                output_bias: true,
                sinks: true,
                gate: false,
            };
            let feed_forward = FeedForward::Dense { n_ff: 2_880, activation: Activation::SwiGlu };
            Layer { mixer: Mixer::Attention(attention), feed_forward }
        };
        let config = ModelConfig {
            architecture: Architecture::GptOss,
            n_embd: 2_880,
            layers: (0..24).map(layer).collect(),
            mtp_blocks: Vec::new(),
            mtp: false,
            rms_eps: 1e-5,
            rope: Rope { base: 1.5e5, dims: 64, pairing: RopePairing::Halves, scaling: RopeScaling::None },
            n_ctx_train: 131_072,
            n_vocab: 201_088,
            tied_embeddings: false,
        };
        let cache = |rows| CacheOptions::new(131_072, CacheFormat::F16, CacheFormat::F16).with_rings(rows);
        let sizes = |rows| Sizes { config: &config, cache: cache(rows) };
        // A layer has 2 KiB of keys and values at each position.
        assert_eq!((sizes(0).kv_bytes(), sizes(0).window_bytes()), (6 << 30, 0));
        for (rows, ring_positions) in [(1, 192), (2, 192), (66, 256), (67, 320), (512, 704), (2_048, 2_240)] {
            assert_eq!(sizes(rows).kv_bytes(), (3 << 30) + 12 * ring_positions * 2_048, "{rows} rows");
        }
        assert_eq!(sizes(512).position_bytes(), 12 * 2_048);
        // A checkpoint has the two pages before a page's end, and three elsewhere.
        assert_eq!(sizes(512).window_bytes(), 3 * 64 * 12 * 2_048);
        assert_eq!([127, 128, 192, 193].map(|at| CacheOptions::pages_before(128, at)), [0..2, 0..2, 1..3, 1..4]);
        // The rings of eight lanes are as large as a pool of so many positions, so that there are none.
        let pool = |tokens| CacheOptions { lanes: 8, cache_tokens: Some(tokens), ..cache(512) };
        assert_eq!([8 * 704, 8 * 704 + 1].map(|tokens| pool(tokens).ring_pages(Some(128))), [0, 11]);
        assert_eq!([None, Some(1), Some(2)].map(|window| cache(1).ring_pages(window)), [0, 1, 2]);
    }

    #[test]
    fn a_plan_that_does_not_fit_says_which_context_would() {
        let plan = MemoryPlan {
            weights: 1_000,
            kv_cache: 9_000,
            recurrent: 100,
            work: 1_000,
            context: 1_000,
            bytes_per_position: 10,
        };
        assert!(plan.check(11_100).is_ok());
        match plan.check(6_100) {
            Err(Error::DoesNotFit { need: 11_100, available: 6_100, largest_context: 500, .. }) => {}
            other => panic!("{other:?}"),
        }
        match plan.check(0) {
            Err(Error::DoesNotFit { largest_context: 0, .. }) => {}
            other => panic!("{other:?}"),
        }
    }
}
