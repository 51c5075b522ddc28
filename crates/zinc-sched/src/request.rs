//! What a caller asks of the engine, and what comes back.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::control::Control;
use crate::error::{Error, Result};
use crate::model::ModelLimits;
use crate::sampling::Sampling;
use crate::speculation::SpeculationStats;
use crate::step::TokenLogprobs;
use crate::sync::AtomicBool;
use crate::trace::Trace;

/// Whether one row per step is kept, to see when each was submitted, run and observed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Tracing {
    /// They are not kept.
    #[default]
    Off,
    /// They are kept, and delivered with the [`Completion`].
    On,
}

/// A prompt to continue. [`Request::new`] makes one, whose fields can then be set.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Request {
    /// The whole prompt. No steps are needed for leading tokens that the cache still holds.
    pub prompt: Vec<u32>,
    /// The most tokens to deliver; `None` is as many as the context has room for.
    pub max_tokens: Option<u32>,
    /// The sampling parameters.
    pub sampling: Sampling,
    /// Who chooses tokens, and among which.
    pub control: Control,
    /// End-of-generation ids. The one that ends the generation is reported as the reason, and not delivered as a token.
    pub eog: Arc<[u32]>,
    /// How many of the likeliest tokens to report with each token, at most [`TokenLogprobs::MAX_TOP`]. `None`: no log-probabilities are
    /// reported.
    pub logprobs: Option<u32>,
    /// Whether the steps are traced.
    pub trace: Tracing,
    /// Of the requests that wait for a lane, of owners with equally many lanes, the one with the highest number begins first. At most as many as the numbers differ
    /// overtake one that came before, besides those of owners with fewer lanes.
    pub priority: i32,
    /// Whose request it is, by numbers that the caller chooses. Of the owners who wait for a lane, one who has the fewest gets the next, so that nobody gets more than
    /// half of the lanes, rounded up, while others wait.
    pub owner: u64,
}

impl Request {
    /// A greedy, untraced continuation of `prompt` up to an id in `eog` or the end of the context.
    pub fn new(prompt: impl Into<Vec<u32>>, eog: impl Into<Arc<[u32]>>) -> Self {
        Self {
            prompt: prompt.into(),
            max_tokens: None,
            sampling: Sampling::GREEDY,
            control: Control::Device,
            eog: eog.into(),
            logprobs: None,
            trace: Tracing::Off,
            priority: 0,
            owner: 0,
        }
    }

    /// Returns this request with this priority.
    #[must_use]
    pub fn with_priority(mut self, priority: i32) -> Self {
        self.priority = priority;
        self
    }

    /// Returns this request as one of this owner.
    #[must_use]
    pub fn with_owner(mut self, owner: u64) -> Self {
        self.owner = owner;
        self
    }

    /// Returns this request for at most this many tokens; `None` is as many as the context has room for.
    #[must_use]
    pub fn with_max_tokens(mut self, max_tokens: impl Into<Option<u32>>) -> Self {
        self.max_tokens = max_tokens.into();
        self
    }

    /// Returns this request with these sampling parameters.
    #[must_use]
    pub fn with_sampling(mut self, sampling: Sampling) -> Self {
        self.sampling = sampling;
        self
    }

    /// Returns this request with this control of tokens by the host.
    #[must_use]
    pub fn with_control(mut self, control: Control) -> Self {
        self.control = control;
        self
    }

    /// Returns this request with these end-of-generation ids.
    #[must_use]
    pub fn with_eog(mut self, eog: impl Into<Arc<[u32]>>) -> Self {
        self.eog = eog.into();
        self
    }

    /// Returns this request with log-probabilities of this many of the likeliest tokens; `None` is no log-probabilities.
    #[must_use]
    pub fn with_logprobs(mut self, logprobs: impl Into<Option<u32>>) -> Self {
        self.logprobs = logprobs.into();
        self
    }

    /// Returns this request with its steps traced or not.
    #[must_use]
    pub fn with_trace(mut self, trace: Tracing) -> Self {
        self.trace = trace;
        self
    }

    /// Compares the request with the model's limits.
    ///
    /// # Errors
    /// [`Error::EmptyPrompt`], [`Error::PromptTooLong`], [`Error::PromptExceedsCache`], [`Error::TokenOutsideVocabulary`],
    /// [`Error::TooManyLogprobs`], and those of [`Sampling::check`].
    pub fn check(&self, limits: &ModelLimits) -> Result<()> {
        if self.prompt.is_empty() {
            return Err(Error::EmptyPrompt);
        }
        if self.prompt.len() as u64 > u64::from(limits.context_tokens) {
            return Err(Error::PromptTooLong {
                prompt_tokens: self.prompt.len() as u64,
                context_tokens: limits.context_tokens,
            });
        }
        if let Some(cache_tokens) = limits.pages.map(|pool| pool.tokens())
            && self.prompt.len() as u64 > cache_tokens
        {
            return Err(Error::PromptExceedsCache { prompt_tokens: self.prompt.len() as u64, cache_tokens });
        }
        if let Some(top) = self.logprobs.filter(|top| *top > TokenLogprobs::MAX_TOP) {
            return Err(Error::TooManyLogprobs { top });
        }
        self.sampling.check(limits.vocabulary_tokens)?;
        match self.prompt.iter().position(|&token| token >= limits.vocabulary_tokens) {
            Some(index) => Err(Error::TokenOutsideVocabulary {
                index,
                token: self.prompt[index],
                vocabulary_tokens: limits.vocabulary_tokens,
            }),
            None => Ok(()),
        }
    }
}

/// A token that was delivered to the caller.
#[derive(Debug, Clone, PartialEq)]
pub struct Token {
    /// Its id.
    pub id: u32,
    /// Its position in the sequence: the first after the prompt is at the prompt's length.
    pub position: u32,
    /// Log-probabilities, if the request asked for them.
    pub logprobs: Option<Arc<TokenLogprobs>>,
}

/// Why a generation ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FinishReason {
    /// The model chose this end-of-generation id.
    Stop {
        /// The id; it was not delivered.
        token: u32,
    },
    /// `max_tokens` were delivered.
    Length,
    /// The context has no further position.
    ContextFull,
    /// The constraint of the request is met, and nothing may follow.
    Complete,
    /// The request was cancelled, or its [`Generation`](crate::Generation) was dropped.
    Cancelled,
}

/// How many tokens a request had.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    /// Tokens of the prompt.
    pub prompt_tokens: u32,
    /// Tokens of the prompt that the cache held already.
    pub cached_tokens: u32,
    /// Tokens delivered. An end-of-generation id is not delivered.
    pub completion_tokens: u32,
}

/// How long the parts of a request took.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Durations {
    /// From the start of the request to the observation of its first token, or to its end if it had none.
    pub prompt: Duration,
    /// From the observation of the first token to that of the last one.
    pub decode: Duration,
}

/// The outcome of a request.
#[derive(Debug, Clone)]
pub struct Completion {
    /// Why it ended.
    pub reason: FinishReason,
    /// How many tokens it had.
    pub usage: Usage,
    /// How long it took.
    pub durations: Durations,
    /// Steps that were submitted and not used, because the sequence had ended before them. Fewer than the depth of the window, or as many
    /// if the request was cancelled.
    pub overshoot_steps: u32,
    /// How many steps speculated, and what they sampled.
    pub speculation_stats: SpeculationStats,
    /// One row per step, if the request asked for them.
    pub trace: Option<Trace>,
}

impl Completion {
    /// The outcome of a request that ends before it has a step, of whose prompt the cache holds so many tokens.
    pub(crate) fn without_steps(request: &Request, cached_tokens: u32, reason: FinishReason) -> Self {
        let prompt_tokens = u32::try_from(request.prompt.len()).unwrap_or(u32::MAX);
        Self {
            reason,
            usage: Usage { prompt_tokens, cached_tokens, completion_tokens: 0 },
            durations: Durations::default(),
            overshoot_steps: 0,
            speculation_stats: SpeculationStats::default(),
            trace: (request.trace == Tracing::On).then(Trace::default),
        }
    }

    /// Prompt tokens per second, without the cached ones. `None` if there were none or they took no time.
    pub fn prompt_tokens_per_second(&self) -> Option<f64> {
        rate(self.usage.prompt_tokens - self.usage.cached_tokens, self.durations.prompt)
    }

    /// Sampled tokens per second. The first token ends the prompt's time, so that `n` tokens are `n - 1` intervals. `None` with fewer than two
    /// tokens.
    pub fn decode_tokens_per_second(&self) -> Option<f64> {
        rate(self.usage.completion_tokens.saturating_sub(1), self.durations.decode)
    }
}

fn rate(count: u32, time: Duration) -> Option<f64> {
    (count > 0 && !time.is_zero()).then(|| f64::from(count) / time.as_secs_f64())
}

/// How far a prompt has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PromptProgress {
    /// Tokens whose keys and values are in the cache: those that were there before, and those of the steps observed so far.
    pub done: u32,
    /// Tokens of the prompt. The last one belongs to the step that samples the first token, so that `done` stays below it.
    pub tokens: u32,
}

/// Receives what a running sequence delivers, and can cancel it.
pub trait Outlet {
    /// Receives how far the prompt has come, after each step that has taken some of its tokens.
    fn prompt(&mut self, _progress: PromptProgress) {}

    /// Receives the tokens that a step has sampled, one or several in order: it is called once a step. Returns how many of them it takes. If these are not all, the
    /// sequence is cancelled, and the rest is not delivered.
    fn tokens(&mut self, tokens: &[Token]) -> usize;

    /// Whether the sequence is to be cancelled. It is asked before every submit and after every wait, so it must be cheap.
    fn cancelled(&self) -> bool {
        false
    }
}

/// Collects the tokens, and never cancels.
impl Outlet for Vec<Token> {
    fn tokens(&mut self, tokens: &[Token]) -> usize {
        self.extend_from_slice(tokens);
        tokens.len()
    }
}

/// Cancels a generation from any thread. All clones of a handle cancel the same generation.
#[derive(Debug, Clone, Default)]
pub struct CancelHandle {
    requested: Arc<AtomicBool>,
}

impl CancelHandle {
    /// A handle that is not tied to a generation yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Cancels the generation. No token of a step that is observed after this call is delivered, and the device stops before its next step,
    /// or within a step that feeds a long prompt.
    pub fn cancel(&self) {
        // Nothing is published with the flag: Relaxed is enough.
        self.requested.store(true, Ordering::Relaxed);
    }

    /// Whether [`cancel`](Self::cancel) was called.
    pub fn is_cancelled(&self) -> bool {
        self.requested.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::LastToken;
    use crate::speculation::ResumeCost;

    const LIMITS: ModelLimits = ModelLimits {
        checkpoints: None,
        feed_rows: 1,
        last_token: LastToken::Alone,
        context_tokens: 4,
        vocabulary_tokens: 10,
        ring_slots: 8,
        lanes: 1,
        pages: None,
        max_drafts: 0,
        resume_cost: ResumeCost::Free,
    };

    fn check(prompt: &[u32]) -> Result<()> {
        Request::new(prompt, [9]).check(&LIMITS)
    }

    #[test]
    fn prompts_are_checked_against_the_limits() {
        assert!(check(&[0, 9, 1, 2]).is_ok());
        assert!(matches!(check(&[]), Err(Error::EmptyPrompt)));
        assert!(matches!(check(&[1; 5]), Err(Error::PromptTooLong { prompt_tokens: 5, context_tokens: 4 })));
        assert!(matches!(
            check(&[1, 10]),
            Err(Error::TokenOutsideVocabulary { index: 1, token: 10, vocabulary_tokens: 10 })
        ));
    }

    #[test]
    fn messages_carry_the_numbers() {
        let long = check(&[1; 5]).unwrap_err().to_string();
        assert!(long.contains("5 tokens") && long.contains("holds 4"), "{long}");
        let outside = check(&[1, 10]).unwrap_err().to_string();
        assert!(outside.contains("id 10") && outside.contains("0 to 9"), "{outside}");
    }

    #[test]
    fn rates_count_intervals_and_skip_the_cache() {
        let completion = Completion {
            reason: FinishReason::Length,
            usage: Usage { prompt_tokens: 12, cached_tokens: 2, completion_tokens: 5 },
            durations: Durations { prompt: Duration::from_secs(2), decode: Duration::from_secs(1) },
            overshoot_steps: 0,
            speculation_stats: SpeculationStats::default(),
            trace: None,
        };
        assert_eq!(completion.prompt_tokens_per_second(), Some(5.0));
        assert_eq!(completion.decode_tokens_per_second(), Some(4.0));
        let one = Completion { usage: Usage { completion_tokens: 1, ..completion.usage }, ..completion };
        assert_eq!(one.decode_tokens_per_second(), None);
    }
}
