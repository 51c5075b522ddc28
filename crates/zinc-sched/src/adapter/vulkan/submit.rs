//! How the parts of a step reach the queues: behind what was submitted before, with the gates that they wait for, or one after the other with fences.

use std::sync::Arc;

use zinc_kernels::step::{StepLanes, StepShape};
use zinc_model::Result;
use zinc_vk::{Recording, TimelinePoint, host_now_ns};

use super::recordings::{SamplingMode, StepPart};
use super::{Queues, Sync, VulkanModel};
use crate::model::{Gate, SequenceId, Ticket};

impl VulkanModel {
    /// Runs what is no step, behind everything submitted before, and waits for it as the host follows the device.
    pub(super) fn submit_and_wait(&self, recording: &Arc<Recording>) -> Result<()> {
        match self.options.sync {
            Sync::Timeline => self.queue().submit(recording, self.last_on_second_queue.as_slice())?.wait()?,
            Sync::FenceKept | Sync::Fence => self.queue().submit_and_wait_fence(recording)?,
        }
        Ok(())
    }

    /// Submits the ranges of a part of a step, and waits for each with a fence; in the fence baseline its commands are written anew first.
    pub(super) fn run_part(&mut self, part: StepPart, slot: u32) -> Result<()> {
        for recording in self.recordings.ranges(part, slot).to_vec() {
            self.run_recording(&recording)?;
        }
        Ok(())
    }

    /// Submits a recording and waits for it with a fence; in the fence baseline its commands are written anew first.
    pub(super) fn run_recording(&mut self, recording: &Arc<Recording>) -> Result<()> {
        if self.options.sync == Sync::Fence {
            self.queue().record_again(recording)?;
        }
        let before_ns = host_now_ns();
        self.queue().submit_and_wait_fence(recording)?;
        self.waited_ns += host_now_ns() - before_ns;
        Ok(())
    }

    /// Submits the ranges of a part of a step on the queue of the forward pass, behind everything submitted before. Returns the point of the last.
    pub(super) fn submit_part(&self, part: StepPart, slot: u32) -> Result<TimelinePoint> {
        let submit = |recording: &Arc<Recording>| self.queue().submit(recording, self.last_on_second_queue.as_slice());
        let (last, before) = self.recordings.ranges(part, slot).split_last().expect("a part has a range at least");
        for recording in before {
            submit(recording)?;
        }
        Ok(submit(last)?)
    }

    /// Submits the forward pass and the sampling of a step apart. Returns the point at which its logits are computed, if there is one, and the
    /// point at which the step is done.
    pub(super) fn submit_split(
        &mut self,
        (shape, mode): (StepShape, SamplingMode),
        slot: u32,
        gate: Option<u64>,
    ) -> Result<(Option<TimelinePoint>, TimelinePoint)> {
        let gate = gate.map(|value| self.gates.point(value));
        let [forward, choose] = [StepPart::Forward(shape, mode), StepPart::Sample(shape, mode)]
            .map(|part| self.recordings.whole(part, slot));
        if let (Queues::Two, Some(second)) = (self.options.queues, self.device().second_compute_queue()) {
            let forward = self.queue().submit(forward, self.last_on_second_queue.as_slice())?;
            let waits: Vec<TimelinePoint> = [forward.clone()].into_iter().chain(gate).collect();
            let done = second.submit(choose, &waits)?;
            self.last_on_second_queue = Some(done.clone());
            return Ok((Some(forward), done));
        }
        if mode.gate == Gate::Token {
            let forward = self.queue().submit(forward, &[])?;
            return Ok((Some(forward), self.queue().submit(choose, gate.as_slice())?));
        }
        Ok((None, self.queue().submit_in_turn([(forward, &[]), (choose, gate.as_slice())])?))
    }

    /// Feeds the draft model the next `tokens` tokens of the sequence. The host does not wait for it; steps submitted later run behind it.
    pub(super) fn feed_draft(&mut self, tokens: u32) -> Result<()> {
        let drafter = self.drafter.as_ref().expect("a draft model is fed only where there is one");
        for (rows, shape) in drafter.feeds(tokens) {
            let (part, slot) = (StepPart::FeedDraft(shape), self.next_draft_feed);
            self.next_draft_feed = (slot + 1) % self.limits.ring_slots;
            self.provide(part, slot)?;
            // The list of rows, as the recording, must not be used again while it is in flight.
            if let Some(point) = &self.draft_feeds[slot as usize] {
                point.wait()?;
            }
            self.memory.write_wanted(self.memory.draft_slot(slot), &StepLanes::of(&[0], rows));
            if self.options.sync != Sync::Timeline {
                self.run_part(part, slot)?;
                continue;
            }
            self.draft_feeds[slot as usize] = Some(self.submit_part(part, slot)?);
        }
        Ok(())
    }

    /// Opens all gates up to a value, one by one. If the timeline jumped over values that submissions wait for, the validation layer would
    /// take the jump for a signal that is still pending, and object to the next one (VUID-VkSemaphoreSignalInfo-value-03259).
    pub(super) fn open_gates(&mut self, value: u64) -> Result<()> {
        while self.opened_gate < value {
            self.opened_gate += 1;
            self.gates.signal(self.opened_gate)?;
        }
        Ok(())
    }

    /// Lets a lane of a step sample, after the guide or choice that it waits for is written. A step samples once all its lanes are let, and those before it
    /// have been.
    pub(super) fn let_sample(&mut self, ticket: Ticket, sequence: SequenceId) -> Result<()> {
        let index = self.index_of(ticket);
        self.in_flight[index].waits_for.retain(|waiting| *waiting != sequence);
        self.open_ready_gates()
    }

    /// Lets a sequence that is cancelled sample in all steps in flight.
    pub(super) fn let_cancelled_sample(&mut self, sequence: SequenceId) -> Result<()> {
        for step in &mut self.in_flight {
            step.waits_for.retain(|waiting| *waiting != sequence);
        }
        self.open_ready_gates()
    }

    /// Opens the gates of the steps in flight, oldest first, up to the first that waits for the host.
    fn open_ready_gates(&mut self) -> Result<()> {
        let ready = self.in_flight.iter().take_while(|step| step.waits_for.is_empty());
        if let Some(value) = ready.filter_map(|step| step.gate).max() {
            self.open_gates(value)?;
        }
        // With fences there is one step in flight.
        let step = self.in_flight.front_mut().filter(|step| step.sampling_owed && step.waits_for.is_empty());
        if let Some(step) = step {
            step.sampling_owed = false;
            let (part, slot) = (StepPart::Sample(step.shape, step.mode), step.slot);
            self.run_part(part, slot)?;
        }
        Ok(())
    }
}
