//! A model on a Vulkan device: its weights, its caches and its work arrays, and the recorder that turns a plan into commands.
//!
//! What belongs to a running sequence (tokens, reports, cancellation) is not here: its owner passes addresses in [`StepIo`].

mod dispatch;
mod fill;
mod record;
mod upload;

pub use record::{Drafted, ResidualStream, StepIo};

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use zinc_kernels::ops::{GROUP, MOST_STAGED};
use zinc_kernels::step::{MOST_LANES, MOST_ROWS, MOST_RUN, MOST_SAMPLING_ROWS, Rows, StepShape};
use zinc_kernels::{Pipelines, Target};
use zinc_vk::{AdapterKind, Buffer, Device, Placement, Uploader};

use crate::config::{AttentionLayer, FeedForward};
use crate::error::{Error, Result};
use crate::memory::{LoadOptions, MemoryPlan};
use crate::model::Model;
use crate::plan::{Array, ArrayClass, CacheOptions, Op, RowCounts, Sizes, StepPlan};
use crate::rotation::rotation_table;
use crate::weights::TensorId;
use upload::DeviceWeights;

/// The most bytes that the activations of a step can take: kernels reach them by 32-bit offsets.
pub const MOST_ACTIVATION_BYTES: u64 = u32::MAX as u64;

/// The longest range of layers of a step on a card, by the cost model.
pub const MOST_RANGE: Duration = Duration::from_millis(20);

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
    /// Device addresses of what all rows share: keys and values, or the recurrent states, of each layer.
    addresses: HashMap<Array, u64>,
    /// Keys and values of each layer with attention, in turn.
    caches: Vec<Arc<Buffer>>,
    /// The rings of the layers that have them.
    rings: Vec<Rings>,
    /// The recurrent states of all lanes, of each layer that has them.
    recurrent: Vec<RecurrentBuffer>,
    activations: Arc<Buffer>,
    /// Where each activation of the first row lies in the buffer, and how many rows have one.
    places: HashMap<Array, Place>,
    counts: RowCounts,
}

/// The recurrent states of a layer, one lane's behind the other's.
#[derive(Debug)]
struct RecurrentBuffer {
    buffer: Arc<Buffer>,
    /// Bytes of a lane's.
    lane_bytes: u64,
}

/// The keys, or the values, of a layer with a window, one lane's ring behind the other's.
#[derive(Debug)]
struct Rings {
    buffer: Arc<Buffer>,
    window: u32,
    /// Pages of a ring.
    pages: u32,
    /// Bytes of a page.
    page_bytes: u64,
}

/// A part of what a lane keeps beside the positions of the pool: of its recurrent state, or of a ring.
#[derive(Clone, Debug)]
pub struct StatePart {
    /// The buffer that holds it.
    pub buffer: Arc<Buffer>,
    /// Where it begins in the buffer, in bytes: a multiple of 16.
    pub offset: u64,
    /// Its size, in bytes.
    pub bytes: u64,
}

/// Where an activation lies.
#[derive(Clone, Copy, Debug)]
struct Place {
    /// That of the first row, from the beginning of the buffer, in bytes.
    offset: u64,
    /// Bytes from one row's to the next one's.
    stride: u32,
    /// How many rows have one.
    rows: u32,
}

impl DeviceModel {
    /// Checks that the model fits, uploads its weights and makes its caches. Models on one device share its `pipelines`. `progress` is called
    /// with the number of bytes of the file uploaded so far, in the end [`ModelWeights::bytes`](crate::weights::ModelWeights::bytes). With
    /// [`CacheOptions`] for `options`, steps have one row.
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
        let RowCounts { rows, sampling_rows } = options.counts;
        for (what, value, most) in [
            ("the number of lanes", cache.lanes, MOST_LANES),
            ("the number of pages of the cache", if cache.lanes > 1 { cache.pages() } else { 1 }, u32::MAX),
            ("the number of rows of a step", rows, MOST_ROWS),
            ("the number of rows that sample", sampling_rows, rows.min(MOST_SAMPLING_ROWS)),
            ("the number of rows that a step takes of a lane with drafts", 1 + cache.drafts, MOST_RUN),
            (
                "the number of rows of a step with rings",
                if cache.ring_rows > 0 { rows } else { 1 },
                cache.ring_rows.max(1),
            ),
        ] {
            if value == 0 || value > most {
                return Err(Error::KernelLimit { what, value, expected: format!("1 to {most}") });
            }
        }
        MemoryPlan::new(&model.config, &model.weights, options).check(available(device))?;
        let arrays = DeviceArrays::new(device, Sizes { config: &model.config, cache }, options.counts)?;
        let mut uploader = Uploader::new(device, upload::ring(model))?;
        let weights = DeviceWeights::upload(&mut uploader, device, model, progress)?;
        let factors = model.weights.rope_factors.map(|id| model.vector(id));
        let table = rotation_table(&model.config, factors.as_deref(), cache.context);
        let rotation = Buffer::new(device, "rotation", size_of_val(&table[..]) as u64, Placement::Device)?;
        uploader.upload(&rotation, 0, bytemuck::cast_slice(&table))?;
        let sizes = Sizes { config: &model.config, cache };
        for array in Array::ZEROED {
            let zeros = vec![0; sizes.zeroed_bytes(array) as usize];
            let place = arrays.place(array);
            for row in 0..place.rows {
                uploader.upload(&arrays.activations, place.of_row(row), &zeros)?;
            }
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

    /// What its kernels are chosen for.
    #[must_use]
    pub fn target(&self) -> &Target {
        &self.target
    }

    /// The fewest rows of a step that samples whose products go by tiles, for [`PlanOptions::with_tiled_rows`](crate::plan::PlanOptions::with_tiled_rows).
    #[must_use]
    pub fn sampling_tiled_rows(&self) -> u32 {
        let (tuning, config) = (&self.target.tuning, &self.model.config);
        let is_dense = config.layers.iter().all(|layer| matches!(layer.feed_forward, FeedForward::Dense { .. }));
        if is_dense && config.n_embd >= tuning.wide { tuning.wide_tiled_rows } else { tuning.sampling_tiled_rows }
    }

    /// The most rows that its steps can have.
    #[must_use]
    pub fn counts(&self) -> RowCounts {
        self.arrays.counts
    }

    /// Cuts a step into the ranges of layers that are submitted one by one. Displays, other programs and cancellations wait for a submission, so that
    /// none may keep a card for much longer than `most`, [`MOST_RANGE`] or less, by [`Cost::seconds`](crate::plan::Cost::seconds) at the end of the context.
    /// Processors and integrated graphics are slower, and get each layer by itself.
    #[must_use]
    pub fn ranges(&self, plan: StepPlan, most: Duration) -> Vec<StepPlan> {
        let slow = matches!(self.device().facts().kind, AdapterKind::Cpu | AdapterKind::Integrated);
        let most_seconds = if slow { 0.0 } else { most.min(MOST_RANGE).as_secs_f64() };
        let shape = plan.shape;
        let last = self.cache.context.saturating_sub(shape.rows());
        plan.into_ranges(most_seconds, |op| self.seconds(op, last, shape))
    }

    /// How long a step, or a range of it, takes by [`Cost::seconds`](crate::plan::Cost::seconds) if its first row is at `position`, with all rows of its shape.
    #[must_use]
    pub fn estimate(&self, plan: &StepPlan, position: u32) -> Duration {
        Duration::from_secs_f64(plan.ops.iter().map(|op| self.seconds(op, position, plan.shape)).sum())
    }

    /// What an op of a step of many rows takes by [`Cost::seconds`](crate::plan::Cost::seconds), in seconds. Attention by matrix units is counted as twice as
    /// fast: on an H200 they do 220e12 operations of attention in a second and 100e12 of products. How long a range takes relative to its estimate must be
    /// the same at every depth, since the scheduler learns it at one depth and uses it at others.
    fn seconds(&self, op: &Op, position: u32, shape: StepShape) -> f64 {
        let seconds = op.cost(&self.model.weights, &self.sizes(), position, shape).seconds();
        let by_units = matches!(op, Op::AttentionRows { .. }) && self.target.half_units.is_some();
        if by_units { seconds / 2.0 } else { seconds }
    }

    /// Whether steps that feed have a residual stream of their own, so that other steps may run between their ranges.
    #[must_use]
    pub fn carries(&self) -> bool {
        self.arrays.place(Array::CarriedResidual).rows > 0
    }

    /// The buffer that holds an activation of a step's row number `row`, from 0; where in it that lies, and its size in bytes.
    ///
    /// # Panics
    /// If `array` is no activation, or if that row has none.
    #[must_use]
    pub fn activation(&self, array: Array, row: u32) -> (&Arc<Buffer>, u64, u64) {
        let place = self.arrays.place(array);
        assert!(row < place.rows, "row {row} of {array:?}, of which {} rows have one", place.rows);
        (&self.arrays.activations, place.of_row(row), self.sizes().bytes(array))
    }

    /// The buffers of the cache: keys and values of each layer with attention, in turn.
    #[must_use]
    pub fn caches(&self) -> &[Arc<Buffer>] {
        &self.arrays.caches
    }

    /// What a lane whose sequence has reached `position` keeps beside the positions of the pool: its recurrent state, and of rings the pages that the window of the next
    /// row reaches into. Empty in models without. A copy of all parts, taken between two steps, can be put into any lane, whose sequence then goes on at the same position
    /// with the positions before it, as far as they are in the pool.
    ///
    /// # Panics
    /// If the model has fewer lanes.
    #[must_use]
    pub fn state(&self, lane: u32, position: u32) -> Vec<StatePart> {
        assert!(lane < self.cache.lanes, "lane {lane} of {}", self.cache.lanes);
        let recurrent = self.arrays.recurrent.iter().map(|of| StatePart {
            buffer: of.buffer.clone(),
            offset: u64::from(lane) * of.lane_bytes,
            bytes: of.lane_bytes,
        });
        let windows = self.arrays.rings.iter().flat_map(|of| {
            CacheOptions::pages_before(of.window, position).map(move |page| StatePart {
                buffer: of.buffer.clone(),
                offset: u64::from(lane * of.pages + page % of.pages) * of.page_bytes,
                bytes: of.page_bytes,
            })
        });
        recurrent.chain(windows).collect()
    }

    /// Bytes of [`Self::state`] at most, wherever the sequence is; 0 in models without.
    #[must_use]
    pub fn state_bytes(&self) -> u64 {
        self.model.config.recurrent_bytes(self.cache.drafts) + self.sizes().window_bytes()
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

impl Place {
    /// Where the activation of a row lies.
    fn of_row(self, row: u32) -> u64 {
        self.offset + u64::from(row) * u64::from(self.stride)
    }
}

impl DeviceArrays {
    fn new(device: &Arc<Device>, sizes: Sizes<'_>, counts: RowCounts) -> Result<Self> {
        let (bytes, limit) = (sizes.activation_bytes(counts), MOST_ACTIVATION_BYTES);
        if bytes > limit {
            return Err(Error::ActivationsTooLarge { bytes, rows: counts.rows, limit });
        }
        let mut places = HashMap::new();
        let mut end = 0;
        for class in ArrayClass::IN_MEMORY {
            let rows = counts.of(class, sizes.cache.lanes);
            let mut offset = end;
            for (array, _) in Array::ACTIVATIONS.into_iter().filter(|(_, of)| *of == class) {
                let (in_all_rows, stride) = match class {
                    ArrayClass::Row
                    | ArrayClass::SamplingRow
                    | ArrayClass::Step
                    | ArrayClass::Carried
                    | ArrayClass::Tiled => (1, sizes.record_bytes(class)),
                    ArrayClass::Packed | ArrayClass::Workgroups => (u64::from(rows), sizes.bytes(array)),
                };
                places.insert(array, Place { offset, stride: stride as u32, rows });
                offset += in_all_rows * sizes.aligned_bytes(array);
            }
            end += u64::from(rows) * sizes.record_bytes(class);
        }
        let activations = Buffer::new(device, "activations", bytes, Placement::Device)?;
        let (mut addresses, mut caches, mut rings) = (HashMap::new(), Vec::new(), Vec::new());
        for layer in 0..sizes.config.n_block() {
            let Some(attention) = sizes.config.attention(layer) else { continue };
            for array in [Array::KeyCache(layer), Array::ValueCache(layer)] {
                let buffer = Buffer::new(device, &format!("{array:?}"), sizes.bytes(array), Placement::Device)?;
                addresses.insert(array, buffer.address());
                caches.push(buffer.clone());
                let pages = sizes.ring_pages(layer);
                if let Some(window) = attention.window.filter(|_| pages > 0) {
                    let page_bytes = buffer.size() / u64::from(sizes.cache.lanes * pages);
                    rings.push(Rings { buffer, window, pages, page_bytes });
                }
            }
        }
        let mut recurrent = Vec::new();
        for layer in (0..sizes.config.n_layer()).filter(|layer| sizes.recurrent_bytes(*layer) > 0) {
            let array = Array::Recurrent(layer);
            let buffer = Buffer::new(device, &format!("{array:?}"), sizes.bytes(array), Placement::Device)?;
            addresses.insert(array, buffer.address());
            recurrent.push(RecurrentBuffer { buffer, lane_bytes: sizes.recurrent_bytes(layer) });
        }
        Ok(Self { addresses, caches, rings, recurrent, activations, places, counts })
    }

    fn place(&self, array: Array) -> Place {
        *self.places.get(&array).unwrap_or_else(|| panic!("{array:?} is no activation"))
    }

    /// An activation as an operand of kernels.
    fn rows(&self, array: Array) -> Rows {
        let Place { offset, stride, .. } = self.place(array);
        Rows { address: self.activations.address() + offset, stride }
    }

    fn buffers(&self) -> impl Iterator<Item = &Arc<Buffer>> {
        let recurrent = self.recurrent.iter().map(|of| &of.buffer);
        self.caches.iter().chain(recurrent).chain([&self.activations])
    }
}

impl Sizes<'_> {
    /// Whether attention of every layer can round what it stores in steps of few rows, so that products need not.
    pub(crate) fn rounds_attended(&self, target: &Target) -> bool {
        let CacheOptions { context, key_format, value_format, .. } = self.cache;
        let mut layers = (0..self.config.n_block()).filter(|layer| self.config.attention(*layer).is_some());
        layers.all(|layer| self.heads(layer).whole_groups(target, [key_format, value_format], context))
    }
}

/// Checks that workgroups of matrix products can keep what they need of activations.
fn check_activations(sizes: &Sizes<'_>, target: &Target) -> Result<()> {
    let hidden = sizes.config.blocks().map(|layer| {
        let (slots, width) = layer.feed_forward.hidden();
        let shared = layer.feed_forward.shared().map_or(0, |shared| shared.n_ff.next_multiple_of(GROUP));
        width.next_multiple_of(GROUP).saturating_mul(slots).max(shared)
    });
    // Up to MOST_STAGED a workgroup rounds the vectors itself, beyond it they are rounded before.
    let kept_hidden = hidden.clone().filter(|hidden| *hidden <= MOST_STAGED).max().unwrap_or(0);
    let staged = target.widest_staged();
    // What comes out of a gate is rounded by its op.
    let ungated = sizes.attentions().filter(|attention| !attention.gate);
    let q_width = ungated.map(AttentionLayer::q_width).max().unwrap_or(0);
    let attended = if sizes.rounds_attended(target) { 0 } else { q_width };
    let mtp_input = if sizes.config.mtp { (2 * sizes.config.n_embd).next_multiple_of(GROUP) } else { 0 };
    let kept_mtp_input = if mtp_input <= MOST_STAGED { mtp_input } else { 0 };
    for (what, value, most) in [
        ("the width", sizes.config.n_embd, staged),
        ("the width of the input of multi-token prediction", kept_mtp_input, staged),
        ("the width of all query heads", attended, staged),
        ("the hidden width of all experts used", kept_hidden, staged),
        ("the hidden width of all experts used", hidden.max().unwrap_or(0), target.widest_hidden()),
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
    use zinc_kernels::ops::{Activation, CacheFormat};

    use super::*;
    use crate::config::{Architecture, FeedForward, Layer, Mixer, ModelConfig, Rope, RopePairing, RopeScaling};

    const ATTENTION: AttentionLayer = AttentionLayer {
        n_head: 32,
        n_head_kv: 8,
        head_dim: 64,
        window: None,
        qk_norm: false,
        qkv_bias: false,
        output_bias: false,
        sinks: false,
        gate: false,
    };
    const N_FF: u32 = 8_192;

    /// A model of layers with such attention and a dense part of such a width.
    fn config(n_embd: u32, layers: &[(AttentionLayer, u32)]) -> ModelConfig {
        let layer = |&(attention, n_ff)| Layer {
            mixer: Mixer::Attention(attention),
            feed_forward: FeedForward::Dense { n_ff, activation: Activation::SwiGlu },
        };
        ModelConfig {
            architecture: Architecture::Llama,
            n_embd,
            layers: layers.iter().map(layer).collect(),
            mtp_blocks: Vec::new(),
            mtp: false,
            rms_eps: 1e-6,
            rope: Rope { base: 1e4, dims: 64, pairing: RopePairing::Neighbours, scaling: RopeScaling::None },
            n_ctx_train: 4_096,
            n_vocab: 32_000,
            tied_embeddings: false,
        }
    }

    fn check(config: &ModelConfig, target: &Target) -> Option<String> {
        let cache = CacheOptions::new(4_096, CacheFormat::F16, CacheFormat::F16);
        check_activations(&Sizes { config, cache }, target).err().map(|error| error.to_string())
    }

    #[test]
    fn activations_that_a_workgroup_cannot_keep_are_refused() {
        let card = Target::new(32);
        let cpu = Target { tuning: Tuning::CPU, ..Target::new(8) };
        let small = Target { shared_bytes: 16 << 10, ..card };
        // A head a workgroup, whose 128 elements are no whole group.
        let single_heads = AttentionLayer { n_head: 80, n_head_kv: 80, head_dim: 128, ..ATTENTION };
        let usual = (ATTENTION, N_FF);
        for target in [card, cpu] {
            assert_eq!(check(&config(2_048, &[usual]), &target), None);
            assert_eq!(check(&config(2_048, &[(ATTENTION, 28_672), usual]), &target), None);
            for (config, expected) in [
                (config(16_384, &[usual]), "the width is 16384"),
                (config(2_048, &[(single_heads, N_FF), usual]), "the width of all query heads is 10240"),
                (config(2_048, &[usual, (ATTENTION, 1 << 20)]), "the hidden width of all experts used is 1048576"),
            ] {
                let error = check(&config, &target).unwrap_or_default();
                assert!(error.starts_with(expected) && error.contains("share 32768 bytes"), "{error}");
            }
        }
        let error = check(&config(2_048, &[usual]), &small).unwrap_or_default();
        assert!(error.starts_with("the hidden width of all experts used is 8192"), "{error}");
    }
}
