//! One model and the loop that drives it: plan, submit, observe, resolve, apply. Runs on the calling thread; the thread that usually
//! owns it is in [`handle`](crate::handle).

use std::sync::Arc;
use std::time::Duration;

use crate::apply::{Applied, Progress};
use crate::clock::Clock;
use crate::control::Verdict;
use crate::error::{Error, ModelCall, Result};
use crate::gates::Gates;
use crate::kv::KvCache;
use crate::model::{Drafting, Gate, ModelLimits, SequenceStart, StepModel, StepOutput, StepShape};
use crate::plan::{Action, Phase, PlannedStep, SequencePlan, next_action};
use crate::request::{Completion, Durations, FinishReason, Outlet, Request, Tracing, Usage};
use crate::resolve::{Expected, Resolved, resolve};
use crate::speculation::{Policy, Speculated, Speculation};
use crate::trace::{StepTrace, Trace};
use crate::window::{InflightDepth, Window};

/// How an engine drives its model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EngineOptions {
    /// Steps in flight.
    pub depth: InflightDepth,
    /// Requests that may wait behind the one that runs; at least 1. Used by [`Engine::spawn`] only.
    pub queue_capacity: usize,
    /// Whether drafts are made and verified where the model can.
    pub speculation: Speculation,
    /// Busy time added on the engine's thread for every delivered token, to measure how much of the host's work the window hides.
    pub host_work: Duration,
}

impl Default for EngineOptions {
    fn default() -> Self {
        Self {
            depth: InflightDepth::DEFAULT,
            queue_capacity: 16,
            speculation: Speculation::Automatic,
            host_work: Duration::ZERO,
        }
    }
}

/// Trace rows allocated before the loop; a longer sequence grows beyond them.
const TRACE_ROWS_RESERVED: usize = 4096;

/// What the loop knows of the sequence that it drives, beside its progress.
struct Run<'a> {
    plan: &'a SequencePlan,
    eog: &'a [u32],
    gates: &'a mut Gates,
    drafting: Drafting,
    rows: Option<Vec<StepTrace>>,
    speculated: Speculated,
}

/// A model with its window and its cache.
pub struct Engine<M> {
    model: M,
    limits: ModelLimits,
    clock: Arc<dyn Clock>,
    options: EngineOptions,
    kv: KvCache,
    policy: Policy,
    failure: Option<Error>,
}

impl<M: StepModel> Engine<M> {
    /// An engine with an empty cache.
    ///
    /// # Errors
    /// [`Error::DepthExceedsRing`] when the model has fewer ring slots than the window is deep, [`Error::QueueCapacityZero`].
    pub fn new(model: M, clock: impl Clock + 'static, options: EngineOptions) -> Result<Self> {
        let limits = model.limits();
        let depth = options.depth.get();
        if depth > limits.ring_slots {
            return Err(Error::DepthExceedsRing { depth, ring_slots: limits.ring_slots });
        }
        if options.queue_capacity == 0 {
            return Err(Error::QueueCapacityZero);
        }
        let policy = Policy::new(options.speculation);
        Ok(Self { model, limits, clock: Arc::new(clock), options, kv: KvCache::new(), policy, failure: None })
    }

    /// The same engine over a cache that is not empty: what another engine left on the same device model, or what the caller put there.
    #[must_use]
    pub fn with_cache(self, kv: KvCache) -> Self {
        Self { kv, ..self }
    }

    /// Forgets the K/V from position `len` on, so that the next sequence computes them again.
    ///
    /// # Panics
    /// When fewer than `len` are valid.
    pub fn roll_back(&mut self, len: u32) {
        self.kv.keep(len);
    }

    /// The model, to read from: the engine drives it.
    pub fn model(&self) -> &M {
        &self.model
    }

    /// What the model was built for.
    pub fn limits(&self) -> ModelLimits {
        self.limits
    }

    /// The tokens whose K/V are valid.
    pub fn kv(&self) -> &KvCache {
        &self.kv
    }

    /// How the engine drives its model.
    pub fn options(&self) -> &EngineOptions {
        &self.options
    }

    /// Continues a prompt until the model stops, a limit is met or the outlet cancels. When it returns nothing is in flight.
    ///
    /// # Errors
    /// A request that [`Request::check`] refuses, before anything is submitted. [`Error::NonFinite`]; the engine can be used further.
    /// [`Error::Model`] and [`Error::UnexpectedOutput`]; the model is not touched again and every later call returns the same.
    pub fn run(&mut self, request: &Request, outlet: &mut dyn Outlet) -> Result<Completion> {
        if let Some(failure) = &self.failure {
            return Err(failure.clone());
        }
        request.check(&self.limits)?;
        let started_ns = self.clock.now_ns();
        let result = self.run_checked(request, outlet, started_ns);
        if let Err(error) = &result
            && error.is_fatal()
        {
            tracing::error!(%error, "the model is given up");
            self.kv.forget();
            self.failure = Some(error.clone());
        }
        result
    }

    fn run_checked(&mut self, request: &Request, outlet: &mut dyn Outlet, started_ns: u64) -> Result<Completion> {
        let prompt_tokens = u32::try_from(request.prompt.len())
            .expect("the prompt is checked against the context, whose size is a u32");
        let cached = self.kv.reusable(&request.prompt);
        let plan = SequencePlan::new(prompt_tokens, cached, request.max_tokens, self.limits.context_tokens);
        let mut usage = Usage { prompt_tokens, cached_tokens: cached, completion_tokens: 0 };

        let without_steps = if outlet.cancelled() {
            Some(FinishReason::Cancelled)
        } else if plan.decodes() == 0 {
            Some(FinishReason::Length)
        } else {
            None
        };
        if let Some(reason) = without_steps {
            let trace = (request.trace == Tracing::On).then(Trace::default);
            let (durations, speculated) = (Durations::default(), Speculated::default());
            return Ok(Completion { reason, usage, durations, overshoot_steps: 0, speculated, trace });
        }

        let mut gates = match Gates::new(&request.control, &request.prompt, self.limits.vocabulary_tokens) {
            Ok(gates) => gates,
            Err(error) => return Err(error),
        };
        let drafting = self.drafting(request, &plan, gates.gate());
        self.kv.keep(cached);
        let start = SequenceStart {
            tokens: &request.prompt,
            cached,
            budget: plan.decodes(),
            sampling: &request.sampling,
            eog: &request.eog,
            gate: gates.gate(),
            speculation: drafting,
            logprobs: request.logprobs,
        };
        self.model.begin(&start).map_err(|source| Error::model(ModelCall::Begin, source))?;

        let counters_before = self.model.counters();
        let mut progress = Progress::new(&request.prompt, cached);
        let mut run = Run {
            plan: &plan,
            eog: &request.eog,
            gates: &mut gates,
            drafting,
            rows: (request.trace == Tracing::On)
                .then(|| Vec::with_capacity((plan.steps() as usize).min(TRACE_ROWS_RESERVED))),
            speculated: Speculated::default(),
        };
        let driven = self.drive(&mut run, outlet, &mut progress);
        self.policy.ended();
        driven?;

        let Run { rows, speculated, .. } = run;
        let ended_ns = self.clock.now_ns();
        let (first_ns, last_ns) = progress.token_times_ns().unwrap_or((ended_ns, ended_ns));
        let durations = Durations {
            prompt: Duration::from_nanos(first_ns.saturating_sub(started_ns)),
            decode: Duration::from_nanos(last_ns.saturating_sub(first_ns)),
        };
        usage.completion_tokens = progress.delivered();
        let overshoot_steps = progress.overshoot();
        let reason = progress.into_end()?;
        let trace = rows.map(|steps| Trace { steps, counters: self.model.counters().since(counters_before) });
        tracing::debug!(?reason, ?usage, overshoot_steps, "sequence ended");
        Ok(Completion { reason, usage, durations, overshoot_steps, speculated, trace })
    }

    /// Whether drafts are prepared for a request. What the host decides cannot be drafted, and log-probabilities are reported for one token
    /// a step.
    fn drafting(&self, request: &Request, plan: &SequencePlan, gate: Gate) -> Drafting {
        let can = self.limits.drafts > 0 && gate == Gate::Open && request.logprobs.is_none();
        if can && self.policy.wants_drafts(plan.decodes()) { Drafting::On } else { Drafting::Off }
    }

    /// The loop. Returns with nothing in flight, or with an error after which the model is not touched again.
    fn drive(&mut self, run: &mut Run<'_>, outlet: &mut dyn Outlet, progress: &mut Progress<'_>) -> Result<()> {
        let mut window = Window::new(self.options.depth);
        let mut before: Option<(StepShape, u64)> = None;
        loop {
            self.obey_cancel(run, outlet, progress);
            let progressed = window.progressed(progress.delivered());
            let action = next_action(run.plan, progress.phase(), progressed, window.depth());
            match action {
                Action::Done => return Ok(()),
                Action::Feed => {
                    window.submit(&mut self.model, StepShape::Feed)?;
                }
                Action::Sample => {
                    let speculates = run.drafting == Drafting::On && self.policy.speculates();
                    let shape = if speculates { StepShape::Speculate } else { StepShape::Decode };
                    let ticket = window.submit(&mut self.model, shape)?;
                    run.gates.submitted(ticket);
                    self.open_early(run, progress)?;
                }
                Action::Observe => {
                    if progress.phase() == Phase::Running
                        && let Some((_, awaited)) = window.oldest()
                    {
                        let opened = run.gates.open_late(&mut self.model, awaited, progress.position() + 1);
                        self.settle(opened, run, progress)?;
                    }
                    let (step, output) = window.observe(&mut self.model)?;
                    let observed_ns = self.clock.now_ns();
                    self.obey_cancel(run, outlet, progress);
                    if let Some(rows) = &mut run.rows {
                        rows.push(StepTrace::new(&step, &output));
                    }
                    let elapsed_ns =
                        before.filter(|(shape, _)| *shape == step.shape).map(|(_, ns)| observed_ns.saturating_sub(ns));
                    before = Some((step.shape, observed_ns));
                    self.observed(run, step, &output, observed_ns, elapsed_ns, window.in_flight(), outlet, progress)?;
                }
            }
        }
    }

    /// What follows from an observed step: first what the device waits for, then what the reader does.
    #[expect(clippy::too_many_arguments, reason = "one call, of what the loop has at hand")]
    fn observed(
        &mut self,
        run: &mut Run<'_>,
        step: PlannedStep,
        output: &StepOutput,
        observed_ns: u64,
        elapsed_ns: Option<u64>,
        in_flight: u32,
        outlet: &mut dyn Outlet,
        progress: &mut Progress<'_>,
    ) -> Result<()> {
        let phase = progress.phase();
        let (position, sampled) = (progress.position(), progress.delivered());
        let expected = Expected { step, position, sampled, plan: run.plan, phase, eog: run.eog };
        let resolved = resolve(&expected, output);
        if let Err(error) = &resolved
            && error.is_fatal()
        {
            return Err(error.clone());
        }
        if let Ok(Resolved::Sampled(tokens, end)) = &resolved {
            let speculative = step.shape == StepShape::Speculate;
            let count = tokens.as_slice().len() as u32;
            self.policy.observed(speculative, count, elapsed_ns);
            if speculative {
                run.speculated.steps += 1;
                run.speculated.tokens += u64::from(count);
            }
            if end.is_none() {
                let next = position + 1;
                let accepted = tokens.as_slice().iter().try_for_each(|&token| run.gates.accept(token, next));
                self.settle(accepted, run, progress)?;
                self.open_early(run, progress)?;
            }
        }
        let applied = progress.apply(resolved, output, observed_ns, &mut self.kv, outlet);
        let ended_here = phase == Phase::Running && progress.phase() == Phase::Draining;
        if ended_here && in_flight > 0 && (output.finish.is_none() || run.gates.gate() != Gate::Open) {
            // The device does not know of this end, or steps behind it wait for what will not come.
            self.cancel(run);
        }
        if applied == Applied::Delivered && !self.options.host_work.is_zero() {
            self.clock.spend(self.options.host_work);
        }
        Ok(())
    }

    /// Opens the gate of the next step to sample as soon as its guide can be computed.
    fn open_early(&mut self, run: &mut Run<'_>, progress: &mut Progress<'_>) -> Result<()> {
        if progress.phase() != Phase::Running {
            return Ok(());
        }
        match run.gates.open_early(&mut self.model, progress.position() + 1) {
            Ok(Verdict::Choose) => Ok(()),
            Ok(Verdict::Complete) => {
                progress.end(Ok(FinishReason::Complete));
                self.cancel(run);
                Ok(())
            }
            Err(error) => self.settle(Err(error), run, progress),
        }
    }

    /// Ends the sequence by an error of its own; hands on one that ends the model.
    fn settle(&mut self, result: Result<()>, run: &mut Run<'_>, progress: &mut Progress<'_>) -> Result<()> {
        match result {
            Err(error) if !error.is_fatal() => {
                progress.end(Err(error));
                self.cancel(run);
                Ok(())
            }
            other => other,
        }
    }

    fn cancel(&mut self, run: &mut Run<'_>) {
        self.model.cancel();
        run.gates.cancelled();
    }

    fn obey_cancel(&mut self, run: &mut Run<'_>, outlet: &dyn Outlet, progress: &mut Progress<'_>) {
        if progress.phase() == Phase::Running && outlet.cancelled() {
            self.cancel(run);
            progress.end(Ok(FinishReason::Cancelled));
        }
    }
}
