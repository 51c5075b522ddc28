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
    /// Ids of control tokens that are part of the text, in order.
    shown: Arc<[u32]>,
    /// Bytes of text that the tokens so far stand for, whether it has come out or is held back as a possible stop string.
    decoded: usize,
}

impl AnswerText {
    /// The text of an answer at its start.
    #[must_use]
    pub fn new(tokenizer: Arc<Tokenizer>, stops: StopMatcher) -> Self {
        Self { pieces: DecodeStream::new(tokenizer.clone()), tokenizer, stops, shown: Arc::new([]), decoded: 0 }
    }

    /// The text of an answer that continues a text: a space that it begins with is part of it, which [`Self::new`] leaves out with vocabularies
    /// of SentencePiece.
    #[must_use]
    pub fn inside(tokenizer: Arc<Tokenizer>, stops: StopMatcher) -> Self {
        Self { pieces: DecodeStream::inside(tokenizer.clone()), ..Self::new(tokenizer, stops) }
    }

    /// Returns this text with some control tokens as part of it: those whose ids are in `shown`, which are in rising order.
    #[must_use]
    pub fn with_shown(mut self, shown: Arc<[u32]>) -> Self {
        self.shown = shown;
        self
    }

    /// Whether a token is no part of the text: a control token that is not shown.
    #[must_use]
    pub fn is_hidden(&self, id: u32) -> bool {
        self.tokenizer.is_control(id) && self.shown.binary_search(&id).is_err()
    }

    /// Takes a token and returns the text that is certain by now. A control token in the middle of an answer is none of its text, unless it
    /// is shown. After a stop string has been found no text comes.
    pub fn push(&mut self, id: u32) -> Released {
        if self.is_hidden(id) {
            return Released::default();
        }
        let piece = self.pieces.push(id);
        self.decoded += piece.len();
        self.stops.push(&piece)
    }

    /// Bytes of text that the tokens so far stand for, whether it has come out or is held back as a possible stop string. An incomplete
    /// character does not count yet.
    #[must_use]
    pub fn decoded_len(&self) -> usize {
        self.decoded
    }

    /// Ends the answer and returns what was held back. A character that was left incomplete is U+FFFD.
    #[must_use]
    pub fn finish(mut self) -> Released {
        let incomplete = self.stops.push(&self.pieces.finish());
        let held_back = self.stops.finish();
        Released { text: incomplete.text + &held_back.text, stop: incomplete.stop.or(held_back.stop) }
    }
}

#[cfg(test)]
mod tests {
    use zinc_model::gguf::Writer;

    use super::*;

    #[test]
    fn an_answer_within_a_text_keeps_the_space_that_it_begins_with() {
        let mut writer = Writer::new();
        writer
            .set("tokenizer.ggml.model", "llama")
            .set("tokenizer.ggml.tokens", ["<unk>", "<s>", "</s>", "▁", "a", "▁a"].map(str::to_owned).to_vec())
            .set("tokenizer.ggml.scores", vec![0.0f32, 0.0, 0.0, -3.0, -2.0, -1.0])
            .set("tokenizer.ggml.token_type", vec![2i32, 3, 3, 1, 1, 1]);
        let tokenizer = Arc::new(Tokenizer::from_metadata(writer.metadata()).unwrap());
        let text = |mut text: AnswerText| [5, 5].map(|id| text.push(id).text).concat() + &text.finish().text;
        let stops = || StopMatcher::new([""; 0]);
        assert_eq!(text(AnswerText::new(tokenizer.clone(), stops())), "a a");
        assert_eq!(text(AnswerText::inside(tokenizer, stops())), " a a");
    }
}
