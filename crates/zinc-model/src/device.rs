//! A model on a Vulkan device: its weights, its caches and its work arrays, and the recorder that turns a plan into commands.
//!
//! What belongs to a running sequence (tokens, reports, cancellation) is not here: its owner passes addresses in [`StepIo`].

mod fill;
mod record;
mod upload;

pub use record::{ChainIo, StepIo};

use std::collections::HashMap;
use std::sync::Arc;

use zinc_kernels::ops::{Batch, GROUP, MAX_BATCH, MOST_STAGED};
use zinc_kernels::{Pipelines, Target};
use zinc_vk::{Buffer, Device, Placement, Uploader};

use crate::error::{Error, Result};
use crate::memory::{LoadOptions, MemoryPlan};
use crate::model::Model;
use crate::plan::{ALIGNMENT, Array, CacheOptions, Sizes};
use crate::rotation::rotation_table;
use crate::weights::TensorId;
use upload::DeviceWeights;

/// A model that is loaded onto a device.
#[derive(Debug)]
pub struct DeviceModel {
    model: Arc<Model>,
    cache: CacheOptions,
    pipelines: Arc<Pipelines>,
    target: Target,
    weights: DeviceWeights,
    rotation: Arc<Buffer>,
    arrays: DeviceArrays,
}

/// The arrays that ops work on: the buffers that hold them, and where each lies.
#[derive(Debug)]
struct DeviceArrays {
    /// Device addresses; of an activation, that of a step's first token.
    addresses: HashMap<Array, u64>,
    /// Keys and values of each layer, in turn.
    caches: Vec<Arc<Buffer>>,
    activations: Arc<Buffer>,
    /// Where the activations of a step's first token lie in their buffer.
    offsets: HashMap<Array, u64>,
    /// For how many tokens there are activations, and how many bytes lie between those of one token and the next.
    batch: Batch,
}

impl DeviceModel {
    /// Checks that the model fits, uploads its weights and makes its caches. Models on one device share its `pipelines`. `progress` is called
    /// with the number of bytes of the file uploaded so far, in the end [`ModelWeights::bytes`](crate::weights::ModelWeights::bytes). With
    /// [`CacheOptions`] for `options`, steps take one token.
    ///
    /// # Errors
    /// [`Error::DoesNotFit`] or [`Error::KernelLimit`] before anything is uploaded, or what the device says.
    pub fn load(
        pipelines: &Arc<Pipelines>,
        model: &Arc<Model>,
        options: impl Into<LoadOptions>,
        progress: &mut dyn FnMut(u64),
    ) -> Result<Self> {
        let options = options.into();
        let cache = options.cache;
        let device = pipelines.device();
        let target = pipelines.target();
        check_activations(&Sizes { config: &model.config, cache }, &target)?;
        if options.batch == 0 || options.batch > MAX_BATCH {
            let expected = format!("1 to {MAX_BATCH}");
            return Err(Error::KernelLimit { what: "the number of tokens of a step", value: options.batch, expected });
        }
        MemoryPlan::new(&model.config, &model.weights, options).check(available(device))?;
        let arrays = DeviceArrays::new(device, Sizes { config: &model.config, cache }, options.batch)?;
        let mut uploader = Uploader::new(device, upload::ring(model))?;
        let weights = DeviceWeights::upload(&mut uploader, device, model, progress)?;
        let factors = model.weights.rope_factors.map(|id| model.vector(id));
        let table = rotation_table(&model.config, factors.as_deref(), cache.context);
        let rotation = Buffer::new(device, "rotation", size_of_val(&table[..]) as u64, Placement::Device)?;
        uploader.upload(&rotation, 0, bytemuck::cast_slice(&table))?;
        let sizes = Sizes { config: &model.config, cache };
        for (array, token) in
            Array::ZEROED.into_iter().flat_map(|array| (0..options.batch).map(move |token| (array, token)))
        {
            let zeros = vec![0; sizes.bytes(array) as usize];
            uploader.upload(&arrays.activations, arrays.offset(array, token), &zeros)?;
        }
        uploader.finish()?.wait()?;
        // The submissions keep the staging ring alive. They are collected here, because the queue may never be used again.
        uploader.queue().collect()?;
        Ok(Self { model: model.clone(), cache, pipelines: pipelines.clone(), target, weights, rotation, arrays })
    }

    /// The device.
    #[must_use]
    pub fn device(&self) -> &Arc<Device> {
        self.pipelines.device()
    }

    /// The model.
    #[must_use]
    pub fn model(&self) -> &Arc<Model> {
        &self.model
    }

    /// The size and the formats of its KV cache.
    #[must_use]
    pub fn cache(&self) -> CacheOptions {
        self.cache
    }

    /// The most tokens that a step can take.
    #[must_use]
    pub fn batch(&self) -> u32 {
        self.arrays.batch.tokens
    }

    /// The buffer that holds an activation of a step's first token, where in it that lies, and its size in bytes.
    ///
    /// # Panics
    /// If `array` is no activation.
    #[must_use]
    pub fn activation(&self, array: Array) -> (&Arc<Buffer>, u64, u64) {
        self.activation_of(array, 0)
    }

    /// The buffer that holds an activation of a step's token number `token`, from 0; where in it that lies, and its size in bytes.
    ///
    /// # Panics
    /// If `array` is no activation, or if steps take fewer tokens.
    #[must_use]
    pub fn activation_of(&self, array: Array, token: u32) -> (&Arc<Buffer>, u64, u64) {
        assert!(token < self.batch(), "there is no token {token} in steps of {} tokens", self.batch());
        (&self.arrays.activations, self.arrays.offset(array, token), self.sizes().bytes(array))
    }

    /// The buffer that holds a tensor and where in it that lies. Its rows have the form that
    /// [`repack_rows`](zinc_kernels::formats::repack_rows) makes.
    #[must_use]
    pub fn tensor(&self, id: TensorId) -> (&Arc<Buffer>, u64) {
        self.weights.tensor(id)
    }

    fn sizes(&self) -> Sizes<'_> {
        Sizes { config: &self.model.config, cache: self.cache }
    }
}

/// Bytes that can still be allocated on the device: those of its device-local heap with most left, or of any heap if none is device-local.
#[must_use]
pub fn available(device: &Device) -> u64 {
    let heaps = device.memory_report().heaps;
    let largest =
        |local: bool| heaps.iter().filter(|heap| heap.device_local || !local).map(|heap| heap.available).max();
    largest(true).or(largest(false)).unwrap_or(0)
}

impl DeviceArrays {
    fn new(device: &Arc<Device>, sizes: Sizes<'_>, tokens: u32) -> Result<Self> {
        let mut addresses = HashMap::new();
        let mut offsets = HashMap::new();
        let mut end = 0u64;
        for array in Array::ACTIVATIONS {
            offsets.insert(array, end);
            end += sizes.bytes(array).next_multiple_of(ALIGNMENT);
        }
        let total = u64::from(tokens) * sizes.activation_bytes();
        let limit = u64::from(u32::MAX);
        if total > limit {
            return Err(Error::ActivationsTooLarge { bytes: total, tokens, limit });
        }
        let batch = Batch { tokens, stride: sizes.activation_bytes() as u32 };
        let activations = Buffer::new(device, "activations", total, Placement::Device)?;
        for (array, offset) in &offsets {
            addresses.insert(*array, activations.address() + offset);
        }
        let mut caches = Vec::new();
        for layer in 0..sizes.config.n_layer {
            for array in [Array::KeyCache(layer), Array::ValueCache(layer)] {
                let buffer = Buffer::new(device, &format!("{array:?}"), sizes.bytes(array), Placement::Device)?;
                addresses.insert(array, buffer.address());
                caches.push(buffer);
            }
        }
        Ok(Self { addresses, caches, activations, offsets, batch })
    }

    /// Where an activation of a step's token number `token` lies in the buffer.
    fn offset(&self, array: Array, token: u32) -> u64 {
        let first = self.offsets.get(&array).unwrap_or_else(|| panic!("{array:?} is no activation"));
        first + u64::from(token) * u64::from(self.batch.stride)
    }

    fn buffers(&self) -> impl Iterator<Item = &Arc<Buffer>> {
        self.caches.iter().chain([&self.activations])
    }
}

/// Checks that workgroups of matrix products can keep what they need of activations.
fn check_activations(sizes: &Sizes<'_>, target: &Target) -> Result<()> {
    let (slots, rows) = sizes.hidden();
    let hidden = rows.next_multiple_of(GROUP).saturating_mul(slots);
    let staged = target.widest_staged();
    let attended = if sizes.heads().whole_groups(target, sizes.cache.context) { 0 } else { sizes.config.q_width() };
    for (what, value, most) in [
        ("the width", sizes.config.n_embd, staged),
        ("the width of all query heads", attended, staged),
        // Up to MOST_STAGED a workgroup rounds the vectors itself, beyond it they are rounded before.
        ("the hidden width of all experts used", if hidden <= MOST_STAGED { hidden } else { 0 }, staged),
        ("the hidden width of all experts used", hidden, target.widest_hidden()),
    ] {
        if value > most {
            let expected =
                format!("at most {most} on this device, whose workgroups share {} bytes", target.shared_bytes);
            return Err(Error::KernelLimit { what, value, expected });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use zinc_kernels::Tuning;
    use zinc_kernels::ops::CacheFormat;

    use super::*;
    use crate::config::{Architecture, FeedForward, ModelConfig, Rope, RopePairing, RopeScaling};

    const CONFIG: ModelConfig = ModelConfig {
        architecture: Architecture::Llama,
        n_layer: 1,
        n_embd: 2_048,
        n_head: 32,
        n_head_kv: 8,
        head_dim: 64,
        feed_forward: FeedForward::Dense { n_ff: 8_192 },
        rms_eps: 1e-6,
        rope: Rope { base: 1e4, dims: 64, pairing: RopePairing::Neighbours, scaling: RopeScaling::None },
        n_ctx_train: 4_096,
        n_vocab: 32_000,
        qk_norm: false,
        qkv_bias: false,
        tied_embeddings: false,
    };

    fn check(config: &ModelConfig, target: &Target) -> Option<String> {
        let cache = CacheOptions::new(4_096, CacheFormat::F16, CacheFormat::F16);
        check_activations(&Sizes { config, cache }, target).err().map(|error| error.to_string())
    }

    #[test]
    fn activations_that_a_workgroup_cannot_keep_are_refused() {
        let card = Target::new(32);
        let cpu = Target { tuning: Tuning::CPU, ..Target::new(8) };
        let small = Target { shared_bytes: 16 << 10, ..card };
        let wide_hidden = ModelConfig { feed_forward: FeedForward::Dense { n_ff: 1 << 20 }, ..CONFIG };
        // A head a workgroup, whose 128 elements are no whole group.
        let single_heads = ModelConfig { n_head: 80, n_head_kv: 80, head_dim: 128, ..CONFIG };
        for target in [card, cpu] {
            assert_eq!(check(&CONFIG, &target), None);
            assert_eq!(
                check(&ModelConfig { feed_forward: FeedForward::Dense { n_ff: 28_672 }, ..CONFIG }, &target),
                None
            );
            for (config, expected) in [
                (ModelConfig { n_embd: 16_384, ..CONFIG }, "the width is 16384"),
                (single_heads.clone(), "the width of all query heads is 10240"),
                (wide_hidden.clone(), "the hidden width of all experts used is 1048576"),
            ] {
                let error = check(&config, &target).unwrap_or_default();
                assert!(error.starts_with(expected) && error.contains("share 32768 bytes"), "{error}");
            }
        }
        let error = check(&CONFIG, &small).unwrap_or_default();
        assert!(error.starts_with("the hidden width of all experts used is 8192"), "{error}");
    }
}
