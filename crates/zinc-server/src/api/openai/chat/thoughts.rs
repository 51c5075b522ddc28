//! Thoughts that stand in the content of an answer, between the model's tags.

use crate::core::{End, Reason};
use crate::state::Served;

/// Writes the content of an answer with its thoughts in it, piece by piece.
#[derive(Clone, Copy, Debug)]
pub(super) struct TaggedThoughts {
    tags: (&'static str, &'static str),
    /// Whether a thought was written whose end was not.
    is_open: bool,
}

impl TaggedThoughts {
    pub(super) fn new(served: &Served) -> Self {
        // Only a model with tags has thoughts.
        Self { tags: served.format.static_tags().unwrap_or(("<think>", "</think>")), is_open: false }
    }

    /// The content that a piece of a thought is.
    pub(super) fn thought(&mut self, text: &str) -> String {
        let open = if self.is_open { String::new() } else { format!("{}\n", self.tags.0) };
        self.is_open = true;
        open + text
    }

    /// The content that ends the thought before anything else; empty if there is none.
    pub(super) fn end(&mut self) -> String {
        if !std::mem::take(&mut self.is_open) {
            return String::new();
        }
        format!("\n{}\n\n", self.tags.1)
    }

    /// What ends the thought at the end of the answer: nothing if the answer was cut off within it.
    pub(super) fn end_of_answer(&mut self, end: &End) -> String {
        match end.reason {
            Reason::Length | Reason::ContextFull | Reason::TimeOver => String::new(),
            Reason::Stop | Reason::StopString(_) | Reason::ToolCalls => self.end(),
        }
    }
}
