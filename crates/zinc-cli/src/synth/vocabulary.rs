//! Makes up a vocabulary: byte-level BPE as that of Qwen3, with words that mean nothing.
//!
//! It starts with the 256 bytes and ends with the control tokens; between them are all pairs of lower-case letters, a space before
//! them or not, and random words of 3 to 8 letters. The pairs alone can be merged, so that text becomes tokens of one and two bytes; what
//! a model makes up has words of every length, as real text has.

use std::collections::HashSet;

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::RngCore as _;
use zinc_model::gguf::{Array, Value, Writer};
use zinc_model::tokenizer::char_of;

/// The control tokens, which are the last ids of the vocabulary, in this order: end of text, start and end of a message.
const CONTROL: [&str; 3] = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"];

const TEMPLATE: &str = "{%- for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n\
                        {% endfor %}{%- if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

// The numbers of token types in `token_type`.
const NORMAL: i32 = 1;
const CONTROL_KIND: i32 = 3;

/// Sets the tokenizer's keys, with `size` tokens and this pre-tokenizer.
///
/// # Panics
/// If `size` is below 1,024: bytes, pairs and control tokens take 961.
pub(super) fn set_metadata(size: u32, pre_tokenizer: &str, random: &mut Xoshiro256PlusPlus, writer: &mut Writer) {
    assert!(size >= 1024, "a vocabulary of {size} tokens has no room for the bytes and pairs");
    let (tokens, merges) = tokens(size as usize, random);
    let text = tokens.len() - CONTROL.len();
    let kinds = (0..tokens.len()).map(|id| if id < text { NORMAL } else { CONTROL_KIND }).collect();
    let last = size - 1;
    writer
        .set("tokenizer.ggml.model", Value::String("gpt2".to_owned()))
        .set("tokenizer.ggml.pre", pre_tokenizer)
        .set("tokenizer.ggml.tokens", Value::Array(Array::String(tokens)))
        .set("tokenizer.ggml.token_type", Value::Array(Array::I32(kinds)))
        .set("tokenizer.ggml.merges", Value::Array(Array::String(merges)))
        .set("tokenizer.ggml.bos_token_id", last - 2)
        .set("tokenizer.ggml.eos_token_id", last)
        .set("tokenizer.ggml.padding_token_id", last - 2)
        .set("tokenizer.ggml.add_bos_token", Value::Bool(false))
        .set("tokenizer.chat_template", Value::String(TEMPLATE.to_owned()));
}

/// The tokens, and the merges that make them.
fn tokens(size: usize, random: &mut Xoshiro256PlusPlus) -> (Vec<String>, Vec<String>) {
    let space = char_of(b' ');
    let mut tokens: Vec<String> = (0..=255).map(|byte| char_of(byte).to_string()).collect();
    let mut merges = Vec::new();
    for first in std::iter::once(space).chain('a'..='z') {
        for second in 'a'..='z' {
            tokens.push(format!("{first}{second}"));
            merges.push(format!("{first} {second}"));
        }
    }
    let mut seen = HashSet::new();
    while tokens.len() < size - CONTROL.len() {
        let word = word(random.next_u64(), space);
        if seen.insert(word.clone()) {
            tokens.push(word);
        }
    }
    tokens.extend(CONTROL.map(str::to_owned));
    (tokens, merges)
}

/// A random word of 3 to 8 bytes, the first of which is a space in half of the cases.
fn word(mut random: u64, space: char) -> String {
    let mut draw = |below: u64| {
        let drawn = random % below;
        random /= below;
        drawn
    };
    let with_space = draw(2) == 0;
    let letters = 3 + draw(6) - u64::from(with_space);
    let start = if with_space { Some(space) } else { None };
    // The largest number drawn is 26^8 * 12, which is below 2^64.
    start.into_iter().chain((0..letters).map(|_| char::from(b'a' + draw(26) as u8))).collect()
}

#[cfg(test)]
mod tests {
    use rand_xoshiro::rand_core::SeedableRng as _;
    use zinc_model::{Special, Tokenizer};

    use super::*;

    #[test]
    fn it_is_a_vocabulary_that_says_every_text() {
        let mut writer = Writer::new();
        set_metadata(2048, "qwen2", &mut Xoshiro256PlusPlus::seed_from_u64(1), &mut writer);
        let tokenizer = Tokenizer::from_metadata(writer.metadata()).unwrap();
        assert_eq!(tokenizer.vocab_size(), 2048);
        let text = "Hello there, \u{1f600}\n";
        let ids = tokenizer.encode(text, Special::Plain).unwrap();
        assert!(ids.len() < text.len(), "pairs are merged: {ids:?}");
        assert_eq!(tokenizer.decode(&ids), text);
        assert_eq!(tokenizer.eog(), [2045, 2047]);
        let lengths: HashSet<usize> = (0..2045).map(|id| tokenizer.token_bytes(id).unwrap().len()).collect();
        assert_eq!(lengths, (1..=8).collect());
    }
}
