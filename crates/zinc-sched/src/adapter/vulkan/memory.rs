//! What a running sequence owns on the device: its states, its tokens, its reports, and what the host writes for one step.

use std::mem::offset_of;
use std::sync::Arc;

use zinc_kernels::generated::logprob_report::LogprobReport;
use zinc_kernels::generated::sampler::{Bias, StepInput};
use zinc_kernels::ops::{CANDIDATE_BYTES, STEP_MASK_OFFSET, step_input_bytes};
use zinc_kernels::step::{StepReport, StepState};
use zinc_model::Result;
use zinc_model::device::DeviceModel;
use zinc_model::plan::ALIGNMENT;
use zinc_vk::{Access, Buffer, Device, Placement, QueueKind, Recording, RecordingBuilder};

use super::super::sampling::candidate;
use super::super::sequence::MAX_END_TOKENS;
use crate::control::Guide;
use crate::model::HostChoice;

/// Offset of the sequence's state in [`SequenceMemory::sequence`] and in its image, in bytes, as the offsets below are.
pub(super) const STATE_OFFSET: u64 = 0;
/// Offset of the state with which a draft model takes in the tokens of the sequence.
pub(super) const DRAFT_MODEL_STATE_OFFSET: u64 = STATE_OFFSET + STATE_STRIDE;
/// Offset of the state with which a draft model makes drafts.
pub(super) const DRAFTING_STATE_OFFSET: u64 = DRAFT_MODEL_STATE_OFFSET + STATE_STRIDE;
/// Offset of the end-of-generation ids.
pub(super) const END_TOKENS_OFFSET: u64 = (DRAFTING_STATE_OFFSET + STATE_STRIDE).next_multiple_of(ALIGNMENT);
/// Offset of the tokens of the sequence.
pub(super) const TOKENS_OFFSET: u64 = END_TOKENS_OFFSET + 4 * MAX_END_TOKENS as u64;
/// Bytes from one state to the next: whole cache lines.
const STATE_STRIDE: u64 = (size_of::<StepState>() as u64).next_multiple_of(64);

/// Bytes from one report to the next: whole cache lines, so that the device never writes to one that the host is reading.
const REPORT_STRIDE: u64 = 128;
/// Where in a report's slot the step's timestamps lie.
const STAMPS_OFFSET: u64 = 96;
/// Timestamps of a step: begin and end of its forward pass, begin and end of its sampling.
pub(super) const STAMPS: u32 = 4;
const _: () =
    assert!(size_of::<StepReport>() as u64 <= STAMPS_OFFSET && STAMPS_OFFSET + 8 * STAMPS as u64 <= REPORT_STRIDE);

/// Buffers that every sequence of a model uses, one after the other.
#[derive(Debug)]
pub(super) struct SequenceMemory {
    /// States, end tokens and tokens, on the device.
    pub(super) sequence: Arc<Buffer>,
    /// The initial content of `sequence`, which the host writes for each new sequence.
    pub(super) image: Arc<Buffer>,
    /// The number of the sequence that the host wants stopped.
    pub(super) cancelled: Arc<Buffer>,
    /// The reports of steps, by ring slot, and behind them a place for reports that nobody reads.
    pub(super) reports: Arc<Buffer>,
    /// Log-probabilities, by ring slot.
    logprobs: Arc<Buffer>,
    /// What the host decides about a step, by ring slot: a guide, and `choice_offset` behind it a candidate. Each has a place of its own, since a
    /// step may find what was written for an earlier one, of a sequence of another kind.
    inputs: Arc<Buffer>,
    choice_offset: u64,
    input_stride: u64,
    /// Logits that the host samples from, by ring slot. The buffer is made when a sequence first needs it.
    logits: Option<Arc<Buffer>>,
    logits_bytes: u64,
    slots: u32,
}

impl SequenceMemory {
    pub(super) fn new(model: &DeviceModel, slots: u32) -> Result<Self> {
        let device = model.device();
        let vocabulary = model.model().config.n_vocab;
        let bytes = TOKENS_OFFSET + 4 * model.cache().token_places();
        let choice_offset = step_input_bytes(vocabulary).next_multiple_of(ALIGNMENT);
        let input_stride = choice_offset + u64::from(CANDIDATE_BYTES).next_multiple_of(ALIGNMENT);
        let per_slot = |stride: u64| stride * u64::from(slots);
        let cancelled = Buffer::new(device, "cancelled", 4, Placement::Upload)?;
        cancelled.store_u32(0, 0);
        let inputs = Buffer::new(device, "step inputs", per_slot(input_stride), Placement::Upload)?;
        // A cancellation opens gates for which nothing was written: what a step finds then is empty, or was meant for an earlier one.
        inputs.write(0, &vec![0; per_slot(input_stride) as usize]);
        Ok(Self {
            sequence: Buffer::new(device, "sequence", bytes, Placement::Device)?,
            image: Buffer::new(device, "sequence image", bytes, Placement::Upload)?,
            cancelled,
            reports: Buffer::new(device, "reports", per_slot(REPORT_STRIDE) + REPORT_STRIDE, Placement::Readback)?,
            logprobs: Buffer::new(device, "logprobs", per_slot(LOGPROBS_STRIDE), Placement::Readback)?,
            inputs,
            choice_offset,
            input_stride,
            logits: None,
            logits_bytes: 4 * u64::from(vocabulary),
            slots,
        })
    }

    /// All buffers that a recording of a step may touch.
    pub(super) fn buffers(&self) -> impl Iterator<Item = &Arc<Buffer>> {
        let Self { sequence, cancelled, reports, logprobs, inputs, .. } = self;
        [sequence, cancelled, reports, logprobs, inputs].into_iter().chain(&self.logits)
    }

    pub(super) fn state(&self, offset: u64) -> u64 {
        self.sequence.address() + offset
    }

    /// The buffer and offset of the number of rows that the sequence's next step lists, which is 0 from the end of the sequence on.
    /// Recordings leave out what need not run when it is 0, the draft model's steps included.
    pub(super) fn live(&self) -> (&Arc<Buffer>, u64) {
        (&self.sequence, STATE_OFFSET + offset_of!(StepState, row_count) as u64)
    }

    pub(super) fn report_address(&self, slot: u32) -> u64 {
        self.reports.address() + report_offset(slot)
    }

    /// A place for reports that nobody reads.
    pub(super) fn scratch_report_address(&self) -> u64 {
        self.report_address(self.slots)
    }

    pub(super) fn stamps_offset(&self, slot: u32) -> u64 {
        report_offset(slot) + STAMPS_OFFSET
    }

    pub(super) fn logprobs_address(&self, slot: u32) -> u64 {
        self.logprobs.address() + LOGPROBS_STRIDE * u64::from(slot)
    }

    /// The guide for the step in `slot`.
    pub(super) fn guide_address(&self, slot: u32) -> u64 {
        self.inputs.address() + self.guide_offset(slot)
    }

    /// The candidate that the host chooses for the step in `slot`.
    pub(super) fn choice_address(&self, slot: u32) -> u64 {
        self.guide_address(slot) + self.choice_offset
    }

    fn guide_offset(&self, slot: u32) -> u64 {
        self.input_stride * u64::from(slot)
    }

    /// What the step in `slot` reported; read once its point is reached.
    pub(super) fn report(&self, slot: u32) -> StepReport {
        let mut bytes = [0; size_of::<StepReport>()];
        self.reports.read(report_offset(slot), &mut bytes);
        bytemuck::pod_read_unaligned(&bytes)
    }

    pub(super) fn logprobs(&self, slot: u32) -> LogprobReport {
        let mut bytes = [0; size_of::<LogprobReport>()];
        self.logprobs.read(LOGPROBS_STRIDE * u64::from(slot), &mut bytes);
        bytemuck::pod_read_unaligned(&bytes)
    }

    /// Ticks of the step in `slot`.
    pub(super) fn stamps(&self, slot: u32) -> [u64; STAMPS as usize] {
        let mut bytes = [0; 8 * STAMPS as usize];
        self.reports.read(self.stamps_offset(slot), &mut bytes);
        bytemuck::pod_read_unaligned(&bytes)
    }

    /// Writes what the step in `slot` may choose.
    pub(super) fn write_guide(&self, slot: u32, guide: &Guide) {
        let at = self.guide_offset(slot);
        let header = StepInput { has_mask: 1, bias_count: guide.biases().len() as u32 };
        let biases: Vec<Bias> = guide.biases().iter().map(|&(id, bias)| Bias { id, bias }).collect();
        self.inputs.write(at, bytemuck::bytes_of(&header));
        self.inputs.write(at + size_of::<StepInput>() as u64, bytemuck::cast_slice(&biases));
        self.inputs.write(at + u64::from(STEP_MASK_OFFSET), bytemuck::cast_slice(guide.mask()));
    }

    /// Writes what the step in `slot` chooses.
    pub(super) fn write_choice(&self, slot: u32, choice: HostChoice) {
        let candidate = candidate(choice);
        self.inputs.write(self.guide_offset(slot) + self.choice_offset, bytemuck::bytes_of(&candidate));
    }

    /// Makes the buffer that logits are copied to, unless there is one.
    pub(super) fn provide_logits(&mut self, device: &Arc<Device>) -> Result<()> {
        if self.logits.is_none() {
            let bytes = self.logits_bytes * u64::from(self.slots);
            self.logits = Some(Buffer::new(device, "host logits", bytes, Placement::Readback)?);
        }
        Ok(())
    }

    /// Where the logits of the step in `slot` go.
    ///
    /// # Panics
    /// If [`provide_logits`](Self::provide_logits) was not called.
    pub(super) fn logits(&self, slot: u32) -> (&Arc<Buffer>, u64) {
        (self.logits.as_ref().expect("a sequence whose tokens the host chooses"), self.logits_bytes * u64::from(slot))
    }

    /// Reads the logits of the step in `slot`, `[vocabulary]`.
    pub(super) fn read_logits(&self, slot: u32, values: &mut [f32]) {
        let (buffer, offset) = self.logits(slot);
        buffer.read(offset, bytemuck::cast_slice_mut(values));
    }

    /// Copies the image of a new sequence over the old one, once the old one's steps are done and before the new one's begin.
    pub(super) fn record_opening(&self, device: &Arc<Device>) -> Result<Arc<Recording>> {
        let mut recording = RecordingBuilder::new(device, QueueKind::Compute, "open")?;
        recording.barrier(Access::SHADER_READ | Access::SHADER_WRITE, Access::TRANSFER_WRITE);
        recording.copy(&self.image, 0, &self.sequence, 0, self.image.size());
        recording.barrier(Access::TRANSFER_WRITE, Access::SHADER_READ | Access::SHADER_WRITE);
        Ok(recording.finish()?)
    }
}

/// Bytes from one report of log-probabilities to the next: whole cache lines.
const LOGPROBS_STRIDE: u64 = (size_of::<LogprobReport>() as u64).next_multiple_of(64);

fn report_offset(slot: u32) -> u64 {
    REPORT_STRIDE * u64::from(slot)
}
