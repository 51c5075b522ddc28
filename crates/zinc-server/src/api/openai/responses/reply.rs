//! The whole of a response, as far as it has come.

use serde::Serialize;
use serde_json::{Map, Value};
use zinc_sched::Usage;

use super::output::{Item, Output};
use super::request::{TextField, ToolChoiceField, ToolField};
use crate::core::{End, Reason};
use crate::error::ApiError;
use crate::ids;
use crate::state::Served;

/// What all events of a response say of it.
#[derive(Debug)]
pub(super) struct Header {
    id: String,
    created_at: u64,
    model: String,
    echo: Echo,
}

/// What the request has asked for, which the response repeats.
#[derive(Debug, Serialize)]
pub(super) struct Echo {
    pub(super) instructions: Option<String>,
    pub(super) tools: Vec<ToolField>,
    pub(super) tool_choice: ToolChoiceField,
    pub(super) parallel_tool_calls: bool,
    pub(super) text: TextField,
    pub(super) reasoning: ReasoningReply,
    pub(super) temperature: f32,
    pub(super) top_p: f32,
    pub(super) presence_penalty: f32,
    pub(super) frequency_penalty: f32,
    pub(super) top_logprobs: u32,
    pub(super) max_output_tokens: Option<u32>,
    pub(super) max_tool_calls: Option<u32>,
    pub(super) metadata: Map<String, Value>,
    pub(super) prompt_cache_key: Option<String>,
    pub(super) safety_identifier: Option<String>,
    pub(super) user: Option<String>,
}

/// How the model was asked to think.
#[derive(Debug, Serialize)]
pub(super) struct ReasoningReply {
    pub(super) effort: Option<String>,
    pub(super) summary: Option<String>,
}

/// How far a response has come.
#[derive(Debug)]
pub(super) enum Outcome {
    /// It goes on.
    InProgress,
    /// It has ended.
    Ended(End),
    /// It has failed.
    Failed(ApiError),
}

/// A response.
#[derive(Debug, Serialize)]
pub(super) struct ResponseReply<'a> {
    id: &'a str,
    object: &'static str,
    created_at: u64,
    completed_at: Option<u64>,
    status: &'static str,
    background: bool,
    error: Option<ErrorReply<'a>>,
    incomplete_details: Option<IncompleteDetails>,
    model: &'a str,
    output: &'a [Item],
    previous_response_id: Option<()>,
    service_tier: &'static str,
    store: bool,
    truncation: &'static str,
    usage: Option<UsageReply>,
    #[serde(flatten)]
    echo: &'a Echo,
}

#[derive(Debug, Serialize)]
struct ErrorReply<'a> {
    code: &'static str,
    message: &'a str,
}

#[derive(Debug, Serialize)]
struct IncompleteDetails {
    reason: &'static str,
}

#[derive(Debug, Serialize)]
struct UsageReply {
    input_tokens: u32,
    input_tokens_details: InputDetails,
    output_tokens: u32,
    output_tokens_details: OutputDetails,
    total_tokens: u32,
}

#[derive(Debug, Serialize)]
struct InputDetails {
    cached_tokens: u32,
    /// Tokens whose place in the cache is paid for, of which there are none.
    cache_write_tokens: u32,
}

#[derive(Debug, Serialize)]
struct OutputDetails {
    reasoning_tokens: u32,
}

/// The number of tokens of a request that is not answered.
#[derive(Debug, Serialize)]
pub(super) struct Counted {
    pub(super) object: &'static str,
    pub(super) input_tokens: u32,
}

impl From<&End> for UsageReply {
    fn from(end: &End) -> Self {
        let Usage { prompt_tokens, cached_tokens, completion_tokens } = end.usage;
        Self {
            input_tokens: prompt_tokens,
            input_tokens_details: InputDetails { cached_tokens, cache_write_tokens: 0 },
            output_tokens: completion_tokens,
            output_tokens_details: OutputDetails { reasoning_tokens: end.reasoning_tokens },
            total_tokens: prompt_tokens.saturating_add(completion_tokens),
        }
    }
}

impl Outcome {
    /// The response's status, which is the last word of the name of its last event too.
    pub(super) fn status(&self) -> &'static str {
        match self {
            Self::InProgress => "in_progress",
            Self::Ended(End { reason: Reason::Stop | Reason::StopString(_) | Reason::ToolCalls, .. }) => "completed",
            Self::Ended(End { reason: Reason::Length | Reason::ContextFull | Reason::TimeOver, .. }) => "incomplete",
            Self::Failed(_) => "failed",
        }
    }
}

impl Header {
    pub(super) fn new(served: &Served, echo: Echo) -> Self {
        Self { id: ids::new("resp_"), created_at: ids::now_s(), model: served.alias.clone(), echo }
    }

    /// The response as far as it has come.
    pub(super) fn reply<'a>(&'a self, output: &'a Output, outcome: &'a Outcome) -> ResponseReply<'a> {
        let status = outcome.status();
        let (error, usage) = match outcome {
            Outcome::InProgress => (None, None),
            Outcome::Ended(end) => (None, Some(UsageReply::from(end))),
            // OpenAI's clients know a closed list of codes.
            Outcome::Failed(error) => (Some(ErrorReply { code: "server_error", message: &error.message }), None),
        };
        ResponseReply {
            id: &self.id,
            object: "response",
            created_at: self.created_at,
            completed_at: (status == "completed").then(ids::now_s),
            status,
            background: false,
            error,
            incomplete_details: (status == "incomplete").then_some(IncompleteDetails { reason: "max_output_tokens" }),
            model: &self.model,
            output: output.items(),
            previous_response_id: None,
            service_tier: "default",
            store: false,
            truncation: "disabled",
            usage,
            echo: &self.echo,
        }
    }
}
