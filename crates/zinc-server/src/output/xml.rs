//! A call in the XML form: `<function=NAME>`, parameters as plain text between tags, `</function>`.

use std::collections::HashSet;

use super::Tool;
use super::expect::{Expect, Found};
use super::held::{Held, MAX_NAME_BYTES, Names, Open, Step};
use super::json::{Scan, Scanner, quoted, write_char};
use super::sink::Sink;
use super::value::{End, Value};

/// What may come where a call has no parameters yet. Llama 3 writes the arguments as an object.
const FIRST: &[&str] = &["<parameter=", "</function>", "</tool_call>", "{"];
/// What may come behind a parameter.
const NEXT: &[&str] = &["<parameter=", "</function>", "</tool_call>"];
/// What may come behind arguments that are an object.
const CLOSE: &[&str] = &["</function>", "</tool_call>"];

/// A call behind `<function=`.
#[derive(Clone, Debug)]
pub(super) struct XmlCall {
    names: Names,
    state: State,
    /// The name of the tool, once it is known.
    name: String,
    /// Which of the request's tools that is.
    tool: Option<usize>,
    /// Names of the parameters so far.
    given: HashSet<String>,
}

#[derive(Clone, Debug)]
enum State {
    /// In the name of the tool.
    Name,
    /// Between parameters.
    Body(Expect),
    /// In the name of a parameter.
    Key(String),
    /// In the value of a parameter.
    Value(Value),
    /// In arguments that are an object.
    Object(Scanner),
    /// Behind arguments that are an object.
    Close(Expect),
}

impl XmlCall {
    pub(super) fn new(names: Names) -> Self {
        Self { names, state: State::Name, name: String::new(), tool: None, given: HashSet::new() }
    }

    pub(super) fn push(&mut self, c: char, held: &mut Held, sink: &mut Sink, tools: &[Tool]) -> Step {
        match &mut self.state {
            State::Name if c == '>' => {
                if !self.names.allow(&self.name, tools) {
                    return Step::Broken { again: String::new() };
                }
                self.tool = tools.iter().position(|tool| tool.name == self.name);
                self.state = State::Body(Expect::new(FIRST));
            }
            State::Name => match push_name(&mut self.name, c) {
                true => {}
                false => return Step::broken_at(c),
            },
            State::Body(expect) | State::Close(expect) => match expect.push(c) {
                Found::Nothing => {}
                Found::Text("<parameter=") => self.state = State::Key(String::new()),
                Found::Text("{") => {
                    held.begin(sink, &self.name);
                    sink.arguments(|json| json.push('{'));
                    let mut scanner = Scanner::new();
                    scanner.push('{');
                    self.state = State::Object(scanner);
                }
                Found::Text(close) => return self.end(close == "</tool_call>", held, sink),
                Found::Other(again) => return Step::Broken { again },
            },
            State::Key(key) if c == '>' => {
                if key.is_empty() {
                    return Step::Broken { again: String::new() };
                }
                let key = std::mem::take(key);
                self.parameter(key, held, sink);
            }
            State::Key(key) => match push_name(key, c) {
                true => {}
                false => return Step::broken_at(c),
            },
            State::Value(value) => {
                match value.push(c, self.tool.map(|tool| &tools[tool]), |key| self.given.contains(key), sink) {
                    End::None => {}
                    End::Value => self.state = State::Body(Expect::new(NEXT)),
                    End::Next(key) => self.parameter(key, held, sink),
                    End::Call => return self.end(true, held, sink),
                }
            }
            State::Object(scanner) => {
                let in_string = scanner.in_string();
                match scanner.push(c) {
                    Scan::More => {}
                    Scan::Complete => self.state = State::Close(Expect::new(CLOSE)),
                    Scan::CompleteBefore | Scan::Invalid => return Step::broken_at(c),
                }
                sink.arguments(|json| write_char(json, c, in_string));
            }
        }
        Step::More
    }

    /// Begins a parameter.
    fn parameter(&mut self, key: String, held: &mut Held, sink: &mut Sink) {
        if !held.begun() {
            held.begin(sink, &self.name);
        }
        let before = if self.given.is_empty() { '{' } else { ',' };
        sink.arguments(|json| {
            json.push(before);
            json.push_str(&quoted(&key));
            json.push(':');
        });
        self.given.insert(key.clone());
        self.state = State::Value(Value::new(key));
    }

    fn end(&self, tag_is_closed: bool, held: &mut Held, sink: &mut Sink) -> Step {
        if !held.begun() {
            held.begin(sink, &self.name);
        }
        match self.state {
            State::Close(_) => {}
            _ if self.given.is_empty() => sink.arguments(|json| json.push_str("{}")),
            _ => sink.arguments(|json| json.push('}')),
        }
        sink.end();
        Step::Complete { open: Open { tag: !tag_is_closed, fence: false } }
    }

    /// The answer ends within the call: delivers what there is of a value.
    pub(super) fn cut(&mut self, sink: &mut Sink, tools: &[Tool]) {
        if let State::Value(value) = &mut self.state {
            value.cut(self.tool.map(|tool| &tools[tool]), sink);
        }
    }
}

/// Adds a character to the name of a tool or parameter; whether it can be one.
fn push_name(name: &mut String, c: char) -> bool {
    let fits = !matches!(c, '<' | '\n') && name.len() < MAX_NAME_BYTES;
    if fits {
        name.push(c);
    }
    fits
}
