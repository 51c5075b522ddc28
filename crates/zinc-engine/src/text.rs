//! From the tokens of an answer to its text.

use std::sync::Arc;

use zinc_model::Tokenizer;
use zinc_model::tokenizer::{DecodeStream, Released, StopMatcher};

/// Turns the tokens of one answer into text as they come, up to the first stop string.
///
/// Tokens end anywhere, also inside of characters and of stop strings: what is not certain yet is held back. However the text is cut into
/// tokens, all pieces together are the same.
#[derive(Clone, Debug)]
pub struct AnswerText {
    tokenizer: Arc<Tokenizer>,
    pieces: DecodeStream<Arc<Tokenizer>>,
    stops: StopMatcher,
}

impl AnswerText {
    /// The text of an answer at its start.
    #[must_use]
    pub fn new(tokenizer: Arc<Tokenizer>, stops: StopMatcher) -> Self {
        Self { pieces: DecodeStream::new(tokenizer.clone()), tokenizer, stops }
    }

    /// Takes a token and returns the text that is certain by now. A control token in the middle of an answer is none of its text. After a
    /// stop string has been found no text comes.
    pub fn push(&mut self, id: u32) -> Released {
        if self.tokenizer.is_control(id) {
            return Released::default();
        }
        self.stops.push(&self.pieces.push(id))
    }

    /// Ends the answer and returns what was held back. A character that was left incomplete is U+FFFD.
    #[must_use]
    pub fn finish(mut self) -> Released {
        let incomplete = self.stops.push(&self.pieces.finish());
        let held_back = self.stops.finish();
        Released { text: incomplete.text + &held_back.text, stop: incomplete.stop.or(held_back.stop) }
    }
}
