//! Grammars over real vocabularies: that of Qwen3, and the small one of the demo model.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::LazyLock;

use serde_json::{Value, json};
use zinc_model::gguf::{File, Writer};
use zinc_model::tokenizer::Tokenizer;
use zinc_sched::grammar::{Grammar, GrammarCompiler, GrammarError, GrammarMatcher, GrammarSource, Outline};
use zinc_sched::{Control, Guide, Verdict};

struct Vocabulary {
    tokenizer: Tokenizer,
    compiler: GrammarCompiler,
    /// Ids of text tokens, by their bytes.
    ids: HashMap<Vec<u8>, Vec<u32>>,
}

impl Vocabulary {
    fn open(path: &str) -> Self {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path);
        Self::new(Tokenizer::from_gguf(&File::open(path).unwrap()).unwrap())
    }

    fn new(tokenizer: Tokenizer) -> Self {
        let mut ids: HashMap<Vec<u8>, Vec<u32>> = HashMap::new();
        for id in (0..tokenizer.vocab_size() as u32).filter(|&id| tokenizer.is_text(id)) {
            ids.entry(tokenizer.token_bytes(id).unwrap().to_vec()).or_default().push(id);
        }
        ids.remove(&b""[..]);
        Self { compiler: GrammarCompiler::new(&tokenizer).unwrap(), tokenizer, ids }
    }

    fn compile(&self, source: &GrammarSource) -> Grammar {
        self.compiler.compile(source).unwrap_or_else(|error| panic!("{error} in {source:?}"))
    }

    fn len(&self) -> u32 {
        u32::try_from(self.tokenizer.vocab_size()).unwrap()
    }

    fn bytes(&self, id: u32) -> &[u8] {
        self.tokenizer.token_bytes(id).unwrap()
    }
}

static QWEN3: LazyLock<Vocabulary> = LazyLock::new(|| Vocabulary::open("tests/data/host/qwen3-vocab.gguf"));
static DEMO: LazyLock<Vocabulary> = LazyLock::new(|| Vocabulary::open("models/zinc-demo-q4_k_m.gguf"));

fn schema(value: &Value) -> GrammarSource {
    GrammarSource::JsonSchema(value.to_string())
}

fn regex(pattern: &str) -> GrammarSource {
    GrammarSource::Regex(pattern.to_owned())
}

fn grammar(text: &str) -> GrammarSource {
    GrammarSource::grammar(text)
}

/// Draws that are the same each time.
struct Draws(u64);

impl Draws {
    fn below(&mut self, count: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % count
    }
}

/// The ids that a guide allows.
fn allowed(guide: &Guide) -> Vec<u32> {
    let bits = |(index, &word): (usize, &u32)| {
        (0..32).filter(move |bit| word >> bit & 1 == 1).map(move |bit| index as u32 * 32 + bit)
    };
    guide.mask().iter().enumerate().flat_map(bits).collect()
}

/// Follows a random text to its end and returns it. `check` sees the text before each token and which ids may follow, those that end
/// the generation left out.
fn walk(
    vocabulary: &Vocabulary,
    grammar: &Grammar,
    draws: &mut Draws,
    mut check: impl FnMut(&[u8], &[u32]),
) -> Vec<u8> {
    let tokenizer = &vocabulary.tokenizer;
    let mut matcher = grammar.matcher();
    let mut guide = Guide::new(vocabulary.len());
    let mut text = Vec::new();
    for _ in 0..2000 {
        guide.reset();
        if matcher.guide(&mut guide).unwrap() == Verdict::Complete {
            assert!(matcher.is_accepting());
            return text;
        }
        let (end, next): (Vec<u32>, Vec<u32>) = allowed(&guide).into_iter().partition(|&id| tokenizer.is_eog(id));
        check(&text, &next);
        let expected = if matcher.is_accepting() { tokenizer.eog() } else { &[] };
        assert_eq!(end, expected, "after {:?}", String::from_utf8_lossy(&text));
        assert!(next.iter().all(|&id| tokenizer.is_text(id)), "after {:?}", String::from_utf8_lossy(&text));
        let draw = draws.below(next.len() + usize::from(!end.is_empty()));
        let Some(&id) = next.get(draw) else {
            matcher.accept(end[draw % end.len()]).unwrap();
            guide.reset();
            assert_eq!(matcher.guide(&mut guide).unwrap(), Verdict::Complete);
            return text;
        };
        matcher.accept(id).unwrap();
        text.extend_from_slice(vocabulary.bytes(id));
    }
    panic!("no end after {:?}", String::from_utf8_lossy(&text));
}

/// Checks masks against a language written out: at each step of some walks exactly those tokens are allowed that lead to the beginning
/// of one of its texts.
#[track_caller]
fn is_language(vocabulary: &Vocabulary, source: &GrammarSource, texts: &[&str]) {
    let beginnings: HashSet<&[u8]> =
        texts.iter().flat_map(|text| (0..=text.len()).map(|end| &text.as_bytes()[..end])).collect();
    let grammar = vocabulary.compile(source);
    let mut found = HashSet::new();
    for seed in 0..12 {
        let text = walk(vocabulary, &grammar, &mut Draws(seed), |text, next| {
            let mut expected: Vec<u32> = beginnings
                .iter()
                .filter_map(|beginning| vocabulary.ids.get(beginning.strip_prefix(text)?))
                .flatten()
                .copied()
                .collect();
            expected.sort_unstable();
            assert_eq!(next, expected, "after {:?} under {source:?}", String::from_utf8_lossy(text));
        });
        let text = String::from_utf8(text).unwrap();
        assert!(texts.contains(&&*text), "{text:?} under {source:?}");
        found.insert(text);
    }
    assert!(found.len() >= texts.len().min(2), "only {found:?}");
}

#[test]
fn masks_of_finite_languages_are_exact() {
    for vocabulary in [&*QWEN3, &*DEMO] {
        is_language(
            vocabulary,
            &regex("(yes|no|not now)[.!]?"),
            &["yes", "no", "not now", "yes.", "no.", "not now.", "yes!", "no!", "not now!"],
        );
        is_language(vocabulary, &regex("^ab?$"), &["a", "ab"]);
        let compact = json!({
            "x-guidance": { "whitespace_flexible": false },
            "type": "object", "required": ["kind", "n"], "additionalProperties": false,
            "properties": { "kind": { "enum": ["cat", "dog"] }, "n": { "type": "integer", "minimum": 9, "maximum": 11 } }
        });
        is_language(
            vocabulary,
            &schema(&compact),
            &[
                r#"{"kind":"cat","n":9}"#,
                r#"{"kind":"cat","n":10}"#,
                r#"{"kind":"cat","n":11}"#,
                r#"{"kind":"dog","n":9}"#,
                r#"{"kind":"dog","n":10}"#,
                r#"{"kind":"dog","n":11}"#,
            ],
        );
        is_language(
            vocabulary,
            &grammar("root ::= \"int\" t | \"integer\" t\nt ::= (\"s\" | \" \" root{0}) | \"\""),
            &["int", "ints", "int ", "integer", "integers", "integer "],
        );
        is_language(
            vocabulary,
            &grammar("start: item (\", \" item)?\nitem: /[ab]/ \"1\""),
            &["a1", "b1", "a1, a1", "a1, b1", "b1, a1", "b1, b1"],
        );
    }
}

#[test]
fn characters_may_be_spread_over_tokens() {
    let texts = ["é語😀", "é語", "語", "𝔘", "é𝔘"];
    is_language(&QWEN3, &regex("é語😀|é語|語|𝔘|é𝔘"), &texts);
    is_language(&QWEN3, &grammar("root ::= \"é\" [語𝔘] | \"é語😀\" | [語𝔘]"), &texts);
}

#[test]
fn an_empty_text_is_complete() {
    let mut guide = Guide::new(QWEN3.len());
    for source in [regex(""), grammar("root ::= \"\""), grammar("start: \"\"")] {
        let mut matcher = QWEN3.compile(&source).matcher();
        assert_eq!(matcher.guide(&mut guide).unwrap(), Verdict::Complete, "{source:?}");
    }
}

#[test]
fn what_no_text_matches_is_refused() {
    for source in [
        regex("[a&&b]"),
        regex("a[a&&b]"),
        regex("(x[a&&b]|y[^\\x00-\\x{10ffff}])z"),
        regex(r"[\d&&\D]+"),
        regex("[^\\s\\S]"),
        grammar("start: start"),
        grammar("start: \"a\" start"),
        grammar("start: a\na: \"x\" b\nb: a \"y\" | b"),
        grammar("start: \"a\" /[a&&b]/"),
        grammar("start: T\nT: /a/ & /b/"),
        grammar("start: T \"x\"\nT: /a+/ & ~/a*/"),
        // A text could be led into these and never come to an end.
        grammar("start: \"a\" | x\nx: \"b\" x"),
        grammar("start: \"ab\" (\"c\" /[a&&b]/)?"),
        grammar("root ::= \"a\" root"),
        schema(&json!({ "type": "string", "minLength": 2, "maxLength": 1 })),
        schema(&json!({ "$ref": "#/$defs/A", "$defs": { "A": { "$ref": "#/$defs/A" } } })),
        schema(&json!({ "enum": [] })),
    ] {
        let error = refused(&source).to_string();
        assert!(error.contains("no text matches") || error.contains("no value matches"), "{source:?}: {error}");
    }
}

#[test]
fn a_byte_order_mark_is_passed_over() {
    let marked = |text: &str| format!("\u{feff}{text}");
    is_language(&QWEN3, &GrammarSource::JsonSchema(marked(r#"{"const": "ab"}"#)), &["\"ab\""]);
    is_language(&QWEN3, &GrammarSource::JsonSchema(marked(" {\r\n \"enum\": [1, 2]}")), &["1", "2"]);
    for text in [
        "root ::= \"ab\"",
        "\n\n  root ::= \"ab\"",
        "# start: a comment\n\n# another\nroot ::= \"ab\"",
        "\r\n# start: x\r\n\troot\t::= \"ab\"",
        "# old line ends\rroot ::= \"ab\"",
    ] {
        for text in [text.to_owned(), marked(text)] {
            let source = GrammarSource::grammar(&*text);
            assert!(matches!(source, GrammarSource::Gbnf(_)), "{text:?}");
            is_language(&QWEN3, &source, &["ab"]);
        }
    }
    for text in ["start: \"ab\"", "// root ::= \"x\"\nstart: \"ab\"", "\n\nstart: \"ab\""] {
        let source = GrammarSource::grammar(marked(text));
        assert!(matches!(source, GrammarSource::Lark(_)), "{text:?}");
        is_language(&QWEN3, &source, &["ab"]);
    }
}

#[test]
fn depth_and_size_end_in_a_grammar_or_an_error() {
    let nested = |open: &str, close: &str, depth: usize| format!("{}a{}", open.repeat(depth), close.repeat(depth));
    let rules = |rule: &dyn Fn(usize) -> String, count: usize| (0..count).map(rule).collect::<String>();
    let lark =
        |count: usize| format!("start: r0\n{}r{count}: \"a\"\n", rules(&|n| format!("r{n}: r{}\n", n + 1), count));
    let terminals = |count: usize| {
        format!("start: R0\n{}R{count}: \"a\"\n", rules(&|n| format!("R{n}: R{} \"b\"\n", n + 1), count))
    };
    let gbnf = |count: usize| {
        format!("root ::= r0\n{}r{count} ::= \"a\"\n", rules(&|n| format!("r{n} ::= r{} | \"(\" root\n", n + 1), count))
    };
    for (source, accepted) in [
        (regex(&nested("(", ")", 200)), true),
        (regex(&nested("(", ")", 100_000)), false),
        (regex(&nested("(?:", ")*", 100_000)), false),
        (regex("(((a{1000}){1000}){1000}){1000}"), true),
        (regex(&"a".repeat(100_000)), true),
        (regex(&"a|".repeat(100_000)), true),
        (GrammarSource::Lark(format!("start: {}", nested("(\"x\" ", ")", 100_000))), false),
        (GrammarSource::Lark(format!("start: T\nT: {}", nested("(", ")", 100_000))), false),
        (GrammarSource::Lark(format!("start: {}\"a\"", "~".repeat(100_000))), false),
        (GrammarSource::Lark(lark(5000)), true),
        (GrammarSource::Lark(lark(50_000)), false),
        (GrammarSource::Lark(terminals(5000)), true),
        (GrammarSource::Lark(terminals(50_000)), false),
        (GrammarSource::Lark(format!("start: %json {{ {} }}", "[".repeat(100_000))), false),
        (GrammarSource::Gbnf(nested("root ::= (", ")", 100_000)), false),
        (GrammarSource::Gbnf(gbnf(500)), true),
        (GrammarSource::Gbnf(gbnf(50_000)), false),
        (schema(&json!({ "enum": ["a".repeat(50_000) + "b", "a".repeat(50_000) + "c"] })), true),
    ] {
        let compiled = DEMO.compiler.compile(&source);
        let start: String = format!("{source:?}").chars().take(80).collect();
        assert_eq!(compiled.is_ok(), accepted, "{start}: {:?}", compiled.err().map(|error| error.to_string()));
        // The first tokens, on a thread with the stack that the engine's has.
        if let Ok(grammar) = compiled {
            let vocabulary = &*DEMO;
            let mut matcher = grammar.matcher();
            let mut guide = Guide::new(vocabulary.len());
            for _ in 0..20 {
                guide.reset();
                if matcher.guide(&mut guide).unwrap() == Verdict::Complete {
                    break;
                }
                let Some(&id) = allowed(&guide).iter().find(|&&id| !vocabulary.tokenizer.is_eog(id)) else { break };
                matcher.accept(id).unwrap();
            }
        }
    }
}

#[test]
fn walks_under_a_schema_end_in_json_that_it_describes() {
    let person = json!({
        "type": "object",
        "properties": {
            "name": { "type": "string", "minLength": 1, "maxLength": 12 },
            "age": { "type": "integer", "minimum": 0, "maximum": 150 },
            "score": { "type": "number", "minimum": -1000, "maximum": 1000 },
            "tags": { "type": "array", "items": { "$ref": "#/$defs/tag" }, "maxItems": 3 },
            "address": { "anyOf": [{ "type": "null" }, { "$ref": "#/$defs/address" }] }
        },
        "required": ["name", "tags", "address"],
        "additionalProperties": false,
        "$defs": {
            "tag": { "enum": ["red", "green", "größer"] },
            "address": {
                "type": "object", "required": ["zip"], "additionalProperties": false,
                "properties": { "zip": { "type": "string", "pattern": "^[0-9]{5}$" }, "next": { "$ref": "#/$defs/address" } }
            }
        }
    });
    fn is_address(value: &Value) -> bool {
        let zip = value["zip"].as_str().unwrap();
        let keys = value.as_object().unwrap().keys().all(|key| key == "zip" || key == "next");
        keys && zip.len() == 5 && zip.bytes().all(|b| b.is_ascii_digit()) && value.get("next").is_none_or(is_address)
    }
    for vocabulary in [&*QWEN3, &*DEMO] {
        let grammar = vocabulary.compile(&schema(&person));
        for seed in 0..20 {
            let text = String::from_utf8(walk(vocabulary, &grammar, &mut Draws(seed), |_, _| {})).unwrap();
            let value: Value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error} in {text}"));
            let keys: Vec<&str> = value.as_object().unwrap().keys().map(String::as_str).collect();
            assert!(keys.iter().all(|key| ["name", "age", "score", "tags", "address"].contains(key)), "{text}");
            assert!((1..=12).contains(&value["name"].as_str().unwrap().chars().count()), "{text}");
            assert!(value.get("age").is_none_or(|age| age.as_u64().unwrap() <= 150), "{text}");
            assert!(value.get("score").is_none_or(|score| score.as_f64().unwrap().abs() <= 1000.0), "{text}");
            let tags = value["tags"].as_array().unwrap();
            assert!(tags.len() <= 3, "{text}");
            assert!(tags.iter().all(|tag| ["red", "green", "größer"].contains(&tag.as_str().unwrap())), "{text}");
            assert!(value["address"].is_null() || is_address(&value["address"]), "{text}");
        }
    }
}

/// Whether bytes are the beginning of `{"s":"..."}` with any string: written down by hand, to judge masks by.
fn begins_a_string(bytes: &[u8]) -> bool {
    const HEAD: &[u8] = br#"{"s":""#;
    let Some(mut rest) = bytes.strip_prefix(HEAD) else {
        return HEAD.starts_with(bytes);
    };
    loop {
        match rest {
            [] => return true,
            [b'"', tail @ ..] => return tail.is_empty() || tail == b"}",
            [b'\\', b'u', tail @ ..] => {
                let digits = &tail[..tail.len().min(4)];
                if !digits.iter().all(u8::is_ascii_hexdigit) {
                    return false;
                }
                rest = &tail[digits.len()..];
            }
            [b'\\'] => return true,
            [b'\\', escaped, tail @ ..] => {
                if !br#""\/bfnrt"#.contains(escaped) {
                    return false;
                }
                rest = tail;
            }
            [0..0x20, ..] => return false,
            [0x20..0x80, tail @ ..] => rest = tail,
            _ => {
                let chunk = rest.utf8_chunks().next().unwrap();
                let cut = chunk.valid().chars().next();
                match cut {
                    Some(c) => rest = &rest[c.len_utf8()..],
                    None => return std::str::from_utf8(rest).is_err_and(|error| error.error_len().is_none()),
                }
            }
        }
    }
}

#[test]
fn what_is_allowed_in_a_string_keeps_it_one() {
    assert!(
        begins_a_string("{\"s\":\"é\\u00e9\\\"".as_bytes())
            && begins_a_string(b"{\"s\":\"\xf0\x9f")
            && begins_a_string(b"{\"s")
    );
    assert!(
        !begins_a_string(b"{\"s\":\"\n") && !begins_a_string(b"{\"s\":\"\xff") && !begins_a_string(b"{\"s\":\"\\x")
    );
    let source = json!({
        "x-guidance": { "whitespace_flexible": false }, "type": "object", "required": ["s"],
        "properties": { "s": { "type": "string" } }, "additionalProperties": false
    });
    let grammar = QWEN3.compile(&schema(&source));
    let mut matcher = grammar.matcher();
    let mut guide = Guide::new(QWEN3.len());
    let mut text = Vec::new();
    let mut draws = Draws(5);
    let mut most = 0;
    for _ in 0..20 {
        guide.reset();
        assert_eq!(matcher.guide(&mut guide).unwrap(), Verdict::Choose);
        let next = allowed(&guide);
        most = most.max(next.len());
        for &id in &next {
            let text = [&text[..], QWEN3.bytes(id)].concat();
            assert!(begins_a_string(&text), "token {id} makes {:?}", String::from_utf8_lossy(&text));
            assert!(QWEN3.tokenizer.is_text(id), "token {id}");
        }
        // Most tokens with a quote end the string; this one goes on as long as it can.
        let longer: Vec<u32> = next.iter().copied().filter(|&id| !QWEN3.bytes(id).ends_with(b"\"")).collect();
        let choices = if longer.is_empty() { &next } else { &longer };
        let id = choices[draws.below(choices.len())];
        matcher.accept(id).unwrap();
        text.extend_from_slice(QWEN3.bytes(id));
    }
    assert!(most > 140_000, "at most {most} tokens were allowed in a string");
}

/// A matcher after a text, cut into the tokenizer's own tokens.
fn after(source: &GrammarSource, text: &str) -> GrammarMatcher {
    let mut matcher = QWEN3.compile(source).matcher();
    for id in QWEN3.tokenizer.encode(text, zinc_model::tokenizer::Special::Plain).unwrap() {
        matcher.accept(id).unwrap();
    }
    matcher
}

#[test]
fn tokens_that_are_not_allowed_are_refused() {
    let id = |piece: &str| QWEN3.tokenizer.id_of(piece).unwrap();
    let error = after(&regex("[0-9]+x"), "12").accept(id("Ġthe")).unwrap_err();
    let expected = GrammarError::NotAllowed { token: 279, text: " the".to_owned(), tokens: 2, end: "12".to_owned() };
    assert_eq!(error, expected);
    assert!(
        error.to_string().contains("token 279 (\" the\") is not allowed after 2 tokens that end in \"12\""),
        "{error}"
    );
    for token in [id("<|im_end|>"), id("<|im_start|>"), 151_935, 151_936, u32::MAX] {
        let error = after(&regex("[0-9]+x"), "12").accept(token).unwrap_err();
        assert!(matches!(error, GrammarError::NotAllowed { tokens: 2, .. }), "{token} gave {error}");
    }
    // Where the text is complete but may go on, the end is allowed.
    after(&regex("[0-9]+"), "12").accept(id("<|im_end|>")).unwrap();
}

/// A tokenizer of these pieces with their kinds, by the numbers of GGUF, and nothing that ends a generation.
fn tokenizer(pieces: &[(&str, i32)]) -> Tokenizer {
    let file = tempfile::NamedTempFile::new().unwrap();
    let (pieces, kinds): (Vec<String>, Vec<i32>) = pieces.iter().map(|&(piece, kind)| (piece.to_owned(), kind)).unzip();
    let mut writer = Writer::new();
    writer
        .set("tokenizer.ggml.model", "gpt2")
        .set("tokenizer.ggml.pre", "qwen2")
        .set("tokenizer.ggml.tokens", pieces)
        .set("tokenizer.ggml.token_type", kinds)
        .set("tokenizer.ggml.merges", Vec::<String>::new());
    writer.write(file.path(), |_, _| Ok(())).unwrap();
    Tokenizer::from_gguf(&File::open(file.path()).unwrap()).unwrap()
}

#[test]
fn odd_vocabularies() {
    let long = "a".repeat(2000);
    // Two of the same text, one of none, one too long, and a control, an unknown, a user-defined and an unused one.
    let pieces = [("a", 1), ("a", 1), ("", 1), (&long, 1), ("aa", 3), ("aaa", 2), ("aaaa", 4), ("aaaaa", 5), ("b", 1)];
    let vocabulary = Vocabulary::new(tokenizer(&pieces));
    let mut guide = Guide::new(vocabulary.len());
    let mut matcher = vocabulary.compile(&regex("a*c?")).matcher();
    assert_eq!(matcher.guide(&mut guide).unwrap(), Verdict::Choose);
    assert_eq!(allowed(&guide), [0, 1, 6]);
    for id in [2, 3, 4, 5, 7, 8] {
        assert!(
            matches!(vocabulary.compile(&regex("a*c?")).matcher().accept(id), Err(GrammarError::NotAllowed { .. })),
            "{id}"
        );
    }
    // No token can say the c: it does not come where it need not.
    for (pattern, tokens) in [("", &[][..]), ("bc?", &[8]), ("b", &[8])] {
        let mut matcher = vocabulary.compile(&regex(pattern)).matcher();
        tokens.iter().for_each(|&id| matcher.accept(id).unwrap());
        assert_eq!(matcher.guide(&mut guide).unwrap(), Verdict::Complete, "{pattern:?}");
    }
    // Where it must, there is nothing to go on with.
    let mut matcher = vocabulary.compile(&regex("a{1,2}c")).matcher();
    matcher.accept(0).unwrap();
    matcher.accept(1).unwrap();
    let error = matcher.guide(&mut guide).unwrap_err();
    assert_eq!(error, GrammarError::NoContinuation { tokens: 2, end: "aa".to_owned() });
}

#[test]
fn control_tokens_come_where_a_lark_grammar_names_them() {
    let source = grammar("start: <|im_start|> \"user\" <|im_end|> \"x\"");
    let mut matcher = QWEN3.compile(&source).matcher();
    let mut guide = Guide::new(QWEN3.len());
    assert_eq!(matcher.guide(&mut guide).unwrap(), Verdict::Choose);
    assert_eq!((guide.allowed(), guide.allows(151_644)), (1, true));
    // As text it is not in the language.
    assert!(matcher.accept(QWEN3.tokenizer.id_of("<").unwrap()).is_err());
}

#[test]
fn matchers_of_one_grammar_are_apart() {
    let grammar = QWEN3.compile(&regex("a+b"));
    let (mut first, mut second) = (grammar.matcher(), grammar.matcher());
    let id = |piece: &str| QWEN3.tokenizer.id_of(piece).unwrap();
    first.accept(id("a")).unwrap();
    assert!(second.accept(id("b")).is_err());
    first.accept(id("b")).unwrap();
    assert!(first.is_accepting());
    let Control::Masked(start) = grammar.control() else { panic!("a grammar masks") };
    let mut third = start().unwrap();
    third.accept(id("a")).unwrap();
    assert!(third.accept(279).unwrap_err().to_string().contains("is not allowed"));
}

#[track_caller]
fn refused(source: &GrammarSource) -> GrammarError {
    QWEN3.compiler.compile(source).expect_err(&format!("{source:?} is refused"))
}

#[test]
fn sources_that_cannot_be_used_say_what_and_where() {
    let json = refused(&GrammarSource::JsonSchema("{\n  \"type\" 1}".to_owned()));
    assert_eq!(json, GrammarError::Json { line: 2, column: 10, reason: "expected `:`".to_owned() });

    let place = |value: &Value| match refused(&schema(value)) {
        GrammarError::Schema { pointer, reason } => (pointer, reason),
        other => panic!("{other}"),
    };
    let (pointer, reason) =
        place(&json!({ "properties": { "a": { "items": { "type": "string", "not": { "pattern": "x" } } } } }));
    assert!(pointer == "/properties/a/items" && reason.contains("not"), "{pointer}: {reason}");
    let (pointer, reason) =
        place(&json!({ "$ref": "#/$defs/x", "$defs": { "x": { "anyOf": [{}, { "type": "strin" }] } } }));
    assert!(pointer == "/$defs/x/anyOf/1" && reason.contains("strin"), "{pointer}: {reason}");
    let (pointer, reason) = place(&json!({ "properties": { "a": { "$ref": "https://example.org/s" } } }));
    assert!(pointer == "/properties/a" && reason.contains("https://example.org/s"), "{pointer}: {reason}");
    let (pointer, _) = place(&json!(1));
    assert_eq!(pointer, "");

    let unclosed = refused(&regex("a(b"));
    assert!(matches!(&unclosed, GrammarError::Regex { reason } if reason.contains("unclosed group")), "{unclosed}");
    let look = refused(&regex("a(?=b)"));
    assert!(matches!(&look, GrammarError::Regex { reason } if reason.contains("look-around")), "{look}");

    let lark = refused(&grammar("start: x\ny: \"1\""));
    assert!(
        matches!(&lark, GrammarError::Grammar { reason } if reason.contains("at 1(") && reason.contains('x')),
        "{lark}"
    );
    let gbnf = refused(&grammar("root ::= x"));
    assert!(matches!(&gbnf, GrammarError::Gbnf { line: 1, column: 10, .. }), "{gbnf}");
}

fn text(text: &str) -> Outline {
    Outline::Text(text.to_owned())
}

fn json(name: &str, schema: &Value, path: &[&str]) -> Outline {
    let path = path.iter().map(|&step| step.to_owned()).collect();
    Outline::Json { name: name.to_owned(), schema: schema.to_string().into(), path }
}

#[test]
fn outlines_are_texts_with_values_in_them() {
    let compact = json!({
        "x-guidance": {"whitespace_flexible": false},
        "properties": {"a/b": {"items": [{"$ref": "#/$defs/Pet"}]}},
        "$defs": {"Pet": {"enum": ["cat", 1]}}
    });
    let pet = || json("pet", &compact, &["properties", "a/b", "items", "0"]);
    let call = Outline::Sequence(vec![
        text("<call>\n"),
        Outline::Choice(vec![text("x"), Outline::Sequence(vec![text("y:"), pet()])]),
        text("\n</call>"),
    ]);
    for vocabulary in [&*QWEN3, &*DEMO] {
        is_language(
            vocabulary,
            &GrammarSource::Outline(call.clone()),
            &["<call>\nx\n</call>", "<call>\ny:\"cat\"\n</call>", "<call>\ny:1\n</call>"],
        );
        let twice = Outline::Repeat { part: Box::new(pet()), min: 0, max: Some(2) };
        let bracketed = Outline::Sequence(vec![text("("), twice, text(""), text(")")]);
        is_language(
            vocabulary,
            &GrammarSource::Outline(bracketed),
            &["()", "(1)", "(11)", "(\"cat\")", "(\"cat\"1)", "(1\"cat\")", "(\"cat\"\"cat\")"],
        );
    }
}

#[test]
fn white_space_in_outlines_is_that_of_json() {
    let list = json("list", &json!({"type": "array", "items": {"type": "object", "maxProperties": 1}}), &[]);
    let grammar = QWEN3.compile(&GrammarSource::Outline(Outline::Sequence(vec![text("a"), list, text("b")])));
    let accepts = |text: &str| {
        let mut matcher = grammar.matcher();
        let taken = text.bytes().all(|byte| matcher.accept(QWEN3.ids[&[byte][..]][0]).is_ok());
        taken && matcher.is_accepting()
    };
    for text in ["a[]b", "a[\n  {\"x\" : 1} ,\n  { \"y\":[ 1 , 2 ] } ]b", "a[{ }]b"] {
        assert!(accepts(text), "{text:?}");
    }
    for text in ["a []b", "a[] b", " a[]b", "a[{}]\nb", "a[   {}]b", "a[{}]b "] {
        assert!(!accepts(text), "{text:?}");
    }
}

#[test]
fn outlines_have_text_up_to_an_end() {
    let outline =
        Outline::Sequence(vec![Outline::Until("</a>".to_owned()), Outline::Until("aa".to_owned()), text("!")]);
    let grammar = QWEN3.compile(&GrammarSource::Outline(outline));
    let accepts = |text: &str| {
        let mut matcher = grammar.matcher();
        let taken = text.bytes().all(|byte| matcher.accept(QWEN3.ids[&[byte][..]][0]).is_ok());
        taken && matcher.is_accepting()
    };
    for text in ["</a>aa!", "x\n</a </</a>\n日本aa!", "</a>aa!"] {
        assert!(accepts(text), "{text:?}");
    }
    for text in ["</a>", "</a>aa", "</a>aaa!", "aa!", "</a></a>!"] {
        assert!(!accepts(text), "{text:?}");
    }
}

#[test]
fn control_tokens_in_outlines_are_tokens() {
    let start = || Outline::Mark("<|im_start|>".to_owned());
    let grammar = QWEN3.compile(&GrammarSource::Outline(Outline::Sequence(vec![start(), text("x")])));
    let id = QWEN3.tokenizer.id_of("<|im_start|>").unwrap();
    let mut guide = Guide::new(QWEN3.len());
    let mut matcher = grammar.matcher();
    assert_eq!(matcher.guide(&mut guide).unwrap(), Verdict::Choose);
    assert_eq!(allowed(&guide), [id]);
    matcher.accept(id).unwrap();
    matcher.accept(QWEN3.ids[&b"x"[..]][0]).unwrap();
    assert!(matcher.is_accepting());
    // What is no control token is text.
    is_language(&QWEN3, &GrammarSource::Outline(Outline::Mark("<tool_call>".to_owned())), &["<tool_call>"]);
}

#[test]
fn outlines_that_cannot_be_used_say_why() {
    let refused = |outline: Outline| refused(&GrammarSource::Outline(outline)).to_string();
    let broken = json("tool \"find\"", &json!({"properties": {"x": {"$dynamicRef": "#a"}}}), &[]);
    let error = refused(Outline::Sequence(vec![text("a"), broken]));
    assert!(
        error.starts_with("tool \"find\": ") && error.contains("/properties/x") && error.contains("$dynamicRef"),
        "{error}"
    );
    assert!(refused(json("x", &json!({}), &["properties"])).contains("there is no \"properties\""));
    assert!(refused(Outline::Choice(Vec::new())).contains("nothing to choose from"));
    assert!(refused(Outline::Until(String::new())).contains("empty text"));
    assert!(refused(Outline::Repeat { part: Box::new(text("a")), min: 2, max: Some(1) }).contains("at least 2"));
    let mut deep = text("a");
    for _ in 0..1000 {
        deep = Outline::Sequence(vec![deep]);
    }
    assert!(refused(deep).contains("inside of each other"));
}
