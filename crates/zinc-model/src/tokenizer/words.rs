//! Pre-tokenizers: how text is normalised and cut into words before pairs are merged, by the names that files use.

use tokenizers::normalizers::NFC;
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::pre_tokenizers::sequence::Sequence;
use tokenizers::pre_tokenizers::split::{Split, SplitPattern};
use tokenizers::{PreTokenizerWrapper, SplitDelimiterBehavior};

use crate::error::{Error, Result};

/// Contractions, words, single digits, runs of other signs, line ends, spaces; on text in normal form C.
const QWEN2: &str = concat!(
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|",
    r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
);

/// As [`QWEN2`], with digits in groups of up to three.
const LLAMA3: &str = concat!(
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|",
    r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
);

const GPT2: &str = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+";

/// A pre-tokenizer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Words {
    Qwen2,
    Llama3,
    Gpt2,
}

impl Words {
    const SUPPORTED: &[&str] = &["qwen2", "llama-bpe", "gpt-2"];

    /// The pre-tokenizer of a name in `tokenizer.ggml.pre`.
    pub(super) fn from_name(name: &str) -> Result<Self> {
        match name {
            "qwen2" => Ok(Self::Qwen2),
            "llama-bpe" | "llama3" | "llama-v3" => Ok(Self::Llama3),
            "gpt-2" => Ok(Self::Gpt2),
            _ => Err(Error::PreTokenizer { found: name.to_owned(), supported: Self::SUPPORTED }),
        }
    }

    pub(super) fn normalizer(self) -> Option<NFC> {
        (self == Self::Qwen2).then_some(NFC)
    }

    /// Whether a word that is a token as a whole is taken as it is, whatever the merges would make of it.
    pub(super) fn takes_whole_words(self) -> bool {
        self == Self::Llama3
    }

    /// Cuts text by the pattern, then maps bytes to the alphabet of [`super::bytes`].
    pub(super) fn splitter(self) -> Result<Sequence> {
        let pattern = match self {
            Self::Qwen2 => QWEN2,
            Self::Llama3 => LLAMA3,
            Self::Gpt2 => GPT2,
        };
        let pattern = SplitPattern::Regex(pattern.to_owned());
        // The third argument asks for what lies between matches; these patterns match everything.
        let split = Split::new(pattern, SplitDelimiterBehavior::Isolated, false).map_err(Error::Tokenizer)?;
        let bytes = ByteLevel::default().add_prefix_space(false).trim_offsets(false).use_regex(false);
        Ok(Sequence::new(vec![PreTokenizerWrapper::Split(split), PreTokenizerWrapper::ByteLevel(bytes)]))
    }
}
