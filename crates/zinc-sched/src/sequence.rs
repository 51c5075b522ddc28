//! One sequence in a lane of the model: what it wants next, and what the outputs of its steps mean for it. The loop over all sequences is in `turns.rs`.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use crate::apply::Progress;
use crate::checkpoints::CheckpointPlace;
use crate::control::Verdict;
use crate::error::{Error, Result};
use crate::gates::Gates;
use crate::kv::KvCache;
use crate::model::{Gate, GrownPage, ModelCounters, SequenceId, SpeculativeDecoding, StepModel, Ticket};
use crate::pages::{Holding, PageBook};
use crate::plan::{
    CheckpointPlan, Feeding, Phase, PlannedStep, SequencePlan, SequenceView, StepCounts, Wanted, wanted,
};
use crate::request::{Completion, Durations, FinishReason, Outlet, Request, Usage};
use crate::resolve::{Expected, Resolved, resolve};
use crate::speculation::{SpeculationPolicy, SpeculationStats};
use crate::step::{LaneOutput, StepKind, StepTiming, TokenRun};
use crate::trace::{StepTrace, Trace};

/// What the speculation policy does in a sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PolicyRole {
    /// The policy takes no part. The steps of this sequence cannot speculate, and their times tell nothing about the
    /// steps of sequences that can.
    Absent,
    /// No step speculates, but the policy learns the time of plain steps.
    Observing,
    /// The policy decides for each step whether it speculates.
    Deciding {
        /// The most drafts of a step.
        max_drafts: u32,
    },
}

/// A sequence in a lane of the model.
pub(crate) struct Sequence {
    /// Its name, for whoever asked: that under which the model opened it first.
    pub(crate) id: SequenceId,
    /// Its name on the model; `None` while it has no pages, since others needed them.
    pub(crate) opened: Option<SequenceId>,
    /// How many sequences had begun before it.
    pub(crate) age: u64,
    /// Its pages, where the cache has any.
    pub(crate) holding: Option<Holding>,
    /// The pages that it has got since its last step, which the device is told of with the next.
    pub(crate) grown: Vec<GrownPage>,
    /// Whether it gives its pages back as soon as its steps in flight are done.
    pub(crate) pauses: bool,
    pub(crate) request: Arc<Request>,
    pub(crate) plan: SequencePlan,
    pub(crate) feeding: Feeding,
    /// Where copies of its state are kept, if it has one.
    pub(crate) checkpoints: CheckpointPlan,
    /// The copies that were asked for behind steps in flight, the oldest first.
    pub(crate) copies: VecDeque<StateCopy>,
    /// The last checkpoint that it has taken behind its prompt.
    pub(crate) last_sampled: Option<CheckpointPlace>,
    pub(crate) policy_role: PolicyRole,
    pub(crate) gates: Gates,
    pub(crate) progress: Progress,
    /// One for each observed step, if the request is traced.
    pub(crate) traces: Option<Vec<StepTrace>>,
    pub(crate) speculation_stats: SpeculationStats,
    pub(crate) usage: Usage,
    pub(crate) started_ns: u64,
    /// The model's counters when the sequence began.
    pub(crate) counters_before: ModelCounters,
    pub(crate) submitted: Submitted,
    /// How many steps have fed other prompts since this one was fed last, while it waited.
    pub(crate) passed_over: u32,
}

/// A copy of a sequence's state that was asked for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StateCopy {
    /// The index of the step that it was taken behind.
    pub(crate) step: u32,
    /// Where the model keeps it.
    pub(crate) slot: u32,
    /// How many tokens the state has taken in, if the step does what it was submitted for.
    pub(crate) position: u32,
    /// The position where the step then ends.
    pub(crate) end: u32,
}

/// The steps of a sequence that were submitted.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Submitted {
    /// All of them.
    steps: u32,
    /// Those that were not observed yet.
    in_flight: u32,
    /// Those of them that sample.
    sampling_in_flight: u32,
    /// Those of them that speculate.
    speculating_in_flight: u32,
    /// Tokens that they feed, since the model opened the sequence.
    tokens_fed: u32,
    /// The most tokens that they sample, since the model opened the sequence: all drafts of those that were not observed yet count as accepted.
    most_sampled: u32,
}

impl PolicyRole {
    /// The most drafts of a step.
    pub(crate) fn max_drafts(self) -> u32 {
        match self {
            Self::Deciding { max_drafts } => max_drafts,
            Self::Absent | Self::Observing => 0,
        }
    }

    /// Whether there may be steps that speculate.
    pub(crate) fn speculative(self) -> SpeculativeDecoding {
        if self.max_drafts() > 0 { SpeculativeDecoding::On } else { SpeculativeDecoding::Off }
    }
}

impl Sequence {
    /// Whether it still wants tokens.
    pub(crate) fn goes_on(&self) -> bool {
        self.progress.phase() == Phase::Running
    }

    /// Whether it has ended before its prompt was fed, as far as the host has seen.
    pub(crate) fn ended_unfed(&self) -> bool {
        let fed = self.plan.first_position() + self.plan.feeds();
        self.progress.phase() == Phase::Draining && self.progress.position() < fed
    }

    /// Position of the first token that its next step feeds.
    pub(crate) fn feed_position(&self) -> u32 {
        self.plan.first_position() + self.submitted.tokens_fed
    }

    /// The positions where a copy of its state is to be kept behind the step that was submitted last, and the one where that ends if it does what it was submitted for. There
    /// are none if it is not known where the step ends, since an earlier one may find any number of drafts right.
    pub(crate) fn due_checkpoints(&self, step: PlannedStep) -> (Vec<u32>, u32) {
        let Submitted { speculating_in_flight, most_sampled, .. } = self.submitted;
        let end = self.feed_position().saturating_add(most_sampled);
        let is_known = speculating_in_flight == 0 && self.goes_on();
        (if is_known { self.checkpoints.due(step.rows, end) } else { Vec::new() }, end)
    }

    /// Takes out the next copy that was asked for behind this step, if there is one.
    pub(crate) fn copy_behind(&mut self, step: PlannedStep) -> Option<StateCopy> {
        self.copies.pop_front_if(|copy| copy.step == step.index)
    }

    /// What the sequence wants next if none of its steps is begun and it has the pages for it.
    fn wanted(&self) -> Wanted {
        if self.pauses || self.opened.is_none() {
            return Wanted::Nothing;
        }
        let Submitted { sampling_in_flight, tokens_fed, .. } = self.submitted;
        let counts = StepCounts {
            tokens_fed,
            tokens_sampled: self.progress.delivered(),
            sampling_steps_in_flight: sampling_in_flight,
        };
        wanted(&self.plan, self.progress.phase(), counts, self.feeding)
    }

    /// Whether its next step samples, and may do so at a position for which it has no page, if it has so many drafts; pages have so many positions.
    pub(crate) fn lacks_page(&self, positions: u32, drafts: u32) -> bool {
        let Some(holding) = &self.holding else { return false };
        let behind_prompt = self.plan.first_position() + self.plan.feeds() + self.submitted.most_sampled;
        // Drafts go no further than the sequence, whose steps in flight may bring fewer tokens than they can.
        let last = behind_prompt.saturating_add(drafts).min(self.most_positions() - 1);
        self.wanted() == Wanted::Sample && (last / positions) as usize >= holding.pages().len()
    }

    /// How many positions it may come to have: all tokens have one but the last.
    fn most_positions(&self) -> u32 {
        // A plan samples as many tokens as the context has room for, whose size is a u32.
        self.request.prompt.len() as u32 + (self.plan.decodes() - 1)
    }

    /// Whether it has fewer pages than it may need until its end; pages have so many positions.
    pub(crate) fn may_grow(&self, positions: u32) -> bool {
        let Some(holding) = &self.holding else { return false };
        (holding.pages().len() as u32) < self.most_positions().div_ceil(positions)
    }

    /// Notes that the sequence has got this page behind those that it had.
    pub(crate) fn grew(&mut self, page: u32) {
        let (Some(holding), Some(sequence)) = (&self.holding, self.opened) else { return };
        self.grown.push(GrownPage { sequence, index: holding.pages().len() as u32 - 1, page });
    }

    /// Whether it has pages which it gives back as soon as its steps in flight are done.
    pub(crate) fn leaves(&self) -> bool {
        self.pauses || self.progress.phase() == Phase::Draining
    }

    /// Whether others need its pages and none of its steps is in flight, so that it can give them back.
    pub(crate) fn can_pause(&self) -> bool {
        self.pauses && self.progress.phase() == Phase::Running && self.submitted.in_flight == 0
    }

    /// Whether it waits for pages to go on with, and has none.
    pub(crate) fn is_paused(&self) -> bool {
        self.opened.is_none() && self.progress.phase() == Phase::Running
    }

    /// How many tokens it may still sample.
    pub(crate) fn tokens_left(&self) -> u32 {
        self.plan.decodes() - self.progress.delivered()
    }

    /// Notes that the sequence gives up its place on the model and its pages, which are returned.
    pub(crate) fn paused(&mut self) -> (Option<SequenceId>, Option<Holding>) {
        self.pauses = false;
        self.grown.clear();
        (self.opened.take(), self.holding.take())
    }

    /// Notes that the model has opened the sequence again, where `cached` of its tokens need no step.
    pub(crate) fn resumed(&mut self, opened: SequenceId, holding: Holding) {
        let cached = holding.valid();
        let tokens = self.request.prompt.len() as u32 + self.progress.delivered();
        self.plan = self.plan.resumed(tokens, cached);
        self.checkpoints = self.checkpoints.resumed(self.request.prompt.len() as u32, tokens, cached);
        self.progress.rewind(cached);
        self.submitted = Submitted { steps: self.submitted.steps, ..Submitted::default() };
        (self.opened, self.holding) = (Some(opened), Some(holding));
    }

    /// What the plan of the loop needs to know of it. `positions` is how many positions pages have, where there are any. `range` is what the next range takes if a step
    /// with it is begun.
    pub(crate) fn view(&self, range: Option<Duration>, positions: Option<u32>) -> SequenceView {
        let position = self.feed_position();
        SequenceView {
            wanted: match range {
                Some(time) => Wanted::Range(time),
                None if positions.is_some_and(|positions| self.lacks_page(positions, 0)) => Wanted::Nothing,
                None => self.wanted(),
            },
            feeds_left: self.plan.feeds() - self.submitted.tokens_fed,
            until_checkpoint: self.checkpoints.next_stop(position).map(|next| next - position),
            passed_over: self.passed_over,
        }
    }

    /// Whether it has ended and none of its steps is in flight.
    pub(crate) fn is_done(&self) -> bool {
        self.progress.phase() == Phase::Draining && self.submitted.in_flight == 0
    }

    /// What the sequence's next step will be if it has this kind and so many rows.
    pub(crate) fn planned(&self, kind: StepKind, rows: u32) -> PlannedStep {
        PlannedStep { index: self.submitted.steps, kind, rows }
    }

    /// Notes that a step was submitted, or begun.
    pub(crate) fn submitted(&mut self, step: PlannedStep) {
        let PlannedStep { kind, rows, .. } = step;
        self.submitted.steps += 1;
        self.submitted.in_flight += 1;
        self.submitted.sampling_in_flight += u32::from(kind.samples());
        self.submitted.speculating_in_flight += u32::from(kind == StepKind::Speculate);
        self.submitted.most_sampled += self.most_tokens(kind);
        self.submitted.tokens_fed += kind.fed_of(rows);
    }

    /// The most tokens that a step samples.
    fn most_tokens(&self, kind: StepKind) -> u32 {
        let drafts = if kind == StepKind::Speculate { self.policy_role.max_drafts() } else { 0 };
        u32::from(kind.samples()) + drafts
    }

    /// Notes the ticket of a step that samples alone and was submitted: its gate is closed, where the sequence has gates.
    pub(crate) fn close_gate(&mut self, ticket: Ticket) {
        self.gates.submitted(ticket);
    }

    /// Notes that a step was waited for, and finds out what its output means for the sequence: tokens to deliver, an end, or nothing, since the step was
    /// submitted before the end was known. Opens the next gate. This is done before the tokens are delivered, because the device may wait at the gate, and only
    /// the reader waits for the tokens.
    ///
    /// `rows` are those of the step, of all its sequences. `policy` is told of the step, if its time says something. The result inside is the sequence's, the one
    /// outside the model's.
    pub(crate) fn observed<M: StepModel>(
        &mut self,
        step: PlannedStep,
        output: &LaneOutput,
        (rows, timing, observed_ns): (u32, StepTiming, u64),
        model: &mut M,
        policy: Option<&mut SpeculationPolicy>,
    ) -> Result<Result<Resolved>> {
        self.submitted.in_flight -= 1;
        self.submitted.sampling_in_flight -= u32::from(step.kind.samples());
        if step.kind == StepKind::Speculate {
            self.submitted.speculating_in_flight -= 1;
            let sampled = output.tokens.as_slice().len() as u32;
            self.submitted.most_sampled -= self.most_tokens(step.kind).saturating_sub(sampled);
        }
        if let Some(traces) = &mut self.traces {
            traces.push(StepTrace::new(&step, output, rows, timing));
        }
        let mut resolved = match self.resolve(step, output) {
            Err(error) if error.is_fatal() => return Err(error),
            resolved => resolved,
        };
        self.account((step, output.drafts), &resolved, observed_ns, policy);
        if let Ok(Resolved::Sampled(tokens, None)) = resolved {
            resolved = Ok(self.accept(tokens, model)?);
        }
        Ok(resolved)
    }

    fn resolve(&self, step: PlannedStep, output: &LaneOutput) -> Result<Resolved> {
        let expected = Expected {
            step,
            position: self.progress.position(),
            sampled: self.progress.delivered(),
            max_drafts: self.policy_role.max_drafts(),
            plan: &self.plan,
            phase: self.progress.phase(),
            eog: &self.request.eog,
        };
        resolve(&expected, output)
    }

    /// Reports an observed step, which had so many drafts, to the policy, and counts it if it speculated.
    fn account(
        &mut self,
        (step, drafts): (PlannedStep, u32),
        resolved: &Result<Resolved>,
        observed_ns: u64,
        policy: Option<&mut SpeculationPolicy>,
    ) {
        let tokens = match resolved {
            // An end-of-generation id is not delivered, but it was sampled.
            Ok(Resolved::Sampled(tokens, end)) => {
                tokens.as_slice().len() as u32 + u32::from(matches!(end, Some(FinishReason::Stop { .. })))
            }
            Ok(Resolved::Fed(_)) => 0,
            Ok(Resolved::Stale) | Err(_) => return,
        };
        if let Some(policy) = policy.filter(|_| self.policy_role != PolicyRole::Absent) {
            policy.observed(step.kind, tokens, observed_ns);
        }
        if step.kind == StepKind::Speculate {
            let (tokens, drafts) = (u64::from(tokens), u64::from(drafts));
            self.speculation_stats.add(SpeculationStats { steps: 1, tokens, drafts });
        }
    }

    /// Tells the constraint or sampler of the request which tokens were chosen, and opens the next gate. If the constraint refuses a token,
    /// the sequence ends and the token is not delivered.
    fn accept<M: StepModel>(&mut self, tokens: TokenRun, model: &mut M) -> Result<Resolved> {
        if let Err(error) = self.gates.accept(tokens.as_slice()) {
            self.end(Err(error), model);
            return Ok(Resolved::Stale);
        }
        self.open_early(model)?;
        Ok(Resolved::Sampled(tokens, None))
    }

    /// Applies what the output of a step was resolved to: to the cache, to the count of delivered tokens and to the phase. Returns how many tokens were
    /// delivered.
    pub(crate) fn apply<M: StepModel>(
        &mut self,
        resolved: Result<Resolved>,
        output: &LaneOutput,
        observed_ns: u64,
        (kv, book, outlet): (&mut KvCache, Option<&mut PageBook>, &mut dyn Outlet),
        model: &mut M,
    ) -> u32 {
        let phase = self.progress.phase();
        let delivered = match (book, &mut self.holding) {
            (Some(book), Some(holding)) => {
                self.progress.apply(resolved, output, observed_ns, &mut (book, holding), outlet)
            }
            _ => self.progress.apply(resolved, output, observed_ns, kv, outlet),
        };
        let ended_here = phase == Phase::Running && self.progress.phase() == Phase::Draining;
        // If the host ended the sequence, the device does not know of it. And if steps have gates, those in flight may
        // wait at gates that nobody would open.
        let device_goes_on = output.finish.is_none() || self.gates.gate() != Gate::Open;
        if ended_here && device_goes_on && self.submitted.in_flight > 0 {
            self.stop_device(model);
        }
        delivered
    }

    /// Opens the gate of the next step that samples, if a constraint decides about its tokens and has accepted all
    /// tokens before it. If the constraint is complete, the sequence ends.
    pub(crate) fn open_early<M: StepModel>(&mut self, model: &mut M) -> Result<()> {
        if self.progress.phase() != Phase::Running {
            return Ok(());
        }
        let Some(opened) = self.opened else { return Ok(()) };
        match self.gates.open_early(model, opened) {
            Ok(Verdict::Choose) => Ok(()),
            Ok(Verdict::Complete) => {
                self.end(Ok(FinishReason::Complete), model);
                Ok(())
            }
            Err(error) => self.fail(error, model),
        }
    }

    /// Opens the gate of the step that is about to be waited for, if the host chooses the token from that step's logits.
    pub(crate) fn open_late<M: StepModel>(
        &mut self,
        awaited: Ticket,
        outlet: &dyn Outlet,
        model: &mut M,
    ) -> Result<()> {
        if self.progress.phase() != Phase::Running {
            return Ok(());
        }
        let Some(opened) = self.opened else { return Ok(()) };
        let opened = self.gates.open_late(model, opened, awaited, &|| outlet.cancelled());
        opened.or_else(|error| self.fail(error, model))?;
        self.obey_cancel(outlet, model);
        Ok(())
    }

    /// Ends the sequence with an error of the request. Returns an error that is fatal for the model.
    fn fail<M: StepModel>(&mut self, error: Error, model: &mut M) -> Result<()> {
        if error.is_fatal() {
            return Err(error);
        }
        self.end(Err(error), model);
        Ok(())
    }

    /// Ends the sequence if its reader has cancelled it.
    pub(crate) fn obey_cancel<M: StepModel>(&mut self, outlet: &dyn Outlet, model: &mut M) {
        if self.progress.phase() == Phase::Running && outlet.cancelled() {
            self.end(Ok(FinishReason::Cancelled), model);
        }
    }

    /// Ends the sequence for a reason that the device does not know, and stops the device.
    fn end<M: StepModel>(&mut self, end: Result<FinishReason>, model: &mut M) {
        self.progress.end(end);
        self.stop_device(model);
    }

    /// Makes the device treat all steps of the sequence that have not begun as no-ops, and opens their gates.
    fn stop_device<M: StepModel>(&mut self, model: &mut M) {
        if let Some(opened) = self.opened {
            model.cancel(opened);
        }
        self.gates.cancelled();
    }

    /// The outcome of a sequence that is done.
    pub(crate) fn into_result(self, ended_ns: u64, counters: ModelCounters) -> Result<Completion> {
        let Self { progress, traces, speculation_stats, mut usage, started_ns, counters_before, .. } = self;
        let (first_ns, last_ns) = progress.token_times_ns().unwrap_or((ended_ns, ended_ns));
        let durations = Durations {
            prompt: Duration::from_nanos(first_ns.saturating_sub(started_ns)),
            decode: Duration::from_nanos(last_ns.saturating_sub(first_ns)),
        };
        usage.completion_tokens = progress.delivered();
        let overshoot_steps = progress.overshoot();
        let reason = progress.into_end()?;
        let trace = traces.map(|steps| Trace { steps, counters: counters.since(counters_before) });
        tracing::debug!(?reason, ?usage, overshoot_steps, "sequence ended");
        Ok(Completion { reason, usage, durations, overshoot_steps, speculation_stats, trace })
    }
}
