//! From the text of an answer to its parts: reasoning, content and tool calls.
//!
//! A model writes all of them as one text, in a form that its chat template shows it. [`OutputFormat`] reads from the template which form that
//! is, and [`OutputParser`] takes an answer apart while it comes. It works character by character, so that how the text is cut into pieces
//! changes nothing: streamed and unstreamed answers are the same.
//!
//! ```
//! use serde_json::json;
//! use zinc_server::output::{OutputFormat, OutputParser, Piece, Tool};
//!
//! let format = OutputFormat::of_template("<think></think> <tool_call>");
//! let tools = [Tool { name: "add".to_owned(), description: None, parameters: json!({"type": "object"}) }];
//! let mut parser = OutputParser::new(&format, &tools, "<|im_start|>assistant\n");
//! let mut pieces = parser.push("<think>\nEasy.\n</think>\n\n<tool_call>\n{\"name\": \"add\", \"arguments\": {\"a\": 1}}\n</tool_call>");
//! pieces.extend(parser.finish());
//! assert_eq!(pieces, [
//!     Piece::Reasoning("Easy.".to_owned()),
//!     Piece::ToolCallBegin { index: 0, name: "add".to_owned() },
//!     Piece::ToolCallArguments { index: 0, json: "{\"a\": 1}".to_owned() },
//!     Piece::ToolCallEnd { index: 0 },
//! ]);
//! ```
//!
//! # What counts as what
//!
//! - *Reasoning* is what stands between the template's tags. It begins where the prompt has opened it, or with an opening tag before all
//!   content; a tag later in the answer is content. White space at its ends is left out. Reasoning that is never closed stays reasoning, and
//!   what looks like a call in it is no call.
//! - *Calls* are looked for only if the request has tools. A call whose form is right is delivered under whatever name it has, so that the client
//!   can tell the model that there is no such tool. Two forms need the name of a tool of the request to be told from content: JSON without a
//!   tag before it, and `<function=NAME>` without `<tool_call>` before it.
//! - *Content* is everything else. Nothing is thrown away but tags, separators and white space next to them. Behind reasoning and calls, blank
//!   lines are left out.
//!
//! In harmony, the format of gpt-oss, each message of an answer says what it is: those in the channel `analysis` are reasoning, those to a tool calls, all
//! others content. Several messages of reasoning have a blank line between them, and between messages of content there is a [`Piece::ContentBreak`].
//!
//! # Calls that are malformed or cut off
//!
//! Arguments are delivered as they come, so a call can turn out to be malformed when a part of it is delivered already.
//!
//! - If the text becomes something else before the name and the beginning of the arguments are known, all of it is content, tags included.
//! - Otherwise what was delivered stays, the call gets no [`Piece::ToolCallEnd`], and the text from the first character that does not fit
//!   is content.
//! - If the answer ends inside of a call, the same holds: arguments as far as they came, and no end. The arguments that were delivered are the
//!   beginning of a JSON object.
//! - A call is complete with the bracket or tag that ends its arguments; a missing tag behind it, such as `</tool_call>`, does not matter.

mod deepseek;
mod expect;
mod forced;
mod format;
mod harmony;
mod held;
mod json;
mod object;
mod parser;
mod sink;
mod tagged;
mod text;
mod typing;
mod value;
mod xml;

use serde_json::Value;

pub use forced::{Calls, Forced, ForcedCallError, forced_call};
pub use format::{CallForm, OutputFormat, Thinking};
pub use parser::OutputParser;

/// A part of an answer. The texts of neighbours of one kind belong together, and none is empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    /// More of what the model thinks before it answers.
    Reasoning(String),
    /// More of the answer's text.
    Content(String),
    /// The content so far and the content to come are messages of their own.
    ContentBreak,
    /// A call begins. There is one call at a time.
    ToolCallBegin {
        /// The number of the call in the answer, from 0.
        index: usize,
        /// The whole name of the tool.
        name: String,
    },
    /// More of the arguments of the call that has begun last. All of them together are one JSON object.
    ToolCallArguments {
        /// The number of the call.
        index: usize,
        /// The next part of the object's text.
        json: String,
    },
    /// The call is complete. A call that is malformed or cut off has no end.
    ToolCallEnd {
        /// The number of the call.
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
    /// The JSON schema of its arguments, which are an object. `null` stands for any object.
    pub parameters: Value,
}
