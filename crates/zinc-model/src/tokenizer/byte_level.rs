//! Byte-level BPE: words of bytes, and pairs of tokens merged in the order of a list. The `tokenizers` crate does the
//! work.

use tokenizers::models::bpe::{BPE, Vocab};
use tokenizers::normalizers::NFC;
use tokenizers::pre_tokenizers::sequence::Sequence;
use tokenizers::{DecoderWrapper, Model as _, NormalizedString, Normalizer as _, PostProcessorWrapper, TokenizerImpl};

use crate::error::{Error, Result};
use crate::gguf::Metadata;
use crate::tokenizer::vocabulary::{KEY_TOKENS, Kind, Vocabulary, bad};
use crate::tokenizer::words::Words;
use crate::tokenizer::{Place, bytes};

const KEY_PRE: &str = "tokenizer.ggml.pre";
const KEY_MERGES: &str = "tokenizer.ggml.merges";

/// The encoder of a file whose `tokenizer.ggml.model` is `gpt2`.
pub(super) struct ByteLevel {
    bpe: TokenizerImpl<BPE, NFC, Sequence, PostProcessorWrapper, DecoderWrapper>,
    words: &'static Words,
    /// Bytes that the vocabulary has no token for. Usually none.
    missing_bytes: Vec<u8>,
    /// Whether text that starts without a space gets one.
    adds_space: bool,
}

impl ByteLevel {
    /// `adds_space` is what the file says of a space before text; `None` where it says nothing.
    pub(super) fn new(metadata: &Metadata, vocabulary: &Vocabulary, adds_space: Option<bool>) -> Result<Self> {
        let words = Words::from_name(metadata.get_str(KEY_PRE)?)?;
        let mut bpe = TokenizerImpl::new(merges(metadata, vocabulary, words)?);
        bpe.with_normalizer(words.normalizer()).map_err(Error::Tokenizer)?;
        bpe.with_pre_tokenizer(Some(words.splitter()?));
        let is_missing = |&byte: &u8| bpe.get_model().token_to_id(&piece_of(byte)).is_none();
        let missing_bytes = (0..=255).filter(is_missing).collect();
        let adds_space = adds_space.unwrap_or(false) && words.may_add_space();
        Ok(Self { bpe, words, missing_bytes, adds_space })
    }

    /// Whether a prompt starts with BOS where the file does not say so.
    pub(super) fn adds_bos(&self) -> bool {
        self.words.adds_bos
    }

    /// Appends the tokens of `text`, which stands at `place`.
    pub(super) fn encode(&self, text: &str, place: Place, ids: &mut Vec<u32>) -> Result<()> {
        self.check_bytes(text)?;
        let encoding = if self.adds_space && place != Place::Inside && !text.starts_with(' ') {
            self.bpe.encode_fast(format!(" {text}"), false)
        } else {
            self.bpe.encode_fast(text, false)
        };
        ids.extend_from_slice(encoding.map_err(Error::Tokenizer)?.get_ids());
        Ok(())
    }

    pub(super) fn id_of(&self, piece: &str) -> Option<u32> {
        self.bpe.get_model().token_to_id(piece)
    }

    pub(super) fn id_of_byte(&self, byte: u8) -> Option<u32> {
        self.id_of(&piece_of(byte))
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
}

fn piece_of(byte: u8) -> String {
    bytes::char_of(byte).to_string()
}

/// The merges of the file over the tokens that merging may come out at, so that it never comes out at another.
fn merges(metadata: &Metadata, vocabulary: &Vocabulary, words: &Words) -> Result<BPE> {
    let pieces = metadata.require_strings(KEY_TOKENS)?;
    let mut vocab = Vocab::with_capacity(pieces.len());
    for (id, piece) in (0..).zip(pieces) {
        if vocabulary.kind(id).is_some_and(Kind::is_merged) {
            vocab.entry(piece.clone()).or_insert(id);
        }
    }

    let pairs = metadata.require_strings(KEY_MERGES)?;
    let mut merges = Vec::with_capacity(pairs.len());
    let mut merged = String::new();
    for (index, pair) in pairs.iter().enumerate() {
        let Some((left, right)) = pair.split_once(' ') else {
            let found = format!("{pair:?} at index {index}");
            return Err(bad(KEY_MERGES, found, "two pieces with a space between them"));
        };
        merged.clear();
        merged.push_str(left);
        merged.push_str(right);
        // A merge that starts or ends outside of the vocabulary can never take place.
        if [left, right, &merged].into_iter().all(|piece| vocab.contains_key(piece)) {
            merges.push((left.to_owned(), right.to_owned()));
        }
    }
    if merges.len() < pairs.len() {
        tracing::debug!(dropped = pairs.len() - merges.len(), "merges of pieces outside of the vocabulary");
    }
    let bpe = BPE::builder().vocab_and_merges(vocab, merges).ignore_merges(words.takes_whole_words);
    bpe.build().map_err(Error::Tokenizer)
}
