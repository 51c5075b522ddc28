//! The items of an answer while it comes, and the events that say how they grow. Streamed or not, the same code makes them, so that they are the same.

use std::sync::Arc;

use serde::Serialize;

use crate::api::openai::chat::{ReplyTokens, TokenReply};
use crate::core::{End, Event, Reason};
use crate::ids;
use crate::state::Served;

/// What stands before thoughts in the field that is for encrypted ones. They are plain text behind it, since nothing about them is secret. Clients that
/// send back nothing else of thoughts send this.
pub(super) const THOUGHTS: &str = "zinc:";

/// What the items are to contain.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Wanted {
    /// Whether thoughts are to be in parts of the summary, and not in those of the content.
    pub(super) summary: bool,
    /// Whether thoughts are to be in the field for encrypted ones too.
    pub(super) encrypted: bool,
    /// Whether each text has the log-probabilities of its tokens.
    pub(super) logprobs: bool,
}

/// Where the events go.
pub(super) trait Sink {
    /// Takes an event of type `kind` with these further fields.
    fn event(&mut self, kind: &'static str, fields: &impl Serialize);
}

/// Nobody hears of the events.
impl Sink for () {
    fn event(&mut self, _kind: &'static str, _fields: &impl Serialize) {}
}

/// The items of an answer.
pub(super) struct Output {
    served: Arc<Served>,
    wanted: Wanted,
    items: Vec<Item>,
    /// Whether the last item still grows.
    is_open: bool,
}

/// An item.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Item {
    /// Thoughts.
    Reasoning {
        id: String,
        status: Status,
        summary: Vec<Part>,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        content: Vec<Part>,
        #[serde(skip_serializing_if = "Option::is_none")]
        encrypted_content: Option<String>,
    },
    /// Content.
    Message { id: String, status: Status, role: &'static str, content: Vec<Part> },
    /// A call of a tool.
    FunctionCall { id: String, call_id: String, name: String, arguments: String, status: Status },
}

/// How far an item has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Status {
    InProgress,
    Completed,
    /// It was cut off.
    Incomplete,
}

/// A part of an item.
#[derive(Debug, Serialize)]
#[serde(tag = "type")]
pub(super) enum Part {
    #[serde(rename = "output_text")]
    Output { text: String, annotations: [(); 0], logprobs: Vec<TokenReply> },
    #[serde(rename = "reasoning_text")]
    Reasoning { text: String },
    #[serde(rename = "summary_text")]
    Summary { text: String },
}

#[derive(Serialize)]
struct ItemEvent<'a> {
    output_index: usize,
    item: &'a Item,
}

/// Which part of which item an event is about.
#[derive(Clone, Copy, Serialize)]
struct Place<'a> {
    item_id: &'a str,
    output_index: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    content_index: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    summary_index: Option<usize>,
}

#[derive(Serialize)]
struct PartEvent<'a> {
    #[serde(flatten)]
    place: Place<'a>,
    part: &'a Part,
}

#[derive(Serialize)]
struct DeltaEvent<'a> {
    #[serde(flatten)]
    place: Place<'a>,
    delta: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    logprobs: Option<&'a [TokenReply]>,
}

#[derive(Serialize)]
struct TextEvent<'a> {
    #[serde(flatten)]
    place: Place<'a>,
    text: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    logprobs: Option<&'a [TokenReply]>,
}

#[derive(Serialize)]
struct ArgumentsEvent<'a> {
    #[serde(flatten)]
    place: Place<'a>,
    name: &'a str,
    arguments: &'a str,
}

/// The names of the events of a part.
struct PartNames {
    added: &'static str,
    delta: &'static str,
    text_done: &'static str,
    done: &'static str,
}

const TEXT: PartNames = PartNames {
    added: "response.content_part.added",
    delta: "response.output_text.delta",
    text_done: "response.output_text.done",
    done: "response.content_part.done",
};

const REASONING: PartNames = PartNames {
    added: "response.content_part.added",
    delta: "response.reasoning_text.delta",
    text_done: "response.reasoning_text.done",
    done: "response.content_part.done",
};

const SUMMARY: PartNames = PartNames {
    added: "response.reasoning_summary_part.added",
    delta: "response.reasoning_summary_text.delta",
    text_done: "response.reasoning_summary_text.done",
    done: "response.reasoning_summary_part.done",
};

impl Part {
    fn names(&self) -> &'static PartNames {
        match self {
            Self::Output { .. } => &TEXT,
            Self::Reasoning { .. } => &REASONING,
            Self::Summary { .. } => &SUMMARY,
        }
    }

    fn text(&self) -> &str {
        match self {
            Self::Output { text, .. } | Self::Reasoning { text } | Self::Summary { text } => text,
        }
    }

    fn logprobs(&self) -> Option<&[TokenReply]> {
        match self {
            Self::Output { logprobs, .. } => Some(logprobs),
            Self::Reasoning { .. } | Self::Summary { .. } => None,
        }
    }

    fn push(&mut self, more: &str, more_logprobs: Vec<TokenReply>) {
        match self {
            Self::Output { text, logprobs, .. } => {
                text.push_str(more);
                logprobs.extend(more_logprobs);
            }
            Self::Reasoning { text } | Self::Summary { text } => text.push_str(more),
        }
    }
}

impl Item {
    fn id(&self) -> &str {
        match self {
            Self::Reasoning { id, .. } | Self::Message { id, .. } | Self::FunctionCall { id, .. } => id,
        }
    }

    /// The part that grows. A call has none.
    fn part(&self) -> Option<&Part> {
        match self {
            Self::Reasoning { summary, content, .. } => content.last().or(summary.last()),
            Self::Message { content, .. } => content.last(),
            Self::FunctionCall { .. } => None,
        }
    }

    fn add_part(&mut self, part: Part) {
        match self {
            Self::Reasoning { summary, .. } if matches!(part, Part::Summary { .. }) => summary.push(part),
            Self::Reasoning { content, .. } | Self::Message { content, .. } => content.push(part),
            Self::FunctionCall { .. } => {}
        }
    }

    fn part_mut(&mut self) -> Option<&mut Part> {
        match self {
            Self::Reasoning { summary, content, .. } => content.last_mut().or(summary.last_mut()),
            Self::Message { content, .. } => content.last_mut(),
            Self::FunctionCall { .. } => None,
        }
    }

    fn set_status(&mut self, to: Status) {
        match self {
            Self::Reasoning { status, .. } | Self::Message { status, .. } | Self::FunctionCall { status, .. } => {
                *status = to;
            }
        }
    }

    /// The place of this item's only part, or of the item itself if it has none.
    fn place(&self, output_index: usize) -> Place<'_> {
        let is_summary = matches!(self.part(), Some(Part::Summary { .. }));
        Place {
            item_id: self.id(),
            output_index,
            content_index: (self.part().is_some() && !is_summary).then_some(0),
            summary_index: is_summary.then_some(0),
        }
    }
}

impl Output {
    pub(super) fn new(served: Arc<Served>, wanted: Wanted) -> Self {
        Self { served, wanted, items: Vec::new(), is_open: false }
    }

    /// The items so far.
    pub(super) fn items(&self) -> &[Item] {
        &self.items
    }

    /// Takes what comes of the answer, but for its end or failure.
    pub(super) fn take(&mut self, event: Event, sink: &mut impl Sink) {
        match event {
            Event::Progress(_) | Event::Scored(_) | Event::Ended(_) | Event::Failed(_) => {}
            Event::Reasoning(text) => {
                if !matches!(self.open(), Some(Item::Reasoning { .. })) {
                    self.add_reasoning(sink);
                }
                self.grow(&text, Vec::new(), sink);
            }
            Event::Content { text, tokens } => {
                if !matches!(self.open(), Some(Item::Message { .. })) {
                    self.add_message(sink);
                }
                let logprobs =
                    if self.wanted.logprobs { ReplyTokens(&self.served).logprobs(&tokens).content } else { Vec::new() };
                self.grow(&text, logprobs, sink);
            }
            Event::ToolCallBegin { id, name, .. } => {
                let (call_id, arguments, status) = (id, String::new(), Status::InProgress);
                self.add(Item::FunctionCall { id: ids::new("fc_"), call_id, name, arguments, status }, None, sink);
            }
            Event::ToolCallArguments { json, .. } => self.argue(&json, sink),
            Event::ToolCallEnd { .. } => self.close(Status::Completed, sink),
        }
    }

    /// Ends the answer.
    pub(super) fn end(&mut self, end: &End, sink: &mut impl Sink) {
        let is_cut = matches!(end.reason, Reason::Length | Reason::ContextFull | Reason::TimeOver);
        let is_call = matches!(self.open(), Some(Item::FunctionCall { .. }));
        self.close(if is_cut || is_call { Status::Incomplete } else { Status::Completed }, sink);
    }

    /// Ends an answer that has failed, of which nobody is told item by item.
    pub(super) fn break_off(&mut self) {
        self.close(Status::Incomplete, &mut ());
    }

    /// The item that grows.
    fn open(&self) -> Option<&Item> {
        self.items.last().filter(|_| self.is_open)
    }

    fn add_reasoning(&mut self, sink: &mut impl Sink) {
        let text = String::new();
        let part = if self.wanted.summary { Part::Summary { text } } else { Part::Reasoning { text } };
        let item = Item::Reasoning {
            id: ids::new("rs_"),
            status: Status::InProgress,
            summary: Vec::new(),
            content: Vec::new(),
            encrypted_content: None,
        };
        self.add(item, Some(part), sink);
    }

    fn add_message(&mut self, sink: &mut impl Sink) {
        let part = Part::Output { text: String::new(), annotations: [], logprobs: Vec::new() };
        let (id, status, content) = (ids::new("msg_"), Status::InProgress, Vec::new());
        self.add(Item::Message { id, status, role: "assistant", content }, Some(part), sink);
    }

    /// Adds an item with the part that will grow. A call that is open was not ended, and has therefore been cut off.
    fn add(&mut self, item: Item, part: Option<Part>, sink: &mut impl Sink) {
        let is_call = matches!(self.open(), Some(Item::FunctionCall { .. }));
        self.close(if is_call { Status::Incomplete } else { Status::Completed }, sink);
        let output_index = self.items.len();
        sink.event("response.output_item.added", &ItemEvent { output_index, item: &item });
        self.items.push(item);
        self.is_open = true;
        let Some(part) = part else { return };
        let item = &mut self.items[output_index];
        item.add_part(part);
        if let Some(part) = item.part() {
            sink.event(part.names().added, &PartEvent { place: item.place(output_index), part });
        }
    }

    fn grow(&mut self, text: &str, logprobs: Vec<TokenReply>, sink: &mut impl Sink) {
        let Some(output_index) = self.items.len().checked_sub(1) else { return };
        let item = &mut self.items[output_index];
        let place = item.place(output_index);
        if let Some(part) = item.part() {
            let logprobs = part.logprobs().map(|_| logprobs.as_slice());
            sink.event(part.names().delta, &DeltaEvent { place, delta: text, logprobs });
        }
        if let Some(part) = item.part_mut() {
            part.push(text, logprobs);
        }
    }

    fn argue(&mut self, json: &str, sink: &mut impl Sink) {
        if !self.is_open {
            return;
        }
        let output_index = self.items.len().saturating_sub(1);
        if let Some(Item::FunctionCall { id, arguments, .. }) = self.items.last_mut() {
            arguments.push_str(json);
            let place = Place { item_id: id, output_index, content_index: None, summary_index: None };
            let delta = DeltaEvent { place, delta: json, logprobs: None };
            sink.event("response.function_call_arguments.delta", &delta);
        }
    }

    /// Ends the item that grows, if there is one.
    fn close(&mut self, status: Status, sink: &mut impl Sink) {
        if !std::mem::take(&mut self.is_open) {
            return;
        }
        let Some(output_index) = self.items.len().checked_sub(1) else { return };
        let item = &mut self.items[output_index];
        item.set_status(status);
        if let Item::Reasoning { summary, content, encrypted_content, .. } = item
            && self.wanted.encrypted
        {
            let text: String = content.iter().chain(summary.iter()).map(Part::text).collect();
            *encrypted_content = Some(format!("{THOUGHTS}{text}"));
        }
        let place = item.place(output_index);
        match (item.part(), &*item) {
            (Some(part), _) => {
                let names = part.names();
                sink.event(names.text_done, &TextEvent { place, text: part.text(), logprobs: part.logprobs() });
                sink.event(names.done, &PartEvent { place, part });
            }
            (None, Item::FunctionCall { name, arguments, .. }) => {
                let done = ArgumentsEvent { place, name, arguments };
                sink.event("response.function_call_arguments.done", &done);
            }
            (None, _) => {}
        }
        sink.event("response.output_item.done", &ItemEvent { output_index, item });
    }
}
