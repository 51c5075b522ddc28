//! The steps in flight: how many there may be, and the queue that is waited for oldest first.

use std::collections::VecDeque;

use crate::error::{Error, ModelCall, Result};
use crate::model::{StepKind, StepModel, StepOutput, Ticket};
use crate::plan::{PlannedStep, StepCounts};

/// How many steps may be submitted and not yet observed.
///
/// 1 waits for every step before the next is submitted; 2 hides the host's work; more hides its jitter too.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct InflightDepth(u32);

impl InflightDepth {
    /// The smallest depth.
    pub const MIN: u32 = 1;
    /// The largest depth; beyond it nothing is gained and a cancelled sequence has more to drain.
    pub const MAX: u32 = 8;
    /// The depth unless told otherwise.
    pub const DEFAULT: Self = Self(4);
    /// The depth that waits for every step, as the fence baseline does.
    pub const ONE: Self = Self(1);

    /// A depth.
    ///
    /// # Errors
    /// [`Error::DepthOutOfRange`] outside `MIN..=MAX`.
    pub fn new(depth: u32) -> Result<Self> {
        if (Self::MIN..=Self::MAX).contains(&depth) { Ok(Self(depth)) } else { Err(Error::DepthOutOfRange { depth }) }
    }

    /// The number.
    pub fn get(self) -> u32 {
        self.0
    }
}

impl Default for InflightDepth {
    fn default() -> Self {
        Self::DEFAULT
    }
}

impl TryFrom<u32> for InflightDepth {
    type Error = Error;

    fn try_from(depth: u32) -> Result<Self> {
        Self::new(depth)
    }
}

impl std::fmt::Display for InflightDepth {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

/// The steps of one sequence that are in flight, oldest first.
#[derive(Debug)]
pub(crate) struct Window {
    depth: InflightDepth,
    in_flight: VecDeque<(PlannedStep, Ticket)>,
    steps_submitted: u32,
    feeds_submitted: u32,
}

impl Window {
    pub(crate) fn new(depth: InflightDepth) -> Self {
        Self { depth, in_flight: VecDeque::with_capacity(depth.get() as usize), steps_submitted: 0, feeds_submitted: 0 }
    }

    pub(crate) fn depth(&self) -> InflightDepth {
        self.depth
    }

    pub(crate) fn in_flight(&self) -> u32 {
        // At most InflightDepth::MAX.
        self.in_flight.len() as u32
    }

    /// How far the sequence is, given the tokens sampled by observed steps.
    pub(crate) fn counts(&self, tokens_sampled: u32) -> StepCounts {
        let sampling_steps_in_flight = self.in_flight.iter().filter(|(step, _)| step.kind.samples()).count() as u32;
        StepCounts {
            feeds_submitted: self.feeds_submitted,
            tokens_sampled,
            steps_in_flight: self.in_flight(),
            sampling_steps_in_flight,
        }
    }

    pub(crate) fn submit<M: StepModel>(&mut self, model: &mut M, kind: StepKind) -> Result<Ticket> {
        let step = PlannedStep { index: self.steps_submitted, kind };
        assert!(
            self.in_flight() < self.depth.get(),
            "step {} submitted with {} of {} in flight",
            step.index,
            self.in_flight(),
            self.depth
        );
        let ticket =
            model.submit(kind).map_err(|source| Error::model(ModelCall::Submit { step: step.index }, source))?;
        self.in_flight.push_back((step, ticket));
        self.steps_submitted += 1;
        self.feeds_submitted += u32::from(kind == StepKind::Feed);
        Ok(ticket)
    }

    /// Of the step that [`observe`](Self::observe) waits for.
    pub(crate) fn oldest(&self) -> Option<Ticket> {
        self.in_flight.front().map(|(_, ticket)| *ticket)
    }

    /// Waits for the oldest step; once `stop` says yes, what comes behind it becomes a no-op.
    pub(crate) fn observe<M: StepModel>(
        &mut self,
        model: &mut M,
        stop: &dyn Fn() -> bool,
    ) -> Result<(PlannedStep, StepOutput)> {
        let (step, ticket) = self.in_flight.pop_front().expect("the plan observes only when something is in flight");
        let output = model
            .wait_or_stop(ticket, stop)
            .map_err(|source| Error::model(ModelCall::Wait { step: step.index }, source))?;
        Ok((step, output))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn depths_outside_the_range_are_errors_that_name_it() {
        for depth in 1..=8 {
            assert_eq!(InflightDepth::try_from(depth).unwrap().get(), depth);
        }
        for depth in [0, 9, u32::MAX] {
            let error = InflightDepth::new(depth).unwrap_err();
            assert!(matches!(error, Error::DepthOutOfRange { depth: d } if d == depth));
            assert!(error.to_string().contains(&format!("{depth} is outside 1..=8")), "{error}");
        }
        assert_eq!(InflightDepth::default().to_string(), "4");
    }
}
