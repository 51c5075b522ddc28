//! What the tokenizer promises, for vocabularies of SentencePiece: made-up ones, whose tokens can be told by hand.

use zinc_model::Error;
use zinc_model::gguf::Writer;
use zinc_model::tokenizer::{Breakers, DecodeStream, Special, Tokenizer};

use crate::build;

/// The first ids: unknown, start, end, a control token of a template, the bytes.
const UNKNOWN: u32 = 0;
const BOS: u32 = 1;
const INST: u32 = 3;
const BYTES: u32 = 4;

/// Pieces behind the bytes, with their scores and types.
const PIECES: [(&str, f32, i32); 17] = [
    ("▁", -8.0, 1),
    ("a", -7.0, 1),
    ("b", -6.0, 1),
    ("ab", -2.0, 1),
    ("ba", -1.0, 1),
    ("▁a", -3.0, 1),
    ("▁ab", -4.0, 1),
    ("aa", -2.0, 1),
    ("▁▁", -5.0, 1),
    ("<u>", 0.0, 4),
    ("[", -9.0, 1),
    ("I", -9.0, 1),
    ("N", -9.0, 1),
    ("S", -9.0, 1),
    ("T", -9.0, 1),
    ("]", -9.0, 1),
    ("\n", -9.0, 1),
];

fn metadata() -> Writer {
    let bytes = (0..=255u8).map(|byte| (format!("<0x{byte:02X}>"), 0.0, 6));
    let first =
        [("<unk>", 2), ("<s>", 3), ("</s>", 3), ("[INST]", 3)].map(|(piece, kind)| (piece.to_owned(), 0.0, kind));
    let last = PIECES.map(|(piece, score, kind)| (piece.to_owned(), score, kind));
    let all: Vec<(String, f32, i32)> = first.into_iter().chain(bytes).chain(last).collect();
    let mut writer = Writer::new();
    writer
        .set("tokenizer.ggml.model", "llama")
        .set("tokenizer.ggml.tokens", all.iter().map(|(piece, ..)| piece.clone()).collect::<Vec<_>>())
        .set("tokenizer.ggml.scores", all.iter().map(|&(_, score, _)| score).collect::<Vec<_>>())
        .set("tokenizer.ggml.token_type", all.iter().map(|&(.., kind)| kind).collect::<Vec<_>>())
        .set("tokenizer.ggml.bos_token_id", BOS)
        .set("tokenizer.ggml.eos_token_id", 2u32);
    writer
}

fn id(piece: &str) -> u32 {
    BYTES + 256 + PIECES.iter().position(|&(each, ..)| each == piece).unwrap() as u32
}

fn ids(pieces: &[&str]) -> Vec<u32> {
    pieces.iter().map(|piece| id(piece)).collect()
}

fn byte(byte: u8) -> u32 {
    BYTES + u32::from(byte)
}

fn plain(tokenizer: &Tokenizer, text: &str) -> Vec<u32> {
    tokenizer.encode(text, Special::Plain).unwrap()
}

#[test]
fn the_highest_score_is_merged_first_and_of_equal_ones_the_leftmost() {
    let tokenizer = build(&metadata()).unwrap();
    for (text, pieces) in [
        ("ab", &["▁ab"][..]),
        ("aba", &["▁a", "ba"]),
        ("aab", &["▁", "aa", "b"]),
        ("aaa", &["▁", "aa", "a"]),
        ("bab", &["▁", "ba", "b"]),
        (" ab", &["▁", "▁ab"]),
        ("  ", &["▁▁", "▁"]),
    ] {
        assert_eq!(plain(&tokenizer, text), ids(pieces), "{text:?}");
        assert_eq!(tokenizer.decode(&ids(pieces)), text);
    }
    assert!(plain(&tokenizer, "").is_empty());
}

#[test]
fn what_users_write_is_never_a_control_token() {
    let tokenizer = build(&metadata()).unwrap();
    let written = ids(&["▁", "[", "I", "N", "S", "T", "]", "a"]);
    assert_eq!(plain(&tokenizer, "[INST]a"), written);
    assert_eq!(tokenizer.encode("[INST]a", Special::Parse).unwrap(), [INST, id("▁a")]);
    assert_eq!(tokenizer.decode(&written), "[INST]a");
    assert_eq!(tokenizer.decode(&[INST, id("▁a")]), "[INST]a");
    for text in ["<unk>", "<s>", "</s>", "<0x0A>"] {
        let found = plain(&tokenizer, text);
        assert!(found.len() > 1 && !found.iter().any(|&id| tokenizer.is_control(id) || id == UNKNOWN), "{text}");
        assert_eq!(tokenizer.decode(&found), text);
    }
}

#[test]
fn a_space_is_added_at_the_start_and_behind_control_tokens_unless_there_is_one() {
    let mut writer = metadata();
    let tokenizer = build(&writer).unwrap();
    let parse = |tokenizer: &Tokenizer, text: &str| tokenizer.encode_prompt(text, Special::Parse).unwrap();
    assert!(tokenizer.add_bos() && !tokenizer.add_eos());
    assert_eq!(parse(&tokenizer, "a"), [BOS, id("▁a")]);
    assert_eq!(parse(&tokenizer, "<s>a[INST]a"), [BOS, id("▁a"), INST, id("▁a")]);
    assert_eq!(parse(&tokenizer, "<s>[INST] a"), [BOS, INST, id("▁a")]);
    let none = build(writer.set("tokenizer.ggml.add_space_prefix", false)).unwrap();
    assert_eq!(parse(&none, "a[INST]a"), [BOS, id("a"), INST, id("a")]);
    assert_eq!(none.decode(&[id("▁a")]), " a");
}

#[test]
fn user_defined_tokens_are_tokens_in_any_text() {
    let tokenizer = build(&metadata()).unwrap();
    for special in [Special::Plain, Special::Parse] {
        assert_eq!(tokenizer.encode("a<u>a<u>", special).unwrap(), ids(&["▁a", "<u>", "a", "<u>"]));
    }
}

#[test]
fn bytes_of_tokens_are_those_of_text() {
    let tokenizer = build(&metadata()).unwrap();
    assert_eq!(tokenizer.token_bytes(id("▁ab")), Some(&b" ab"[..]));
    assert_eq!(tokenizer.token_bytes(byte(0x0a)), Some(&b"\n"[..]));
    assert_eq!(tokenizer.token_bytes(byte(0xe8)), Some(&[0xe8][..]));
    assert_eq!(tokenizer.token_bytes(INST), Some(&b"[INST]"[..]));
    assert!(tokenizer.is_text(byte(0)) && tokenizer.is_text(id("<u>")) && !tokenizer.is_text(UNKNOWN));
    for piece in ["▁ab", "<0x0A>", "<u>", "[INST]", "<unk>"] {
        let found = tokenizer.id_of(piece).unwrap();
        let spelled =
            String::from_utf8_lossy(tokenizer.token_bytes(found).unwrap()).replace(' ', "▁").replace('\n', "<0x0A>");
        assert_eq!(spelled, piece);
    }
}

#[test]
fn a_stream_holds_characters_back_and_leaves_out_one_space() {
    let tokenizer = build(&metadata()).unwrap();
    let ids: Vec<u32> = [id("▁"), id("▁a")].into_iter().chain("語".bytes().map(byte)).collect();
    let mut stream = DecodeStream::new(&tokenizer);
    let pieces: Vec<String> = ids.iter().map(|&id| stream.push(id)).collect();
    assert_eq!(pieces, ["", " a", "", "", "語"]);
    let mut stream = DecodeStream::inside(&tokenizer);
    assert_eq!(stream.push(id("▁a")), " a");
    assert_eq!(tokenizer.decode_inside(&ids), "  a語");
    // A byte is as the model wrote it.
    assert_eq!(tokenizer.decode(&[byte(b' '), id("a")]), " a");
}

#[test]
fn characters_without_a_piece_are_bytes_or_unknown_or_an_error() {
    let mut writer = metadata();
    let bytes = build(&writer).unwrap();
    assert_eq!(plain(&bytes, "aé"), [id("▁a"), byte(0xc3), byte(0xa9)]);

    let kinds = |unknown: i32| -> Vec<i32> {
        let bytes = std::iter::repeat_n(3, 256);
        [unknown, 3, 3, 3].into_iter().chain(bytes).chain(PIECES.map(|(.., kind)| kind)).collect()
    };
    let unknown = build(writer.set("tokenizer.ggml.token_type", kinds(2))).unwrap();
    assert_eq!(plain(&unknown, "aéüaé"), [id("▁a"), UNKNOWN, id("a"), UNKNOWN]);
    let neither = build(writer.set("tokenizer.ggml.token_type", kinds(3))).unwrap();
    assert!(matches!(neither.encode("aé", Special::Plain), Err(Error::NoByteToken { byte: 0xc3 })));
}

#[test]
fn breakers_are_tokens_within_a_text() {
    let tokenizer = build(&metadata()).unwrap();
    let found = tokenizer.breakers(["bab", "[é"]).unwrap();
    let ends_in_b = |rest: &[u32]| ["b", "ab", "▁ab"].map(|piece| [&[id(piece)], rest].concat());
    let mut sequences: Vec<Vec<u32>> = ends_in_b(&ids(&["ab"])).into();
    sequences.push(vec![id("ba"), id("b")]);
    sequences.push(vec![id("["), byte(0xc3), byte(0xa9)]);
    sequences.push(vec![byte(b'b'), id("ab")]);
    sequences.push(vec![byte(b'['), byte(0xc3), byte(0xa9)]);
    sequences.sort_unstable();
    assert_eq!(found, Breakers { tokens: vec![], sequences });
}

#[test]
fn one_long_word_takes_no_ages_and_comes_back() {
    let tokenizer = build(&metadata()).unwrap();
    for text in ["ab".repeat(200_000), "a".repeat(400_000), " ".repeat(400_000), "語".repeat(100_000)] {
        assert_eq!(tokenizer.decode(&plain(&tokenizer, &text)), text, "{:?}", text.chars().next());
    }
}
