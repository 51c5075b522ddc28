//! Collects the pieces of an answer, with neighbours of one kind joined.

use super::Piece;

/// The pieces that are ready to be taken.
#[derive(Clone, Debug, Default)]
pub(super) struct Sink {
    pieces: Vec<Piece>,
    /// Calls that have begun so far. The current one has the number before it.
    calls: usize,
}

impl Sink {
    pub(super) fn take(&mut self) -> Vec<Piece> {
        std::mem::take(&mut self.pieces)
    }

    pub(super) fn content(&mut self, text: &str) {
        match self.pieces.last_mut() {
            _ if text.is_empty() => {}
            Some(Piece::Content(last)) => last.push_str(text),
            _ => self.pieces.push(Piece::Content(text.to_owned())),
        }
    }

    pub(super) fn reasoning(&mut self, text: &str) {
        match self.pieces.last_mut() {
            _ if text.is_empty() => {}
            Some(Piece::Reasoning(last)) => last.push_str(text),
            _ => self.pieces.push(Piece::Reasoning(text.to_owned())),
        }
    }

    /// Ends the content so far as a message of its own.
    pub(super) fn content_break(&mut self) {
        self.pieces.push(Piece::ContentBreak);
    }

    pub(super) fn begin(&mut self, name: String) {
        self.pieces.push(Piece::ToolCallBegin { index: self.calls, name });
        self.calls += 1;
    }

    /// Adds to the arguments of the call that has begun last; `write` appends at least one character.
    pub(super) fn arguments(&mut self, write: impl FnOnce(&mut String)) {
        if let Some(Piece::ToolCallArguments { json, .. }) = self.pieces.last_mut() {
            write(json);
        } else {
            let mut json = String::new();
            write(&mut json);
            self.pieces.push(Piece::ToolCallArguments { index: self.calls.saturating_sub(1), json });
        }
    }

    /// Ends the call that has begun last.
    pub(super) fn end(&mut self) {
        self.pieces.push(Piece::ToolCallEnd { index: self.calls.saturating_sub(1) });
    }
}
