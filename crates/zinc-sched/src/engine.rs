//! The engine: one model, the sequences that run on it, and what outlives them, which is the picture of the cache, the speculation policy and a failure. It
//! runs on the calling thread. The thread that usually owns it is in `handle.rs`, the loop over the sequences in `turns.rs`, and how they share pages in `pressure.rs`.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use crate::admission::{RESERVE_TOKENS, positions_at_beginning};
use crate::apply::Progress;
use crate::checkpoints::{CheckpointBook, CheckpointPlace};
use crate::clock::Clock;
use crate::depth::InflightDepth;
use crate::error::{Error, ModelCall, Result};
use crate::gates::Gates;
use crate::kv::KvCache;
use crate::model::{CheckpointLimits, Gate, LastToken, ModelLimits, SequenceId, SequenceStart, StepModel};
use crate::occupancy::OccupancyMeter;
use crate::pace::Pace;
use crate::pages::{Holding, PageBook, PageCounts};
use crate::plan::{CheckpointPlan, Feeding, SequencePlan};
use crate::request::{Completion, FinishReason, Outlet, Request, Tracing, Usage};
use crate::reuse::may_end;
use crate::sequence::{PolicyRole, Sequence, Submitted};
use crate::speculation::{SpeculationMode, SpeculationPolicy, SpeculationStats};
use crate::status::EngineCounts;
use crate::window::Window;

/// How an engine drives its model. [`EngineOptions::default`] makes options, whose fields can then be set.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct EngineOptions {
    /// How many steps may be in flight.
    pub depth: InflightDepth,
    /// How many requests may wait behind those that run, at least 1. Only an [`EngineHandle`](crate::EngineHandle) uses it.
    pub queue_capacity: usize,
    /// When steps use speculative decoding, if the model can.
    pub speculation: SpeculationMode,
    /// The longest time between two tokens of a sequence while prompts of others are fed, the step that brings the second one included. A prompt is fed by ranges of
    /// layers between such steps: as many as there is time for, and one at least, which may take longer.
    pub max_gap: Duration,
    /// Tokens to be sampled for which a sequence gets room in the cache when it begins, beside its prompt, where sequences share pages; fewer if it wants fewer. It
    /// gets room for others when it needs it.
    pub reserve_tokens: u32,
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
            max_gap: Self::MAX_GAP,
            reserve_tokens: RESERVE_TOKENS,
            host_work: Duration::ZERO,
        }
    }
}

impl EngineOptions {
    /// The default of [`Self::max_gap`].
    pub const MAX_GAP: Duration = Duration::from_millis(30);

    /// Returns these options with this longest wait for a token.
    #[must_use]
    pub fn with_max_gap(mut self, max_gap: Duration) -> Self {
        self.max_gap = max_gap;
        self
    }

    /// Returns these options with this reserve of tokens.
    #[must_use]
    pub fn with_reserve_tokens(mut self, reserve_tokens: u32) -> Self {
        self.reserve_tokens = reserve_tokens;
        self
    }

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

/// The most steps of a trace that there is room for before the loop; the list of a longer sequence grows in the loop.
const TRACES_RESERVED: usize = 4096;

/// A lane is chosen for what its cache holds of a prompt if that is at least the prompt's length divided by this.
const LEAST_REUSED_PART: usize = 10;

/// A model, the sequences that run on it, and what the scheduler knows of it between sequences.
pub struct Engine<M> {
    pub(crate) model: M,
    pub(crate) limits: ModelLimits,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) options: EngineOptions,
    /// The lanes of the model, by number.
    pub(crate) lanes: Vec<Lane>,
    /// The pages of the cache, if it has any.
    pub(crate) book: Option<PageBook>,
    /// The checkpoints of states, if sequences have any.
    pub(crate) checkpoints: Option<CheckpointBook>,
    pub(crate) window: Window,
    pub(crate) policy: SpeculationPolicy,
    pub(crate) pace: Pace,
    pub(crate) failure: Option<Error>,
    /// The work done so far.
    pub(crate) counts: EngineCounts,
    pub(crate) occupancy: OccupancyMeter,
    /// The steps among it when the model was made anew; `None` of the first one.
    rebuilt_after: Option<u64>,
    /// How many sequences were started.
    started: u64,
}

/// A lane of the model.
#[derive(Default)]
pub(crate) struct Lane {
    /// The tokens whose K/V lie in its part of the cache, if each lane has one.
    pub(crate) kv: KvCache,
    /// The sequence that has it.
    pub(crate) running: Option<Sequence>,
    /// The number of the last sequence in this lane, from 1 in the order of their starts; 0 before the first.
    used_at: u64,
}

/// The outlets of all sequences that run on an engine.
pub trait Outlets {
    /// The outlet of a sequence that runs.
    fn outlet(&mut self, sequence: SequenceId) -> &mut dyn Outlet;

    /// Whether a sequence that runs is to be cancelled, as [`Outlet::cancelled`] of its outlet says.
    fn cancelled(&self, sequence: SequenceId) -> bool;
}

/// Outlets by the sequences that have them.
///
/// # Panics
/// If a sequence runs that has none.
impl<O: Outlet> Outlets for Vec<(SequenceId, O)> {
    fn outlet(&mut self, sequence: SequenceId) -> &mut dyn Outlet {
        let own = self.iter_mut().find(|(own, _)| *own == sequence);
        &mut own.unwrap_or_else(|| panic!("{sequence:?} runs without an outlet")).1
    }

    fn cancelled(&self, sequence: SequenceId) -> bool {
        let own = self.iter().find(|(own, _)| *own == sequence);
        own.unwrap_or_else(|| panic!("{sequence:?} runs without an outlet")).1.cancelled()
    }
}

/// What came of a request that was handed to [`Engine::start`].
#[derive(Debug)]
pub enum Started {
    /// Its sequence runs, in a lane of the model.
    Running(SequenceId),
    /// It has ended already: it was cancelled, or no token was wanted.
    Ended(Completion),
}

/// A sequence that has ended.
#[derive(Debug)]
pub struct Ended {
    /// The sequence.
    pub sequence: SequenceId,
    /// Its outcome. Of the errors, [`Error::NonFinite`] and [`Error::Control`] are a sequence's own.
    pub result: Result<Completion>,
}

impl<M: StepModel> Engine<M> {
    /// An engine with an empty cache.
    ///
    /// # Errors
    /// [`Error::DepthExceedsRing`] when the model has fewer ring slots than the window is deep, [`Error::QueueCapacityZero`].
    ///
    /// # Panics
    /// If the positions of the model's checkpoints are not those of whole pages.
    pub fn new(model: M, clock: impl Clock + 'static, options: EngineOptions) -> Result<Self> {
        Self::driving(model, Arc::new(clock), options)
    }

    fn driving(model: M, clock: Arc<dyn Clock>, options: EngineOptions) -> Result<Self> {
        let limits = model.limits();
        if let Some(CheckpointLimits { page, spacing, .. }) = limits.checkpoints {
            let positions = limits.pages.map_or(page, |pages| pages.positions);
            assert!(
                page == positions && page > 0 && spacing > 0 && spacing.is_multiple_of(page),
                "checkpoints at multiples of {page} and every {spacing} positions, in pages of {positions}"
            );
        }
        let depth = options.depth.get();
        if depth > limits.ring_slots {
            return Err(Error::DepthExceedsRing { depth, ring_slots: limits.ring_slots });
        }
        if options.queue_capacity == 0 {
            return Err(Error::QueueCapacityZero);
        }
        Ok(Self {
            lanes: (0..limits.lanes).map(|_| Lane::default()).collect(),
            book: limits.pages.map(PageBook::new),
            checkpoints: limits.checkpoints.map(|limits| CheckpointBook::new(limits.slots)),
            window: Window::new(options.depth),
            policy: SpeculationPolicy::new(options.speculation),
            pace: Pace::default(),
            clock,
            failure: None,
            counts: EngineCounts::default(),
            occupancy: OccupancyMeter::new(),
            rebuilt_after: None,
            started: 0,
            model,
            limits,
            options,
        })
    }

    /// Returns this engine with a cache without pages that is not empty in its first lane, because another engine on the same device model or the caller has filled it.
    #[must_use]
    pub fn with_cache(mut self, kv: KvCache) -> Self {
        self.lanes[0].kv = kv;
        self
    }

    /// Returns this engine, in slot 0 of whose model the caller has put the state behind the tokens of [`with_cache`](Self::with_cache). No
    /// other checkpoint takes its place, so that each of several requests can begin behind these tokens.
    ///
    /// # Panics
    /// If the model has no state or no slots, or has taken a checkpoint.
    #[must_use]
    pub fn with_checkpoint(mut self) -> Self {
        // The cache has as many tokens as the context at most, whose size is a u32.
        let place = CheckpointPlace::Lane { lane: 0, position: self.lanes[0].kv.tokens().len() as u32 };
        let book = self.checkpoints.as_mut().expect("the model has states");
        assert_eq!(book.claim(None), Some(0), "slot 0 is free");
        book.keep_for_good(0, place);
        self
    }

    /// Forgets the K/V of the first lane from position `len` on, so that the next sequence computes them again. The cache has no pages.
    ///
    /// # Panics
    /// If fewer than `len` positions are valid.
    pub fn roll_back(&mut self, len: u32) {
        self.cut_lane(0, len);
    }

    /// The model, for reading only, since the engine drives it.
    pub fn model(&self) -> &M {
        &self.model
    }

    /// The sizes that the model was built for.
    pub fn limits(&self) -> ModelLimits {
        self.limits
    }

    /// The tokens whose K/V are valid in the first lane; none if the cache has pages.
    pub fn kv(&self) -> &KvCache {
        &self.lanes[0].kv
    }

    /// How many pages of the cache there are of each kind; `None` if it has no pages.
    pub fn pages(&self) -> Option<PageCounts> {
        self.book.as_ref().map(PageBook::counts)
    }

    /// The options that the engine was made with.
    pub fn options(&self) -> &EngineOptions {
        &self.options
    }

    /// The work that the engine has done.
    pub fn counts(&self) -> EngineCounts {
        self.counts
    }

    /// Whether the model is the first one, or has done a step since it was made anew.
    pub(crate) fn has_progressed(&self) -> bool {
        self.rebuilt_after.is_none_or(|steps| self.counts.steps > steps)
    }

    /// This engine with another model in the place of one that has failed, which `rebuild` makes of it. What ran is gone.
    ///
    /// # Errors
    /// That of `rebuild`, and those of [`Self::new`].
    pub(crate) fn rebuilt(self, rebuild: &mut dyn FnMut(M) -> Result<M>) -> Result<Self> {
        let Self { model, clock, options, counts, occupancy, started, .. } = self;
        let engine = Self::driving(rebuild(model)?, clock, options)?;
        Ok(Self { counts, occupancy, rebuilt_after: Some(counts.steps), started, ..engine })
    }

    /// How many sequences run.
    pub fn running(&self) -> usize {
        self.lanes.iter().filter(|lane| lane.running.is_some()).count()
    }

    /// Whether [`start`](Self::start) finds a lane for another sequence.
    pub fn has_room(&self) -> bool {
        self.running() < self.lanes.len()
    }

    /// Whether [`start`](Self::start) finds a lane and pages for a sequence of this request. If nothing runs it does for every request that
    /// [`Request::check`] accepts.
    pub fn admits(&self, request: &Request) -> bool {
        let tokens = u32::try_from(request.prompt.len()).unwrap_or(u32::MAX);
        if !self.has_room() || tokens == 0 || tokens > self.limits.sequence_tokens() {
            return self.has_room();
        }
        let left = SequencePlan::new(tokens, 0, request.max_tokens, self.limits.sequence_tokens()).decodes();
        left == 0 || self.lacking(&request.prompt, left) == 0
    }

    /// Continues a prompt until the model stops, a limit is met or the outlet cancels. When it returns nothing is in flight.
    ///
    /// # Errors
    /// The errors of [`start`](Self::start) and [`turn`](Self::turn), and [`Error::NonFinite`] and [`Error::Control`], after which the engine can be used
    /// further.
    ///
    /// # Panics
    /// If sequences run that [`start`](Self::start) has started.
    pub fn run(&mut self, request: &Request, outlet: &mut dyn Outlet) -> Result<Completion> {
        assert_eq!(self.running(), 0, "a request is run to its end while others run");
        let mut outlet = OnlyOutlet(outlet);
        match self.start(&Arc::new(request.clone()), outlet.0)? {
            Started::Ended(completion) => Ok(completion),
            Started::Running(_) => loop {
                if let Some(Ended { result, .. }) = self.turn(&mut outlet)?.pop() {
                    return result;
                }
            },
        }
    }

    /// Starts to continue a prompt, with the pages that hold the beginning of it, or in the free lane whose cache holds most of it. [`turn`](Self::turn) takes it further.
    ///
    /// # Errors
    /// The errors of [`Request::check`], [`Error::NoFreeLane`], [`Error::NoFreePages`], and [`Error::Control`] if the request's constraint or sampler cannot be made: after these the
    /// engine can be used further. [`Error::Model`], after which the model is not called again and every later call returns the same error.
    pub fn start(&mut self, request: &Arc<Request>, outlet: &dyn Outlet) -> Result<Started> {
        self.check_usable()?;
        request.check(&self.limits)?;
        let result = self.start_checked(request, outlet);
        result.inspect_err(|error| {
            if error.is_fatal() {
                self.give_up(error);
            }
        })
    }

    /// The failure that has ended the use of the model, if there was one.
    pub(crate) fn check_usable(&self) -> Result<()> {
        self.failure.clone().map_or(Ok(()), Err)
    }

    /// The free lane whose cache holds the longest part of a prompt, if that is a tenth of the prompt or more. Otherwise the one that was used least
    /// recently, whose cache is missed least.
    fn lane_for(&self, prompt: &[u32]) -> Option<usize> {
        let free = self.lanes.iter().enumerate().filter(|(_, lane)| lane.running.is_none());
        let worth = |reusable: u32| if reusable as usize * LEAST_REUSED_PART >= prompt.len() { reusable } else { 0 };
        let best = free.max_by_key(|(number, lane)| {
            (worth(self.reusable_in_lane(*number, prompt)), std::cmp::Reverse(lane.used_at), std::cmp::Reverse(*number))
        });
        best.map(|(number, _)| number)
    }

    fn start_checked(&mut self, request: &Arc<Request>, outlet: &dyn Outlet) -> Result<Started> {
        let started_ns = self.clock.now_ns();
        let lanes = self.limits.lanes;
        let lane = self.lane_for(&request.prompt).ok_or(Error::NoFreeLane { lanes })?;
        let prompt_tokens = u32::try_from(request.prompt.len())
            .expect("the prompt is checked against the context, whose size is a u32");
        let cached = self.reusable(lane, &request.prompt);
        let plan = SequencePlan::new(prompt_tokens, cached, request.max_tokens, self.limits.sequence_tokens());
        let usage = Usage { prompt_tokens, cached_tokens: cached, completion_tokens: 0 };

        let without_steps = if outlet.cancelled() {
            Some(FinishReason::Cancelled)
        } else if plan.decodes() == 0 {
            Some(FinishReason::Length)
        } else {
            None
        };
        if let Some(reason) = without_steps {
            let ended = Completion::without_steps(request, cached, reason);
            return Ok(Started::Ended(ended));
        }
        let lacking = self.lacking(&request.prompt, plan.decodes());
        if lacking > 0 {
            return Err(Error::NoFreePages { lacking });
        }

        let gates = Gates::new(request, self.limits.vocabulary_tokens)?;
        let draftable = self.limits.max_drafts > 0 && gates.gate() == Gate::Open && request.logprobs.is_none();
        let resume_cost = self.limits.resume_cost;
        // Steps whose tokens the host decides cannot speculate, and log-probabilities are reported for one token per step only.
        let policy_role = if !draftable {
            PolicyRole::Absent
        } else if self.policy.wants_drafts(plan.decodes(), resume_cost) {
            PolicyRole::Deciding { max_drafts: self.limits.max_drafts }
        } else {
            PolicyRole::Observing
        };
        let speculative = policy_role.speculative();
        let is_fed = gates.gate() == Gate::Open && self.limits.feeds_last_token(speculative);
        let last_token = if is_fed { self.limits.last_token } else { LastToken::Alone };
        let holding = self.holding_for(&request.prompt, plan.decodes());
        if holding.is_none() {
            self.cut_lane(lane, cached);
        }
        let restored = self.restored(lane, holding.as_ref(), cached);
        let start = SequenceStart {
            tokens: &request.prompt,
            lane: lane as u32,
            pages: holding.as_ref().map_or(&[], Holding::pages),
            cached,
            restored,
            budget: plan.decodes(),
            sampling: &request.sampling,
            eog: &request.eog,
            gate: gates.gate(),
            speculative,
            last_token,
            logprobs: request.logprobs,
        };
        let id = self.model.open(&start).map_err(|source| Error::model(ModelCall::Open, source))?;
        if policy_role != PolicyRole::Absent && self.running() == 0 {
            self.policy.begun(self.clock.now_ns(), resume_cost);
        }
        let traces = || Vec::with_capacity((plan.steps() as usize).min(TRACES_RESERVED));
        self.lanes[lane].running = Some(Sequence {
            id,
            opened: Some(id),
            age: self.started,
            holding,
            grown: Vec::new(),
            pauses: false,
            plan,
            feeding: Feeding { rows: self.model.feed_rows(plan.feeds()), last_token },
            checkpoints: CheckpointPlan::new(self.limits.checkpoints, prompt_tokens, prompt_tokens, cached),
            copies: VecDeque::new(),
            last_sampled: None,
            policy_role,
            gates,
            progress: Progress::new(request.clone(), cached),
            traces: (request.trace == Tracing::On).then(traces),
            speculation_stats: SpeculationStats::default(),
            usage,
            started_ns,
            counters_before: self.model.counters(),
            submitted: Submitted::default(),
            passed_over: 0,
            request: request.clone(),
        });
        self.started += 1;
        self.lanes[lane].used_at = self.started;
        Ok(Started::Running(id))
    }
}

impl<M: StepModel> Engine<M> {
    /// For how many positions a sequence gets pages when it begins with so many tokens, and may sample `left` more.
    pub(crate) fn positions_at_beginning(&self, tokens: &[u32], left: u32) -> u32 {
        // Prompts are checked against the context, whose size is a u32.
        positions_at_beginning(tokens.len() as u32, left, self.options.reserve_tokens)
    }

    /// Pages for a sequence that begins with these tokens, and may sample `left` more: as many as [`Self::lacking`] has found. `None` if the cache has none.
    pub(crate) fn holding_for(&mut self, tokens: &[u32], left: u32) -> Option<Holding> {
        let positions = self.positions_at_beginning(tokens, left);
        let may_end = may_end(self.checkpoints.as_ref());
        self.book.as_mut().map(|book| book.open(tokens, positions, &may_end).expect("nothing is lacking"))
    }
}

/// The outlet of the only sequence that runs.
struct OnlyOutlet<'a>(&'a mut dyn Outlet);

impl Outlets for OnlyOutlet<'_> {
    fn outlet(&mut self, _sequence: SequenceId) -> &mut dyn Outlet {
        self.0
    }

    fn cancelled(&self, _sequence: SequenceId) -> bool {
        self.0.cancelled()
    }
}
