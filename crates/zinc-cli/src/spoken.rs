//! What of an answer is shown, and what of it the conversation keeps.

use zinc_server::output::{CallForm, OutputFormat, OutputParser, Piece, Thinking};

/// What a conversation keeps of an answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Kept {
    /// What the model thought, where it is told apart and the template may have the model read it again.
    pub(crate) thought: Option<String>,
    pub(crate) text: String,
}

/// Takes the text of an answer as it comes. In harmony, the format of gpt-oss, messages are told apart: thoughts are shown between tags as other models
/// write them, and are not kept. Where the prompt has begun the thinking, as those of Qwen3.5 do, its tag is shown before the answer, and the thought is
/// kept by itself. All other text is shown and kept as it is.
pub(crate) struct Spoken {
    parser: Option<OutputParser>,
    is_thinking: bool,
    keeps_thoughts: bool,
    kept: Kept,
}

impl Spoken {
    /// What takes an answer to a prompt that ends in `prompt_tail`.
    pub(crate) fn new(format: &OutputFormat, prompt_tail: &str) -> Self {
        let is_harmony = format.call_form() == Some(CallForm::Harmony);
        let keeps_thoughts = !is_harmony && format.thinking(prompt_tail) == Thinking::Begun;
        let parser = (is_harmony || keeps_thoughts).then(|| OutputParser::new(format, &[], prompt_tail));
        Self { parser, is_thinking: false, keeps_thoughts, kept: Kept::default() }
    }

    /// Takes more of the answer and returns what is to be shown of it.
    pub(crate) fn push(&mut self, text: &str) -> String {
        match &mut self.parser {
            Some(parser) => {
                let pieces = parser.push(text);
                self.shown(pieces)
            }
            None => {
                self.kept.text.push_str(text);
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
    pub(crate) fn kept(self) -> Kept {
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
                self.kept.text.push_str(&text);
            } else if self.keeps_thoughts {
                self.kept.thought.get_or_insert_default().push_str(&text);
            }
        }
        shown
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spoken_after(prompt_tail: &str, format: &OutputFormat, tokens: &[&str]) -> (String, Kept) {
        let mut spoken = Spoken::new(format, prompt_tail);
        let mut shown: String = tokens.iter().map(|token| spoken.push(token)).collect();
        shown.push_str(&spoken.finish());
        (shown, spoken.kept())
    }

    fn spoken(format: &OutputFormat, tokens: &[&str]) -> (String, String) {
        let (shown, kept) = spoken_after("", format, tokens);
        assert_eq!(kept.thought, None);
        (shown, kept.text)
    }

    #[test]
    fn a_thought_that_the_prompt_has_begun_is_kept_by_itself() {
        let format = OutputFormat::of_template(&zinc_model::template::builtin("qwen3.8").unwrap());
        let kept = |thought: &str, text: &str| Kept { thought: Some(thought.to_owned()), text: text.to_owned() };
        let (begun, over) = ("<|im_start|>assistant\n<think>\n", "<|im_start|>assistant\n<think>\n\n</think>\n\n");
        let (shown, own) = spoken_after(begun, &format, &["Hm", ".\n", "</think>", "\n\n", "Hello", "."]);
        assert_eq!((shown.as_str(), own), ("<think>\nHm.\n</think>\n\nHello.", kept("Hm.", "Hello.")));
        let (shown, own) = spoken_after(begun, &format, &["Hm", "."]);
        assert_eq!((shown.as_str(), own), ("<think>\nHm.", kept("Hm.", "")));
        let (shown, own) = spoken_after(over, &format, &["Hello", "."]);
        assert_eq!((shown.as_str(), own), ("Hello.", Kept { thought: None, text: "Hello.".to_owned() }));
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
