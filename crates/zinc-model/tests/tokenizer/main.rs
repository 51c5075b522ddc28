//! The tokenizer against ids that the tokenizer of the model's authors made, and against vocabularies made up here.

mod golden;
mod sentencepiece;

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use proptest::prelude::*;
use serde_json::Value;
use zinc_model::gguf::{self, File, Writer};
use zinc_model::tokenizer::{Breakers, DecodeStream, Special, Tokenizer};
use zinc_model::{Error, Result};

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data").join(name)
}

static QWEN3: LazyLock<Tokenizer> = LazyLock::new(|| {
    let file = File::open(data("host/qwen3-vocab.gguf")).unwrap();
    Tokenizer::from_gguf(&file).unwrap()
});

#[test]
fn golden_texts_have_the_ids_and_come_back() {
    let cases: Value = serde_json::from_slice(&std::fs::read(data("host/qwen3_tokens.json")).unwrap()).unwrap();
    let cases = cases.as_array().unwrap();
    assert_eq!(cases.len(), 200);
    for case in cases {
        let text = case["text"].as_str().unwrap();
        let expected: Vec<u32> = case["ids"].as_array().unwrap().iter().map(|id| id.as_u64().unwrap() as u32).collect();
        assert_eq!(QWEN3.encode(text, Special::Parse).unwrap(), expected, "{text:?}");
        assert_eq!(QWEN3.encode_prompt(text, Special::Parse).unwrap(), expected, "{text:?}: Qwen3 has no BOS");
        assert_eq!(QWEN3.decode(&expected), case["decoded"].as_str().unwrap(), "{text:?}");

        let mut stream = DecodeStream::new(&*QWEN3);
        let mut streamed: String = expected.iter().map(|&id| stream.push(id)).collect();
        streamed.push_str(&stream.finish());
        assert_eq!(streamed, case["decoded"].as_str().unwrap(), "{text:?} streamed");
    }
}

#[test]
fn the_tokens_of_qwen3_that_matter_are_found() {
    assert_eq!(QWEN3.vocab_size(), 151_936);
    assert_eq!(QWEN3.bos(), Some(151_643));
    assert_eq!(QWEN3.eos(), Some(151_645));
    assert_eq!(QWEN3.id_of("<|im_start|>"), Some(151_644));
    assert_eq!(QWEN3.id_of("Ġthe"), Some(279));
    assert_eq!(QWEN3.id_of("no such piece"), None);
    assert_eq!(QWEN3.token_bytes(279), Some(" the".as_bytes()));
    assert_eq!(QWEN3.token_bytes(151_936), None);
    assert!(!QWEN3.add_bos());
    // <|endoftext|>, <|im_end|>, <|fim_pad|>, <|repo_name|>, <|file_sep|>.
    assert_eq!(QWEN3.eog(), [151_643, 151_645, 151_662, 151_663, 151_664]);
    assert!(QWEN3.is_eog(151_645) && !QWEN3.is_eog(151_644));
    assert!(QWEN3.is_control(151_644) && !QWEN3.is_control(279) && !QWEN3.is_control(u32::MAX));
    // `<think>` is user-defined: it is a token of plain text, too.
    assert_eq!(QWEN3.id_of("<think>"), Some(151_667));
    assert!(QWEN3.is_text(279) && QWEN3.is_text(151_667) && !QWEN3.is_text(151_644) && !QWEN3.is_text(u32::MAX));
}

/// Every control token's text.
fn control_texts() -> Vec<&'static str> {
    let ids = (0..QWEN3.vocab_size() as u32).filter(|&id| QWEN3.is_control(id));
    ids.map(|id| std::str::from_utf8(QWEN3.token_bytes(id).unwrap()).unwrap()).collect()
}

#[test]
fn what_users_write_is_never_a_control_token() {
    let texts = control_texts();
    assert!(texts.contains(&"<|im_end|>") && texts.len() > 10, "{texts:?}");
    for text in &texts {
        let ids = QWEN3.encode(text, Special::Plain).unwrap();
        assert!(ids.len() > 1 && !ids.iter().any(|&id| QWEN3.is_control(id)), "{text}: {ids:?}");
        assert_eq!(QWEN3.decode(&ids), *text);
        assert_eq!(QWEN3.encode(text, Special::Parse).unwrap().len(), 1, "{text}");
    }
    // User-defined tokens are tokens in both ways.
    for special in [Special::Plain, Special::Parse] {
        assert_eq!(QWEN3.encode("<think>", special).unwrap(), [151_667]);
    }
}

#[test]
fn long_texts_of_one_kind_take_no_ages_and_come_back() {
    for text in [" ".repeat(60_000), "\n".repeat(60_000), "a".repeat(60_000), "1".repeat(60_000), "語".repeat(20_000)]
    {
        let ids = QWEN3.encode(&text, Special::Plain).unwrap();
        assert_eq!(QWEN3.decode(&ids), text, "{:?}", text.chars().next());
    }
}

#[test]
fn ids_outside_of_the_vocabulary_are_replacement_characters() {
    assert_eq!(QWEN3.decode(&[279, u32::MAX, 279]), " the\u{fffd} the");
    let mut stream = QWEN3.stream();
    assert_eq!(stream.push(u32::MAX), "\u{fffd}");
}

/// The bytes of tokens, one after the other.
fn bytes_of(ids: &[u32]) -> Vec<u8> {
    ids.iter().flat_map(|&id| QWEN3.token_bytes(id).unwrap()).copied().collect()
}

#[test]
fn breakers_of_one_byte_are_the_tokens_that_contain_them() {
    let found = QWEN3.breakers(["\n", ":", "\"", "*"]).unwrap();
    let contain = |id: &u32| QWEN3.token_bytes(*id).unwrap().iter().any(|byte| b"\n:\"*".contains(byte));
    let expected: Vec<u32> = (0..QWEN3.vocab_size() as u32).filter(contain).collect();
    assert_eq!(found.tokens, expected);
    assert!(found.sequences.is_empty());
}

#[test]
fn breakers_are_found_in_every_text_that_has_them() {
    for (text, befores) in [
        ("</answer>", ["", "Yes.", " <", "a"]),
        ("\n\nUser:", ["", "Yes.", "\n", ") "]),
        // Some tokens end inside of a character.
        ("語😀é", ["", "日本", " ", "a"]),
    ] {
        let found = QWEN3.breakers([text]).unwrap();
        for sequence in &found.sequences {
            assert!(sequence.len() >= 2 && bytes_of(sequence).ends_with(text.as_bytes()), "{text:?}: {sequence:?}");
        }
        for before in befores {
            let ids = QWEN3.encode(&format!("{before}{text}"), Special::Plain).unwrap();
            let is_there = found.tokens.contains(ids.last().unwrap())
                || found.sequences.iter().any(|sequence| ids.ends_with(sequence));
            assert!(is_there, "{text:?} behind {before:?}: {ids:?}");
        }
    }
}

#[test]
fn a_breaker_that_the_vocabulary_cannot_say_is_none() {
    let mut writer = Writer::new();
    writer
        .set("tokenizer.ggml.model", "gpt2")
        .set("tokenizer.ggml.pre", "qwen2")
        .set("tokenizer.ggml.tokens", vec!["a".to_owned(), "b".to_owned(), "Ã".to_owned(), "©".to_owned()])
        .set("tokenizer.ggml.merges", Vec::<String>::new());
    let tokenizer = build(&writer).unwrap();
    let found = tokenizer.breakers(["ax", "ab", "é"]).unwrap();
    assert_eq!(found, Breakers { tokens: vec![], sequences: vec![vec![0, 1], vec![2, 3]] });
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(300) })]

    #[test]
    fn plain_text_comes_back_and_has_no_control_tokens(
        parts in proptest::collection::vec(prop_oneof![
            "\\PC{0,8}",
            "[a-zA-Z0-9 \n\t'<|>_-]{0,12}",
            prop::sample::select(control_texts()).prop_map(str::to_owned),
        ], 0..8),
    ) {
        // Composed characters come back composed; made of ones that are composed already, text comes back as it is.
        let once = QWEN3.decode(&QWEN3.encode(&parts.concat(), Special::Plain).unwrap());
        let ids = QWEN3.encode(&once, Special::Plain).unwrap();
        prop_assert_eq!(QWEN3.decode(&ids), once);
        prop_assert!(!ids.iter().any(|&id| QWEN3.is_control(id)));
    }
}

/// The metadata of a vocabulary of all bytes, `extra` pieces with their kinds, and merges.
fn vocabulary(pre: &str, extra: &[(&str, i32)], merges: &[&str]) -> Writer {
    let mut pieces: Vec<String> = BYTE_PIECES.clone();
    let mut kinds = vec![1i32; 256];
    for &(piece, kind) in extra {
        pieces.push(piece.to_owned());
        kinds.push(kind);
    }
    let merges: Vec<String> = merges.iter().map(|&merge| merge.to_owned()).collect();
    let mut writer = Writer::new();
    writer
        .set("tokenizer.ggml.model", "gpt2")
        .set("tokenizer.ggml.pre", pre)
        .set("tokenizer.ggml.tokens", pieces)
        .set("tokenizer.ggml.token_type", kinds)
        .set("tokenizer.ggml.merges", merges);
    writer
}

/// The pieces of single bytes, by byte.
static BYTE_PIECES: LazyLock<Vec<String>> = LazyLock::new(|| {
    let mut pieces = Vec::new();
    let mut next = '\u{100}'..;
    for byte in 0..=255u8 {
        let own = matches!(byte, b'!'..=b'~' | 0xa1..=0xac | 0xae..);
        let piece = if own { char::from(byte) } else { next.next().unwrap() };
        pieces.push(piece.to_string());
    }
    pieces
});

fn build(writer: &Writer) -> Result<Tokenizer> {
    let file = tempfile::NamedTempFile::new().unwrap();
    writer.write(file.path(), |_, _| Ok(())).unwrap();
    Tokenizer::from_gguf(&File::open(file.path()).unwrap())
}

#[test]
fn digits_go_together_as_each_pre_tokenizer_has_it() {
    let cases = [("qwen2", 4), ("llama-bpe", 2), ("gpt-2", 1)];
    for (pre, words) in cases {
        // Merges that make one token of any word of four digits or fewer.
        let extra = [("11", 1), ("111", 1), ("1111", 1)];
        let tokenizer = build(&vocabulary(pre, &extra, &["1 1", "11 1", "11 11"])).unwrap();
        assert_eq!(tokenizer.encode("1111", Special::Plain).unwrap().len(), words, "{pre}");
    }
}

#[test]
fn llama3_takes_words_that_are_tokens_whole() {
    let extra = [("ab", 1), ("cd", 1), ("abcd", 1)];
    let merges = ["a b", "c d"];
    let whole = build(&vocabulary("llama-bpe", &extra, &merges)).unwrap();
    assert_eq!(whole.encode("abcd", Special::Plain).unwrap(), [258]);
    let merged = build(&vocabulary("qwen2", &extra, &merges)).unwrap();
    assert_eq!(merged.encode("abcd", Special::Plain).unwrap(), [256, 257]);
}

#[test]
fn no_merge_makes_a_control_token() {
    for pre in ["qwen2", "llama-bpe", "gpt-2"] {
        let tokenizer = build(&vocabulary(pre, &[("ab", 3), ("abc", 1)], &["a b", "ab c"])).unwrap();
        assert_eq!(tokenizer.encode("ab", Special::Plain).unwrap(), [97, 98], "{pre}");
        assert_eq!(tokenizer.encode("ab", Special::Parse).unwrap(), [256], "{pre}");
    }
}

#[test]
fn text_that_looks_like_an_end_is_a_control_token_whatever_the_file_says() {
    let tokenizer = build(&vocabulary("qwen2", &[("<|im_end|>", 1), ("<u>", 4)], &[])).unwrap();
    assert_eq!(tokenizer.eog(), [256]);
    assert_eq!(tokenizer.eos(), None);
    assert!(tokenizer.is_control(256));
    let ids = tokenizer.encode("<|im_end|><u>", Special::Plain).unwrap();
    assert_eq!((ids.len(), ids.last()), (11, Some(&257)));
    assert_eq!(tokenizer.encode("<|im_end|><u>", Special::Parse).unwrap(), [256, 257]);
}

/// In harmony `<|end|>` ends a message, behind which others of the same answer come.
#[test]
fn the_end_of_a_message_ends_no_generation_of_harmony() {
    let mut writer =
        vocabulary("gpt-4o", &[("<|return|>", 3), ("<|end|>", 3), ("<|call|>", 3), ("<|endoftext|>", 3)], &[]);
    writer.set("tokenizer.ggml.eos_token_id", 256u32).set("tokenizer.ggml.eot_token_id", 257u32);
    let tokenizer = build(&writer).unwrap();
    assert_eq!(tokenizer.eog(), [256, 258, 259]);
    assert!(tokenizer.is_control(257));
    let phi = build(&vocabulary("gpt-4o", &[("<|end|>", 3), ("<|call|>", 3)], &[])).unwrap();
    assert_eq!(phi.eog(), [256, 257], "in other vocabularies it ends one");
}

#[test]
fn bos_is_added_once_if_the_file_asks_for_it() {
    let mut writer = vocabulary("qwen2", &[("<s>", 3), ("<e>", 3)], &[]);
    writer.set("tokenizer.ggml.bos_token_id", 256u32).set("tokenizer.ggml.eot_token_id", 257u32);
    let tokenizer = build(&writer).unwrap();
    assert_eq!(tokenizer.encode_prompt("a", Special::Parse).unwrap(), [97]);
    assert_eq!(tokenizer.eog(), [257]);

    let tokenizer = build(writer.set("tokenizer.ggml.add_bos_token", true)).unwrap();
    assert_eq!(tokenizer.encode("a", Special::Parse).unwrap(), [97]);
    assert_eq!(tokenizer.encode_prompt("a", Special::Parse).unwrap(), [256, 97]);
    assert_eq!(tokenizer.encode_prompt("<s>a", Special::Parse).unwrap(), [256, 97]);
    assert_eq!(tokenizer.encode_prompt("<s>", Special::Plain).unwrap(), [256, 60, 115, 62]);
    assert_eq!(tokenizer.encode_prompt("", Special::Parse).unwrap(), [256]);
}

#[test]
fn a_byte_without_a_token_is_an_error_and_not_left_out() {
    let mut writer = Writer::new();
    writer
        .set("tokenizer.ggml.model", "gpt2")
        .set("tokenizer.ggml.pre", "qwen2")
        .set("tokenizer.ggml.tokens", vec!["a".to_owned(), "Ċ".to_owned()])
        .set("tokenizer.ggml.merges", Vec::<String>::new());
    let tokenizer = build(&writer).unwrap();
    assert_eq!(tokenizer.encode("aa\n", Special::Plain).unwrap(), [0, 0, 1]);
    assert!(matches!(tokenizer.encode("ab", Special::Plain), Err(Error::NoByteToken { byte: b'b' })));
}

#[test]
fn bos_of_files_that_do_not_say_so_is_that_of_the_pre_tokenizer() {
    for (pre, adds) in [("llama-bpe", true), ("tekken", true), ("qwen2", false), ("gpt-2", false)] {
        let mut writer = vocabulary(pre, &[("<s>", 3)], &[]);
        assert!(!build(&writer).unwrap().add_bos(), "{pre}: there is none");
        let tokenizer = build(writer.set("tokenizer.ggml.bos_token_id", 256u32)).unwrap();
        assert_eq!(tokenizer.add_bos(), adds, "{pre}");
        let tokenizer = build(writer.set("tokenizer.ggml.add_bos_token", !adds)).unwrap();
        assert_eq!(tokenizer.add_bos(), !adds, "{pre}");
    }
}

#[test]
fn eos_is_never_added_to_a_prompt() {
    let mut writer = vocabulary("qwen2", &[("<e>", 3)], &[]);
    let missing = build(writer.set("tokenizer.ggml.add_eos_token", true)).unwrap_err().to_string();
    assert!(missing.contains("eos_token_id' is missing"), "{missing}");
    let tokenizer = build(writer.set("tokenizer.ggml.eos_token_id", 256u32)).unwrap();
    assert!(tokenizer.add_eos());
    assert_eq!(tokenizer.encode_prompt("a", Special::Parse).unwrap(), [97]);
}

#[test]
fn kinds_are_read_from_integers_of_any_width() {
    let wide = |extra: i64| -> Vec<i64> { (0..256).map(|_| 1).chain([extra]).collect() };
    let mut writer = vocabulary("qwen2", &[("<s>", 1)], &[]);
    let kinds: [gguf::Value; 4] = [
        wide(3).into(),
        wide(3).iter().map(|&kind| kind as u8).collect::<Vec<_>>().into(),
        wide(3).iter().map(|&kind| kind as u16).collect::<Vec<_>>().into(),
        wide(3).iter().map(|&kind| kind as u32).collect::<Vec<_>>().into(),
    ];
    for kinds in kinds {
        assert!(build(writer.set("tokenizer.ggml.token_type", kinds)).unwrap().is_control(256));
    }
    let error = build(writer.set("tokenizer.ggml.token_type", wide(1 << 40))).unwrap_err().to_string();
    assert!(error.contains("1099511627776 at index 256"), "{error}");
    let error = build(writer.set("tokenizer.ggml.token_type", vec![1.0f32; 257])).unwrap_err().to_string();
    assert!(error.contains("should be an array of 32-bit integers, but it is an array of 257 f32"), "{error}");
}

#[test]
fn what_is_missing_or_unsupported_is_named() {
    let message = |writer: &Writer| build(writer).unwrap_err().to_string();
    let sound = || vocabulary("qwen2", &[], &[]);

    assert_eq!(message(&Writer::new()), "the metadata key 'tokenizer.ggml.model' is missing");
    let model = message(sound().set("tokenizer.ggml.model", "t5"));
    assert_eq!(model, "the tokenizer model 't5' is not supported: gpt2 (byte-level BPE) and llama (SentencePiece) are");
    let pre = message(sound().set("tokenizer.ggml.pre", "bloom"));
    assert!(pre.starts_with("the pre-tokenizer 'bloom' is not supported: qwen2, deepseek-r1-qwen, "), "{pre}");
    assert!(pre.ends_with(", falcon, default are"), "{pre}");
    for model in ["gpt2", "llama"] {
        let mut no_tokens = Writer::new();
        no_tokens.set("tokenizer.ggml.model", model);
        assert_eq!(message(&no_tokens), "the metadata key 'tokenizer.ggml.tokens' is missing");
    }
    let scores = message(sound().set("tokenizer.ggml.model", "llama"));
    assert_eq!(scores, "the metadata key 'tokenizer.ggml.scores' is missing");
    let mut piecewise = sound();
    piecewise.set("tokenizer.ggml.model", "llama");
    assert!(message(piecewise.set("tokenizer.ggml.scores", vec![0f32])).contains("as long as the list of 256"));
    assert!(message(piecewise.set("tokenizer.ggml.scores", vec![f32::NAN; 256])).contains("NaN at index 0"));
    assert!(message(sound().set("tokenizer.ggml.tokens", Vec::<String>::new())).contains("at least one token"));
    assert!(message(sound().set("tokenizer.ggml.token_type", vec![1i32])).contains("as long as the list of 256"));
    assert!(message(sound().set("tokenizer.ggml.token_type", vec![9i32; 256])).contains("9 at index 0"));
    assert!(message(sound().set("tokenizer.ggml.merges", vec!["ab".to_owned()])).contains("\"ab\" at index 0"));
    assert!(message(sound().set("tokenizer.ggml.eos_token_id", 256u32)).contains("one of the 256 tokens"));
    assert!(message(sound().set("tokenizer.ggml.eos_token_id", "x")).contains("should be an unsigned"));
    assert!(message(sound().set("tokenizer.ggml.add_bos_token", true)).contains("bos_token_id' is missing"));
}
