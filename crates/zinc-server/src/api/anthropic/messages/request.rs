//! The body of a request, and what it asks of the core.

use serde::Deserialize;
use serde_json::{Map, Value};
use utoipa::ToSchema;

use super::content::{BlockField, MessageField, messages, system};
use crate::api::openai::set_effort;
use crate::api::parts::TextOrParts;
use crate::api::sampling::{Limits, SamplingFields};
use crate::api::tools::{argument_schema, check_count, checked_choice, schema_constraint};
use crate::api::whole::Whole;
use crate::body::Ignored;
use crate::core::{Ask, Conversation, Prompt, ToolChoice, ToolDefinition};
use crate::error::{ApiError, ApiResult};
use crate::state::Served;

/// Fields that are known and change nothing here: what only a provider of paid services has a use for, and what clients send back of an answer.
pub(super) const ACCEPTED: [&str; 23] = [
    "cache_control",
    "max_tokens",
    "messages.content.cache_control",
    "messages.content.citations",
    "messages.content.caller",
    "messages.content.content.cache_control",
    "messages.content.content.citations",
    "messages.content.data",
    "messages.content.is_error",
    "messages.content.signature",
    "messages.content.source.media_type",
    "messages.content.title",
    "metadata",
    "model",
    "output_config.format.name",
    "output_format.name",
    "service_tier",
    "system.cache_control",
    "system.citations",
    "tools.cache_control",
    "tools.defer_loading",
    "tools.eager_input_streaming",
    "tools.strict",
];

/// The fields of a request, besides those of sampling.
#[derive(Debug, Deserialize, ToSchema)]
pub struct MessagesFields {
    messages: Vec<MessageField>,
    #[serde(default)]
    system: Option<TextOrParts<BlockField>>,
    #[serde(default)]
    max_tokens: Option<Whole>,
    #[serde(default)]
    stop_sequences: Option<Vec<String>>,
    #[serde(default)]
    tools: Option<Vec<ToolField>>,
    #[serde(default)]
    tool_choice: Option<ToolChoiceField>,
    #[serde(default)]
    thinking: Option<ThinkingField>,
    #[serde(default)]
    output_config: Option<OutputConfig>,
    #[serde(default)]
    output_format: Option<FormatField>,
    #[serde(default)]
    chat_template_kwargs: Option<Map<String, Value>>,
}

/// A tool. Those that Anthropic's servers or models bring along have types of their own.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = AnthropicToolField)]
struct ToolField {
    #[serde(rename = "type", default)]
    kind: Option<String>,
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    description: Option<String>,
    #[serde(default)]
    input_schema: Option<Value>,
}

/// Which tool is to be called.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = AnthropicToolChoiceField)]
struct ToolChoiceField {
    #[serde(rename = "type")]
    kind: ToolChoiceWord,
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    disable_parallel_tool_use: Option<bool>,
}

#[derive(Clone, Copy, Debug, Deserialize, ToSchema)]
#[schema(as = AnthropicToolChoiceWord)]
#[serde(rename_all = "lowercase")]
enum ToolChoiceWord {
    Auto,
    Any,
    Tool,
    None,
}

/// Whether the model is to think.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = AnthropicThinkingField)]
struct ThinkingField {
    #[serde(rename = "type")]
    kind: ThinkingWord,
    #[serde(default)]
    budget_tokens: Option<Whole>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, ToSchema)]
#[schema(as = AnthropicThinkingWord)]
#[serde(rename_all = "lowercase")]
enum ThinkingWord {
    Enabled,
    Disabled,
    /// As the model sees fit.
    Adaptive,
}

/// How hard the model is to try, and the form of its content.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[schema(as = AnthropicOutputConfig)]
struct OutputConfig {
    #[serde(default)]
    effort: Option<String>,
    #[serde(default)]
    format: Option<FormatField>,
}

/// The form of the content.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = AnthropicFormatField)]
struct FormatField {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    schema: Option<Value>,
}

impl MessagesFields {
    /// Checks the length that an answer may have, without which there is none.
    ///
    /// # Errors
    /// A length that is missing or negative.
    pub(super) fn check_length(&self) -> ApiResult<()> {
        match self.max_tokens {
            Some(most) if most.count().is_some() => Ok(()),
            Some(Whole(most)) => Err(ApiError::invalid("max_tokens", format!("max_tokens {most} is not 0 or more"))),
            None => Err(ApiError::invalid("max_tokens", "a request needs max_tokens")),
        }
    }

    /// What the fields ask of the core.
    ///
    /// # Errors
    /// What is wrong with them.
    pub(super) fn ask(
        mut self,
        sampling: SamplingFields,
        limits: &Limits,
        served: &Served,
        ignored: &mut Ignored,
    ) -> ApiResult<Ask> {
        let (count, most) = (self.messages.len(), limits.most_messages);
        if count == 0 || count > most {
            return Err(ApiError::invalid("messages", format!("{count} messages; 1 to {most} are taken")));
        }
        let config = self.output_config.take().unwrap_or_default();
        let formats = [("output_config.format", config.format), ("output_format", self.output_format.take())];
        let format = formats.into_iter().find_map(|(param, format)| Some((param, format?)));
        let mut variables = self.chat_template_kwargs.take().unwrap_or_default();
        let most_thinking_tokens = match &self.thinking {
            Some(thinking) => thinking.budget(&mut variables, self.max_tokens)?,
            None => None,
        };
        if let Some(effort) = &config.effort {
            set_effort(&mut variables, effort);
        }
        let tools = tools(self.tools.take().unwrap_or_default(), limits, ignored)?;
        let parallel_tool_calls =
            self.tool_choice.as_ref().and_then(|choice| choice.disable_parallel_tool_use) != Some(true);
        let choice = self.tool_choice.map_or(Ok(ToolChoice::Auto), ToolChoiceField::choice)?;
        let tool_choice = checked_choice(choice, &tools)?;
        let messages = messages(self.system.map_or(Ok(None), system)?, self.messages, ignored)?;
        let conversation = Conversation {
            tools,
            tool_choice,
            parallel_tool_calls,
            most_thinking_tokens,
            variables,
            ..Conversation::new(messages)
        };
        let mut ask = sampling.ask(limits, served, Prompt::Conversation(conversation))?;
        if let Some((param, format)) = format {
            if ask.constraint.is_some() {
                let message = format!("{param} does not go together with grammar or json_schema; leave one out");
                return Err(ApiError::invalid(param, message));
            }
            ask.constraint = Some(schema_constraint(limits, param, &format.schema(param)?)?);
        }
        ask.stops.extend(self.stop_sequences.unwrap_or_default().into_iter().filter(|stop| !stop.is_empty()));
        if ask.stops.len() > limits.most_stops {
            let message = format!("{} stop sequences; at most {} are taken", ask.stops.len(), limits.most_stops);
            return Err(ApiError::invalid("stop_sequences", message));
        }
        Ok(ask)
    }
}

/// The tools that have a schema of their own; others are ignored by name.
fn tools(fields: Vec<ToolField>, limits: &Limits, ignored: &mut Ignored) -> ApiResult<Vec<ToolDefinition>> {
    check_count(limits, fields.len())?;
    let mut tools = Vec::new();
    for (index, ToolField { kind, name, description, input_schema }) in fields.into_iter().enumerate() {
        if let Some(kind) = kind.filter(|kind| kind != "custom") {
            ignored.add_whole(&format!("tools.{index}"), &kind);
            continue;
        }
        let Some(name) = name.filter(|name| !name.is_empty()) else {
            return Err(ApiError::invalid(format!("tools[{index}].name"), "a tool needs a name"));
        };
        tools.push(ToolDefinition { name, description, parameters: argument_schema(input_schema) });
    }
    Ok(tools)
}

impl ToolChoiceField {
    fn choice(self) -> ApiResult<ToolChoice> {
        match (self.kind, self.name) {
            (ToolChoiceWord::Auto, _) => Ok(ToolChoice::Auto),
            (ToolChoiceWord::Any, _) => Ok(ToolChoice::Required),
            (ToolChoiceWord::None, _) => Ok(ToolChoice::None),
            (ToolChoiceWord::Tool, Some(name)) => Ok(ToolChoice::Named(name)),
            (ToolChoiceWord::Tool, None) => {
                Err(ApiError::invalid("tool_choice.name", "a choice of type tool needs a name"))
            }
        }
    }
}

impl ThinkingField {
    /// Tells the template whether the model is to think, and returns the most tokens that it may think if that is less than the whole answer may have.
    fn budget(&self, variables: &mut Map<String, Value>, max_tokens: Option<Whole>) -> ApiResult<Option<u32>> {
        if self.kind != ThinkingWord::Adaptive {
            let is_enabled = self.kind == ThinkingWord::Enabled;
            variables.entry("enable_thinking").or_insert(Value::Bool(is_enabled));
        }
        let Some(budget) = self.budget_tokens else { return Ok(None) };
        let refuse = || ApiError::invalid("thinking.budget_tokens", format!("{} is not 0 or more", budget.0));
        let count = budget.count().ok_or_else(refuse)?;
        Ok(Some(count).filter(|_| max_tokens.is_none_or(|most| budget.0 < most.0)))
    }
}

impl FormatField {
    fn schema(self, param: &str) -> ApiResult<Value> {
        match (self.kind.as_str(), self.schema) {
            ("json_schema", Some(schema)) => Ok(schema),
            ("json_schema", None) => {
                Err(ApiError::invalid(format!("{param}.schema"), "a format of type json_schema needs its schema"))
            }
            (kind, _) => {
                Err(ApiError::invalid(format!("{param}.type"), format!("the format {kind:?} is not json_schema")))
            }
        }
    }
}
