//! What of an answer is shown, and what of it the conversation keeps.

use zinc_server::output::{CallForm, OutputFormat, OutputParser, Piece};

/// Takes the text of an answer as it comes. In harmony, the format of gpt-oss, messages are told apart: thoughts are shown between tags as other models
/// write them, and are not kept. The text of all other models is shown and kept as it is.
pub(crate) struct Spoken {
    parser: Option<OutputParser>,
    is_thinking: bool,
    kept: String,
}

impl Spoken {
    pub(crate) fn new(format: &OutputFormat) -> Self {
        let is_harmony = format.call_form() == Some(CallForm::Harmony);
        let parser = is_harmony.then(|| OutputParser::new(format, &[], ""));
        Self { parser, is_thinking: false, kept: String::new() }
    }

    /// Takes more of the answer and returns what is to be shown of it.
    pub(crate) fn push(&mut self, text: &str) -> String {
        match &mut self.parser {
            Some(parser) => {
                let pieces = parser.push(text);
                self.shown(pieces)
            }
            None => {
                self.kept.push_str(text);
                text.to_owned()
            }
        }
    }

    /// Ends the answer and returns what is still to be shown of it.
    pub(crate) fn finish(&mut self) -> String {
        let pieces = self.parser.as_mut().map_or(Vec::new(), OutputParser::finish);
        self.shown(pieces)
    }

    /// What the conversation keeps of the answer.
    pub(crate) fn kept(self) -> String {
        self.kept
    }

    fn shown(&mut self, pieces: Vec<Piece>) -> String {
        let mut shown = String::new();
        for piece in pieces {
            let (is_thinking, text) = match piece {
                Piece::Reasoning(text) => (true, text),
                Piece::Content(text) => (false, text),
                Piece::ContentBreak => (false, "\n\n".to_owned()),
                // Without tools there are no calls.
                Piece::ToolCallBegin { .. } | Piece::ToolCallArguments { .. } | Piece::ToolCallEnd { .. } => continue,
            };
            match (self.is_thinking, is_thinking) {
                (false, true) => shown.push_str("<think>\n"),
                (true, false) => shown.push_str("\n</think>\n\n"),
                _ => {}
            }
            self.is_thinking = is_thinking;
            shown.push_str(&text);
            if !is_thinking {
                self.kept.push_str(&text);
            }
        }
        shown
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spoken(format: &OutputFormat, tokens: &[&str]) -> (String, String) {
        let mut spoken = Spoken::new(format);
        let mut shown: String = tokens.iter().map(|token| spoken.push(token)).collect();
        shown.push_str(&spoken.finish());
        (shown, spoken.kept())
    }

    #[test]
    fn channels_are_not_shown_and_thoughts_not_kept() {
        let format = OutputFormat::of_template(&zinc_model::template::builtin("gpt-oss").unwrap());
        let thought = ["<|channel|>", "analysis", "<|message|>", "Hm", ".", "<|end|>", "<|start|>", "assistant"];
        let said = ["<|channel|>", "final", "<|message|>", "Hello", "."];
        let (shown, kept) = spoken(&format, &[&thought[..], &said].concat());
        assert_eq!((shown.as_str(), kept.as_str()), ("<think>\nHm.\n</think>\n\nHello.", "Hello."));
        let (shown, kept) = spoken(&format, &thought[..5]);
        assert_eq!((shown.as_str(), kept.as_str()), ("<think>\nHm.", ""));
    }

    #[test]
    fn other_formats_are_shown_and_kept_as_they_are() {
        let text = "<think>\nHm.\n</think>\n\nHello.";
        let (shown, kept) = spoken(&OutputFormat::of_template("<think></think>"), &[text]);
        assert_eq!((shown.as_str(), kept.as_str()), (text, text));
    }
}
