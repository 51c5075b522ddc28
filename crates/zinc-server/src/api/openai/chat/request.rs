//! The body of a request, and what it asks of the core.

use serde::Deserialize;
use serde_json::{Map, Value};
use utoipa::ToSchema;

use crate::api::openai::{StreamOptions, set_effort};
use crate::api::sampling::{Limits, SamplingFields, choices};
use crate::api::tools::{argument_schema, check_count, checked_choice, schema_constraint};
use crate::api::whole::Whole;
use crate::body::Ignored;
use crate::core::{Ask, Constraint, Conversation, Message, Prompt, Role, ToolCall, ToolChoice, ToolDefinition};
use crate::error::{ApiError, ApiResult};
use crate::options::{ReasoningField, ReasoningFormat};
use crate::state::Served;

/// Fields that are known and change nothing here: what only a provider of paid services has a use for, and what clients send back of an answer.
pub(super) const ACCEPTED: [&str; 21] = [
    "messages.annotations",
    "messages.audio",
    "messages.function_call",
    "messages.refusal",
    "messages.tool_calls.index",
    "messages.tool_calls.type",
    "metadata",
    "model",
    "prompt_cache_key",
    "prompt_cache_retention",
    "response_format.json_schema.description",
    "response_format.json_schema.name",
    "response_format.json_schema.strict",
    "safety_identifier",
    "service_tier",
    "store",
    "stream_options.include_obfuscation",
    "tools.function.strict",
    "user",
    "verbosity",
    "web_search_options",
];

/// The fields of a conversation to be answered, besides those of sampling.
#[derive(Debug, Deserialize, ToSchema)]
pub struct ChatFields {
    messages: Vec<MessageField>,
    #[serde(default)]
    stream_options: Option<StreamOptions>,
    #[serde(default)]
    n: Option<Whole>,
    #[serde(default)]
    logprobs: Option<bool>,
    #[serde(default)]
    top_logprobs: Option<Whole>,
    #[serde(default)]
    response_format: Option<ResponseFormat>,
    #[serde(default)]
    tools: Option<Vec<ToolField>>,
    #[serde(default)]
    tool_choice: Option<ToolChoiceField>,
    #[serde(default)]
    parallel_tool_calls: Option<bool>,
    #[serde(default)]
    reasoning_effort: Option<String>,
    #[serde(default)]
    reasoning_format: Option<ReasoningFormat>,
    #[serde(default)]
    enable_thinking: Option<bool>,
    #[serde(default)]
    reasoning_budget: Option<Whole>,
    #[serde(default)]
    thinking_budget: Option<Whole>,
    #[serde(default)]
    thinking_budget_tokens: Option<Whole>,
    #[serde(default)]
    continue_final_message: Option<bool>,
    #[serde(default)]
    add_generation_prompt: Option<bool>,
    #[serde(default)]
    chat_template_kwargs: Option<Map<String, Value>>,
    #[serde(default)]
    timings_per_token: Option<bool>,
    #[serde(default)]
    return_progress: Option<bool>,
}

/// What an answer is to contain besides its text.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Wanted {
    pub(super) usage: bool,
    pub(super) logprobs: bool,
    pub(super) timings: bool,
    pub(super) progress: bool,
    /// Where thoughts are.
    pub(super) reasoning_format: ReasoningFormat,
    /// The name of their field.
    pub(super) reasoning_field: ReasoningField,
}

/// A message.
#[derive(Debug, Deserialize, ToSchema)]
pub struct MessageField {
    role: RoleField,
    #[serde(default)]
    content: Option<ContentField>,
    #[serde(default)]
    reasoning_content: Option<String>,
    #[serde(default)]
    reasoning: Option<String>,
    #[serde(default)]
    tool_calls: Option<Vec<CallField>>,
    #[serde(default)]
    tool_call_id: Option<String>,
    #[serde(default)]
    name: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
enum RoleField {
    Developer,
    System,
    User,
    Assistant,
    Tool,
    Function,
}

/// The content of a message: a text, or parts.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(untagged, expecting = "a text or a list of parts is expected")]
pub(super) enum ContentField {
    /// A text.
    Text(String),
    /// Parts.
    Parts(Vec<PartField>),
}

/// A part of a content.
#[derive(Debug, Deserialize, ToSchema)]
pub(super) struct PartField {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    text: Option<String>,
    #[serde(default)]
    refusal: Option<String>,
}

/// A call that the model has made before.
#[derive(Debug, Deserialize, ToSchema)]
pub(super) struct CallField {
    #[serde(default)]
    id: Option<String>,
    function: CalledFunction,
}

#[derive(Debug, Deserialize, ToSchema)]
struct CalledFunction {
    name: String,
    #[serde(default)]
    arguments: Option<ArgumentsField>,
}

/// Arguments: a text as OpenAI has it, or the object itself, as some clients send it.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(untagged, expecting = "a text or an object is expected")]
enum ArgumentsField {
    Text(String),
    Object(Map<String, Value>),
}

/// A tool.
#[derive(Debug, Deserialize, ToSchema)]
pub struct ToolField {
    #[serde(rename = "type", default)]
    kind: Option<String>,
    #[serde(default)]
    function: Option<FunctionField>,
}

/// A function that a tool is.
#[derive(Debug, Deserialize, ToSchema)]
pub struct FunctionField {
    name: String,
    #[serde(default)]
    description: Option<String>,
    #[serde(default)]
    parameters: Option<Value>,
}

/// Which tool is to be called.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(untagged, expecting = "auto, none, required or an object with a function is expected")]
enum ToolChoiceField {
    Word(ToolChoiceWord),
    Named { function: NamedFunction },
}

#[derive(Clone, Copy, Debug, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
enum ToolChoiceWord {
    Auto,
    None,
    Required,
    Any,
}

#[derive(Debug, Deserialize, ToSchema)]
struct NamedFunction {
    name: String,
}

/// The form of the content.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
enum ResponseFormat {
    Text,
    JsonObject {
        #[serde(default)]
        schema: Option<Value>,
    },
    JsonSchema {
        json_schema: SchemaField,
    },
}

#[derive(Debug, Deserialize, ToSchema)]
struct SchemaField {
    schema: Option<Value>,
}

impl ChatFields {
    /// What the answer is to contain besides its text.
    pub(super) fn wanted(&self, limits: &Limits) -> Wanted {
        Wanted {
            usage: self.stream_options.and_then(|options| options.include_usage) == Some(true),
            logprobs: self.logprobs == Some(true),
            timings: self.timings_per_token == Some(true),
            progress: self.return_progress == Some(true),
            reasoning_format: self.reasoning_format.unwrap_or(limits.reasoning_format),
            reasoning_field: limits.reasoning_field,
        }
    }

    /// What the fields ask of the core.
    ///
    /// # Errors
    /// What is wrong with them.
    pub(super) fn ask(
        self,
        sampling: SamplingFields,
        limits: &Limits,
        served: &Served,
        ignored: &mut Ignored,
    ) -> ApiResult<Ask> {
        let logprobs = self.logprobs()?;
        let choices = choices(limits, self.n)?;
        let format = self.response_format.as_ref().map_or(Ok(None), |format| format.constraint(limits))?;
        let conversation = self.conversation(limits, ignored)?;
        let mut ask = sampling.ask(limits, served, Prompt::Conversation(conversation))?;
        if format.is_some() && ask.constraint.is_some() {
            let message = "response_format does not go together with grammar or json_schema; leave one out";
            return Err(ApiError::invalid("response_format", message));
        }
        ask.constraint = ask.constraint.or(format);
        ask.choices = choices;
        ask.options.logprobs = logprobs;
        Ok(ask)
    }

    fn logprobs(&self) -> ApiResult<Option<u32>> {
        let most = zinc_sched::TokenLogprobs::MAX_TOP;
        match (self.logprobs.unwrap_or(false), self.top_logprobs) {
            (false, None | Some(Whole(0))) => Ok(None),
            (false, Some(_)) => Err(ApiError::invalid("top_logprobs", "top_logprobs needs logprobs: true")),
            (true, top) => {
                let top = top.unwrap_or_default();
                let refuse = || ApiError::invalid("top_logprobs", format!("top_logprobs {} is not 0 to {most}", top.0));
                top.count().filter(|top| *top <= most).map(Some).ok_or_else(refuse)
            }
        }
    }

    /// The conversation.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn conversation(self, limits: &Limits, ignored: &mut Ignored) -> ApiResult<Conversation> {
        let (messages, most) = (self.messages.len(), limits.most_messages);
        if messages == 0 || messages > most {
            return Err(ApiError::invalid("messages", format!("{messages} messages; 1 to {most} are taken")));
        }
        let mut variables = self.chat_template_kwargs.unwrap_or_default();
        if let Some(effort) = self.reasoning_effort {
            set_effort(&mut variables, &effort);
        }
        if let Some(thinking) = self.enable_thinking {
            variables.entry("enable_thinking").or_insert(Value::Bool(thinking));
        }
        let messages = self.messages.into_iter().enumerate();
        let messages = messages.map(|(index, message)| message.message(index)).collect::<ApiResult<_>>()?;
        let tools = tools(self.tools.unwrap_or_default(), limits, ignored)?;
        let tool_choice = tool_choice(self.tool_choice, &tools)?;
        let format = self.reasoning_format.unwrap_or(limits.reasoning_format);
        let offers_tools = !tools.is_empty() && tool_choice != ToolChoice::None;
        let budget = self.reasoning_budget.or(self.thinking_budget).or(self.thinking_budget_tokens);
        let most_thinking_tokens = match budget {
            None | Some(Whole(-1)) => None,
            Some(most) => {
                let refuse = || ApiError::invalid("reasoning_budget", format!("{} is not -1, 0 or more", most.0));
                Some(most.count().ok_or_else(refuse)?)
            }
        };
        let conversation = Conversation {
            tools,
            tool_choice,
            parallel_tool_calls: self.parallel_tool_calls.unwrap_or(true),
            most_thinking_tokens,
            variables,
            // Calls have to be told apart from the content wherever thoughts are.
            parsed: format != ReasoningFormat::None || offers_tools,
            continues_last: self.continue_final_message.unwrap_or(true),
            ..Conversation::new(messages)
        };
        let continues = conversation.answered_and_begun().1.is_some();
        if self.continue_final_message == Some(true) && !continues {
            let message =
                "the last message is not an assistant's without calls of tools, which an answer could continue";
            return Err(ApiError::invalid("continue_final_message", message));
        }
        if self.add_generation_prompt == Some(false) && !continues {
            // Every answer begins as the template has it.
            ignored.add("add_generation_prompt");
        }
        Ok(conversation)
    }
}

/// The tools that are functions; others are ignored by name.
///
/// # Errors
/// Too many tools, or one without a name.
pub(crate) fn tools(fields: Vec<ToolField>, limits: &Limits, ignored: &mut Ignored) -> ApiResult<Vec<ToolDefinition>> {
    check_count(limits, fields.len())?;
    let mut tools = Vec::new();
    for (index, field) in fields.into_iter().enumerate() {
        let ToolField { kind, function } = field;
        match (kind.as_deref().unwrap_or("function"), function) {
            ("function", Some(function)) => {
                let FunctionField { name, description, parameters, .. } = function;
                if name.is_empty() {
                    return Err(ApiError::invalid(format!("tools[{index}].function.name"), "a tool needs a name"));
                }
                let parameters = argument_schema(parameters);
                tools.push(ToolDefinition { name, description, parameters });
            }
            ("function", None) => {
                return Err(ApiError::invalid(format!("tools[{index}].function"), "a tool needs its function"));
            }
            (kind, _) => ignored.add_whole(&format!("tools.{index}"), kind),
        }
    }
    Ok(tools)
}

fn tool_choice(field: Option<ToolChoiceField>, tools: &[ToolDefinition]) -> ApiResult<ToolChoice> {
    let choice = match field {
        None | Some(ToolChoiceField::Word(ToolChoiceWord::Auto)) => return Ok(ToolChoice::Auto),
        Some(ToolChoiceField::Word(ToolChoiceWord::None)) => return Ok(ToolChoice::None),
        Some(ToolChoiceField::Word(ToolChoiceWord::Required | ToolChoiceWord::Any)) => ToolChoice::Required,
        Some(ToolChoiceField::Named { function }) => ToolChoice::Named(function.name),
    };
    checked_choice(choice, tools)
}

impl MessageField {
    fn message(self, index: usize) -> ApiResult<Message> {
        let role = match self.role {
            RoleField::Developer | RoleField::System => Role::System,
            RoleField::User => Role::User,
            RoleField::Assistant => Role::Assistant,
            RoleField::Tool | RoleField::Function => Role::Tool,
        };
        let calls = self.tool_calls.unwrap_or_default().into_iter();
        let tool_calls: Vec<ToolCall> = calls.map(CallField::call).collect();
        let content = self.content.map(|content| content.text(index)).transpose()?;
        if content.is_none() && tool_calls.is_empty() && role != Role::Assistant {
            return Err(ApiError::invalid(format!("messages[{index}].content"), "a message needs its content"));
        }
        Ok(Message {
            role,
            content,
            reasoning: self.reasoning_content.or(self.reasoning),
            tool_calls,
            tool_call_id: self.tool_call_id,
            name: self.name,
        })
    }
}

impl ContentField {
    fn text(self, index: usize) -> ApiResult<String> {
        let parts = match self {
            Self::Text(text) => return Ok(text),
            Self::Parts(parts) => parts,
        };
        let mut texts = Vec::new();
        for (at, PartField { kind, text, refusal }) in parts.into_iter().enumerate() {
            let param = || format!("messages[{index}].content[{at}]");
            match kind.as_str() {
                "text" | "input_text" | "output_text" | "refusal" => {
                    let missing = || ApiError::invalid(param(), format!("a part of type {kind} needs its text"));
                    texts.push(text.or(refusal).ok_or_else(missing)?);
                }
                _ => {
                    let message = format!("parts of type {kind:?} are not supported; this model reads text alone");
                    return Err(ApiError::invalid(param(), message));
                }
            }
        }
        Ok(texts.join("\n"))
    }
}

impl CallField {
    fn call(self) -> ToolCall {
        let CalledFunction { name, arguments } = self.function;
        let arguments = match arguments {
            Some(ArgumentsField::Text(text)) => text,
            Some(ArgumentsField::Object(object)) => Value::Object(object).to_string(),
            None => "{}".to_owned(),
        };
        ToolCall { id: self.id.unwrap_or_default(), name, arguments }
    }
}

impl ResponseFormat {
    fn constraint(&self, limits: &Limits) -> ApiResult<Option<Constraint>> {
        let schema = match self {
            Self::Text => return Ok(None),
            Self::JsonObject { schema } => schema.clone().unwrap_or_else(|| serde_json::json!({ "type": "object" })),
            Self::JsonSchema { json_schema } => json_schema.schema.clone().unwrap_or(Value::Bool(true)),
        };
        schema_constraint(limits, "response_format", &schema).map(Some)
    }
}
