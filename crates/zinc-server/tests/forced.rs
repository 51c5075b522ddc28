//! Answers that are forced to be tool calls, over the vocabulary of Qwen3: what their constraint allows, and what is read from them.

use std::path::Path;
use std::sync::LazyLock;

use serde_json::{Value, json};
use zinc_model::gguf::File;
use zinc_model::tokenizer::Tokenizer;
use zinc_sched::grammar::{Grammar, GrammarCompiler, GrammarSource};
use zinc_sched::{Guide, Verdict};
use zinc_server::output::{Calls, Forced, ForcedCallError, OutputFormat, OutputParser, Piece, Tool, forced_call};

static TOKENIZER: LazyLock<Tokenizer> = LazyLock::new(|| {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/host/qwen3-vocab.gguf");
    Tokenizer::from_gguf(&File::open(path).unwrap()).unwrap()
});
static COMPILER: LazyLock<GrammarCompiler> = LazyLock::new(|| GrammarCompiler::new(&TOKENIZER).unwrap());

const HERMES: &str = "<tool_call>";
const XML: &str = "<function=<parameter=";
const DEEPSEEK_3: &str = "<｜tool▁calls▁begin｜>```json";
const DEEPSEEK_3_1: &str = "<｜tool▁calls▁begin｜>";
const LLAMA: &str = "<|python_tag|>";
const HARMONY: &str = "<|start|><|channel|><|message|>";

fn tool(name: &str, parameters: Value) -> Tool {
    Tool { name: name.to_owned(), description: None, parameters }
}

fn tools() -> Vec<Tool> {
    vec![
        tool(
            "find",
            json!({
                "type": "object",
                "properties": {
                    "text": {"type": "string"},
                    "most": {"$ref": "#/$defs/Most"},
                    "kind": {"enum": ["file", "line", 3]},
                    "where": {"type": "object", "additionalProperties": {"type": "integer"}},
                },
                "$defs": {"Most": {"type": "integer", "minimum": 1, "maximum": 20}},
                "required": ["text"],
                "additionalProperties": false,
            }),
        ),
        tool("now", json!({"type": "object", "additionalProperties": false})),
        tool("nowhere", Value::Null),
    ]
}

fn grammar(template: &str, tools: &[Tool], forced: Forced<'_>, calls: Calls) -> Grammar {
    let outline = forced_call(&OutputFormat::of_template(template), tools, forced, calls).unwrap();
    COMPILER.compile(&GrammarSource::Outline(outline)).unwrap()
}

/// The byte at which a grammar refuses a text; `None` if it is a text of the grammar.
fn refused_at(grammar: &Grammar, text: &str) -> Option<usize> {
    let mut matcher = grammar.matcher();
    for (at, byte) in text.bytes().enumerate() {
        let id = (0..256).find(|&id| TOKENIZER.token_bytes(id) == Some(&[byte][..]));
        if matcher.accept(id.expect("a token for each byte")).is_err() {
            return Some(at);
        }
    }
    (!matcher.is_accepting()).then_some(text.len())
}

/// The complete calls that are read from an answer, which has nothing else.
fn calls(template: &str, tools: &[Tool], text: &str) -> Vec<(String, Value)> {
    let mut parser = OutputParser::new(&OutputFormat::of_template(template), tools, "");
    let mut pieces = parser.push(text);
    pieces.extend(parser.finish());
    let mut calls = Vec::new();
    let mut ends = 0;
    for piece in pieces {
        match piece {
            Piece::ToolCallBegin { name, .. } => calls.push((name, String::new())),
            Piece::ToolCallArguments { json, .. } => calls.last_mut().unwrap().1.push_str(&json),
            Piece::ToolCallEnd { .. } => ends += 1,
            Piece::Content(_) | Piece::ContentBreak | Piece::Reasoning(_) => panic!("{piece:?} in {text:?}"),
        }
    }
    assert_eq!(ends, calls.len(), "{text:?}");
    calls.into_iter().map(|(name, arguments)| (name, serde_json::from_str(&arguments).unwrap())).collect()
}

/// Answers of each form with a call of `find` and one of `now`.
fn answers(template: &str) -> [String; 2] {
    let find = r#"{"text": "a \"b\"", "most": 12, "kind": "line", "where": {"x": 1}}"#;
    match template {
        HERMES => [("find", find), ("now", "{}")].map(|(name, arguments)| {
            format!("<tool_call>\n{{\"name\": \"{name}\", \"arguments\": {arguments}}}\n</tool_call>")
        }),
        XML => [
            "<tool_call>\n<function=find>\n<parameter=text>\na \"b\"\n</parameter>\n<parameter=most>\n12\n</parameter>\n<parameter=kind>\nline\n\
             </parameter>\n<parameter=where>\n{\"x\": 1}\n</parameter>\n</function>\n</tool_call>"
                .to_owned(),
            "<tool_call>\n<function=now>\n</function>\n</tool_call>".to_owned(),
        ],
        DEEPSEEK_3 => [("find", find), ("now", "{}")].map(|(name, arguments)| {
            format!("<｜tool▁call▁begin｜>function<｜tool▁sep｜>{name}\n```json\n{arguments}\n```<｜tool▁call▁end｜>")
        }),
        DEEPSEEK_3_1 => [("find", find), ("now", "{}")]
            .map(|(name, arguments)| format!("<｜tool▁call▁begin｜>{name}<｜tool▁sep｜>{arguments}<｜tool▁call▁end｜>")),
        HARMONY => [("find", find), ("now", "{}")].map(|(name, arguments)| {
            format!("<|channel|>commentary to=functions.{name} <|constrain|>json<|message|>{arguments}")
        }),
        _ => [("find", find), ("now", "{}")]
            .map(|(name, arguments)| format!("{{\"name\": \"{name}\", \"parameters\": {arguments}}}")),
    }
}

fn around(template: &str, calls: &str) -> String {
    match template {
        DEEPSEEK_3 | DEEPSEEK_3_1 => format!("<｜tool▁calls▁begin｜>{calls}<｜tool▁calls▁end｜>"),
        _ => calls.to_owned(),
    }
}

#[test]
fn the_forms_that_models_are_trained_on_are_allowed_and_read() {
    let arguments = json!({"text": "a \"b\"", "most": 12, "kind": "line", "where": {"x": 1}});
    for template in [HERMES, XML, DEEPSEEK_3, DEEPSEEK_3_1, LLAMA, HARMONY] {
        let any = grammar(template, &tools(), Forced::Any, Calls::One);
        let [find, now] = answers(template).map(|call| around(template, &call));
        assert_eq!(refused_at(&any, &find), None, "{find}");
        assert_eq!(refused_at(&any, &now), None, "{now}");
        assert_eq!(calls(template, &tools(), &find), [("find".to_owned(), arguments.clone())]);
        assert_eq!(calls(template, &tools(), &now), [("now".to_owned(), json!({}))]);
        let named = grammar(template, &tools(), Forced::Named("now"), Calls::One);
        assert_eq!(refused_at(&named, &now), None, "{now}");
        assert!(refused_at(&named, &find).is_some());
        assert_eq!(refused_at(&any, "Hello"), Some(0));
        assert_eq!(refused_at(&any, ""), Some(0));
        assert_eq!(refused_at(&any, &(now.clone() + " and")), Some(now.len()), "{template}");
    }
}

#[test]
fn several_calls_come_one_behind_the_other() {
    for template in [HERMES, XML, DEEPSEEK_3, DEEPSEEK_3_1] {
        let [find, now] = answers(template);
        let between = if template == DEEPSEEK_3_1 { "" } else { "\n" };
        let text = around(template, &[&*find, &now, &now].join(between));
        let several = grammar(template, &tools(), Forced::Any, Calls::Several);
        assert_eq!(refused_at(&several, &text), None, "{text}");
        assert_eq!(calls(template, &tools(), &text).len(), 3);
        assert!(refused_at(&grammar(template, &tools(), Forced::Any, Calls::One), &text).is_some());
    }
    let strings = [tool("say", json!({"properties": {"text": {"type": "string"}}}))];
    let say = "<tool_call>\n<function=say>\n<parameter=text>\nHi\n</parameter>\n</function>\n</tool_call>";
    let several = grammar(XML, &strings, Forced::Any, Calls::Several);
    assert_eq!(refused_at(&several, &format!("{say}\n{say}")), None);
}

#[test]
fn harmony_names_the_tool_with_the_role_or_the_channel() {
    let any = grammar(HARMONY, &tools(), Forced::Any, Calls::Several);
    for header in [
        "<|start|>assistant<|channel|>commentary to=functions.now <|constrain|>json<|message|>",
        "<|start|>assistant to=functions.now<|channel|>commentary json<|message|>",
        " to=functions.now<|channel|>commentary<|message|>",
        "<|channel|>commentary to=functions.now<|message|>",
    ] {
        let text = format!("{header}{{}}");
        assert_eq!(refused_at(&any, &text), None, "{text}");
        assert_eq!(calls(HARMONY, &tools(), &text), [("now".to_owned(), json!({}))], "{text}");
        assert_eq!(refused_at(&any, &format!("{text}<|start|>")), Some(text.len()), "there is one call");
    }
    for text in ["<|channel|>final<|message|>", "<|channel|>analysis", "<|channel|>commentary<|message|>"] {
        assert!(refused_at(&any, text).is_some_and(|at| at < text.len()), "{text}");
    }
}

#[test]
fn arguments_match_the_schema() {
    for template in [HERMES, XML, DEEPSEEK_3, DEEPSEEK_3_1, LLAMA, HARMONY] {
        let any = grammar(template, &tools(), Forced::Any, Calls::One);
        let [find, now] = answers(template).map(|call| around(template, &call));
        for (from, to) in [
            ("12", "21"),
            ("12", "\"12\""),
            ("line", "lime"),
            ("{\"x\": 1}", "[1]"),
            ("\"x\": 1", "\"x\": 1.5"),
            ("find", "fine"),
        ] {
            let changed = find.replace(from, to);
            assert!(changed != find && refused_at(&any, &changed).is_some(), "{changed}");
        }
        assert!(refused_at(&any, &now.replace("now", "find")).is_some(), "text is required");
    }
}

/// Draws that are the same each time.
struct Draws(u64);

impl Draws {
    fn below(&mut self, count: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % count
    }
}

/// Tokens that can end something: a value, a string, an object.
static CLOSING: LazyLock<Vec<u32>> = LazyLock::new(|| {
    let ends = |id: &u32| TOKENIZER.token_bytes(*id).is_some_and(|word| word.iter().any(|byte| b"<\"}".contains(byte)));
    (0..u32::try_from(TOKENIZER.vocab_size()).unwrap()).filter(ends).collect()
});

/// One of some tokens that a guide allows.
fn draw(guide: &Guide, tokens: &[u32], draws: &mut Draws) -> Option<u32> {
    let allowed: Vec<u32> = tokens.iter().copied().filter(|&id| guide.allows(id)).collect();
    (!allowed.is_empty()).then(|| allowed[draws.below(allowed.len())])
}

/// A random text of a grammar; `None` if it becomes too long. Tokens that end something are drawn more often than others, of which there
/// are many more.
fn random(grammar: &Grammar, draws: &mut Draws) -> Option<String> {
    let all: Vec<u32> = (0..u32::try_from(TOKENIZER.vocab_size()).unwrap()).collect();
    let mut matcher = grammar.matcher();
    let mut guide = Guide::new(u32::try_from(all.len()).unwrap());
    let mut text = Vec::new();
    for _ in 0..400 {
        guide.reset();
        if matcher.guide(&mut guide).unwrap() == Verdict::Complete {
            return Some(String::from_utf8(text).unwrap());
        }
        let closing = if draws.below(3) > 0 { draw(&guide, &CLOSING, draws) } else { None };
        let id = closing.or_else(|| draw(&guide, &all, draws)).unwrap();
        if TOKENIZER.is_eog(id) {
            return Some(String::from_utf8(text).unwrap());
        }
        matcher.accept(id).unwrap();
        text.extend_from_slice(TOKENIZER.token_bytes(id).unwrap());
    }
    None
}

#[test]
fn every_forced_answer_is_read_as_calls() {
    let tools = [
        tool(
            "set",
            json!({
                "properties": {
                    "key": {"type": "string", "maxLength": 8},
                    "on": {"type": "boolean"},
                    "level": {"enum": ["low", "high", 3, null]},
                    "list": {"type": "array", "items": {"type": "integer"}, "maxItems": 2},
                },
                "additionalProperties": false,
            }),
        ),
        tool("now", json!({"type": "object", "maxProperties": 0})),
    ];
    for template in [HERMES, XML, DEEPSEEK_3, DEEPSEEK_3_1, LLAMA, HARMONY] {
        let grammar = grammar(template, &tools, Forced::Any, Calls::Several);
        let mut found = 0;
        for seed in 0..12 {
            if let Some(text) = random(&grammar, &mut Draws(seed)) {
                let calls = calls(template, &tools, &text);
                assert!(!calls.is_empty() && calls.iter().all(|(name, _)| name == "set" || name == "now"), "{text}");
                for (_, arguments) in calls {
                    let level = arguments.get("level");
                    assert!(
                        level.is_none_or(|level| [json!("low"), json!("high"), json!(3), json!(null)].contains(level)),
                        "{text}"
                    );
                    assert!(arguments.get("on").is_none_or(Value::is_boolean), "{text}");
                    assert!(arguments.get("list").is_none_or(Value::is_array), "{text}");
                    assert!(arguments.get("key").is_none_or(Value::is_string), "{text}");
                }
                found += 1;
            }
        }
        assert!(found > 3, "{template}: {found}");
    }
}

#[test]
fn report_13_and_14_what_cannot_be_constrained_is_an_error_that_names_tool_path_and_keyword() {
    let tools = [
        tool("good", json!({"type": "object"})),
        tool("bad", json!({"type": "object", "properties": {"x": {"type": "string", "pattern": "((?=a).)*"}}})),
    ];
    for template in [HERMES, DEEPSEEK_3, LLAMA, HARMONY] {
        let outline = forced_call(&OutputFormat::of_template(template), &tools, Forced::Any, Calls::One).unwrap();
        let error = COMPILER.compile(&GrammarSource::Outline(outline)).unwrap_err().to_string();
        assert!(
            error.starts_with("tool \"bad\": ") && error.contains("/properties/x") && error.contains("pattern"),
            "{error}"
        );
        let outline =
            forced_call(&OutputFormat::of_template(template), &tools, Forced::Named("good"), Calls::One).unwrap();
        assert!(COMPILER.compile(&GrammarSource::Outline(outline)).is_ok(), "another tool does not matter");
    }
}

#[test]
fn report_14_large_sets_of_tools_compile() {
    let schema = |tool: usize| {
        let parameter = |n: usize| {
            (format!("p{n}"), json!({"anyOf": [{"type": "string", "pattern": format!("^x{tool}")}, {"type": "null"}]}))
        };
        json!({"type": "object", "properties": (0..12).map(parameter).collect::<serde_json::Map<_, _>>(), "required": ["p0"]})
    };
    let tools: Vec<Tool> = (0..100).map(|n| tool(&format!("mcp__server__tool_{n}"), schema(n))).collect();
    for template in [HERMES, XML] {
        let any = grammar(template, &tools, Forced::Any, Calls::Several);
        assert!(refused_at(&any, "<tool_call>\nx").is_some());
    }
}

#[test]
fn report_15_patterns_are_found_anywhere_in_a_string() {
    let tools = [tool("f", json!({"properties": {"x": {"type": "string", "pattern": "b+"}}}))];
    let any = grammar(HERMES, &tools, Forced::Any, Calls::One);
    let call = |x: &str| format!("<tool_call>\n{{\"name\": \"f\", \"arguments\": {{\"x\": \"{x}\"}}}}\n</tool_call>");
    assert_eq!(refused_at(&any, &call("abc")), None);
    assert!(refused_at(&any, &call("ac")).is_some());
}

#[test]
fn what_cannot_be_forced_says_why() {
    let hermes = OutputFormat::of_template(HERMES);
    let forced =
        |format: &OutputFormat, tools: &[Tool], forced| forced_call(format, tools, forced, Calls::One).unwrap_err();
    assert_eq!(forced(&OutputFormat::of_template(""), &tools(), Forced::Any), ForcedCallError::NoForm);
    assert_eq!(forced(&hermes, &[], Forced::Any), ForcedCallError::NoTools);
    let unknown = forced(&hermes, &tools(), Forced::Named("then"));
    assert_eq!(unknown, ForcedCallError::UnknownTool { name: "then".to_owned() });
}
