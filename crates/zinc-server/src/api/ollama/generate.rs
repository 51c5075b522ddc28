//! `POST /api/generate`.

use std::sync::Arc;

use axum::Json;
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use super::options::{FormatField, ThinkField, ask};
use super::reply::Done;
use crate::api::infill::between;
use crate::api::prompt::text_prompt;
use crate::auth::Caller;
use crate::body::Fields;
use crate::core::{self, Conversation, Event, Message, Prompt, Role, Update};
use crate::error::{ApiError, ApiResult};
use crate::ids;
use crate::state::Served;
use crate::stream::{Lines, StreamForm, json_line, response};

/// Fields that are known and change nothing here: the model stays loaded.
const ACCEPTED: [&str; 2] = ["keep_alive", "model"];

/// The fields of a prompt to be answered.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = OllamaGenerateFields)]
pub struct GenerateFields {
    #[serde(default)]
    prompt: String,
    #[serde(default)]
    suffix: Option<String>,
    #[serde(default)]
    system: Option<String>,
    #[serde(default)]
    images: Option<Vec<String>>,
    #[serde(default)]
    raw: Option<bool>,
    #[serde(default)]
    format: Option<FormatField>,
    #[serde(default)]
    options: Option<Map<String, Value>>,
    #[serde(default)]
    stream: Option<bool>,
    #[serde(default)]
    think: Option<ThinkField>,
}

/// A line of an answer, or all of it.
#[derive(Debug, Serialize)]
struct Line<'a> {
    model: &'a str,
    created_at: String,
    response: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    thinking: &'a str,
    done: bool,
    #[serde(flatten)]
    end: Option<Done>,
}

impl<'a> Line<'a> {
    fn new(model: &'a str) -> Self {
        Self { model, created_at: ids::now_rfc3339(), response: "", thinking: "", done: false, end: None }
    }
}

/// Answers a prompt.
///
/// # Errors
/// What is wrong with the request, or why it cannot be answered.
pub async fn generate(caller: Caller, fields: Fields<GenerateFields>) -> ApiResult<Response> {
    let Fields { own, mut ignored, .. } = fields;
    ignored.accept(&ACCEPTED);
    let served = caller.state.served_anew()?;
    let limits = &caller.state.options;
    let streaming = own.stream != Some(false);
    let model = served.alias.clone();
    if own.images.as_ref().is_some_and(|images| !images.is_empty()) {
        return Err(ApiError::invalid("images", "images are not supported; this model reads text alone"));
    }
    if own.prompt.is_empty() {
        // That is how clients have a model loaded.
        return Ok(Json(Line { done: true, ..Line::new(&model) }).into_response());
    }
    let prompt = match own.suffix.filter(|suffix| !suffix.is_empty()) {
        Some(suffix) => between(&served, text_prompt(own.prompt), &suffix)?,
        None if own.raw == Some(true) => text_prompt(own.prompt),
        None => conversation(own.system, own.prompt, own.think),
    };
    let ask = ask(own.options, own.format, prompt, (limits, &served), &mut ignored)?;
    let answering = core::start(&caller, ask).await?;
    let response = if streaming {
        response(StreamForm::JsonLines, answering, GenerateLines { served }, None)
    } else {
        let answer = answering.collect().await?.pop().unwrap_or_default();
        let end = answer.end.as_ref().map(|end| Done::new(end, &answer.timings));
        let (response, thinking) = (answer.content.as_str(), answer.reasoning.as_str());
        Json(Line { response, thinking, done: true, end, ..Line::new(&model) }).into_response()
    };
    Ok(ignored.named_in(response))
}

fn conversation(system: Option<String>, prompt: String, think: Option<ThinkField>) -> Prompt {
    let system = system.filter(|text| !text.is_empty()).map(|text| Message::new(Role::System, text));
    let messages = system.into_iter().chain([Message::new(Role::User, prompt)]).collect();
    let mut conversation = Conversation::new(messages);
    if let Some(think) = think {
        think.set(&mut conversation.variables);
    }
    Prompt::Conversation(conversation)
}

/// Writes the lines of an answer.
struct GenerateLines {
    served: Arc<Served>,
}

impl Lines for GenerateLines {
    fn begin(&mut self, _out: &mut Vec<u8>) {}

    fn update(&mut self, update: Update, out: &mut Vec<u8>) {
        let line = Line::new(&self.served.alias);
        match update.event {
            Event::Reasoning(text) => json_line(out, &Line { thinking: &text, ..line }),
            Event::Content { text, .. } => json_line(out, &Line { response: &text, ..line }),
            Event::Ended(end) => {
                json_line(out, &Line { done: true, end: Some(Done::new(&end, &update.timings)), ..line });
            }
            Event::Failed(error) => json_line(out, &error.ollama_body()),
            // There are no tools to call.
            Event::Progress(_)
            | Event::Scored(_)
            | Event::ToolCallBegin { .. }
            | Event::ToolCallArguments { .. }
            | Event::ToolCallEnd { .. } => {}
        }
    }

    fn finish(&mut self, _out: &mut Vec<u8>) {}
}
