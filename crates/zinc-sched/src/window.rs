//! The queue of the steps of one sequence that are in flight; the host waits for them oldest first.

use std::collections::VecDeque;

use crate::depth::InflightDepth;
use crate::error::{Error, ModelCall, Result};
use crate::model::{SequenceId, Step, StepModel, Ticket};
use crate::plan::{PlannedStep, StepCounts};
use crate::step::{LaneOutput, StepKind, StepOutput, StepTiming};

/// The steps of one sequence that are in flight, and how many were submitted.
#[derive(Debug)]
pub(crate) struct Window {
    sequence: SequenceId,
    depth: InflightDepth,
    /// Oldest first.
    in_flight: VecDeque<(PlannedStep, Ticket)>,
    steps_submitted: u32,
    tokens_fed: u32,
}

impl Window {
    pub(crate) fn new(sequence: SequenceId, depth: InflightDepth) -> Self {
        let in_flight = VecDeque::with_capacity(depth.get() as usize);
        Self { sequence, depth, in_flight, steps_submitted: 0, tokens_fed: 0 }
    }

    /// The sequence whose steps they are.
    pub(crate) fn sequence(&self) -> SequenceId {
        self.sequence
    }

    pub(crate) fn depth(&self) -> InflightDepth {
        self.depth
    }

    pub(crate) fn in_flight(&self) -> u32 {
        // At most InflightDepth::MAX.
        self.in_flight.len() as u32
    }

    /// What is counted to decide what to do next; `tokens_sampled` is the number of tokens that observed steps have sampled.
    pub(crate) fn counts(&self, tokens_sampled: u32) -> StepCounts {
        let sampling_steps_in_flight = self.in_flight.iter().filter(|(step, _)| step.kind.samples()).count() as u32;
        StepCounts {
            tokens_fed: self.tokens_fed,
            tokens_sampled,
            steps_in_flight: self.in_flight(),
            sampling_steps_in_flight,
        }
    }

    /// Submits the next step of the sequence. `rows` is how many prompt tokens a step that feeds takes in, and 1 for any other.
    ///
    /// # Panics
    /// If the window is full.
    pub(crate) fn submit<M: StepModel>(&mut self, model: &mut M, kind: StepKind, rows: u32) -> Result<Ticket> {
        let step = PlannedStep { index: self.steps_submitted, kind, rows };
        assert!(
            self.in_flight() < self.depth.get(),
            "step {} submitted with {} of {} in flight",
            step.index,
            self.in_flight(),
            self.depth
        );
        let ticket = model
            .submit(&Step { kind, rows, lanes: &[self.sequence] })
            .map_err(|source| Error::model(ModelCall::Submit { step: step.index }, source))?;
        self.in_flight.push_back((step, ticket));
        self.steps_submitted += 1;
        self.tokens_fed += kind.fed_of(rows);
        Ok(ticket)
    }

    /// The ticket of the oldest step in flight, which [`observe`](Self::observe) waits for.
    pub(crate) fn oldest(&self) -> Option<Ticket> {
        self.in_flight.front().map(|(_, ticket)| *ticket)
    }

    /// Waits for the oldest step. If `stop` returns true meanwhile, the steps behind it become no-ops.
    pub(crate) fn observe<M: StepModel>(
        &mut self,
        model: &mut M,
        stop: &dyn Fn() -> bool,
    ) -> Result<(PlannedStep, LaneOutput, StepTiming)> {
        let (step, ticket) = self.in_flight.pop_front().expect("the plan observes only when something is in flight");
        let StepOutput { lanes, timing } = model
            .wait_or_stop(ticket, &|_| stop())
            .map_err(|source| Error::model(ModelCall::Wait { step: step.index }, source))?;
        let output = lanes.into_iter().next().expect("a step of one lane reports what it did for it");
        Ok((step, output, timing))
    }
}
