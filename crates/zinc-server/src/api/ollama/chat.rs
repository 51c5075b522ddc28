//! `POST /api/chat`.

use std::sync::Arc;

use axum::Json;
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use super::options::{FormatField, ThinkField, ask};
use super::reply::Done;
use crate::api::openai::chat::{ToolField, tools};
use crate::auth::Caller;
use crate::body::Fields;
use crate::core::{self, Collected, Conversation, Event, Message, Prompt, Role, Timings, ToolCall, Update};
use crate::error::{ApiError, ApiResult};
use crate::ids;
use crate::state::Served;
use crate::stream::{Lines, StreamForm, json_line, response};

/// Fields that are known and change nothing here: the model stays loaded.
const ACCEPTED: [&str; 5] = [
    "keep_alive",
    "model",
    "messages.tool_calls.function.index",
    "messages.tool_calls.index",
    "messages.tool_calls.type",
];

/// The fields of a conversation to be answered.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = OllamaChatFields)]
pub struct ChatFields {
    #[serde(default)]
    messages: Vec<MessageField>,
    #[serde(default)]
    tools: Option<Vec<ToolField>>,
    #[serde(default)]
    format: Option<FormatField>,
    #[serde(default)]
    options: Option<Map<String, Value>>,
    #[serde(default)]
    stream: Option<bool>,
    #[serde(default)]
    think: Option<ThinkField>,
}

#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = OllamaMessageField)]
struct MessageField {
    role: String,
    #[serde(default)]
    content: Option<String>,
    #[serde(default)]
    thinking: Option<String>,
    #[serde(default)]
    images: Option<Vec<String>>,
    #[serde(default)]
    tool_calls: Option<Vec<CallField>>,
    #[serde(default)]
    tool_name: Option<String>,
    #[serde(default)]
    tool_call_id: Option<String>,
}

#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = OllamaCallField)]
struct CallField {
    #[serde(default)]
    id: Option<String>,
    function: FunctionField,
}

#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = OllamaFunctionField)]
struct FunctionField {
    name: String,
    #[serde(default)]
    arguments: Map<String, Value>,
}

/// Answers a conversation.
///
/// # Errors
/// What is wrong with the request, or why it cannot be answered.
pub async fn chat(caller: Caller, fields: Fields<ChatFields>) -> ApiResult<Response> {
    let Fields { own, mut ignored, .. } = fields;
    ignored.accept(&ACCEPTED);
    let served = caller.state.served_anew()?;
    let limits = &caller.state.options;
    let streaming = own.stream != Some(false);
    let model = served.alias.clone();
    if own.messages.is_empty() {
        // That is how clients have a model loaded.
        let loaded = Line { done: Some(true), ..Line::new(&model, MessageLine::default()) };
        return Ok(Json(loaded).into_response());
    }
    if own.messages.len() > limits.most_messages {
        let (messages, most) = (own.messages.len(), limits.most_messages);
        return Err(ApiError::invalid("messages", format!("{messages} messages; at most {most} are taken")));
    }
    let messages = own.messages.into_iter().enumerate().map(|(index, message)| message.message(index));
    let mut conversation = Conversation::new(messages.collect::<ApiResult<_>>()?);
    conversation.tools = tools(own.tools.unwrap_or_default(), limits, &mut ignored)?;
    if let Some(think) = own.think {
        think.set(&mut conversation.variables);
    }
    let prompt = Prompt::Conversation(conversation);
    let ask = ask(own.options, own.format, prompt, (limits, &served), &mut ignored)?;
    let answering = core::start(&caller, ask).await?;
    let response = if streaming {
        // A line that means nothing would be none of JSON.
        response(StreamForm::JsonLines, answering, ChatLines { served, calls: Vec::new() }, None)
    } else {
        let answer = answering.collect().await?.pop().unwrap_or_default();
        Json(whole(&model, &answer)).into_response()
    };
    Ok(ignored.named_in(response))
}

impl MessageField {
    fn message(self, index: usize) -> ApiResult<Message> {
        let role = match self.role.as_str() {
            "system" | "developer" => Role::System,
            "user" => Role::User,
            "assistant" => Role::Assistant,
            "tool" => Role::Tool,
            other => {
                let message = format!("role {other:?} is none of system, user, assistant, tool");
                return Err(ApiError::invalid(format!("messages[{index}].role"), message));
            }
        };
        if self.images.is_some_and(|images| !images.is_empty()) {
            let message = "images are not supported; this model reads text alone";
            return Err(ApiError::invalid(format!("messages[{index}].images"), message));
        }
        let call = |call: CallField| ToolCall {
            id: call.id.unwrap_or_default(),
            name: call.function.name,
            arguments: Value::Object(call.function.arguments).to_string(),
        };
        Ok(Message {
            role,
            content: Some(self.content.unwrap_or_default()),
            reasoning: self.thinking.filter(|text| !text.is_empty()),
            tool_calls: self.tool_calls.unwrap_or_default().into_iter().map(call).collect(),
            tool_call_id: self.tool_call_id,
            name: self.tool_name,
        })
    }
}

/// A line of an answer, or all of it.
#[derive(Debug, Serialize)]
struct Line<'a> {
    model: &'a str,
    created_at: String,
    message: MessageLine<'a>,
    done: Option<bool>,
    #[serde(flatten)]
    end: Option<Done>,
}

#[derive(Debug, Serialize)]
struct MessageLine<'a> {
    role: &'static str,
    content: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    thinking: &'a str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<CallLine>,
}

impl Default for MessageLine<'_> {
    fn default() -> Self {
        Self { role: "assistant", content: "", thinking: "", tool_calls: Vec::new() }
    }
}

#[derive(Debug, Serialize)]
struct CallLine {
    id: String,
    function: FunctionLine,
}

#[derive(Debug, Serialize)]
struct FunctionLine {
    index: usize,
    name: String,
    arguments: Value,
}

impl CallLine {
    /// A call; arguments that are cut are an object without members, since there is no other way to say it.
    fn new(index: usize, id: String, name: String, arguments: &str) -> Self {
        let parsed = serde_json::from_str(arguments).ok().filter(Value::is_object);
        let arguments = parsed.unwrap_or_else(|| Value::Object(Map::new()));
        Self { id, function: FunctionLine { index, name, arguments } }
    }
}

impl<'a> Line<'a> {
    fn new(model: &'a str, message: MessageLine<'a>) -> Self {
        Self { model, created_at: ids::now_rfc3339(), message, done: Some(false), end: None }
    }
}

fn whole<'a>(model: &'a str, answer: &'a Collected) -> Line<'a> {
    let calls = answer.calls.iter().enumerate();
    let tool_calls =
        calls.map(|(index, call)| CallLine::new(index, call.id.clone(), call.name.clone(), &call.arguments));
    let message = MessageLine {
        content: &answer.content,
        thinking: &answer.reasoning,
        tool_calls: tool_calls.collect(),
        ..MessageLine::default()
    };
    let end = answer.end.as_ref().map(|end| Done::new(end, &answer.timings));
    Line { done: Some(true), end, ..Line::new(model, message) }
}

/// Writes the lines of an answer. A call is a line of its own, once it is complete.
struct ChatLines {
    served: Arc<Served>,
    /// The calls that are not complete.
    calls: Vec<(usize, String, String, String)>,
}

impl ChatLines {
    fn line(&self, out: &mut Vec<u8>, message: MessageLine<'_>) {
        json_line(out, &Line::new(&self.served.alias, message));
    }

    fn end(&self, out: &mut Vec<u8>, end: &core::End, timings: &Timings) {
        let last = Line {
            done: Some(true),
            end: Some(Done::new(end, timings)),
            ..Line::new(&self.served.alias, MessageLine::default())
        };
        json_line(out, &last);
    }
}

impl Lines for ChatLines {
    fn begin(&mut self, _out: &mut Vec<u8>) {}

    fn update(&mut self, update: Update, out: &mut Vec<u8>) {
        match update.event {
            Event::Progress(_) | Event::Scored(_) => {}
            Event::Reasoning(text) => self.line(out, MessageLine { thinking: &text, ..MessageLine::default() }),
            Event::Content { text, .. } => self.line(out, MessageLine { content: &text, ..MessageLine::default() }),
            Event::ToolCallBegin { index, id, name } => self.calls.push((index, id, name, String::new())),
            Event::ToolCallArguments { index, json } => {
                if let Some(call) = self.calls.iter_mut().find(|call| call.0 == index) {
                    call.3.push_str(&json);
                }
            }
            Event::ToolCallEnd { index } => {
                if let Some(place) = self.calls.iter().position(|call| call.0 == index) {
                    let (index, id, name, arguments) = self.calls.remove(place);
                    let tool_calls = vec![CallLine::new(index, id, name, &arguments)];
                    self.line(out, MessageLine { tool_calls, ..MessageLine::default() });
                }
            }
            Event::Ended(end) => self.end(out, &end, &update.timings),
            Event::Failed(error) => json_line(out, &error.ollama_body()),
        }
    }

    fn finish(&mut self, _out: &mut Vec<u8>) {}
}
