//! Takes an answer apart whose reasoning and calls stand between tags.

use super::deepseek::DeepSeekCall;
use super::expect::{Expect, Found};
use super::format::{CallForm, OutputFormat, Thinking};
use super::held::{Held, Names, Open, Step};
use super::object::ObjectCall;
use super::sink::Sink;
use super::text::{Lane, Mark, Marks, Start, Text};
use super::xml::XmlCall;
use super::{Piece, Tool};

/// What may follow `<tool_call>`.
const BEHIND_TAG: &[&str] = &["{", "<function="];
/// What may follow `<|python_tag|>`.
const BEHIND_PYTHON_TAG: &[&str] = &["{"];

/// Takes one such answer apart.
///
/// Text is held back from the first character that may begin a tag or a call, together with white space before it, and released when it
/// cannot any more. Content of an answer without tools is not held back. Work and memory are linear in the length of the answer.
#[derive(Clone, Debug)]
pub(super) struct TaggedParser {
    marks: Marks,
    llama: bool,
    tools: Vec<Tool>,
    state: State,
    /// Characters to be taken next, the last one first.
    queue: Vec<char>,
    sink: Sink,
}

#[derive(Clone, Debug)]
enum State {
    Text(Text),
    Call(Held, Box<Form>),
}

/// A call in one of the forms.
#[derive(Clone, Debug)]
enum Form {
    /// Behind a tag that says that a call follows.
    Tagged(Expect, Open),
    Object(ObjectCall),
    Xml(XmlCall),
    DeepSeek(DeepSeekCall),
}

impl TaggedParser {
    /// A parser of an answer to a request that has these tools, behind a prompt that ends in `prompt_tail`.
    pub(super) fn new(format: &OutputFormat, tools: &[Tool], prompt_tail: &str) -> Self {
        let text = match format.thinking(prompt_tail) {
            Thinking::Begun => Text::new(Lane::Reasoning, Start::Reasoning),
            Thinking::MayBegin | Thinking::No => Text::new(Lane::Content, Start::Answer),
        };
        Self {
            marks: Marks::new(format, !tools.is_empty()),
            llama: format.call_form() == Some(CallForm::Llama),
            tools: tools.to_vec(),
            state: State::Text(text),
            queue: Vec::new(),
            sink: Sink::default(),
        }
    }

    /// Takes more of the answer and returns what is certain by now.
    pub(super) fn push(&mut self, text: &str) -> Vec<Piece> {
        let mut rest = text;
        while let Some(c) = rest.chars().next() {
            // Text without marks goes through as a whole.
            if let State::Text(text) = &mut self.state
                && text.start.is_none()
                && text.prefix.is_empty()
            {
                let plain = rest.find(|c| !self.marks.is_plain(c, text.lane)).unwrap_or(rest.len());
                if plain > 0 {
                    text.release_text(&rest[..plain], &mut self.sink);
                    rest = &rest[plain..];
                    continue;
                }
            }
            self.take(c);
            rest = &rest[c.len_utf8()..];
        }
        self.sink.take()
    }

    /// Ends the answer and returns what was held back.
    pub(super) fn finish(&mut self) -> Vec<Piece> {
        let ended = State::Text(Text::new(Lane::Content, Start::Answer));
        match std::mem::replace(&mut self.state, ended) {
            State::Text(mut text) => text.finish(&mut self.sink),
            State::Call(held, mut form) => {
                if let Form::Xml(call) = &mut *form {
                    call.cut(&mut self.sink, &self.tools);
                }
                held.into_text(0, form.open(), &mut self.sink).finish(&mut self.sink);
            }
        }
        self.sink.take()
    }

    /// Whether the answer is in reasoning, so that stop strings do not apply.
    pub(super) fn is_reasoning(&self) -> bool {
        matches!(&self.state, State::Text(text) if text.lane == Lane::Reasoning)
    }

    fn take(&mut self, c: char) {
        self.queue.push(c);
        while let Some(c) = self.queue.pop() {
            match &mut self.state {
                State::Text(_) => self.text(c),
                State::Call(held, form) => {
                    held.push(c);
                    match form.push(c, held, &mut self.sink, &self.tools) {
                        Step::More => {}
                        Step::Broken { again } => {
                            self.queue.extend(again.chars().rev());
                            let open = form.open();
                            self.leave_call(|held, sink| held.into_text(again.len(), open, sink));
                        }
                        Step::Complete { open } => {
                            self.leave_call(|_, _| Text { open, ..Text::new(Lane::Content, Start::Call) });
                        }
                    }
                }
            }
        }
    }

    /// Goes on as text, which is made of what was held for the call.
    fn leave_call(&mut self, text: impl FnOnce(Held, &mut Sink) -> Text) {
        let passing = State::Text(Text::new(Lane::Content, Start::Call));
        if let State::Call(held, _) = std::mem::replace(&mut self.state, passing) {
            self.state = State::Text(text(held, &mut self.sink));
        }
    }

    /// A character outside of calls.
    fn text(&mut self, c: char) {
        let State::Text(text) = &mut self.state else { return };
        text.prefix.push(c);
        while !text.prefix.is_empty() {
            match self.marks.look(text) {
                Ok(None) => return,
                Ok(Some(mark)) => return self.mark(mark),
                Err(()) => {
                    let first = text.prefix.remove(0);
                    text.release(first, &mut self.sink);
                }
            }
        }
    }

    /// A mark outside of calls.
    fn mark(&mut self, mark: Mark) {
        let State::Text(text) = &mut self.state else { return };
        let source = std::mem::take(&mut text.prefix);
        let names = if self.llama { Names::Known } else { Names::Any };
        let form = match mark {
            Mark::OpenReasoning | Mark::CloseReasoning => {
                let lane = if mark == Mark::OpenReasoning { Lane::Reasoning } else { Lane::Content };
                *text = Text::new(lane, Start::Reasoning);
                return;
            }
            Mark::CloseTag | Mark::CloseCall | Mark::CloseFence => {
                text.open.fence = false;
                text.open.tag &= mark != Mark::CloseTag;
                text.space.clear();
                return;
            }
            Mark::Separator => {
                text.space.push_str(&source);
                return;
            }
            Mark::Tag => Form::Tagged(Expect::new(BEHIND_TAG), Open { tag: true, fence: false }),
            Mark::Python => Form::Tagged(Expect::new(BEHIND_PYTHON_TAG), Open::default()),
            Mark::Function => Form::Xml(XmlCall::new(Names::Known)),
            Mark::AllCalls => Form::DeepSeek(DeepSeekCall::first()),
            Mark::OneCall => Form::DeepSeek(DeepSeekCall::next()),
            Mark::Bracket => Form::Object(ObjectCall::new(names, text.open)),
        };
        let before = std::mem::replace(text, Text::new(Lane::Content, Start::Call));
        self.state = State::Call(Held::new(before, source), Box::new(form));
    }
}

impl Form {
    fn push(&mut self, c: char, held: &mut Held, sink: &mut Sink, tools: &[Tool]) -> Step {
        match self {
            Self::Tagged(expect, open) => {
                *self = match expect.push(c) {
                    Found::Nothing => return Step::More,
                    Found::Text("{") => Self::Object(ObjectCall::new(Names::Any, *open)),
                    Found::Text(_) => Self::Xml(XmlCall::new(Names::Any)),
                    Found::Other(again) => return Step::Broken { again },
                };
                Step::More
            }
            Self::Object(call) => call.push(c, held, sink, tools),
            Self::Xml(call) => call.push(c, held, sink, tools),
            Self::DeepSeek(call) => call.push(c, held, sink, tools),
        }
    }

    /// What is open around a call that has begun.
    fn open(&self) -> Open {
        match self {
            Self::Tagged(_, open) => *open,
            Self::Object(call) => call.open(),
            Self::Xml(_) | Self::DeepSeek(_) => Open { tag: true, fence: false },
        }
    }
}
