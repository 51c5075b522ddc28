//! The text of a call that may still turn out to be content, and what every form of a call does with it.

use super::Tool;
use super::sink::Sink;
use super::text::{Lane, Start, Text};

/// The most bytes of the name of a tool or of a parameter. Longer ones are no names.
pub(super) const MAX_NAME_BYTES: usize = 256;

/// Whether a character is white space to the forms of calls, which is what JSON takes for it.
pub(super) fn is_space(c: char) -> bool {
    matches!(c, ' ' | '\n' | '\r' | '\t')
}

/// What a form makes of a character.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// It belongs to the call, which goes on.
    More,
    /// The text is no call, or no longer one. The characters in `again`, with which the text so far ends, are to be read again as text.
    Broken {
        /// The end of the text so far.
        again: String,
    },
    /// The call is complete.
    Complete {
        /// What may close behind it.
        open: Open,
    },
}

impl Step {
    /// The character does not fit. It is to be read again as text.
    pub(super) fn broken_at(c: char) -> Self {
        Self::Broken { again: c.to_string() }
    }
}

/// What has been opened around a call and may still be closed behind it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Open {
    /// The tag around the call, or around all calls.
    pub(super) tag: bool,
    /// A code fence around its arguments.
    pub(super) fence: bool,
}

/// A call in the making: the text before it, and its own until the first piece of it is certain.
#[derive(Clone, Debug)]
pub(super) struct Held {
    /// Where the answer was before the call. White space before the call is still held there; it is left out if there is a call.
    before: Text,
    /// The text from the first character of the call; unused once the call has begun.
    raw: String,
    begun: bool,
}

impl Held {
    pub(super) fn new(before: Text, raw: String) -> Self {
        Self { before, raw, begun: false }
    }

    /// Notes a character before a form takes it.
    pub(super) fn push(&mut self, c: char) {
        if !self.begun {
            self.raw.push(c);
        }
    }

    pub(super) fn begun(&self) -> bool {
        self.begun
    }

    /// Delivers the beginning of the call, after which it cannot become content any more.
    pub(super) fn begin(&mut self, sink: &mut Sink, name: &str) {
        sink.begin(name.to_owned());
        self.begun = true;
        self.raw = String::new();
    }

    /// Where the answer is if the call is broken before the last `again` bytes of its text. `open` is what is open around a call that has
    /// begun. The text of one that has not is content.
    pub(super) fn into_text(mut self, again: usize, open: Open, sink: &mut Sink) -> Text {
        if self.begun {
            return Text { open, ..Text::new(Lane::Content, Start::Call) };
        }
        self.raw.truncate(self.raw.len().saturating_sub(again));
        let end = self.raw.trim_end_matches(is_space).len();
        self.before.release_text(&self.raw[..end], sink);
        self.before.space.push_str(&self.raw[end..]);
        self.before
    }
}

/// Which names a call may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Names {
    /// Those of the tools of the request.
    Known,
    /// Any that could be the name of a tool.
    Any,
}

impl Names {
    pub(super) fn allow(self, name: &str, tools: &[Tool]) -> bool {
        tools.iter().any(|tool| tool.name == name) || self == Self::Any && could_be_name(name)
    }
}

/// Whether the name of a tool may have a character.
pub(super) fn is_in_name(c: char) -> bool {
    c.is_alphanumeric() || "_-.:/".contains(c)
}

/// Whether a tool may have a name.
pub(super) fn could_be_name(name: &str) -> bool {
    !name.is_empty() && name.len() <= MAX_NAME_BYTES && name.chars().all(is_in_name)
}
