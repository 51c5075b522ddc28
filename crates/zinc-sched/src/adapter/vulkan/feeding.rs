//! Steps that feed prompts: in which ranges of layers they are submitted, one by one where other steps come between.

use std::time::Duration;

use zinc_kernels::step::{StepLanes, StepShape, WantedLane};
use zinc_model::Result;
use zinc_vk::host_now_ns;

use super::recordings::{SamplingMode, StepPart};
use super::{SubmittedStep, Sync, VulkanModel};
use crate::model::{SequenceId, Step, StepLane, Ticket};
use crate::step::StepKind;

/// A step that feeds, some of whose ranges are submitted.
#[derive(Debug)]
pub(super) struct BegunStep {
    /// What it does for each of its sequences, and the numbers of their lanes.
    lanes: Vec<(StepLane, u32)>,
    /// Its layers, and what is behind their last range.
    parts: (StepPart, StepPart),
    mode: SamplingMode,
    /// Its ring slot, which no other step has until this one is done.
    slot: u32,
    /// How many of its ranges are submitted.
    ranges: u32,
    submitted_at_ns: u64,
}

impl BegunStep {
    /// Whether it takes in tokens of a sequence.
    pub(super) fn feeds(&self, sequence: SequenceId) -> bool {
        self.lanes.iter().any(|(own, _)| own.sequence == sequence)
    }

    /// Its ring slot.
    pub(super) fn slot(&self) -> u32 {
        self.slot
    }
}

impl VulkanModel {
    /// How long the ranges of a step that feeds are estimated to take, as [`StepModel::ranges`](crate::StepModel::ranges) says.
    pub(super) fn estimated_ranges(&mut self, rows: u32, position: u32) -> Vec<Duration> {
        let shape = StepShape::feeding(rows, self.options.feed_shapes.most());
        if !self.range_plans.contains_key(&shape) {
            let plans = self.model.ranges(self.recorder().feed_layers(shape), self.options.longest_range);
            self.range_plans.insert(shape, plans);
        }
        // A step with fewer rows than its shape has takes nearly as long: most of its time goes to weights.
        let ranges = self.range_plans[&shape].iter().map(|plan| self.model.estimate(plan, position));
        // Nothing may run between the ranges of a step that shares its state and its residual stream with others.
        if self.model.carries() { ranges.collect() } else { vec![ranges.sum()] }
    }

    /// Submits a range of a step that feeds. The first one begins the step, and the last one gives it a ticket.
    pub(super) fn feed_range(&mut self, step: &Step<'_>, range: u32) -> Result<Option<Ticket>> {
        if range == 0 {
            self.begin(step)?;
        }
        let begun = self.begun.take().unwrap_or_else(|| panic!("range {range} of a step that is not begun"));
        assert!(
            begun.ranges == range && begun.lanes.iter().map(|(own, _)| own).eq(step.lanes),
            "range {range} of {step:?}, where range {} of {:?} is due",
            begun.ranges,
            begun.lanes
        );
        let BegunStep { parts: (layers, end), slot, .. } = begun;
        let recordings = self.recordings.ranges(layers, slot);
        let is_last = range as usize + 1 == recordings.len();
        let recording = recordings[range as usize].clone();
        let end = is_last.then(|| self.recordings.whole(end, slot).clone());
        let waits = self.last_on_second_queue.as_slice();
        let done = match (self.options.sync, &end) {
            (Sync::Timeline, None) => Some(self.queue().submit(&recording, waits)?),
            (Sync::Timeline, Some(end)) => Some(self.queue().submit_in_turn([(&recording, waits), (end, &[])])?),
            (Sync::FenceKept | Sync::Fence, _) => {
                for recording in [recording].iter().chain(&end) {
                    self.run_recording(recording)?;
                }
                None
            }
        };
        if !is_last {
            self.begun = Some(BegunStep { ranges: range + 1, ..begun });
            return Ok(None);
        }
        let BegunStep { lanes, mode, submitted_at_ns, .. } = begun;
        let ticket = Ticket::new(self.next_ticket);
        self.next_ticket += 1;
        self.in_flight.push_back(SubmittedStep {
            ticket,
            kind: step.kind(),
            lanes,
            shape: StepShape::ONE,
            mode,
            slot,
            waits_for: Vec::new(),
            forward: None,
            done,
            gate: None,
            sampling_owed: false,
            submitted_at_ns,
            submit_done_ns: host_now_ns(),
        });
        Ok(Some(ticket))
    }

    /// Makes what a step that feeds needs before its first range.
    fn begin(&mut self, step: &Step<'_>) -> Result<()> {
        let (kind, rows) = (step.kind(), step.rows());
        let grown = step.grown;
        assert!(grown.is_empty(), "{kind:?} with {grown:?}: a sequence has the pages of its prompt when it is opened");
        assert!(self.begun.is_none(), "{kind:?} is begun while a step of {:?} is", self.begun);
        assert!(step.lanes.iter().all(|own| own.kind.feeds()), "{:?} as one step", step.lanes);
        let lanes: Vec<(StepLane, u32)> = step.lanes.iter().copied().zip(self.lanes.lanes_of(step.lanes)).collect();
        let sampled = || lanes.iter().filter(|(own, _)| own.kind.samples()).map(|(_, lane)| *lane);
        let modes = sampled().map(|lane| self.lanes.kept(lane).mode);
        let mode = modes.reduce(SamplingMode::join).unwrap_or(SamplingMode::PLAIN);
        let slot = self.take_slot();
        let submitted_at_ns = host_now_ns();
        let parts = self.feed_parts(rows, sampled().count() as u32, mode);
        self.provide(parts.0, slot)?;
        self.provide(parts.1, slot)?;
        if let Some(stamps) = &self.stamps {
            stamps.reset(slot);
        }
        if kind == StepKind::Feed && self.uses_draft_model() {
            self.feed_draft(rows)?;
        }
        let wanted: Vec<WantedLane> =
            lanes.iter().map(|(own, lane)| WantedLane { lane: *lane, rows: own.rows }).collect();
        self.memory.write_wanted(slot, &StepLanes::with_rows(&wanted));
        self.begun = Some(BegunStep { lanes, parts, mode, slot, ranges: 0, submitted_at_ns });
        Ok(())
    }

    /// The ring slot of the next step: the one that has been free for longest.
    ///
    /// # Panics
    /// If more steps are in flight than the model has ring slots for.
    pub(super) fn take_slot(&mut self) -> u32 {
        let in_flight = self.in_flight.len();
        self.free_slots.pop_front().unwrap_or_else(|| panic!("a step is submitted with {in_flight} in flight"))
    }
}
