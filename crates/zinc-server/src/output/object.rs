//! A call that is a JSON object: `{"name": NAME, "arguments": OBJECT}`, or `parameters` in the place of `arguments`.

use super::Tool;
use super::held::{Held, Names, Open, Step, is_space};
use super::json::{Scan, Scanner, write_char};
use super::sink::Sink;

/// Names of members that are passed over, since some models write them, also where other names mean that the object is no call.
const PASSED_OVER: [&str; 2] = ["type", "id"];

/// The object of a call, behind its bracket.
#[derive(Clone, Debug)]
pub(super) struct ObjectCall {
    names: Names,
    open: Open,
    state: State,
    name: Option<String>,
    /// Whether arguments have come, or begun to.
    has_arguments: bool,
    /// Arguments that came before the name.
    early: String,
}

#[derive(Clone, Debug)]
enum State {
    /// Before the name of a member, or the end if `may_end`.
    Member { may_end: bool },
    /// In the name of a member.
    Key(Text),
    /// Before the colon behind the name of a member.
    Colon(Member),
    /// Before the value of a member.
    Value(Member),
    /// In the name of the tool.
    Name(Text),
    /// In the object of the arguments.
    Arguments(Scanner),
    /// In arguments that are a string, which holds the text of the object.
    Quoted(Text),
    /// In the value of a member that does not matter, or in arguments that are `null`.
    PassedOver(Scanner),
    /// Behind a member.
    Next,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Member {
    Name,
    Arguments,
    Other,
}

impl ObjectCall {
    /// A call whose opening bracket has been read. Objects with members other than those of a call are calls if `names` allows any name.
    pub(super) fn new(names: Names, open: Open) -> Self {
        let state = State::Member { may_end: true };
        Self { names, open, state, name: None, has_arguments: false, early: String::new() }
    }

    /// What is open around the call.
    pub(super) fn open(&self) -> Open {
        self.open
    }

    pub(super) fn push(&mut self, c: char, held: &mut Held, sink: &mut Sink, tools: &[Tool]) -> Step {
        match self.take(c, held, sink, tools) {
            Some(step) => step,
            None => Step::broken_at(c),
        }
    }

    /// `None` if the character does not fit.
    fn take(&mut self, c: char, held: &mut Held, sink: &mut Sink, tools: &[Tool]) -> Option<Step> {
        match &mut self.state {
            State::Member { .. } | State::Colon(_) | State::Value(_) | State::Next if is_space(c) => {}
            State::Member { may_end: true } | State::Next if c == '}' => return self.end(held, sink),
            State::Member { .. } if c == '"' => self.state = State::Key(Text::new()),
            State::Next if c == ',' => self.state = State::Member { may_end: false },
            State::Member { .. } | State::Next => return None,
            State::Key(text) => {
                if text.push(c) {
                    let key = text.read()?;
                    self.state = State::Colon(self.member(&key)?);
                }
            }
            State::Colon(member) => {
                let member = *member;
                self.state = (c == ':').then_some(State::Value(member))?;
            }
            State::Value(member) => {
                let member = *member;
                self.state = self.value(member, c)?;
                if matches!(self.state, State::Arguments(_)) {
                    self.has_arguments = true;
                    self.begin(held, sink);
                    self.emit(c, false, held, sink);
                }
            }
            State::Name(text) => {
                if text.push(c) {
                    let name = text.read()?;
                    if !self.names.allow(&name, tools) {
                        return None;
                    }
                    self.name = Some(name);
                    self.state = State::Next;
                    self.begin(held, sink);
                }
            }
            State::Arguments(scanner) => {
                let in_string = scanner.in_string();
                match scanner.push(c) {
                    Scan::More => {}
                    Scan::Complete => self.state = State::Next,
                    Scan::CompleteBefore | Scan::Invalid => return None,
                }
                self.emit(c, in_string, held, sink);
            }
            State::Quoted(text) => {
                if text.push(c) {
                    self.early = object(&text.read()?)?;
                    self.has_arguments = true;
                    self.state = State::Next;
                    self.begin(held, sink);
                }
            }
            State::PassedOver(scanner) => match scanner.push(c) {
                Scan::More => {}
                Scan::Complete => self.state = State::Next,
                Scan::CompleteBefore => {
                    self.state = State::Next;
                    return self.take(c, held, sink, tools);
                }
                Scan::Invalid => return None,
            },
        }
        Some(Step::More)
    }

    /// What a member of this name is. No call has one of them twice.
    fn member(&self, key: &str) -> Option<Member> {
        match key {
            "name" => self.name.is_none().then_some(Member::Name),
            "arguments" | "parameters" => (!self.has_arguments).then_some(Member::Arguments),
            _ => (self.names == Names::Any || PASSED_OVER.contains(&key)).then_some(Member::Other),
        }
    }

    /// The state behind the first character of a member's value.
    fn value(&mut self, member: Member, c: char) -> Option<State> {
        let mut scanner = Scanner::new();
        let fits = scanner.push(c) == Scan::More;
        match (member, c) {
            (Member::Name, '"') => Some(State::Name(Text::new())),
            (Member::Arguments, '{') => Some(State::Arguments(scanner)),
            (Member::Arguments, '"') => Some(State::Quoted(Text::new())),
            (Member::Arguments, 'n') | (Member::Other, _) if fits => Some(State::PassedOver(scanner)),
            _ => None,
        }
    }

    /// Delivers the beginning of the call and the arguments so far, if name and arguments are known.
    fn begin(&mut self, held: &mut Held, sink: &mut Sink) {
        if let Some(name) = &self.name
            && self.has_arguments
        {
            held.begin(sink, name);
            if !self.early.is_empty() {
                sink.arguments(|json| json.push_str(&self.early));
                self.early = String::new();
            }
        }
    }

    /// A character of the arguments.
    fn emit(&mut self, c: char, in_string: bool, held: &Held, sink: &mut Sink) {
        if held.begun() {
            sink.arguments(|json| write_char(json, c, in_string));
        } else {
            write_char(&mut self.early, c, in_string);
        }
    }

    fn end(&mut self, held: &mut Held, sink: &mut Sink) -> Option<Step> {
        if !held.begun() {
            // Without a tag, only an object that has arguments is known to be a call.
            if self.name.is_none() || !self.has_arguments && self.names == Names::Known {
                return None;
            }
            self.early.push_str("{}");
            self.has_arguments = true;
            self.begin(held, sink);
        }
        sink.end();
        Some(Step::Complete { open: self.open })
    }
}

/// The text of an object that a string holds. An empty string holds an empty object.
fn object(text: &str) -> Option<String> {
    let text = text.trim_matches(is_space);
    if text.is_empty() {
        return Some("{}".to_owned());
    }
    if !text.starts_with('{') {
        return None;
    }
    let (mut scanner, mut json) = (Scanner::new(), String::with_capacity(text.len()));
    let mut complete = false;
    for c in text.chars() {
        write_char(&mut json, c, scanner.in_string());
        match scanner.push(c) {
            Scan::More => {}
            Scan::Complete => complete = true,
            Scan::CompleteBefore | Scan::Invalid => return None,
        }
    }
    complete.then_some(json)
}

/// A JSON string behind its opening quote.
#[derive(Clone, Debug)]
struct Text {
    /// Its text with both quotes.
    json: String,
    /// Whether the last character was a backslash that escapes the next one.
    escaped: bool,
}

impl Text {
    fn new() -> Self {
        Self { json: "\"".to_owned(), escaped: false }
    }

    /// Whether the string ends here.
    fn push(&mut self, c: char) -> bool {
        write_char(&mut self.json, c, true);
        let quote = c == '"' && !self.escaped;
        self.escaped = c == '\\' && !self.escaped;
        quote
    }

    fn read(&self) -> Option<String> {
        serde_json::from_str(&self.json).ok()
    }
}
