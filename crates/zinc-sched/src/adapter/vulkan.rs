//! A model on a Vulkan device as a [`StepModel`]: one recording for each ring slot and step shape, made once and submitted for every
//! token; or the baseline, which records every step anew and waits for a fence.

mod profile;

pub use profile::OpTimes;

use std::collections::VecDeque;
use std::sync::Arc;

use zinc_kernels::generated::state::{StepReport, StepState};
use zinc_kernels::ops::ActFormat;
use zinc_model::device::{DeviceModel, StepIo};
use zinc_model::plan::{Array, Plan, Shape};
use zinc_model::{Error, Result};
use zinc_vk::{
    Access, Buffer, ClockCalibration, Device, Placement, QueueKind, Recording, RecordingBuilder, RecordingStats, Stage,
    TimelinePoint, Timestamps, WaitPolicy, host_now_ns,
};

use super::sequence::{MAX_END_TOKENS, end_tokens, initial_state};
use super::{Score, step_output};
use crate::model::{
    GpuSpan, ModelCounters, ModelLimits, SequenceStart, StepModel, StepOutput, StepShape, StepTiming, Ticket,
};
use crate::request::Tracing;
use crate::sampling::Sampling;
use crate::window::InflightDepth;

/// How the host and the device keep step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sync {
    /// Recorded once, queued ahead on the timeline.
    #[default]
    Timeline,
    /// Recorded anew for each step, submitted, and waited for with a binary fence: what other engines do, kept as the baseline.
    Fence,
}

/// How a [`VulkanModel`] is driven.
#[derive(Clone, Copy, Debug)]
pub struct VulkanOptions {
    /// How the host and the device keep step.
    pub sync: Sync,
    /// Steps that may be in flight: a recording of each shape is made for each.
    pub depth: InflightDepth,
    /// The form of the activations that quantised weights meet.
    pub act: ActFormat,
    /// Whether steps are stamped with the device's clock, for traces. It costs a copy a step.
    pub stamps: Tracing,
}

/// Where the parts of a sequence lie in [`VulkanModel::sequence`] and in its image, in bytes.
const STATE_OFFSET: u64 = 0;
const END_TOKENS_OFFSET: u64 = 256;
const TOKENS_OFFSET: u64 = END_TOKENS_OFFSET + 4 * MAX_END_TOKENS as u64;
const _: () = assert!(size_of::<StepState>() as u64 <= END_TOKENS_OFFSET);

/// Bytes from one report to the next: whole cache lines, so that the device never writes to one that the host is reading.
const REPORT_STRIDE: u64 = 128;
/// Where in a report's slot the step's two timestamps lie.
const STAMPS_OFFSET: u64 = 64;
const _: () = assert!(size_of::<StepReport>() as u64 <= STAMPS_OFFSET && STAMPS_OFFSET + 16 <= REPORT_STRIDE);

/// A model on a device.
#[derive(Debug)]
pub struct VulkanModel {
    model: Arc<DeviceModel>,
    options: VulkanOptions,
    limits: ModelLimits,
    feed: Plan,
    decode: Plan,
    /// State, end tokens and tokens, on the device.
    sequence: Arc<Buffer>,
    /// The same, as the host writes it for a new sequence.
    image: Arc<Buffer>,
    /// The number of the sequence that the host wants stopped.
    cancelled: Arc<Buffer>,
    reports: Arc<Buffer>,
    timestamps: Option<Arc<Timestamps>>,
    clock: Option<ClockCalibration>,
    begin: Arc<Recording>,
    /// By ring slot; empty for the baseline.
    slots: Vec<Slot>,
    sequence_number: u32,
    next_ticket: u64,
    in_flight: VecDeque<InFlight>,
    waited_ns: u64,
}

#[derive(Debug)]
struct Slot {
    feed: Arc<Recording>,
    decode: Arc<Recording>,
}

#[derive(Debug)]
struct InFlight {
    ticket: Ticket,
    slot: u32,
    /// `None` once the baseline has waited for it.
    point: Option<TimelinePoint>,
    submitted_at_ns: u64,
    submit_done_ns: u64,
}

impl VulkanModel {
    /// Makes the buffers and recordings that sequences need. Several may be made of one [`DeviceModel`], to drive it in several ways:
    /// they share its cache, and only one of them may have steps in flight.
    ///
    /// # Errors
    /// What the device says.
    pub fn new(model: impl Into<Arc<DeviceModel>>, options: VulkanOptions) -> Result<Self> {
        let model = model.into();
        let device = model.device().clone();
        let context = model.cache().context;
        let depth = match options.sync {
            Sync::Timeline => options.depth.get(),
            Sync::Fence => 1,
        };
        let bytes = TOKENS_OFFSET + 4 * model.cache().token_places();
        let sequence = Buffer::new(&device, "sequence", bytes, Placement::Device)?;
        let image = Buffer::new(&device, "sequence image", bytes, Placement::Upload)?;
        let cancelled = Buffer::new(&device, "cancelled", 4, Placement::Upload)?;
        cancelled.store_u32(0, 0);
        let reports = Buffer::new(&device, "reports", REPORT_STRIDE * u64::from(depth), Placement::Readback)?;
        let begin = record_begin(&device, &image, &sequence)?;
        let mut this = Self {
            limits: ModelLimits {
                context_tokens: context,
                vocabulary_tokens: model.model().config.n_vocab,
                ring_slots: depth,
            },
            feed: Plan::new(&model.model().weights, Shape::Feed, options.act),
            decode: Plan::new(&model.model().weights, Shape::Decode, options.act),
            timestamps: match options.stamps {
                Tracing::Off => None,
                Tracing::On => Some(Timestamps::new(&device, 2 * depth)?),
            },
            clock: None,
            slots: Vec::new(),
            sequence_number: 0,
            next_ticket: 0,
            in_flight: VecDeque::new(),
            waited_ns: 0,
            model,
            options,
            sequence,
            image,
            cancelled,
            reports,
            begin,
        };
        if options.sync == Sync::Timeline {
            this.slots = (0..depth)
                .map(|slot| {
                    Ok(Slot {
                        feed: this.record(StepShape::Feed, slot)?.finish()?,
                        decode: this.record(StepShape::Decode, slot)?.finish()?,
                    })
                })
                .collect::<Result<_>>()?;
        }
        Ok(this)
    }

    /// The device.
    #[must_use]
    pub fn device(&self) -> &Arc<Device> {
        self.model.device()
    }

    /// The loaded model.
    #[must_use]
    pub fn model(&self) -> &Arc<DeviceModel> {
        &self.model
    }

    /// The operations of a step.
    #[must_use]
    pub fn plan(&self, shape: StepShape) -> &Plan {
        match shape {
            StepShape::Feed => &self.feed,
            StepShape::Decode => &self.decode,
        }
    }

    /// What the recording of a step consists of.
    ///
    /// # Errors
    /// What the device says: it is recorded once more to be counted.
    pub fn step_stats(&self, shape: StepShape) -> Result<RecordingStats> {
        Ok(self.record(shape, 0)?.finish()?.stats())
    }

    /// The logits that the last decode step left behind, `[vocabulary]` f32.
    ///
    /// # Errors
    /// What the device says.
    ///
    /// # Panics
    /// With steps in flight.
    pub fn last_logits(&self) -> Result<Vec<f32>> {
        assert!(self.in_flight.is_empty(), "logits are read with {} steps in flight", self.in_flight.len());
        let (logits, offset, bytes) = self.model.activation(Array::Logits);
        let readback = Buffer::new(self.device(), "logits", bytes, Placement::Readback)?;
        let mut recording = RecordingBuilder::new(self.device(), QueueKind::Compute, "logits")?;
        recording.copy(logits, offset, &readback, 0, bytes);
        self.device().compute_queue().submit(&recording.finish()?, &[])?.wait()?;
        let mut values = vec![0.0f32; self.limits.vocabulary_tokens as usize];
        readback.read(0, bytemuck::cast_slice_mut(&mut values));
        Ok(values)
    }

    /// Where a step that reports into ring slot `slot` finds its sequence.
    fn io(&self, slot: u32) -> StepIo {
        StepIo {
            state: self.sequence.address() + STATE_OFFSET,
            report: self.reports.address() + report_offset(slot),
            tokens: self.sequence.address() + TOKENS_OFFSET,
            end_tokens: self.sequence.address() + END_TOKENS_OFFSET,
            cancelled: self.cancelled.address(),
        }
    }

    /// Starts a recording that keeps what [`Self::io`] names.
    fn start_recording(&self, name: &str) -> Result<RecordingBuilder> {
        let mut recording = RecordingBuilder::new(self.device(), QueueKind::Compute, name)?;
        for buffer in [&self.sequence, &self.cancelled, &self.reports] {
            recording.keep(buffer.clone());
        }
        Ok(recording)
    }

    /// Records one step that reports into ring slot `slot`.
    fn record(&self, shape: StepShape, slot: u32) -> Result<RecordingBuilder> {
        let plan = self.plan(shape);
        let io = self.io(slot);
        let mut recording = self.start_recording(&format!("{shape:?} step {slot}"))?;
        if let Some(timestamps) = &self.timestamps {
            recording.reset_timestamps(timestamps, 2 * slot..2 * slot + 2);
            recording.timestamp(timestamps, 2 * slot, Stage::Begin);
        }
        self.model.record(plan, &io, &mut recording)?;
        if let Some(timestamps) = &self.timestamps {
            recording.timestamp(timestamps, 2 * slot + 1, Stage::End);
            let range = 2 * slot..2 * slot + 2;
            recording.copy_timestamps(timestamps, range, &self.reports, report_offset(slot) + STAMPS_OFFSET);
        }
        Ok(recording)
    }

    fn report(&self, slot: u32) -> StepReport {
        let mut bytes = [0; size_of::<StepReport>()];
        self.reports.read(report_offset(slot), &mut bytes);
        bytemuck::pod_read_unaligned(&bytes)
    }

    fn gpu_span(&self, slot: u32) -> Option<GpuSpan> {
        let clock = self.clock.as_ref()?;
        let mut bytes = [0; 16];
        self.reports.read(report_offset(slot) + STAMPS_OFFSET, &mut bytes);
        let [begin, end]: [u64; 2] = bytemuck::pod_read_unaligned(&bytes);
        Some(GpuSpan { begin_ns: clock.host_ns(begin), end_ns: clock.host_ns(end) })
    }
}

impl StepModel for VulkanModel {
    type Error = Error;

    fn limits(&self) -> ModelLimits {
        self.limits
    }

    fn begin(&mut self, start: &SequenceStart<'_>) -> Result<()> {
        assert!(self.in_flight.is_empty(), "a sequence begins with {} steps in flight", self.in_flight.len());
        if self.timestamps.is_some() {
            self.clock = Some(self.device().clock()?);
        }
        self.sequence_number = self.sequence_number.wrapping_add(1).max(1);
        let state = initial_state(start, self.sequence_number, self.limits.context_tokens);
        self.image.write(STATE_OFFSET, bytemuck::bytes_of(&state));
        self.image.write(END_TOKENS_OFFSET, bytemuck::cast_slice(end_tokens(start)));
        self.image.write(TOKENS_OFFSET, bytemuck::cast_slice(start.tokens));
        let before_ns = host_now_ns();
        match self.options.sync {
            Sync::Timeline => {
                // The next sequence writes the image again, so it is waited for here, once a sequence.
                let point = self.device().compute_queue().submit(&self.begin, &[])?;
                point.wait()?;
            }
            Sync::Fence => self.device().compute_queue().submit_and_wait_fence(&self.begin)?,
        }
        self.waited_ns += host_now_ns() - before_ns;
        Ok(())
    }

    fn submit(&mut self, shape: StepShape) -> Result<Ticket> {
        let ticket = Ticket::new(self.next_ticket);
        let slot = (self.next_ticket % u64::from(self.limits.ring_slots)) as u32;
        let queue = self.device().compute_queue().clone();
        let submitted_at_ns = host_now_ns();
        let point = match self.options.sync {
            Sync::Timeline => {
                let recordings = &self.slots[slot as usize];
                let recording = match shape {
                    StepShape::Feed => &recordings.feed,
                    StepShape::Decode => &recordings.decode,
                };
                Some(queue.submit(recording, &[])?)
            }
            Sync::Fence => {
                let recording = self.record(shape, slot)?.finish()?;
                let before_ns = host_now_ns();
                queue.submit_and_wait_fence(&recording)?;
                self.waited_ns += host_now_ns() - before_ns;
                None
            }
        };
        self.in_flight.push_back(InFlight { ticket, slot, point, submitted_at_ns, submit_done_ns: host_now_ns() });
        self.next_ticket += 1;
        Ok(ticket)
    }

    fn wait(&mut self, ticket: Ticket) -> Result<StepOutput> {
        let step = self.in_flight.pop_front().filter(|step| step.ticket == ticket);
        let Some(step) = step else { panic!("waited for {ticket:?}, which is not the oldest step in flight") };
        let before_ns = host_now_ns();
        if let Some(point) = &step.point {
            point.wait_with(&WaitPolicy::default())?;
        }
        let observed_at_ns = host_now_ns();
        self.waited_ns += observed_at_ns - before_ns;
        let timing = StepTiming {
            submitted_at_ns: step.submitted_at_ns,
            submit_done_ns: step.submit_done_ns,
            observed_at_ns,
            gpu: self.gpu_span(step.slot),
        };
        Ok(step_output(&self.report(step.slot), timing))
    }

    fn cancel(&mut self) {
        self.cancelled.store_u32(0, self.sequence_number);
    }

    fn counters(&self) -> ModelCounters {
        let queue = self.device().compute_queue().stats();
        ModelCounters {
            submits: queue.submits,
            recordings: self.device().stats().recordings,
            fence_waits: queue.fence_waits,
            waited_ns: self.waited_ns,
        }
    }
}

impl Score for VulkanModel {
    type Error = Error;

    fn score(&mut self, tokens: &[u32], sink: &mut dyn FnMut(usize, &[f32])) -> Result<()> {
        self.begin(&SequenceStart { tokens, cached: 0, budget: 1, sampling: &Sampling::GREEDY, eog: &[] })?;
        let recording = self.record(StepShape::Decode, 0)?.finish()?;
        let queue = self.device().compute_queue().clone();
        for position in 0..tokens.len() {
            match self.options.sync {
                Sync::Timeline => queue.submit(&recording, &[])?.wait()?,
                Sync::Fence => queue.submit_and_wait_fence(&recording)?,
            }
            sink(position, &self.last_logits()?);
        }
        Ok(())
    }
}

impl Drop for VulkanModel {
    /// The device may still run steps that write to the buffers; recordings in flight keep those alive, so nothing is waited for.
    fn drop(&mut self) {
        self.cancel();
    }
}

fn report_offset(slot: u32) -> u64 {
    REPORT_STRIDE * u64::from(slot)
}

/// Copies the image of a new sequence over the old one, once the old one's steps are done and before the new one's begin.
fn record_begin(device: &Arc<Device>, image: &Arc<Buffer>, sequence: &Arc<Buffer>) -> Result<Arc<Recording>> {
    let mut recording = RecordingBuilder::new(device, QueueKind::Compute, "begin")?;
    recording.barrier(Access::SHADER_READ | Access::SHADER_WRITE, Access::TRANSFER_WRITE);
    recording.copy(image, 0, sequence, 0, image.size());
    recording.barrier(Access::TRANSFER_WRITE, Access::SHADER_READ | Access::SHADER_WRITE);
    Ok(recording.finish()?)
}
