//! One of a few fixed texts, with white space before it.

use super::held::is_space;

/// Waits for one of these texts, none of which is the beginning of another.
#[derive(Clone, Debug)]
pub(super) struct Expect {
    options: &'static [&'static str],
    prefix: String,
}

/// What a character leads to.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// All could still be.
    Nothing,
    /// This text.
    Text(&'static str),
    /// None of them. The characters, of which all but the last fitted, are to be read again.
    Other(String),
}

impl Expect {
    pub(super) fn new(options: &'static [&'static str]) -> Self {
        Self { options, prefix: String::new() }
    }

    pub(super) fn push(&mut self, c: char) -> Found {
        if self.prefix.is_empty() && is_space(c) {
            return Found::Nothing;
        }
        self.prefix.push(c);
        let options = || self.options.iter().filter(|text| text.starts_with(&self.prefix));
        match options().next() {
            Some(text) if text.len() == self.prefix.len() => Found::Text(text),
            Some(_) => Found::Nothing,
            None => Found::Other(std::mem::take(&mut self.prefix)),
        }
    }
}
