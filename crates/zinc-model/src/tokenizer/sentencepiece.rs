//! SentencePiece's BPE: characters merged to the pieces with the highest scores, and bytes for what has no piece.
//!
//! It does what the SentencePiece library does with a model of the type BPE and the `identity` normaliser, which is what
//! Llama 2, Mistral before Tekken, TinyLlama and their kin have. (Google's library is the definition: T. Kudo and
//! J. Richardson, "SentencePiece", 2018; the merging is that of its BPE model.) Pieces are looked up as text and not as
//! pairs, and a text has no words, so that a piece may hold several.

use std::cmp::{Ordering, Reverse};
use std::collections::{BinaryHeap, HashMap};

use crate::error::{Error, Result};
use crate::gguf::Metadata;
use crate::tokenizer::Place;
use crate::tokenizer::special::{Matcher, Segment};
use crate::tokenizer::vocabulary::{KEY_TOKENS, Kind, Vocabulary, bad};

const KEY_SCORES: &str = "tokenizer.ggml.scores";
const KEY_UNKNOWN: &str = "tokenizer.ggml.unknown_token_id";
const KEY_REMOVE_SPACES: &str = "tokenizer.ggml.remove_extra_whitespaces";

/// What stands for a space in pieces: U+2581.
const SPACE: char = '▁';

/// The encoder of a file whose `tokenizer.ggml.model` is `llama`.
pub(super) struct SentencePiece {
    /// The pieces that merging may come out at.
    pieces: HashMap<String, Piece>,
    /// Bytes of the longest piece.
    longest: usize,
    /// Tokens of single bytes.
    bytes: Box<[Option<u32>; 256]>,
    /// The token of characters that have neither a piece nor bytes.
    unknown: Option<u32>,
    /// User-defined tokens, spelled with [`SPACE`]: no merge goes into or across one.
    user_defined: Matcher,
    /// Whether a text starts with a space that it does not have.
    adds_space: bool,
    /// Whether runs of spaces become one, and none at the ends.
    removes_spaces: bool,
}

/// What a piece is to merging.
#[derive(Clone, Copy, Debug)]
struct Piece {
    id: u32,
    score: f32,
    /// Whether it is no token of a text, but a step on the way to longer ones.
    is_unused: bool,
}

impl SentencePiece {
    /// `adds_space` is what the file says of a space before text; `None` where it says nothing.
    pub(super) fn new(metadata: &Metadata, vocabulary: &Vocabulary, adds_space: Option<bool>) -> Result<Self> {
        let texts = metadata.require_strings(KEY_TOKENS)?;
        let scores = scores(metadata, texts.len())?;
        let mut pieces = HashMap::with_capacity(texts.len());
        let mut bytes = Box::new([None; 256]);
        let mut user_defined = Vec::new();
        let mut unknown = vocabulary.id_at(metadata, KEY_UNKNOWN)?;
        for ((id, text), score) in (0..).zip(texts).zip(scores) {
            match vocabulary.kind(id) {
                Some(kind @ (Kind::Normal | Kind::Unused)) => {
                    let piece = Piece { id, score, is_unused: kind == Kind::Unused };
                    // Of equal pieces the first counts.
                    pieces.entry(text.clone()).or_insert(piece);
                }
                Some(Kind::Byte) => {
                    if let Some(byte) = byte_of(text) {
                        bytes[usize::from(byte)].get_or_insert(id);
                    }
                }
                Some(Kind::UserDefined) => user_defined.push((text.replace(' ', "▁"), id)),
                Some(Kind::Unknown) => {
                    unknown.get_or_insert(id);
                }
                Some(Kind::Control) | None => {}
            }
        }
        Ok(Self {
            longest: pieces.keys().map(String::len).max().unwrap_or(0),
            pieces,
            bytes,
            unknown,
            user_defined: Matcher::new(user_defined.iter().map(|(text, id)| (text.as_str(), *id)))?,
            adds_space: adds_space.unwrap_or(true),
            removes_spaces: metadata.get_bool(KEY_REMOVE_SPACES)?.unwrap_or(false),
        })
    }

    pub(super) fn adds_space(&self) -> bool {
        self.adds_space
    }

    pub(super) fn removes_spaces(&self) -> bool {
        self.removes_spaces
    }

    pub(super) fn id_of(&self, piece: &str) -> Option<u32> {
        match byte_of(piece).and_then(|byte| self.id_of_byte(byte)) {
            Some(id) => Some(id),
            None => self.pieces.get(piece).map(|piece| piece.id),
        }
    }

    pub(super) fn id_of_byte(&self, byte: u8) -> Option<u32> {
        self.bytes[usize::from(byte)]
    }

    /// Appends the tokens of `text`, which stands at `place`.
    pub(super) fn encode(&self, text: &str, place: Place, ids: &mut Vec<u32>) -> Result<()> {
        let text = self.normalize(text, place);
        for segment in self.user_defined.segments(&text, |_, _| true) {
            match segment {
                Segment::Token(id) => ids.push(id),
                Segment::Text(text) => self.merge(text, ids)?,
            }
        }
        Ok(())
    }

    /// The text with [`SPACE`] for spaces, those that are added included and those that are removed not.
    fn normalize(&self, text: &str, place: Place) -> String {
        let removes = self.removes_spaces && place != Place::Inside;
        let text = if removes { text.trim_start_matches(' ') } else { text };
        let mut normalized = String::with_capacity(text.len() + text.len() / 4 + SPACE.len_utf8());
        if text.is_empty() {
            return normalized;
        }
        let adds = match place {
            Place::Start => self.adds_space,
            // Where a chat template writes a space behind a control token, that is the one that the library would add.
            Place::BehindToken => self.adds_space && !text.starts_with(' '),
            Place::Inside => false,
        };
        if adds {
            normalized.push(SPACE);
        }
        let mut is_behind_space = removes;
        for c in text.chars() {
            let is_space = c == ' ';
            if !(is_space && is_behind_space) {
                normalized.push(if is_space { SPACE } else { c });
            }
            is_behind_space = removes && is_space;
        }
        if removes {
            normalized.truncate(normalized.trim_end_matches(SPACE).len());
        }
        normalized
    }

    /// Appends the tokens of a text without user-defined ones.
    ///
    /// Of all pairs of neighbours that make a piece the one with the highest score is merged, of equal ones the leftmost,
    /// until there is none. Time grows as n log n with the number of characters.
    fn merge(&self, text: &str, ids: &mut Vec<u32>) -> Result<()> {
        let mut merging = Merging::new(self, text);
        while let Some(Pair { left, right, bytes, .. }) = merging.pairs.pop() {
            // Symbols that have gone into others are empty.
            let (first, second) = (merging.symbols[left].bytes, merging.symbols[right].bytes);
            if first > 0 && second > 0 && first + second == bytes {
                merging.join(left, right);
            }
        }
        let mut is_behind_unknown = false;
        for symbol in merging.symbols.iter().filter(|symbol| symbol.bytes > 0) {
            // A piece that is unused is taken apart again, and so may be its parts; a character can only be spelled.
            let mut parts = vec![&text[symbol.start..symbol.start + symbol.bytes]];
            while let Some(part) = parts.pop() {
                let piece = self.pieces.get(part);
                let half = merging.halves.get(part).filter(|_| piece.is_some_and(|piece| piece.is_unused));
                if let Some(&half) = half {
                    parts.extend([&part[half..], &part[..half]]);
                    continue;
                }
                match piece.filter(|piece| !piece.is_unused) {
                    Some(piece) => {
                        ids.push(piece.id);
                        is_behind_unknown = false;
                    }
                    None => is_behind_unknown = self.fall_back(part, is_behind_unknown, ids)?,
                }
            }
        }
        Ok(())
    }

    /// Appends the bytes of a character that has no piece, or else the unknown token, once for a run of such characters.
    /// Returns whether it is unknown.
    fn fall_back(&self, character: &str, is_behind_unknown: bool, ids: &mut Vec<u32>) -> Result<bool> {
        let start = ids.len();
        for byte in character.bytes() {
            match (self.id_of_byte(byte), self.unknown) {
                (Some(id), _) => ids.push(id),
                (None, None) => return Err(Error::NoByteToken { byte }),
                (None, Some(unknown)) => {
                    ids.truncate(start);
                    if !is_behind_unknown {
                        ids.push(unknown);
                    }
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }
}

/// The state of [`SentencePiece::merge`].
struct Merging<'a> {
    encoder: &'a SentencePiece,
    text: &'a str,
    symbols: Vec<Symbol>,
    pairs: BinaryHeap<Pair>,
    /// Where unused pieces were put together: the bytes of their first halves.
    halves: HashMap<&'a str, usize>,
}

/// A part of the text: one character at first, a piece after merges, empty when it has gone into the symbol before it.
#[derive(Clone, Copy, Debug)]
struct Symbol {
    start: usize,
    bytes: usize,
    before: Option<usize>,
    behind: Option<usize>,
}

/// Two neighbours that make a piece.
#[derive(Clone, Copy, Debug)]
struct Pair {
    score: f32,
    left: usize,
    right: usize,
    /// Bytes of both when they were found: if they are no longer that long, one of them has been merged.
    bytes: usize,
}

impl<'a> Merging<'a> {
    fn new(encoder: &'a SentencePiece, text: &'a str) -> Self {
        let mut symbols: Vec<Symbol> = Vec::with_capacity(text.len());
        for (index, (start, c)) in text.char_indices().enumerate() {
            symbols.push(Symbol { start, bytes: c.len_utf8(), before: index.checked_sub(1), behind: Some(index + 1) });
        }
        if let Some(last) = symbols.last_mut() {
            last.behind = None;
        }
        let count = symbols.len();
        let mut merging = Self { encoder, text, symbols, pairs: BinaryHeap::new(), halves: HashMap::new() };
        for right in 1..count {
            merging.look_at(right - 1, right);
        }
        merging
    }

    /// Notes two neighbours if they make a piece.
    fn look_at(&mut self, left: usize, right: usize) {
        let Symbol { start, bytes: half, .. } = self.symbols[left];
        let bytes = half + self.symbols[right].bytes;
        if bytes > self.encoder.longest {
            return;
        }
        let text = &self.text[start..start + bytes];
        if let Some(piece) = self.encoder.pieces.get(text) {
            self.pairs.push(Pair { score: piece.score, left, right, bytes });
            if piece.is_unused {
                self.halves.insert(text, half);
            }
        }
    }

    fn join(&mut self, left: usize, right: usize) {
        let Symbol { bytes, behind, .. } = self.symbols[right];
        self.symbols[right].bytes = 0;
        self.symbols[left].bytes += bytes;
        self.symbols[left].behind = behind;
        if let Some(behind) = behind {
            self.symbols[behind].before = Some(left);
            self.look_at(left, behind);
        }
        if let Some(before) = self.symbols[left].before {
            self.look_at(before, left);
        }
    }
}

impl Ord for Pair {
    fn cmp(&self, other: &Self) -> Ordering {
        self.score.total_cmp(&other.score).then(Reverse(self.left).cmp(&Reverse(other.left)))
    }
}

impl PartialOrd for Pair {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Pair {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Pair {}

/// The scores of all tokens, none of them NaN or a negative zero.
fn scores(metadata: &Metadata, tokens: usize) -> Result<Vec<f32>> {
    let scores = metadata.require_f32s(KEY_SCORES)?;
    if scores.len() != tokens {
        let found = format!("an array of {}", scores.len());
        return Err(bad(KEY_SCORES, found, &format!("as long as the list of {tokens} tokens")));
    }
    if let Some(index) = scores.iter().position(|score| score.is_nan()) {
        return Err(bad(KEY_SCORES, format!("NaN at index {index}"), "numbers"));
    }
    // The sum of the two zeros is the positive one, which orders as it is equal.
    Ok(scores.into_iter().map(|score| score + 0.0).collect())
}

/// The byte that the piece of a byte token stands for.
fn byte_of(piece: &str) -> Option<u8> {
    let digits = piece.strip_prefix("<0x")?.strip_suffix('>')?;
    let is_byte = digits.len() == 2 && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    if is_byte { u8::from_str_radix(digits, 16).ok() } else { None }
}

/// The bytes that a piece stands for in text.
pub(super) fn decode(piece: &str, kind: Kind) -> Vec<u8> {
    match byte_of(piece).filter(|_| kind == Kind::Byte) {
        Some(byte) => vec![byte],
        None => piece.replace(SPACE, " ").into_bytes(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_decode_by_their_kind() {
        assert_eq!(decode("▁the▁", Kind::Normal), b" the ");
        assert_eq!(decode("<0x0A>", Kind::Byte), b"\n");
        assert_eq!(decode("<0xfF>", Kind::Byte), b"\xff");
        assert_eq!(decode("<0x0A>", Kind::Normal), b"<0x0A>");
        for piece in ["<0x0>", "<0x+1>", "<0x100>", "0x0A", "<0x0A", "<0xé>"] {
            assert_eq!(byte_of(piece), None, "{piece}");
        }
    }
}
