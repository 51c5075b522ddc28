//! A message of the model, as far as it has come.

use serde::Serialize;

use super::blocks::Block;
use crate::core::{End, Reason};
use crate::ids;
use crate::state::Served;

/// What does not change while a message comes.
#[derive(Debug)]
pub(super) struct Header {
    id: String,
    model: String,
}

/// A message.
#[derive(Debug, Serialize)]
pub(super) struct MessageReply<'a> {
    id: &'a str,
    #[serde(rename = "type")]
    kind: &'static str,
    role: &'static str,
    model: &'a str,
    content: &'a [Block],
    #[serde(flatten)]
    stop: Stop<'a>,
    usage: UsageReply,
}

/// Why a message has ended.
#[derive(Debug, Default, Serialize)]
pub(super) struct Stop<'a> {
    stop_reason: Option<&'static str>,
    /// The text that has ended it.
    stop_sequence: Option<&'a str>,
    /// More about a refusal, of which there is none.
    stop_details: Option<()>,
    /// Where code was run, which never happens.
    container: Option<()>,
}

/// Numbers of tokens. Those of the prompt that were in the cache are not among its input tokens.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(super) struct UsageReply {
    input_tokens: u32,
    cache_creation_input_tokens: u32,
    cache_read_input_tokens: u32,
    output_tokens: u32,
    output_tokens_details: OutputDetails,
    /// What only Anthropic's own service knows. Its schema requires the fields.
    cache_creation: Option<()>,
    inference_geo: Option<()>,
    server_tool_use: Option<()>,
    service_tier: Option<()>,
}

/// What the tokens of an answer are.
#[derive(Clone, Copy, Debug, Default, Serialize)]
struct OutputDetails {
    thinking_tokens: u32,
}

/// The number of tokens of a conversation that is not answered.
#[derive(Debug, Serialize)]
pub(super) struct Counted {
    pub(super) input_tokens: u32,
}

impl<'a> From<&'a End> for Stop<'a> {
    fn from(end: &'a End) -> Self {
        let (reason, sequence) = match &end.reason {
            Reason::Stop => ("end_turn", None),
            Reason::StopString(text) => ("stop_sequence", Some(text.as_str())),
            Reason::ToolCalls => ("tool_use", None),
            Reason::Length | Reason::ContextFull | Reason::TimeOver => ("max_tokens", None),
        };
        Self { stop_reason: Some(reason), stop_sequence: sequence, ..Self::default() }
    }
}

impl From<&End> for UsageReply {
    fn from(end: &End) -> Self {
        Self {
            input_tokens: end.usage.prompt_tokens.saturating_sub(end.usage.cached_tokens),
            cache_read_input_tokens: end.usage.cached_tokens,
            output_tokens: end.usage.completion_tokens,
            output_tokens_details: OutputDetails { thinking_tokens: end.reasoning_tokens },
            ..Self::default()
        }
    }
}

impl UsageReply {
    /// The numbers before anything was computed, when nobody knows yet what is in the cache.
    pub(super) fn at_start(input_tokens: u32) -> Self {
        Self { input_tokens, ..Self::default() }
    }
}

impl Header {
    pub(super) fn new(served: &Served) -> Self {
        Self { id: ids::new("msg_"), model: served.alias.clone() }
    }

    /// The message of these blocks. Without an end it has just begun.
    pub(super) fn reply<'a>(&'a self, content: &'a [Block], end: Option<&'a End>) -> MessageReply<'a> {
        let (stop, usage) = end.map_or_else(Default::default, |end| (Stop::from(end), UsageReply::from(end)));
        MessageReply { id: &self.id, kind: "message", role: "assistant", model: &self.model, content, stop, usage }
    }

    /// The message that has just begun.
    pub(super) fn begin(&self, prompt_tokens: u32) -> MessageReply<'_> {
        MessageReply { usage: UsageReply::at_start(prompt_tokens), ..self.reply(&[], None) }
    }
}
