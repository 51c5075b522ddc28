//! Checkpoints of recurrent states: copies of all that a lane's state consists of, in slots outside the device's own memory. They are queued in order with the steps,
//! so that nobody waits for them.

use std::sync::Arc;

use zinc_kernels::step::PAGE_POSITIONS;
use zinc_model::device::{DeviceModel, RecurrentPart};
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

    /// The checkpoints that a model keeps, if it has a recurrent state.
    pub(super) fn limits(model: &DeviceModel, options: &VulkanOptions) -> Option<CheckpointLimits> {
        let spacing = options.checkpoint_spacing.max(1).next_multiple_of(PAGE_POSITIONS);
        let limits = CheckpointLimits { slots: options.checkpoints, page: PAGE_POSITIONS, spacing };
        (!model.recurrent(0).is_empty()).then_some(limits)
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
        let buffer = Buffer::new(model.device(), "checkpoint", state_bytes(model), Placement::Readback)?;
        self.memory.resize(self.memory.len().max(index + 1), None);
        self.memory[index] = Some(buffer.clone());
        Ok(buffer)
    }
}

/// Whether a buffer was not made because there is no memory for it. Nothing else has failed then.
fn is_lack_of_memory(error: &Error) -> bool {
    matches!(error, Error::Device(zinc_vk::Error::OutOfMemory { .. } | zinc_vk::Error::BufferTooLarge { .. }))
}

/// Bytes of the recurrent state of a lane.
fn state_bytes(model: &DeviceModel) -> u64 {
    model.recurrent(0).iter().map(|part| part.bytes).sum()
}

/// Records the copy of the state of a lane into a slot, or back.
fn record(model: &DeviceModel, lane: u32, slot: &Arc<Buffer>, way: Way) -> Result<Arc<Recording>> {
    let all = Access::SHADER_READ | Access::SHADER_WRITE | Access::TRANSFER_READ | Access::TRANSFER_WRITE;
    let mut recording = RecordingBuilder::new(model.device(), QueueKind::Compute, "checkpoint")?;
    recording.barrier(all, Access::TRANSFER_READ | Access::TRANSFER_WRITE);
    let mut at = 0;
    for RecurrentPart { buffer, offset, bytes } in model.recurrent(lane) {
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
    pub(super) fn keep_state(&mut self, sequence: SequenceId, slot: u32) -> Result<Kept<Error>> {
        let is_begun = self.begun.as_ref().is_some_and(|begun| begun.feeds(sequence));
        assert!(!is_begun, "the state of {sequence:?} is kept between the ranges of a step");
        match self.states.provide(slot, &self.model) {
            Err(reason) if is_lack_of_memory(&reason) => return Ok(Kept::NoMemory(reason)),
            memory => memory?,
        };
        self.copy_state(self.lanes.lane(sequence), slot, Way::ToSlot)?;
        Ok(Kept::Queued)
    }

    /// Panics if a model with a recurrent state is to begin at another position than 0 without a checkpoint, or one without such a state with one.
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
        start.restored.map_or(Ok(()), |slot| self.copy_state(start.lane, slot, Way::FromSlot))
    }

    /// The recurrent state of a lane, as a checkpoint of it would be: for [`put_checkpoint`](Self::put_checkpoint), of another model that was made of the same
    /// [`DeviceModel`] too. Empty if the model has none.
    ///
    /// # Errors
    /// Whatever error the device reports.
    ///
    /// # Panics
    /// With steps in flight, or if there is no such lane.
    pub fn state(&self, lane: u32) -> Result<Vec<u8>> {
        assert!(self.in_flight.is_empty(), "a state is read with {} steps in flight", self.in_flight.len());
        let mut state = vec![0; state_bytes(&self.model) as usize];
        if !state.is_empty() {
            let readback = Buffer::new(self.device(), "state", state.len() as u64, Placement::Readback)?;
            self.submit_and_wait(&record(&self.model, lane, &readback, Way::ToSlot)?)?;
            readback.read(0, &mut state);
        }
        Ok(state)
    }

    /// Puts a recurrent state into a slot, from which a sequence can begin at the position of the state.
    ///
    /// # Errors
    /// Whatever error the device reports.
    ///
    /// # Panics
    /// With steps in flight, if there is no such slot, or the state has another size than those of the model.
    pub fn put_checkpoint(&mut self, slot: u32, state: &[u8]) -> Result<()> {
        assert!(self.in_flight.is_empty(), "a checkpoint is written with {} steps in flight", self.in_flight.len());
        let bytes = state_bytes(&self.model);
        assert_eq!(state.len() as u64, bytes, "bytes of a state, of a model whose states have {bytes}");
        self.states.provide(slot, &self.model)?.write(0, state);
        Ok(())
    }

    fn copy_state(&mut self, lane: u32, slot: u32, way: Way) -> Result<()> {
        let memory = self.states.provide(slot, &self.model)?;
        let recording = record(&self.model, lane, &memory, way)?;
        match self.options.sync {
            Sync::Timeline => _ = self.queue().submit(&recording, &[])?,
            Sync::FenceKept | Sync::Fence => self.run_recording(&recording)?,
        }
        Ok(())
    }
}
