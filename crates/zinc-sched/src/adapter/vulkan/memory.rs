//! What the sequences of a model own on the device: their lanes, tokens and reports, the states of steps, and what the host writes for one step.

use std::mem::offset_of;
use std::sync::Arc;

use zinc_kernels::generated::logprob_report::LogprobReport;
use zinc_kernels::generated::sampler::{Bias, SamplerParams, StepInput};
use zinc_kernels::ops::{CANDIDATE_BYTES, PerLane, STEP_MASK_OFFSET, step_input_bytes};
use zinc_kernels::sampler::{Breakers, SamplerSettings};
use zinc_kernels::step::{Lane, StepLanes, StepReport, StepState};
use zinc_model::Result;
use zinc_model::device::DeviceModel;
use zinc_model::plan::ALIGNMENT;
use zinc_vk::{Access, Buffer, Device, Placement, QueueKind, Recording, RecordingBuilder};

use super::super::sampling::candidate;
use super::super::sequence::MAX_END_TOKENS;
use crate::control::Guide;
use crate::model::HostChoice;

/// Offset of the state with which a draft model takes in the tokens of the sequence in [`StepMemory::sequences`], in bytes, as the offsets below are.
pub(super) const DRAFT_MODEL_STATE_OFFSET: u64 = 0;
/// Offset of the state with which a draft model, or a block for multi-token prediction, makes drafts.
pub(super) const DRAFTING_STATE_OFFSET: u64 = DRAFT_MODEL_STATE_OFFSET + STATE_STRIDE;
/// Offset of the state of the model's steps. In a model of several lanes the tables of their pages lie behind it.
pub(super) const STATE_OFFSET: u64 = DRAFTING_STATE_OFFSET + STATE_STRIDE;
/// Bytes of a state without tables: whole cache lines.
const STATE_STRIDE: u64 = (size_of::<StepState>() as u64).next_multiple_of(64);

/// Bytes from one report to the next: whole cache lines, so that the device never writes to one that the host is reading.
const REPORT_STRIDE: u32 = 128;
/// Where in the report of lane 0 the step's timestamps lie.
const STAMPS_OFFSET: u64 = 96;
/// Timestamps of a step: begin and end of its forward pass, begin and end of its sampling.
pub(super) const STAMPS: u32 = 4;
const _: () = assert!(
    size_of::<StepReport>() as u64 <= STAMPS_OFFSET && STAMPS_OFFSET + 8 * STAMPS as u64 <= REPORT_STRIDE as u64
);
/// Bytes from one report of log-probabilities to the next: whole cache lines.
const LOGPROBS_STRIDE: u32 = (size_of::<LogprobReport>() as u32).next_multiple_of(64);
/// Bytes from one list of wanted lanes to the next.
const WANTED_STRIDE: u64 = (size_of::<StepLanes>() as u64).next_multiple_of(64);

/// Where what each lane owns lies behind the state of the model's steps.
#[derive(Clone, Copy, Debug)]
struct Layout {
    lanes: u32,
    /// Pages that the table of a lane has room for.
    lane_pages: u32,
    token_places: u64,
}

impl Layout {
    /// Offset of the state of steps that feed, in a model of several lanes: those that sample may run between their ranges. It has tables of its own.
    fn feed_state(self) -> u64 {
        STATE_OFFSET + self.state_stride()
    }

    /// Bytes of a state with its tables: whole cache lines.
    fn state_stride(self) -> u64 {
        (size_of::<StepState>() as u64 + u64::from(self.lanes) * self.table_bytes()).next_multiple_of(64)
    }

    /// Bytes of a table of pages.
    fn table_bytes(self) -> u64 {
        4 * u64::from(self.lane_pages)
    }

    /// The table of a lane's pages behind a state.
    fn table(self, state: u64, lane: u32) -> u64 {
        state + size_of::<StepState>() as u64 + u64::from(lane) * self.table_bytes()
    }

    /// Offset of the parameters of a chain of samplers that are all off.
    fn no_samplers(self) -> u64 {
        self.feed_state() + self.state_stride()
    }

    fn lane(self, lane: u32) -> u64 {
        let first = (self.no_samplers() + size_of::<SamplerParams>() as u64).next_multiple_of(ALIGNMENT);
        first + u64::from(lane) * size_of::<Lane>() as u64
    }

    fn end_tokens(self, lane: u32) -> u64 {
        self.lane(self.lanes).next_multiple_of(ALIGNMENT) + 4 * MAX_END_TOKENS as u64 * u64::from(lane)
    }

    fn tokens(self, lane: u32) -> u64 {
        self.end_tokens(self.lanes).next_multiple_of(ALIGNMENT) + u64::from(lane) * self.tokens_stride()
    }

    fn tokens_stride(self) -> u64 {
        (4 * self.token_places).next_multiple_of(ALIGNMENT)
    }

    /// Offset of an array of tokens for drafts that nobody verifies.
    fn unused_drafts(self) -> u64 {
        self.tokens(self.lanes)
    }

    fn bytes(self) -> u64 {
        self.unused_drafts() + self.tokens_stride()
    }
}

/// Buffers that the sequences of a model use.
#[derive(Debug)]
pub(super) struct StepMemory {
    layout: Layout,
    /// States, lanes, end tokens and tokens, on the device.
    pub(super) sequences: Arc<Buffer>,
    /// What each lane has in `sequences` when its sequence begins.
    images: Vec<LaneImage>,
    /// For each lane the number of the sequence that the host wants stopped.
    cancelled: Arc<Buffer>,
    /// Which lanes the host wants in a step: by ring slot, and behind those by slot of the steps that feed a draft model.
    wanted: Arc<Buffer>,
    /// The reports of steps, by ring slot and lane, and behind them a place for reports that nobody reads.
    pub(super) reports: Arc<Buffer>,
    /// Log-probabilities, by ring slot and lane.
    logprobs: Arc<Buffer>,
    /// What the host decides about a step, by ring slot and lane: a guide, and `choice_offset` behind it a candidate. Each has a place of its own, since a
    /// step may find what was written for an earlier one, of a sequence of another kind.
    inputs: Arc<Buffer>,
    choice_offset: u32,
    input_stride: u32,
    /// What the host samples from, by ring slot: the lanes, which say which rows they have, and the logits of all rows. The buffer is made when a sequence
    /// first needs it.
    logits: Option<Arc<Buffer>>,
    logits_bytes: u64,
    slots: u32,
}

impl StepMemory {
    pub(super) fn new(model: &DeviceModel, slots: u32) -> Result<Self> {
        let (device, cache, vocabulary) = (model.device(), model.cache(), model.model().config.n_vocab);
        let lanes = cache.lanes;
        let layout = Layout { lanes, lane_pages: cache.lane_pages(), token_places: cache.token_places() };
        let choice_offset = step_input_bytes(vocabulary).next_multiple_of(ALIGNMENT) as u32;
        let input_stride = choice_offset + CANDIDATE_BYTES.next_multiple_of(ALIGNMENT as u32);
        let per_report = |stride: u32| u64::from(stride) * u64::from(lanes) * u64::from(slots);
        let cancelled = Buffer::new(device, "cancelled", 4 * u64::from(lanes), Placement::Upload)?;
        cancelled.write(0, &vec![0; 4 * lanes as usize]);
        let inputs = Buffer::new(device, "step inputs", per_report(input_stride), Placement::Upload)?;
        // A cancellation opens gates for which nothing was written: what a step finds then is empty, or was meant for an earlier one.
        inputs.write(0, &vec![0; per_report(input_stride) as usize]);
        let sequences = Buffer::new(device, "sequences", layout.bytes(), Placement::Device)?;
        let this = Self {
            images: (0..lanes).map(|lane| LaneImage::new(device, layout, lane, &sequences)).collect::<Result<_>>()?,
            layout,
            cancelled,
            wanted: Buffer::new(device, "wanted lanes", WANTED_STRIDE * 2 * u64::from(slots), Placement::Upload)?,
            reports: Buffer::new(
                device,
                "reports",
                per_report(REPORT_STRIDE) + u64::from(REPORT_STRIDE),
                Placement::Readback,
            )?,
            logprobs: Buffer::new(device, "logprobs", per_report(LOGPROBS_STRIDE), Placement::Readback)?,
            inputs,
            choice_offset,
            input_stride,
            logits: None,
            logits_bytes: 4 * u64::from(vocabulary),
            slots,
            sequences,
        };
        this.write_heads(device, cache.context, vocabulary)?;
        Ok(this)
    }

    /// Writes what of the states and lanes does not change from sequence to sequence.
    fn write_heads(&self, device: &Arc<Device>, context: u32, vocabulary: u32) -> Result<()> {
        let shared = StepState { lanes: self.lane_address(0), ..StepState::default() };
        let bytes = self.layout.lane(0);
        let image = Buffer::new(device, "states image", bytes, Placement::Upload)?;
        // Tables say page 0 where no sequence has had pages.
        image.write(0, &vec![0; bytes as usize]);
        for offset in [STATE_OFFSET, self.layout.feed_state()] {
            image.write(offset, bytemuck::bytes_of(&shared));
        }
        for offset in [DRAFT_MODEL_STATE_OFFSET, DRAFTING_STATE_OFFSET] {
            image.write(offset, bytemuck::bytes_of(&StepState::default()));
        }
        let off = SamplerSettings::OFF.tables(vocabulary, context, &Breakers::default());
        let params = off.expect("samplers that are all off need no table").params;
        image.write(self.layout.no_samplers(), bytemuck::bytes_of(&params));
        let mut recording = RecordingBuilder::new(device, QueueKind::Compute, "states")?;
        recording.copy(&image, 0, &self.sequences, 0, bytes);
        device.compute_queue().submit(&recording.finish()?, &[])?.wait()?;
        Ok(())
    }

    /// The number of ring slots.
    pub(super) fn slots(&self) -> u32 {
        self.slots
    }

    /// All buffers that a recording of a step may touch.
    pub(super) fn buffers(&self) -> impl Iterator<Item = &Arc<Buffer>> {
        let Self { sequences, cancelled, wanted, reports, logprobs, inputs, .. } = self;
        [sequences, cancelled, wanted, reports, logprobs, inputs].into_iter().chain(&self.logits)
    }

    /// The address of a state.
    pub(super) fn state(&self, offset: u64) -> u64 {
        self.sequences.address() + offset
    }

    /// Offset of the state of steps that feed, in a model of several lanes.
    pub(super) fn feed_state_offset(&self) -> u64 {
        self.layout.feed_state()
    }

    /// The buffer of a state and the offset of the number of rows that its step lists, which is 0 where all its sequences have ended.
    pub(super) fn live(&self, state: u64) -> (&Arc<Buffer>, u64) {
        (&self.sequences, state + offset_of!(StepState, row_count) as u64)
    }

    /// The address of a lane.
    pub(super) fn lane_address(&self, lane: u32) -> u64 {
        self.sequences.address() + self.layout.lane(lane)
    }

    /// Where a lane lies in [`Self::sequences`].
    pub(super) fn lane_offset(&self, lane: u32) -> u64 {
        self.layout.lane(lane)
    }

    /// The address of a lane's tokens.
    pub(super) fn tokens_address(&self, lane: u32) -> u64 {
        self.sequences.address() + self.layout.tokens(lane)
    }

    /// The address of an array of tokens, as long as that of a lane, for drafts that nobody verifies.
    pub(super) fn unused_drafts_address(&self) -> u64 {
        self.state(self.layout.unused_drafts())
    }

    /// The address of a lane's end-of-generation ids.
    pub(super) fn end_tokens_address(&self, lane: u32) -> u64 {
        self.sequences.address() + self.layout.end_tokens(lane)
    }

    /// The address of the parameters of a chain of samplers that are all off.
    pub(super) fn no_samplers_address(&self) -> u64 {
        self.state(self.layout.no_samplers())
    }

    /// Gives a lane an image of its own again, because the device has yet to copy the one that it has.
    pub(super) fn replace_image(&mut self, device: &Arc<Device>, lane: u32) -> Result<()> {
        self.images[lane as usize] = LaneImage::new(device, self.layout, lane, &self.sequences)?;
        Ok(())
    }

    /// The image of a lane. The device must not have a copy of it ahead, for which there is [`Self::replace_image`].
    pub(super) fn image(&self, lane: u32) -> &LaneImage {
        &self.images[lane as usize]
    }

    /// The address of the numbers of the sequences that the host wants stopped.
    pub(super) fn cancelled_address(&self) -> u64 {
        self.cancelled.address()
    }

    /// Asks the device to stop a sequence.
    pub(super) fn cancel(&self, lane: u32, number: u32) {
        self.cancelled.store_u32(4 * u64::from(lane), number);
    }

    /// Writes which lanes the host wants in the step in `slot`.
    pub(super) fn write_wanted(&self, slot: u32, wanted: &StepLanes) {
        self.wanted.write(WANTED_STRIDE * u64::from(slot), bytemuck::bytes_of(wanted));
    }

    /// Which lanes the host wants in the step in `slot`.
    pub(super) fn wanted_address(&self, slot: u32) -> u64 {
        self.wanted.address() + WANTED_STRIDE * u64::from(slot)
    }

    /// The slot of [`Self::write_wanted`] for a step that feeds a draft model in `slot` of its own.
    pub(super) fn draft_slot(&self, slot: u32) -> u32 {
        self.slots + slot
    }

    pub(super) fn reports_of(&self, slot: u32) -> PerLane {
        PerLane { address: self.reports.address() + self.report_offset(slot, 0), stride: REPORT_STRIDE }
    }

    /// A place for reports that nobody reads.
    pub(super) fn scratch_report(&self) -> PerLane {
        self.reports_of(self.slots)
    }

    pub(super) fn stamps_offset(&self, slot: u32) -> u64 {
        self.report_offset(slot, 0) + STAMPS_OFFSET
    }

    pub(super) fn logprobs_of(&self, slot: u32) -> PerLane {
        PerLane { address: self.logprobs.address() + self.logprobs_offset(slot, 0), stride: LOGPROBS_STRIDE }
    }

    /// The guides for the step in `slot`.
    pub(super) fn guides_of(&self, slot: u32) -> PerLane {
        PerLane { address: self.inputs.address() + self.guide_offset(slot, 0), stride: self.input_stride }
    }

    /// The candidates that the host chooses for the step in `slot`.
    pub(super) fn choices_of(&self, slot: u32) -> PerLane {
        let PerLane { address, stride } = self.guides_of(slot);
        PerLane { address: address + u64::from(self.choice_offset), stride }
    }

    fn guide_offset(&self, slot: u32, lane: u32) -> u64 {
        self.place(slot, lane) * u64::from(self.input_stride)
    }

    fn report_offset(&self, slot: u32, lane: u32) -> u64 {
        self.place(slot, lane) * u64::from(REPORT_STRIDE)
    }

    fn logprobs_offset(&self, slot: u32, lane: u32) -> u64 {
        self.place(slot, lane) * u64::from(LOGPROBS_STRIDE)
    }

    /// The place of a lane in a slot among those of all slots.
    fn place(&self, slot: u32, lane: u32) -> u64 {
        u64::from(slot) * u64::from(self.layout.lanes) + u64::from(lane)
    }

    /// What the step in `slot` reported of a lane; read once its point is reached.
    pub(super) fn report(&self, slot: u32, lane: u32) -> StepReport {
        let mut bytes = [0; size_of::<StepReport>()];
        self.reports.read(self.report_offset(slot, lane), &mut bytes);
        bytemuck::pod_read_unaligned(&bytes)
    }

    pub(super) fn logprobs(&self, slot: u32, lane: u32) -> LogprobReport {
        let mut bytes = [0; size_of::<LogprobReport>()];
        self.logprobs.read(self.logprobs_offset(slot, lane), &mut bytes);
        bytemuck::pod_read_unaligned(&bytes)
    }

    /// Ticks of the step in `slot`.
    pub(super) fn stamps(&self, slot: u32) -> [u64; STAMPS as usize] {
        let mut bytes = [0; 8 * STAMPS as usize];
        self.reports.read(self.stamps_offset(slot), &mut bytes);
        bytemuck::pod_read_unaligned(&bytes)
    }

    /// Writes what a lane may choose in the step in `slot`.
    pub(super) fn write_guide(&self, slot: u32, lane: u32, guide: &Guide) {
        let at = self.guide_offset(slot, lane);
        let header = StepInput { has_mask: 1, bias_count: guide.biases().len() as u32 };
        let biases: Vec<Bias> = guide.biases().iter().map(|&(id, bias)| Bias { id, bias }).collect();
        self.inputs.write(at, bytemuck::bytes_of(&header));
        self.inputs.write(at + size_of::<StepInput>() as u64, bytemuck::cast_slice(&biases));
        self.inputs.write(at + u64::from(STEP_MASK_OFFSET), bytemuck::cast_slice(guide.mask()));
    }

    /// Writes what a lane chooses in the step in `slot`.
    pub(super) fn write_choice(&self, slot: u32, lane: u32, choice: HostChoice) {
        let candidate = candidate(choice);
        let at = self.guide_offset(slot, lane) + u64::from(self.choice_offset);
        self.inputs.write(at, bytemuck::bytes_of(&candidate));
    }

    /// Makes the buffer that logits are copied to, unless there is one.
    pub(super) fn provide_logits(&mut self, device: &Arc<Device>) -> Result<()> {
        if self.logits.is_none() {
            let bytes = self.logits_slot_bytes() * u64::from(self.slots);
            self.logits = Some(Buffer::new(device, "host logits", bytes, Placement::Readback)?);
        }
        Ok(())
    }

    fn logits_slot_bytes(&self) -> u64 {
        self.lanes_bytes() + self.logits_bytes * u64::from(self.layout.lanes)
    }

    /// Bytes of all lanes, in whole cache lines.
    fn lanes_bytes(&self) -> u64 {
        (size_of::<Lane>() as u64 * u64::from(self.layout.lanes)).next_multiple_of(ALIGNMENT)
    }

    /// Records that the lanes, and the logits of so many rows, are copied to where the host reads those of the step in `slot`.
    ///
    /// # Panics
    /// If [`provide_logits`](Self::provide_logits) was not called.
    pub(super) fn record_logits(&self, model: &DeviceModel, slot: u32, rows: u32, recording: &mut RecordingBuilder) {
        let (buffer, at) = self.logits_of(slot);
        recording.barrier(Access::SHADER_WRITE, Access::TRANSFER_READ);
        let lanes = size_of::<Lane>() as u64 * u64::from(self.layout.lanes);
        recording.copy(&self.sequences, self.layout.lane(0), buffer, at, lanes);
        for row in 0..rows.min(self.layout.lanes) {
            let (logits, offset, bytes) = model.activation(zinc_model::plan::Array::Logits, row);
            let to = at + self.lanes_bytes() + u64::from(row) * self.logits_bytes;
            recording.copy(logits, offset, buffer, to, bytes);
        }
    }

    /// Where the host reads the logits of the step in `slot`.
    fn logits_of(&self, slot: u32) -> (&Arc<Buffer>, u64) {
        let buffer = self.logits.as_ref().expect("a sequence whose tokens the host chooses");
        (buffer, self.logits_slot_bytes() * u64::from(slot))
    }

    /// Reads the logits of a lane in the step in `slot`, `[vocabulary]`. What a lane has that has ended means nothing.
    pub(super) fn read_logits(&self, slot: u32, lane: u32, values: &mut [f32]) {
        let (buffer, at) = self.logits_of(slot);
        let mut bytes = [0; size_of::<Lane>()];
        buffer.read(at + u64::from(lane) * size_of::<Lane>() as u64, &mut bytes);
        let Lane { first_row, .. } = bytemuck::pod_read_unaligned(&bytes);
        let row = first_row.min(self.layout.lanes - 1);
        let from = at + self.lanes_bytes() + u64::from(row) * self.logits_bytes;
        buffer.read(from, bytemuck::cast_slice_mut(values));
    }
}

/// What a lane has on the device when its sequence begins: the host writes it, and a recording copies it over what the sequence before has left.
#[derive(Debug)]
pub(super) struct LaneImage {
    buffer: Arc<Buffer>,
    /// Where the numbers of the lane's pages lie in it.
    pages: u64,
    /// The copy, which comes behind the steps of the sequence before and ahead of those of the new one.
    copy: Arc<Recording>,
}

/// Offset of the end-of-generation ids in an image, behind the lane.
const IMAGE_END_TOKENS_OFFSET: u64 = (size_of::<Lane>() as u64).next_multiple_of(ALIGNMENT);
/// Offset of the own lane of the draft model's state in the image of lane 0.
const IMAGE_DRAFT_LANE_OFFSET: u64 = IMAGE_END_TOKENS_OFFSET + (4 * MAX_END_TOKENS as u64).next_multiple_of(ALIGNMENT);
/// Offset of the tokens in an image.
const IMAGE_TOKENS_OFFSET: u64 = IMAGE_DRAFT_LANE_OFFSET + (size_of::<Lane>() as u64).next_multiple_of(ALIGNMENT);

impl LaneImage {
    fn new(device: &Arc<Device>, layout: Layout, lane: u32, sequences: &Arc<Buffer>) -> Result<Self> {
        let pages = (IMAGE_TOKENS_OFFSET + 4 * layout.token_places).next_multiple_of(ALIGNMENT);
        let buffer = Buffer::new(device, "lane image", pages + layout.table_bytes(), Placement::Upload)?;
        buffer.write(pages, &vec![0; layout.table_bytes() as usize]);
        let mut recording = RecordingBuilder::new(device, QueueKind::Compute, &format!("open lane {lane}"))?;
        recording.barrier(Access::SHADER_READ | Access::SHADER_WRITE, Access::TRANSFER_WRITE);
        recording.copy(&buffer, 0, sequences, layout.lane(lane), size_of::<Lane>() as u64);
        let end_tokens = layout.end_tokens(lane);
        recording.copy(&buffer, IMAGE_END_TOKENS_OFFSET, sequences, end_tokens, 4 * MAX_END_TOKENS as u64);
        recording.copy(&buffer, IMAGE_TOKENS_OFFSET, sequences, layout.tokens(lane), 4 * layout.token_places);
        if lane == 0 {
            let own_lane = DRAFT_MODEL_STATE_OFFSET + offset_of!(StepState, lane) as u64;
            recording.copy(&buffer, IMAGE_DRAFT_LANE_OFFSET, sequences, own_lane, size_of::<Lane>() as u64);
        }
        if layout.lane_pages > 0 {
            for state in [STATE_OFFSET, layout.feed_state()] {
                recording.copy(&buffer, pages, sequences, layout.table(state, lane), layout.table_bytes());
            }
        }
        recording.barrier(Access::TRANSFER_WRITE, Access::SHADER_READ | Access::SHADER_WRITE);
        Ok(Self { buffer, pages, copy: recording.finish()? })
    }

    /// Writes a lane whose sequence begins with `tokens` and has these pages. `replayed` are tokens that are known to follow.
    pub(super) fn write(&self, lane: &Lane, pages: &[u32], end_tokens: &[u32], tokens: &[u32], replayed: &[u32]) {
        self.buffer.write(0, bytemuck::bytes_of(lane));
        self.buffer.write(self.pages, bytemuck::cast_slice(pages));
        self.buffer.write(IMAGE_END_TOKENS_OFFSET, bytemuck::cast_slice(end_tokens));
        self.buffer.write(IMAGE_TOKENS_OFFSET, bytemuck::cast_slice(tokens));
        self.buffer.write(IMAGE_TOKENS_OFFSET + 4 * tokens.len() as u64, bytemuck::cast_slice(replayed));
    }

    /// Writes the own lane of the draft model's state, into the image of lane 0.
    pub(super) fn write_draft_lane(&self, lane: &Lane) {
        self.buffer.write(IMAGE_DRAFT_LANE_OFFSET, bytemuck::bytes_of(lane));
    }

    /// The recording that copies the image to the device.
    pub(super) fn copy(&self) -> &Arc<Recording> {
        &self.copy
    }
}
