//! The list of tokens: pieces, kinds, bytes.

use std::collections::HashMap;

use crate::error::{Error, Result};
use crate::gguf::Metadata;
use crate::tokenizer::{bytes, sentencepiece};

pub(super) const KEY_TOKENS: &str = "tokenizer.ggml.tokens";
const KEY_KINDS: &str = "tokenizer.ggml.token_type";

/// Texts of tokens that end a generation whatever the metadata say. Files are known to leave them out, or to give them
/// the wrong kind. `</s>` is none of them: it is an ordinary word of some vocabularies, and where it ends texts the
/// metadata say so. The last three come from code models: where one file ends and the next begins.
const END_TEXTS: [&str; 18] = [
    "<|eot_id|>",
    "<|im_end|>",
    "<|end|>",
    "<|return|>",
    "<|call|>",
    "<|flush|>",
    "<end_of_turn>",
    "<|endoftext|>",
    "<|end_of_text|>",
    "<|eom_id|>",
    "<EOT>",
    "_<EOT>",
    "▁<EOT>",
    "<｜end▁of▁sentence｜>",
    "<end_of_utterance>",
    "<|fim_pad|>",
    "<|repo_name|>",
    "<|file_sep|>",
];

/// What a token is, by the numbers of `token_type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Normal,
    Unknown,
    Control,
    UserDefined,
    Unused,
    Byte,
}

impl Kind {
    fn from_number(number: i32) -> Option<Self> {
        Some(match number {
            1 => Self::Normal,
            2 => Self::Unknown,
            3 => Self::Control,
            4 => Self::UserDefined,
            5 => Self::Unused,
            6 => Self::Byte,
            _ => return None,
        })
    }

    /// Whether merging may come out at such a token. User-defined ones are in raw text, before any merging.
    pub(super) fn is_merged(self) -> bool {
        matches!(self, Self::Normal | Self::Byte)
    }

    /// Whether such a token stands for its bytes in text.
    pub(super) fn is_text(self) -> bool {
        self.is_merged() || self == Self::UserDefined
    }
}

/// How the pieces of a vocabulary spell bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Spelling {
    /// In the alphabet of [`bytes`].
    ByteLevel,
    /// As text with `▁` for a space, and `<0x0A>` for a byte that is no text by itself.
    SentencePiece,
}

impl Spelling {
    /// The bytes that a token stands for. Control and unknown tokens stand for their names.
    fn bytes(self, piece: &str, kind: Kind) -> Vec<u8> {
        match (self, kind) {
            (_, Kind::Control | Kind::Unknown) => piece.as_bytes().to_vec(),
            (Self::ByteLevel, kind) if kind.is_merged() => bytes::decode(piece),
            (Self::ByteLevel, _) => piece.as_bytes().to_vec(),
            (Self::SentencePiece, kind) => sentencepiece::decode(piece, kind),
        }
    }
}

/// The tokens of a file by their ids.
pub(super) struct Vocabulary {
    kinds: Vec<Kind>,
    /// The bytes of all tokens, one after the other.
    bytes: Vec<u8>,
    /// Where each token's bytes end.
    ends: Vec<usize>,
    /// Tokens that merging does not know, by piece.
    special: HashMap<String, u32>,
    end_tokens: Vec<u32>,
}

impl Vocabulary {
    /// Reads the list of tokens and their kinds.
    pub(super) fn from_metadata(metadata: &Metadata, spelling: Spelling) -> Result<Self> {
        let pieces = metadata.require_strings(KEY_TOKENS)?;
        if pieces.is_empty() || u32::try_from(pieces.len()).is_err() {
            return Err(bad(KEY_TOKENS, format!("{} tokens", pieces.len()), "at least one token"));
        }
        let mut vocabulary = Self {
            kinds: kinds(metadata, pieces.len())?,
            bytes: Vec::new(),
            ends: Vec::with_capacity(pieces.len()),
            special: HashMap::new(),
            end_tokens: Vec::new(),
        };
        for (id, (piece, kind)) in (0..).zip(pieces.iter().zip(&mut vocabulary.kinds)) {
            if END_TEXTS.contains(&piece.as_str()) {
                // Text must not end a generation, so these are control tokens even where the file says otherwise.
                *kind = Kind::Control;
                vocabulary.end_tokens.push(id);
            }
            vocabulary.bytes.extend(spelling.bytes(piece, *kind));
            if !kind.is_merged() {
                // Of equal pieces the first counts.
                vocabulary.special.entry(piece.clone()).or_insert(id);
            }
            vocabulary.ends.push(vocabulary.bytes.len());
        }
        Ok(vocabulary)
    }

    pub(super) fn len(&self) -> usize {
        self.kinds.len()
    }

    pub(super) fn kind(&self, id: u32) -> Option<Kind> {
        self.kinds.get(id as usize).copied()
    }

    pub(super) fn bytes(&self, id: u32) -> Option<&[u8]> {
        let id = id as usize;
        let end = *self.ends.get(id)?;
        let start = if id == 0 { 0 } else { self.ends[id - 1] };
        Some(&self.bytes[start..end])
    }

    /// The id of a piece that merging does not know.
    pub(super) fn special_id(&self, piece: &str) -> Option<u32> {
        self.special.get(piece).copied()
    }

    /// Texts and ids of the tokens of some of the kinds that merging does not know.
    pub(super) fn of_kinds(&self, kinds: &'static [Kind]) -> impl Iterator<Item = (&str, u32)> {
        let special = self.special.iter().map(|(piece, &id)| (piece.as_str(), id));
        special.filter(move |&(_, id)| kinds.contains(&self.kinds[id as usize]))
    }

    /// Tokens that end a generation by their text.
    pub(super) fn end_tokens(&self) -> &[u32] {
        &self.end_tokens
    }

    /// The token id at a metadata key.
    pub(super) fn id_at(&self, metadata: &Metadata, key: &str) -> Result<Option<u32>> {
        match metadata.get_u32(key)? {
            Some(id) if id as usize >= self.len() => {
                Err(bad(key, id.to_string(), &format!("the id of one of the {} tokens", self.len())))
            }
            id => Ok(id),
        }
    }
}

fn kinds(metadata: &Metadata, tokens: usize) -> Result<Vec<Kind>> {
    let Some(numbers) = metadata.get_i32s(KEY_KINDS)? else {
        return Ok(vec![Kind::Normal; tokens]);
    };
    if numbers.len() != tokens {
        let found = format!("an array of {}", numbers.len());
        return Err(bad(KEY_KINDS, found, &format!("as long as the list of {tokens} tokens")));
    }
    let kind = |(index, number): (usize, i32)| {
        Kind::from_number(number).ok_or_else(|| bad(KEY_KINDS, format!("{number} at index {index}"), "1 to 6"))
    };
    numbers.into_iter().enumerate().map(kind).collect()
}

/// The error of a value that makes no sense.
pub(super) fn bad(key: &str, found: String, expected: &str) -> Error {
    Error::BadValue { key: key.to_owned(), found, expected: expected.to_owned() }
}
