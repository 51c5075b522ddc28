//! Takes an answer apart while it comes.

use super::format::{CallForm, OutputFormat};
use super::harmony::HarmonyParser;
use super::tagged::TaggedParser;
use super::{Piece, Tool};

/// Takes one answer apart, however it is cut into pieces. Work and memory are linear in the length of the answer.
#[derive(Clone, Debug)]
pub struct OutputParser(Parser);

#[derive(Clone, Debug)]
enum Parser {
    Tagged(TaggedParser),
    Harmony(HarmonyParser),
}

impl OutputParser {
    /// A parser of an answer to a request that has these tools. Without tools, for example because the request forbids calls, nothing is a
    /// call. `prompt_tail` is the end of the rendered prompt, from the beginning of the last message at the latest; it says whether the
    /// prompt has begun the reasoning, or in harmony the answer.
    #[must_use]
    pub fn new(format: &OutputFormat, tools: &[Tool], prompt_tail: &str) -> Self {
        Self(match format.call_form() {
            Some(CallForm::Harmony) => Parser::Harmony(HarmonyParser::new(tools, prompt_tail)),
            _ => Parser::Tagged(TaggedParser::new(format, tools, prompt_tail)),
        })
    }

    /// Takes more of the answer and returns what is certain by now.
    pub fn push(&mut self, text: &str) -> Vec<Piece> {
        match &mut self.0 {
            Parser::Tagged(parser) => parser.push(text),
            Parser::Harmony(parser) => parser.push(text),
        }
    }

    /// Ends the answer and returns what was held back.
    pub fn finish(&mut self) -> Vec<Piece> {
        match &mut self.0 {
            Parser::Tagged(parser) => parser.finish(),
            Parser::Harmony(parser) => parser.finish(),
        }
    }

    /// Whether the answer is in reasoning, so that stop strings do not apply.
    #[must_use]
    pub fn is_reasoning(&self) -> bool {
        match &self.0 {
            Parser::Tagged(parser) => parser.is_reasoning(),
            Parser::Harmony(parser) => parser.is_reasoning(),
        }
    }
}
