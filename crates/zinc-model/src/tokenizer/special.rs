//! Finding the tokens that are matched in raw text, before any splitting: control tokens and user-defined ones.

use std::ops::Range;

use aho_corasick::{AhoCorasick, Input, MatchKind};

use crate::error::{Error, Result};

/// A set of token texts, searched for all at once. Of matches that start at one place the longest counts.
pub(super) struct Matcher {
    automaton: Option<AhoCorasick>,
    /// By pattern.
    ids: Vec<u32>,
}

/// A part of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Segment<'t> {
    Text(&'t str),
    Token(u32),
}

impl Matcher {
    pub(super) fn new<'p>(tokens: impl Iterator<Item = (&'p str, u32)>) -> Result<Self> {
        // An empty text would match everywhere.
        let (texts, ids): (Vec<&str>, Vec<u32>) = tokens.filter(|(text, _)| !text.is_empty()).unzip();
        if texts.is_empty() {
            return Ok(Self { automaton: None, ids });
        }
        let automaton = AhoCorasick::builder().match_kind(MatchKind::LeftmostLongest).build(texts);
        let automaton = automaton.map_err(|error| Error::Tokenizer(error.into()))?;
        Ok(Self { automaton: Some(automaton), ids })
    }

    /// Cuts `text` at the tokens in it. `counts` can refuse a match at `start..end`: what it refuses stays text.
    pub(super) fn segments<'t>(&self, text: &'t str, mut counts: impl FnMut(usize, usize) -> bool) -> Vec<Segment<'t>> {
        let mut segments = Vec::new();
        let (mut done, mut from) = (0, 0);
        if let Some(automaton) = &self.automaton {
            while let Some(found) = automaton.find(Input::new(text).range(from..)) {
                if !counts(found.start(), found.end()) {
                    // The next byte may be inside of a character; no token's text matches there.
                    from = found.start() + 1;
                    continue;
                }
                if done < found.start() {
                    segments.push(Segment::Text(&text[done..found.start()]));
                }
                segments.push(Segment::Token(self.ids[found.pattern().as_usize()]));
                (done, from) = (found.end(), found.end());
            }
        }
        if done < text.len() {
            segments.push(Segment::Text(&text[done..]));
        }
        segments
    }

    /// Where the tokens are in `text`, overlapping ones included.
    pub(super) fn spans(&self, text: &str) -> Vec<Range<usize>> {
        let mut spans = Vec::new();
        let mut from = 0;
        while let Some(found) = self.automaton.as_ref().and_then(|it| it.find(Input::new(text).range(from..))) {
            spans.push(found.range());
            from = found.start() + 1;
        }
        spans
    }
}

#[cfg(test)]
mod tests {
    use super::Segment::{Text, Token};
    use super::*;

    fn matcher() -> Matcher {
        Matcher::new([("<a>", 1), ("<a><b>", 2), ("", 3), ("é", 4)].into_iter()).unwrap()
    }

    #[test]
    fn the_longest_of_the_leftmost_matches_counts() {
        let segments = matcher().segments("x<a><b><a>é<a", |_, _| true);
        assert_eq!(segments, [Text("x"), Token(2), Token(1), Token(4), Text("<a")]);
        assert_eq!(matcher().segments("", |_, _| true), []);
    }

    #[test]
    fn refused_matches_stay_text() {
        let segments = matcher().segments("éé<a>x<a>", |start, _| start > 4);
        assert_eq!(segments, [Text("éé<a>x"), Token(1)]);
    }

    #[test]
    fn spans_may_overlap() {
        let matcher = Matcher::new([("aba", 1)].into_iter()).unwrap();
        assert_eq!(matcher.spans("xababa"), [1..4, 3..6]);
    }

    #[test]
    fn no_tokens_match_nothing() {
        let none = Matcher::new(std::iter::empty()).unwrap();
        assert_eq!(none.segments("<a>", |_, _| true), [Text("<a>")]);
    }
}
