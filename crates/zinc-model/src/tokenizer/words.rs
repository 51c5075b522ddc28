//! Pre-tokenizers: how byte-level vocabularies want text normalised and cut into words before pairs of tokens are merged.
//!
//! A file names its pre-tokenizer in `tokenizer.ggml.pre`. The steps are those that the authors of the vocabularies
//! published in `tokenizer.json`, in the same order, run by the `tokenizers` crate.

use tokenizers::normalizers::NFC;
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::pre_tokenizers::digits::Digits;
use tokenizers::pre_tokenizers::punctuation::Punctuation;
use tokenizers::pre_tokenizers::sequence::Sequence;
use tokenizers::pre_tokenizers::split::{Split, SplitPattern};
use tokenizers::{PreTokenizerWrapper, SplitDelimiterBehavior};

use crate::error::{Error, Result};

/// The end of the patterns that were made from GPT-4's: runs of other signs with the line ends behind them, line ends,
/// spaces that no word follows, spaces.
macro_rules! signs_and_spaces {
    () => {
        r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    };
}

/// A word that changes from capital to small letters at most once. `$ends` is a pattern for what may follow it.
macro_rules! cased_words {
    ($ends:literal) => {
        concat!(
            r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+",
            $ends,
            r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*",
            $ends
        )
    };
}

/// Contractions, words with one sign before them, single digits, signs, spaces.
const QWEN2: &str = concat!(r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|", signs_and_spaces!());

/// The pattern of Qwen 3.5: [`QWEN2`] with combining marks as a part of words.
const QWEN35: &str = concat!(
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}|",
    r" ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
);

/// The pattern of Llama 3 (GPT-4's): [`QWEN2`] with digits in groups of up to three.
const LLAMA3: &str = concat!(r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|", signs_and_spaces!());

/// The pattern of MiniCPM 5: [`LLAMA3`] with digits in runs, since a step before it has cut them already.
const MINICPM5: &str = concat!(r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}+|", signs_and_spaces!());

/// The pattern of Seed-Coder: [`QWEN2`] with line ends apart from the signs before them.
const SEED_CODER: &str = concat!(
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}|",
    r" ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+"
);

/// The pattern of GPT-4o: words by their capitals, with a contraction at the end; digits in groups of up to three.
const GPT4O: &str = concat!(
    cased_words!(r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"),
    r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
);

/// The pattern of Mistral's Tekken: words by their capitals, single digits.
const TEKKEN: &str = concat!(cased_words!(""), r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+");

/// The last step of DeepSeek V3: a sign with Latin letters, words with marks, signs, spaces.
const DEEPSEEK_V3: &str = concat!(
    "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|",
    r"[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
);

/// The letters with capital and small forms that DeepSeek LLM takes for words.
const DEEPSEEK_LLM_LETTERS: &str = concat!(
    r"\s?[A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-ՖႠ-ჅᎠ-Ᏽᏸ-ᏽᲐ-ᲺᲽ-Ჿᴀ-ᴫᵫ-ᵷᵹ-ᶚ",
    r"Ḁ-ἕἘ-Ἕἠ-ὅὈ-Ὅὐ-ὗὙὛὝὟ-\x{1f7d}ᾀ-ᾴᾶ-ᾼ\x{1fbe}ῂ-ῄῆ-ῌῐ-\x{1fd3}ῖ-\x{1fdb}ῠ-Ῥῲ-ῴῶ-ῼ",
    r"ℂℇℊ-ℓℕℙ-ℝℤ\x{2126}ℨ\x{212a}-ℭℯ-ℴℹℼ-ℿⅅ-ⅉⅎↃↄⰀ-ⱻⱾ-ⳤⳫ-ⳮⳲⳳꙀ-ꙭꚀ-ꚛꜢ-ꝯꝱ-ꞇꞋ-ꞎꭰ-ꮿﬀ-ﬆﬓ-ﬗＡ-Ｚａ-ｚ",
    r"𐐀-𐑏𐒰-𐓓𐓘-𐓻𐲀-𐲲𐳀-𐳲𑢠-𑣟𞤀-𞥃]+"
);

/// Han and its neighbours, as DeepSeek LLM and DeepSeek Coder have them.
const DEEPSEEK_HAN: &str = "[一-龥ࠀ-一가-퟿]+";

/// One step of a pre-tokenizer. Each cuts the pieces that the steps before it have left.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// Every match of a pattern becomes a piece, and so does what lies between two matches.
    Split(&'static str),
    /// Every numeric character becomes a piece.
    SingleDigits,
    /// Every run of numeric characters becomes a piece.
    DigitRuns,
    /// Every run of punctuation becomes a piece.
    Punctuation,
    /// Bytes become characters of the alphabet of [`super::bytes`].
    Bytes,
    /// GPT-2's pattern cuts, then bytes become characters as in [`Step::Bytes`].
    Gpt2,
}

/// A pre-tokenizer.
#[derive(Debug)]
pub(super) struct Words {
    /// The names that files use for it. The first one names the vocabulary that the steps were published with.
    names: &'static [&'static str],
    /// Whether text is brought to normal form C first.
    is_composed: bool,
    steps: &'static [Step],
    /// Whether a word that is a token as a whole is taken as it is, whatever the merges would make of it.
    pub(super) takes_whole_words: bool,
    /// Whether a prompt starts with BOS in files that do not say so.
    pub(super) adds_bos: bool,
}

/// What the pre-tokenizers in [`ALL`] have unless they say otherwise.
const PLAIN: Words = Words { names: &[], is_composed: false, steps: &[], takes_whole_words: false, adds_bos: false };

/// The pre-tokenizers that [`Words::from_name`] knows.
static ALL: [Words; 16] = [
    Words {
        names: &["qwen2", "deepseek-r1-qwen", "megrez", "kormo", "f2llmv2"],
        is_composed: true,
        steps: &[Step::Split(QWEN2), Step::Bytes],
        ..PLAIN
    },
    Words { names: &["qwen35"], is_composed: true, steps: &[Step::Split(QWEN35), Step::Bytes], ..PLAIN },
    Words {
        names: &["llama-bpe", "llama3", "llama-v3", "falcon3", "pixtral", "midm-2.0"],
        steps: &[Step::Split(LLAMA3), Step::Bytes],
        takes_whole_words: true,
        adds_bos: true,
        ..PLAIN
    },
    Words { names: &["smaug-bpe"], steps: &[Step::Split(LLAMA3), Step::Bytes], ..PLAIN },
    Words {
        names: &["minicpm5"],
        steps: &[Step::Split(r"\p{N}{1,3}"), Step::Split(MINICPM5), Step::Bytes],
        takes_whole_words: true,
        ..PLAIN
    },
    Words { names: &["seed-coder"], steps: &[Step::Split(SEED_CODER), Step::Bytes], ..PLAIN },
    Words {
        names: &["gpt-4o", "llama4", "kanana2"],
        steps: &[Step::Split(GPT4O), Step::Bytes],
        takes_whole_words: true,
        ..PLAIN
    },
    Words {
        names: &["tekken"],
        steps: &[Step::Split(TEKKEN), Step::Bytes],
        takes_whole_words: true,
        adds_bos: true,
        ..PLAIN
    },
    Words {
        names: &["gpt-2", "phi-2", "a.x-4.0", "mellum", "trillion", "granite-docling"],
        steps: &[Step::Gpt2],
        ..PLAIN
    },
    Words { names: &["olmo", "mpt"], is_composed: true, steps: &[Step::Gpt2], ..PLAIN },
    Words {
        names: &["smollm", "starcoder", "refact", "codeshell", "minerva-7b"],
        steps: &[Step::SingleDigits, Step::Gpt2],
        ..PLAIN
    },
    Words { names: &["command-r"], is_composed: true, steps: &[Step::SingleDigits, Step::Gpt2], ..PLAIN },
    Words {
        names: &["deepseek-llm"],
        steps: &[
            Step::Split(r"[\r\n]"),
            Step::Split(DEEPSEEK_LLM_LETTERS),
            Step::Split(r"\s?[!-/:-~！-／：-～‘-‟　-。]+"),
            Step::Split(r"\s+$"),
            Step::Split(DEEPSEEK_HAN),
            Step::SingleDigits,
            Step::Bytes,
        ],
        ..PLAIN
    },
    Words {
        names: &["deepseek-coder"],
        steps: &[
            Step::Split(r"[\r\n]"),
            Step::Split(r"\s?\p{L}+"),
            Step::Split(r"\s?\p{P}+"),
            Step::Split(DEEPSEEK_HAN),
            Step::SingleDigits,
            Step::Bytes,
        ],
        ..PLAIN
    },
    Words {
        names: &["deepseek-v3"],
        steps: &[
            Step::Split(r"\p{N}{1,3}"),
            Step::Split("[一-龥\u{3040}-ゟ゠-ヿ]+"),
            Step::Split(DEEPSEEK_V3),
            Step::Bytes,
        ],
        ..PLAIN
    },
    // Falcon's steps, which llama.cpp takes for vocabularies whose files name no pre-tokenizer, too.
    Words {
        names: &["falcon", "default"],
        steps: &[Step::Punctuation, Step::Gpt2, Step::DigitRuns, Step::Split("[0-9][0-9][0-9]")],
        ..PLAIN
    },
];

/// The name of the pre-tokenizer of files that name none.
const UNNAMED: &str = "default";

impl Words {
    /// The pre-tokenizer of a name in `tokenizer.ggml.pre`; `None` is that of a file without the key.
    ///
    /// # Errors
    /// [`Error::PreTokenizer`] for a name that is not known.
    pub(super) fn from_name(name: Option<&str>) -> Result<&'static Self> {
        let name = name.unwrap_or(UNNAMED);
        if name == UNNAMED {
            tracing::warn!(
                "the file names no pre-tokenizer; its tokens may not be those that the model was trained on"
            );
        }
        ALL.iter()
            .find(|words| words.names.contains(&name))
            .ok_or_else(|| Error::PreTokenizer { found: name.to_owned(), supported: Self::names() })
    }

    /// Every name that [`Self::from_name`] knows.
    fn names() -> Vec<&'static str> {
        ALL.iter().flat_map(|words| words.names).copied().collect()
    }

    pub(super) fn normalizer(&self) -> Option<NFC> {
        self.is_composed.then_some(NFC)
    }

    /// Whether `tokenizer.ggml.add_space_prefix` counts. Transformers heeds the like key where GPT-2's step stands alone.
    pub(super) fn may_add_space(&self) -> bool {
        matches!(self.steps, [Step::Gpt2])
    }

    /// The steps as the `tokenizers` crate runs them. What comes out is in the alphabet of [`super::bytes`].
    pub(super) fn splitter(&self) -> Result<Sequence> {
        let steps = self.steps.iter().map(|step| step.pre_tokenizer());
        Ok(Sequence::new(steps.collect::<Result<_>>()?))
    }
}

impl Step {
    fn pre_tokenizer(self) -> Result<PreTokenizerWrapper> {
        let bytes = |cuts| ByteLevel::default().add_prefix_space(false).trim_offsets(false).use_regex(cuts);
        Ok(match self {
            Self::Split(pattern) => {
                let pattern = SplitPattern::Regex(pattern.to_owned());
                // With the third argument, what lies between the matches would be taken for the matches.
                let split = Split::new(pattern, SplitDelimiterBehavior::Isolated, false);
                PreTokenizerWrapper::Split(split.map_err(Error::Tokenizer)?)
            }
            Self::SingleDigits => PreTokenizerWrapper::Digits(Digits::new(true)),
            Self::DigitRuns => PreTokenizerWrapper::Digits(Digits::new(false)),
            Self::Punctuation => PreTokenizerWrapper::Punctuation(Punctuation::new(SplitDelimiterBehavior::Contiguous)),
            Self::Bytes => PreTokenizerWrapper::ByteLevel(bytes(false)),
            Self::Gpt2 => PreTokenizerWrapper::ByteLevel(bytes(true)),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn each_name_is_there_once_and_every_pattern_compiles() {
        let names = Words::names();
        assert_eq!(names.iter().collect::<HashSet<_>>().len(), names.len());
        for name in names {
            Words::from_name(Some(name)).unwrap().splitter().unwrap();
        }
        assert!(Words::from_name(None).is_ok());
    }
}
