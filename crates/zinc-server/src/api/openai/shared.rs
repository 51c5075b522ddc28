//! What several of OpenAI's paths have in common.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;
use zinc_sched::Usage;

use crate::core::{End, Reason};
use crate::ids;
use crate::state::Served;
use crate::version::FINGERPRINT;

/// What all replies and events of an answer say of it.
#[derive(Clone, Debug)]
pub(crate) struct Header {
    id: String,
    created: u64,
    model: String,
}

/// A [`Header`] as JSON has it, with the kind of what it stands before.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Head<'a> {
    id: &'a str,
    object: &'static str,
    created: u64,
    model: &'a str,
    system_fingerprint: &'static str,
}

impl Header {
    /// The header of an answer whose id begins with `prefix`.
    pub(crate) fn new(prefix: &str, served: &Served) -> Self {
        Self { id: ids::new(prefix), created: ids::now_s(), model: served.alias.clone() }
    }

    /// The header before an object of this kind.
    pub(crate) fn head(&self, object: &'static str) -> Head<'_> {
        let Self { id, created, model } = self;
        Head { id, object, created: *created, model, system_fingerprint: FINGERPRINT }
    }
}

/// Stop strings: one or several.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(untagged, expecting = "a text or a list of texts is expected")]
pub enum StopField {
    /// One.
    One(String),
    /// Several.
    Several(Vec<String>),
}

impl StopField {
    /// All of them that are not empty.
    #[must_use]
    pub fn texts(self) -> Vec<String> {
        let mut texts = match self {
            Self::One(text) => vec![text],
            Self::Several(texts) => texts,
        };
        texts.retain(|text| !text.is_empty());
        texts
    }
}

/// What a stream is to contain.
#[derive(Clone, Copy, Debug, Default, Deserialize, ToSchema)]
pub struct StreamOptions {
    /// Whether the last event has the numbers of tokens.
    #[serde(default)]
    pub include_usage: Option<bool>,
}

/// Numbers of tokens.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct UsageReply {
    prompt_tokens: u32,
    completion_tokens: u32,
    total_tokens: u32,
    prompt_tokens_details: PromptDetails,
    completion_tokens_details: CompletionDetails,
}

#[derive(Clone, Copy, Debug, Default, Serialize)]
struct PromptDetails {
    cached_tokens: u32,
}

#[derive(Clone, Copy, Debug, Default, Serialize)]
struct CompletionDetails {
    reasoning_tokens: u32,
}

impl UsageReply {
    /// Adds the answer of this number. So many answers next to each other have the same prompt, which counts once.
    pub fn add(&mut self, end: &End, choice: usize, of_one_prompt: usize) {
        let Usage { prompt_tokens, cached_tokens, completion_tokens } = end.usage;
        if choice.is_multiple_of(of_one_prompt.max(1)) {
            self.prompt_tokens = self.prompt_tokens.saturating_add(prompt_tokens);
            self.prompt_tokens_details.cached_tokens += cached_tokens;
        }
        self.completion_tokens = self.completion_tokens.saturating_add(completion_tokens);
        self.completion_tokens_details.reasoning_tokens += end.reasoning_tokens;
        self.total_tokens = self.prompt_tokens.saturating_add(self.completion_tokens);
    }
}

/// OpenAI's word for the end of an answer.
#[must_use]
pub fn finish_reason(reason: &Reason) -> &'static str {
    match reason {
        Reason::Stop | Reason::StopString(_) => "stop",
        Reason::ToolCalls => "tool_calls",
        Reason::Length | Reason::ContextFull | Reason::TimeOver => "length",
    }
}

/// Tells a template how hard the model is to think. What the request says of the template's variables itself stays.
pub(crate) fn set_effort(variables: &mut Map<String, Value>, effort: &str) {
    if effort == "none" {
        variables.entry("enable_thinking").or_insert(Value::Bool(false));
    }
    variables.entry("reasoning_effort").or_insert_with(|| effort.into());
}
