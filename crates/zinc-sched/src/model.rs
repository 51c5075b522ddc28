//! The seam between the scheduler and whatever computes tokens: the [`StepModel`] trait, and the plain data that it takes. What steps
//! return is in `step.rs`.
//!
//! No device type appears here. The Vulkan implementation lives in the adapter, the simulated one in [`fake`](crate::fake).

use std::time::Duration;

use crate::control::Guide;
use crate::sampling::Sampling;
use crate::speculation::ResumeCost;
use crate::step::{StepKind, StepOutput};

/// A model that computes one step at a time, of one sequence or of several, on a device that runs ahead of the host. A sequence's place in a step is a
/// lane.
///
/// One thread drives it. A submitted step runs without further calls, after the step before it. The token of one step reaches the next step on
/// the device, so several steps may be queued before the first has been observed.
///
/// # Contract
/// - `open` is called for a lane in which no sequence is open; steps of sequences in other lanes may be in flight. `close` is called with no step of the
///   sequence in flight. Sequences that are open when the model is dropped need not be closed.
/// - Steps of a sequence come in this order: those that feed the prompt, each by as many tokens as [`prompt_step`](crate::plan::prompt_step) says where it has some room;
///   then steps that sample, `Decode`s and, if [`ModelLimits::max_drafts`] is above 0, `Speculate`s. A `FeedDecode` samples too, and at most `budget` steps do.
/// - A `Speculate` has one lane. A step feeds all of its lanes or none. All of them together have at most [`ModelLimits::feed_rows`] rows.
/// - A step is submitted only if each of its sequences has pages for the positions that it writes, those of drafts included. No page that is written is another
///   open sequence's.
/// - At most [`ModelLimits::ring_slots`] steps are in flight: submitted and not yet waited for. A step that feeds is submitted by its last range; of
///   those that were begun by [`submit_range`](Self::submit_range) and are not submitted yet there is at most one.
/// - Each ticket is waited for once, oldest first.
/// - The model stops by itself on an end-of-generation id, at the budget, at the end of its context and on logits that are not finite.
///   Every step queued behind the stop is a no-op: it writes no K/V and reports [`StepStatus::NoOp`](crate::StepStatus::NoOp).
/// - A sequence of a model with [`ModelLimits::checkpoints`] begins at position 0, or with a checkpoint. Checkpoints are kept and restored in the order of the calls, which no step
///   in flight and no caller waits for.
/// - If a sequence has a [`Gate`], each `Decode` waits before it samples, though not before its forward pass, until
///   [`guide`](Self::guide) or [`choose`](Self::choose) is called for it; these calls come once for each step, in order. After `cancel`,
///   which opens all gates, they are not called for the steps in flight. A sequence with a gate has no `Speculate`s.
/// - After an error from any method the model is not called again, except to drop it. Dropping it with steps in flight is allowed.
pub trait StepModel {
    /// The error of a call that failed. Every error is final: a model that can recover does so by itself.
    type Error: std::error::Error + Send + Sync + 'static;

    /// The sizes that this model was built for. They never change.
    fn limits(&self) -> ModelLimits;

    /// Makes the device ready for the first step of a sequence: sets prompt, pages, position, budget and sampler, and marks the sequence as live.
    ///
    /// # Errors
    /// [`Self::Error`], if the device does not take the new state.
    fn open(&mut self, start: &SequenceStart<'_>) -> Result<SequenceId, Self::Error>;

    /// The most prompt tokens that a step takes in where so many tokens of a prompt are to be fed: [`ModelLimits::feed_rows`] at most, and by default.
    fn feed_rows(&self, fed: u32) -> u32 {
        let _ = fed;
        self.limits().feed_rows
    }

    /// Forgets a sequence. What it has written to the cache stays until another sequence writes there.
    fn close(&mut self, sequence: SequenceId);

    /// Queues the next step and returns without waiting for it.
    ///
    /// # Errors
    /// [`Self::Error`], if the device does not take the step.
    fn submit(&mut self, step: &Step<'_>) -> Result<Ticket, Self::Error>;

    /// The ranges of layers in which a step that feeds so many tokens may be submitted one by one: how long each is estimated to take, in order. `position` is that of
    /// the first of these tokens; where they are of several sequences, it is the mean of the sequences' positions, each counted once for each of its tokens. A step
    /// that nothing may come between has one range, as all have by default, whose time is 0 if the model cannot tell.
    fn ranges(&mut self, rows: u32, position: u32) -> Vec<Duration> {
        let _ = (rows, position);
        vec![Duration::ZERO]
    }

    /// Queues range number `range` of a step that feeds, behind what was submitted before. The ranges come in order, all of them also after a
    /// [`cancel`](Self::cancel), and steps that sample for other sequences may be submitted between them. What these steps and this one compute does not depend on
    /// that. Returns the step's ticket with the last range, and `None` with those before.
    ///
    /// # Errors
    /// [`Self::Error`], if the device does not take the range.
    ///
    /// # Panics
    /// By default, with another range than the first, which is the whole step.
    fn submit_range(&mut self, step: &Step<'_>, range: u32) -> Result<Option<Ticket>, Self::Error> {
        assert_eq!(range, 0, "the only range of {step:?} is submitted once");
        self.submit(step).map(Some)
    }

    /// Says which tokens a step may choose for a sequence, and opens its gate. For sequences with [`Gate::Guide`].
    ///
    /// # Errors
    /// [`Self::Error`].
    fn guide(&mut self, ticket: Ticket, sequence: SequenceId, guide: &Guide) -> Result<(), Self::Error>;

    /// Blocks until the logits of a step are computed, and returns those of a sequence, `[vocabulary]` f32. For sequences with [`Gate::Token`].
    ///
    /// # Errors
    /// [`Self::Error`].
    fn logits(&mut self, ticket: Ticket, sequence: SequenceId) -> Result<&[f32], Self::Error>;

    /// Says which token a step chooses for a sequence, and opens its gate. For sequences with [`Gate::Token`].
    ///
    /// # Errors
    /// [`Self::Error`].
    fn choose(&mut self, ticket: Ticket, sequence: SequenceId, choice: HostChoice) -> Result<(), Self::Error>;

    /// Blocks until the step is done, and returns its report, which has the lanes in the step's order.
    ///
    /// # Errors
    /// [`Self::Error`], if the step will never be done, because the device is lost or makes no progress.
    fn wait(&mut self, ticket: Ticket) -> Result<StepOutput, Self::Error>;

    /// Blocks until the step is done, as [`wait`](Self::wait) does, and asks `stop` every now and then about each sequence of the step. Once it returns true,
    /// the model ends that sequence on the device at once, instead of when [`cancel`](Self::cancel) is called after the wait. The default
    /// implementation never asks, so that one step more runs.
    ///
    /// # Errors
    /// The errors of [`wait`](Self::wait).
    fn wait_or_stop(&mut self, ticket: Ticket, stop: &dyn Fn(SequenceId) -> bool) -> Result<StepOutput, Self::Error> {
        let _ = stop;
        self.wait(ticket)
    }

    /// Queues a copy of a sequence's state behind its first `position` tokens into a slot, after all steps that were submitted so far, and returns without waiting for it.
    /// The last of these steps that is of the sequence ends at this position or, with [`CheckpointLimits::inside_steps`], takes in the last of these tokens. If the sequence
    /// has ended before, the copy is of no use. No step of it is begun. For models with [`ModelLimits::checkpoints`].
    ///
    /// # Errors
    /// [`Self::Error`], if the device does not take the copy. That there is no memory for it is no error, but [`Kept::NoMemory`].
    ///
    /// # Panics
    /// By default, since the model has no state.
    fn keep(&mut self, sequence: SequenceId, slot: u32, position: u32) -> Result<Kept<Self::Error>, Self::Error> {
        panic!("{sequence:?} kept in slot {slot} at position {position} by a model without a state");
    }

    /// Ends a sequence on the device and opens all its gates, so that its lanes of steps which have not begun become no-ops. A step that feeds may end before
    /// it is done; it then reports a no-op, too. Returns at once; steps in flight must still be waited for. Does nothing if the sequence is not open.
    fn cancel(&mut self, sequence: SequenceId);

    /// The work that the model has done since it was built.
    fn counters(&self) -> ModelCounters;
}

/// The sizes that a model was built for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ModelLimits {
    /// Positions that a sequence may have.
    pub context_tokens: u32,
    /// Size of the vocabulary; every token id is below it.
    pub vocabulary_tokens: u32,
    /// The most steps that may be in flight at once.
    pub ring_slots: u32,
    /// The most sequences that may be open at once, and so the most lanes of a step: at least 1.
    pub lanes: u32,
    /// The pages of the KV cache, which the sequences share; `None` if each lane has a part of it for itself, whose positions lie one behind the other.
    pub pages: Option<PagePool>,
    /// The checkpoints that the model keeps, if its sequences have a state beside the positions of the cache, which goes on at the end of a checkpoint alone: a recurrent
    /// state, or the positions of windows. `None` if they have none.
    pub checkpoints: Option<CheckpointLimits>,
    /// How many prompt tokens a step that feeds takes in at most, at least 1.
    pub feed_rows: u32,
    /// Whether there may be `FeedDecode` steps.
    pub last_token: LastToken,
    /// The most tokens that a `Speculate` step drafts, less than [`TokenRun::MAX`](crate::TokenRun::MAX); 0 if the model cannot speculate.
    pub max_drafts: u32,
    /// What it costs to draft again after steps without drafts in the middle of a sequence.
    pub resume_cost: ResumeCost,
}

/// The checkpoints that a model keeps of its sequences' states.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CheckpointLimits {
    /// How many there are at most; 0 if every sequence begins at position 0.
    pub slots: u32,
    /// Their positions are multiples of it: the positions of a page, where the cache has pages.
    pub page: u32,
    /// The distance of those that are taken inside prompts and while tokens are sampled, a multiple of `page`.
    pub spacing: u32,
    /// Whether they may be taken behind any row of a step that has just been submitted, because the state is that of the last positions. Otherwise a step has to end where
    /// one is taken.
    pub inside_steps: bool,
}

impl CheckpointLimits {
    /// [`slots`](Self::slots) by default.
    pub const SLOTS: u32 = 16;
    /// [`spacing`](Self::spacing) of recurrent states by default.
    pub const SPACING: u32 = 2048;
    /// [`spacing`](Self::spacing) by default, where all checkpoints are of the positions of windows. They are small, and no step is cut for them.
    pub const WINDOW_SPACING: u32 = 256;
}

/// What came of asking a model to keep the state of a sequence ([`StepModel::keep`]). `E` is the model's error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kept<E> {
    /// A copy is queued.
    Queued,
    /// There is no copy, since there is no memory for the slot, for this reason. The model can be used further, and so can the slots that have memory.
    NoMemory(E),
}

/// The pages of a KV cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PagePool {
    /// How many there are.
    pub pages: u32,
    /// Positions of each.
    pub positions: u32,
}

impl PagePool {
    /// Positions of all of them.
    pub fn tokens(&self) -> u64 {
        u64::from(self.pages) * u64::from(self.positions)
    }

    /// The pages of a lane where each of so many has an equal part of them.
    pub fn equal_part(&self, lane: u32, lanes: u32) -> Vec<u32> {
        let each = self.pages / lanes;
        (lane * each..(lane + 1) * each).collect()
    }
}

/// A page that a sequence has from a step on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GrownPage {
    /// The sequence.
    pub sequence: SequenceId,
    /// Which of its pages it is, from 0 in the order of positions.
    pub index: u32,
    /// Its number, below [`PagePool::pages`].
    pub page: u32,
}

/// Names a sequence from when a model opens it until it is closed. No other sequence of the model ever has the same name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SequenceId(u64);

impl SequenceId {
    /// A name with the given value.
    pub fn new(value: u64) -> Self {
        Self(value)
    }

    /// The value it was made with.
    pub fn value(self) -> u64 {
        self.0
    }
}

/// What a step computes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step<'a> {
    /// What it does for each of its sequences, at least one, each once. It is of the same kind for all of them, but that a step which feeds may sample behind the prompts
    /// of some.
    pub lanes: &'a [StepLane],
    /// The pages that these sequences get with it, those of each in the order of positions. A step that feeds gives none: a sequence has the pages of its prompt when it is
    /// opened.
    pub grown: &'a [GrownPage],
}

impl Step<'_> {
    /// Its kind: `FeedDecode` if it feeds and samples behind one of the prompts at least.
    ///
    /// # Panics
    /// If it has no lanes.
    pub fn kind(&self) -> StepKind {
        StepKind::of_lanes(self.lanes.iter().map(|lane| lane.kind))
    }

    /// The rows of all of its lanes.
    pub fn rows(&self) -> u32 {
        self.lanes.iter().map(|lane| lane.rows).sum()
    }
}

/// What a step does for one sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StepLane {
    /// The sequence.
    pub sequence: SequenceId,
    /// The kind of the step for it.
    pub kind: StepKind,
    /// How many of its prompt's tokens the step takes in, if it feeds, the last one of a `FeedDecode` included; 1 for other kinds.
    pub rows: u32,
}

impl StepLane {
    /// What a step does for a sequence that it takes a token further.
    pub fn decode(sequence: SequenceId) -> Self {
        Self { sequence, kind: StepKind::Decode, rows: 1 }
    }
}

/// What a model is told of a sequence that begins.
#[derive(Debug, Clone, Copy)]
pub struct SequenceStart<'a> {
    /// The whole prompt, at least one token.
    pub tokens: &'a [u32],
    /// The lane that it takes, below [`ModelLimits::lanes`], in which no sequence is open.
    pub lane: u32,
    /// Its pages, in the order of positions: those of the prompt at least. Empty if the cache has no pages.
    pub pages: &'a [u32],
    /// How many leading tokens of the prompt have valid K/V in its pages already, or without pages in its lane; always fewer than the prompt has. The first
    /// step is at this position.
    pub cached: u32,
    /// The slot of the checkpoint that the sequence begins with, if it has a recurrent state and `cached` is not 0. It was taken behind these `cached` tokens.
    pub restored: Option<u32>,
    /// The most tokens that will be sampled, at least 1 and never more than the context has room for.
    pub budget: u32,
    /// The sampling parameters.
    pub sampling: &'a Sampling,
    /// End-of-generation ids. A device that has room for fewer may ignore the rest, since the host compares with all of them too.
    pub eog: &'a [u32],
    /// What each step waits for before it samples.
    pub gate: Gate,
    /// Whether there may be `Speculate` steps.
    pub speculative: SpeculativeDecoding,
    /// How the last token of the prompt is taken in: not otherwise than [`ModelLimits::last_token`] allows, and alone where steps have gates or
    /// [`ModelLimits::feeds_last_token`] is false.
    pub last_token: LastToken,
    /// How many of the likeliest tokens are reported with each token, at most [`TokenLogprobs::MAX_TOP`](crate::TokenLogprobs::MAX_TOP).
    /// `None`: no log-probabilities are reported.
    pub logprobs: Option<u32>,
}

impl<'a> SequenceStart<'a> {
    /// A sequence in lane 0 without pages, gates, drafts, log-probabilities or end-of-generation ids.
    pub fn new(tokens: &'a [u32], cached: u32, budget: u32, sampling: &'a Sampling) -> Self {
        Self {
            tokens,
            lane: 0,
            pages: &[],
            cached,
            restored: None,
            budget,
            sampling,
            eog: &[],
            gate: Gate::Open,
            speculative: SpeculativeDecoding::Off,
            last_token: LastToken::Alone,
            logprobs: None,
        }
    }
}

/// What the steps of a sequence wait for before they sample. The forward pass of a step never waits for the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub enum Gate {
    /// Steps do not wait.
    #[default]
    Open,
    /// Each step waits for a [`Guide`], which says which tokens are allowed.
    Guide,
    /// Each step waits for a [`HostChoice`], which says which token it is.
    Token,
}

/// Whether a sequence may have steps that draft and verify ([`StepKind::Speculate`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub enum SpeculativeDecoding {
    /// It has none.
    #[default]
    Off,
    /// It may have some, so the model keeps its drafting state up to date in all steps.
    On,
}

/// How the last token of a prompt is taken in. A token is sampled behind it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub enum LastToken {
    /// By a step of its own.
    #[default]
    Alone,
    /// By the step that feeds the tokens before it ([`StepKind::FeedDecode`]), if that has a row to spare.
    Fed,
}

/// The token that the host chose for a step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum HostChoice {
    /// A token of the vocabulary.
    Token {
        /// The token.
        id: u32,
        /// Its logit.
        logit: f32,
    },
    /// No token: a logit is NaN or plus infinity, or all are minus infinity.
    NonFinite,
}

/// Names a submitted step until the host has waited for it. Only the model that made it knows what the value means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Ticket(u64);

impl Ticket {
    /// A ticket with the given value.
    pub fn new(value: u64) -> Self {
        Self(value)
    }

    /// The value it was made with.
    pub fn value(self) -> u64 {
        self.0
    }
}

/// The work that a model has done since it was built.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct ModelCounters {
    /// How many submissions were made, to all queues.
    pub submits: u64,
    /// How many command buffers were recorded.
    pub recordings: u64,
    /// How many times the host waited for a binary fence.
    pub fence_waits: u64,
    /// Nanoseconds for which the calling thread has waited for the device. Of a submission that is waited for at once, as with a fence, the
    /// submit call counts too.
    pub waited_ns: u64,
}

impl ModelLimits {
    /// Whether a step may feed the last token of a prompt, as far as drafts go: a draft model takes it in by itself.
    pub fn feeds_last_token(&self, speculative: SpeculativeDecoding) -> bool {
        speculative == SpeculativeDecoding::Off || self.resume_cost == ResumeCost::Free
    }

    /// Positions that a sequence may have which has the cache for itself.
    pub fn sequence_tokens(&self) -> u32 {
        let pool = self.pages.map_or(u64::MAX, |pool| pool.tokens());
        u64::from(self.context_tokens).min(pool) as u32
    }
}

impl ModelCounters {
    /// The work done since `earlier`, an earlier reading of the same model's counters.
    pub fn since(self, earlier: Self) -> Self {
        Self {
            submits: self.submits - earlier.submits,
            recordings: self.recordings - earlier.recordings,
            fence_waits: self.fence_waits - earlier.fence_waits,
            waited_ns: self.waited_ns - earlier.waited_ns,
        }
    }
}
