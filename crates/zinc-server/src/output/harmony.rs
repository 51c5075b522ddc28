//! Takes an answer in harmony apart, the format of gpt-oss: messages, each with a header that says in which channel it is and to whom it goes.
//!
//! `<|start|>assistant<|channel|>analysis<|message|>TEXT<|end|>` is reasoning. Messages in the channels `final` and `commentary` are content, and those to
//! `functions.NAME` are calls, whose text is the arguments. Headers are read leniently, since models write malformed ones: nothing in one is an error, and
//! text that belongs to no header is reasoning or content.

mod header;
pub(super) mod outline;

use super::held::is_space;
use super::json::{Scan, Scanner, write_char};
use super::sink::Sink;
use super::text::Lane;
use super::{Piece, Tool};
use header::{Addressee, Header, Look};

/// The mark before the header of a message.
pub(super) const START: &str = "<|start|>";
/// The mark between a header and the text of its message.
pub(super) const MESSAGE: &str = "<|message|>";
/// The mark before the name of a channel.
pub(super) const CHANNEL: &str = "<|channel|>";
/// The mark before the type of a message's text.
pub(super) const CONSTRAIN: &str = "<|constrain|>";
/// The mark behind a message that others of the model follow.
pub(super) const END: &str = "<|end|>";
/// The mark behind the last message of an answer.
const RETURN: &str = "<|return|>";
/// The mark behind a call.
const CALL: &str = "<|call|>";

/// The channel of reasoning.
pub(super) const ANALYSIS: &str = "analysis";

/// All marks, which are control tokens.
pub(super) const MARKS: [&str; 7] = [START, MESSAGE, CHANNEL, CONSTRAIN, END, RETURN, CALL];

/// What stands before the reasoning of an answer, behind `<|start|>assistant`.
pub(super) const OPEN_ANALYSIS: &str = "<|channel|>analysis<|message|>";
/// What stands before an answer without reasoning, behind `<|start|>assistant`.
pub(super) const OPEN_FINAL: &str = "<|channel|>final<|message|>";

/// Takes one answer apart.
#[derive(Clone, Debug)]
pub(super) struct HarmonyParser {
    tools: Vec<Tool>,
    /// What may be the beginning of a mark.
    prefix: String,
    state: State,
    reasoning: Messages,
    content: Messages,
    sink: Sink,
}

#[derive(Clone, Debug)]
enum State {
    Header(Header),
    Body(Body),
}

/// The text of a message.
#[derive(Clone, Debug)]
enum Body {
    Text(Lane),
    /// A call of the tool of this name, of whose arguments nothing but white space has come. If they are no object, the text is that of a lane.
    Before {
        name: String,
        lane: Lane,
        space: String,
    },
    /// In the arguments of a call. What does not fit is text of a lane.
    Arguments(Scanner, Lane),
    /// Behind complete arguments.
    Behind(Lane),
}

/// The messages of one lane.
#[derive(Clone, Debug, Default)]
struct Messages {
    /// Whether the answer has text of the lane.
    any: bool,
    /// Whether the message has text of the lane.
    in_this: bool,
    /// White space that is left out at the end of the message.
    space: String,
}

impl HarmonyParser {
    /// A parser of an answer to a request that has these tools, behind a prompt that ends in `prompt_tail`.
    pub(super) fn new(tools: &[Tool], prompt_tail: &str) -> Self {
        let mut parser = Self {
            tools: tools.to_vec(),
            prefix: String::new(),
            state: State::Header(Header::expected()),
            reasoning: Messages::default(),
            content: Messages::default(),
            sink: Sink::default(),
        };
        match prompt_tail.rfind(START) {
            Some(start) => {
                parser.push(&prompt_tail[start..]);
                if matches!(&parser.state, State::Header(header) if !header.is_behind_role()) {
                    parser.state = State::Header(Header::expected());
                }
            }
            // The prompt ends within a message that is too long for its header to be in the tail.
            None if !prompt_tail.is_empty() => parser.state = State::Body(Body::Text(Lane::Content)),
            None => {}
        }
        // What the prompt says is no part of the answer.
        Self { prefix: String::new(), reasoning: Messages::default(), content: Messages::default(), ..parser }
    }

    /// Takes more of the answer and returns what is certain by now.
    pub(super) fn push(&mut self, text: &str) -> Vec<Piece> {
        let mut rest = text;
        while let Some(c) = rest.chars().next() {
            // Content without marks goes through as a whole.
            if self.prefix.is_empty() && c != '<' && matches!(self.state, State::Body(Body::Text(Lane::Content))) {
                let (plain, marked) = rest.split_at(rest.find('<').unwrap_or(rest.len()));
                self.text(Lane::Content, plain);
                rest = marked;
                continue;
            }
            self.prefix.push(c);
            self.look();
            rest = &rest[c.len_utf8()..];
        }
        self.sink.take()
    }

    /// Ends the answer and returns what was held back.
    pub(super) fn finish(&mut self) -> Vec<Piece> {
        for c in std::mem::take(&mut self.prefix).chars() {
            self.character(c);
        }
        match std::mem::replace(&mut self.state, State::Header(Header::expected())) {
            State::Header(header) => self.headless(&header, header.last_text(), Lane::Content),
            State::Body(Body::Before { name, .. }) if !self.needs_arguments(&name) => self.bare_call(name),
            State::Body(_) => {}
        }
        let space = std::mem::take(&mut self.reasoning.space);
        self.sink.reasoning(&space);
        self.sink.take()
    }

    /// Whether the answer is in reasoning, so that stop strings do not apply.
    pub(super) fn is_reasoning(&self) -> bool {
        matches!(self.state, State::Body(Body::Text(Lane::Reasoning)))
    }

    /// Takes what is held as the beginning of a mark, as far as it is certain.
    fn look(&mut self) {
        while !self.prefix.is_empty() {
            if let Some(mark) = MARKS.into_iter().find(|mark| *mark == self.prefix) {
                self.prefix.clear();
                return self.mark(mark);
            }
            if MARKS.iter().any(|mark| mark.starts_with(&self.prefix)) {
                return;
            }
            let first = self.prefix.remove(0);
            self.character(first);
        }
    }

    /// A mark ends a message, or a part of a header.
    fn mark(&mut self, mark: &'static str) {
        match (&mut self.state, mark) {
            (State::Header(header), MESSAGE) => {
                let addressee = header.addressee(Lane::Content, &self.tools);
                self.begin(addressee);
            }
            (State::Header(header), CHANNEL | CONSTRAIN) => header.part(mark),
            // What looks like a mark in a string of arguments is a part of it: the model writes a text about harmony.
            (State::Body(Body::Arguments(scanner, _)), mark) if scanner.in_string() => {
                mark.chars().for_each(|c| self.character(c));
            }
            // A mark of a header within a text is none of it; with a channel the next message begins.
            (State::Body(_), MESSAGE | CONSTRAIN) => {}
            (_, mark) => {
                let mut next = Header::expected();
                if matches!(mark, START | CHANNEL) {
                    next.part(mark);
                }
                match std::mem::replace(&mut self.state, State::Header(next)) {
                    // A malformed header at the end of an answer may hold the answer; before that it is followed by one that is not malformed.
                    State::Header(header) => {
                        let lane = if matches!(mark, RETURN | CALL) { Lane::Content } else { Lane::Reasoning };
                        self.headless(&header, header.text(), lane);
                    }
                    State::Body(Body::Before { name, .. }) => self.bare_call(name),
                    State::Body(_) => self.reasoning.space.clear(),
                }
            }
        }
    }

    /// A character that belongs to no mark.
    fn character(&mut self, c: char) {
        match &mut self.state {
            State::Header(header) => match header.push(c) {
                Look::Header => {}
                Look::Text => {
                    let header = header.clone();
                    self.begin(header.addressee_of_text(Lane::Content, &self.tools));
                    header.text().chars().for_each(|c| self.character(c));
                }
            },
            State::Body(Body::Text(lane)) => {
                let lane = *lane;
                self.text(lane, c.encode_utf8(&mut [0; 4]));
            }
            State::Body(Body::Before { name, lane, space }) => match c {
                '{' => {
                    let (name, lane) = (std::mem::take(name), *lane);
                    self.sink.begin(name);
                    self.sink.arguments(|json| json.push('{'));
                    let mut scanner = Scanner::new();
                    scanner.push('{');
                    self.state = State::Body(Body::Arguments(scanner, lane));
                }
                c if is_space(c) => space.push(c),
                c => {
                    let (text, lane) = (std::mem::take(space) + c.encode_utf8(&mut [0; 4]), *lane);
                    self.state = State::Body(Body::Text(lane));
                    self.text(lane, &text);
                }
            },
            State::Body(Body::Arguments(scanner, lane)) => {
                let (in_string, lane) = (scanner.in_string(), *lane);
                let scan = scanner.push(c);
                if matches!(scan, Scan::CompleteBefore | Scan::Invalid) {
                    self.state = State::Body(Body::Text(lane));
                    return self.text(lane, c.encode_utf8(&mut [0; 4]));
                }
                self.sink.arguments(|json| write_char(json, c, in_string));
                if scan == Scan::Complete {
                    self.sink.end();
                    self.state = State::Body(Body::Behind(lane));
                }
            }
            State::Body(Body::Behind(_)) if is_space(c) => {}
            State::Body(Body::Behind(lane)) => {
                let lane = *lane;
                self.state = State::Body(Body::Text(lane));
                self.text(lane, c.encode_utf8(&mut [0; 4]));
            }
        }
    }

    /// Begins the text of a message.
    fn begin(&mut self, addressee: Addressee) {
        self.reasoning.begin();
        self.content.begin();
        self.state = State::Body(match addressee {
            Addressee::Lane(lane) => Body::Text(lane),
            Addressee::Tool { name, lane } => Body::Before { name, lane, space: String::new() },
        });
    }

    /// Ends a header that was not followed by a text. What in it is none of a header is the text of a message, whose lane is `lane` where the header does
    /// not say it.
    fn headless(&mut self, header: &Header, text: &str, lane: Lane) {
        if text.is_empty() {
            return;
        }
        let after = std::mem::replace(&mut self.state, State::Header(Header::expected()));
        self.begin(header.addressee_of_text(lane, &self.tools));
        text.chars().for_each(|c| self.character(c));
        self.state = after;
    }

    /// Text of a lane.
    fn text(&mut self, lane: Lane, text: &str) {
        match lane {
            Lane::Content => {
                if self.content.is_next() {
                    self.sink.content_break();
                }
                self.content.note();
                self.sink.content(text);
            }
            Lane::Reasoning => {
                // White space at both ends of a thought is left out.
                let own = if self.reasoning.in_this { text } else { text.trim_start_matches(is_space) };
                let end = own.trim_end_matches(is_space).len();
                if end > 0 {
                    if self.reasoning.is_next() {
                        self.sink.reasoning("\n\n");
                    }
                    self.reasoning.note();
                    let space = std::mem::take(&mut self.reasoning.space);
                    self.sink.reasoning(&space);
                    self.sink.reasoning(&own[..end]);
                }
                self.reasoning.space.push_str(&own[end..]);
            }
        }
    }

    /// A call without arguments.
    fn bare_call(&mut self, name: String) {
        self.sink.begin(name);
        self.sink.arguments(|json| json.push_str("{}"));
        self.sink.end();
    }

    /// Whether a tool of the request needs arguments, so that a call without them is one that was cut off.
    fn needs_arguments(&self, name: &str) -> bool {
        let tool = self.tools.iter().find(|tool| tool.name == name);
        let required = tool.and_then(|tool| tool.parameters.get("required")?.as_array());
        required.is_some_and(|required| !required.is_empty())
    }
}

impl Messages {
    /// A message begins.
    fn begin(&mut self) {
        self.in_this = false;
        self.space.clear();
    }

    /// Whether text comes that is the first of its message and not the first of the answer.
    fn is_next(&self) -> bool {
        self.any && !self.in_this
    }

    /// Text has come.
    fn note(&mut self) {
        self.any = true;
        self.in_this = true;
    }
}
