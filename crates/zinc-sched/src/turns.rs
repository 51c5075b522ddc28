//! The loop over the sequences of an engine: each turn submits a step, or waits for the oldest one and hands its outputs to their sequences.

use std::time::Duration;

use crate::checkpoints::CheckpointBook;
use crate::engine::{Ended, Engine, Lane, Outlets};
use crate::error::{Error, Result};
use crate::model::{Gate, SequenceId, StepModel};
use crate::occupancy::Work;
use crate::pace::Measured;
use crate::pages::PageBook;
use crate::plan::{Interval, PlannedStep, PromptPart, SequenceView, Turn, Wanted, next_turn};
use crate::resolve::Resolved;
use crate::reuse::{Did, settle};
use crate::sequence::{PolicyRole, Sequence};
use crate::speculation::MOST_LANES_WITH_DRAFTS;
use crate::status::LastStep;
use crate::step::{StepKind, StepStatus};

impl<M: StepModel> Engine<M> {
    /// Submits the next step, or waits for the oldest one in flight and delivers what it has sampled. Returns the sequences that have ended with it. Does nothing
    /// if no sequence runs.
    ///
    /// # Errors
    /// [`Error::Model`] and [`Error::UnexpectedOutput`], with which all running sequences end: the model is not called again, and every later call returns the
    /// same error. An error of one sequence is in its [`Ended::result`].
    pub fn turn(&mut self, outlets: &mut dyn Outlets) -> Result<Vec<Ended>> {
        self.check_usable()?;
        let result = self.take_turn(outlets);
        result.inspect_err(|error| self.give_up(error))
    }

    fn take_turn(&mut self, outlets: &mut dyn Outlets) -> Result<Vec<Ended>> {
        for sequence in self.lanes.iter_mut().filter_map(|lane| lane.running.as_mut()) {
            sequence.obey_cancel(outlets.outlet(sequence.id), &mut self.model);
        }
        self.share_pages()?;
        self.doubt_ranges();
        let running: Vec<usize> = (0..self.lanes.len()).filter(|lane| self.lanes[*lane].running.is_some()).collect();
        let views = self.views(&running);
        let (in_flight, depth) = (self.window.in_flight(), self.window.depth());
        match next_turn(&views, in_flight, depth, self.limits.feed_rows, self.interval()) {
            Turn::Feed { parts, has_room } => {
                for (index, view) in views.iter().enumerate() {
                    let Some(sequence) = &mut self.lanes[running[index]].running else { continue };
                    if parts.iter().any(|part| part.index == index) {
                        sequence.passed_over = 0;
                    } else if matches!(view.wanted, Wanted::Feed(_)) {
                        sequence.passed_over = sequence.passed_over.saturating_add(1);
                    }
                }
                let in_lane = |part: PromptPart| PromptPart { index: running[part.index], ..part };
                self.feed(parts.into_iter().map(in_lane).collect(), has_room)?;
            }
            Turn::Range => {
                if self.window.submit_range(&mut self.model, self.clock.now_ns())? {
                    self.keep_states()?;
                }
            }
            Turn::Sample(indices) => {
                let lanes: Vec<usize> = indices.into_iter().map(|index| running[index]).collect();
                let kind = self.sampling_kind(&lanes);
                self.sample(&lanes, kind)?;
            }
            Turn::Observe => self.observe(outlets)?,
            Turn::Idle => {}
        }
        let ended = self.take_ended();
        self.note_occupancy();
        Ok(ended)
    }

    /// Notes what the device has to do until the next turn.
    fn note_occupancy(&mut self) {
        let work = if self.running() > 0 { self.window.work() } else { Work::Unwanted };
        self.counts.occupancy = self.occupancy.note(work, self.clock.now_ns());
    }

    /// What the plan needs to know of the sequences in these lanes.
    fn views(&self, lanes: &[usize]) -> Vec<SequenceView> {
        let sequences = || lanes.iter().filter_map(|lane| self.lanes[*lane].running.as_ref());
        let begun = self.window.begun().map(|(begun, estimate)| {
            let is_own = |sequence: &&Sequence| begun.iter().any(|(own, _)| sequence.opened == Some(*own));
            // A step whose sequences have all ended does nothing.
            let runs = sequences().filter(is_own).any(Sequence::goes_on);
            (begun, if runs { self.pace.range_time(estimate) } else { Duration::ZERO })
        });
        let range = |id: SequenceId| begun.filter(|(of, _)| of.iter().any(|(own, _)| *own == id)).map(|(_, time)| time);
        let positions = self.limits.pages.map(|pool| pool.positions);
        sequences().map(|sequence| sequence.view(sequence.opened.and_then(range), positions)).collect()
    }

    /// The kind of a step that samples for the sequences in these lanes. It speculates only where no more sequences run than [`MOST_LANES_WITH_DRAFTS`], and with pages
    /// for all drafts.
    fn sampling_kind(&mut self, lanes: &[usize]) -> StepKind {
        let positions = self.limits.pages.map(|pool| pool.positions);
        let may_speculate = |lane: &usize| {
            self.lanes[*lane].running.as_ref().is_some_and(|sequence| {
                let drafts = sequence.policy_role.max_drafts();
                drafts > 0 && !positions.is_some_and(|positions| sequence.lacks_page(positions, drafts))
            })
        };
        let speculates = self.running() <= MOST_LANES_WITH_DRAFTS && lanes.iter().all(may_speculate);
        if speculates && self.policy.speculates() { StepKind::Speculate } else { StepKind::Decode }
    }

    /// What was submitted since the last step that samples, and what more may be: nobody's next token is to wait for longer than the options say, the step that
    /// brings it included. What that step takes must be known, or one range is all that may come.
    fn interval(&self) -> Interval {
        let room = self.pace.sample_time().map_or(Duration::ZERO, |time| self.options.max_gap.saturating_sub(time));
        Interval { ranges: self.window.since_sample().map(|time| self.pace.range_time(time)), room }
    }

    /// Notes in the window if a sequence has ended while it was fed.
    fn doubt_ranges(&mut self) {
        let sequences = self.lanes.iter().filter_map(|lane| lane.running.as_ref());
        if sequences.into_iter().any(|sequence| sequence.ended_unfed()) {
            self.window.doubt_ranges();
        }
    }

    /// Begins a step that feeds these parts of prompts, whose indices are lanes, or submits all of it where nothing may come between. `has_room` says whether it could have
    /// fed more.
    fn feed(&mut self, parts: Vec<PromptPart>, has_room: bool) -> Result<()> {
        let Self { model, window, lanes: all, clock, .. } = self;
        let (mut lanes, mut rows, mut positions) = (Vec::with_capacity(parts.len()), 0, 0);
        for part in parts {
            let sequence = all[part.index].running.as_mut().expect("a sequence that is fed runs");
            let opened = sequence.opened.expect("a sequence that is fed is open");
            let step = sequence.planned(part.kind, part.rows);
            rows += part.rows;
            positions += u64::from(part.rows) * u64::from(sequence.feed_position());
            sequence.submitted(step);
            lanes.push((opened, step));
        }
        // A mean of positions, each of which is a u32.
        let ranges = model.ranges(rows, (positions / u64::from(rows.max(1))) as u32);
        match ranges[..] {
            [time] => {
                window.submit(model, (lanes, has_room), &[], time, clock.now_ns())?;
                self.keep_states()
            }
            _ => window.begin(model, (lanes, has_room), ranges, clock.now_ns()),
        }
    }

    /// Submits a step that samples for the sequences in these lanes.
    fn sample(&mut self, lanes: &[usize], kind: StepKind) -> Result<()> {
        let Self { model, window, lanes: all, clock, .. } = self;
        let (mut planned, mut grown) = (Vec::with_capacity(lanes.len()), Vec::new());
        for lane in lanes {
            let sequence = all[*lane].running.as_mut().expect("a sequence that samples runs");
            let opened = sequence.opened.expect("a sequence that samples is open");
            planned.push((opened, sequence.planned(kind, 1)));
            grown.append(&mut sequence.grown);
        }
        let ticket = window.submit(model, (planned.clone(), false), &grown, Duration::ZERO, clock.now_ns())?;
        for (lane, (_, step)) in lanes.iter().zip(planned) {
            if let Some(sequence) = &mut all[*lane].running {
                sequence.submitted(step);
                sequence.close_gate(ticket);
            }
        }
        self.keep_states()
    }

    /// Waits for the oldest step in flight and handles its outputs.
    fn observe(&mut self, outlets: &mut dyn Outlets) -> Result<()> {
        let Self { model, window, lanes, book, checkpoints, policy, pace, clock, counts, occupancy, options, .. } =
            self;
        // Under a constraint, this opens the gate of the first step that samples. The gate of each later step was opened when the step before it was observed.
        for sequence in lanes.iter_mut().filter_map(|lane| lane.running.as_mut()) {
            sequence.open_early(model)?;
        }
        let awaited = window.oldest().expect("the plan observes only when something is in flight");
        let mut names = Vec::with_capacity(awaited.lanes.len());
        for (id, _) in &awaited.lanes {
            let sequence = lanes.iter_mut().filter_map(|lane| lane.running.as_mut()).find(|s| s.opened == Some(*id));
            let sequence = sequence.expect("a sequence runs while a step of it is in flight");
            sequence.open_late(awaited.ticket, outlets.outlet(sequence.id), model)?;
            names.push((*id, sequence.id));
        }
        let wait_ns = clock.now_ns();
        let (step, output) = {
            let outlets = &*outlets;
            let name = |id: SequenceId| names.iter().find(|(opened, _)| *opened == id).map_or(id, |(_, name)| *name);
            window.observe(model, &|id| outlets.cancelled(name(id)))?
        };
        let observed_ns = clock.now_ns();
        occupancy.note(window.work(), observed_ns);
        let lane_of = |id: SequenceId, lanes: &[Lane]| {
            let place = lanes.iter().position(|lane| lane.running.as_ref().is_some_and(|s| s.opened == Some(id)));
            place.expect("a sequence runs while a step of it is in flight")
        };
        // The time of a step that others had a part in, or steps before it, says nothing of drafts.
        let others = lanes.iter().filter(|lane| lane.running.is_some()).count() > MOST_LANES_WITH_DRAFTS;
        if others {
            policy.interrupted(observed_ns);
        }
        let mut policy = (!others).then_some(policy);
        let mut resolved: Vec<(usize, PlannedStep, Result<Resolved>)> = Vec::with_capacity(step.lanes.len());
        let (mut has_gates, mut ran) = (false, false);
        let rows = step.lanes.iter().map(|(_, planned)| planned.rows).sum();
        for ((id, planned), lane_output) in step.lanes.iter().zip(&output.lanes) {
            let lane = lane_of(*id, lanes);
            let sequence = lanes[lane].running.as_mut().expect("it runs");
            sequence.obey_cancel(outlets.outlet(sequence.id), model);
            has_gates |= sequence.gates.gate() != Gate::Open;
            ran |= lane_output.status != StepStatus::NoOp;
            let of_step = (rows, output.timing, observed_ns);
            let result = sequence.observed(*planned, lane_output, of_step, model, policy.as_deref_mut())?;
            resolved.push((lane, *planned, result));
        }
        let kind = StepKind::of_lanes(step.lanes.iter().map(|(_, planned)| planned.kind));
        // A gate that was opened above may have ended a sequence while it was fed.
        let someone_ended = lanes.iter().filter_map(|lane| lane.running.as_ref()).any(Sequence::ended_unfed);
        if someone_ended {
            window.doubt_ranges();
        }
        pace.observed(Measured {
            ranges: step.ranges.time,
            samples: !kind.feeds(),
            submitted_ns: step.ranges.submitted_ns.unwrap_or(wait_ns),
            wait_ns,
            observed_ns,
            is_plain: step.ranges.run && ran && !has_gates && !someone_ended && kind != StepKind::Speculate,
        });
        let mut delivered = 0;
        for ((number, planned, resolved), lane_output) in resolved.into_iter().zip(&output.lanes) {
            let lane = &mut lanes[number];
            let sequence = lane.running.as_mut().expect("it runs");
            let around = (&mut lane.kv, book.as_mut(), outlets.outlet(sequence.id));
            let did = Did::of(&resolved);
            delivered += sequence.apply(resolved, lane_output, observed_ns, around, model);
            if let Some(checkpoints) = checkpoints {
                let kept = settle(checkpoints, book.as_ref(), (number as u32, sequence), planned, did);
                counts.checkpoints_kept += u64::from(kept);
            }
        }
        counts.steps += 1;
        counts.prompt_tokens += output.lanes.iter().map(|lane| u64::from(lane.fed)).sum::<u64>();
        counts.tokens += u64::from(delivered);
        if kind.feeds() { &mut counts.feeding_rows } else { &mut counts.sampling_rows }.add(rows);
        counts.last_step = Some(LastStep { kind, lanes: step.lanes.len() as u32, observed_ns });
        if delivered > 0 && !options.host_work.is_zero() {
            clock.spend(options.host_work * delivered);
        }
        Ok(())
    }

    /// Closes the sequences that are done.
    fn take_ended(&mut self) -> Vec<Ended> {
        let mut ended = Vec::new();
        for lane in &mut self.lanes {
            if let Some(mut sequence) = lane.running.take_if(|sequence| sequence.is_done()) {
                if sequence.policy_role != PolicyRole::Absent {
                    self.policy.ended();
                }
                self.counts.speculation.add(sequence.speculation_stats);
                let id = sequence.id;
                let (opened, holding) = sequence.paused();
                if let Some(opened) = opened {
                    self.model.close(opened);
                }
                if let (Some(book), Some(holding)) = (&mut self.book, holding) {
                    book.close(holding);
                }
                let result = sequence.into_result(self.clock.now_ns(), self.model.counters());
                ended.push(Ended { sequence: id, result });
            }
        }
        ended
    }

    /// Forgets the model and all that it ran, after an error that is fatal.
    pub(crate) fn give_up(&mut self, error: &Error) {
        tracing::error!(%error, "the model is given up");
        for lane in &mut self.lanes {
            lane.kv.forget();
            if lane.running.take().is_some_and(|sequence| sequence.policy_role != PolicyRole::Absent) {
                self.policy.ended();
            }
        }
        self.book = self.limits.pages.map(PageBook::new);
        self.checkpoints = self.limits.checkpoints.map(|limits| CheckpointBook::new(limits.slots));
        self.counts.occupancy = self.occupancy.note(Work::Unwanted, self.clock.now_ns());
        self.failure = Some(error.clone());
    }
}
