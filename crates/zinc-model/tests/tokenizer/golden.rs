//! Ids that Hugging Face's tokenizers and the SentencePiece library made, for every pre-tokenizer and every variant of
//! SentencePiece, and those of two published vocabularies. `make_tokens.py` and `make_published.py` in `tests/data/tokens` say how.

use std::collections::HashSet;

use serde_json::Value;
use zinc_model::gguf::Writer;
use zinc_model::tokenizer::{DecodeStream, Special, Tokenizer};

use crate::{BYTE_PIECES, build, data};

/// The name of each file of ids in `tests/data/tokens/ids`, and the names of the pre-tokenizers that must give those
/// ids.
const PRE_TOKENIZERS: [(&str, &[&str]); 16] = [
    ("qwen2", &["qwen2", "deepseek-r1-qwen", "megrez", "kormo", "f2llmv2"]),
    ("qwen35", &["qwen35"]),
    ("llama-bpe", &["llama-bpe", "llama3", "llama-v3", "falcon3", "pixtral", "midm-2.0"]),
    ("smaug-bpe", &["smaug-bpe"]),
    ("minicpm5", &["minicpm5"]),
    ("seed-coder", &["seed-coder"]),
    ("gpt-4o", &["gpt-4o", "llama4", "kanana2"]),
    ("tekken", &["tekken"]),
    ("gpt-2", &["gpt-2", "phi-2", "a.x-4.0", "mellum", "trillion", "granite-docling"]),
    ("olmo", &["olmo", "mpt"]),
    ("smollm", &["smollm", "starcoder", "refact", "codeshell", "minerva-7b"]),
    ("command-r", &["command-r"]),
    ("deepseek-llm", &["deepseek-llm"]),
    ("deepseek-coder", &["deepseek-coder"]),
    ("deepseek-v3", &["deepseek-v3"]),
    ("falcon", &["falcon", "default"]),
];

/// The names of those pre-tokenizers that bring text to Unicode's normal form C, so that decoding gives the composed
/// text.
const COMPOSED: [&str; 4] = ["qwen2", "qwen35", "olmo", "command-r"];

fn json(name: &str) -> Value {
    serde_json::from_slice(&std::fs::read(data(name)).unwrap()).unwrap()
}

fn strings(value: &Value) -> Vec<String> {
    value.as_array().unwrap().iter().map(|text| text.as_str().unwrap().to_owned()).collect()
}

/// The 200 texts of `host/qwen3_tokens.json`, then the 1,000 random texts of `tokens/random.json`.
fn texts() -> Vec<String> {
    let mut texts: Vec<String> = json("host/qwen3_tokens.json")
        .as_array()
        .unwrap()
        .iter()
        .map(|case| case["text"].as_str().unwrap().to_owned())
        .collect();
    texts.extend(strings(&json("tokens/random.json")));
    assert_eq!(texts.len(), 1200);
    texts
}

/// Reads a file of ids: for each text their number, then the ids, all as 16-bit integers.
fn ids(name: &str) -> Vec<Vec<u32>> {
    let bytes = std::fs::read(data(&format!("tokens/ids/{name}.u16"))).unwrap();
    let mut numbers = bytes.as_chunks().0.iter().map(|bytes| u32::from(u16::from_le_bytes(*bytes)));
    let mut all = Vec::new();
    while let Some(count) = numbers.next() {
        all.push(numbers.by_ref().take(count as usize).collect());
    }
    all
}

/// Checks that each text gives the expected ids and that these decode to the text. `decoded` maps the index of a text
/// that decodes to another text to that one; without it decoding is not checked.
fn check(name: &str, tokenizer: &Tokenizer, texts: &[String], ids: &[Vec<u32>], decoded: Option<&Value>) {
    assert_eq!(texts.len(), ids.len());
    for (index, (text, expected)) in texts.iter().zip(ids).enumerate() {
        let found = tokenizer.encode(text, Special::Plain).unwrap();
        let pieces = |ids: &[u32]| -> Vec<String> {
            ids.iter().map(|&id| String::from_utf8_lossy(tokenizer.token_bytes(id).unwrap()).into_owned()).collect()
        };
        assert_eq!(found, *expected, "{name}: {text:?}: {:?}, expected {:?}", pieces(&found), pieces(expected));
        if let Some(decoded) = decoded {
            let expected = decoded[index.to_string()].as_str().unwrap_or(text);
            assert_eq!(tokenizer.decode(&found), expected, "{name}: {text:?}");
            let mut stream = DecodeStream::new(tokenizer);
            let mut streamed: String = found.iter().map(|&id| stream.push(id)).collect();
            streamed.push_str(&stream.finish());
            assert_eq!(streamed, expected, "{name}: {text:?} streamed");
        }
    }
}

/// The metadata of the byte-level vocabulary, without the name of a pre-tokenizer.
fn byte_level() -> Writer {
    let vocabulary = json("tokens/byte_level.json");
    let merges = strings(&vocabulary["merges"]);
    let mut pieces = BYTE_PIECES.clone();
    let mut seen: HashSet<String> = pieces.iter().cloned().collect();
    let merged = merges.iter().map(|merge| merge.replacen(' ', "", 1)).chain(strings(&vocabulary["extra"]));
    pieces.extend(merged.filter(|piece| seen.insert(piece.clone())));
    let mut writer = Writer::new();
    writer
        .set("tokenizer.ggml.model", "gpt2")
        .set("tokenizer.ggml.tokens", pieces)
        .set("tokenizer.ggml.merges", merges);
    writer
}

/// The vocabularies of GPT-4o and of Qwen 3.5, cut to what the texts can have of them.
#[test]
fn published_vocabularies_make_the_ids_of_their_owners() {
    let (texts, composed, published) = (texts(), json("tokens/composed.json"), json("tokens/published.json"));
    for pre in ["gpt-4o", "qwen35"] {
        let merges = strings(&published[pre]["merges"]);
        let pieces: Vec<String> =
            BYTE_PIECES.iter().cloned().chain(merges.iter().map(|merge| merge.replacen(' ', "", 1))).collect();
        let mut writer = Writer::new();
        writer
            .set("tokenizer.ggml.model", "gpt2")
            .set("tokenizer.ggml.pre", pre)
            .set("tokenizer.ggml.tokens", pieces)
            .set("tokenizer.ggml.merges", merges);
        let tokenizer = build(&writer).unwrap();
        let ids: Vec<Vec<u32>> = serde_json::from_value(published[pre]["ids"].clone()).unwrap();
        let decoded = if COMPOSED.contains(&pre) { &composed } else { &Value::Null };
        check(pre, &tokenizer, &texts[..ids.len()], &ids, Some(decoded));
    }
}

#[test]
fn every_pre_tokenizer_makes_the_ids_of_its_authors() {
    let (texts, composed, none) = (texts(), json("tokens/composed.json"), Value::Null);
    let mut writer = byte_level();
    for (name, aliases) in PRE_TOKENIZERS {
        let ids = ids(name);
        let decoded = if COMPOSED.contains(&name) { &composed } else { &none };
        for (number, pre) in aliases.iter().enumerate() {
            let tokenizer = build(writer.set("tokenizer.ggml.pre", *pre)).unwrap();
            // The first name is checked with all texts. The others are aliases for the same steps, for which 200 texts
            // suffice.
            let count = if number == 0 { texts.len() } else { 200 };
            check(pre, &tokenizer, &texts[..count], &ids[..count], Some(decoded));
        }
    }
}

#[test]
fn a_file_without_a_pre_tokenizer_has_the_default_one() {
    let tokenizer = build(&byte_level()).unwrap();
    check("none", &tokenizer, &texts(), &ids("falcon"), Some(&Value::Null));
}

#[test]
fn a_space_is_put_before_text_where_the_steps_are_those_of_gpt_2_alone() {
    let (texts, mut writer) = (texts(), byte_level());
    writer.set("tokenizer.ggml.add_space_prefix", true);
    let gpt2 = build(writer.set("tokenizer.ggml.pre", "gpt-2")).unwrap();
    check("gpt-2", &gpt2, &texts, &ids("gpt-2-space"), None);
    let llama3 = build(writer.set("tokenizer.ggml.pre", "llama-bpe")).unwrap();
    check("llama-bpe", &llama3, &texts, &ids("llama-bpe"), Some(&Value::Null));
}

#[test]
fn sentencepiece_makes_the_ids_and_texts_of_its_library() {
    let (texts, vocabulary) = (texts(), json("tokens/sentencepiece.json"));
    let pieces = vocabulary["pieces"].as_array().unwrap();
    let variants = vocabulary["variants"].as_array().unwrap();
    assert_eq!(variants.len(), 6);
    for variant in variants {
        let name = variant["name"].as_str().unwrap();
        let mut writer = Writer::new();
        let kinds = variant["types"].as_array().unwrap().iter().map(|kind| kind.as_i64().unwrap() as i32);
        writer
            .set("tokenizer.ggml.model", "llama")
            .set("tokenizer.ggml.tokens", strings(&pieces.iter().map(|piece| piece[0].clone()).collect()))
            .set(
                "tokenizer.ggml.scores",
                pieces.iter().map(|piece| piece[1].as_f64().unwrap() as f32).collect::<Vec<_>>(),
            )
            .set("tokenizer.ggml.token_type", kinds.collect::<Vec<_>>())
            .set("tokenizer.ggml.add_space_prefix", variant["space"].as_bool().unwrap())
            .set("tokenizer.ggml.remove_extra_whitespaces", variant["tidy"].as_bool().unwrap());
        let tokenizer = build(&writer).unwrap();
        let ids = ids(&format!("sentencepiece-{name}"));
        // What is unknown has no text.
        let decoded = Some(&variant["decoded"]).filter(|_| name != "no-bytes");
        check(name, &tokenizer, &texts, &ids, decoded);
    }
}
