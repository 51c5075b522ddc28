//! What a step is and what it reports: plain data that every other module of the crate may use. This module uses none of them.

use std::sync::Arc;

/// The kinds of steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "snake_case"))]
pub enum StepKind {
    /// Takes one prompt token or several through the layers, to compute their K/V. The head is left out, and no token is sampled.
    Feed,
    /// Takes the last tokens of a prompt through the layers, as `Feed` does, the very last one among them, which goes through the head, too; and samples
    /// the next token. A step that does so for one of its lanes may feed others, as `Feed` does.
    FeedDecode,
    /// Takes one token through the layers and the head, and samples the next token.
    Decode,
    /// Speculative decoding: drafts a few tokens, verifies them by taking the last token and all drafts through the layers and the head
    /// together, and samples a token after the last one and after each draft that is accepted. A draft is accepted if it equals the token
    /// that was sampled in its place and all drafts before it are accepted.
    Speculate,
}

impl StepKind {
    /// Whether a step of this kind samples tokens.
    pub fn samples(self) -> bool {
        self != Self::Feed
    }

    /// Whether a step of this kind feeds a prompt.
    pub fn feeds(self) -> bool {
        matches!(self, Self::Feed | Self::FeedDecode)
    }

    /// The kind of a step that is of these kinds for its lanes. They differ only where all of them feed.
    ///
    /// # Panics
    /// If there are none.
    pub(crate) fn of_lanes(kinds: impl Iterator<Item = Self>) -> Self {
        kinds.reduce(|one, other| if one.samples() { one } else { other }).expect("a step has a lane")
    }

    /// How many prompt tokens a step of this kind takes in without sampling behind them, if it has so many rows.
    pub fn fed_of(self, rows: u32) -> u32 {
        match self {
            Self::Feed => rows,
            Self::FeedDecode => rows - 1,
            Self::Decode | Self::Speculate => 0,
        }
    }
}

/// What a step reported to the host.
#[derive(Debug, Clone, PartialEq)]
pub struct StepOutput {
    /// What it did for each of its lanes, in their order.
    pub lanes: Vec<LaneOutput>,
    /// When it was submitted, ran and was observed.
    pub timing: StepTiming,
}

/// What a step did for one of its lanes.
#[derive(Debug, Clone, PartialEq)]
pub struct LaneOutput {
    /// The sampled tokens in order: one of a `Decode` or `FeedDecode`, one or more of a `Speculate`, none of a `Feed` or a no-op.
    pub tokens: TokenRun,
    /// How many prompt tokens it took in without sampling behind them: those of a `Feed`, those of a `FeedDecode` but the last, none of other steps and
    /// of a no-op.
    pub fed: u32,
    /// How many drafts it took in, accepted or not: some of a `Speculate`, which may have found none.
    pub drafts: u32,
    /// Position of the step's first input token, which is where the step wrote its first K/V. The first sampled token is at
    /// `position + fed + 1`. The scheduler ignores this field of a no-op.
    pub position: u32,
    /// What the step did.
    pub status: StepStatus,
    /// Why the sequence stopped, in the output of the step that stopped it. The scheduler ignores this field of the no-ops behind that step.
    pub finish: Option<DeviceFinish>,
    /// Log-probabilities of the sampled token, if the sequence asked for them.
    pub logprobs: Option<Arc<TokenLogprobs>>,
}

/// The tokens that one step sampled, at most [`Self::MAX`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TokenRun {
    tokens: [u32; Self::MAX],
    len: u32,
}

impl TokenRun {
    /// The most tokens that one step can sample: 15 accepted drafts and one more. The Vulkan adapter asserts that the kernels have the same
    /// limit.
    pub const MAX: usize = 16;

    /// A run of the given tokens.
    ///
    /// # Panics
    /// If there are more than [`Self::MAX`].
    pub fn new(tokens: &[u32]) -> Self {
        assert!(tokens.len() <= Self::MAX, "a step of {} tokens; the most are {}", tokens.len(), Self::MAX);
        let mut run = Self { tokens: [0; Self::MAX], len: tokens.len() as u32 };
        run.tokens[..tokens.len()].copy_from_slice(tokens);
        run
    }

    /// The tokens, in the order in which they were sampled.
    pub fn as_slice(&self) -> &[u32] {
        &self.tokens[..self.len as usize]
    }
}

/// Natural logarithms of token probabilities: the log-softmax of the raw logits, before any sampling parameter is applied.
#[derive(Debug, Clone, PartialEq)]
pub struct TokenLogprobs {
    /// Log-probability of the sampled token.
    pub chosen: f32,
    /// Ids and log-probabilities of the likeliest tokens, the likeliest first.
    pub top: Vec<(u32, f32)>,
}

impl TokenLogprobs {
    /// The most entries that a request may ask [`top`](Self::top) to have.
    pub const MAX_TOP: u32 = 20;
}

/// What a step did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "snake_case"))]
pub enum StepStatus {
    /// It wrote the K/V of prompt tokens.
    Fed,
    /// It wrote K/V and sampled one token or several.
    Emitted,
    /// It did nothing, because its sequence had ended before the step began; or a cancellation ended it, and no K/V that it has written counts.
    NoOp,
}

/// Why the device stopped a sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DeviceFinish {
    /// The last sampled token is an end-of-generation id. The step's status is `Emitted`.
    EndOfGeneration,
    /// The sampled token is the last one that the budget allows.
    Budget,
    /// The context has no position for the sampled token, so that no step can follow.
    ContextFull,
    /// The host cancelled the sequence.
    Cancelled,
    /// A logit is NaN or plus infinity, or all of them are minus infinity. No token was chosen, whatever the step's status.
    NonFinite,
}

/// When a step was submitted, ran and was observed, in nanoseconds on one host clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct StepTiming {
    /// When the submit call was made.
    pub submitted_at_ns: u64,
    /// When the submit call returned.
    pub submit_done_ns: u64,
    /// When the host knew that the step was done.
    pub observed_at_ns: u64,
    /// When the device ran the step; `None` if it takes no timestamps.
    pub gpu: Option<GpuSpan>,
}

/// When the device ran a step, in nanoseconds on the host clock. Other steps may have run between the ranges of one that feeds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct GpuSpan {
    /// Start of the step's first command.
    pub begin_ns: u64,
    /// End of the step's last command.
    pub end_ns: u64,
    /// How long the device idled between these two, because sampling waited for the host or for another queue.
    pub idle_ns: u64,
}
