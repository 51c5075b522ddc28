//! Thinking before an answer that a grammar constrains, over the vocabulary of Qwen3.

use std::path::Path;
use std::sync::LazyLock;

use zinc_model::gguf::File;
use zinc_model::tokenizer::Tokenizer;
use zinc_sched::grammar::{Grammar, GrammarCompiler, GrammarSource, Outline, ThinkingStart, ThinkingTags};
use zinc_sched::{Constraint, Control, Guide, Verdict};

static TOKENIZER: LazyLock<Tokenizer> = LazyLock::new(|| {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/host/qwen3-vocab.gguf");
    Tokenizer::from_gguf(&File::open(path).unwrap()).unwrap()
});
static COMPILER: LazyLock<GrammarCompiler> = LazyLock::new(|| GrammarCompiler::new(&TOKENIZER).unwrap());
static TAGS: LazyLock<ThinkingTags> = LazyLock::new(|| COMPILER.thinking("<think>", "</think>").unwrap());

fn object() -> Grammar {
    let schema = r#"{"type": "object", "required": ["a"], "properties": {"a": {"type": "integer"}}, "additionalProperties": false}"#;
    COMPILER.compile(&GrammarSource::JsonSchema(schema.to_owned())).unwrap()
}

fn constraint(control: &Control) -> Box<dyn Constraint> {
    match control {
        Control::Masked(start) => start().unwrap(),
        other => panic!("{other:?}"),
    }
}

/// How far a text is allowed and whether it may end there.
#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    /// The whole text is allowed, and it may end.
    Whole,
    /// The whole text is allowed, and it may not end.
    Unfinished,
    /// The text before these bytes is allowed.
    Stuck(usize),
}

/// Takes a text under a constraint, in tokens that are at most `longest` bytes.
fn follow(control: &Control, text: &str, longest: usize) -> Outcome {
    let mut constraint = constraint(control);
    let vocabulary = u32::try_from(TOKENIZER.vocab_size()).unwrap();
    let mut guide = Guide::new(vocabulary);
    let mut at = 0;
    loop {
        guide.reset();
        let verdict = constraint.guide(&mut guide).unwrap();
        if at == text.len() {
            let may_end = verdict == Verdict::Complete || TOKENIZER.eog().iter().any(|&id| guide.allows(id));
            return if may_end { Outcome::Whole } else { Outcome::Unfinished };
        }
        let rest = &text.as_bytes()[at..];
        let fits = |id: &u32| {
            TOKENIZER.is_text(*id)
                && TOKENIZER.token_bytes(*id).is_some_and(|word| !word.is_empty() && rest.starts_with(word))
        };
        let length = |id: &u32| TOKENIZER.token_bytes(*id).unwrap().len();
        let next =
            (0..vocabulary).filter(fits).filter(|id| guide.allows(*id) && length(id) <= longest).max_by_key(length);
        let Some(next) = next.filter(|_| verdict == Verdict::Choose) else { return Outcome::Stuck(at) };
        constraint.accept(next).unwrap();
        at += length(&next);
    }
}

/// Follows a text in the longest tokens, and byte by byte, with the same outcome.
#[track_caller]
fn outcome(control: &Control, text: &str) -> Outcome {
    let outcome = follow(control, text, usize::MAX);
    assert_eq!(follow(control, text, 1), outcome, "{text:?}");
    outcome
}

#[test]
fn report_04_the_grammar_begins_behind_the_thinking() {
    let begun = TAGS.control(ThinkingStart::Begun, None, Some(&object()));
    for thought in ["", "Let me see: {\"a\": 2}.\n", "a </thin </think </ think> <think> \"</", "日本語 😀\n\n"] {
        for between in ["", "\n", "\n\n"] {
            let text = format!("{thought}</think>{between}");
            assert_eq!(outcome(&begun, &format!("{text}{{\"a\": 12}}")), Outcome::Whole, "{text:?}");
            assert_eq!(outcome(&begun, &format!("{text}{{\"a\": 12")), Outcome::Unfinished, "{text:?}");
            assert_eq!(outcome(&begun, &format!("{text}Hello")), Outcome::Stuck(text.len()));
            assert_eq!(outcome(&begun, &text), Outcome::Unfinished, "the answer is missing");
        }
        assert_eq!(outcome(&begun, thought), Outcome::Unfinished, "the thinking does not end the answer");
    }
    assert_eq!(outcome(&begun, "</think>\n\n\n"), Outcome::Stuck(10));
    assert_eq!(outcome(&begun, "</think>{\"a\": 1}</think>"), Outcome::Stuck(16));
}

#[test]
fn report_16_a_schema_neither_forbids_thinking_nor_is_escaped_by_it() {
    let may = TAGS.control(ThinkingStart::MayBegin, None, Some(&object()));
    assert_eq!(outcome(&may, "{\"a\": 1}"), Outcome::Whole);
    assert_eq!(outcome(&may, "<think>\nHm.\n</think>\n\n{\"a\": 1}"), Outcome::Whole);
    assert_eq!(outcome(&may, "<think>{\"a\": 1}"), Outcome::Unfinished);
    assert_eq!(outcome(&may, "Hello"), Outcome::Stuck(0));
    assert_eq!(outcome(&may, "<thing"), Outcome::Stuck(5));
    assert_eq!(outcome(&may, "{\"a\": 1}<think>"), Outcome::Stuck(8));
}

#[test]
fn an_answer_may_begin_like_the_tag() {
    let tag = COMPILER.compile(&GrammarSource::Regex("<(th|call>)[a-z]*".to_owned())).unwrap();
    let may = TAGS.control(ThinkingStart::MayBegin, None, Some(&tag));
    for text in ["<think>Hm</think><thx", "<thinka", "<think", "<call>", "<think></think>\n<call>x"] {
        assert_eq!(outcome(&may, text), Outcome::Whole, "{text:?}");
    }
    assert_eq!(outcome(&may, "<think></think>\n<"), Outcome::Unfinished);
}

#[test]
fn a_budget_ends_the_thinking() {
    let begun = TAGS.control(ThinkingStart::Begun, Some(3), Some(&object()));
    assert_eq!(follow(&begun, "abc</think>{\"a\": 1}", 1), Outcome::Whole);
    assert_eq!(follow(&begun, "abcd", 1), Outcome::Stuck(3));
    assert_eq!(follow(&begun, "ab</think>{\"a\": 1}", 1), Outcome::Whole, "what has begun is completed");
    assert_eq!(follow(&begun, "ab</x", 1), Outcome::Stuck(4));
    let free = TAGS.control(ThinkingStart::Begun, Some(0), None);
    assert_eq!(outcome(&free, "</think>Hello"), Outcome::Whole);
    assert_eq!(outcome(&free, "Hello"), Outcome::Stuck(0));
    let may = TAGS.control(ThinkingStart::MayBegin, Some(1), None);
    assert_eq!(outcome(&may, "Hello <think> you"), Outcome::Whole);
    for longest in [1, 7, 8] {
        assert_eq!(follow(&may, "<think>a</think>b", longest), Outcome::Whole, "the tag is text");
    }
    assert_eq!(follow(&may, "<think>ab", 1), Outcome::Stuck(8));
}

#[test]
fn tags_that_overlap_themselves_are_found() {
    let tags = COMPILER.thinking("[[", "aabaa").unwrap();
    let object = object();
    let begun = tags.control(ThinkingStart::Begun, None, Some(&object));
    for thought in ["", "aab", "aabaab", "baa", "aaab aab"] {
        let text = format!("{thought}aabaa");
        let end = text.find("aabaa").unwrap() + 5;
        let expected = if end == text.len() { Outcome::Whole } else { Outcome::Stuck(end) };
        assert_eq!(outcome(&begun, &format!("{text}{{\"a\": 1}}")), expected, "{text:?}");
    }
    assert!(COMPILER.thinking("", "x").is_err() && COMPILER.thinking("x", "").is_err());
}

/// Tags as in harmony, where each message has a header.
static CHANNELS: LazyLock<ThinkingTags> = LazyLock::new(|| {
    let tags = COMPILER.thinking("<|channel|>analysis<|message|>", "<|end|>").unwrap();
    tags.with_anew("<|channel|>", "analysis").unwrap()
});

#[test]
fn a_grammar_begins_behind_the_header_of_its_message() {
    let mark = |text: &str| Outline::Mark(text.to_owned());
    let text = |text: &str| Outline::Text(text.to_owned());
    let role = Outline::Sequence(vec![mark("<|start|>"), text("assistant")]);
    let role = Outline::Repeat { part: Box::new(role), min: 0, max: Some(1) };
    let header = Outline::Sequence(vec![role, mark("<|channel|>"), text("final"), mark("<|message|>")]);
    for (source, good, bad) in [
        (GrammarSource::JsonSchema(r#"{"const": "a"}"#.to_owned()), "\"a\"", "\"b"),
        (GrammarSource::Regex("[ab]+".to_owned()), "abba", "abc"),
        (GrammarSource::Gbnf("root ::= \"yes\" | \"no\"".to_owned()), "no", "na"),
    ] {
        let behind = GrammarSource::Behind { header: header.clone(), source: Box::new(source) };
        let grammar = COMPILER.compile(&behind).unwrap();
        let may = CHANNELS.control(ThinkingStart::MayBegin, None, Some(&grammar));
        for before in ["", "<|channel|>analysis<|message|>Hm: <|channel|>?<|end|><|start|>assistant"] {
            let header = format!("{before}<|channel|>final<|message|>");
            assert_eq!(outcome(&may, &format!("{header}{good}")), Outcome::Whole, "{header}{good}");
            let stuck = Outcome::Stuck(header.len() + bad.len() - 1);
            assert_eq!(follow(&may, &format!("{header}{bad}"), 1), stuck, "{header}{bad}");
            assert_eq!(outcome(&may, &header), Outcome::Unfinished);
        }
        assert_eq!(outcome(&may, good), Outcome::Stuck(0), "the header is missing");
        let alone = grammar.control();
        assert_eq!(outcome(&alone, &format!("<|channel|>final<|message|>{good}")), Outcome::Whole);
        assert_eq!(outcome(&alone, "<|channel|>final<|message|>"), Outcome::Unfinished);
    }
    let empty = Outline::Choice(Vec::new());
    let source = Box::new(GrammarSource::Regex("a".to_owned()));
    assert!(COMPILER.compile(&GrammarSource::Behind { header: empty, source }).is_err());
}

#[test]
fn a_budget_counts_thinking_that_begins_anew() {
    let may = CHANNELS.control(ThinkingStart::MayBegin, Some(20), None);
    let first = "<|channel|>analysis<|message|>ab<|end|><|start|>assistant<|channel|>";
    assert_eq!(follow(&may, &format!("{first}final<|message|>Hello, how are you? <|channel|>x"), 1), Outcome::Whole);
    // 9 bytes are spent with the end of the first thought, and the other 11 on the mark behind the name.
    assert_eq!(follow(&may, &format!("{first}analysis<|message|>cd"), 1), Outcome::Stuck(first.len() + 12));
    let none = CHANNELS.control(ThinkingStart::MayBegin, Some(0), None);
    let first = "<|channel|>analysis<|message|><|end|><|start|>assistant<|channel|>";
    assert_eq!(outcome(&none, &format!("{first}final<|message|>Hello")), Outcome::Whole);
    assert_eq!(outcome(&none, &format!("{first}commentary to=functions.f<|message|>{{}}")), Outcome::Whole);
    assert_eq!(outcome(&none, &format!("{first}analysis<|message|>")), Outcome::Stuck(first.len()));
    assert_eq!(outcome(&none, "<|channel|>analysis<|message|>a"), Outcome::Stuck(30));
    assert!(COMPILER.thinking("a", "b").unwrap().with_anew("", "c").is_err());
}
