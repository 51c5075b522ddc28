//! The value of a parameter in the XML form, which is plain text up to its closing tag.

use super::Tool;
use super::held::{MAX_NAME_BYTES, is_space};
use super::json::escape;
use super::sink::Sink;
use super::typing::{Typing, names_parameter};

const CLOSE: &str = "</parameter>";
const CLOSE_CALL: &str = "</function>";
const CLOSE_TAG: &str = "</tool_call>";
const OPEN: &str = "<parameter=";

/// White space between `</function>` and `</tool_call>` where both end a value.
const MAX_SPACE_BYTES: usize = 8;

/// The value of one parameter while it comes.
///
/// The newline behind the opening tag and the one before the closing tag are no part of it. A closing tag that the model forgets is understood
/// where a line begins with what can hardly be part of a value: the end of the call with its tag, or a parameter that the tool has and the
/// call has not given yet.
#[derive(Clone, Debug)]
pub(super) struct Value {
    key: String,
    /// Characters that may be the beginning of what ends the value.
    held: String,
    /// Whether no character of the value has come.
    is_empty: bool,
    /// Whether all characters so far are white space.
    is_blank: bool,
    kind: Kind,
}

#[derive(Clone, Debug)]
enum Kind {
    /// The text so far could be a string or something else.
    Open(String),
    /// A string, delivered as it comes.
    String,
}

/// What a character does to a value.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum End {
    /// The value goes on.
    None,
    /// The value has ended.
    Value,
    /// The value has ended, and the next parameter has this name.
    Next(String),
    /// The value has ended, and so have the call and the tag around it.
    Call,
}

/// What held characters are.
enum Held {
    Nothing,
    Perhaps,
    End(End),
}

impl Value {
    pub(super) fn new(key: String) -> Self {
        Self { key, held: String::new(), is_empty: true, is_blank: true, kind: Kind::Open(String::new()) }
    }

    /// Takes a character. `tool` is the tool that is called, and `is_given` says whether a parameter has been given before.
    pub(super) fn push(
        &mut self,
        c: char,
        tool: Option<&Tool>,
        is_given: impl Fn(&str) -> bool,
        sink: &mut Sink,
    ) -> End {
        self.held.push(c);
        loop {
            match self.look(tool, &is_given) {
                Held::Perhaps => return End::None,
                Held::End(end) => {
                    self.held.clear();
                    self.end(tool, sink);
                    return end;
                }
                Held::Nothing => {
                    let first = self.held.remove(0);
                    self.take(first, tool, sink);
                    // Only these begin what may end a value; all others are not held.
                    let rest = self.held.find(['\n', '<']).unwrap_or(self.held.len());
                    for c in self.held.drain(..rest).collect::<Vec<_>>() {
                        self.take(c, tool, sink);
                    }
                    if self.held.is_empty() {
                        return End::None;
                    }
                }
            }
        }
    }

    fn look(&self, tool: Option<&Tool>, is_given: &impl Fn(&str) -> bool) -> Held {
        let (tag, on_new_line) = match self.held.strip_prefix('\n') {
            Some(tag) => (tag, true),
            None => (&*self.held, false),
        };
        if tag == CLOSE {
            return Held::End(End::Value);
        }
        if CLOSE.starts_with(tag) {
            return Held::Perhaps;
        }
        if !on_new_line {
            return Held::Nothing;
        }
        if CLOSE_CALL.starts_with(tag) || OPEN.starts_with(tag) {
            return Held::Perhaps;
        }
        if let Some(rest) = tag.strip_prefix(CLOSE_CALL) {
            let tag = rest.trim_start_matches(is_space);
            return match tag {
                CLOSE_TAG => Held::End(End::Call),
                _ if rest.len() - tag.len() > MAX_SPACE_BYTES => Held::Nothing,
                _ if CLOSE_TAG.starts_with(tag) => Held::Perhaps,
                _ => Held::Nothing,
            };
        }
        match tag.strip_prefix(OPEN) {
            Some(rest) => match rest.strip_suffix('>') {
                Some(key) if names_parameter(tool, key) && key != self.key && !is_given(key) => {
                    Held::End(End::Next(key.to_owned()))
                }
                None if rest.len() <= MAX_NAME_BYTES && !rest.contains(['\n', '<']) => Held::Perhaps,
                _ => Held::Nothing,
            },
            None => Held::Nothing,
        }
    }

    /// A character of the value.
    fn take(&mut self, c: char, tool: Option<&Tool>, sink: &mut Sink) {
        if std::mem::replace(&mut self.is_empty, false) && c == '\n' {
            return;
        }
        match &mut self.kind {
            Kind::String => sink.arguments(|json| escape(json, c)),
            Kind::Open(text) => {
                text.push(c);
                let was_blank = self.is_blank;
                self.is_blank &= is_space(c);
                if was_blank && !self.is_blank && Typing::new(tool, &self.key).is_string_after(c) {
                    sink.arguments(|json| {
                        json.push('"');
                        text.chars().for_each(|c| escape(json, c));
                    });
                    self.kind = Kind::String;
                }
            }
        }
    }

    fn end(&self, tool: Option<&Tool>, sink: &mut Sink) {
        match &self.kind {
            Kind::String => sink.arguments(|json| json.push('"')),
            Kind::Open(text) => sink.arguments(|json| json.push_str(&Typing::new(tool, &self.key).value(text))),
        }
    }

    /// The answer ends within the value: delivers what there is of it, without an end.
    pub(super) fn cut(&mut self, tool: Option<&Tool>, sink: &mut Sink) {
        for c in std::mem::take(&mut self.held).chars() {
            self.take(c, tool, sink);
        }
        if let Kind::Open(text) = &self.kind
            && !self.is_empty
        {
            let typing = Typing::new(tool, &self.key);
            sink.arguments(|json| match typing.other_than_string(text.trim_matches(is_space)) {
                Some(value) => json.push_str(&value),
                None => {
                    json.push('"');
                    text.chars().for_each(|c| escape(json, c));
                }
            });
        }
    }
}
