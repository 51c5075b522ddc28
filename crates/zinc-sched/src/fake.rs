//! A simulated model: it behaves as a device does, but runs on a manual clock and needs no device.
//!
//! It exists for tests and examples of this crate and of those on top of it. It follows the contract of [`StepModel`] to the letter and
//! panics, with the numbers, when the caller breaks it. Its steps take simulated time on a device that runs behind the host, so that a trace
//! shows how long the device idles between steps at a given depth and host load.

use std::collections::VecDeque;
use std::time::Duration;

use crate::clock::{Clock, ManualClock, nanoseconds};
use crate::control::Guide;
use crate::model::{
    Gate, HostChoice, Kept, LastToken, ModelCounters, ModelLimits, SequenceId, SequenceStart, Step, StepModel, Ticket,
};
use crate::speculation::ResumeCost;
use crate::step::{DeviceFinish, GpuSpan, LaneOutput, StepKind, StepOutput, StepStatus, StepTiming, TokenRun};

mod cache;
mod fault;
mod probe;
mod ranges;
mod recurrent;
mod state;
mod stream;
#[cfg(test)]
mod tests;

use cache::Cache;
pub use fault::{FakeError, Fault};
pub use probe::{Call, Probe};
use recurrent::Recurrent;
use state::{Begun, DeviceState, Executed, HostState, LooseRange, OpenSequence, Opened, Pending, PendingLane, With};
use stream::mix;
pub use stream::{TokenStream, continuation, next_token};

/// What the simulated model is like.
#[derive(Debug, Clone)]
pub struct FakeOptions {
    /// The sizes that it was built for.
    pub limits: ModelLimits,
    /// How it chooses tokens.
    pub tokens: TokenStream,
    /// How many end-of-generation ids the device has room for. It does not know the others.
    pub eog_slots: usize,
    /// Device time of a step, or of each range of a step that feeds in several.
    pub step: Duration,
    /// In how many ranges a step is submitted that feeds more than one token, in a model of several lanes.
    pub ranges: u32,
    /// Device time that drafting and verifying add to a step.
    pub draft_time: Duration,
    /// Device time of a no-op.
    pub no_op: Duration,
    /// Host time of a submit call.
    pub submit: Duration,
    /// One in this many drafts is wrong; 0 is none.
    pub wrong_drafts: u64,
    /// The faults that occur.
    pub faults: Vec<Fault>,
}

impl Default for FakeOptions {
    fn default() -> Self {
        Self {
            limits: ModelLimits {
                context_tokens: 64,
                vocabulary_tokens: 1000,
                ring_slots: 8,
                lanes: 1,
                pages: None,
                checkpoints: None,
                feed_rows: 1,
                last_token: LastToken::Alone,
                max_drafts: 0,
                resume_cost: ResumeCost::Free,
            },
            tokens: TokenStream::History,
            eog_slots: usize::MAX,
            step: Duration::from_micros(1000),
            ranges: 1,
            draft_time: Duration::from_micros(500),
            no_op: Duration::from_micros(10),
            submit: Duration::from_micros(4),
            wrong_drafts: 3,
            faults: Vec::new(),
        }
    }
}

/// Called with the number of the step that is waited for.
type WaitHook = Box<dyn FnMut(u64) + Send>;

/// A simulated model.
pub struct FakeModel {
    options: FakeOptions,
    clock: ManualClock,
    probe: Probe,
    on_wait: Option<WaitHook>,
    cache: Cache,
    recurrent: Option<Recurrent>,
    /// How many copies of states it was asked for.
    copies: u64,
    sequences: u64,
    steps: u64,
    in_flight: VecDeque<Pending>,
    /// The step that feeds of which not all ranges are submitted.
    begun: Option<Begun>,
    /// The ranges that were submitted since the last step in flight.
    loose: Vec<LooseRange>,
    device_free_at_ns: u64,
    /// The sequence that is open in each lane.
    open: Vec<Option<OpenSequence>>,
    logits: Vec<f32>,
    failed: bool,
}

impl FakeModel {
    /// A model that takes its time from `clock`.
    ///
    /// # Panics
    /// If the limits ask for no lane.
    pub fn new(options: FakeOptions, clock: ManualClock) -> Self {
        let lanes = options.limits.lanes;
        assert!(lanes > 0, "a simulated model of {lanes} lanes");
        Self {
            cache: Cache::new(options.limits),
            recurrent: Recurrent::new(options.limits),
            copies: 0,
            options,
            clock,
            probe: Probe::default(),
            on_wait: None,
            sequences: 0,
            steps: 0,
            in_flight: VecDeque::new(),
            begun: None,
            loose: Vec::new(),
            device_free_at_ns: 0,
            open: (0..lanes).map(|_| None).collect(),
            logits: Vec::new(),
            failed: false,
        }
    }

    /// Runs `hook` at the start of every wait for a step or for its logits, on the thread that waits. Its argument is how many steps the
    /// model has run before the one that is waited for.
    #[must_use]
    pub fn on_wait(mut self, hook: impl FnMut(u64) + Send + 'static) -> Self {
        self.on_wait = Some(Box::new(hook));
        self
    }

    /// A probe that reads the calls into this model, wherever the model is moved to.
    pub fn probe(&self) -> Probe {
        self.probe.clone()
    }

    fn has(&self, fault: Fault) -> bool {
        self.options.faults.contains(&fault)
    }

    fn fail<T>(&mut self, error: FakeError) -> Result<T, FakeError> {
        self.failed = true;
        Err(error)
    }

    /// Fails if a fault says that the host's wait for this step fails.
    fn blocked_on(&mut self, step: u64) -> Result<(), FakeError> {
        if self.has(Fault::Wait { step }) {
            return self.fail(FakeError::Lost { step });
        }
        let patience = self.options.faults.iter().find_map(|fault| match fault {
            Fault::Stall { step: s, patience } if *s == step => Some(*patience),
            _ => None,
        });
        if let Some(patience) = patience {
            self.clock.advance(patience);
            return self.fail(FakeError::Stalled { step, waited_ns: nanoseconds(patience) });
        }
        Ok(())
    }

    /// The lane in which a sequence is open.
    fn find(&self, sequence: SequenceId) -> Option<usize> {
        self.open.iter().position(|open| open.as_ref().is_some_and(|open| open.id == sequence))
    }

    /// The lane in which a sequence is open, which it must be.
    fn lane_of(&self, sequence: SequenceId, call: &str) -> usize {
        self.find(sequence).unwrap_or_else(|| panic!("{call} for sequence {}, which is not open", sequence.value()))
    }

    /// The sequence that is open in a lane.
    fn open_in(&mut self, lane: usize) -> &mut OpenSequence {
        self.open[lane].as_mut().expect("steps are in flight only in sequences that are open")
    }

    fn assert_usable(&self, call: &str) {
        assert!(!self.failed, "{call} after an error");
    }

    /// Runs a lane of a step on the simulated device, doing what a recording of the real model does in the same order.
    fn execute(&mut self, pending: &Pending, own: &PendingLane, begin_ns: u64) -> Executed {
        let non_finite = self.has(Fault::NonFinite { step: pending.step });
        let OpenSequence { host, device, .. } = self.open_in(own.lane);
        let mut executed = Executed {
            tokens: Vec::new(),
            fed: 0,
            drafts: 0,
            position: device.position,
            status: StepStatus::NoOp,
            finish: None,
        };
        if device.live && host.cancelled_at_ns.is_some_and(|at_ns| at_ns <= begin_ns) {
            device.live = false;
            executed.finish = Some(DeviceFinish::Cancelled);
        }
        if !device.live {
            return executed;
        }
        let drafts = match own.kind {
            StepKind::Feed => {
                (0..own.rows).for_each(|_| self.consume(own));
                executed.fed = own.rows;
                executed.status = StepStatus::Fed;
                return executed;
            }
            StepKind::FeedDecode => {
                executed.fed = own.rows - 1;
                (0..executed.fed).for_each(|_| self.consume(own));
                0
            }
            StepKind::Decode => 0,
            StepKind::Speculate => self.draft(own),
        };
        executed.drafts = drafts;
        executed.status = StepStatus::Emitted;
        loop {
            self.consume(own);
            let token = if non_finite { None } else { self.choose_token(own) };
            let (context_tokens, wrong) = (self.options.limits.context_tokens, self.options.wrong_drafts);
            let device = &mut self.open_in(own.lane).device;
            let Some(token) = token else {
                device.live = false;
                executed.tokens.clear();
                executed.finish = Some(DeviceFinish::NonFinite);
                return executed;
            };
            device.token = token;
            device.decoded += 1;
            executed.tokens.push(token);
            executed.finish = if device.eog.contains(&token) {
                Some(DeviceFinish::EndOfGeneration)
            } else if device.decoded == device.budget {
                Some(DeviceFinish::Budget)
            } else if device.position == context_tokens {
                Some(DeviceFinish::ContextFull)
            } else {
                None
            };
            device.live = executed.finish.is_none();
            let accepted = wrong == 0 || !mix(mix(u64::from(token)) ^ pending.step).is_multiple_of(wrong);
            if !device.live || !accepted || executed.tokens.len() as u32 > drafts {
                return executed;
            }
        }
    }

    /// Writes the K/V of all drafts of a step, before any is verified: those of tokens that nobody samples. Returns how many there are.
    fn draft(&mut self, own: &PendingLane) -> u32 {
        let Self { open, cache, options, .. } = self;
        let OpenSequence { device, pages, .. } = open[own.lane].as_ref().expect("it is open");
        let ModelLimits { max_drafts, context_tokens, vocabulary_tokens, .. } = options.limits;
        let room = (device.budget - device.decoded).min(context_tokens - device.position);
        let drafts = max_drafts.min(room - 1);
        let mut cache = cache.of(own.lane, &pages[..own.pages]);
        (1..=drafts).for_each(|place| cache.set(device.position + place, Some(vocabulary_tokens)));
        drafts
    }

    /// Takes in the token at the present position of a lane of a step, and writes its K/V.
    fn consume(&mut self, own: &PendingLane) {
        let Self { open, cache, recurrent, .. } = self;
        let OpenSequence { device, pages, .. } = open[own.lane].as_mut().expect("it is open");
        let (position, token) = (device.position, device.next_input());
        device.position += 1;
        if let Some(recurrent) = recurrent {
            recurrent.take_in(own.lane, position, token);
        }
        cache.of(own.lane, &pages[..own.pages]).set(position, Some(token));
    }

    /// The token that a lane of a step chooses; `None` if its logits are not finite.
    fn choose_token(&mut self, own: &PendingLane) -> Option<u32> {
        let allowed = |id: u32| match own.opened.as_ref().and_then(|opened| opened.with.as_ref()) {
            Some(With::Guide(guide)) => guide.allows(id) && !guide.biases().contains(&(id, f32::NEG_INFINITY)),
            _ => true,
        };
        if let Some(Opened { with: Some(With::HostChoice(choice)), .. }) = &own.opened {
            return match choice {
                HostChoice::Token { id, .. } => Some(*id),
                HostChoice::NonFinite => None,
            };
        }
        let vocabulary = self.options.limits.vocabulary_tokens;
        let wished = self.wished(own.lane, false);
        (0..vocabulary).map(|offset| (wished + offset) % vocabulary).find(|id| allowed(*id))
    }

    /// The likeliest token of the sequence in a lane after the tokens whose K/V lie before its position, or after its next input behind these.
    fn wished(&mut self, lane: usize, behind_input: bool) -> u32 {
        let Self { open, cache, options, recurrent, .. } = self;
        let OpenSequence { device, pages, .. } = open[lane].as_ref().expect("it is open");
        match &options.tokens {
            TokenStream::Script(tokens) => tokens[device.decoded as usize % tokens.len()],
            TokenStream::History => {
                let seen = cache.of(lane, pages);
                let kv = |position| seen.get(position).expect("positions are written in order");
                let mut history: Vec<u32> = (0..device.position).map(kv).collect();
                // A state that has taken in other tokens than the cache has makes another token.
                let agrees = recurrent.as_ref().is_none_or(|recurrent| recurrent.has(lane, &history));
                history.extend(behind_input.then(|| device.next_input()));
                let vocabulary = options.limits.vocabulary_tokens;
                (next_token(&history, &device.sampling, vocabulary) + u32::from(!agrees)) % vocabulary
            }
        }
    }

    /// Opens the gate of a lane of a step, which must be the oldest closed one of the sequence.
    fn open_gate(&mut self, ticket: Ticket, sequence: SequenceId, with: With) -> Result<(), FakeError> {
        let at_ns = self.clock.now_ns();
        let closed = self.in_flight.iter_mut().filter(|pending| pending.kind == StepKind::Decode).find_map(|pending| {
            let own = pending.lanes.iter_mut().find(|own| own.sequence == sequence && own.opened.is_none())?;
            Some((pending.step, own))
        });
        let (step, own) =
            closed.unwrap_or_else(|| panic!("no gate is closed, and that of step {} is opened", ticket.value()));
        assert!(step == ticket.value(), "the gate of step {} before that of {step}", ticket.value());
        if self.options.faults.contains(&Fault::Gate { step }) {
            return self.fail(FakeError::GateStuck { step });
        }
        own.opened = Some(Opened { at_ns, with: Some(with) });
        self.probe.note(Call::OpenGate { step, at_ns });
        Ok(())
    }

    /// Queues a step, or the last range of one, that was found due.
    fn enqueue(&mut self, kind: StepKind, lanes: Vec<PendingLane>) -> Result<Ticket, FakeError> {
        self.assert_room();
        let step = self.steps;
        self.steps += 1;
        if self.has(Fault::Submit { step }) {
            return self.fail(FakeError::NotSubmitted { step });
        }
        let submitted_at_ns = self.clock.now_ns();
        self.clock.advance(self.options.submit);
        let behind = std::mem::take(&mut self.loose);
        self.in_flight.push_back(Pending {
            behind,
            copies: Vec::new(),
            step,
            kind,
            lanes,
            submitted_at_ns,
            submit_done_ns: self.clock.now_ns(),
        });
        self.probe.note(Call::Submit { step, kind, in_flight: self.in_flight.len() as u32, at_ns: submitted_at_ns });
        Ok(Ticket::new(step))
    }

    fn gate(&self, lane: usize) -> Gate {
        self.open[lane].as_ref().map_or(Gate::Open, |open| open.host.gate)
    }
}

impl StepModel for FakeModel {
    type Error = FakeError;

    fn limits(&self) -> ModelLimits {
        self.options.limits
    }

    fn open(&mut self, start: &SequenceStart<'_>) -> Result<SequenceId, FakeError> {
        self.assert_usable("open");
        let prompt_tokens = start.tokens.len() as u32;
        let context_tokens = self.options.limits.context_tokens;
        let lane = start.lane as usize;
        assert!(
            self.open.get(lane).is_some_and(Option::is_none),
            "open in lane {lane}, where a sequence is open, or which there is not"
        );
        assert!(start.cached < prompt_tokens, "open with {} of {prompt_tokens} tokens cached", start.cached);
        assert!(prompt_tokens <= context_tokens, "open with {prompt_tokens} tokens in a context of {context_tokens}");
        let room = context_tokens - (prompt_tokens - 1);
        assert!((1..=room).contains(&start.budget), "open with a budget of {} where 1 to {room} fit", start.budget);
        self.check_pages(start);
        for (position, &token) in (0..start.cached).zip(start.tokens) {
            let kv = self.cache.of(lane, start.pages).get(position);
            assert!(
                kv == Some(token),
                "open with {} cached tokens, but position {position} holds {kv:?}, not {token}",
                start.cached
            );
        }
        let limits = self.options.limits;
        let is_fed = limits.last_token == LastToken::Fed && limits.feeds_last_token(start.speculative);
        assert!(
            start.last_token == LastToken::Alone || is_fed && start.gate == Gate::Open,
            "open with {:?}, {:?} and {:?} for the last token",
            start.gate,
            start.speculative,
            start.last_token
        );
        self.probe.note(Call::Open { tokens: start.tokens.to_vec(), cached: start.cached, budget: start.budget });
        let sequence = self.sequences;
        self.sequences += 1;
        if self.has(Fault::Open { sequence }) {
            return self.fail(FakeError::NotOpened { sequence });
        }
        self.restore(start);
        let host = HostState {
            feeds_left: prompt_tokens - 1 - start.cached,
            decodes_left: start.budget,
            position: start.cached,
            last_token: start.last_token,
            gate: start.gate,
            speculative: start.speculative,
            cancelled_at_ns: None,
        };
        let device = DeviceState {
            prompt: start.tokens.to_vec(),
            position: start.cached,
            budget: start.budget,
            decoded: 0,
            token: 0,
            live: true,
            sampling: start.sampling.clone(),
            eog: start.eog.iter().copied().take(self.options.eog_slots).collect(),
        };
        let id = SequenceId::new(sequence);
        let cached_pages = self.options.limits.pages.map_or(0, |pool| start.cached / pool.positions);
        self.cache.of(lane, start.pages).poison(cached_pages as usize);
        self.open[lane] = Some(OpenSequence { id, host, device, pages: start.pages.to_vec() });
        Ok(id)
    }

    fn close(&mut self, sequence: SequenceId) {
        self.assert_usable("close");
        let lane = self.lane_of(sequence, "close");
        let own = |pending: &&Pending| pending.lanes.iter().any(|own| own.sequence == sequence);
        let in_flight = self.in_flight.iter().filter(own).count();
        assert!(in_flight == 0 && !self.is_begun(sequence), "close with {in_flight} steps in flight");
        self.open[lane] = None;
    }

    fn submit(&mut self, step: &Step<'_>) -> Result<Ticket, FakeError> {
        self.assert_usable("submit");
        let (kind, ranges) = (step.kind(), self.range_count(step.rows()));
        if kind.feeds() && ranges > 1 {
            for range in 0..ranges - 1 {
                self.feed_range(step, range)?;
            }
            let ticket = self.feed_range(step, ranges - 1)?;
            return Ok(ticket.expect("the last range gives a ticket"));
        }
        self.grow(step.grown);
        let lanes = self.admit(step);
        self.enqueue(kind, lanes)
    }

    fn ranges(&mut self, rows: u32, _position: u32) -> Vec<Duration> {
        vec![self.options.step; self.range_count(rows) as usize]
    }

    fn submit_range(&mut self, step: &Step<'_>, range: u32) -> Result<Option<Ticket>, FakeError> {
        self.assert_usable("submit_range");
        self.feed_range(step, range)
    }

    fn wait(&mut self, ticket: Ticket) -> Result<StepOutput, FakeError> {
        self.assert_usable("wait");
        let pending = self.in_flight.pop_front().expect("wait with nothing in flight");
        let step = pending.step;
        assert!(ticket.value() == step, "wait for step {} before step {step}", ticket.value());
        if let Some(hook) = &mut self.on_wait {
            hook(step);
        }
        self.blocked_on(step)?;

        // The device begins the step when it is submitted and the step before it is done, and samples when the gate is open.
        self.run_ranges(&pending);
        let begin_ns = pending.submit_done_ns.max(self.device_free_at_ns);
        let mut outputs = Vec::with_capacity(pending.lanes.len());
        for own in &pending.lanes {
            let gated = self.gate(own.lane) != Gate::Open && pending.kind == StepKind::Decode;
            assert!(!gated || own.opened.is_some(), "wait for step {step}, whose gate is closed");
            let Executed { tokens, fed, drafts, mut position, status, finish } = self.execute(&pending, own, begin_ns);
            if self.has(Fault::WrongPosition { step }) {
                position += 1;
            }
            let tokens = TokenRun::new(&tokens);
            outputs.push(LaneOutput { tokens, fed, drafts, position, status, finish, logprobs: None });
        }
        if let Some(recurrent) = &mut self.recurrent {
            pending.copies.iter().for_each(|copy| recurrent.copy(*copy));
        }
        // A step is a no-op if it is one for all its lanes.
        let running = outputs.iter().map(|output| output.status).find(|status| *status != StepStatus::NoOp);
        let status = running.unwrap_or(StepStatus::NoOp);
        let taken = match (status, pending.kind) {
            (StepStatus::NoOp, _) => self.options.no_op,
            (_, StepKind::Speculate) => self.options.step + self.options.draft_time,
            (_, StepKind::Feed | StepKind::FeedDecode | StepKind::Decode) => self.options.step,
        };
        let opened_at_ns = pending.lanes.iter().filter_map(|own| own.opened.as_ref()).map(|opened| opened.at_ns).max();
        let end_ns = (begin_ns + nanoseconds(taken)).max(opened_at_ns.unwrap_or(0));
        self.device_free_at_ns = end_ns;
        self.clock.advance_to(end_ns);
        let observed_at_ns = self.clock.now_ns();
        self.probe.note(Call::Wait { step, status, at_ns: observed_at_ns });
        let timing = StepTiming {
            submitted_at_ns: pending.submitted_at_ns,
            submit_done_ns: pending.submit_done_ns,
            observed_at_ns,
            gpu: Some(GpuSpan { begin_ns, end_ns, idle_ns: end_ns - begin_ns - nanoseconds(taken) }),
        };
        Ok(StepOutput { lanes: outputs, timing })
    }

    fn keep(&mut self, sequence: SequenceId, slot: u32, position: u32) -> Result<Kept<FakeError>, FakeError> {
        self.assert_usable("keep");
        let copy = self.copies;
        self.copies += 1;
        if self.has(Fault::Keep { copy }) {
            return self.fail(FakeError::NotKept { copy });
        }
        if self.has(Fault::NoMemory { copy }) {
            return Ok(Kept::NoMemory(FakeError::NoMemory { copy }));
        }
        self.queue_copy(sequence, slot, position);
        self.probe.note(Call::Keep { slot });
        Ok(Kept::Queued)
    }

    fn guide(&mut self, ticket: Ticket, sequence: SequenceId, guide: &Guide) -> Result<(), FakeError> {
        self.assert_usable("guide");
        let lane = self.lane_of(sequence, "guide");
        assert!(self.gate(lane) == Gate::Guide, "a guide for a sequence with gate {:?}", self.gate(lane));
        self.open_gate(ticket, sequence, With::Guide(guide.clone()))
    }

    fn logits(&mut self, ticket: Ticket, sequence: SequenceId) -> Result<&[f32], FakeError> {
        self.assert_usable("logits");
        let lane = self.lane_of(sequence, "logits");
        assert!(self.gate(lane) == Gate::Token, "logits of a sequence with gate {:?}", self.gate(lane));
        let pending = self.in_flight.front().expect("logits with nothing in flight");
        let step = pending.step;
        assert!(ticket.value() == step, "logits of step {} before {step}", ticket.value());
        if let Some(hook) = &mut self.on_wait {
            hook(step);
        }
        // The forward pass is done when the whole step would be.
        let done_ns = pending.submit_done_ns.max(self.device_free_at_ns) + nanoseconds(self.options.step);
        self.blocked_on(step)?;
        self.clock.advance_to(done_ns);
        let wished = self.wished(lane, true);
        let highest = if self.has(Fault::NonFinite { step }) { f32::NAN } else { 1.0 };
        self.logits.clear();
        let vocabulary = self.options.limits.vocabulary_tokens;
        self.logits.extend((0..vocabulary).map(|id| if id == wished { highest } else { 0.0 }));
        Ok(&self.logits)
    }

    fn choose(&mut self, ticket: Ticket, sequence: SequenceId, choice: HostChoice) -> Result<(), FakeError> {
        self.assert_usable("choose");
        let lane = self.lane_of(sequence, "choose");
        assert!(self.gate(lane) == Gate::Token, "a choice for a sequence with gate {:?}", self.gate(lane));
        self.open_gate(ticket, sequence, With::HostChoice(choice))
    }

    fn cancel(&mut self, sequence: SequenceId) {
        self.assert_usable("cancel");
        let now_ns = self.clock.now_ns();
        let Some(lane) = self.find(sequence) else { return };
        self.open_in(lane).host.cancelled_at_ns.get_or_insert(now_ns);
        let own = self.in_flight.iter_mut().flat_map(|pending| &mut pending.lanes);
        for own in own.filter(|own| own.sequence == sequence) {
            own.opened.get_or_insert(Opened { at_ns: now_ns, with: None });
        }
        let own = |pending: &&Pending| pending.lanes.iter().any(|own| own.sequence == sequence);
        let in_flight = self.in_flight.iter().filter(own).count() as u32;
        self.probe.note(Call::Cancel { in_flight });
    }

    fn counters(&self) -> ModelCounters {
        // As if one command buffer per ring slot and kind had been recorded when the model was built.
        let recordings = u64::from(self.options.limits.ring_slots) * 2;
        ModelCounters { submits: self.steps, recordings, ..ModelCounters::default() }
    }
}
