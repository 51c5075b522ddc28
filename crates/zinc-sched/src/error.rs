//! The errors of the scheduler, with the numbers.

use std::sync::Arc;

use crate::step::{DeviceFinish, StepKind, StepStatus, TokenLogprobs};

/// A result whose error is this crate's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Which call into the model failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ModelCall {
    /// The call was [`StepModel::open`](crate::StepModel::open).
    Open,
    /// The call was [`StepModel::submit`](crate::StepModel::submit) of this step of the sequence, counted from 0.
    Submit {
        /// Number of the step.
        step: u32,
    },
    /// The call was [`StepModel::keep`](crate::StepModel::keep) behind this step of the sequence, counted from 0.
    Keep {
        /// Number of the step.
        step: u32,
    },
    /// The call was [`StepModel::wait`](crate::StepModel::wait) for this step of the sequence, counted from 0.
    Wait {
        /// Number of the step.
        step: u32,
    },
    /// The call was [`StepModel::guide`](crate::StepModel::guide), [`logits`](crate::StepModel::logits) or
    /// [`choose`](crate::StepModel::choose).
    Gate {
        /// Position of the token to be chosen.
        position: u32,
    },
}

impl std::fmt::Display for ModelCall {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ModelCall::Open => f.write_str("opening the sequence"),
            ModelCall::Submit { step } => write!(f, "submitting step {step}"),
            ModelCall::Keep { step } => write!(f, "keeping the state behind step {step}"),
            ModelCall::Gate { position } => write!(f, "opening the gate of the token at position {position}"),
            ModelCall::Wait { step } => write!(f, "waiting for step {step}"),
        }
    }
}

/// An error of the scheduler. It is `Clone` because a broken model is reported to every request that waits for it.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The depth of the window is outside its range.
    #[error("in-flight depth {depth} is outside {min}..={max}; 1 waits for every step, 4 is the default")]
    DepthOutOfRange {
        /// The depth that was asked for.
        depth: u32,
        /// The smallest depth.
        min: u32,
        /// The largest depth.
        max: u32,
    },
    /// The model has fewer ring slots than the window is deep.
    #[error(
        "in-flight depth {depth} needs as many ring slots, and the model has {ring_slots}; build the model with more or lower the depth"
    )]
    DepthExceedsRing {
        /// The depth that was asked for.
        depth: u32,
        /// Ring slots of the model.
        ring_slots: u32,
    },
    /// The request queue would hold no request.
    #[error("a request queue of capacity 0 accepts nothing; use 1 or more")]
    QueueCapacityZero,
    /// A sampling parameter is outside its range.
    #[error("{parameter} {value} is not {expected}")]
    InvalidSampling {
        /// The parameter, by llama.cpp's name.
        parameter: &'static str,
        /// The value that was asked for.
        value: f32,
        /// The range or the condition that values must meet.
        expected: &'static str,
    },
    /// A logit bias is for a token that is not in the vocabulary.
    #[error("logit bias for token {token}, and the vocabulary has ids 0 to {}", vocabulary_tokens.saturating_sub(1))]
    BiasOutsideVocabulary {
        /// The token's id.
        token: u32,
        /// Size of the vocabulary.
        vocabulary_tokens: u32,
    },
    /// A sequence breaker of DRY has a token that is not in the vocabulary.
    #[error("a sequence breaker has token {token}, and the vocabulary has ids 0 to {}", vocabulary_tokens.saturating_sub(1))]
    BreakerOutsideVocabulary {
        /// The token's id.
        token: u32,
        /// Size of the vocabulary.
        vocabulary_tokens: u32,
    },
    /// A sequence breaker of DRY is empty or too long.
    #[error("a sequence breaker has {tokens} tokens; 1 to {most} are supported")]
    BreakerLength {
        /// Its number of tokens.
        tokens: usize,
        /// The most tokens of a breaker.
        most: usize,
    },
    /// Logit biases of minus infinity for the whole vocabulary.
    #[error("the logit biases forbid every token of the vocabulary, whose ids are 0 to {}; leave at least one", vocabulary_tokens.saturating_sub(1))]
    BiasesForbidAll {
        /// Size of the vocabulary.
        vocabulary_tokens: u32,
    },
    /// The prompt has no token, so there is nothing to continue.
    #[error("the prompt is empty; it needs at least one token")]
    EmptyPrompt,
    /// The prompt does not fit into the context.
    #[error(
        "the prompt has {prompt_tokens} tokens and the context holds {context_tokens}; shorten the prompt or enlarge the context"
    )]
    PromptTooLong {
        /// Tokens in the prompt.
        prompt_tokens: u64,
        /// Tokens the context holds.
        context_tokens: u32,
    },
    /// The prompt does not fit into the cache, even if it has all of it for itself.
    #[error(
        "the prompt has {prompt_tokens} tokens and the cache holds {cache_tokens} of all sequences together; shorten the prompt or enlarge the cache"
    )]
    PromptExceedsCache {
        /// Tokens in the prompt.
        prompt_tokens: u64,
        /// Tokens the cache holds.
        cache_tokens: u64,
    },
    /// A prompt token is not in the vocabulary.
    #[error("prompt token {index} has id {token}, and the vocabulary has ids 0 to {}", vocabulary_tokens.saturating_sub(1))]
    TokenOutsideVocabulary {
        /// Place of the token in the prompt, from 0.
        index: usize,
        /// The id.
        token: u32,
        /// Size of the vocabulary.
        vocabulary_tokens: u32,
    },
    /// More log-probabilities are asked for than a step reports.
    #[error(
        "log-probabilities of the {top} likeliest tokens are asked for; at most {} are reported",
        TokenLogprobs::MAX_TOP
    )]
    TooManyLogprobs {
        /// How many were asked for.
        top: u32,
    },
    /// The queue holds as many waiting requests as it may.
    #[error("{waiting} requests wait already, and at most {capacity} may; try again when one has finished")]
    QueueFull {
        /// How many wait.
        waiting: usize,
        /// How many may wait.
        capacity: usize,
    },
    /// The engine takes no further requests, because it was told to end when those that it has are answered.
    #[error("the engine takes no further requests; it ends when those that it has are answered")]
    Draining,
    /// A sequence runs in every lane of the model.
    #[error("all {lanes} lanes of the model have a sequence; start another when one has ended")]
    NoFreeLane {
        /// Lanes of the model.
        lanes: u32,
    },
    /// The cache has too few pages for another sequence, beside those that the running ones have and may need soon.
    #[error("{lacking} pages of the cache are lacking to begin another sequence; start it when one has ended")]
    NoFreePages {
        /// How many more pages are needed.
        lacking: u32,
    },
    /// The model computed a logit that is NaN or plus infinity, or none that is finite. The sequence ends, its cache is forgotten, and the
    /// engine goes on.
    #[error("step {step} at position {position} gave logits that are not finite; the weights or a kernel are broken")]
    NonFinite {
        /// Step of the sequence, counted from 0.
        step: u32,
        /// Position of the step's input token.
        position: u32,
    },
    /// The request's constraint or sampler failed. The sequence ends, and the engine goes on.
    #[error("choosing the token at position {position}: {source}")]
    Control {
        /// Position of the token that was to be chosen.
        position: u32,
        /// What the constraint or the sampler said.
        source: Arc<dyn std::error::Error + Send + Sync>,
    },
    /// The model reported something that the plan of its sequence excludes. Its reports can no longer be trusted, so the engine stops using it.
    #[error(
        "step {step} ({kind:?} of {rows} rows, position {expected_position}) came back as {status:?} at position {position} with {fed} tokens fed, {tokens} \
         sampled and finish {finish:?}; \
         the device and the host disagree about the sequence"
    )]
    UnexpectedOutput {
        /// Step of the sequence, counted from 0.
        step: u32,
        /// The kind of step that was submitted.
        kind: StepKind,
        /// The prompt tokens that it was to feed, if it is a `Feed`; otherwise 1.
        rows: u32,
        /// The position that it was submitted for.
        expected_position: u32,
        /// The position that it reported.
        position: u32,
        /// How many prompt tokens it reported to have fed.
        fed: u32,
        /// How many tokens it reported to have sampled.
        tokens: usize,
        /// The status that it reported.
        status: StepStatus,
        /// The reason that it gave for the end of the sequence, if any.
        finish: Option<DeviceFinish>,
    },
    /// A call into the model failed. The engine reports this to every later request too.
    #[error("the model failed while {call}: {source}")]
    Model {
        /// The call that failed.
        call: ModelCall,
        /// What the model said.
        source: Arc<dyn std::error::Error + Send + Sync>,
    },
    /// The engine was shut down, or its thread ended, before the request was finished.
    #[error("the engine stopped before the request was finished")]
    Stopped,
    /// The engine's thread panicked. It reports this to every later request too.
    #[error("the engine panicked, which is a bug: {message}")]
    Panicked {
        /// The panic's message.
        message: Arc<str>,
    },
    /// The operating system did not start the engine's thread.
    #[error("the engine's thread did not start: {source}")]
    Spawn {
        /// What the operating system said.
        source: Arc<std::io::Error>,
    },
}

impl Error {
    pub(crate) fn model(call: ModelCall, source: impl std::error::Error + Send + Sync + 'static) -> Self {
        Self::Model { call, source: Arc::new(source) }
    }

    /// Whether the model cannot be used after this error.
    pub fn is_fatal(&self) -> bool {
        matches!(self, Self::Model { .. } | Self::UnexpectedOutput { .. } | Self::Panicked { .. } | Self::Stopped)
    }
}
