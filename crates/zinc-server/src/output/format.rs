//! The form in which a model writes reasoning and tool calls, read from its chat template.

/// The form of a model's answers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OutputFormat {
    tags: Option<(&'static str, &'static str)>,
    calls: Option<CallForm>,
}

/// How a model writes tool calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CallForm {
    /// `<tool_call>{"name": NAME, "arguments": OBJECT}</tool_call>`: Hermes, Qwen2.5, Qwen3.
    Hermes,
    /// `<tool_call><function=NAME><parameter=KEY>VALUE</parameter></function></tool_call>`: Qwen3-Coder.
    Xml,
    /// `<｜tool▁calls▁begin｜>` and, for each call, its name and arguments between marks: DeepSeek.
    DeepSeek {
        /// Whether the arguments are in a code fence, as in V3 and R1; V3.1 has none.
        fenced: bool,
    },
    /// `{"name": NAME, "parameters": OBJECT}`, perhaps behind `<|python_tag|>`: Llama 3.
    Llama,
}

/// Whether an answer begins with thinking.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Thinking {
    /// The model does not think, or the prompt has ended the thinking.
    No,
    /// The model may begin to think.
    MayBegin,
    /// The prompt has begun the thinking.
    Begun,
}

/// Opening and closing tags of reasoning.
const TAGS: [(&str, &str); 4] =
    [("<think>", "</think>"), ("<seed:think>", "</seed:think>"), ("[THINK]", "[/THINK]"), ("◁think▷", "◁/think▷")];

/// Texts of templates at which a message begins or ends. What a user writes comes before the last of them in a prompt.
const TURNS: [&str; 18] = [
    "<|im_start|>",
    "<|im_end|>",
    "<|im_sep|>",
    "<｜User｜>",
    "<｜Assistant｜>",
    "<｜end▁of▁sentence｜>",
    "<|start_header_id|>",
    "<|end_header_id|>",
    "<|eot_id|>",
    "<|header_end|>",
    "<|assistant|>",
    "<|user|>",
    "<start_of_turn>",
    "<end_of_turn>",
    "[/INST]",
    "<|Assistant|>",
    "<|End|>",
    "[|assistant|]",
];

impl OutputFormat {
    /// The format that a chat template shows to the model. A template in which no known form of calls is found has none: all text is content.
    #[must_use]
    pub fn of_template(template: &str) -> Self {
        let has = |text: &str| template.contains(text);
        let calls = if has("<function=") && has("<parameter=") {
            Some(CallForm::Xml)
        } else if has("<｜tool▁calls▁begin｜>") {
            Some(CallForm::DeepSeek { fenced: has("```json") })
        } else if has("<tool_call>") {
            Some(CallForm::Hermes)
        } else if has("<|python_tag|>") || has("<|start_header_id|>") && has("\"parameters\"") {
            Some(CallForm::Llama)
        } else {
            None
        };
        Self { tags: TAGS.into_iter().find(|(_, close)| has(close)), calls }
    }

    /// The texts before and behind reasoning; `None` if the model does not mark it.
    #[must_use]
    pub fn reasoning_tags(&self) -> Option<(&str, &str)> {
        self.tags
    }

    /// The tags, for as long as anyone wants them.
    pub(crate) fn static_tags(&self) -> Option<(&'static str, &'static str)> {
        self.tags
    }

    /// How the model writes tool calls; `None` if the template shows it no way.
    #[must_use]
    pub fn call_form(&self) -> Option<CallForm> {
        self.calls
    }

    /// Whether an answer to a prompt begins with thinking. `prompt_tail` is the end of the rendered prompt, from the beginning of the last
    /// message at the latest.
    #[must_use]
    pub fn thinking(&self, prompt_tail: &str) -> Thinking {
        let Some((open, close)) = self.tags else { return Thinking::No };
        let turn = TURNS.iter().filter_map(|mark| Some(prompt_tail.rfind(mark)? + mark.len())).max();
        let last = &prompt_tail[turn.unwrap_or(0)..];
        if prompt_tail.trim_end().ends_with(open) {
            return Thinking::Begun;
        }
        match (turn, last.rfind(open), last.rfind(close)) {
            // Without the beginning of the turn, tags may be what a message says.
            (None, ..) | (_, None, None) => Thinking::MayBegin,
            (_, opened, closed) if opened > closed => Thinking::Begun,
            _ => Thinking::No,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn format(template: &str) -> OutputFormat {
        OutputFormat::of_template(template)
    }

    #[test]
    fn forms_are_read_from_the_template() {
        let deepseek = "{{'<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>'";
        for (template, calls, thinks) in [
            (include_str!("../../../../tests/data/host/qwen3_chat_template.jinja"), Some(CallForm::Hermes), true),
            ("<tool_call>\\n<function=' + name + '>\\n<parameter=' + key + '>", Some(CallForm::Xml), false),
            (
                &format!("{deepseek} + '```json' + ... split('</think>')"),
                Some(CallForm::DeepSeek { fenced: true }),
                true,
            ),
            (deepseek, Some(CallForm::DeepSeek { fenced: false }), false),
            ("{{- '<|start_header_id|>' }} {{- '\"parameters\": ' }}", Some(CallForm::Llama), false),
            ("{{ '<|python_tag|>' }}", Some(CallForm::Llama), false),
            ("<|start_header_id|>{{ m.role }}<|end_header_id|>", None, false),
            ("", None, false),
        ] {
            let format = format(template);
            assert_eq!(format.call_form(), calls, "{template}");
            assert_eq!(format.reasoning_tags(), thinks.then_some(("<think>", "</think>")), "{template}");
        }
        assert_eq!(format("[THINK][/THINK]").reasoning_tags(), Some(("[THINK]", "[/THINK]")));
    }

    #[test]
    fn the_prompt_says_whether_thinking_has_begun() {
        let thinker = format("<think></think>");
        for (tail, thinking) in [
            ("<|im_start|>assistant\n", Thinking::MayBegin),
            ("<|im_start|>assistant\n<think>\n", Thinking::Begun),
            ("<think>", Thinking::Begun),
            ("<|im_start|>assistant\n<think>\n\n</think>\n\n", Thinking::No),
            ("<｜Assistant｜></think>", Thinking::No),
            ("<｜Assistant｜><think>\nI wonder", Thinking::Begun),
            ("<|im_start|>user\nWhat is <think>?<|im_end|>\n<|im_start|>assistant\n", Thinking::MayBegin),
            ("<|im_start|>user\nWhat is </think>?<|im_end|>\n<|im_start|>assistant\n", Thinking::MayBegin),
            ("is <think> a tag? ASSISTANT:", Thinking::MayBegin),
            ("", Thinking::MayBegin),
        ] {
            assert_eq!(thinker.thinking(tail), thinking, "{tail:?}");
        }
        assert_eq!(format("").thinking("<think>"), Thinking::No);
    }
}
