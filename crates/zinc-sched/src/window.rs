//! The queue of the steps in flight; the host waits for them oldest first.

use std::collections::VecDeque;
use std::time::Duration;

use crate::depth::InflightDepth;
use crate::error::{Error, ModelCall, Result};
use crate::model::{GrownPage, SequenceId, Step, StepModel, Ticket};
use crate::plan::PlannedStep;
use crate::step::StepOutput;

/// The steps in flight, of all sequences.
#[derive(Debug)]
pub(crate) struct Window {
    depth: InflightDepth,
    /// Oldest first.
    in_flight: VecDeque<StepInFlight>,
    /// The step that feeds of which not all ranges are submitted.
    begun: Option<BegunStep>,
    /// What was submitted since the last step in flight.
    loose: Ranges,
    /// The ranges submitted since the last step that samples for those who are not fed; `None` if there are none.
    since_sample: Option<Duration>,
}

/// A step that feeds, some of whose ranges are submitted.
#[derive(Debug)]
struct BegunStep {
    sequence: SequenceId,
    step: PlannedStep,
    /// The estimated times of the ranges that are not submitted yet, in order.
    left: VecDeque<Duration>,
    /// How many of them are submitted.
    submitted: u32,
}

/// Ranges that were submitted one after the other.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ranges {
    /// The sum of their estimated times.
    pub(crate) time: Duration,
    /// When the first of them was submitted; of a step without ranges when it was itself.
    pub(crate) submitted_ns: Option<u64>,
    /// Whether none of them belongs to a sequence that has been cancelled.
    pub(crate) run: bool,
}

impl Ranges {
    const NONE: Self = Self { time: Duration::ZERO, submitted_ns: None, run: true };

    fn add(&mut self, time: Duration, now_ns: u64) {
        self.time += time;
        self.submitted_ns.get_or_insert(now_ns);
    }
}

/// A step in flight.
#[derive(Debug)]
pub(crate) struct StepInFlight {
    pub(crate) ticket: Ticket,
    /// Its sequences in the order of its lanes, and what step of each it is.
    pub(crate) lanes: Vec<(SequenceId, PlannedStep)>,
    /// The ranges between the step before and the end of this one.
    pub(crate) ranges: Ranges,
}

impl Window {
    pub(crate) fn new(depth: InflightDepth) -> Self {
        let in_flight = VecDeque::with_capacity(depth.get() as usize);
        Self { depth, in_flight, begun: None, loose: Ranges::NONE, since_sample: None }
    }

    pub(crate) fn depth(&self) -> InflightDepth {
        self.depth
    }

    pub(crate) fn in_flight(&self) -> u32 {
        // At most InflightDepth::MAX.
        self.in_flight.len() as u32
    }

    /// The estimated time of the ranges submitted since the last step that samples for those who are not fed; `None` if there are none.
    pub(crate) fn since_sample(&self) -> Option<Duration> {
        self.since_sample
    }

    /// The sequence whose step is begun, and the estimated time of that step's next range.
    pub(crate) fn begun(&self) -> Option<(SequenceId, Duration)> {
        self.begun.as_ref().map(|begun| (begun.sequence, begun.left.front().copied().unwrap_or_default()))
    }

    /// Notes that a sequence has ended whose steps that feed may be in flight: how long they take says nothing.
    pub(crate) fn doubt_ranges(&mut self) {
        self.loose.run = false;
        self.in_flight.iter_mut().for_each(|step| step.ranges.run = false);
    }

    /// Begins a step that feeds, whose ranges take these times: submits the first one.
    ///
    /// # Panics
    /// If one is begun already, or the window is full.
    pub(crate) fn begin<M: StepModel>(
        &mut self,
        model: &mut M,
        (sequence, step): (SequenceId, PlannedStep),
        ranges: Vec<Duration>,
        now_ns: u64,
    ) -> Result<()> {
        assert!(self.begun.is_none(), "a step is begun while {:?} is", self.begun);
        self.begun = Some(BegunStep { sequence, step, left: ranges.into(), submitted: 0 });
        self.submit_range(model, now_ns)
    }

    /// Submits the next range of the step that is begun, which is in flight with its last one.
    ///
    /// # Panics
    /// If none is begun, or the window is full.
    pub(crate) fn submit_range<M: StepModel>(&mut self, model: &mut M, now_ns: u64) -> Result<()> {
        let begun = self.begun.as_mut().expect("a range is submitted of a step that is begun");
        let (range, PlannedStep { index, kind, rows }) = (begun.submitted, begun.step);
        let time = begun.left.pop_front().expect("a step is begun until its last range is submitted");
        begun.submitted += 1;
        let (lanes, is_last) = (vec![(begun.sequence, begun.step)], begun.left.is_empty());
        self.assert_room(index);
        let ticket = model
            .submit_range(&Step { kind, rows, lanes: &[lanes[0].0], grown: &[] }, range)
            .map_err(|source| Error::model(ModelCall::Submit { step: index }, source))?;
        assert_eq!(ticket.is_some(), is_last, "the last range of a step gives it a ticket");
        self.add_range(time, now_ns);
        if let Some(ticket) = ticket {
            self.begun = None;
            self.push(ticket, lanes, now_ns);
        }
        Ok(())
    }

    /// Submits a whole step of these sequences, which is a step of the same kind and with as many rows of each; `grown` are pages that they get. `time` is what it is estimated to take if it
    /// feeds.
    ///
    /// # Panics
    /// If the window is full.
    pub(crate) fn submit<M: StepModel>(
        &mut self,
        model: &mut M,
        lanes: Vec<(SequenceId, PlannedStep)>,
        grown: &[GrownPage],
        time: Duration,
        now_ns: u64,
    ) -> Result<Ticket> {
        let PlannedStep { index, kind, rows } = lanes.first().expect("a step has a lane").1;
        self.assert_room(index);
        let sequences: Vec<SequenceId> = lanes.iter().map(|(sequence, _)| *sequence).collect();
        let ticket = model
            .submit(&Step { kind, rows, lanes: &sequences, grown })
            .map_err(|source| Error::model(ModelCall::Submit { step: index }, source))?;
        if kind.feeds() {
            self.add_range(time, now_ns);
        } else {
            self.since_sample = None;
        }
        self.push(ticket, lanes, now_ns);
        Ok(ticket)
    }

    fn assert_room(&self, index: u32) {
        let (in_flight, depth) = (self.in_flight(), self.depth);
        assert!(in_flight < depth.get(), "step {index} submitted with {in_flight} of {depth} in flight");
    }

    fn add_range(&mut self, time: Duration, now_ns: u64) {
        self.loose.add(time, now_ns);
        self.since_sample = Some(self.since_sample.unwrap_or_default().saturating_add(time));
    }

    fn push(&mut self, ticket: Ticket, lanes: Vec<(SequenceId, PlannedStep)>, now_ns: u64) {
        let mut ranges = std::mem::replace(&mut self.loose, Ranges::NONE);
        ranges.add(Duration::ZERO, now_ns);
        self.in_flight.push_back(StepInFlight { ticket, lanes, ranges });
    }

    /// The oldest step in flight, which [`observe`](Self::observe) waits for.
    pub(crate) fn oldest(&self) -> Option<&StepInFlight> {
        self.in_flight.front()
    }

    /// Waits for the oldest step. If `stop` returns true of a sequence meanwhile, its steps behind it become no-ops.
    pub(crate) fn observe<M: StepModel>(
        &mut self,
        model: &mut M,
        stop: &dyn Fn(SequenceId) -> bool,
    ) -> Result<(StepInFlight, StepOutput)> {
        let step = self.in_flight.pop_front().expect("the plan observes only when something is in flight");
        let index = step.lanes.first().map_or(0, |(_, step)| step.index);
        let output = model
            .wait_or_stop(step.ticket, stop)
            .map_err(|source| Error::model(ModelCall::Wait { step: index }, source))?;
        assert_eq!(output.lanes.len(), step.lanes.len(), "a step reports what it did for each of its lanes");
        Ok((step, output))
    }
}
