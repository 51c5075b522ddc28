//! Text to token ids and back, from the vocabulary in a file's metadata.
//!
//! Byte-level BPE on the `tokenizers` crate, with the pre-tokenizers of Qwen2 (Qwen3 too), Llama 3 and GPT-2. The
//! tokens that are matched in raw text are found here and not by that crate, because what counts as one depends on whose
//! text it is: see [`Special`].

mod breakers;
mod bytes;
mod pattern;
mod special;
mod stop;
mod stream;
mod vocabulary;
mod words;

use std::fmt;
use std::ops::Range;

use tokenizers::models::bpe::BPE;
use tokenizers::normalizers::NFC;
use tokenizers::pre_tokenizers::sequence::Sequence;
use tokenizers::{DecoderWrapper, Model as _, NormalizedString, Normalizer as _, PostProcessorWrapper, TokenizerImpl};

use crate::error::{Error, Result};
use crate::gguf::{self, Metadata};
use special::{Matcher, Segment};
use vocabulary::{Kind, Vocabulary};
use words::Words;

pub use breakers::Breakers;
pub use bytes::char_of;
pub use stop::{Released, StopMatcher};
pub use stream::{DecodeStream, Utf8Stream};

const KEY_MODEL: &str = "tokenizer.ggml.model";
const KEY_PRE: &str = "tokenizer.ggml.pre";
const KEY_BOS: &str = "tokenizer.ggml.bos_token_id";
const KEY_EOS: &str = "tokenizer.ggml.eos_token_id";
const KEY_ADD_BOS: &str = "tokenizer.ggml.add_bos_token";

/// Further keys of tokens that end a generation: end of turn, end of message, and the three that end a file to be filled in.
const END_KEYS: [&str; 5] = [
    "tokenizer.ggml.eot_token_id",
    "tokenizer.ggml.eom_token_id",
    "tokenizer.ggml.fim_pad_token_id",
    "tokenizer.ggml.fim_rep_token_id",
    "tokenizer.ggml.fim_sep_token_id",
];

/// What control tokens in a text are. User-defined tokens are tokens in either case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Special {
    /// Text like any other: for what users write. No control token comes out.
    Plain,
    /// Control tokens: for what a chat template writes.
    Parse,
}

/// A tokenizer.
pub struct Tokenizer {
    vocabulary: Vocabulary,
    bpe: TokenizerImpl<BPE, NFC, Sequence, PostProcessorWrapper, DecoderWrapper>,
    /// Control and user-defined tokens.
    parse: Matcher,
    /// Control tokens alone.
    control: Matcher,
    /// User-defined tokens alone.
    plain: Matcher,
    /// Bytes that the vocabulary has no token for. Usually none.
    missing_bytes: Vec<u8>,
    bos: Option<u32>,
    eos: Option<u32>,
    eog: Vec<u32>,
    add_bos: bool,
}

impl Tokenizer {
    /// Builds the tokenizer of a file.
    ///
    /// # Errors
    /// A missing key ([`Error::MissingKey`]) or one that makes no sense, or a kind of tokenizer that is not supported.
    pub fn from_gguf(file: &gguf::File) -> Result<Self> {
        Self::from_metadata(file.metadata())
    }

    /// Builds the tokenizer that metadata describe, see [`Self::from_gguf`].
    ///
    /// Keys that may be missing: `token_type` (all tokens are normal), `bos_token_id`, `eos_token_id` (there is none),
    /// `add_bos_token` (false).
    pub fn from_metadata(metadata: &Metadata) -> Result<Self> {
        let model = metadata.require_str(KEY_MODEL)?;
        if model != "gpt2" {
            return Err(Error::TokenizerModel { found: model.to_owned() });
        }
        let words = Words::from_name(metadata.require_str(KEY_PRE)?)?;
        let vocabulary = Vocabulary::from_metadata(metadata)?;

        let mut bpe = TokenizerImpl::new(vocabulary.bpe(metadata, words)?);
        bpe.with_normalizer(words.normalizer()).map_err(Error::Tokenizer)?;
        bpe.with_pre_tokenizer(Some(words.splitter()?));
        let missing_bytes = (0..=255)
            .filter(|&byte| bpe.get_model().token_to_id(bytes::char_of(byte).encode_utf8(&mut [0; 4])).is_none())
            .collect();

        let id = |key| vocabulary.id_at(metadata, key);
        let (bos, eos) = (id(KEY_BOS)?, id(KEY_EOS)?);
        let mut eog = vocabulary.end_tokens().to_vec();
        eog.extend(eos);
        for key in END_KEYS {
            eog.extend(id(key)?);
        }
        eog.sort_unstable();
        eog.dedup();
        let add_bos = metadata.get_bool(KEY_ADD_BOS)?.unwrap_or(false);
        if add_bos && bos.is_none() {
            return Err(Error::MissingKey { key: KEY_BOS.to_owned() });
        }

        let tokens = |kinds: &'static [Kind]| Matcher::new(vocabulary.of_kinds(kinds));
        let parse = tokens(&[Kind::Control, Kind::Unknown, Kind::UserDefined])?;
        let control = tokens(&[Kind::Control, Kind::Unknown])?;
        let plain = tokens(&[Kind::UserDefined])?;
        Ok(Self { vocabulary, bpe, parse, control, plain, missing_bytes, bos, eos, eog, add_bos })
    }

    /// The tokens of `text`, without BOS.
    ///
    /// # Errors
    /// [`Error::NoByteToken`] if the vocabulary cannot say the text.
    pub fn encode(&self, text: &str, special: Special) -> Result<Vec<u32>> {
        let matcher = match special {
            Special::Plain => &self.plain,
            Special::Parse => &self.parse,
        };
        self.encode_segments(matcher.segments(text, |_, _| true))
    }

    /// The tokens of a whole prompt: as [`Self::encode`], with BOS before them if the model wants one and the text does
    /// not start with it already, as that of some chat templates does.
    pub fn encode_prompt(&self, text: &str, special: Special) -> Result<Vec<u32>> {
        Ok(self.with_bos(self.encode(text, special)?))
    }

    /// As [`Self::encode_prompt`] with [`Special::Parse`], where characters that end at one of the places in `literal`
    /// (in order) belong to no control token.
    pub(crate) fn encode_marked(&self, text: &str, literal: &[usize]) -> Result<Vec<u32>> {
        let segments = self.parse.segments(text, |start, end| {
            // Matches of user-defined tokens are marked only as a part of what looks like a control token.
            let next = literal.partition_point(|&place| place <= start);
            literal.get(next).is_none_or(|&place| place > end)
        });
        Ok(self.with_bos(self.encode_segments(segments)?))
    }

    /// Where in `text` control tokens would be parsed.
    pub(crate) fn control_spans(&self, text: &str) -> Vec<Range<usize>> {
        self.control.spans(text)
    }

    fn with_bos(&self, mut ids: Vec<u32>) -> Vec<u32> {
        if let Some(bos) = self.bos
            && self.add_bos
            && ids.first() != Some(&bos)
        {
            ids.insert(0, bos);
        }
        ids
    }

    fn encode_segments(&self, segments: Vec<Segment<'_>>) -> Result<Vec<u32>> {
        let mut ids = Vec::new();
        for segment in segments {
            match segment {
                Segment::Token(id) => ids.push(id),
                Segment::Text(text) => {
                    self.check_bytes(text)?;
                    let encoding = self.bpe.encode_fast(text, false).map_err(Error::Tokenizer)?;
                    ids.extend_from_slice(encoding.get_ids());
                }
            }
        }
        Ok(ids)
    }

    /// The BPE leaves bytes out that it has no token for; that would be another text.
    fn check_bytes(&self, text: &str) -> Result<()> {
        if self.missing_bytes.is_empty() {
            return Ok(());
        }
        let mut normalized = NormalizedString::from(text);
        if let Some(normalizer) = self.bpe.get_normalizer() {
            normalizer.normalize(&mut normalized).map_err(Error::Tokenizer)?;
        }
        match normalized.get().bytes().find(|byte| self.missing_bytes.contains(byte)) {
            Some(byte) => Err(Error::NoByteToken { byte }),
            None => Ok(()),
        }
    }

    /// The text of tokens, control tokens included. Bytes that are not UTF-8, and ids outside of the vocabulary, are U+FFFD.
    pub fn decode(&self, ids: &[u32]) -> String {
        let bytes: Vec<u8> = ids.iter().flat_map(|&id| self.bytes_or_replacement(id)).copied().collect();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// The bytes of a token, which need not be UTF-8; `None` outside of the vocabulary.
    pub fn token_bytes(&self, id: u32) -> Option<&[u8]> {
        self.vocabulary.bytes(id)
    }

    fn bytes_or_replacement(&self, id: u32) -> &[u8] {
        self.token_bytes(id).unwrap_or("\u{fffd}".as_bytes())
    }

    /// The id of a token by its piece as the file has it: of a control token its text, of others in the byte-level
    /// alphabet (`Ġthe` is " the").
    pub fn id_of(&self, piece: &str) -> Option<u32> {
        self.vocabulary.special_id(piece).or_else(|| self.bpe.get_model().token_to_id(piece))
    }

    /// Whether a token is a control token, which has no place in text for people.
    pub fn is_control(&self, id: u32) -> bool {
        self.vocabulary.kind(id) == Some(Kind::Control)
    }

    /// Whether a token stands for its bytes in text: an ordinary or a user-defined one, not a control token or one that is
    /// unknown or unused.
    pub fn is_text(&self, id: u32) -> bool {
        self.vocabulary.kind(id).is_some_and(Kind::is_text)
    }

    /// Number of tokens.
    pub fn vocab_size(&self) -> usize {
        self.vocabulary.len()
    }

    /// The token that starts a text.
    pub fn bos(&self) -> Option<u32> {
        self.bos
    }

    /// The token that ends a text.
    pub fn eos(&self) -> Option<u32> {
        self.eos
    }

    /// The tokens that end a generation, in order: `eos` and its relatives, by the metadata and by well-known texts. It is
    /// empty if the file has none; then only the length ends a generation.
    pub fn eog(&self) -> &[u32] {
        &self.eog
    }

    /// Whether a token ends a generation.
    pub fn is_eog(&self, id: u32) -> bool {
        self.eog.binary_search(&id).is_ok()
    }

    /// Whether a prompt starts with [`Self::bos`].
    pub fn add_bos(&self) -> bool {
        self.add_bos
    }

    /// A stream that turns tokens into text as they come.
    pub fn stream(&self) -> DecodeStream<'_> {
        DecodeStream::new(self)
    }
}

impl fmt::Debug for Tokenizer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tokenizer")
            .field("vocab_size", &self.vocab_size())
            .field("bos", &self.bos)
            .field("eos", &self.eos)
            .field("eog", &self.eog)
            .field("add_bos", &self.add_bos)
            .finish_non_exhaustive()
    }
}
