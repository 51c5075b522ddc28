//! Turns tokens into text one at a time. A token can end in the middle of a character, so bytes are held back until
//! their character is complete.

use std::ops::Deref;

use crate::tokenizer::Tokenizer;

/// Turns bytes into text, piece by piece.
///
/// The bytes of a character that is not complete yet are held back. Bytes that cannot become a character turn into
/// U+FFFD, by the rules of [`String::from_utf8_lossy`]. However the bytes are cut into pieces, the texts of all pieces
/// together are what that function makes of all bytes.
#[derive(Clone, Debug, Default)]
pub struct Utf8Stream {
    /// The start of a character: three bytes at most.
    held: Vec<u8>,
}

impl Utf8Stream {
    /// A stream at its start.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the next bytes and returns the text that no later byte can change.
    pub fn push(&mut self, bytes: &[u8]) -> String {
        self.held.extend_from_slice(bytes);
        // Only the last character can be incomplete: the start of one with something else after it is invalid.
        let incomplete = match self.held.utf8_chunks().last() {
            Some(chunk) if is_start_of_character(chunk.invalid()) => chunk.invalid().len(),
            _ => 0,
        };
        let certain = self.held.len() - incomplete;
        let text = String::from_utf8_lossy(&self.held[..certain]).into_owned();
        self.held.drain(..certain);
        text
    }

    /// Ends the stream: U+FFFD if a character was left incomplete, nothing otherwise.
    pub fn finish(&mut self) -> String {
        if std::mem::take(&mut self.held).is_empty() { String::new() } else { char::REPLACEMENT_CHARACTER.to_string() }
    }
}

/// Whether `bytes`, which are not valid UTF-8, are the beginning of a character that further bytes could complete.
fn is_start_of_character(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).is_err_and(|error| error.error_len().is_none())
}

/// Turns tokens into text one at a time, from the start of a text. Incomplete characters are held back as in
/// [`Utf8Stream`].
///
/// SentencePiece puts a space before a text. The stream leaves that space out at its start and behind each control
/// token, as [`Tokenizer::decode`] does.
///
/// `T` points to the tokenizer: a reference, or an `Arc` for a stream that outlives its maker.
#[derive(Clone, Debug)]
pub struct DecodeStream<T> {
    tokenizer: T,
    bytes: Utf8Stream,
    /// Which spaces are left out at the start of a text and behind control tokens.
    stripping: Stripping,
    /// Whether the next token is at the start of the text or behind a control token, so that its space is left out.
    is_start: bool,
}

/// The spaces that decoding leaves out at the start of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stripping {
    Nothing,
    /// One space.
    One,
    /// One space of each token, until a token has something other than that space.
    All,
}

impl<T: Deref<Target = Tokenizer>> DecodeStream<T> {
    /// A stream at the start of a text.
    pub fn new(tokenizer: T) -> Self {
        let stripping = tokenizer.stripping();
        Self { tokenizer, bytes: Utf8Stream::new(), stripping, is_start: true }
    }

    /// A stream for tokens that continue a text: no space is left out at the start.
    pub fn inside(tokenizer: T) -> Self {
        Self { is_start: false, ..Self::new(tokenizer) }
    }

    /// Takes the next token and returns the text that no later token can change.
    pub fn push(&mut self, id: u32) -> String {
        let mut bytes = self.tokenizer.bytes_or_replacement(id);
        if self.tokenizer.is_control(id) {
            self.is_start = true;
        } else if self.is_start && self.stripping != Stripping::Nothing {
            let rest = bytes.strip_prefix(b" ").filter(|_| !self.tokenizer.is_byte(id));
            self.is_start = self.stripping == Stripping::All && rest.is_some_and(<[u8]>::is_empty);
            bytes = rest.unwrap_or(bytes);
        }
        self.bytes.push(bytes)
    }

    /// Ends the stream: U+FFFD if a character was left incomplete, nothing otherwise.
    pub fn finish(&mut self) -> String {
        self.bytes.finish()
    }

    /// Decodes all tokens of a text at once.
    pub(super) fn all(mut self, ids: &[u32]) -> String {
        let mut text: String = ids.iter().map(|&id| self.push(id)).collect();
        text.push_str(&self.finish());
        text
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn all(pieces: &[&[u8]]) -> String {
        let mut stream = Utf8Stream::new();
        let mut text: String = pieces.iter().map(|piece| stream.push(piece)).collect();
        text.push_str(&stream.finish());
        text
    }

    /// Checks `bytes` cut at every set of places.
    fn check(bytes: &[u8]) {
        let expected = String::from_utf8_lossy(bytes);
        for cuts in 0..1u32 << (bytes.len() - 1) {
            let mut pieces = Vec::new();
            let mut start = 0;
            for end in 1..=bytes.len() {
                if end == bytes.len() || cuts >> (end - 1) & 1 == 1 {
                    pieces.push(&bytes[start..end]);
                    start = end;
                }
            }
            assert_eq!(all(&pieces), expected, "{bytes:02x?} cut as {cuts:b}");
        }
    }

    #[test]
    fn one_and_two_bytes_at_every_cut() {
        for first in 0..=255 {
            check(&[first]);
            for second in 0..=255 {
                check(&[first, second]);
            }
        }
    }

    /// The bytes where the rules of UTF-8 change, and their neighbours.
    const EDGES: [u8; 30] = [
        0x00, 0x41, 0x7f, 0x80, 0x8f, 0x90, 0x9f, 0xa0, 0xbf, 0xc0, 0xc1, 0xc2, 0xdf, 0xe0, 0xe1, 0xec, 0xed, 0xee,
        0xef, 0xf0, 0xf1, 0xf3, 0xf4, 0xf5, 0xf7, 0xf8, 0xfb, 0xfc, 0xfe, 0xff,
    ];

    #[test]
    fn three_and_four_bytes_around_the_edges_at_every_cut() {
        for a in EDGES {
            for b in EDGES {
                for c in EDGES {
                    check(&[a, b, c]);
                    for d in [0x41, 0x7f, 0x80, 0xbf, 0xc2, 0xe1, 0xf1, 0xff] {
                        check(&[a, b, c, d]);
                    }
                }
            }
        }
    }

    #[test]
    fn text_comes_as_soon_as_it_is_certain() {
        let mut stream = Utf8Stream::new();
        let grin = "😀".as_bytes();
        assert_eq!(stream.push(&[b"a", &grin[..1]].concat()), "a");
        assert_eq!(stream.push(&grin[1..3]), "");
        assert_eq!(stream.push(&[&grin[3..], b"b"].concat()), "😀b");
        assert_eq!(stream.push(&[0xf0]), "");
        assert_eq!(stream.push(b"c"), "\u{fffd}c");
        assert_eq!(stream.finish(), "");
        assert_eq!(stream.push(&grin[..2]), "");
        assert_eq!(stream.finish(), "\u{fffd}");
        assert_eq!(stream.finish(), "");
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(2000) })]

        #[test]
        fn any_four_bytes_at_every_cut(bytes in proptest::collection::vec(any::<u8>(), 1..=4)) {
            check(&bytes);
        }

        #[test]
        fn any_pieces(pieces in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..6), 0..12)) {
            let slices: Vec<&[u8]> = pieces.iter().map(Vec::as_slice).collect();
            let bytes = pieces.concat();
            prop_assert_eq!(all(&slices), String::from_utf8_lossy(&bytes));
        }
    }
}
