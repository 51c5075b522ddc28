//! Chat templates: the Jinja template in a file's metadata makes one prompt of a list of messages.
//!
//! Rendered as Hugging Face's Python libraries render it: by the rules of Jinja2 3.1 and with Python's values.
//! [`ChatTemplate::encode`] also keeps apart what the template writes and what the messages say, so that no user can
//! forge a turn.

mod builtin;
mod jinja;
mod literal;

use std::collections::HashMap;
use std::time::SystemTime;

use serde_json::{Map, Value};

use crate::error::{Error, Result};
use crate::gguf::{self, Metadata};
use crate::tokenizer::Tokenizer;
use literal::Marker;

pub use builtin::{builtin, builtin_names};

const KEY_TEMPLATE: &str = "tokenizer.chat_template";

/// The variables for tokens that templates know, and the metadata keys of the tokens' ids.
const TOKENS: [(&str, &str); 4] = [
    ("bos_token", "tokenizer.ggml.bos_token_id"),
    ("eos_token", "tokenizer.ggml.eos_token_id"),
    ("pad_token", "tokenizer.ggml.padding_token_id"),
    ("unk_token", "tokenizer.ggml.unknown_token_id"),
];

/// A compiled chat template.
#[derive(Debug)]
pub struct ChatTemplate {
    template: jinja::Template,
    /// The texts of tokens that templates can name, such as `bos_token`.
    tokens: Vec<(&'static str, String)>,
    /// What templates are told of the time; `None` is the time at which one is rendered.
    now: Option<SystemTime>,
}

/// What a chat template is given.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ChatInput {
    /// The conversation: an array of objects with `role`, `content` and whatever else the template reads, as in
    /// OpenAI's API.
    pub messages: Value,
    /// Descriptions of tools, as in OpenAI's API.
    pub tools: Option<Value>,
    /// Further variables, such as `enable_thinking`.
    pub kwargs: Map<String, Value>,
    /// Whether the prompt ends in the start of the model's answer.
    pub add_generation_prompt: bool,
}

impl ChatTemplate {
    /// The template of a file.
    ///
    /// # Errors
    /// [`Error::MissingKey`] if the file has none, [`Error::Template`] if it does not compile.
    pub fn from_gguf(file: &gguf::File) -> Result<Self> {
        Self::for_file(file.metadata().require_str(KEY_TEMPLATE)?, file)
    }

    /// Compiles another template for a file, whose token variables such as `bos_token` it knows.
    ///
    /// # Errors
    /// [`Error::Template`] with the line, if it does not compile.
    pub fn for_file(source: &str, file: &gguf::File) -> Result<Self> {
        let metadata = file.metadata();
        let mut template = Self::new(source)?;
        for (variable, key) in TOKENS {
            if let Some(piece) = piece(metadata, key)? {
                template.tokens.push((variable, piece));
            }
        }
        Ok(template)
    }

    /// Compiles a template. It knows no token variables such as `bos_token`.
    ///
    /// # Errors
    /// [`Error::Template`] with the line.
    pub fn new(source: &str) -> Result<Self> {
        let template = jinja::Template::new(source).map_err(template_error)?;
        Ok(Self { template, tokens: Vec::new(), now: None })
    }

    /// Returns this template with a time of its own, in UTC, in the place of the present: what `strftime_now` writes.
    #[must_use]
    pub fn with_now(self, now: SystemTime) -> Self {
        Self { now: Some(now), ..self }
    }

    /// The prompt as text.
    ///
    /// A message whose `content` is null is given as it is; where the template cannot take that, as an empty string.
    ///
    /// # Errors
    /// [`Error::Template`] with the line, if the template fails or refuses the messages, and without one if the
    /// messages are not an array of objects.
    pub fn render(&self, input: &ChatInput) -> Result<String> {
        check(input)?;
        let result = self.render_once(input, &input.messages);
        match (result, without_null_content(&input.messages)) {
            (Err(_), Some(messages)) => self.render_once(input, &messages),
            (result, _) => result,
        }
    }

    fn render_once(&self, input: &ChatInput, messages: &Value) -> Result<String> {
        let to_jinja = |value: &Value| jinja::from_json(value).map_err(template_error);
        let mut variables = HashMap::new();
        for (name, piece) in &self.tokens {
            variables.insert((*name).to_owned(), jinja::Value::str(piece));
        }
        for (name, value) in &input.kwargs {
            variables.insert(name.clone(), to_jinja(value)?);
        }
        let tools = input.tools.as_ref().map_or(Ok(jinja::Value::None), to_jinja)?;
        variables.insert("documents".to_owned(), jinja::Value::None);
        variables.insert("messages".to_owned(), to_jinja(messages)?);
        variables.insert("tools".to_owned(), tools);
        variables.insert("add_generation_prompt".to_owned(), jinja::Value::Bool(input.add_generation_prompt));
        self.template.render(&variables, self.now).map_err(template_error)
    }

    /// The prompt as tokens, with BOS if the model wants one and the template has not written it.
    ///
    /// Control tokens come from the template alone: what messages and tools say is text, whatever it looks like.
    ///
    /// # Errors
    /// The errors of [`Self::render`] and [`Tokenizer::encode`].
    pub fn encode(&self, input: &ChatInput, tokenizer: &Tokenizer) -> Result<Vec<u32>> {
        check(input)?;
        let is_control = |text: &str| tokenizer.control_spans(text);
        let said: Vec<&Value> = [Some(&input.messages), input.tools.as_ref()].into_iter().flatten().collect();
        let Some(marker) = Marker::new(&said) else {
            // All of a hundred thousand private characters are in use; then even the template's tokens are text.
            return tokenizer.encode_prompt(&self.render(input)?, crate::Special::Plain);
        };
        let marked = ChatInput {
            messages: marker.mark(&input.messages, is_control),
            tools: input.tools.as_ref().map(|tools| marker.mark(tools, is_control)),
            ..input.clone()
        };
        let (text, literal) = marker.unmark(&self.render(&marked)?);
        tokenizer.encode_marked(&text, &literal)
    }
}

/// The text of the token whose id is at a key.
fn piece(metadata: &Metadata, key: &str) -> Result<Option<String>> {
    let Some(id) = metadata.get_u32(key)? else {
        return Ok(None);
    };
    let tokens = metadata.get_strings("tokenizer.ggml.tokens")?.unwrap_or_default();
    Ok(tokens.get(id as usize).cloned())
}

/// The messages with empty strings for null contents; `None` if there are no null contents.
fn without_null_content(messages: &Value) -> Option<Value> {
    let has_null = |message: &Value| message.get("content").is_some_and(Value::is_null);
    if !messages.as_array()?.iter().any(has_null) {
        return None;
    }
    let mut messages = messages.clone();
    for message in messages.as_array_mut()?.iter_mut().filter(|message| has_null(message)) {
        message["content"] = Value::String(String::new());
    }
    Some(messages)
}

/// Fails unless the messages are an array of objects, and all of the input is nested no deeper than templates can handle.
fn check(input: &ChatInput) -> Result<()> {
    check_messages(&input.messages)?;
    let given = [Some(&input.messages), input.tools.as_ref()].into_iter().flatten().chain(input.kwargs.values());
    for value in given {
        if is_deeper(value, jinja::MAX_DEPTH) {
            let message = format!("the messages, the tools or a variable are nested deeper than {}", jinja::MAX_DEPTH);
            return Err(Error::Template { line: None, message });
        }
    }
    Ok(())
}

fn is_deeper(value: &Value, depth: u32) -> bool {
    match (value, depth) {
        (Value::Array(_) | Value::Object(_), 0) => true,
        (Value::Array(values), _) => values.iter().any(|value| is_deeper(value, depth - 1)),
        (Value::Object(map), _) => map.values().any(|value| is_deeper(value, depth - 1)),
        _ => false,
    }
}

fn check_messages(messages: &Value) -> Result<()> {
    let kind = |value: &Value| match value {
        Value::Null => "null",
        Value::Bool(_) => "a truth value",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    };
    let refuse = |message: String| Err(Error::Template { line: None, message });
    let Value::Array(items) = messages else {
        return refuse(format!("the messages are {}, and have to be an array of objects", kind(messages)));
    };
    match items.iter().position(|message| !message.is_object()) {
        Some(index) => refuse(format!(
            "message {} of {} is {}, and has to be an object with 'role' and 'content'",
            index + 1,
            items.len(),
            kind(&items[index])
        )),
        None => Ok(()),
    }
}

fn template_error(failure: jinja::Failure) -> Error {
    Error::Template { line: failure.line.map(|line| line as usize), message: failure.message }
}
