//! Chat templates: the Jinja template in a file's metadata makes one prompt of a list of messages.
//!
//! Rendered on minijinja in the way of Hugging Face's Python: blocks are trimmed, `tojson` writes what `json.dumps`
//! writes, strings have Python's methods. [`ChatTemplate::encode`] also keeps apart what the template writes and what
//! the messages say, so that no user can forge a turn.

mod functions;
mod json;
mod literal;

use minijinja::Environment;
use minijinja::syntax::SyntaxConfig;
use minijinja::value::Value as Jinja;
use serde_json::{Map, Value};

use crate::error::{Error, Result};
use crate::gguf::{self, Metadata};
use crate::tokenizer::Tokenizer;
use literal::Marker;

const KEY_TEMPLATE: &str = "tokenizer.chat_template";
const NAME: &str = "chat";

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
    environment: Environment<'static>,
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
        let metadata = file.metadata();
        let mut template = Self::new(metadata.require_str(KEY_TEMPLATE)?)?;
        for (variable, key) in TOKENS {
            if let Some(piece) = piece(metadata, key)? {
                template.environment.add_global(variable, piece);
            }
        }
        Ok(template)
    }

    /// Compiles a template. It knows no token variables such as `bos_token`.
    ///
    /// # Errors
    /// [`Error::Template`] with the line.
    pub fn new(source: &str) -> Result<Self> {
        let mut environment = Environment::new();
        let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build();
        environment.set_syntax(syntax.map_err(|error| template_error(&error))?);
        functions::add_to(&mut environment);
        let source = functions::without_generation_tags(source);
        environment.add_template_owned(NAME, source).map_err(|error| template_error(&error))?;
        Ok(Self { environment })
    }

    /// The prompt as text.
    ///
    /// A message whose `content` is null is given as it is; where the template cannot take that, as an empty string.
    ///
    /// # Errors
    /// [`Error::Template`] with the line, if the template fails or refuses the messages.
    pub fn render(&self, input: &ChatInput) -> Result<String> {
        let result = self.render_once(input, &input.messages);
        match (result, without_null_content(&input.messages)) {
            (Err(_), Some(messages)) => self.render_once(input, &messages),
            (result, _) => result,
        }
    }

    fn render_once(&self, input: &ChatInput, messages: &Value) -> Result<String> {
        let mut variables: Vec<(&str, Jinja)> = Vec::with_capacity(input.kwargs.len() + 4);
        variables.extend(input.kwargs.iter().map(|(name, value)| (name.as_str(), to_jinja(value))));
        variables.push(("documents", Jinja::from(())));
        variables.push(("messages", to_jinja(messages)));
        variables.push(("tools", input.tools.as_ref().map_or(Jinja::from(()), to_jinja)));
        variables.push(("add_generation_prompt", input.add_generation_prompt.into()));
        let template = self.environment.get_template(NAME).expect("it was added when this was made");
        template.render(Jinja::from_pairs(variables)).map_err(|error| template_error(&error))
    }

    /// The prompt as tokens, with BOS if the model wants one and the template has not written it.
    ///
    /// Control tokens come from the template alone: what messages and tools say is text, whatever it looks like.
    ///
    /// # Errors
    /// As [`Self::render`] and [`Tokenizer::encode`].
    pub fn encode(&self, input: &ChatInput, tokenizer: &Tokenizer) -> Result<Vec<u32>> {
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

fn to_jinja(value: &Value) -> Jinja {
    match value {
        Value::Null => Jinja::from(()),
        Value::Bool(value) => Jinja::from(*value),
        Value::Number(number) => {
            let integer = number.as_i64().map(Jinja::from).or_else(|| number.as_u64().map(Jinja::from));
            integer.unwrap_or_else(|| Jinja::from(number.as_f64().unwrap_or(f64::NAN)))
        }
        Value::String(text) => Jinja::from(text.as_str()),
        Value::Array(values) => Jinja::from(values.iter().map(to_jinja).collect::<Vec<_>>()),
        Value::Object(map) => Jinja::from_pairs(map.iter().map(|(key, value)| (key.as_str(), to_jinja(value)))),
    }
}

fn template_error(error: &minijinja::Error) -> Error {
    let message = match error.detail() {
        Some(detail) => format!("{}: {detail}", error.kind()),
        None => error.kind().to_string(),
    };
    Error::Template { line: error.line(), message }
}
