//! The blocks of an answer while it comes, and the events that say how they grow. Streamed or not, the same code makes them, so that they are the same.

use serde::{Serialize, Serializer};
use serde_json::{Map, Value};

use super::partial;
use crate::core::Event;

/// What thoughts are signed with. Clients send the signature back with them, and some leave thoughts out that have none. It proves nothing here.
const SIGNATURE: &str = "zinc";

/// What the ids of calls begin with in the core.
const CALL: &str = "call_";

/// What they begin with in this API.
const TOOL_USE: &str = "toolu_";

/// Where the events go.
pub(super) trait Sink {
    /// Takes an event of type `kind` with these further fields.
    fn event(&mut self, kind: &'static str, fields: &impl Serialize);
}

/// Nobody hears of the events.
impl Sink for () {
    fn event(&mut self, _kind: &'static str, _fields: &impl Serialize) {}
}

/// The blocks of an answer.
#[derive(Debug, Default)]
pub(super) struct Blocks {
    blocks: Vec<Block>,
    /// Whether the last block still grows.
    is_open: bool,
}

/// A block.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Block {
    Thinking {
        thinking: String,
        signature: &'static str,
    },
    Text {
        text: String,
        /// There are never any.
        citations: Option<()>,
    },
    ToolUse {
        id: String,
        name: String,
        caller: Caller,
        /// The text of the arguments, as far as it has come.
        #[serde(serialize_with = "as_object")]
        input: String,
    },
}

/// Who has called a tool.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Caller {
    /// The model itself, and not code that it has run.
    Direct,
}

/// Writes the text of arguments as the object that it is.
fn as_object<S: Serializer>(text: &str, serializer: S) -> Result<S::Ok, S::Error> {
    partial::object(text).serialize(serializer)
}

#[derive(Serialize)]
struct StartEvent<'a> {
    index: usize,
    content_block: Start<'a>,
}

/// A block without content.
#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Start<'a> {
    Thinking { thinking: &'static str, signature: &'static str },
    Text { text: &'static str, citations: Option<()> },
    ToolUse { id: &'a str, name: &'a str, caller: Caller, input: Map<String, Value> },
}

#[derive(Serialize)]
struct DeltaEvent<'a> {
    index: usize,
    delta: Delta<'a>,
}

#[derive(Serialize)]
#[serde(tag = "type")]
enum Delta<'a> {
    #[serde(rename = "thinking_delta")]
    Thinking { thinking: &'a str },
    #[serde(rename = "signature_delta")]
    Signature { signature: &'a str },
    #[serde(rename = "text_delta")]
    Text { text: &'a str },
    #[serde(rename = "input_json_delta")]
    Input { partial_json: &'a str },
}

#[derive(Serialize)]
struct StopEvent {
    index: usize,
}

impl Blocks {
    /// The blocks so far.
    pub(super) fn all(&self) -> &[Block] {
        &self.blocks
    }

    /// Takes what comes of the answer, but for its end or failure.
    pub(super) fn take(&mut self, event: Event, sink: &mut impl Sink) {
        match event {
            Event::Progress(_) | Event::Scored(_) | Event::Ended(_) | Event::Failed(_) => {}
            Event::Reasoning(text) => {
                if !matches!(self.open(), Some(Block::Thinking { .. })) {
                    self.add(Block::Thinking { thinking: String::new(), signature: SIGNATURE }, sink);
                }
                self.grow(&text, sink);
            }
            Event::Content { text, .. } => {
                if !matches!(self.open(), Some(Block::Text { .. })) {
                    self.add(Block::Text { text: String::new(), citations: None }, sink);
                }
                self.grow(&text, sink);
            }
            Event::ToolCallBegin { id, name, .. } => {
                let id = format!("{TOOL_USE}{}", id.strip_prefix(CALL).unwrap_or(&id));
                self.add(Block::ToolUse { id, name, caller: Caller::Direct, input: String::new() }, sink);
            }
            Event::ToolCallArguments { json, .. } => self.grow(&json, sink),
            Event::ToolCallEnd { .. } => self.end(sink),
        }
    }

    /// Ends the block that grows, if there is one.
    pub(super) fn end(&mut self, sink: &mut impl Sink) {
        if !std::mem::take(&mut self.is_open) {
            return;
        }
        let index = self.blocks.len().saturating_sub(1);
        if let Some(Block::Thinking { .. }) = self.blocks.last() {
            let delta = Delta::Signature { signature: SIGNATURE };
            sink.event("content_block_delta", &DeltaEvent { index, delta });
        }
        sink.event("content_block_stop", &StopEvent { index });
    }

    /// The block that grows.
    fn open(&self) -> Option<&Block> {
        self.blocks.last().filter(|_| self.is_open)
    }

    fn add(&mut self, block: Block, sink: &mut impl Sink) {
        self.end(sink);
        let index = self.blocks.len();
        let content_block = match &block {
            Block::Thinking { .. } => Start::Thinking { thinking: "", signature: "" },
            Block::Text { .. } => Start::Text { text: "", citations: None },
            Block::ToolUse { id, name, caller, .. } => Start::ToolUse { id, name, caller: *caller, input: Map::new() },
        };
        sink.event("content_block_start", &StartEvent { index, content_block });
        self.blocks.push(block);
        self.is_open = true;
    }

    fn grow(&mut self, more: &str, sink: &mut impl Sink) {
        if !self.is_open {
            return;
        }
        let index = self.blocks.len().saturating_sub(1);
        let delta = match self.blocks.last_mut() {
            Some(Block::Thinking { thinking, .. }) => {
                thinking.push_str(more);
                Delta::Thinking { thinking: more }
            }
            Some(Block::Text { text, .. }) => {
                text.push_str(more);
                Delta::Text { text: more }
            }
            Some(Block::ToolUse { input, .. }) => {
                input.push_str(more);
                Delta::Input { partial_json: more }
            }
            None => return,
        };
        sink.event("content_block_delta", &DeltaEvent { index, delta });
    }
}
