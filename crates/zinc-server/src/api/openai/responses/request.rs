//! The body of a request, and what it asks of the core.

use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use utoipa::ToSchema;
use zinc_sched::TokenLogprobs;

use super::input::{ItemField, messages};
use super::output::Wanted;
use super::reply::{Echo, ReasoningReply};
use crate::api::openai::set_effort;
use crate::api::parts::TextOrParts;
use crate::api::sampling::{Limits, SamplingFields};
use crate::api::tools::{argument_schema, check_count, checked_choice, schema_constraint};
use crate::api::whole::Whole;
use crate::body::Ignored;
use crate::core::{Ask, Constraint, Conversation, Prompt, ToolChoice, ToolDefinition};
use crate::error::{ApiError, ApiResult, ErrorKind};
use crate::state::Served;

/// Fields that are known and change nothing here: what only a provider of paid services has a use for, and what clients send back of an answer.
pub(super) const ACCEPTED: [&str; 16] = [
    "client_metadata",
    "input.content.annotations",
    "input.content.logprobs",
    "input.id",
    "input.phase",
    "input.status",
    "model",
    "prompt_cache_options",
    "prompt_cache_retention",
    "reasoning.generate_summary",
    "service_tier",
    "store",
    "stream_options",
    "stream_options.include_obfuscation",
    "text.format.description",
    "tool_choice.type",
];

/// The fields of a request, besides those of sampling.
#[derive(Debug, Deserialize, ToSchema)]
pub struct ResponsesFields {
    input: TextOrParts<ItemField>,
    #[serde(default)]
    instructions: Option<String>,
    #[serde(default)]
    tools: Option<Vec<ToolField>>,
    #[serde(default)]
    tool_choice: Option<ToolChoiceField>,
    #[serde(default)]
    parallel_tool_calls: Option<bool>,
    #[serde(default)]
    text: Option<TextField>,
    #[serde(default)]
    reasoning: Option<ReasoningField>,
    #[serde(default)]
    max_output_tokens: Option<Whole>,
    #[serde(default)]
    max_tool_calls: Option<Whole>,
    #[serde(default)]
    top_logprobs: Option<Whole>,
    #[serde(default)]
    include: Option<Vec<String>>,
    #[serde(default)]
    truncation: Option<String>,
    #[serde(default)]
    background: Option<bool>,
    #[serde(default)]
    previous_response_id: Option<String>,
    #[serde(default)]
    #[schema(value_type = Option<Value>)]
    conversation: Option<IgnoredAny>,
    #[serde(default)]
    #[schema(value_type = Option<Value>)]
    prompt: Option<IgnoredAny>,
    #[serde(default)]
    metadata: Option<Map<String, Value>>,
    #[serde(default)]
    prompt_cache_key: Option<String>,
    #[serde(default)]
    safety_identifier: Option<String>,
    #[serde(default)]
    user: Option<String>,
    #[serde(default)]
    chat_template_kwargs: Option<Map<String, Value>>,
}

/// A tool. Only functions are known.
#[derive(Debug, Deserialize, Serialize, ToSchema)]
#[schema(as = ResponsesToolField)]
pub(super) struct ToolField {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    description: Option<String>,
    #[serde(default)]
    parameters: Option<Value>,
    #[serde(default)]
    strict: Option<bool>,
}

/// Which tool is to be called.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
#[schema(as = ResponsesToolChoiceField)]
#[serde(untagged, expecting = "auto, none, required or an object is expected")]
pub(super) enum ToolChoiceField {
    Word(ToolChoiceWord),
    Object(ToolChoiceObject),
}

#[derive(Clone, Copy, Debug, Deserialize, Serialize, ToSchema)]
#[schema(as = ResponsesToolChoiceWord)]
#[serde(rename_all = "lowercase")]
pub(super) enum ToolChoiceWord {
    Auto,
    None,
    Required,
}

/// A tool to be called, or those that may be.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
#[schema(as = ResponsesToolChoiceObject)]
pub(super) struct ToolChoiceObject {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    mode: Option<ToolChoiceWord>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tools: Option<Vec<AllowedTool>>,
}

#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
#[schema(as = ResponsesAllowedTool)]
struct AllowedTool {
    #[serde(rename = "type", default, skip_serializing_if = "Option::is_none")]
    kind: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    name: Option<String>,
}

/// The form of the content.
#[derive(Debug, Deserialize, Serialize, ToSchema)]
#[schema(as = ResponsesTextField)]
pub(super) struct TextField {
    #[serde(default)]
    format: Option<FormatField>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    verbosity: Option<String>,
}

#[derive(Debug, Deserialize, Serialize, ToSchema)]
#[schema(as = ResponsesFormatField)]
struct FormatField {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    schema: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    strict: Option<bool>,
}

#[derive(Debug, Default, Deserialize, ToSchema)]
#[schema(as = ResponsesReasoningField)]
struct ReasoningField {
    #[serde(default)]
    effort: Option<String>,
    #[serde(default)]
    summary: Option<String>,
}

impl ResponsesFields {
    /// What the fields ask of the core, what the response repeats of them, and what it is to contain.
    ///
    /// # Errors
    /// What is wrong with them.
    pub(super) fn ask(
        mut self,
        sampling: SamplingFields,
        limits: &Limits,
        served: &Served,
        ignored: &mut Ignored,
    ) -> ApiResult<(Ask, Echo, Wanted)> {
        self.refuse_memory()?;
        let max_output_tokens = count("max_output_tokens", self.max_output_tokens, u32::MAX)?;
        let max_tool_calls = count("max_tool_calls", self.max_tool_calls, u32::MAX)?;
        let top_logprobs = count("top_logprobs", self.top_logprobs, TokenLogprobs::MAX_TOP)?.unwrap_or(0);
        let wanted = self.wanted(top_logprobs, ignored);
        if self.truncation.as_deref().is_some_and(|how| how != "disabled") {
            ignored.add("truncation");
        }
        let text = self.text.take().unwrap_or(TextField { format: None, verbosity: None });
        let format = text.format.as_ref().map_or(Ok(None), |format| format.constraint(limits))?;
        let tool_choice = self.tool_choice.take().unwrap_or(ToolChoiceField::Word(ToolChoiceWord::Auto));
        let (tools, definitions) = tools(self.tools.take().unwrap_or_default(), limits, ignored)?;
        let (definitions, choice) = tool_choice.choice(definitions)?;
        let reasoning = self.reasoning.take().unwrap_or_default();
        let mut variables = self.chat_template_kwargs.take().unwrap_or_default();
        if let Some(effort) = &reasoning.effort {
            set_effort(&mut variables, effort);
        }
        let messages = messages(self.instructions.as_deref(), self.input, limits.most_messages, ignored)?;
        let parallel_tool_calls = self.parallel_tool_calls.unwrap_or(true);
        let conversation = Conversation {
            tools: definitions,
            tool_choice: choice,
            parallel_tool_calls,
            variables,
            ..Conversation::new(messages)
        };
        let mut ask = sampling.ask(limits, served, Prompt::Conversation(conversation))?;
        if format.is_some() && ask.constraint.is_some() {
            let message = "text.format does not go together with grammar or json_schema; leave one out";
            return Err(ApiError::invalid("text.format", message));
        }
        ask.constraint = ask.constraint.or(format);
        if max_output_tokens.is_some() {
            ask.options.max_tokens = max_output_tokens;
        }
        ask.options.logprobs = wanted.logprobs.then_some(top_logprobs);
        let chosen = &ask.options.sampling;
        let echo = Echo {
            instructions: self.instructions,
            tools,
            tool_choice,
            parallel_tool_calls,
            text: TextField { format: Some(text.format.unwrap_or_default()), ..text },
            reasoning: ReasoningReply { effort: reasoning.effort, summary: reasoning.summary },
            temperature: chosen.temperature,
            top_p: chosen.top_p,
            presence_penalty: chosen.penalties.presence,
            frequency_penalty: chosen.penalties.frequency,
            top_logprobs,
            max_output_tokens: ask.options.max_tokens,
            max_tool_calls,
            metadata: self.metadata.unwrap_or_default(),
            prompt_cache_key: self.prompt_cache_key,
            safety_identifier: self.safety_identifier,
            user: self.user,
        };
        Ok((ask, echo, wanted))
    }

    /// Refuses what needs responses that are stored.
    fn refuse_memory(&self) -> ApiResult<()> {
        let fields = [
            ("previous_response_id", self.previous_response_id.is_some()),
            ("conversation", self.conversation.is_some()),
            ("prompt", self.prompt.is_some()),
        ];
        if let Some((param, _)) = fields.into_iter().find(|(_, is_given)| *is_given) {
            let message = format!(
                "{param} refers to something that is stored, and this server stores nothing; send the whole conversation as input"
            );
            return Err(ApiError { code: Some("unsupported_parameter"), ..ApiError::invalid(param, message) });
        }
        if self.background == Some(true) {
            let message = "background responses are not supported; leave background out, and stream the response";
            let code = Some("unsupported_parameter");
            return Err(ApiError { code, ..ApiError::new(ErrorKind::InvalidRequest, message) }.with_param("background"));
        }
        Ok(())
    }

    /// What the items of the answer are to contain.
    fn wanted(&self, top_logprobs: u32, ignored: &mut Ignored) -> Wanted {
        let summary = self.reasoning.as_ref().and_then(|reasoning| reasoning.summary.as_deref());
        let summary = summary.is_some_and(|summary| summary != "none");
        let mut wanted = Wanted { summary, encrypted: false, logprobs: top_logprobs > 0 };
        for name in self.include.iter().flatten() {
            match name.as_str() {
                "reasoning.encrypted_content" => wanted.encrypted = true,
                "message.output_text.logprobs" => wanted.logprobs = true,
                _ => ignored.add(format!("include ({name})")),
            }
        }
        wanted
    }
}

/// A number that is 0 to `most`.
fn count(param: &'static str, field: Option<Whole>, most: u32) -> ApiResult<Option<u32>> {
    let Some(field) = field else { return Ok(None) };
    let refuse = || {
        let range = if most == u32::MAX { "0 or more".to_owned() } else { format!("0 to {most}") };
        ApiError::invalid(param, format!("{param} {} is not {range}", field.0))
    };
    field.count().filter(|count| *count <= most).map(Some).ok_or_else(refuse)
}

/// The tools that are functions, as they were given and as the core has them; others are ignored by name.
fn tools(
    fields: Vec<ToolField>,
    limits: &Limits,
    ignored: &mut Ignored,
) -> ApiResult<(Vec<ToolField>, Vec<ToolDefinition>)> {
    check_count(limits, fields.len())?;
    let mut functions = Vec::new();
    let mut definitions = Vec::new();
    for (index, field) in fields.into_iter().enumerate() {
        if field.kind != "function" {
            ignored.add_whole(&format!("tools.{index}"), &field.kind);
            continue;
        }
        let Some(name) = field.name.clone().filter(|name| !name.is_empty()) else {
            return Err(ApiError::invalid(format!("tools[{index}].name"), "a function needs a name"));
        };
        let (description, parameters) = (field.description.clone(), argument_schema(field.parameters.clone()));
        definitions.push(ToolDefinition { name, description, parameters });
        functions.push(field);
    }
    Ok((functions, definitions))
}

impl ToolChoiceField {
    /// The tools that may be called, and which of them may or must be.
    fn choice(&self, mut tools: Vec<ToolDefinition>) -> ApiResult<(Vec<ToolDefinition>, ToolChoice)> {
        let choice = match self {
            Self::Word(word) => word.choice(),
            Self::Object(ToolChoiceObject { kind, name: Some(name), .. }) if kind == "function" => {
                ToolChoice::Named(name.clone())
            }
            Self::Object(ToolChoiceObject { kind, mode, tools: Some(allowed), .. }) if kind == "allowed_tools" => {
                tools.retain(|tool| allowed.iter().any(|allowed| allowed.name.as_ref() == Some(&tool.name)));
                mode.unwrap_or(ToolChoiceWord::Auto).choice()
            }
            Self::Object(ToolChoiceObject { kind, .. }) => {
                let message = format!(
                    "a tool choice of type {kind:?} is not supported, or lacks a field; use auto, none, required, \
                     {{\"type\": \"function\", \"name\": …}} or allowed_tools"
                );
                return Err(ApiError::invalid("tool_choice", message));
            }
        };
        let choice = checked_choice(choice, &tools)?;
        Ok((tools, choice))
    }
}

impl ToolChoiceWord {
    fn choice(self) -> ToolChoice {
        match self {
            Self::Auto => ToolChoice::Auto,
            Self::None => ToolChoice::None,
            Self::Required => ToolChoice::Required,
        }
    }
}

impl Default for FormatField {
    fn default() -> Self {
        Self { kind: "text".to_owned(), name: None, schema: None, strict: None }
    }
}

impl FormatField {
    fn constraint(&self, limits: &Limits) -> ApiResult<Option<Constraint>> {
        let any_object = json!({ "type": "object" });
        let schema = match (self.kind.as_str(), &self.schema) {
            ("text", _) => return Ok(None),
            ("json_object", schema) => schema.as_ref().unwrap_or(&any_object),
            ("json_schema", Some(schema)) => schema,
            ("json_schema", None) => {
                return Err(ApiError::invalid("text.format.schema", "a format of type json_schema needs its schema"));
            }
            (kind, _) => {
                let message = format!("the format {kind:?} is none of text, json_object and json_schema");
                return Err(ApiError::invalid("text.format.type", message));
            }
        };
        schema_constraint(limits, "text.format.schema", schema).map(Some)
    }
}
