//! The queue of the steps in flight; the host waits for them oldest first.

use std::collections::VecDeque;
use std::time::Duration;

use crate::depth::InflightDepth;
use crate::error::{Error, ModelCall, Result};
use crate::model::{GrownPage, SequenceId, Step, StepLane, StepModel, Ticket};
use crate::occupancy::Work;
use crate::plan::{InFlight, PlannedStep};
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
    lanes: PlannedLanes,
    /// Whether it could have fed more.
    has_room: bool,
    /// The estimated times of the ranges that are not submitted yet, in order.
    left: VecDeque<Duration>,
    /// How many of them are submitted.
    submitted: u32,
}

/// The sequences of a step in the order of its lanes, and what step of each it is.
pub(crate) type PlannedLanes = Vec<(SequenceId, PlannedStep)>;

/// Ranges that were submitted one after the other.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ranges {
    /// The sum of their estimated times.
    pub(crate) time: Duration,
    /// When the first of them was submitted; of a step without ranges when it was itself.
    pub(crate) submitted_ns: Option<u64>,
    /// Whether none of them has a sequence that has been cancelled.
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
    pub(crate) lanes: PlannedLanes,
    /// Whether it feeds and could have fed more.
    has_room: bool,
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

    pub(crate) fn in_flight(&self) -> InFlight {
        // At most InflightDepth::MAX.
        let steps = self.in_flight.len() as u32;
        InFlight { steps, has_room: self.in_flight.iter().any(|step| step.has_room) }
    }

    /// What the device has to do for sequences that run.
    pub(crate) fn work(&self) -> Work {
        if self.in_flight.is_empty() && self.begun.is_none() { Work::Lacking } else { Work::Queued }
    }

    /// The estimated time of the ranges submitted since the last step that samples for those who are not fed; `None` if there are none.
    pub(crate) fn since_sample(&self) -> Option<Duration> {
        self.since_sample
    }

    /// The sequences of the step that is begun, and the estimated time of that step's next range.
    pub(crate) fn begun(&self) -> Option<(&PlannedLanes, Duration)> {
        self.begun.as_ref().map(|begun| (&begun.lanes, begun.left.front().copied().unwrap_or_default()))
    }

    /// Notes that a sequence has ended whose steps that feed may be in flight: how long they take says nothing.
    pub(crate) fn doubt_ranges(&mut self) {
        self.loose.run = false;
        self.in_flight.iter_mut().for_each(|step| step.ranges.run = false);
    }

    /// Begins a step that feeds these sequences, whose ranges take these times: submits the first one. `has_room` says whether it could have fed more.
    ///
    /// # Panics
    /// If one is begun already, or the window is full.
    pub(crate) fn begin<M: StepModel>(
        &mut self,
        model: &mut M,
        (lanes, has_room): (PlannedLanes, bool),
        ranges: Vec<Duration>,
        now_ns: u64,
    ) -> Result<()> {
        assert!(self.begun.is_none(), "a step is begun while {:?} is", self.begun);
        self.begun = Some(BegunStep { lanes, has_room, left: ranges.into(), submitted: 0 });
        self.submit_range(model, now_ns)?;
        Ok(())
    }

    /// Submits the next range of the step that is begun, which is in flight with its last one. Returns whether it is that one.
    ///
    /// # Panics
    /// If none is begun, or the window is full.
    pub(crate) fn submit_range<M: StepModel>(&mut self, model: &mut M, now_ns: u64) -> Result<bool> {
        let begun = self.begun.as_mut().expect("a range is submitted of a step that is begun");
        let range = begun.submitted;
        let time = begun.left.pop_front().expect("a step is begun until its last range is submitted");
        begun.submitted += 1;
        let is_last = begun.left.is_empty();
        let (lanes, index) = step_lanes(&begun.lanes);
        self.assert_room(index);
        let ticket = model
            .submit_range(&Step { lanes: &lanes, grown: &[] }, range)
            .map_err(|source| Error::model(ModelCall::Submit { step: index }, source))?;
        assert_eq!(ticket.is_some(), is_last, "the last range of a step gives it a ticket");
        self.add_range(time, now_ns);
        if let (Some(ticket), Some(begun)) = (ticket, self.begun.take_if(|_| is_last)) {
            self.push(ticket, (begun.lanes, begun.has_room), now_ns);
        }
        Ok(is_last)
    }

    /// Submits a whole step of these sequences; `grown` are pages that they get. `has_room` says whether it feeds and could have fed more. `time` is what it is
    /// estimated to take if it feeds.
    ///
    /// # Panics
    /// If the window is full.
    pub(crate) fn submit<M: StepModel>(
        &mut self,
        model: &mut M,
        (lanes, has_room): (PlannedLanes, bool),
        grown: &[GrownPage],
        time: Duration,
        now_ns: u64,
    ) -> Result<Ticket> {
        let (of_model, index) = step_lanes(&lanes);
        self.assert_room(index);
        let step = Step { lanes: &of_model, grown };
        let ticket = model.submit(&step).map_err(|source| Error::model(ModelCall::Submit { step: index }, source))?;
        if step.kind().feeds() {
            self.add_range(time, now_ns);
        } else {
            self.since_sample = None;
        }
        self.push(ticket, (lanes, has_room), now_ns);
        Ok(ticket)
    }

    fn assert_room(&self, index: u32) {
        let (in_flight, depth) = (self.in_flight().steps, self.depth);
        assert!(in_flight < depth.get(), "step {index} submitted with {in_flight} of {depth} in flight");
    }

    fn add_range(&mut self, time: Duration, now_ns: u64) {
        self.loose.add(time, now_ns);
        self.since_sample = Some(self.since_sample.unwrap_or_default().saturating_add(time));
    }

    fn push(&mut self, ticket: Ticket, (lanes, has_room): (PlannedLanes, bool), now_ns: u64) {
        let mut ranges = std::mem::replace(&mut self.loose, Ranges::NONE);
        ranges.add(Duration::ZERO, now_ns);
        self.in_flight.push_back(StepInFlight { ticket, lanes, has_room, ranges });
    }

    /// The oldest step in flight, which [`observe`](Self::observe) waits for.
    pub(crate) fn oldest(&self) -> Option<&StepInFlight> {
        self.in_flight.front()
    }

    /// The step in flight that was submitted last.
    pub(crate) fn newest(&self) -> Option<&StepInFlight> {
        self.in_flight.back()
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

/// What a step does for each of these sequences, as a model is told, and its index in the first of them, by which errors name it.
fn step_lanes(lanes: &PlannedLanes) -> (Vec<StepLane>, u32) {
    let of_model = |(sequence, step): &(SequenceId, PlannedStep)| {
        let PlannedStep { kind, rows, .. } = *step;
        StepLane { sequence: *sequence, kind, rows }
    };
    (lanes.iter().map(of_model).collect(), lanes.first().map_or(0, |(_, step)| step.index))
}
