//! Formats, tools, and answers as lists of parts.

use serde_json::{Value, json};
use zinc_server::output::{OutputFormat, OutputParser, Piece, Tool};

/// The beginning of an answer in ChatML.
pub(crate) const ASSISTANT: &str = "<|im_start|>assistant\n";

/// A part of an answer: pieces of one kind together, or a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Reasoning(String),
    Content(String),
    /// The name, the text of the arguments, and whether the call is complete.
    Call(String, String, bool),
}

pub(crate) fn reasoning(text: &str) -> Part {
    Part::Reasoning(text.to_owned())
}

pub(crate) fn content(text: &str) -> Part {
    Part::Content(text.to_owned())
}

/// A complete call.
pub(crate) fn call(name: &str, arguments: &str) -> Part {
    Part::Call(name.to_owned(), arguments.to_owned(), true)
}

/// A call without an end.
pub(crate) fn unfinished(name: &str, arguments: &str) -> Part {
    Part::Call(name.to_owned(), arguments.to_owned(), false)
}

/// Joins pieces into parts, and checks the order that pieces keep: no empty text, calls counted from 0, arguments and ends only of the call
/// that has begun last, and only before other pieces, breaks only between content.
pub(crate) fn joined(pieces: Vec<Piece>) -> Vec<Part> {
    let mut parts: Vec<Part> = Vec::new();
    let mut calls = 0;
    let mut open = false;
    // Whether the next piece begins content of its own.
    let mut is_apart = false;
    for piece in pieces {
        let is_content = matches!(piece, Piece::Content(_));
        assert!(is_content || !is_apart, "{piece:?} after a break in {parts:?}");
        match (piece, parts.last_mut()) {
            (Piece::Reasoning(text) | Piece::Content(text), _) if text.is_empty() => {
                panic!("an empty piece after {parts:?}")
            }
            (Piece::ContentBreak, _) => {
                let is_content = |part: &Part| matches!(part, Part::Content(_));
                assert!(parts.iter().any(is_content), "a break before all content");
                is_apart = true;
                continue;
            }
            (Piece::Reasoning(text), Some(Part::Reasoning(last))) => last.push_str(&text),
            (Piece::Content(text), Some(Part::Content(last))) if !is_apart => last.push_str(&text),
            (Piece::Reasoning(text), _) => parts.push(Part::Reasoning(text)),
            (Piece::Content(text), _) => parts.push(Part::Content(text)),
            (Piece::ToolCallBegin { index, name }, _) => {
                assert_eq!(index, calls);
                assert!(!name.is_empty());
                calls += 1;
                open = true;
                parts.push(Part::Call(name, String::new(), false));
            }
            (Piece::ToolCallArguments { index, json }, Some(Part::Call(_, arguments, _))) if open => {
                assert_eq!(index + 1, calls);
                assert!(!json.is_empty());
                arguments.push_str(&json);
            }
            (Piece::ToolCallEnd { index }, Some(Part::Call(_, arguments, complete))) if open => {
                assert_eq!(index + 1, calls);
                let value: Result<Value, _> = serde_json::from_str(arguments);
                assert!(value.is_ok_and(|value| value.is_object()), "{arguments}");
                *complete = true;
                open = false;
            }
            (piece, _) => panic!("{piece:?} after {parts:?}"),
        }
        open &= matches!(parts.last(), Some(Part::Call(..)));
        is_apart = false;
    }
    assert!(!is_apart, "a break behind all content");
    parts
}

/// What is parsed: a format, the tools of the request, and the end of the prompt.
pub(crate) struct Setup {
    pub(crate) format: OutputFormat,
    pub(crate) tools: Vec<Tool>,
    pub(crate) tail: &'static str,
}

impl Setup {
    /// The parts of an answer that comes in these pieces.
    pub(crate) fn parts<'p>(&self, pieces: impl IntoIterator<Item = &'p str>) -> Vec<Part> {
        let mut parser = OutputParser::new(&self.format, &self.tools, self.tail);
        let mut all: Vec<Piece> = pieces.into_iter().flat_map(|piece| parser.push(piece)).collect();
        all.extend(parser.finish());
        assert_eq!(parser.finish(), [], "an ended answer has no more");
        joined(all)
    }

    /// The parts of an answer that comes as a whole.
    pub(crate) fn whole(&self, text: &str) -> Vec<Part> {
        self.parts([text])
    }
}

fn setup(template: &str) -> Setup {
    Setup { format: OutputFormat::of_template(template), tools: tools(), tail: ASSISTANT }
}

/// Qwen3.
pub(crate) fn hermes() -> Setup {
    setup("<think></think><tool_call>{\"name\":")
}

/// Qwen3-Coder, and with reasoning Qwen3.5 and later.
pub(crate) fn xml() -> Setup {
    setup("<think></think><tool_call><function=<parameter=")
}

/// DeepSeek R1 after a prompt that has begun the reasoning.
pub(crate) fn deepseek() -> Setup {
    Setup { tail: "<｜Assistant｜><think>\n", ..setup("</think><｜tool▁calls▁begin｜>```json") }
}

/// Llama 3.1.
pub(crate) fn llama() -> Setup {
    Setup { tail: "<|end_header_id|>\n\n", ..setup("<|python_tag|>") }
}

/// gpt-oss.
pub(crate) fn harmony() -> Setup {
    Setup { tail: "<|end|><|start|>assistant", ..setup("<|start|><|channel|><|message|>") }
}

/// The same with no tools in the request.
pub(crate) fn without_tools(setup: Setup) -> Setup {
    Setup { tools: Vec::new(), ..setup }
}

/// The same with the end of another prompt.
pub(crate) fn after(tail: &'static str, setup: Setup) -> Setup {
    Setup { tail, ..setup }
}

pub(crate) fn tool(name: &str, parameters: Value) -> Tool {
    Tool { name: name.to_owned(), description: None, parameters }
}

/// The tools of the tests' requests.
pub(crate) fn tools() -> Vec<Tool> {
    let weather = json!({
        "type": "object",
        "properties": {
            "city": {"type": "string"},
            "days": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
            "exact": {"type": "boolean"},
            "note": {"type": ["string", "null"]},
            "tags": {"type": "array", "items": {"type": "string"}},
            "unit": {"$ref": "#/$defs/Unit"},
            "where": {"type": "object"},
        },
        "$defs": {"Unit": {"enum": ["C", "F", 1]}},
        "required": ["city"],
    });
    let write = json!({"type": "object", "properties": {"path": {"type": "string"}, "text": {"type": "string"}}});
    vec![tool("weather", weather), tool("write", write), tool("now", json!({"type": "object"}))]
}
