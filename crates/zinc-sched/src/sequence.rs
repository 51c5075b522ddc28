//! The loop over one sequence: submit, observe, resolve, apply.

use std::time::Duration;

use crate::apply::Progress;
use crate::clock::Clock;
use crate::control::Verdict;
use crate::error::{Error, Result};
use crate::gates::Gates;
use crate::kv::KvCache;
use crate::model::{Gate, StepModel};
use crate::plan::{Action, Phase, PlannedStep, SequencePlan, next_action};
use crate::request::{FinishReason, Outlet};
use crate::resolve::{Expected, Resolved, resolve};
use crate::speculation::{ResumeCost, SpeculationPolicy, SpeculationStats};
use crate::step::{StepKind, StepOutput, TokenRun};
use crate::trace::StepTrace;
use crate::window::Window;

/// A sequence that the model has begun: what it needs of the engine, what is known of it beforehand, and how far it is.
pub(crate) struct Sequence<'a, M> {
    pub(crate) model: &'a mut M,
    pub(crate) clock: &'a dyn Clock,
    pub(crate) kv: &'a mut KvCache,
    pub(crate) outlet: &'a mut dyn Outlet,
    /// Host time spent on each delivered token.
    pub(crate) host_work: Duration,
    pub(crate) plan: SequencePlan,
    pub(crate) eog: &'a [u32],
    pub(crate) policy_role: PolicyRole<'a>,
    pub(crate) resume_cost: ResumeCost,
    pub(crate) window: Window,
    pub(crate) gates: Gates<'a>,
    pub(crate) progress: Progress<'a>,
    pub(crate) rows: Option<Vec<StepTrace>>,
    pub(crate) speculation_stats: SpeculationStats,
}

/// Who decides whether the steps of a sequence speculate.
pub(crate) enum PolicyRole<'a> {
    /// Nobody: they cannot, and what they cost says nothing about those that can.
    Absent,
    /// Nobody, but the policy learns what plain steps cost.
    Observing(&'a mut SpeculationPolicy),
    /// The policy.
    Deciding {
        policy: &'a mut SpeculationPolicy,
        /// The most drafts of a step.
        max_drafts: u32,
    },
}

impl PolicyRole<'_> {
    /// What the next step that samples is submitted as.
    fn kind(&mut self) -> StepKind {
        let speculates = if let Self::Deciding { policy, .. } = self { policy.speculates() } else { false };
        if speculates { StepKind::Speculate } else { StepKind::Decode }
    }

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
    /// Drives the sequence to its end. Returns with nothing in flight, or with an error after which the model is not touched again.
    pub(crate) fn drive(&mut self) -> Result<()> {
        let begun_ns = self.clock.now_ns();
        if let Some(policy) = self.policy_role.policy() {
            policy.begun(begun_ns, self.resume_cost);
        }
        let driven = self.follow_plan();
        if let Some(policy) = self.policy_role.policy() {
            policy.ended();
        }
        driven
    }

    fn follow_plan(&mut self) -> Result<()> {
        loop {
            self.obey_cancel();
            let counts = self.window.counts(self.progress.delivered());
            match next_action(&self.plan, self.progress.phase(), counts, self.window.depth()) {
                Action::Done => return Ok(()),
                Action::Feed => {
                    self.window.submit(self.model, StepKind::Feed)?;
                }
                Action::Sample => self.submit_sampling()?,
                Action::Observe => self.observe()?,
            }
        }
    }

    fn submit_sampling(&mut self) -> Result<()> {
        let ticket = self.window.submit(self.model, self.policy_role.kind())?;
        self.gates.submitted(ticket);
        Ok(())
    }

    /// Waits for the oldest step and does what follows: first what the device waits for, then what the reader does.
    fn observe(&mut self) -> Result<()> {
        // Of the first step; those of the others are open by then, or wait for a token that is not observed.
        self.open_early()?;
        self.open_late()?;
        let outlet = &*self.outlet;
        let (step, output) = self.window.observe(self.model, &|| outlet.cancelled())?;
        let observed_ns = self.clock.now_ns();
        self.obey_cancel();
        if let Some(rows) = &mut self.rows {
            rows.push(StepTrace::new(&step, &output));
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
        // The device may not know of this end, and steps behind it may wait for what will not come.
        let device_goes_on = output.finish.is_none() || self.gates.gate() != Gate::Open;
        if ended_here && device_goes_on && self.window.in_flight() > 0 {
            self.stop_device();
        }
        if delivered > 0 && !self.host_work.is_zero() {
            self.clock.spend(self.host_work * delivered);
        }
        Ok(())
    }

    fn resolve(&self, step: PlannedStep, output: &StepOutput) -> Result<Resolved> {
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

    /// Counts what a step brought.
    fn account(&mut self, step: PlannedStep, resolved: &Result<Resolved>, observed_ns: u64) {
        let tokens = match resolved {
            // An end-of-generation id is not delivered, but it was sampled.
            Ok(Resolved::Sampled(tokens, end)) => {
                tokens.as_slice().len() as u32 + u32::from(matches!(end, Some(FinishReason::Stop { .. })))
            }
            Ok(Resolved::Fed) => 0,
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

    /// Tells whoever keeps the gates which tokens were chosen, and opens the next gate. A token that is refused is not delivered.
    fn accept(&mut self, tokens: TokenRun) -> Result<Resolved> {
        if let Err(error) = self.gates.accept(tokens.as_slice()) {
            self.end(Err(error));
            return Ok(Resolved::Stale);
        }
        self.open_early()?;
        Ok(Resolved::Sampled(tokens, None))
    }

    /// Opens the gate of the next step to sample as soon as its guide can be computed.
    fn open_early(&mut self) -> Result<()> {
        if self.progress.phase() != Phase::Running {
            return Ok(());
        }
        match self.gates.open_early(self.model) {
            Ok(Verdict::Choose) => Ok(()),
            Ok(Verdict::Complete) => {
                self.end(Ok(FinishReason::Complete));
                Ok(())
            }
            Err(error) => self.fail(error),
        }
    }

    /// Opens the gate of the step that is about to be waited for, if that takes the step's own logits.
    fn open_late(&mut self) -> Result<()> {
        match self.window.oldest() {
            Some(awaited) if self.progress.phase() == Phase::Running => {
                let outlet = &*self.outlet;
                let opened = self.gates.open_late(self.model, awaited, &|| outlet.cancelled());
                opened.or_else(|error| self.fail(error))?;
                self.obey_cancel();
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Ends the sequence by an error of its own; hands on one that ends the model.
    fn fail(&mut self, error: Error) -> Result<()> {
        if error.is_fatal() {
            return Err(error);
        }
        self.end(Err(error));
        Ok(())
    }

    fn obey_cancel(&mut self) {
        if self.progress.phase() == Phase::Running && self.outlet.cancelled() {
            self.end(Ok(FinishReason::Cancelled));
        }
    }

    /// Ends the sequence where the device would go on.
    fn end(&mut self, end: Result<FinishReason>) {
        self.progress.end(end);
        self.stop_device();
    }

    fn stop_device(&mut self) {
        self.model.cancel();
        self.gates.cancelled();
    }
}
