//! Sequence breakers of the DRY sampler: from strings to the tokens that make them up.
//!
//! Which tokens a string becomes depends on the text around it: of "yes:\n" the end may be one token or two, and the colon may be part
//! of the word's token. So every token of the vocabulary is looked at, as llama.cpp does it: one whose text contains the string is a
//! breaker by itself; one whose text ends with a beginning of the string is a breaker together with the tokens of the rest.

use crate::error::{Error, Result};
use crate::tokenizer::Tokenizer;
use crate::tokenizer::pattern::Pattern;

/// Bytes of a string that count, as in llama.cpp.
const MAX_BREAKER_BYTES: usize = 40;

/// Tokens that may follow the first of a sequence, as in llama.cpp.
const MAX_TAIL_TOKENS: usize = 20;

/// The tokens of some strings, wherever in a text these are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Breakers {
    /// Tokens whose text contains a string, by growing id.
    pub tokens: Vec<u32>,
    /// Sequences of two tokens or more: one whose text ends with a beginning of a string, and those of the rest of the string. In
    /// lexical order, each once.
    pub sequences: Vec<Vec<u32>>,
}

impl Tokenizer {
    /// The tokens of sequence breakers. Of a string the first 40 bytes count, and of the tokens behind a sequence's first one 20. Empty
    /// strings, and those that the vocabulary cannot say, have none. Takes time linear in the bytes of the vocabulary.
    ///
    /// # Errors
    /// The errors of [`Self::encode`], except for [`Error::NoByteToken`].
    pub fn breakers<S: AsRef<str>>(&self, texts: impl IntoIterator<Item = S>) -> Result<Breakers> {
        let words = (0..self.vocab_size() as u32).map(|id| (id, self.bytes_or_replacement(id)));
        find(&words, texts, |bytes| self.encode_tail(bytes))
    }

    /// The tokens of bytes that may start or end inside of a character; `None` where the vocabulary has none for one of them.
    fn encode_tail(&self, tail: &[u8]) -> Result<Option<Vec<u32>>> {
        let mut ids = Vec::new();
        for chunk in tail.utf8_chunks() {
            match self.encode_inside(chunk.valid()) {
                Ok(encoded) => ids.extend(encoded),
                Err(Error::NoByteToken { .. }) => return Ok(None),
                Err(error) => return Err(error),
            }
            for &byte in chunk.invalid() {
                match self.id_of_byte(byte) {
                    Some(id) => ids.push(id),
                    None => return Ok(None),
                }
            }
        }
        Ok(Some(ids))
    }
}

/// Looks for `texts` in `words`, which are tokens with their bytes by growing id. `encode` says which tokens the rest of a text is.
fn find<'w, S: AsRef<str>>(
    words: &(impl Iterator<Item = (u32, &'w [u8])> + Clone),
    texts: impl IntoIterator<Item = S>,
    mut encode: impl FnMut(&[u8]) -> Result<Option<Vec<u32>>>,
) -> Result<Breakers> {
    let mut breakers = Breakers::default();
    for text in texts {
        let text = text.as_ref().as_bytes();
        let text = &text[..text.len().min(MAX_BREAKER_BYTES)];
        if text.is_empty() {
            continue;
        }
        let pattern = Pattern::new(text);
        // By the number of bytes before the rest, less one.
        let tails = (1..text.len()).map(|begun| encode(&text[begun..])).collect::<Result<Vec<_>>>()?;
        for (id, word) in words.clone() {
            let mut begun = 0;
            if word.iter().any(|&byte| {
                begun = pattern.advance(begun, byte);
                begun == pattern.len()
            }) {
                breakers.tokens.push(id);
                continue;
            }
            while begun > 0 {
                if let Some(tail) = &tails[begun - 1] {
                    let tail = &tail[..tail.len().min(MAX_TAIL_TOKENS)];
                    breakers.sequences.push([&[id], tail].concat());
                }
                begun = pattern.shorter(begun);
            }
        }
    }
    breakers.tokens.sort_unstable();
    breakers.tokens.dedup();
    breakers.sequences.sort_unstable();
    breakers.sequences.dedup();
    Ok(breakers)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Breakers of `texts` in a vocabulary of these words; the rest of a text is a token of its own for each byte, 1000 and the byte.
    fn breakers(words: &[&str], texts: &[&str]) -> Breakers {
        let encode = |tail: &[u8]| Ok(Some(tail.iter().map(|&byte| 1000 + u32::from(byte)).collect()));
        find(&(0..).zip(words.iter().map(|word| word.as_bytes())), texts, encode).unwrap()
    }

    const fn token(byte: u8) -> u32 {
        1000 + byte as u32
    }

    #[test]
    fn a_token_with_the_whole_string_is_a_breaker_by_itself() {
        let found = breakers(&["a", "\n", "b:\n", ":", " \n\n", "x:y"], &["\n", ":"]);
        assert_eq!(found, Breakers { tokens: vec![1, 2, 3, 4, 5], sequences: vec![] });
    }

    #[test]
    fn a_token_that_ends_with_a_beginning_needs_the_rest() {
        let found = breakers(&["<", "x</", "</s>", "s>", "</s", ">"], &["</s>"]);
        assert_eq!(found.tokens, [2]);
        let expected =
            [vec![0, token(b'/'), token(b's'), token(b'>')], vec![1, token(b's'), token(b'>')], vec![4, token(b'>')]];
        assert_eq!(found.sequences, expected);
    }

    #[test]
    fn a_token_may_end_with_several_beginnings_and_belong_to_several_strings() {
        let found = breakers(&["xaba", "ab"], &["abab", "b"]);
        assert_eq!(found.tokens, [0, 1]);
        let (a, b) = (token(b'a'), token(b'b'));
        assert_eq!(found.sequences, [vec![0, b], vec![0, b, a, b], vec![1, a, b]]);
    }

    #[test]
    fn repetitions_and_empty_strings_change_nothing() {
        let words = ["a", "b", "ab", ""];
        assert_eq!(breakers(&words, &["ab", "", "ab"]), breakers(&words, &["ab"]));
        assert_eq!(breakers(&words, &[""]), Breakers::default());
    }

    #[test]
    fn long_strings_are_cut_to_40_bytes_and_tails_to_20_tokens() {
        let long = "x".repeat(50);
        let words = ["x", &long[..39], &long[..40]];
        let found = breakers(&words, &[&long]);
        assert_eq!(found.tokens, [2]);
        assert!(found.sequences.iter().all(|sequence| (2..=21).contains(&sequence.len())));
        // With 1 to 39 bytes begun, 39 to 1 are left; those of more than 20 are the same.
        assert_eq!(found.sequences.iter().filter(|sequence| sequence[0] == 1).count(), 20);
        assert_eq!(found.sequences.iter().filter(|sequence| sequence[0] == 0).count(), 1);
    }

    #[test]
    fn what_the_vocabulary_cannot_say_is_no_sequence() {
        let words = [(0, &b"a"[..]), (1, b"abc")].into_iter();
        let found = find(&words, ["abc", "ad"], |tail| Ok((tail != b"bc").then(|| vec![9]))).unwrap();
        assert_eq!(found, Breakers { tokens: vec![1], sequences: vec![vec![0, 9]] });
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(2000) })]

        #[test]
        fn all_words_are_looked_at_in_all_ways(
            words in proptest::collection::vec("[ab]{0,5}", 0..12),
            texts in proptest::collection::vec("[ab]{0,5}", 0..4),
        ) {
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
            let (mut tokens, mut sequences) = (Vec::new(), Vec::new());
            for (id, word) in (0..).zip(&words) {
                for text in texts.iter().filter(|text| !text.is_empty()) {
                    if word.contains(text) {
                        tokens.push(id);
                        continue;
                    }
                    for begun in (1..text.len()).filter(|&begun| word.ends_with(&text[..begun])) {
                        sequences.push([id].into_iter().chain(text[begun..].bytes().map(token)).collect());
                    }
                }
            }
            tokens.dedup();
            sequences.sort_unstable();
            sequences.dedup();
            prop_assert_eq!(breakers(&words, &texts), Breakers { tokens, sequences });
        }
    }
}
