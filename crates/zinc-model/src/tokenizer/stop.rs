//! Stop strings: where the text of an answer ends although the model would go on.
//!
//! Text comes in pieces whose ends mean nothing, so a stop string may lie across several of them.

use crate::tokenizer::pattern::Pattern;

/// Finds the first stop string in text that comes in pieces, and lets the text before it through.
///
/// The one that begins first counts, and of several that begin there the shortest. However the text is cut, the same comes out: what
/// may be the beginning of a stop string is held back until that is certain, and nothing else is.
#[derive(Clone, Debug)]
pub struct StopMatcher {
    stops: Vec<Search>,
    /// Text that has not come out.
    held: String,
    /// The first occurrence so far, while one that begins before it may still become complete.
    found: Option<Occurrence>,
    is_over: bool,
}

/// What comes out for a piece of text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Released {
    /// Text that is part of no stop string.
    pub text: String,
    /// The stop string that was found, as an index into the list of them. Of equal ones it is the first.
    pub stop: Option<usize>,
}

/// The search for one stop string.
#[derive(Clone, Debug)]
struct Search {
    pattern: Pattern,
    index: usize,
    /// How much of the pattern the text ends with.
    begun: usize,
}

#[derive(Clone, Copy, Debug)]
struct Occurrence {
    /// Where it begins in the text held back.
    start: usize,
    index: usize,
}

impl StopMatcher {
    /// A search at its start. Empty strings are never found.
    pub fn new<S: AsRef<str>>(stops: impl IntoIterator<Item = S>) -> Self {
        let search = |(index, stop): (usize, S)| {
            let bytes = stop.as_ref().as_bytes();
            (!bytes.is_empty()).then(|| Search { pattern: Pattern::new(bytes), index, begun: 0 })
        };
        let stops = stops.into_iter().enumerate().filter_map(search).collect();
        Self { stops, held: String::new(), found: None, is_over: false }
    }

    /// Takes a piece of text and returns what is certain by now. After a stop string has been found nothing comes out.
    pub fn push(&mut self, piece: &str) -> Released {
        if self.is_over {
            return Released::default();
        }
        let before = self.held.len();
        self.held.push_str(piece);
        for end in before + 1..=self.held.len() {
            self.advance(end);
            if let Some(found) = self.found
                && found.start <= self.earliest_beginning(end)
            {
                return self.stop_at(found);
            }
        }
        let beginning = self.earliest_beginning(self.held.len());
        let certain = self.found.map_or(beginning, |found| found.start.min(beginning));
        if let Some(found) = &mut self.found {
            found.start -= certain;
        }
        Released { text: self.held.drain(..certain).collect(), stop: None }
    }

    /// Ends the text: what is held back is complete now.
    pub fn finish(mut self) -> Released {
        match self.found {
            Some(found) => self.stop_at(found),
            None => Released { text: self.held, stop: None },
        }
    }

    /// Looks at the last byte of the first `end` bytes held back.
    fn advance(&mut self, end: usize) {
        let byte = self.held.as_bytes()[end - 1];
        for search in &mut self.stops {
            search.begun = search.pattern.advance(search.begun, byte);
            if search.begun < search.pattern.len() {
                continue;
            }
            let start = end - search.begun;
            if self.found.is_none_or(|found| start < found.start) {
                self.found = Some(Occurrence { start, index: search.index });
            }
            search.begun = search.pattern.shorter(search.begun);
        }
    }

    /// Where the longest beginning of a stop string lies that the first `end` bytes held back end with.
    fn earliest_beginning(&self, end: usize) -> usize {
        end - self.stops.iter().map(|search| search.begun).max().unwrap_or(0)
    }

    fn stop_at(&mut self, found: Occurrence) -> Released {
        self.is_over = true;
        self.held.truncate(found.start);
        Released { text: std::mem::take(&mut self.held), stop: Some(found.index) }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// All that comes out for text in these pieces.
    fn run<S: AsRef<str>>(stops: &[S], pieces: &[&str]) -> Released {
        let mut matcher = StopMatcher::new(stops);
        let mut all = Released::default();
        for piece in pieces {
            let Released { text, stop } = matcher.push(piece);
            assert!(
                all.stop.is_none() || (text.is_empty() && stop.is_none()),
                "something comes out behind the stop string"
            );
            all.text.push_str(&text);
            all.stop = all.stop.or(stop);
        }
        let Released { text, stop } = matcher.finish();
        all.text.push_str(&text);
        Released { text: all.text, stop: all.stop.or(stop) }
    }

    /// The definition: the first of the earliest and shortest occurrences in the whole text.
    fn naive<S: AsRef<str>>(stops: &[S], text: &str) -> Released {
        let found = stops.iter().enumerate().filter_map(|(index, stop)| {
            let stop = stop.as_ref();
            let start = text.find(stop).filter(|_| !stop.is_empty())?;
            Some((start, stop.len(), index))
        });
        match found.min() {
            Some((start, _, index)) => Released { text: text[..start].to_owned(), stop: Some(index) },
            None => Released { text: text.to_owned(), stop: None },
        }
    }

    fn stopped(text: &str, index: usize) -> Released {
        Released { text: text.to_owned(), stop: Some(index) }
    }

    #[test]
    fn a_stop_string_over_the_ends_of_pieces_and_inside_of_one() {
        assert_eq!(run(&["</s>"], &["Hi", " <", "/s", "> there"]), stopped("Hi ", 0));
        assert_eq!(run(&["</s>"], &["Hi </s> there </s>"]), stopped("Hi ", 0));
        assert_eq!(run(&["\n\n"], &["a\n", "b\n", "\nc"]), stopped("a\nb", 0));
        assert_eq!(run(&["é!"], &["café", "!"]), stopped("caf", 0));
    }

    #[test]
    fn what_only_looked_like_one_comes_out() {
        let whole = |text: &str| Released { text: text.to_owned(), stop: None };
        assert_eq!(run(&["</s>"], &["1 <", "/", "2 </s"]), whole("1 </2 </s"));
        assert_eq!(run(&["ê"], &["é"]), whole("é"));
        assert_eq!(run::<&str>(&[], &["a", "b"]), whole("ab"));
        assert_eq!(run(&["", "b"], &["a", "b"]), stopped("a", 1));
    }

    #[test]
    fn the_earliest_beginning_counts_and_then_the_shortest() {
        assert_eq!(run(&["bc", "abcd"], &["xabc", "d"]), stopped("x", 1));
        assert_eq!(run(&["bc", "abcd"], &["xabc", "e"]), stopped("xa", 0));
        assert_eq!(run(&["bc", "abcd"], &["xabc"]), stopped("xa", 0));
        assert_eq!(run(&["bcd", "abcd"], &["abcd"]), stopped("", 1));
        assert_eq!(run(&["abc", "ab", "ab"], &["abc"]), stopped("", 1));
    }

    #[test]
    fn it_is_found_with_its_last_character() {
        let mut matcher = StopMatcher::new(["\n\n\n", "\n\n"]);
        assert_eq!(matcher.push("a\n"), Released { text: "a".to_owned(), stop: None });
        assert_eq!(matcher.push("\n"), stopped("", 1));
        assert_eq!(matcher.push("b"), Released::default());
    }

    /// The longest end of `text` that a stop string begins with and is longer than.
    fn undecided<'t>(stops: &[String], text: &'t str) -> &'t str {
        let begins = |end: &&str| stops.iter().any(|stop| stop.starts_with(end) && stop.len() > end.len());
        let mut ends = text.char_indices().map(|(start, _)| &text[start..]);
        ends.find(begins).unwrap_or("")
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(20_000) })]

        #[test]
        fn any_cut_gives_what_a_search_in_the_whole_text_gives(
            stops in proptest::collection::vec("[abé]{0,4}", 0..5),
            pieces in proptest::collection::vec("[abé]{0,5}", 0..10),
        ) {
            let slices: Vec<&str> = pieces.iter().map(String::as_str).collect();
            prop_assert_eq!(run(&stops, &slices), naive(&stops, &pieces.concat()));
        }

        #[test]
        fn nothing_is_held_back_without_need(
            stops in proptest::collection::vec("[abé]{2,5}", 1..4),
            pieces in proptest::collection::vec("[abé]{0,3}", 0..6),
        ) {
            let (mut matcher, mut text, mut out) = (StopMatcher::new(&stops), String::new(), String::new());
            for piece in pieces {
                let released = matcher.push(&piece);
                text.push_str(&piece);
                out.push_str(&released.text);
                if naive(&stops, &text).stop.is_some() {
                    break;
                }
                prop_assert_eq!(&text[out.len()..], undecided(&stops, &text));
            }
        }
    }
}
