//! What an API asks of the core.

use std::time::Duration;

use serde_json::{Map, Value};
use zinc_engine::AnswerOptions;
use zinc_model::Special;
use zinc_sched::grammar::GrammarSource;

use super::message::{Message, Role, ToolDefinition};

/// A request in no API's shape.
#[derive(Clone, Debug)]
pub struct Ask {
    /// What is continued.
    pub prompt: Prompt,
    /// Further prompts, which are continued beside it. Their answers are numbered behind its own.
    pub further: Vec<Prompt>,
    /// How the tokens are chosen, how many they are at most, and the rest of what zinc-engine wants to know. Stop strings and constraint are below.
    pub options: AnswerOptions,
    /// What the content has to match; thoughts before it are free.
    pub constraint: Option<Constraint>,
    /// Whether the log-probabilities of the prompts' tokens are wanted, which are in [`Event::Scored`](super::Event::Scored).
    pub scores_prompts: bool,
    /// Texts before which the answer ends. They are looked for in the content, not in thoughts or in calls of tools.
    pub stops: Vec<String>,
    /// How many answers to each prompt, at least 1. Each has the seed behind that of the one before.
    pub choices: u32,
    /// The longest time for which tokens are generated; `None` is any.
    pub most_time: Option<Duration>,
}

/// What a content has to match.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Constraint {
    /// The field of the request that says so.
    pub field: &'static str,
    /// A schema or a grammar.
    pub source: GrammarSource,
}

/// What is continued.
#[derive(Clone, Debug)]
pub enum Prompt {
    /// A conversation, which the model's chat template makes a prompt of.
    Conversation(Conversation),
    /// Texts and tokens, one behind the other. A text at the beginning gets the token before it that the model wants there.
    Parts(Vec<PromptPart>),
}

/// A part of a prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PromptPart {
    /// A text, in which control tokens count as such or do not.
    Text(String, Special),
    /// Tokens.
    Tokens(Vec<u32>),
}

/// A conversation that the model is to answer in.
#[derive(Clone, Debug)]
pub struct Conversation {
    /// The messages.
    pub messages: Vec<Message>,
    /// Whether the answer continues the last message, if that is the model's and calls no tool.
    pub continues_last: bool,
    /// The tools that the model may call.
    pub tools: Vec<ToolDefinition>,
    /// Which of them it may or must call.
    pub tool_choice: ToolChoice,
    /// Whether it may call several at once.
    pub parallel_tool_calls: bool,
    /// The most tokens that it thinks; `None` is any number.
    pub most_thinking_tokens: Option<u32>,
    /// Further variables of the template, such as `enable_thinking`.
    pub variables: Map<String, Value>,
    /// Whether thoughts and calls are told apart from the content. Without it all is content, as the model has written it.
    pub parsed: bool,
}

/// Which tools the model may or must call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ToolChoice {
    /// Any or none.
    #[default]
    Auto,
    /// None.
    None,
    /// One of them at least.
    Required,
    /// The one of this name.
    Named(String),
}

impl Conversation {
    /// The messages to be answered, and the one behind them that the answer continues, if there is any.
    pub(crate) fn answered_and_begun(&self) -> (&[Message], Option<&Message>) {
        match self.messages.as_slice() {
            [before @ .., last]
                if self.continues_last && last.role == Role::Assistant && last.tool_calls.is_empty() =>
            {
                (before, Some(last))
            }
            messages => (messages, None),
        }
    }

    /// A conversation without tools.
    #[must_use]
    pub fn new(messages: Vec<Message>) -> Self {
        Self {
            messages,
            continues_last: true,
            tools: Vec::new(),
            tool_choice: ToolChoice::Auto,
            parallel_tool_calls: true,
            most_thinking_tokens: None,
            variables: Map::new(),
            parsed: true,
        }
    }
}

impl Ask {
    /// One answer that continues `prompt` under these options.
    #[must_use]
    pub fn new(prompt: Prompt, options: AnswerOptions) -> Self {
        let (further, stops) = (Vec::new(), Vec::new());
        let (constraint, most_time) = (None, None);
        Self { prompt, further, options, constraint, scores_prompts: false, stops, choices: 1, most_time }
    }
}
