//! An answer while it is generated: its text in pieces, then the reason for its end and the measurements of the
//! request.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use zinc_sched::{CancelHandle, Completion, Event, FinishReason, Generation, PromptProgress, Token};

use crate::error::{Error, Result};
use crate::text::AnswerText;

/// An event of an answer that is being generated. The last event is `Ended`.
#[derive(Debug)]
#[non_exhaustive]
pub enum AnswerEvent {
    /// How far the prompt has come, after each step that has taken some of its tokens.
    Prompt(PromptProgress),
    /// The next of the tokens that the request goes through before the answer ([`AnswerOptions::scored`](crate::AnswerOptions::scored)).
    Scored(Token),
    /// The next piece of the answer's text, never empty.
    Text(TextPiece),
    /// The end of the answer, with all of its text. No event follows.
    Ended(Answer),
}

/// A piece of an answer's text, and the tokens that it was made of.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct TextPiece {
    /// The text, never empty.
    pub text: String,
    /// The tokens whose text begins in this piece. A token whose text is held back, because it may begin a stop string or ends inside a character,
    /// comes with a later piece; one that lies wholly behind the end of the answer's text does not come. Hidden control tokens do not come either.
    pub tokens: Vec<Token>,
}

/// An answer that has ended.
#[derive(Debug)]
#[non_exhaustive]
pub struct Answer {
    /// All of its text, up to the stop string if there was one.
    pub text: String,
    /// Why the answer ended.
    pub ending: Ending,
    /// The scheduler's report on the request: numbers of tokens, durations and, if asked for, a trace.
    pub completion: Completion,
}

/// Why an answer ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Ending {
    /// The model ended it with an end-of-generation token.
    EndToken,
    /// The text contained a stop string.
    StopString,
    /// The text matches its constraint, which allows nothing more behind it.
    ConstraintMet,
    /// The answer has as many tokens as the request allows.
    Length,
    /// The context has no room for another token.
    ContextFull,
    /// The request was cancelled.
    Cancelled,
}

impl Ending {
    /// Whether the answer is whole: neither its length, nor the context, nor a cancel has cut it.
    #[must_use]
    pub fn is_whole(self) -> bool {
        matches!(self, Self::EndToken | Self::StopString | Self::ConstraintMet)
    }
}

impl From<FinishReason> for Ending {
    fn from(reason: FinishReason) -> Self {
        match reason {
            FinishReason::Stop { .. } => Self::EndToken,
            FinishReason::Complete => Self::ConstraintMet,
            FinishReason::Length => Self::Length,
            FinishReason::ContextFull => Self::ContextFull,
            FinishReason::Cancelled => Self::Cancelled,
        }
    }
}

/// The answer of a running request, as an iterator over its events. [`next`](Iterator::next) blocks until there is an
/// event. A stop string in the text cancels the request, which then ends within a step. Dropping the stream cancels the
/// request too.
#[derive(Debug)]
pub struct AnswerStream {
    generation: Generation,
    cancel: CancelHandle,
    /// Tokens that come before the answer.
    scored_tokens: usize,
    /// How many of them have come.
    scored: usize,
    /// When the first of them came, and how long they took from there.
    scoring: Option<(Instant, Duration)>,
    /// Turns the tokens of the answer into text; `None` after the request has ended.
    tokens: Option<AnswerText>,
    text: String,
    /// Tokens that have not come with a piece yet, each with the place in the text where it begins, in bytes.
    pending: VecDeque<(usize, Token)>,
    /// Whether a stop string has ended the answer.
    stopped: bool,
    /// The answer, if the end has released text that was held back. The text is returned first, and the answer by the
    /// next call.
    ended: Option<Answer>,
}

impl AnswerStream {
    /// The answer of a request. `text` turns its tokens into text.
    #[must_use]
    pub fn new(generation: Generation, text: AnswerText) -> Self {
        let cancel = generation.cancel_handle();
        let (tokens, pending) = (Some(text), VecDeque::new());
        let (text, scored_tokens, scored, scoring) = (String::new(), 0, 0, None);
        Self { generation, cancel, scored_tokens, scored, scoring, tokens, text, pending, stopped: false, ended: None }
    }

    /// Returns this stream with so many tokens before the answer.
    #[must_use]
    pub fn with_scored(mut self, tokens: usize) -> Self {
        self.scored_tokens = tokens;
        self
    }

    /// Cancels this answer from any thread; it then ends with [`Ending::Cancelled`].
    #[must_use]
    pub fn cancel_handle(&self) -> CancelHandle {
        self.cancel.clone()
    }

    /// Reads all events, blocking until the answer has ended.
    ///
    /// # Errors
    /// The failure that ended the request; [`zinc_sched::Error::Stopped`] if the stream has already returned its last
    /// event.
    pub fn complete(self) -> Result<Answer> {
        for event in self {
            if let AnswerEvent::Ended(answer) = event? {
                return Ok(answer);
            }
        }
        Err(zinc_sched::Error::Stopped.into())
    }

    /// Turns an event of the scheduler into an event of the answer; `None` if a token has completed no text.
    fn take(&mut self, event: Event) -> Option<Result<AnswerEvent>> {
        match event {
            Event::Prompt(progress) => Some(Ok(AnswerEvent::Prompt(progress))),
            Event::Token(token) if self.scored < self.scored_tokens => {
                self.scored += 1;
                let now = Instant::now();
                let (first, took) = self.scoring.get_or_insert((now, Duration::ZERO));
                *took = now - *first;
                Some(Ok(AnswerEvent::Scored(token)))
            }
            Event::Token(token) => {
                let tokens = self.tokens.as_mut()?;
                let start = tokens.decoded_len();
                let released = tokens.push(token.id);
                if !tokens.is_hidden(token.id) {
                    self.pending.push_back((start, token));
                }
                if released.stop.is_some() {
                    // If the request had been cancelled before the stop string came, the answer still counts as
                    // cancelled.
                    self.stopped = !self.cancel.is_cancelled();
                    self.cancel.cancel();
                }
                self.piece(released.text).map(Ok)
            }
            Event::Finished(mut completion) => {
                // To the scheduler they are tokens that were generated.
                let scored = u32::try_from(self.scored).unwrap_or(u32::MAX);
                let took = self.scoring.map_or(Duration::ZERO, |(_, took)| took);
                let Completion { usage, durations, .. } = &mut completion;
                usage.prompt_tokens = usage.prompt_tokens.saturating_add(scored);
                usage.completion_tokens = usage.completion_tokens.saturating_sub(scored);
                durations.prompt = durations.prompt.saturating_add(took);
                durations.decode = durations.decode.saturating_sub(took);
                let released = self.tokens.take()?.finish();
                self.stopped |= released.stop.is_some() && completion.reason != FinishReason::Cancelled;
                let ending = if self.stopped { Ending::StopString } else { completion.reason.into() };
                let piece = self.piece(released.text);
                let answer = Answer { text: std::mem::take(&mut self.text), ending, completion };
                match piece {
                    Some(piece) => {
                        self.ended = Some(answer);
                        Some(Ok(piece))
                    }
                    None => Some(Ok(AnswerEvent::Ended(answer))),
                }
            }
            Event::Failed(error) => {
                self.tokens = None;
                Some(Err(Error::from(error)))
            }
        }
    }

    fn piece(&mut self, text: String) -> Option<AnswerEvent> {
        if text.is_empty() {
            return None;
        }
        self.text.push_str(&text);
        let begun = self.pending.partition_point(|(start, _)| *start < self.text.len());
        let tokens = self.pending.drain(..begun).map(|(_, token)| token).collect();
        Some(AnswerEvent::Text(TextPiece { text, tokens }))
    }
}

impl Iterator for AnswerStream {
    type Item = Result<AnswerEvent>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(answer) = self.ended.take() {
            return Some(Ok(AnswerEvent::Ended(answer)));
        }
        loop {
            self.tokens.as_ref()?;
            let event = self.generation.next()?;
            if let Some(event) = self.take(event) {
                return Some(event);
            }
        }
    }
}
