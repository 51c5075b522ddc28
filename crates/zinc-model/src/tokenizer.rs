//! Text to token ids and back, from the vocabulary in a file's metadata.
//!
//! Two kinds of vocabulary are supported, by `tokenizer.ggml.model`:
//!
//! - `gpt2`: byte-level BPE on the `tokenizers` crate. How text is cut into words is named by `tokenizer.ggml.pre`:
//!
//!   | names | whose vocabularies |
//!   |---|---|
//!   | `qwen2`, `deepseek-r1-qwen`, `megrez`, `kormo`, `f2llmv2` | Qwen 2, 2.5 and 3, and what was made from them |
//!   | `qwen35` | Qwen 3.5 |
//!   | `llama-bpe`, `llama3`, `llama-v3`, `falcon3`, `pixtral`, `midm-2.0`, `smaug-bpe` | Llama 3 and its kin |
//!   | `gpt-4o`, `llama4`, `kanana2` | GPT-4o, gpt-oss, Llama 4 |
//!   | `tekken` | Mistral since Nemo |
//!   | `gpt-2`, `phi-2`, `a.x-4.0`, `mellum`, `trillion`, `granite-docling` | GPT-2 and its kin |
//!   | `olmo`, `mpt` | GPT-NeoX's |
//!   | `smollm`, `starcoder`, `refact`, `codeshell`, `minerva-7b` | SmolLM, StarCoder, Granite and their kin |
//!   | `command-r` | Command R |
//!   | `deepseek-llm`, `deepseek-coder`, `deepseek-v3` | DeepSeek's |
//!   | `minicpm5`, `seed-coder` | MiniCPM 5, Seed-Coder |
//!   | `falcon`, `default` or none | Falcon's, and files that do not say it |
//!
//! - `llama`: SentencePiece's BPE with scores, and bytes for what has no piece (Llama 2, Mistral 7B, TinyLlama). A space
//!   is put before a text, and behind every control token that no space follows; decoding leaves it out again.
//!
//! Ids are those of Hugging Face's `tokenizers` and of the SentencePiece library. `falcon3`, `pixtral`, `midm-2.0`,
//! `smaug-bpe`, `megrez`, `kormo`, `f2llmv2`, `a.x-4.0`, `mellum`, `trillion`, `granite-docling`, `minerva-7b` and
//! `kanana2` are put with the others of their row as llama.cpp does it; no file of their owners was compared. The steps of
//! `codeshell`, `starcoder`, `command-r`, `olmo`, `mpt`, `deepseek-r1-qwen`, `llama4`, `phi-2`, `minicpm5` and `seed-coder`
//! are those that are described in public; their ids are those that `tokenizers` gives with these steps, and no file of
//! their owners was compared either.
//!
//! The tokens that are matched in raw text are found here and not by the `tokenizers` crate, because what counts as one
//! depends on whose text it is: see [`Special`].

mod breakers;
mod byte_level;
mod bytes;
mod pattern;
mod sentencepiece;
mod special;
mod stop;
mod stream;
mod vocabulary;
mod words;

use std::fmt;
use std::ops::Range;

use crate::error::{Error, Result};
use crate::gguf::{self, Metadata};
use byte_level::ByteLevel;
use sentencepiece::SentencePiece;
use special::{Matcher, Segment};
use vocabulary::{Kind, Spelling, Vocabulary};

pub use breakers::Breakers;
pub use bytes::char_of;
pub use stop::{Released, StopMatcher};
use stream::Stripping;
pub use stream::{DecodeStream, Utf8Stream};

const KEY_MODEL: &str = "tokenizer.ggml.model";
const KEY_BOS: &str = "tokenizer.ggml.bos_token_id";
const KEY_EOS: &str = "tokenizer.ggml.eos_token_id";
const KEY_ADD_BOS: &str = "tokenizer.ggml.add_bos_token";
const KEY_ADD_EOS: &str = "tokenizer.ggml.add_eos_token";
const KEY_ADD_SPACE: &str = "tokenizer.ggml.add_space_prefix";

/// Further keys of tokens that end a generation: end of turn, end of message, and the three that end a file to be filled in.
const END_KEYS: [&str; 5] = [
    "tokenizer.ggml.eot_token_id",
    "tokenizer.ggml.eom_token_id",
    "tokenizer.ggml.fim_pad_token_id",
    "tokenizer.ggml.fim_rep_token_id",
    "tokenizer.ggml.fim_sep_token_id",
];

/// The ends of messages in harmony, the format of gpt-oss: of one that is followed by others of the model, of the last one, and of a call. Where a
/// vocabulary has all of them, the first ends no generation, whatever the metadata say; in other vocabularies it does.
const HARMONY_ENDS: [&str; 3] = ["<|end|>", "<|return|>", "<|call|>"];

/// What control tokens in a text are. User-defined tokens are tokens in either case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Special {
    /// Text like any other: for what users write. No control token comes out.
    Plain,
    /// Control tokens: for what a chat template writes.
    Parse,
}

/// Where a piece of text stands that is encoded by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// At the start of a text.
    Start,
    /// Behind a token that was found in the text.
    BehindToken,
    /// Behind other text.
    Inside,
}

/// A tokenizer.
pub struct Tokenizer {
    vocabulary: Vocabulary,
    encoder: Encoder,
    /// The tokens that are found in a text before it is encoded, if control tokens are parsed.
    parse: Matcher,
    /// Control tokens alone.
    control: Matcher,
    /// The tokens that are found in a text before it is encoded, if control tokens are not parsed.
    plain: Matcher,
    bos: Option<u32>,
    eos: Option<u32>,
    eog: Vec<u32>,
    add_bos: bool,
    add_eos: bool,
}

/// What turns text without control tokens into ids.
enum Encoder {
    ByteLevel(Box<ByteLevel>),
    SentencePiece(Box<SentencePiece>),
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
    /// Keys that may be missing: `pre` (as `default`), `token_type` (all tokens are normal), `bos_token_id`,
    /// `eos_token_id` (there is none), `add_bos_token` (true of SentencePiece, Llama 3 and Tekken, otherwise false),
    /// `add_eos_token` (false), `add_space_prefix` (true of SentencePiece, otherwise false), `remove_extra_whitespaces`
    /// (false). The last two say of SentencePiece what its model would; `add_space_prefix` counts for GPT-2's steps, too.
    pub fn from_metadata(metadata: &Metadata) -> Result<Self> {
        let adds_space = metadata.get_bool(KEY_ADD_SPACE)?;
        let (vocabulary, encoder, adds_bos) = match metadata.require_str(KEY_MODEL)? {
            "gpt2" => {
                let vocabulary = Vocabulary::from_metadata(metadata, Spelling::ByteLevel)?;
                let encoder = ByteLevel::new(metadata, &vocabulary, adds_space)?;
                let adds_bos = encoder.adds_bos();
                (vocabulary, Encoder::ByteLevel(Box::new(encoder)), adds_bos)
            }
            "llama" => {
                let vocabulary = Vocabulary::from_metadata(metadata, Spelling::SentencePiece)?;
                let encoder = SentencePiece::new(metadata, &vocabulary, adds_space)?;
                (vocabulary, Encoder::SentencePiece(Box::new(encoder)), true)
            }
            model => return Err(Error::TokenizerModel { found: model.to_owned() }),
        };

        let id = |key| vocabulary.id_at(metadata, key);
        let (bos, eos) = (id(KEY_BOS)?, id(KEY_EOS)?);
        let mut eog = vocabulary.end_tokens().to_vec();
        eog.extend(eos);
        for key in END_KEYS {
            eog.extend(id(key)?);
        }
        eog.sort_unstable();
        eog.dedup();
        if let [Some(message), Some(_), Some(_)] = HARMONY_ENDS.map(|text| vocabulary.special_id(text)) {
            eog.retain(|id| *id != message);
        }
        let asked = |key, name: &str, token: Option<u32>| match (metadata.get_bool(key)?, token) {
            (Some(true), None) => Err(Error::MissingKey { key: name.to_owned() }),
            (asked, _) => Ok(asked),
        };
        let add_bos = asked(KEY_ADD_BOS, KEY_BOS, bos)?.unwrap_or(adds_bos && bos.is_some());
        let add_eos = asked(KEY_ADD_EOS, KEY_EOS, eos)?.unwrap_or(false);

        let tokens = |kinds: &'static [Kind]| Matcher::new(vocabulary.of_kinds(kinds));
        let control = tokens(&[Kind::Control, Kind::Unknown])?;
        let (parse, plain) = match encoder {
            Encoder::ByteLevel(_) => {
                (tokens(&[Kind::Control, Kind::Unknown, Kind::UserDefined])?, tokens(&[Kind::UserDefined])?)
            }
            // It looks for user-defined tokens by itself, in text that has its spaces already.
            Encoder::SentencePiece(_) => (tokens(&[Kind::Control, Kind::Unknown])?, tokens(&[])?),
        };
        Ok(Self { vocabulary, encoder, parse, control, plain, bos, eos, eog, add_bos, add_eos })
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
    /// not start with it already, as that of some chat templates does. EOS is never put behind them, even if the file asks
    /// for it ([`Self::add_eos`]): a prompt goes on.
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
                    let place = if ids.is_empty() { Place::Start } else { Place::BehindToken };
                    self.encoder.encode(text, place, &mut ids)?;
                }
            }
        }
        Ok(ids)
    }

    /// The tokens of text behind other text, without control tokens.
    fn encode_inside(&self, text: &str) -> Result<Vec<u32>> {
        let mut ids = Vec::new();
        for segment in self.plain.segments(text, |_, _| true) {
            match segment {
                Segment::Token(id) => ids.push(id),
                Segment::Text(text) => self.encoder.encode(text, Place::Inside, &mut ids)?,
            }
        }
        Ok(ids)
    }

    /// The text of tokens, control tokens included, where the first one starts a text. The space that encoding adds there
    /// (and behind control tokens) is left out. Bytes that are not UTF-8, and ids outside of the vocabulary, are U+FFFD.
    pub fn decode(&self, ids: &[u32]) -> String {
        DecodeStream::new(self).all(ids)
    }

    /// The text of tokens behind other text: as [`Self::decode`], but no space is left out at the start.
    pub fn decode_inside(&self, ids: &[u32]) -> String {
        DecodeStream::inside(self).all(ids)
    }

    /// The bytes of a token within a text, which need not be UTF-8; `None` outside of the vocabulary. Those of
    /// SentencePiece have spaces and not `▁`.
    pub fn token_bytes(&self, id: u32) -> Option<&[u8]> {
        self.vocabulary.bytes(id)
    }

    fn bytes_or_replacement(&self, id: u32) -> &[u8] {
        self.token_bytes(id).unwrap_or("\u{fffd}".as_bytes())
    }

    /// The id of a token by its piece as the file has it: of a control token its text, of others in the byte-level
    /// alphabet (`Ġthe` is " the"), or in SentencePiece's spelling (`▁the` is " the").
    pub fn id_of(&self, piece: &str) -> Option<u32> {
        self.vocabulary.special_id(piece).or_else(|| self.encoder.id_of(piece))
    }

    /// The token of a byte that is no character by itself.
    fn id_of_byte(&self, byte: u8) -> Option<u32> {
        match &self.encoder {
            Encoder::ByteLevel(encoder) => encoder.id_of_byte(byte),
            Encoder::SentencePiece(encoder) => encoder.id_of_byte(byte),
        }
    }

    /// Whether a token is a control token, which has no place in text for people.
    pub fn is_control(&self, id: u32) -> bool {
        self.vocabulary.kind(id) == Some(Kind::Control)
    }

    /// Whether a token is a byte that SentencePiece has no piece for.
    fn is_byte(&self, id: u32) -> bool {
        self.vocabulary.kind(id) == Some(Kind::Byte)
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

    /// Whether the file asks for [`Self::eos`] behind a text that is complete. No function here adds it.
    pub fn add_eos(&self) -> bool {
        self.add_eos
    }

    /// A stream that turns tokens into text as they come, from the start of a text.
    pub fn stream(&self) -> DecodeStream<&Self> {
        DecodeStream::new(self)
    }

    /// The spaces that decoding leaves out at the start of a text.
    fn stripping(&self) -> Stripping {
        match &self.encoder {
            Encoder::SentencePiece(encoder) if encoder.removes_spaces() => Stripping::All,
            Encoder::SentencePiece(encoder) if encoder.adds_space() => Stripping::One,
            Encoder::ByteLevel(_) | Encoder::SentencePiece(_) => Stripping::Nothing,
        }
    }
}

impl Encoder {
    fn encode(&self, text: &str, place: Place, ids: &mut Vec<u32>) -> Result<()> {
        match self {
            Self::ByteLevel(encoder) => encoder.encode(text, place, ids),
            Self::SentencePiece(encoder) => encoder.encode(text, place, ids),
        }
    }

    fn id_of(&self, piece: &str) -> Option<u32> {
        match self {
            Self::ByteLevel(encoder) => encoder.id_of(piece),
            Self::SentencePiece(encoder) => encoder.id_of(piece),
        }
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
