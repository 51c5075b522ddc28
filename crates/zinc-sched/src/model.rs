//! The seam between the scheduler and whatever computes tokens: the [`StepModel`] trait and the plain data that crosses it.
//!
//! No device type appears here. The Vulkan implementation lives in the adapter, the simulated one in [`fake`](crate::fake).

use crate::sampling::Sampling;

/// A model that computes one step of one sequence at a time, on a device that runs ahead of the host.
///
/// One thread drives it. A step that was submitted runs on its own, after the step before it; the token of one step reaches the next
/// one on the device, so several may be queued before the first has been observed.
///
/// # Contract
/// - `begin` comes first and is called with nothing in flight. It replaces the sequence before it.
/// - Steps come in the order: one `Feed` per prompt token that is neither cached nor the last, then `Decode`s, at most `budget` of them.
/// - At most [`ModelLimits::ring_slots`] steps are in flight: submitted and not yet waited for.
/// - Each ticket is waited for once, oldest first.
/// - The model stops by itself on an end-of-generation id, at the budget, at the end of its context and on logits that are not finite.
///   Every step queued behind the stop is a no-op: it writes no K/V and reports [`StepStatus::NoOp`].
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
    fn submit(&mut self, shape: StepShape) -> Result<Ticket, Self::Error>;

    /// Blocks until the step is done and returns what it reported.
    ///
    /// # Errors
    /// The model's own, when the step will never be done (device lost, no progress).
    fn wait(&mut self, ticket: Ticket) -> Result<StepOutput, Self::Error>;

    /// Clears the live flag: steps that have not begun become no-ops. Returns at once; what is in flight must still be waited for.
    /// Without a running sequence it does nothing.
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
}

/// A new sequence.
#[derive(Debug, Clone, Copy)]
pub struct SequenceStart<'a> {
    /// The whole prompt, at least one token.
    pub tokens: &'a [u32],
    /// How many of its leading tokens have valid K/V already; always fewer than there are. The first step is at this position.
    pub cached: u32,
    /// The most `Decode` steps that will be submitted, at least 1 and never more than the context has room for.
    pub budget: u32,
    /// How to choose tokens.
    pub sampling: &'a Sampling,
    /// Ids that end the sequence. A device with room for fewer may ignore the rest: the host compares too.
    pub eog: &'a [u32],
}

/// What a step does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "snake_case"))]
pub enum StepShape {
    /// Takes one prompt token through the layers for its K/V; no head, no token comes out.
    Feed,
    /// Takes one token through the layers and the head and samples the next.
    Decode,
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

/// What a step reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StepOutput {
    /// The sampled token; meaningful when `status` is [`StepStatus::Emitted`].
    pub token: u32,
    /// Position of the token that went in, hence where this step wrote K/V. The sampled token is at `position + 1`.
    /// Not looked at for a no-op.
    pub position: u32,
    /// What the step did.
    pub status: StepStatus,
    /// Why the sequence stopped, on the step that stopped it. Not looked at for a no-op behind the stop.
    pub finish: Option<DeviceFinish>,
    /// When.
    pub timing: StepTiming,
}

/// What a step did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "snake_case"))]
pub enum StepStatus {
    /// K/V written for a prompt token.
    Fed,
    /// K/V written and a token sampled.
    Emitted,
    /// Nothing: the live flag was clear.
    NoOp,
}

/// Why the device stopped a sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DeviceFinish {
    /// The sampled token is an end-of-generation id. The status is `Emitted` and the token is that id.
    EndOfGeneration,
    /// The sampled token is the last of the budget.
    Budget,
    /// The next step would be at a position the context does not have.
    ContextFull,
    /// The host cleared the live flag.
    Cancelled,
    /// The logits are infinite or not numbers. Whatever the status, no token was chosen.
    NonFinite,
}

/// When a step was submitted, ran and was observed, in nanoseconds on one host clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct StepTiming {
    /// Before the submit call.
    pub submitted_at_ns: u64,
    /// After the submit call.
    pub submit_done_ns: u64,
    /// When the host knew that the step was done.
    pub observed_at_ns: u64,
    /// When the device ran it; absent where it takes no timestamps.
    pub gpu: Option<GpuSpan>,
}

/// When the device ran a step, in nanoseconds on the host clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct GpuSpan {
    /// Start of the step's first command.
    pub begin_ns: u64,
    /// End of the step's last command.
    pub end_ns: u64,
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
