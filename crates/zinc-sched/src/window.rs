//! The queue of the steps in flight; the host waits for them oldest first.

use std::collections::VecDeque;

use crate::depth::InflightDepth;
use crate::error::{Error, ModelCall, Result};
use crate::model::{SequenceId, Step, StepModel, Ticket};
use crate::plan::PlannedStep;
use crate::step::{StepKind, StepOutput};

/// The steps in flight, of all sequences.
#[derive(Debug)]
pub(crate) struct Window {
    depth: InflightDepth,
    /// Oldest first.
    in_flight: VecDeque<StepInFlight>,
    /// Whether the step that was submitted last feeds.
    fed_last: bool,
}

/// A step in flight.
#[derive(Debug)]
pub(crate) struct StepInFlight {
    pub(crate) ticket: Ticket,
    /// Its sequences in the order of its lanes, and what step of each it is.
    pub(crate) lanes: Vec<(SequenceId, PlannedStep)>,
}

impl Window {
    pub(crate) fn new(depth: InflightDepth) -> Self {
        Self { depth, in_flight: VecDeque::with_capacity(depth.get() as usize), fed_last: false }
    }

    pub(crate) fn depth(&self) -> InflightDepth {
        self.depth
    }

    pub(crate) fn in_flight(&self) -> u32 {
        // At most InflightDepth::MAX.
        self.in_flight.len() as u32
    }

    /// Whether the step that was submitted last feeds.
    pub(crate) fn fed_last(&self) -> bool {
        self.fed_last
    }

    /// Submits a step of these sequences, which is a step of the same kind and with as many rows of each.
    ///
    /// # Panics
    /// If the window is full.
    pub(crate) fn submit<M: StepModel>(
        &mut self,
        model: &mut M,
        kind: StepKind,
        rows: u32,
        lanes: Vec<(SequenceId, PlannedStep)>,
    ) -> Result<Ticket> {
        let index = lanes.first().map_or(0, |(_, step)| step.index);
        assert!(
            self.in_flight() < self.depth.get(),
            "step {index} submitted with {} of {} in flight",
            self.in_flight(),
            self.depth
        );
        let sequences: Vec<SequenceId> = lanes.iter().map(|(sequence, _)| *sequence).collect();
        let ticket = model
            .submit(&Step { kind, rows, lanes: &sequences })
            .map_err(|source| Error::model(ModelCall::Submit { step: index }, source))?;
        self.in_flight.push_back(StepInFlight { ticket, lanes });
        self.fed_last = kind.feeds();
        Ok(ticket)
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
