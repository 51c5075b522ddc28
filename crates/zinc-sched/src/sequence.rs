//! The loop that runs one sequence. It submits steps, observes them, finds out what each output means for the sequence,
//! and applies that.

use std::time::Duration;

use crate::apply::Progress;
use crate::clock::Clock;
use crate::control::Verdict;
use crate::error::{Error, Result};
use crate::gates::Gates;
use crate::kv::KvCache;
use crate::model::{Gate, StepModel};
use crate::plan::{Action, Feeding, Phase, PlannedStep, SequencePlan, next_action};
use crate::request::{FinishReason, Outlet};
use crate::resolve::{Expected, Resolved, resolve};
use crate::speculation::{ResumeCost, SpeculationPolicy, SpeculationStats};
use crate::step::{LaneOutput, StepKind, TokenRun};
use crate::trace::StepTrace;
use crate::window::Window;

/// A sequence that the model has opened. It borrows the parts of the engine that it uses, and holds its plan and the
/// state of its progress.
pub(crate) struct Sequence<'a, M> {
    pub(crate) model: &'a mut M,
    pub(crate) clock: &'a dyn Clock,
    pub(crate) kv: &'a mut KvCache,
    pub(crate) outlet: &'a mut dyn Outlet,
    /// Time for which the host is kept busy after each delivered token, to measure what queueing ahead hides. It is
    /// zero outside of measurements.
    pub(crate) host_work: Duration,
    pub(crate) plan: SequencePlan,
    pub(crate) feeding: Feeding,
    /// End-of-generation ids.
    pub(crate) eog: &'a [u32],
    pub(crate) policy_role: PolicyRole<'a>,
    pub(crate) resume_cost: ResumeCost,
    pub(crate) window: Window,
    pub(crate) gates: Gates<'a>,
    pub(crate) progress: Progress<'a>,
    /// One row for each observed step, if the request is traced.
    pub(crate) rows: Option<Vec<StepTrace>>,
    pub(crate) speculation_stats: SpeculationStats,
}

/// What the speculation policy does in a sequence.
pub(crate) enum PolicyRole<'a> {
    /// The policy takes no part. The steps of this sequence cannot speculate, and their times tell nothing about the
    /// steps of sequences that can.
    Absent,
    /// No step speculates, but the policy learns the time of plain steps.
    Observing(&'a mut SpeculationPolicy),
    /// The policy decides for each step whether it speculates.
    Deciding {
        /// The policy.
        policy: &'a mut SpeculationPolicy,
        /// The most drafts of a step.
        max_drafts: u32,
    },
}

impl PolicyRole<'_> {
    /// The kind of the next step that samples.
    fn kind(&mut self) -> StepKind {
        let speculates = if let Self::Deciding { policy, .. } = self { policy.speculates() } else { false };
        if speculates { StepKind::Speculate } else { StepKind::Decode }
    }

    /// The most drafts of a step; 0 if no step speculates.
    fn max_drafts(&self) -> u32 {
        if let Self::Deciding { max_drafts, .. } = self { *max_drafts } else { 0 }
    }

    fn policy(&mut self) -> Option<&mut SpeculationPolicy> {
        match self {
            Self::Absent => None,
            Self::Observing(policy) | Self::Deciding { policy, .. } => Some(policy),
        }
    }
}

impl<M: StepModel> Sequence<'_, M> {
    /// Runs the sequence to its end, and closes it. On success no step is in flight. An error is fatal: the model must not be used
    /// after it.
    pub(crate) fn drive(&mut self) -> Result<()> {
        let begun_ns = self.clock.now_ns();
        if let Some(policy) = self.policy_role.policy() {
            policy.begun(begun_ns, self.resume_cost);
        }
        let driven = self.follow_plan();
        if let Some(policy) = self.policy_role.policy() {
            policy.ended();
        }
        driven?;
        self.model.close(self.window.sequence());
        Ok(())
    }

    /// Does what the plan says until the sequence has ended and nothing is in flight.
    fn follow_plan(&mut self) -> Result<()> {
        loop {
            self.obey_cancel();
            let counts = self.window.counts(self.progress.delivered());
            match next_action(&self.plan, self.progress.phase(), counts, self.window.depth(), self.feeding) {
                Action::Done => return Ok(()),
                Action::Feed(kind, rows) => {
                    self.window.submit(self.model, kind, rows)?;
                }
                Action::Sample => self.submit_sampling()?,
                Action::Observe => self.observe()?,
            }
        }
    }

    /// Submits a step that samples, and notes its gate.
    fn submit_sampling(&mut self) -> Result<()> {
        let ticket = self.window.submit(self.model, self.policy_role.kind(), 1)?;
        self.gates.submitted(ticket);
        Ok(())
    }

    /// Waits for the oldest step in flight and handles its output. The next gate is opened before the tokens are
    /// delivered, because the device may wait at the gate and only the reader waits for the tokens.
    fn observe(&mut self) -> Result<()> {
        // Under a constraint, this call opens the gate of the first step that samples. The gate of each later step was
        // opened when the step before it was observed.
        self.open_early()?;
        self.open_late()?;
        let outlet = &*self.outlet;
        let (step, output, timing) = self.window.observe(self.model, &|| outlet.cancelled())?;
        let observed_ns = self.clock.now_ns();
        self.obey_cancel();
        if let Some(rows) = &mut self.rows {
            rows.push(StepTrace::new(&step, &output, timing));
        }
        let mut resolved = match self.resolve(step, &output) {
            Err(error) if error.is_fatal() => return Err(error),
            resolved => resolved,
        };
        self.account(step, &resolved, observed_ns);
        if let Ok(Resolved::Sampled(tokens, None)) = resolved {
            resolved = Ok(self.accept(tokens)?);
        }
        let phase = self.progress.phase();
        let delivered = self.progress.apply(resolved, &output, observed_ns, self.kv, self.outlet);
        let ended_here = phase == Phase::Running && self.progress.phase() == Phase::Draining;
        // If the host ended the sequence, the device does not know of it. And if steps have gates, those in flight may
        // wait at gates that nobody would open.
        let device_goes_on = output.finish.is_none() || self.gates.gate() != Gate::Open;
        if ended_here && device_goes_on && self.window.in_flight() > 0 {
            self.stop_device();
        }
        if delivered > 0 && !self.host_work.is_zero() {
            self.clock.spend(self.host_work * delivered);
        }
        Ok(())
    }

    /// Finds out what a step's output means for the sequence: tokens to deliver, an end, or nothing, since the step was
    /// submitted before the end was known.
    fn resolve(&self, step: PlannedStep, output: &LaneOutput) -> Result<Resolved> {
        let expected = Expected {
            step,
            position: self.progress.position(),
            sampled: self.progress.delivered(),
            max_drafts: self.policy_role.max_drafts(),
            plan: &self.plan,
            phase: self.progress.phase(),
            eog: self.eog,
        };
        resolve(&expected, output)
    }

    /// Reports an observed step to the policy, and counts it if it speculated.
    fn account(&mut self, step: PlannedStep, resolved: &Result<Resolved>, observed_ns: u64) {
        let tokens = match resolved {
            // An end-of-generation id is not delivered, but it was sampled.
            Ok(Resolved::Sampled(tokens, end)) => {
                tokens.as_slice().len() as u32 + u32::from(matches!(end, Some(FinishReason::Stop { .. })))
            }
            Ok(Resolved::Fed(_)) => 0,
            Ok(Resolved::Stale) | Err(_) => return,
        };
        if let Some(policy) = self.policy_role.policy() {
            policy.observed(step.kind, tokens, observed_ns);
        }
        if step.kind == StepKind::Speculate {
            self.speculation_stats.steps += 1;
            self.speculation_stats.tokens += u64::from(tokens);
        }
    }

    /// Tells the constraint or sampler of the request which tokens were chosen, and opens the next gate. If the constraint refuses a token,
    /// the sequence ends and the token is not delivered.
    fn accept(&mut self, tokens: TokenRun) -> Result<Resolved> {
        if let Err(error) = self.gates.accept(tokens.as_slice()) {
            self.end(Err(error));
            return Ok(Resolved::Stale);
        }
        self.open_early()?;
        Ok(Resolved::Sampled(tokens, None))
    }

    /// Opens the gate of the next step that samples, if a constraint decides about its tokens and has accepted all
    /// tokens before it. If the constraint is complete, the sequence ends.
    fn open_early(&mut self) -> Result<()> {
        if self.progress.phase() != Phase::Running {
            return Ok(());
        }
        match self.gates.open_early(self.model, self.window.sequence()) {
            Ok(Verdict::Choose) => Ok(()),
            Ok(Verdict::Complete) => {
                self.end(Ok(FinishReason::Complete));
                Ok(())
            }
            Err(error) => self.fail(error),
        }
    }

    /// Opens the gate of the step that is about to be waited for, if the host chooses the token from that step's logits.
    fn open_late(&mut self) -> Result<()> {
        match self.window.oldest() {
            Some(awaited) if self.progress.phase() == Phase::Running => {
                let outlet = &*self.outlet;
                let opened = self.gates.open_late(self.model, self.window.sequence(), awaited, &|| outlet.cancelled());
                opened.or_else(|error| self.fail(error))?;
                self.obey_cancel();
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Ends the sequence with an error of the request. Returns an error that is fatal for the model.
    fn fail(&mut self, error: Error) -> Result<()> {
        if error.is_fatal() {
            return Err(error);
        }
        self.end(Err(error));
        Ok(())
    }

    /// Ends the sequence if its reader has cancelled it.
    fn obey_cancel(&mut self) {
        if self.progress.phase() == Phase::Running && self.outlet.cancelled() {
            self.end(Ok(FinishReason::Cancelled));
        }
    }

    /// Ends the sequence for a reason that the device does not know, and stops the device.
    fn end(&mut self, end: Result<FinishReason>) {
        self.progress.end(end);
        self.stop_device();
    }

    /// Makes the device treat all steps that have not begun as no-ops, and opens their gates.
    fn stop_device(&mut self) {
        self.model.cancel(self.window.sequence());
        self.gates.cancelled();
    }
}
