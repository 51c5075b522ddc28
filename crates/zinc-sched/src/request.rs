//! What is asked of the engine and what comes back.

use std::ops::ControlFlow;
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

/// Whether the steps of a request are traced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Tracing {
    /// No rows are kept.
    #[default]
    Off,
    /// One row per step, delivered with the [`Completion`].
    On,
}

/// A prompt to continue.
#[derive(Debug, Clone)]
pub struct Request {
    /// The whole prompt. Leading tokens that the cache still holds cost nothing.
    pub prompt: Vec<u32>,
    /// The most tokens to deliver; `None` is as many as the context has room for.
    pub max_tokens: Option<u32>,
    /// How to choose tokens.
    pub sampling: Sampling,
    /// Who chooses them.
    pub control: Control,
    /// Ids that end the generation; they are reported, not delivered.
    pub eog: Arc<[u32]>,
    /// How many of the likeliest tokens to report with each token, at most [`TokenLogprobs::MAX_TOP`]; `None` is no log-probabilities at
    /// all.
    pub logprobs: Option<u32>,
    /// Whether to trace.
    pub trace: Tracing,
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
        }
    }

    /// Compares the request with the model's limits.
    ///
    /// # Errors
    /// [`Error::EmptyPrompt`], [`Error::PromptTooLong`], [`Error::TokenOutsideVocabulary`],
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

/// A delivered token.
#[derive(Debug, Clone, PartialEq)]
pub struct Token {
    /// Its id.
    pub id: u32,
    /// Its position in the sequence: the first after the prompt is at the prompt's length.
    pub position: u32,
    /// Log-probabilities, where the request asked for them.
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
    /// It was cancelled, or its receiver was dropped.
    Cancelled,
}

/// Tokens of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    /// Tokens of the prompt.
    pub prompt_tokens: u32,
    /// Those of them that the cache held already.
    pub cached_tokens: u32,
    /// Tokens delivered; an end-of-generation id is not one.
    pub completion_tokens: u32,
}

/// Where the time of a request went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Durations {
    /// From its start to the observation of its first token, or to its end if there was none.
    pub prompt: Duration,
    /// From the observation of its first token to that of its last.
    pub decode: Duration,
}

/// How a request ended.
#[derive(Debug, Clone)]
pub struct Completion {
    /// Why.
    pub reason: FinishReason,
    /// Tokens.
    pub usage: Usage,
    /// Times.
    pub durations: Durations,
    /// Steps that were submitted and not used, because the sequence had ended before them. Fewer than the window is deep, plus one
    /// when it was cancelled.
    pub overshoot_steps: u32,
    /// What speculation brought.
    pub speculation_stats: SpeculationStats,
    /// The steps, if they were asked for.
    pub trace: Option<Trace>,
}

impl Completion {
    /// Prompt tokens computed per second, the cached ones left out.
    pub fn prompt_tokens_per_second(&self) -> Option<f64> {
        rate(self.usage.prompt_tokens - self.usage.cached_tokens, self.durations.prompt)
    }

    /// Tokens decoded per second. The first token ends the prompt's time, so `n` tokens are `n - 1` intervals.
    pub fn decode_tokens_per_second(&self) -> Option<f64> {
        rate(self.usage.completion_tokens.saturating_sub(1), self.durations.decode)
    }
}

fn rate(count: u32, time: Duration) -> Option<f64> {
    (count > 0 && !time.is_zero()).then(|| f64::from(count) / time.as_secs_f64())
}

/// Takes what a running sequence delivers and says when to stop.
pub trait Outlet {
    /// Takes a token, in order. `Break` cancels the sequence.
    fn token(&mut self, token: Token) -> ControlFlow<()>;

    /// Whether to cancel. Asked before every submit and after every wait, so it must be cheap.
    fn cancelled(&self) -> bool {
        false
    }
}

/// Collects tokens; never cancels.
impl Outlet for Vec<Token> {
    fn token(&mut self, token: Token) -> ControlFlow<()> {
        self.push(token);
        ControlFlow::Continue(())
    }
}

/// Cancels a generation from any thread. Clones cancel the same one.
#[derive(Debug, Clone, Default)]
pub struct CancelHandle {
    requested: Arc<AtomicBool>,
}

impl CancelHandle {
    /// A handle that nothing listens to yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Asks for the end. No token is delivered for a step observed after this; the device stops at its next step boundary.
    pub fn cancel(&self) {
        // Nothing is published with the flag: Relaxed is enough.
        self.requested.store(true, Ordering::Relaxed);
    }

    /// Whether the end was asked for.
    pub fn is_cancelled(&self) -> bool {
        self.requested.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::speculation::ResumeCost;

    const LIMITS: ModelLimits = ModelLimits {
        context_tokens: 4,
        vocabulary_tokens: 10,
        ring_slots: 8,
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
