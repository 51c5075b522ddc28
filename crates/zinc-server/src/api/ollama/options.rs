//! What ollama's requests say of how an answer is chosen.

use serde::Deserialize;
use serde_json::{Map, Value};
use utoipa::ToSchema;
use zinc_sched::grammar::GrammarSource;

use crate::api::SamplingFields;
use crate::api::sampling::{Limits, check_constraint};
use crate::body::{Fields, Ignored};
use crate::core::{Ask, Constraint, Prompt};
use crate::error::{ApiError, ApiResult};
use crate::state::Served;

/// Options that are known and change nothing here: what says how the model is loaded.
const ACCEPTED: [&str; 8] =
    ["low_vram", "main_gpu", "num_batch", "num_ctx", "num_gpu", "num_keep", "num_thread", "use_mmap"];

/// The form of the text: `json`, or a schema.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(untagged, expecting = "\"json\" or a JSON schema is expected")]
#[schema(as = OllamaFormatField)]
pub(super) enum FormatField {
    Word(String),
    Schema(Map<String, Value>),
}

/// Whether the model thinks first: yes or no, or how much.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(untagged, expecting = "true, false or an effort is expected")]
#[schema(as = OllamaThinkField)]
pub(super) enum ThinkField {
    Whether(bool),
    Effort(String),
}

/// What ollama's options ask of the core. They are an object with llama.cpp's names, but for the number of tokens.
///
/// # Errors
/// An option with a value that it cannot have, or more context than there is.
pub(super) fn ask(
    options: Option<Map<String, Value>>,
    format: Option<FormatField>,
    prompt: Prompt,
    (limits, served): (&Limits, &Served),
    ignored: &mut Ignored,
) -> ApiResult<Ask> {
    let mut options = options.unwrap_or_default();
    if let Some(most) = options.remove("num_predict") {
        options.insert("max_tokens".to_owned(), most);
    }
    let has = served.backend.facts().context_tokens;
    if let Some(context) = options.get("num_ctx").and_then(Value::as_u64).filter(|context| *context > u64::from(has)) {
        // Prompts that are longer than the context are refused, never cut, so that the client may well do with less.
        tracing::debug!(context, has, "a request wants more context than there is");
    }
    let body = Value::Object(options).to_string();
    let Fields { own, ignored: mut unknown, .. } = Fields::<SamplingFields>::parse(body.as_bytes())
        .map_err(|error| ApiError { param: error.param.map(|param| format!("options.{param}")), ..error })?;
    unknown.accept(&ACCEPTED);
    ignored.extend("options", unknown);
    let mut ask = own.ask(limits, served, prompt)?;
    if let Some(schema) = format.map_or(Ok(None), FormatField::schema)? {
        let field = "format";
        check_constraint(limits, field, schema.len())?;
        ask.constraint = Some(Constraint { field, source: GrammarSource::JsonSchema(schema) });
    }
    Ok(ask)
}

impl FormatField {
    fn schema(self) -> ApiResult<Option<String>> {
        match self {
            Self::Word(word) if word.is_empty() => Ok(None),
            Self::Word(word) if word == "json" => Ok(Some(r#"{"type":"object"}"#.to_owned())),
            Self::Word(word) => {
                Err(ApiError::invalid("format", format!("format {word:?} is neither json nor a schema")))
            }
            Self::Schema(schema) => Ok(Some(Value::Object(schema).to_string())),
        }
    }
}

impl ThinkField {
    /// Sets the variables of the chat template.
    pub(super) fn set(self, variables: &mut Map<String, Value>) {
        match self {
            Self::Whether(whether) => {
                variables.insert("enable_thinking".to_owned(), Value::Bool(whether));
            }
            Self::Effort(effort) => {
                variables.insert("enable_thinking".to_owned(), Value::Bool(effort != "none"));
                variables.insert("reasoning_effort".to_owned(), Value::String(effort));
            }
        }
    }
}
