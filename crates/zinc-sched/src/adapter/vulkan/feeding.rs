//! Steps that feed prompts: in which ranges of layers they are submitted, one by one where other steps come between.

use std::time::Duration;

use zinc_kernels::step::{StepLanes, StepShape};
use zinc_model::Result;
use zinc_model::plan::StepPlan;
use zinc_vk::host_now_ns;

use super::recordings::{SamplingMode, StepPart};
use super::{SubmittedStep, Sync, VulkanModel};
use crate::model::{SequenceId, Step, Ticket};
use crate::step::StepKind;

/// A step that feeds, some of whose ranges are submitted.
#[derive(Debug)]
pub(super) struct BegunStep {
    kind: StepKind,
    rows: u32,
    sequence: SequenceId,
    lane: u32,
    part: StepPart,
    mode: SamplingMode,
    /// Its ring slot, which no other step has until this one is done.
    slot: u32,
    /// How many of its ranges are submitted.
    ranges: u32,
    submitted_at_ns: u64,
}

impl BegunStep {
    pub(super) fn sequence(&self) -> SequenceId {
        self.sequence
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
            let options = self.recorder().feed_options(shape);
            let forward = StepPlan::forward(&self.model.model().weights, &options);
            let plans = self.model.ranges(forward, self.options.longest_range);
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
        let BegunStep { kind, rows, sequence, lane, part, mode, slot, ranges, submitted_at_ns } = begun;
        assert!(
            (kind, rows, &[sequence][..], ranges) == (step.kind, step.rows, step.lanes, range),
            "range {range} of {step:?}, where range {ranges} of a {kind:?} of {rows} rows of {sequence:?} is due"
        );
        let recordings = self.recordings.ranges(part, slot);
        let recording = recordings[range as usize].clone();
        let is_last = range as usize + 1 == recordings.len();
        let done = match self.options.sync {
            Sync::Timeline => Some(self.queue().submit(&recording, self.last_on_second_queue.as_slice())?),
            Sync::FenceKept | Sync::Fence => {
                self.run_recording(&recording)?;
                None
            }
        };
        if !is_last {
            self.begun = Some(BegunStep { ranges: range + 1, ..begun });
            return Ok(None);
        }
        let ticket = Ticket::new(self.next_ticket);
        self.next_ticket += 1;
        self.in_flight.push_back(SubmittedStep {
            ticket,
            kind,
            rows,
            lanes: vec![(sequence, lane)],
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
        let Step { kind, rows, lanes: sequences, grown } = *step;
        assert!(grown.is_empty(), "{kind:?} with {grown:?}: a sequence has the pages of its prompt when it is opened");
        assert!(self.begun.is_none(), "{kind:?} is begun while a step of {:?} is", self.begun);
        let [sequence] = *sequences else { panic!("{kind:?} of {} lanes", sequences.len()) };
        let lane = self.lanes.lane(sequence);
        let mode = self.lanes.kept(lane).mode;
        let slot = self.take_slot();
        let submitted_at_ns = host_now_ns();
        let part = self.feed_part(kind, rows, mode);
        self.provide(part, slot)?;
        if let Some(stamps) = &self.stamps {
            stamps.reset(slot);
        }
        if kind == StepKind::Feed && self.uses_draft_model() {
            self.feed_draft(rows)?;
        }
        self.memory.write_wanted(slot, &StepLanes::of(&[lane], rows));
        self.begun = Some(BegunStep { kind, rows, sequence, lane, part, mode, slot, ranges: 0, submitted_at_ns });
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
