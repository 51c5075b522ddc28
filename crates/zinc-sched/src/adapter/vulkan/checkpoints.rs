//! Checkpoints of states: copies of all that a lane keeps beside the positions of the pool, which are its recurrent state and what windows need of its rings, in slots
//! outside the device's own memory. They are queued in order with the steps, so that nobody waits for them.

use std::sync::Arc;

use zinc_kernels::step::PAGE_POSITIONS;
use zinc_model::device::{DeviceModel, StatePart};
use zinc_model::{Error, Result};
use zinc_vk::{Access, Buffer, Placement, QueueKind, Recording, RecordingBuilder};

use super::{Sync, VulkanModel, VulkanOptions};
use crate::model::{CheckpointLimits, Kept, SequenceId, SequenceStart};

/// The memory of the slots, which is made when a slot is first used and kept for later checkpoints.
#[derive(Debug)]
pub(super) struct StateSlots {
    /// Up to the last slot that was used.
    memory: Vec<Option<Arc<Buffer>>>,
    /// How many slots there are.
    most: u32,
}

/// Which way a state is copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    ToSlot,
    FromSlot,
}

impl StateSlots {
    /// So many slots without memory.
    pub(super) fn new(slots: u32) -> Self {
        Self { memory: Vec::new(), most: slots }
    }

    /// The checkpoints that a model keeps, if it has a state.
    pub(super) fn limits(model: &DeviceModel, options: &VulkanOptions) -> Option<CheckpointLimits> {
        // A ring has what windows need behind any row of the last step.
        let inside_steps = model.model().config.recurrent_bytes(0) == 0;
        let most = if inside_steps { CheckpointLimits::WINDOW_SPACING } else { u32::MAX };
        let spacing = options.checkpoint_spacing.clamp(1, most).next_multiple_of(PAGE_POSITIONS);
        let limits = CheckpointLimits { slots: options.checkpoints, page: PAGE_POSITIONS, spacing, inside_steps };
        (model.state_bytes() > 0).then_some(limits)
    }

    /// Bytes of the slots that have memory.
    pub(super) fn bytes(&self) -> u64 {
        self.memory.iter().flatten().map(|buffer| buffer.size()).sum()
    }

    /// The memory of a slot.
    ///
    /// # Panics
    /// If there is no such slot.
    fn provide(&mut self, slot: u32, model: &DeviceModel) -> Result<Arc<Buffer>> {
        assert!(slot < self.most, "slot {slot} of {}", self.most);
        let index = slot as usize;
        if let Some(buffer) = self.memory.get(index).and_then(Option::as_ref) {
            return Ok(buffer.clone());
        }
        let buffer = Buffer::new(model.device(), "checkpoint", model.state_bytes(), Placement::Readback)?;
        self.memory.resize(self.memory.len().max(index + 1), None);
        self.memory[index] = Some(buffer.clone());
        Ok(buffer)
    }
}

/// Whether a buffer was not made because there is no memory for it. Nothing else has failed then.
fn is_lack_of_memory(error: &Error) -> bool {
    matches!(error, Error::Device(zinc_vk::Error::OutOfMemory { .. } | zinc_vk::Error::BufferTooLarge { .. }))
}

/// Records the copy of the state of a lane at a position into a slot, or back.
fn record(model: &DeviceModel, (lane, position): (u32, u32), slot: &Arc<Buffer>, way: Way) -> Result<Arc<Recording>> {
    let all = Access::SHADER_READ | Access::SHADER_WRITE | Access::TRANSFER_READ | Access::TRANSFER_WRITE;
    let mut recording = RecordingBuilder::new(model.device(), QueueKind::Compute, "checkpoint")?;
    recording.barrier(all, Access::TRANSFER_READ | Access::TRANSFER_WRITE);
    let mut at = 0;
    for StatePart { buffer, offset, bytes } in model.state(lane, position) {
        match way {
            Way::ToSlot => recording.copy(&buffer, offset, slot, at, bytes),
            Way::FromSlot => recording.copy(slot, at, &buffer, offset, bytes),
        };
        at += bytes;
    }
    recording.barrier(Access::TRANSFER_READ | Access::TRANSFER_WRITE, all);
    Ok(recording.finish()?)
}

impl VulkanModel {
    /// Queues a copy of a sequence's state into a slot, as [`StepModel::keep`](crate::StepModel::keep) says.
    ///
    /// # Panics
    /// If the sequence is not open, or a step of it is begun, or there is no such slot.
    pub(super) fn keep_state(&mut self, sequence: SequenceId, slot: u32, position: u32) -> Result<Kept<Error>> {
        let is_begun = self.begun.as_ref().is_some_and(|begun| begun.feeds(sequence));
        assert!(!is_begun, "the state of {sequence:?} is kept between the ranges of a step");
        match self.states.provide(slot, &self.model) {
            Err(reason) if is_lack_of_memory(&reason) => return Ok(Kept::NoMemory(reason)),
            memory => memory?,
        };
        self.copy_state((self.lanes.lane(sequence), position), slot, Way::ToSlot)?;
        Ok(Kept::Queued)
    }

    /// Panics if a model with a state is to begin at another position than 0 without a checkpoint, or one without such a state with one.
    pub(super) fn check_restored(&self, start: &SequenceStart<'_>) {
        let begins_behind = self.limits.checkpoints.is_some() && start.cached > 0;
        assert_eq!(
            start.restored.is_some(),
            begins_behind,
            "a sequence begins at position {} with {:?} restored",
            start.cached,
            start.restored
        );
    }

    /// Queues a copy of the checkpoint that a sequence begins with into its lane, ahead of its steps. Without one the lane keeps the state that it has.
    pub(super) fn restore_state(&mut self, start: &SequenceStart<'_>) -> Result<()> {
        let at = (start.lane, start.cached);
        start.restored.map_or(Ok(()), |slot| self.copy_state(at, slot, Way::FromSlot))
    }

    /// The state of a lane whose sequence has reached `position`, as a checkpoint of it would be: for [`put_checkpoint`](Self::put_checkpoint), of another model that was made
    /// of the same [`DeviceModel`] too. Empty if the model has none.
    ///
    /// # Errors
    /// Whatever error the device reports.
    ///
    /// # Panics
    /// With steps in flight, or if there is no such lane.
    pub fn state(&self, lane: u32, position: u32) -> Result<Vec<u8>> {
        assert!(self.in_flight.is_empty(), "a state is read with {} steps in flight", self.in_flight.len());
        let bytes: u64 = self.model.state(lane, position).iter().map(|part| part.bytes).sum();
        let mut state = vec![0; bytes as usize];
        if !state.is_empty() {
            let readback = Buffer::new(self.device(), "state", state.len() as u64, Placement::Readback)?;
            self.submit_and_wait(&record(&self.model, (lane, position), &readback, Way::ToSlot)?)?;
            readback.read(0, &mut state);
        }
        Ok(state)
    }

    /// Puts a state into a slot, from which a sequence can begin at the position of the state.
    ///
    /// # Errors
    /// Whatever error the device reports.
    ///
    /// # Panics
    /// With steps in flight, if there is no such slot, or the state is larger than those of the model.
    pub fn put_checkpoint(&mut self, slot: u32, state: &[u8]) -> Result<()> {
        assert!(self.in_flight.is_empty(), "a checkpoint is written with {} steps in flight", self.in_flight.len());
        let (bytes, most) = (state.len() as u64, self.model.state_bytes());
        assert!(bytes <= most, "a state of {bytes} bytes, of a model whose states have {most} at most");
        self.states.provide(slot, &self.model)?.write(0, state);
        Ok(())
    }

    fn copy_state(&mut self, (lane, position): (u32, u32), slot: u32, way: Way) -> Result<()> {
        let memory = self.states.provide(slot, &self.model)?;
        let recording = record(&self.model, (lane, position), &memory, way)?;
        match self.options.sync {
            Sync::Timeline => _ = self.queue().submit(&recording, &[])?,
            Sync::FenceKept | Sync::Fence => self.run_recording(&recording)?,
        }
        Ok(())
    }
}
