//! Steps that feed in ranges, between which the simulated device runs others.

use super::{Begun, Call, FakeError, FakeModel, LooseRange, Pending, PendingLane};
use crate::clock::{Clock as _, nanoseconds};
use crate::model::{SequenceId, Step, Ticket};
use crate::plan::prompt_step;
use crate::step::StepKind;

impl FakeModel {
    /// How many ranges a step that feeds so many tokens has: one if nothing can come between.
    pub(super) fn range_count(&self, rows: u32) -> u32 {
        if rows > 1 && self.options.limits.lanes > 1 { self.options.ranges.max(1) } else { 1 }
    }

    /// Submits a range of a step that feeds.
    pub(super) fn feed_range(&mut self, step: &Step<'_>, range: u32) -> Result<Option<Ticket>, FakeError> {
        let Step { kind, rows, lanes: sequences, .. } = *step;
        assert!(kind.feeds(), "a range of a {kind:?} submitted");
        assert!(step.grown.is_empty(), "pages given with a {kind:?}");
        if range == 0 {
            let lanes = self.admit(step);
            let [PendingLane { sequence, lane, .. }] = lanes[..] else { panic!("{kind:?} of {} lanes", lanes.len()) };
            self.begun = Some(Begun { sequence, lane, kind, rows, submitted: 0 });
        }
        let begun = self.begun.as_mut().unwrap_or_else(|| panic!("range {range} of a step that is not begun"));
        let Begun { sequence, lane, submitted, .. } = *begun;
        assert!(
            (begun.kind, begun.rows, &[sequence][..], submitted) == (kind, rows, sequences, range),
            "range {range} of a {kind:?} of {rows} rows submitted, where range {submitted} of {} is due",
            sequence.value()
        );
        begun.submitted += 1;
        if begun.submitted == self.range_count(rows) {
            self.begun = None;
            let own = PendingLane { sequence, lane, opened: None };
            return self.enqueue(kind, rows, vec![own]).map(Some);
        }
        let at_ns = self.clock.now_ns();
        self.clock.advance(self.options.submit);
        self.loose.push(LooseRange { lane, rows, first: range == 0, submit_done_ns: self.clock.now_ns() });
        self.probe.note(Call::Range { at_ns });
        Ok(None)
    }

    /// Checks that a step is due, and returns its lanes.
    pub(super) fn admit(&mut self, step: &Step<'_>) -> Vec<PendingLane> {
        let Step { kind, rows, lanes: sequences, .. } = *step;
        assert!(
            sequences.len() == 1 || kind == StepKind::Decode && !sequences.is_empty(),
            "{kind:?} of {} lanes submitted",
            sequences.len()
        );
        self.assert_room();
        let begun = self.begun.as_ref().map(|begun| begun.sequence);
        assert!(begun.is_none() || !kind.feeds(), "{kind:?} submitted while a step of {begun:?} is begun");
        let mut lanes: Vec<PendingLane> = Vec::with_capacity(sequences.len());
        for &sequence in sequences {
            let lane = self.lane_of(sequence, "submit");
            assert!(begun != Some(sequence), "{kind:?} submitted between the ranges of one of its sequence");
            assert!(lanes.iter().all(|own| own.lane != lane), "{kind:?} of one sequence twice submitted");
            lanes.push(PendingLane { sequence, lane, opened: None });
            self.admit_sequence(lane, kind, rows);
        }
        lanes
    }

    pub(super) fn assert_room(&self) {
        let ring_slots = self.options.limits.ring_slots;
        assert!((self.in_flight.len() as u32) < ring_slots, "submit with all {ring_slots} ring slots in flight");
    }

    /// Checks that a step of the sequence in a lane is due.
    fn admit_sequence(&mut self, lane: usize, kind: StepKind, rows: u32) {
        let host = &mut self.open_in(lane).host;
        match kind {
            StepKind::Feed | StepKind::FeedDecode => {
                let due = prompt_step(host.feeds_left + 1, host.feeding);
                assert!(due == Some((kind, rows)), "{kind:?} of {rows} rows submitted, where {due:?} is due");
                host.feeds_left -= kind.fed_of(rows);
                host.decodes_left -= u32::from(kind.samples());
            }
            StepKind::Decode | StepKind::Speculate => {
                assert!(host.feeds_left == 0, "{kind:?} submitted with {} prompt tokens to feed", host.feeds_left);
                assert!(rows == 1, "{kind:?} of {rows} rows submitted");
                assert!(host.decodes_left > 0, "{kind:?} submitted beyond the budget");
                host.decodes_left -= 1;
                let speculates = kind == StepKind::Speculate;
                assert!(
                    !speculates || host.speculative == crate::model::SpeculativeDecoding::On,
                    "Speculate in a sequence that is not drafted"
                );
            }
        }
        assert!(host.cancelled_at_ns.is_none(), "{kind:?} submitted after a cancel");
        // Drafts are behind the position of the step, but there are none where there are pages.
        host.position += rows;
        let (end, pages) = (host.position, self.open_in(lane).pages.len() as u32);
        let room = self.options.limits.pages.map(|pool| pages * pool.positions);
        assert!(
            room.is_none_or(|room| end <= room),
            "{kind:?} submitted up to position {end}, with pages for {room:?}"
        );
    }

    /// Whether a step of a sequence is begun that has ranges left.
    pub(super) fn is_begun(&self, sequence: SequenceId) -> bool {
        self.begun.as_ref().is_some_and(|begun| begun.sequence == sequence)
    }

    /// Runs the ranges that lie between a step and the one before it.
    pub(super) fn run_ranges(&mut self, pending: &Pending) {
        for range in &pending.behind {
            let begin_ns = range.submit_done_ns.max(self.device_free_at_ns);
            let open = self.open_in(range.lane);
            if open.device.live && open.host.cancelled_at_ns.is_some_and(|at_ns| at_ns <= begin_ns) {
                open.device.live = false;
                let (first, pages) = (open.device.position, open.pages.clone());
                if !range.first {
                    // The ranges before have written keys and values that do not count.
                    let mut own = self.cache.of(range.lane, &pages);
                    (first..first + range.rows).for_each(|position| own.set(position, None));
                }
            }
            let live = self.open_in(range.lane).device.live;
            let taken = if live { self.options.step } else { self.options.no_op };
            self.device_free_at_ns = begin_ns + nanoseconds(taken);
        }
    }
}
