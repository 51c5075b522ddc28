//! From the text of an answer to its thoughts, its content and its calls of tools, as the text comes.

use serde_json::Value;

/// A piece of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    /// What the model thinks.
    Reasoning(String),
    /// What it says.
    Content(String),
    /// A call of a tool begins.
    ToolCallBegin {
        /// Which call, from 0.
        index: usize,
        /// The tool's name.
        name: String,
    },
    /// A fragment of the arguments.
    ToolCallArguments {
        /// Which call.
        index: usize,
        /// The fragment.
        json: String,
    },
    /// A call is complete.
    ToolCallEnd {
        /// Which call.
        index: usize,
    },
}

/// A tool that the model may call.
#[derive(Clone, Debug, PartialEq)]
pub struct Tool {
    /// Its name.
    pub name: String,
    /// What it does.
    pub description: Option<String>,
    /// The JSON schema of its arguments.
    pub parameters: Value,
}

/// The form in which a model writes thoughts and calls.
#[derive(Clone, Debug, Default)]
pub struct OutputFormat {}

impl OutputFormat {
    /// The form that goes with a chat template.
    #[must_use]
    pub fn of_template(_template: &str) -> Self {
        Self {}
    }

    /// What stands before and behind thoughts.
    #[must_use]
    pub fn reasoning_tags(&self) -> Option<(&str, &str)> {
        None
    }
}

/// Takes an answer apart as its text comes.
#[derive(Clone, Debug)]
pub struct OutputParser {}

impl OutputParser {
    /// A parser for the answer to a prompt that ends in `prompt_tail`.
    #[must_use]
    pub fn new(_format: &OutputFormat, _tools: &[Tool], _prompt_tail: &str) -> Self {
        Self {}
    }

    /// Takes a piece of text.
    pub fn push(&mut self, text: &str) -> Vec<Piece> {
        if text.is_empty() { Vec::new() } else { vec![Piece::Content(text.to_owned())] }
    }

    /// Ends the answer.
    pub fn finish(&mut self) -> Vec<Piece> {
        Vec::new()
    }
}
