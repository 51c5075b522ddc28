//! Where an answer is while it is in no call, and which marks mean something there.

use super::deepseek;
use super::format::{CallForm, OutputFormat};
use super::held::{Open, is_space};
use super::sink::Sink;

/// A text that means something to the parser.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mark {
    OpenReasoning,
    CloseReasoning,
    /// `<tool_call>`, behind which an object or `<function=` follows.
    Tag,
    /// `<function=` without a tag before it.
    Function,
    /// What comes before all calls of DeepSeek's form.
    AllCalls,
    /// What comes before a call of DeepSeek's form.
    OneCall,
    /// `<|python_tag|>`, behind which an object follows.
    Python,
    /// The bracket of an object that may be a call without a tag of its own.
    Bracket,
    /// The end of the tag around a call, or around all calls.
    CloseTag,
    /// The end of a call within the tag around all calls.
    CloseCall,
    /// The end of a code fence around arguments.
    CloseFence,
    /// The semicolon between Llama's calls.
    Separator,
}

/// The marks of a format.
#[derive(Clone, Debug)]
pub(super) struct Marks {
    all: Vec<(&'static str, Mark)>,
    form: Option<CallForm>,
}

impl Marks {
    /// The marks of a format, with those of calls if there are tools.
    pub(super) fn new(format: &OutputFormat, has_tools: bool) -> Self {
        let mut all = Vec::new();
        if let Some((open, close)) = format.static_tags() {
            all.extend([(open, Mark::OpenReasoning), (close, Mark::CloseReasoning)]);
        }
        let form = format.call_form().filter(|_| has_tools);
        let of_tag = [("<tool_call>", Mark::Tag), ("</tool_call>", Mark::CloseTag), ("{", Mark::Bracket)];
        match form {
            Some(CallForm::Hermes) => all.extend(of_tag),
            Some(CallForm::Xml) => all.extend([&of_tag[..], &[("<function=", Mark::Function)]].concat()),
            Some(CallForm::DeepSeek { .. }) => {
                all.extend(deepseek::BEGIN_ALL.iter().map(|&mark| (mark, Mark::AllCalls)));
                all.extend([(deepseek::BEGIN, Mark::OneCall), (deepseek::END, Mark::CloseCall)]);
                all.extend([(deepseek::END_ALL, Mark::CloseTag), (deepseek::FENCE, Mark::CloseFence)]);
            }
            Some(CallForm::Llama) => {
                all.extend([("<|python_tag|>", Mark::Python), ("{", Mark::Bracket), (";", Mark::Separator)]);
            }
            // Harmony has a parser of its own.
            Some(CallForm::Harmony) | None => {}
        }
        Self { all, form }
    }

    /// Whether a character behind other text belongs to no mark and is not left out before one.
    pub(super) fn is_plain(&self, c: char, lane: Lane) -> bool {
        match (lane, self.form) {
            // Reasoning begins only before all content.
            (Lane::Content, None) => true,
            _ => !is_space(c) && !self.all.iter().any(|(text, _)| text.starts_with(c)),
        }
    }

    /// What a text is: a mark, perhaps the beginning of one, or (`Err`) neither.
    pub(super) fn look(&self, at: &Text) -> Result<Option<Mark>, ()> {
        let mut found = Err(());
        for &(text, mark) in &self.all {
            if text.starts_with(&*at.prefix) && at.heeds(mark, self.form) {
                if text.len() == at.prefix.len() {
                    return Ok(Some(mark));
                }
                found = Ok(None);
            }
        }
        found
    }
}

/// What text is part of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lane {
    Reasoning,
    Content,
}

/// What is before text of which nothing but white space has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Start {
    /// Nothing: it is the beginning of the answer.
    Answer,
    /// Reasoning, or the tag before it.
    Reasoning,
    /// A call.
    Call,
}

/// Text outside of calls.
#[derive(Clone, Debug)]
pub(super) struct Text {
    pub(super) lane: Lane,
    pub(super) start: Option<Start>,
    /// What of the tags around the last call is still open.
    pub(super) open: Open,
    /// White space that is left out if a call or the end of reasoning follows.
    pub(super) space: String,
    /// What may be the beginning of a mark, behind that space.
    pub(super) prefix: String,
}

impl Text {
    pub(super) fn new(lane: Lane, start: Start) -> Self {
        Self { lane, start: Some(start), open: Open::default(), space: String::new(), prefix: String::new() }
    }

    /// Whether a mark means something here.
    fn heeds(&self, mark: Mark, form: Option<CallForm>) -> bool {
        let behind_call = self.start == Some(Start::Call);
        match (self.lane, mark) {
            (_, Mark::OpenReasoning) => self.start.is_some(),
            (lane, Mark::CloseReasoning) => lane == Lane::Reasoning,
            (Lane::Reasoning, _) => false,
            (_, Mark::Tag | Mark::Function | Mark::AllCalls | Mark::OneCall | Mark::Python) => true,
            (_, Mark::Bracket) if form == Some(CallForm::Llama) => self.start.is_some(),
            (_, Mark::Bracket) => behind_call && self.open.tag,
            (_, Mark::CloseTag | Mark::CloseCall) => self.open.tag,
            (_, Mark::CloseFence) => behind_call && self.open.fence,
            (_, Mark::Separator) => behind_call,
        }
    }

    /// Adds a character that belongs to no mark.
    pub(super) fn release(&mut self, c: char, sink: &mut Sink) {
        if is_space(c) {
            self.space.push(c);
            return;
        }
        self.release_text(c.encode_utf8(&mut [0; 4]), sink);
    }

    /// Adds text that is not empty and has no mark, and with which held white space becomes part of the answer.
    pub(super) fn release_text(&mut self, text: &str, sink: &mut Sink) {
        let space = std::mem::take(&mut self.space);
        let lines = match self.start.take() {
            // Behind reasoning and calls, blank lines are left out, and indentation is not; nor is a semicolon that separates nothing.
            Some(Start::Reasoning | Start::Call) if !space.contains(';') => {
                space.rfind('\n').map_or(0, |last| last + 1)
            }
            _ => 0,
        };
        self.open.fence = false;
        self.write(&space[lines..], sink);
        self.write(text, sink);
    }

    fn write(&self, text: &str, sink: &mut Sink) {
        match self.lane {
            Lane::Reasoning => sink.reasoning(text),
            Lane::Content => sink.content(text),
        }
    }

    /// The answer ends: adds what was held back.
    pub(super) fn finish(&mut self, sink: &mut Sink) {
        for c in std::mem::take(&mut self.prefix).chars() {
            self.release(c, sink);
        }
        let space = std::mem::take(&mut self.space);
        if matches!(self.start, None | Some(Start::Answer)) {
            self.write(&space, sink);
        }
    }
}
