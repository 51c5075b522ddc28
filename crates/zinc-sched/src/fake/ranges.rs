//! Steps that feed in ranges, between which the simulated device runs others.

use super::{Begun, Call, FakeError, FakeModel, LooseRange, Pending, PendingLane};
use crate::clock::{Clock as _, nanoseconds};
use crate::model::{SequenceId, Step, StepLane, Ticket};
use crate::plan::{Feeding, prompt_step};
use crate::step::StepKind;

impl FakeModel {
    /// How many ranges a step that feeds so many tokens has: one if nothing can come between.
    pub(super) fn range_count(&self, rows: u32) -> u32 {
        if rows > 1 && self.options.limits.lanes > 1 { self.options.ranges.max(1) } else { 1 }
    }

    /// Submits a range of a step that feeds.
    pub(super) fn feed_range(&mut self, step: &Step<'_>, range: u32) -> Result<Option<Ticket>, FakeError> {
        let (kind, ranges) = (step.kind(), self.range_count(step.rows()));
        assert!(kind.feeds(), "a range of a {kind:?} submitted");
        assert!(step.grown.is_empty(), "pages given with a {kind:?}");
        let lanes = if range == 0 {
            let lanes = self.admit(step);
            self.begun = Some(Begun { lanes: step.lanes.to_vec(), submitted: 0 });
            lanes
        } else {
            self.pending_lanes(step)
        };
        let begun = self.begun.as_mut().unwrap_or_else(|| panic!("range {range} of a step that is not begun"));
        assert!(
            (&begun.lanes[..], begun.submitted) == (step.lanes, range),
            "range {range} of {step:?} submitted, where range {} of {:?} is due",
            begun.submitted,
            begun.lanes
        );
        begun.submitted += 1;
        if begun.submitted == ranges {
            self.begun = None;
            return self.enqueue(kind, lanes).map(Some);
        }
        let at_ns = self.clock.now_ns();
        self.clock.advance(self.options.submit);
        let lanes = lanes.iter().map(|own| (own.lane, own.rows)).collect();
        self.loose.push(LooseRange { lanes, first: range == 0, submit_done_ns: self.clock.now_ns() });
        self.probe.note(Call::Range { at_ns });
        Ok(None)
    }

    /// The lanes of a step, in order.
    fn pending_lanes(&self, step: &Step<'_>) -> Vec<PendingLane> {
        let pending = |own: &StepLane| {
            let StepLane { sequence, kind, rows } = *own;
            let lane = self.lane_of(sequence, "submit");
            let pages = self.open[lane].as_ref().map_or(0, |open| open.pages.len());
            PendingLane { sequence, lane, kind, rows, pages, opened: None }
        };
        step.lanes.iter().map(pending).collect()
    }

    /// Checks that a step is due, and returns its lanes.
    pub(super) fn admit(&mut self, step: &Step<'_>) -> Vec<PendingLane> {
        let (kind, rows) = (step.kind(), step.rows());
        let is_alike = |own: &StepLane| if kind.feeds() { own.kind.feeds() } else { own.kind == kind };
        assert!(step.lanes.iter().all(is_alike), "{:?} submitted as one step", step.lanes);
        let (most, speculates) = (self.options.limits.feed_rows, kind == StepKind::Speculate);
        assert!(!kind.feeds() || rows <= most, "{kind:?} of {rows} rows submitted: at most {most} are supported");
        assert!(!speculates || step.lanes.len() == 1, "{kind:?} of {} lanes submitted", step.lanes.len());
        self.assert_room();
        let begun = self.begun.as_ref().map(|begun| &begun.lanes);
        assert!(begun.is_none() || !kind.feeds(), "{kind:?} submitted while a step of {begun:?} is begun");
        let lanes = self.pending_lanes(step);
        for (index, own) in lanes.iter().enumerate() {
            let sequence = own.sequence;
            assert!(!self.is_begun(sequence), "{kind:?} submitted between the ranges of one of its sequence");
            assert!(
                lanes[..index].iter().all(|other| other.sequence != sequence),
                "{kind:?} of one sequence twice submitted"
            );
            self.admit_sequence(own.lane, own.kind, own.rows);
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
                let due = prompt_step(host.feeds_left + 1, Feeding { rows, last_token: host.last_token });
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
        // Behind steps that speculate this is the least position that the step may have; the device checks what it writes.
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
        self.begun.as_ref().is_some_and(|begun| begun.lanes.iter().any(|own| own.sequence == sequence))
    }

    /// Runs the ranges that lie between a step and the one before it.
    pub(super) fn run_ranges(&mut self, pending: &Pending) {
        for range in &pending.behind {
            let begin_ns = range.submit_done_ns.max(self.device_free_at_ns);
            let mut is_live = false;
            for &(lane, rows) in &range.lanes {
                let open = self.open_in(lane);
                if open.device.live && open.host.cancelled_at_ns.is_some_and(|at_ns| at_ns <= begin_ns) {
                    open.device.live = false;
                    let (first, pages) = (open.device.position, open.pages.clone());
                    if !range.first {
                        if let Some(recurrent) = &mut self.recurrent {
                            recurrent.break_off(lane);
                        }
                        // The ranges before have written keys and values that do not count.
                        let mut own = self.cache.of(lane, &pages);
                        (first..first + rows).for_each(|position| own.set(position, None));
                    }
                }
                is_live |= self.open_in(lane).device.live;
            }
            let taken = if is_live { self.options.step } else { self.options.no_op };
            self.device_free_at_ns = begin_ns + nanoseconds(taken);
        }
    }
}
