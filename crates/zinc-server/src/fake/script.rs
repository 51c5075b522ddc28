//! What a fake model is to say: the file that `zinc serve --fake` reads.

use serde::Deserialize;
use serde_json::Value;

use super::speech::Last;
use crate::output::{CallForm, OutputFormat, Thinking};

/// The template of the fake model: ChatML, with thoughts and calls of tools in the form of Qwen3.
pub(super) const TEMPLATE: &str = r#"{%- if tools %}{{- '<|im_start|>system\n# Tools\n\n<tools>' }}{%- for tool in tools %}{{- '\n' }}{{- tool | tojson }}{%- endfor %}
{{- '\n</tools>\n\nFor each call, return a JSON object within <tool_call></tool_call> tags:\n<tool_call>\n{"name": <name>, "arguments": <arguments>}\n</tool_call><|im_end|>\n' }}{%- endif %}
{%- for message in messages %}{{- '<|im_start|>' + message.role + '\n' }}
{%- if message.role == 'assistant' and message.reasoning_content %}{{- '<think>\n' + message.reasoning_content + '\n</think>\n\n' }}{%- endif %}
{%- if message.content %}{{- message.content }}{%- endif %}
{%- for call in message.tool_calls or [] %}{{- '\n<tool_call>\n{"name": "' + call.function.name + '", "arguments": ' }}
{%- if call.function.arguments is string %}{{- call.function.arguments }}{%- else %}{{- call.function.arguments | tojson }}{%- endif %}{{- '}\n</tool_call>' }}{%- endfor %}
{{- '<|im_end|>\n' }}{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\n' }}
{%- if enable_thinking is defined and enable_thinking is false %}{{- '<think>\n\n</think>\n\n' }}{%- endif %}{%- endif %}"#;

/// A script: what the model is, and what it says.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Script {
    /// The model's name.
    pub model: String,
    /// Tokens of context of a request.
    pub context: u32,
    /// Requests that run at the same time.
    pub lanes: u32,
    /// Requests that may wait.
    pub queue: usize,
    /// The chat template, instead of the one that the model has, or the name of a built-in one. The model writes what it shows: harmony with `gpt-oss`, calls
    /// in XML with `qwen3.5`.
    pub template: Option<String>,
    /// Whether it has tokens for filling in the gap of a text.
    pub infill: bool,
    /// Milliseconds for which it seems to load.
    pub load_ms: u64,
    /// What it says.
    pub answers: Vec<ScriptedAnswer>,
}

impl Default for Script {
    fn default() -> Self {
        Self {
            model: "fake".to_owned(),
            context: 65_536,
            lanes: 4,
            queue: 128,
            template: None,
            infill: false,
            load_ms: 0,
            answers: vec![ScriptedAnswer { text: "You said: {last}".to_owned(), ..ScriptedAnswer::default() }],
        }
    }
}

/// An answer of the script.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ScriptedAnswer {
    /// Only if the last message of the user contains this.
    pub when: Option<String>,
    /// Only if the last message is the result of a tool, or only if it is not.
    pub after_tool: Option<bool>,
    /// What the model thinks before.
    pub reasoning: Option<String>,
    /// What it says, as it writes it; `{last}` stands for the last message of the user.
    pub text: String,
    /// The tools that it calls behind that.
    pub tool_calls: Vec<ScriptedCall>,
    /// The most characters of a token; without it a token is a word with the space before it.
    pub piece_chars: Option<usize>,
    /// Milliseconds until the first token.
    pub first_token_ms: u64,
    /// Milliseconds between tokens.
    pub token_ms: u64,
    /// What goes wrong.
    pub fault: Option<Fault>,
}

/// A call of a tool.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScriptedCall {
    /// The tool.
    pub name: String,
    /// The arguments.
    pub arguments: Value,
}

impl ScriptedCall {
    fn as_json(&self) -> String {
        let Self { name, arguments } = self;
        format!("{{\"name\": {}, \"arguments\": {arguments}}}", Value::String(name.clone()))
    }

    fn as_xml(&self) -> String {
        let parameters = self.arguments.as_object().into_iter().flatten().map(|(key, value)| {
            let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            format!("<parameter={key}>\n{value}\n</parameter>\n")
        });
        format!("<function={}>\n{}</function>", self.name, parameters.collect::<String>())
    }
}

/// The form in which the model writes thoughts and calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Qwen3,
    /// Calls in XML, as Qwen3.5 writes them.
    Qwen3_5,
    /// The format of gpt-oss.
    Harmony,
}

impl Form {
    /// The form in which a model answers to a template.
    pub(super) fn of_template(source: &str) -> Self {
        match OutputFormat::of_template(source).call_form() {
            Some(CallForm::Harmony) => Self::Harmony,
            Some(CallForm::Xml) => Self::Qwen3_5,
            _ => Self::Qwen3,
        }
    }
}

/// What goes wrong with an answer, and behind how many tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fault {
    /// What it is.
    pub kind: FaultKind,
    /// Behind how many tokens.
    #[serde(default)]
    pub after: usize,
}

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FaultKind {
    /// The device is lost.
    DeviceLost,
    /// The logits are not finite.
    NonFinite,
    /// Nothing comes any more.
    Hang,
    /// The thread that makes the answer panics.
    Panic,
}

impl ScriptedAnswer {
    /// The answer as the model writes it, with as much of its thoughts as the prompt leaves to it.
    pub(super) fn written(&self, form: Form, thinking: Thinking) -> String {
        let reasoning = self.reasoning.as_deref().filter(|_| thinking != Thinking::No);
        if form == Form::Harmony {
            return self.in_harmony(reasoning);
        }
        let mut written = match (thinking, reasoning) {
            (Thinking::Begun, reasoning) => format!("{}\n</think>\n\n", reasoning.unwrap_or_default()),
            (_, Some(reasoning)) => format!("<think>\n{reasoning}\n</think>\n\n"),
            (_, None) => String::new(),
        };
        written.push_str(&self.text);
        for call in &self.tool_calls {
            let call = if form == Form::Qwen3 { call.as_json() } else { call.as_xml() };
            written.push_str(&format!("\n<tool_call>\n{call}\n</tool_call>"));
        }
        written
    }

    /// A text that begins with a mark is written as it is.
    fn in_harmony(&self, reasoning: Option<&str>) -> String {
        let thought = reasoning.map(|reasoning| format!("<|channel|>analysis<|message|>{reasoning}<|end|>"));
        let text = match &*self.text {
            "" => None,
            raw if raw.starts_with("<|") => Some(raw.to_owned()),
            text if self.tool_calls.is_empty() => Some(format!("<|channel|>final<|message|>{text}")),
            text => Some(format!("<|channel|>commentary<|message|>{text}<|end|>")),
        };
        let calls = self.tool_calls.iter().map(|ScriptedCall { name, arguments }| {
            format!("<|channel|>commentary to=functions.{name} <|constrain|>json<|message|>{arguments}<|call|>")
        });
        let messages: Vec<String> = thought.into_iter().chain(text).chain(calls).collect();
        messages.join("<|start|>assistant")
    }

    /// Whether it is said in turn, whatever was asked.
    pub(super) fn is_unconditional(&self) -> bool {
        self.when.is_none() && self.after_tool.is_none()
    }

    /// Whether it has a condition, and a prompt meets it.
    pub(super) fn is_meant_for(&self, last: &Last<'_>) -> bool {
        !self.is_unconditional()
            && self.when.as_ref().is_none_or(|when| last.user.contains(when.as_str()))
            && self.after_tool.is_none_or(|after| after == last.is_tool)
    }
}
