//! The engine: one model, and what outlives its sequences, which is the picture of the cache, the speculation policy and a failure. It runs
//! on the calling thread. The thread that usually owns it is in `handle.rs`, the loop over a sequence in `sequence.rs`.

use std::sync::Arc;
use std::time::Duration;

use crate::apply::Progress;
use crate::clock::Clock;
use crate::depth::InflightDepth;
use crate::error::{Error, ModelCall, Result};
use crate::gates::Gates;
use crate::kv::KvCache;
use crate::model::{Gate, LastToken, ModelLimits, SequenceStart, SpeculativeDecoding, StepModel};
use crate::plan::{Feeding, SequencePlan};
use crate::request::{Completion, Durations, FinishReason, Outlet, Request, Tracing, Usage};
use crate::sequence::{PolicyRole, Sequence};
use crate::speculation::{SpeculationMode, SpeculationPolicy, SpeculationStats};
use crate::trace::Trace;
use crate::window::Window;

/// How an engine drives its model. [`EngineOptions::default`] makes options, whose fields can then be set.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct EngineOptions {
    /// How many steps may be in flight.
    pub depth: InflightDepth,
    /// How many requests may wait behind the one that runs, at least 1. Only [`Engine::spawn`] and [`Engine::into_thread`] use it.
    pub queue_capacity: usize,
    /// When steps use speculative decoding, if the model can.
    pub speculation: SpeculationMode,
    /// Busy time that is added on the engine's thread for every delivered token, to measure how much of the host's work is hidden behind the
    /// device's.
    pub host_work: Duration,
}

impl Default for EngineOptions {
    fn default() -> Self {
        Self {
            depth: InflightDepth::DEFAULT,
            queue_capacity: 16,
            speculation: SpeculationMode::Automatic,
            host_work: Duration::ZERO,
        }
    }
}

impl EngineOptions {
    /// Returns these options with this in-flight depth.
    #[must_use]
    pub fn with_depth(mut self, depth: InflightDepth) -> Self {
        self.depth = depth;
        self
    }

    /// Returns these options with room for this many waiting requests.
    #[must_use]
    pub fn with_queue_capacity(mut self, queue_capacity: usize) -> Self {
        self.queue_capacity = queue_capacity;
        self
    }

    /// Returns these options with this mode of speculation.
    #[must_use]
    pub fn with_speculation(mut self, speculation: SpeculationMode) -> Self {
        self.speculation = speculation;
        self
    }

    /// Returns these options with this busy time for every delivered token.
    #[must_use]
    pub fn with_host_work(mut self, host_work: Duration) -> Self {
        self.host_work = host_work;
        self
    }
}

/// The most trace rows that are allocated before the loop; the list of a longer sequence grows in the loop.
const TRACE_ROWS_RESERVED: usize = 4096;

/// A model, and what the scheduler knows of it between sequences.
pub struct Engine<M> {
    model: M,
    limits: ModelLimits,
    clock: Arc<dyn Clock>,
    options: EngineOptions,
    kv: KvCache,
    policy: SpeculationPolicy,
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
        let policy = SpeculationPolicy::new(options.speculation);
        Ok(Self { model, limits, clock: Arc::new(clock), options, kv: KvCache::new(), policy, failure: None })
    }

    /// Returns this engine with a cache that is not empty, because another engine on the same device model or the caller has filled it.
    #[must_use]
    pub fn with_cache(self, kv: KvCache) -> Self {
        Self { kv, ..self }
    }

    /// Forgets the K/V from position `len` on, so that the next sequence computes them again.
    ///
    /// # Panics
    /// If fewer than `len` positions are valid.
    pub fn roll_back(&mut self, len: u32) {
        self.kv.keep(len);
    }

    /// The model, for reading only, since the engine drives it.
    pub fn model(&self) -> &M {
        &self.model
    }

    /// The sizes that the model was built for.
    pub fn limits(&self) -> ModelLimits {
        self.limits
    }

    /// The tokens whose K/V are valid.
    pub fn kv(&self) -> &KvCache {
        &self.kv
    }

    /// The options that the engine was made with.
    pub fn options(&self) -> &EngineOptions {
        &self.options
    }

    /// Continues a prompt until the model stops, a limit is met or the outlet cancels. When it returns nothing is in flight.
    ///
    /// # Errors
    /// The errors of [`Request::check`], before anything is submitted. [`Error::NonFinite`] and [`Error::Control`], after which the engine
    /// can be used further. [`Error::Model`] and [`Error::UnexpectedOutput`], after which the model is not called again and every later run
    /// returns the same error.
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
            let (durations, speculation_stats) = (Durations::default(), SpeculationStats::default());
            return Ok(Completion { reason, usage, durations, overshoot_steps: 0, speculation_stats, trace });
        }

        let gates = Gates::new(request, self.limits.vocabulary_tokens)?;
        let draftable = self.limits.max_drafts > 0 && gates.gate() == Gate::Open && request.logprobs.is_none();
        let resume_cost = self.limits.resume_cost;
        let speculative = if draftable && self.policy.wants_drafts(plan.decodes(), resume_cost) {
            SpeculativeDecoding::On
        } else {
            SpeculativeDecoding::Off
        };
        let samples_freely = gates.gate() == Gate::Open && speculative == SpeculativeDecoding::Off;
        let last_token = if samples_freely { self.limits.last_token } else { LastToken::Alone };
        self.kv.keep(cached);
        let start = SequenceStart {
            tokens: &request.prompt,
            cached,
            budget: plan.decodes(),
            sampling: &request.sampling,
            eog: &request.eog,
            gate: gates.gate(),
            speculative,
            last_token,
            logprobs: request.logprobs,
        };
        let id = self.model.open(&start).map_err(|source| Error::model(ModelCall::Open, source))?;

        let counters_before = self.model.counters();
        let rows = || Vec::with_capacity((plan.steps() as usize).min(TRACE_ROWS_RESERVED));
        let mut sequence = Sequence {
            model: &mut self.model,
            clock: &*self.clock,
            kv: &mut self.kv,
            outlet,
            host_work: self.options.host_work,
            plan,
            feeding: Feeding { rows: self.limits.feed_rows, last_token },
            eog: &request.eog,
            // Steps whose tokens the host decides cannot speculate, and log-probabilities are reported for one token per step only.
            policy_role: match speculative {
                SpeculativeDecoding::Off if !draftable => PolicyRole::Absent,
                SpeculativeDecoding::Off => PolicyRole::Observing(&mut self.policy),
                SpeculativeDecoding::On => {
                    PolicyRole::Deciding { policy: &mut self.policy, max_drafts: self.limits.max_drafts }
                }
            },
            resume_cost,
            window: Window::new(id, self.options.depth),
            gates,
            progress: Progress::new(&request.prompt, cached),
            rows: (request.trace == Tracing::On).then(rows),
            speculation_stats: SpeculationStats::default(),
        };
        sequence.drive()?;

        let Sequence { progress, rows, speculation_stats, .. } = sequence;
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
        Ok(Completion { reason, usage, durations, overshoot_steps, speculation_stats, trace })
    }
}
