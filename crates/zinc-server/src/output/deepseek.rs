//! Calls in DeepSeek's form. In V3 and R1 a call is `function`, a mark, the name, and the arguments in a code fence; in V3.1 the name, a mark,
//! and the arguments.

use super::Tool;
use super::expect::{Expect, Found};
use super::held::{Held, MAX_NAME_BYTES, Names, Open, Step, is_space};
use super::json::{Scan, Scanner, write_char};
use super::sink::Sink;

/// What comes before all calls, with spellings that distilled models use.
pub(super) const BEGIN_ALL: &[&str] = &[
    "<｜tool▁calls▁begin｜>",
    "<｜tool_calls_begin｜>",
    "<｜tool calls begin｜>",
    "<｜tool\\_calls\\_begin｜>",
    "<｜tool▁calls｜>",
];
pub(super) const END_ALL: &str = "<｜tool▁calls▁end｜>";
pub(super) const BEGIN: &str = "<｜tool▁call▁begin｜>";
pub(super) const END: &str = "<｜tool▁call▁end｜>";
pub(super) const FENCE: &str = "```";

/// Before the first call. Some models leave out the mark.
const FIRST: &[&str] = &[BEGIN, "function<｜tool▁sep｜>"];
const SEPARATOR: &[&str] = &["<｜tool▁sep｜>"];
const OPEN_FENCE: &[&str] = &[FENCE, "{"];
const LANGUAGE: &[&str] = &["json", "{"];
const OBJECT: &[&str] = &["{"];

/// A call behind the mark before all calls, or behind that before the call.
#[derive(Clone, Debug)]
pub(super) struct DeepSeekCall {
    state: State,
    name: String,
    fence: bool,
}

#[derive(Clone, Debug)]
enum State {
    /// Behind the mark before all calls.
    First(Expect),
    /// Before the separator.
    Header,
    /// In the separator.
    Separator(Expect),
    /// Behind the separator, with no character of what follows.
    Behind,
    /// In the name of the tool, which a newline ends.
    Name,
    /// Before the bracket of the arguments.
    Arguments(Expect),
    /// In the arguments.
    Object(Scanner),
}

impl DeepSeekCall {
    /// A call behind the mark before all calls.
    pub(super) fn first() -> Self {
        Self { state: State::First(Expect::new(FIRST)), name: String::new(), fence: false }
    }

    /// A call behind the mark before it.
    pub(super) fn next() -> Self {
        Self { state: State::Header, name: String::new(), fence: false }
    }

    pub(super) fn push(&mut self, c: char, held: &mut Held, sink: &mut Sink, tools: &[Tool]) -> Step {
        match &mut self.state {
            State::First(expect) => match expect.push(c) {
                Found::Nothing => {}
                Found::Text(BEGIN) => self.state = State::Header,
                Found::Text(_) => self.state = State::Name,
                Found::Other(again) => return Step::Broken { again },
            },
            State::Header if c == '<' => {
                let mut expect = Expect::new(SEPARATOR);
                expect.push(c);
                self.state = State::Separator(expect);
            }
            State::Separator(expect) => match expect.push(c) {
                Found::Nothing => {}
                Found::Text(_) => self.state = State::Behind,
                Found::Other(again) => return Step::Broken { again },
            },
            State::Behind if is_space(c) => {}
            State::Behind if c == '{' => return self.begin(held, sink, tools),
            State::Behind if self.name.trim() == "function" => {
                self.name = c.to_string();
                self.state = State::Name;
            }
            State::Behind => return Step::broken_at(c),
            State::Name if c == '\n' => self.state = State::Arguments(Expect::new(OPEN_FENCE)),
            State::Header | State::Name => {
                if c == '\n' || self.name.len() >= MAX_NAME_BYTES {
                    return Step::broken_at(c);
                }
                self.name.push(c);
            }
            State::Arguments(expect) => match expect.push(c) {
                Found::Nothing => {}
                Found::Text("{") => return self.begin(held, sink, tools),
                Found::Text(FENCE) => {
                    self.fence = true;
                    self.state = State::Arguments(Expect::new(LANGUAGE));
                }
                Found::Text(_) => self.state = State::Arguments(Expect::new(OBJECT)),
                Found::Other(again) => return Step::Broken { again },
            },
            State::Object(scanner) => {
                let in_string = scanner.in_string();
                let scan = scanner.push(c);
                if matches!(scan, Scan::CompleteBefore | Scan::Invalid) {
                    return Step::broken_at(c);
                }
                sink.arguments(|json| write_char(json, c, in_string));
                if scan == Scan::Complete {
                    sink.end();
                    return Step::Complete { open: Open { tag: true, fence: self.fence } };
                }
            }
        }
        Step::More
    }

    /// Begins the call with the bracket of its arguments.
    fn begin(&mut self, held: &mut Held, sink: &mut Sink, tools: &[Tool]) -> Step {
        let name = self.name.trim();
        if !Names::Any.allow(name, tools) {
            return Step::broken_at('{');
        }
        held.begin(sink, name);
        sink.arguments(|json| json.push('{'));
        let mut scanner = Scanner::new();
        scanner.push('{');
        self.state = State::Object(scanner);
        Step::More
    }
}
