//! A model on a Vulkan device: its weights, its caches and its work arrays, and the recorder that turns a plan into commands.
//!
//! What belongs to a running sequence (prompt, reports, cancellation) is not here: its owner passes addresses in [`StepIo`].

mod fill;
mod record;
mod upload;

pub use record::StepIo;

use std::collections::HashMap;
use std::sync::Arc;

use zinc_kernels::{Pipelines, Target};
use zinc_vk::{Buffer, Device, Placement, Uploader};

use crate::error::{Error, Result};
use crate::memory::{ALIGNMENT, MemoryPlan};
use crate::model::Model;
use crate::plan::{Array, CacheOptions, Sizes};
use crate::rotation::rotation_table;
use crate::weights::TensorId;
use upload::DeviceWeights;

/// A loaded model.
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

/// Addresses of the arrays, and the buffers that hold them.
#[derive(Debug)]
struct DeviceArrays {
    addresses: HashMap<Array, u64>,
    caches: Vec<Arc<Buffer>>,
    activations: Arc<Buffer>,
    /// Where the activations lie in their buffer.
    offsets: HashMap<Array, u64>,
}

impl DeviceModel {
    /// Checks that the model fits, uploads its weights and makes its caches. Models on one device share its `pipelines`. `progress` hears
    /// of the bytes of the file uploaded so far, [`ModelWeights::bytes`](crate::weights::ModelWeights::bytes) in the end.
    ///
    /// # Errors
    /// [`Error::DoesNotFit`] or [`Error::KernelLimit`] before anything is uploaded, or what the device says.
    pub fn load(
        pipelines: &Arc<Pipelines>,
        model: &Arc<Model>,
        cache: CacheOptions,
        progress: &mut dyn FnMut(u64),
    ) -> Result<Self> {
        let device = pipelines.device();
        let target = pipelines.target();
        let (width, widest) = (model.config.n_embd, target.widest_norm());
        if width > widest {
            let expected =
                format!("at most {widest} on this device, whose workgroups share {} bytes", target.shared_bytes);
            return Err(Error::KernelLimit { what: "the width", value: width, expected });
        }
        MemoryPlan::new(&model.config, &model.weights, cache).check(available(device))?;
        let arrays = DeviceArrays::new(device, Sizes { config: &model.config, cache })?;
        let mut uploader = Uploader::new(device, upload::ring(model))?;
        let weights = DeviceWeights::upload(&mut uploader, device, model, progress)?;
        let factors = model.weights.rope_factors.map(|id| model.vector(id));
        let table = rotation_table(&model.config, factors.as_deref(), cache.context);
        let rotation = Buffer::new(device, "rotation", size_of_val(&table[..]) as u64, Placement::Device)?;
        uploader.upload(&rotation, 0, bytemuck::cast_slice(&table))?;
        let counters = vec![0; Sizes { config: &model.config, cache }.bytes(Array::Counters) as usize];
        uploader.upload(&arrays.activations, arrays.offsets[&Array::Counters], &counters)?;
        uploader.finish()?.wait()?;
        // The submissions hold the ring, and nothing else may come on that queue to let go of them.
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

    /// Its cache.
    #[must_use]
    pub fn cache(&self) -> CacheOptions {
        self.cache
    }

    /// The buffer that holds an activation, where in it that lies, and its size in bytes.
    ///
    /// # Panics
    /// If `array` is a cache or the state, which are no activations.
    #[must_use]
    pub fn activation(&self, array: Array) -> (&Arc<Buffer>, u64, u64) {
        let offset = self.arrays.offsets.get(&array).unwrap_or_else(|| panic!("{array:?} is no activation"));
        (&self.arrays.activations, *offset, self.sizes().bytes(array))
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

/// Bytes that can still be allocated on the device: its largest device-local heap, or its largest heap where none is.
#[must_use]
pub fn available(device: &Device) -> u64 {
    let heaps = device.memory_report().heaps;
    let largest =
        |local: bool| heaps.iter().filter(|heap| heap.device_local || !local).map(|heap| heap.available).max();
    largest(true).or(largest(false)).unwrap_or(0)
}

impl DeviceArrays {
    fn new(device: &Arc<Device>, sizes: Sizes<'_>) -> Result<Self> {
        let mut addresses = HashMap::new();
        let mut offsets = HashMap::new();
        let mut total = 0u64;
        for array in Array::ACTIVATIONS {
            offsets.insert(array, total);
            total += sizes.bytes(array).next_multiple_of(ALIGNMENT);
        }
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
        Ok(Self { addresses, caches, activations, offsets })
    }

    fn buffers(&self) -> impl Iterator<Item = &Arc<Buffer>> {
        self.caches.iter().chain([&self.activations])
    }
}
