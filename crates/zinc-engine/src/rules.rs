//! How answers are chosen and what ends them: from what a caller asks for to the requests that are made with it.

use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;

use zinc_model::Tokenizer;
use zinc_model::tokenizer::StopMatcher;
use zinc_sched::grammar::{GrammarSource, ThinkingStart};
use zinc_sched::{Control, Request, Sampling, Tracing};

use crate::error::{Error, Result};
use crate::file::ModelFile;
use crate::scored;
use crate::text::AnswerText;

/// What end-of-generation tokens do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EndTokens {
    /// They end the answer.
    #[default]
    End,
    /// They are tokens like others, so that the answer goes on to its length or to the end of the context.
    GoOn,
}

/// What a model may think before it answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FreeThinking {
    /// The text that begins the thinking.
    pub open: String,
    /// The text that ends it.
    pub close: String,
    /// A text and a name behind it by which the thinking begins anew in the answer; `None` if there is nothing of the kind.
    pub anew: Option<(String, String)>,
    /// Whether the prompt has begun it.
    pub start: ThinkingStart,
    /// The most tokens that are thought, up to the text that ends the thinking; `None` for any number.
    pub max_tokens: Option<u32>,
}

/// How an answer is to be chosen and what ends it, independent of any model.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct AnswerOptions {
    /// How tokens are chosen. The sequence breakers of DRY are taken from [`Self::breakers`].
    pub sampling: Sampling,
    /// Texts that the repetitions of DRY do not reach across.
    pub breakers: Vec<String>,
    /// What the text of the answer has to match.
    pub constraint: Option<GrammarSource>,
    /// What the model may think before that text. It matters if there is a constraint, which begins behind it, or a limit.
    pub thinking: Option<FreeThinking>,
    /// Texts before which the answer ends.
    pub stops: Vec<String>,
    /// The most tokens of the answer; `None` is as many as the context has room for.
    pub max_tokens: Option<u32>,
    /// What end-of-generation tokens do.
    pub end_tokens: EndTokens,
    /// Whether the answer continues a text and may begin with a space, instead of being a text of its own.
    pub continues_text: bool,
    /// Texts of control tokens that are part of the answer, such as the marks of a tool call; those that the vocabulary has no control token for
    /// count for nothing. All other control tokens are hidden.
    pub shown: Vec<String>,
    /// Tokens behind the prompt that the request goes through before its answer, whatever the model would choose, so that their
    /// log-probabilities become known: the rest of a prompt. Each takes a step, as the tokens of an answer do, and comes as
    /// [`AnswerEvent::Scored`](crate::AnswerEvent::Scored). They do not count as tokens of the answer.
    pub scored: Vec<u32>,
    /// How many of the likeliest tokens to report with each token; `None` is no log-probabilities.
    pub logprobs: Option<u32>,
    /// Of the requests of an owner that wait, those of the highest number begin first.
    pub priority: i32,
    /// Whose request it is ([`Request::owner`]).
    pub owner: u64,
    /// Whether the answer's steps are traced.
    pub trace: Tracing,
}

impl AnswerOptions {
    /// The likeliest token each time, up to an end-of-generation token or the end of the context.
    #[must_use]
    pub fn new() -> Self {
        Self {
            sampling: Sampling::GREEDY,
            breakers: Vec::new(),
            constraint: None,
            thinking: None,
            stops: Vec::new(),
            max_tokens: None,
            end_tokens: EndTokens::End,
            continues_text: false,
            shown: Vec::new(),
            scored: Vec::new(),
            logprobs: None,
            priority: 0,
            owner: 0,
            trace: Tracing::Off,
        }
    }

    /// Checks what can be checked without a model: the ranges of the sampling parameters.
    ///
    /// # Errors
    /// [`zinc_sched::Error::InvalidSampling`] with the parameter, its value and its range.
    pub fn check(&self) -> Result<()> {
        // A vocabulary of 0 tokens stands for an unknown one: the ids of biases are not compared with it.
        Ok(self.sampling.check(0)?)
    }

    /// The rules for a model: ids are checked against its vocabulary, texts become ids, and the constraint is made.
    ///
    /// # Errors
    /// A sampling parameter outside its range, an id that the vocabulary does not have, a constraint that cannot be made, or a token that cannot be
    /// scored ([`Error::Scored`]).
    pub fn for_model(mut self, file: &ModelFile) -> Result<AnswerRules> {
        self.sampling.check(file.model().config.n_vocab)?;
        self.sampling = self.sampling.normalized();
        file.set_breakers(&mut self.sampling, &self.breakers)?;
        let grammar = self.constraint.as_ref().map(|source| file.grammar(source)).transpose()?;
        let control = match (&self.thinking, grammar) {
            (Some(thinking), grammar) if grammar.is_some() || thinking.max_tokens.is_some() => {
                let tags = file.thinking_tags(thinking)?;
                tags.control(thinking.start, thinking.max_tokens, grammar.as_ref())
            }
            (_, Some(grammar)) => grammar.control(),
            (_, None) => Control::Device,
        };
        let tokenizer = file.tokenizer();
        let scored: Arc<[u32]> = std::mem::take(&mut self.scored).into();
        let banned = |id: &&u32| self.sampling.logit_bias.contains(&(**id, f32::NEG_INFINITY));
        if let Some(&token) = scored.iter().find(banned) {
            return Err(Error::Scored { token, why: "its bias bans it" });
        }
        let control = scored::control(scored.clone(), control);
        let end = scored.iter().find(|id| tokenizer.eog().contains(id));
        let end_tokens: Arc<[u32]> = match (self.end_tokens, end) {
            (EndTokens::End, None) => tokenizer.eog().into(),
            // An answer of one token has no place in which the end could matter.
            (EndTokens::End, Some(&token)) if self.max_tokens.is_none_or(|most| most > 1) => {
                return Err(Error::Scored {
                    token,
                    why: "it ends an answer, so that one token at most can come behind the prompt",
                });
            }
            (EndTokens::End | EndTokens::GoOn, _) => Arc::new([]),
        };
        let ids = self.shown.iter().filter_map(|text| tokenizer.id_of(text));
        let mut shown: Vec<u32> = ids.filter(|id| tokenizer.is_control(*id)).collect();
        shown.sort_unstable();
        Ok(AnswerRules { options: self, control, end_tokens, shown: shown.into(), scored })
    }
}

impl Default for AnswerOptions {
    fn default() -> Self {
        Self::new()
    }
}

/// A seed that nobody can foresee.
#[must_use]
pub fn random_seed() -> u64 {
    // The standard library's hash keys are random; the hash of nothing under them is as good as a draw.
    RandomState::new().hash_one(())
}

/// How the answers of one model are chosen and what ends them. Made by [`AnswerOptions::for_model`].
#[derive(Clone, Debug)]
pub struct AnswerRules {
    /// The sampling parameters in them are normalised, and have the tokens of the sequence breakers.
    options: AnswerOptions,
    control: Control,
    end_tokens: Arc<[u32]>,
    /// Control tokens that are part of the text, in order.
    shown: Arc<[u32]>,
    /// [`AnswerOptions::scored`], which is empty in the options here.
    scored: Arc<[u32]>,
}

impl AnswerRules {
    /// The request that continues `prompt`.
    #[must_use]
    pub fn request(&self, prompt: Vec<u32>) -> Request {
        let scored_tokens = u32::try_from(self.scored.len()).unwrap_or(u32::MAX);
        Request::new(prompt, self.end_tokens.clone())
            .with_max_tokens(self.options.max_tokens.map(|most| most.saturating_add(scored_tokens)))
            .with_sampling(self.options.sampling.clone())
            .with_control(self.control.clone())
            .with_logprobs(self.options.logprobs)
            .with_priority(self.options.priority)
            .with_owner(self.options.owner)
            .with_trace(self.options.trace)
    }

    /// The tokens that such a request goes through before its answer.
    #[must_use]
    pub fn scored(&self) -> &[u32] {
        &self.scored
    }

    /// What turns the tokens of such a request's answer into text, up to the first stop string.
    #[must_use]
    pub fn text(&self, tokenizer: &Arc<Tokenizer>) -> AnswerText {
        let stops = StopMatcher::new(&self.options.stops);
        let text = if self.options.continues_text {
            AnswerText::inside(tokenizer.clone(), stops)
        } else {
            AnswerText::new(tokenizer.clone(), stops)
        };
        text.with_shown(self.shown.clone())
    }

    /// The seed of the next answer.
    #[must_use]
    pub fn seed(&self) -> u64 {
        self.options.sampling.seed
    }

    /// Moves to another seed, so that the next answer is not drawn like the last one.
    pub fn advance_seed(&mut self) {
        self.options.sampling.seed = self.options.sampling.seed.wrapping_add(1);
    }

    /// Whether the seed matters: greedy answers do not depend on it.
    #[must_use]
    pub fn is_random(&self) -> bool {
        !self.options.sampling.is_greedy()
    }

    /// Whether the text has to match a constraint.
    #[must_use]
    pub fn is_constrained(&self) -> bool {
        self.options.constraint.is_some()
    }
}
