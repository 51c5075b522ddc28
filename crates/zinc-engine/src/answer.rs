//! An answer as it comes: its text in pieces, then why it ended and what it took.

use zinc_sched::{CancelHandle, Completion, Event, FinishReason, Generation};

use crate::error::{Error, Result};
use crate::text::AnswerText;

/// Something that happens to an answer. The last event is `Ended`.
#[derive(Debug)]
#[non_exhaustive]
pub enum AnswerEvent {
    /// The next piece of its text, never empty.
    Text(String),
    /// Its end.
    Ended(Answer),
}

/// An answer that has ended.
#[derive(Debug)]
#[non_exhaustive]
pub struct Answer {
    /// All of its text, up to the stop string if there was one.
    pub text: String,
    /// Why it ended.
    pub ending: Ending,
    /// What it took.
    pub completion: Completion,
}

/// Why an answer ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Ending {
    /// The model ended it with an end-of-generation token.
    EndToken,
    /// It came to a stop string.
    StopString,
    /// Its constraint is met, and nothing may follow.
    ConstraintMet,
    /// It has as many tokens as were asked for.
    Length,
    /// The context is full.
    ContextFull,
    /// It was cancelled.
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

/// The text of a running request: an iterator over its events, which blocks until there is one. A stop string cancels the request, which
/// then ends within a step. Dropping the stream cancels it too.
#[derive(Debug)]
pub struct AnswerStream {
    generation: Generation,
    cancel: CancelHandle,
    /// `None` after the end.
    tokens: Option<AnswerText>,
    text: String,
    /// Whether a stop string has ended the answer.
    stopped: bool,
    /// The end, where text that was held back came with it.
    ended: Option<Answer>,
}

impl AnswerStream {
    /// The answer of a request, whose tokens become text by `text`.
    #[must_use]
    pub fn new(generation: Generation, text: AnswerText) -> Self {
        let cancel = generation.cancel_handle();
        Self { generation, cancel, tokens: Some(text), text: String::new(), stopped: false, ended: None }
    }

    /// Cancels this answer from any thread; it then ends with [`Ending::Cancelled`].
    #[must_use]
    pub fn cancel_handle(&self) -> CancelHandle {
        self.cancel.clone()
    }

    /// Waits for the end.
    ///
    /// # Errors
    /// What ended the request by a failure.
    pub fn complete(self) -> Result<Answer> {
        for event in self {
            if let AnswerEvent::Ended(answer) = event? {
                return Ok(answer);
            }
        }
        Err(zinc_sched::Error::Stopped.into())
    }

    /// What the request's next event makes of the answer; `None` where a token brings no text.
    fn take(&mut self, event: Event) -> Option<Result<AnswerEvent>> {
        match event {
            Event::Token(token) => {
                let released = self.tokens.as_mut()?.push(token.id);
                if released.stop.is_some() {
                    // A cancel that came before stays one.
                    self.stopped = !self.cancel.is_cancelled();
                    self.cancel.cancel();
                }
                self.piece(released.text).map(Ok)
            }
            Event::Finished(completion) => {
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
        self.text.push_str(&text);
        (!text.is_empty()).then_some(AnswerEvent::Text(text))
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
