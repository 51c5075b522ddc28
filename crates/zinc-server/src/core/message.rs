//! The messages and tools of a conversation, as all APIs have them, and the form in which chat templates read them.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::{Map, Value};

/// Who says a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Whoever set the conversation up.
    System,
    /// The user.
    User,
    /// The model.
    Assistant,
    /// A tool, which answers a call.
    Tool,
}

/// A message.
#[derive(Clone, Debug, PartialEq)]
pub struct Message {
    /// Who says it.
    pub role: Role,
    /// The text; `None` where a message has calls alone.
    pub content: Option<String>,
    /// What the model thought before it said that.
    pub reasoning: Option<String>,
    /// The tools that the model called.
    pub tool_calls: Vec<ToolCall>,
    /// The id of the call that a tool answers.
    pub tool_call_id: Option<String>,
    /// The name of who says it, or of the tool.
    pub name: Option<String>,
}

/// A call of a tool that the model has made.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolCall {
    /// The id by which its result refers to it.
    pub id: String,
    /// The tool's name.
    pub name: String,
    /// The arguments: the text of a JSON object.
    pub arguments: String,
}

/// A tool that the model may call.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolDefinition {
    /// Its name.
    pub name: String,
    /// What it does.
    pub description: Option<String>,
    /// The JSON schema of its arguments.
    pub parameters: Value,
}

/// How a template wants the arguments of calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arguments {
    /// As the text of a JSON object, just as the model has written it.
    Text,
    /// As an object.
    Object,
}

impl Arguments {
    /// The form that a template reads. Templates that look whether arguments are a string take either; all others are tried with objects first.
    pub(crate) fn of_template(source: &str) -> Self {
        if source.contains("arguments is string") { Self::Text } else { Self::Object }
    }
}

impl Message {
    /// A message with nothing but a text.
    #[must_use]
    pub fn new(role: Role, content: impl Into<String>) -> Self {
        let content = Some(content.into());
        Self { role, content, reasoning: None, tool_calls: Vec::new(), tool_call_id: None, name: None }
    }

    fn in_template(&self, arguments: Arguments) -> TemplateMessage<'_> {
        TemplateMessage {
            role: self.role,
            content: Some(self.content.as_deref()),
            reasoning_content: self.reasoning.as_deref(),
            thinking: None,
            tool_calls: self.tool_calls.iter().map(|call| call.in_template(arguments)).collect(),
            tool_call_id: self.tool_call_id.as_deref(),
            name: self.name.as_deref(),
        }
    }

    /// The message as templates of harmony read it. Those take no more than one of a thought and a text before a call, and no content that is null.
    pub(super) fn in_harmony(&self, arguments: Arguments) -> TemplateMessage<'_> {
        let content = self.content.as_deref().filter(|content| !content.is_empty());
        let (content, thinking) = match (content, self.reasoning.as_deref()) {
            (content, thinking) if self.tool_calls.is_empty() => {
                (Some(content.unwrap_or_default()), thinking.map(Cow::from))
            }
            (Some(content), Some(thinking)) => (None, Some(format!("{thinking}\n\n{content}").into())),
            (content, thinking) => (content, thinking.map(Cow::from)),
        };
        TemplateMessage { content: content.map(Some), reasoning_content: None, thinking, ..self.in_template(arguments) }
    }
}

impl ToolCall {
    fn in_template(&self, arguments: Arguments) -> TemplateCall<'_> {
        let object = match arguments {
            Arguments::Object if self.arguments.trim().is_empty() => Some(Value::Object(Map::new())),
            Arguments::Object => serde_json::from_str::<Value>(&self.arguments).ok().filter(Value::is_object),
            Arguments::Text => None,
        };
        let arguments = object.unwrap_or_else(|| Value::String(self.arguments.clone()));
        TemplateCall { id: &self.id, kind: "function", function: TemplateFunction { name: &self.name, arguments } }
    }
}

#[derive(Serialize)]
pub(super) struct TemplateMessage<'a> {
    role: Role,
    /// `Some(None)` is null.
    #[serde(skip_serializing_if = "Option::is_none")]
    content: Option<Option<&'a str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_content: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<TemplateCall<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_call_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
}

#[derive(Serialize)]
struct TemplateCall<'a> {
    id: &'a str,
    #[serde(rename = "type")]
    kind: &'static str,
    function: TemplateFunction<'a>,
}

#[derive(Serialize)]
struct TemplateFunction<'a> {
    name: &'a str,
    arguments: Value,
}

#[derive(Serialize)]
struct TemplateTool<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    function: TemplateToolFunction<'a>,
}

#[derive(Serialize)]
struct TemplateToolFunction<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<&'a str>,
    parameters: &'a Value,
}

/// The messages as a template reads them.
pub(crate) fn messages_in_template(messages: &[Message], arguments: Arguments) -> Value {
    let messages: Vec<TemplateMessage<'_>> = messages.iter().map(|message| message.in_template(arguments)).collect();
    value(&messages)
}

/// The tools as a template reads them; `None` if there are none.
pub(crate) fn tools_in_template(tools: &[ToolDefinition]) -> Option<Value> {
    let tools: Vec<TemplateTool<'_>> = tools
        .iter()
        .map(|tool| {
            let description = tool.description.as_deref();
            let function = TemplateToolFunction { name: &tool.name, description, parameters: &tool.parameters };
            TemplateTool { kind: "function", function }
        })
        .collect();
    (!tools.is_empty()).then(|| value(&tools))
}

/// A value as JSON.
pub(super) fn value(serialisable: &impl Serialize) -> Value {
    serde_json::to_value(serialisable).expect("texts and values can be written as JSON")
}
