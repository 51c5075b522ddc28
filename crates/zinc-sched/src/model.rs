//! The seam between the scheduler and whatever computes tokens: the [`StepModel`] trait and the plain data that crosses it.
//!
//! No device type appears here. The Vulkan implementation lives in the adapter, the simulated one in [`fake`](crate::fake).

use crate::control::Guide;
use crate::sampling::Sampling;
use crate::speculation::ResumeCost;
use crate::step::{StepKind, StepOutput};

/// A model that computes one step of one sequence at a time, on a device that runs ahead of the host.
///
/// One thread drives it. A step that was submitted runs on its own, after the step before it; the token of one step reaches the next
/// one on the device, so several may be queued before the first has been observed.
///
/// # Contract
/// - `begin` comes first and is called with nothing in flight. It replaces the sequence before it.
/// - Steps come in the order: one `Feed` per prompt token that is neither cached nor the last, then `Decode`s and, where
///   [`ModelLimits::drafts`] is above 0, `Speculate`s, at most `budget` of them.
/// - At most [`ModelLimits::ring_slots`] steps are in flight: submitted and not yet waited for.
/// - Each ticket is waited for once, oldest first.
/// - The model stops by itself on an end-of-generation id, at the budget, at the end of its context and on logits that are not finite.
///   Every step queued behind the stop is a no-op: it writes no K/V and reports [`StepStatus::NoOp`].
/// - Where the sequence has a [`Gate`], the sampling of each `Decode` waits for [`guide`](Self::guide) or [`choose`](Self::choose), called
///   once for each in order; its forward pass does not wait. Nothing is called for the steps in flight after `cancel`, which opens all
///   gates, and there are no `Speculate`s.
/// - After an error from any method the model is not called again, except to drop it. Dropping it with steps in flight is allowed.
pub trait StepModel {
    /// What the model says when a call fails. Every error is final: a model that can recover does so inside.
    type Error: std::error::Error + Send + Sync + 'static;

    /// What this model was built for; constant for its lifetime.
    fn limits(&self) -> ModelLimits;

    /// Makes the device ready for the first step of a sequence: prompt, position, budget, sampler, live flag.
    ///
    /// # Errors
    /// The model's own, when the device does not take the new state.
    fn begin(&mut self, start: &SequenceStart<'_>) -> Result<(), Self::Error>;

    /// Queues the next step and returns without waiting for it.
    ///
    /// # Errors
    /// The model's own, when the device does not take the step.
    fn submit(&mut self, kind: StepKind) -> Result<Ticket, Self::Error>;

    /// Says what a step of a sequence with [`Gate::Guide`] may choose, and lets it sample.
    ///
    /// # Errors
    /// The model's own.
    fn guide(&mut self, ticket: Ticket, guide: &Guide) -> Result<(), Self::Error>;

    /// Blocks until the logits of a step of a sequence with [`Gate::Token`] are there, and returns them, `[vocabulary]`.
    ///
    /// # Errors
    /// The model's own.
    fn logits(&mut self, ticket: Ticket) -> Result<&[f32], Self::Error>;

    /// Says which token a step of a sequence with [`Gate::Token`] chooses.
    ///
    /// # Errors
    /// The model's own.
    fn choose(&mut self, ticket: Ticket, choice: HostChoice) -> Result<(), Self::Error>;

    /// Blocks until the step is done and returns what it reported.
    ///
    /// # Errors
    /// The model's own, when the step will never be done (device lost, no progress).
    fn wait(&mut self, ticket: Ticket) -> Result<StepOutput, Self::Error>;

    /// The same, and asks `stop` now and then: once it says yes, the live flag is cleared, as [`cancel`](Self::cancel) would when the wait is
    /// over. A model that does not ask stops a step later.
    ///
    /// # Errors
    /// As [`wait`](Self::wait).
    fn wait_or_stop(&mut self, ticket: Ticket, stop: &dyn Fn() -> bool) -> Result<StepOutput, Self::Error> {
        let _ = stop;
        self.wait(ticket)
    }

    /// Clears the live flag and opens every gate: steps that have not begun become no-ops. Returns at once; what is in flight must still
    /// be waited for. Without a running sequence it does nothing.
    fn cancel(&mut self);

    /// Work done since the model was built.
    fn counters(&self) -> ModelCounters;
}

/// What a model was built for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ModelLimits {
    /// Positions the KV cache holds.
    pub context_tokens: u32,
    /// Size of the vocabulary; every token id is below it.
    pub vocabulary_tokens: u32,
    /// Steps that may be in flight at once.
    pub ring_slots: u32,
    /// The most tokens that a `Speculate` drafts, less than [`TokenRun::MAX`]; 0 where the model cannot speculate.
    pub max_drafts: u32,
    /// Whether what drafts has to see every token, so that speculating again in the middle of a sequence costs what it has missed.
    pub resume_cost: ResumeCost,
}

/// A new sequence.
#[derive(Debug, Clone, Copy)]
pub struct SequenceStart<'a> {
    /// The whole prompt, at least one token.
    pub tokens: &'a [u32],
    /// How many of its leading tokens have valid K/V already; always fewer than there are. The first step is at this position.
    pub cached: u32,
    /// The most tokens that will be sampled, at least 1 and never more than the context has room for.
    pub budget: u32,
    /// How to choose tokens.
    pub sampling: &'a Sampling,
    /// Ids that end the sequence. A device with room for fewer may ignore the rest: the host compares too.
    pub eog: &'a [u32],
    /// What the sampling of each step waits for.
    pub gate: Gate,
    /// Whether there will be `Speculate`s.
    pub speculative: SpeculativeDecoding,
    /// How many of the likeliest tokens are reported with each token, at most [`TokenLogprobs::MAX_TOP`]; `None` is no log-probabilities
    /// at all.
    pub logprobs: Option<u32>,
}

impl<'a> SequenceStart<'a> {
    /// A sequence without gates, drafts, log-probabilities and end-of-generation ids.
    pub fn new(tokens: &'a [u32], cached: u32, budget: u32, sampling: &'a Sampling) -> Self {
        Self {
            tokens,
            cached,
            budget,
            sampling,
            eog: &[],
            gate: Gate::Open,
            speculative: SpeculativeDecoding::Off,
            logprobs: None,
        }
    }
}

/// What the sampling of a sequence's steps waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub enum Gate {
    /// Nothing.
    #[default]
    Open,
    /// A [`Guide`]: which tokens are allowed.
    Guide,
    /// A [`HostChoice`]: which token it is.
    Token,
}

/// Whether a sequence is drafted ahead.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub enum SpeculativeDecoding {
    /// It is not.
    #[default]
    Off,
    /// It may be: the model keeps what it needs to draft up to date.
    On,
}

/// What the host chose for a step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum HostChoice {
    /// This token, of this logit.
    Token {
        /// The token.
        id: u32,
        /// Its logit.
        logit: f32,
    },
    /// None: the logits are not finite.
    NonFinite,
}

/// Names a submitted step until it has been waited for. Its value means something to the model that made it only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Ticket(u64);

impl Ticket {
    /// A ticket of this value.
    pub fn new(value: u64) -> Self {
        Self(value)
    }

    /// The value it was made with.
    pub fn value(self) -> u64 {
        self.0
    }
}

/// Work done by a model, counted since it was built.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct ModelCounters {
    /// Submissions to a queue.
    pub submits: u64,
    /// Command buffers recorded.
    pub recordings: u64,
    /// Waits on a binary fence.
    pub fence_waits: u64,
    /// Nanoseconds that the calling thread has waited for the device. A submission that is waited for at once, as with a fence, is
    /// counted whole.
    pub waited_ns: u64,
}

impl ModelCounters {
    /// What was done since `earlier`, a former reading of the same model.
    pub fn since(self, earlier: Self) -> Self {
        Self {
            submits: self.submits - earlier.submits,
            recordings: self.recordings - earlier.recordings,
            fence_waits: self.fence_waits - earlier.fence_waits,
            waited_ns: self.waited_ns - earlier.waited_ns,
        }
    }
}
