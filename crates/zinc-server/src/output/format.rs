//! The form in which a model writes reasoning and tool calls, read from its chat template.

use serde_json::json;
use zinc_model::{ChatInput, ChatTemplate};
use zinc_sched::grammar::Outline;

use super::harmony;

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
    /// `<tool_call><function=NAME><parameter=KEY>VALUE</parameter></function></tool_call>`: Qwen3-Coder, Qwen3.5 and later.
    Xml,
    /// `<｜tool▁calls▁begin｜>` and, for each call, its name and arguments between marks: DeepSeek.
    DeepSeek {
        /// Whether the arguments are in a code fence, as in V3 and R1; V3.1 has none.
        fenced: bool,
    },
    /// `{"name": NAME, "parameters": OBJECT}`, perhaps behind `<|python_tag|>`: Llama 3.
    Llama,
    /// `<|channel|>commentary to=functions.NAME <|constrain|>json<|message|>OBJECT<|call|>`: gpt-oss, whose answers are in harmony altogether.
    Harmony,
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

/// Control tokens that mark reasoning and calls of tools, in all forms but harmony.
const MARKS: [&str; 12] = [
    "<think>",
    "</think>",
    "<tool_call>",
    "</tool_call>",
    "<tool_calls>",
    "</tool_calls>",
    "<|python_tag|>",
    "<｜tool▁calls▁begin｜>",
    "<｜tool▁calls▁end｜>",
    "<｜tool▁call▁begin｜>",
    "<｜tool▁call▁end｜>",
    "<｜tool▁sep｜>",
];

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
        if has(harmony::CHANNEL) && has(harmony::MESSAGE) {
            return Self { tags: None, calls: Some(CallForm::Harmony) };
        }
        let calls = if has("<function=") && has("<parameter=") {
            Some(if has("<tool_call>") && writes_json(template) { CallForm::Hermes } else { CallForm::Xml })
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
        if self.is_harmony() { Some((harmony::OPEN_ANALYSIS, harmony::END)) } else { self.tags }
    }

    /// Whether answers are in harmony.
    pub(crate) fn is_harmony(&self) -> bool {
        self.calls == Some(CallForm::Harmony)
    }

    /// What stands before a content that continues one which a prompt begins with; empty if nothing does.
    pub(crate) fn before_content(&self) -> &'static str {
        if self.is_harmony() { harmony::OPEN_FINAL } else { "" }
    }

    /// What has to stand before the content of the answer to a prompt with this end, where the content alone is constrained; `None` if nothing does.
    pub(crate) fn content_header(&self, prompt_tail: &str) -> Option<Outline> {
        let has_header = self.is_harmony() && self.thinking(prompt_tail) != Thinking::No;
        has_header.then(harmony::outline::before_content)
    }

    /// The text and the name by which a model begins to think anew in its answer; `None` if it does so by no name.
    pub(crate) fn thinking_anew(&self) -> Option<(&str, &str)> {
        self.is_harmony().then_some((harmony::CHANNEL, harmony::ANALYSIS))
    }

    /// The control tokens that the parser of an answer has to see.
    #[must_use]
    pub fn marks(&self) -> &'static [&'static str] {
        if self.is_harmony() { &harmony::MARKS } else { &MARKS }
    }

    /// The tags within content, for as long as anyone wants them; `None` if the model has none that could stand there.
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
        if self.is_harmony() {
            return harmony_thinking(prompt_tail);
        }
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

/// Whether a template that shows calls in XML writes them as JSON: those of some models read both forms.
fn writes_json(template: &str) -> bool {
    const NAME: &str = "get_current_time";
    let Ok(template) = ChatTemplate::new(template) else { return false };
    let call =
        json!({ "id": "call_1", "type": "function", "function": { "name": NAME, "arguments": { "zone": "UTC" } } });
    let messages = json!([
        { "role": "user", "content": "What time is it?" },
        { "role": "assistant", "content": "", "tool_calls": [call] },
        { "role": "tool", "tool_call_id": "call_1", "name": NAME, "content": "12:00" },
    ]);
    // The tool that is offered has another name, so that only the call has this one.
    let tool = json!({ "name": "f", "description": "", "parameters": { "type": "object", "properties": {} } });
    let tools = Some(json!([{ "type": "function", "function": tool }]));
    let input = ChatInput { messages, tools, ..ChatInput::default() };
    let is_json = |text: &str| text.contains(&format!("\"{NAME}\"")) && !text.contains(&format!("<function={NAME}>"));
    template.render(&input).is_ok_and(|text| is_json(&text))
}

/// What [`OutputFormat::thinking`] is in harmony, where only a prompt that begins the model's message says anything.
fn harmony_thinking(prompt_tail: &str) -> Thinking {
    let header = match prompt_tail.rfind(harmony::START) {
        Some(start) => &prompt_tail[start..],
        None if prompt_tail.is_empty() => return Thinking::MayBegin,
        None => return Thinking::No,
    };
    match header.split_once(harmony::MESSAGE) {
        None => Thinking::MayBegin,
        Some((header, _)) if header.contains(harmony::ANALYSIS) => Thinking::Begun,
        Some(_) => Thinking::No,
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

    /// A template that writes calls with `written` and says of the other form that it is none of its own.
    fn of_both_forms(written: &str) -> String {
        let begin = "{{ 'Never write {\"name\": ...} and <function=...><parameter=...> in one answer. ' }}{% for m in messages %}{{ m.content }}";
        format!("{begin}{{% for c in m.tool_calls or [] %}}{{{{ {written} }}}}{{% endfor %}}{{% endfor %}}")
    }

    #[test]
    fn a_template_that_knows_two_forms_has_the_one_that_it_writes() {
        let json = of_both_forms(
            r#"'<tool_call>{"name": "' + c.function.name + '", "arguments": ' + c.function.arguments | tojson + '}</tool_call>'"#,
        );
        let xml = of_both_forms("'<tool_call><function=' + c.function.name + '>' + '</function></tool_call>'");
        // Templates of which nothing can be told by what they write.
        let refusing = format!("{json}{{{{ raise_exception('no') }}}}");
        let broken = format!("{json}{{% if %}}");
        for (template, form) in
            [(&json, CallForm::Hermes), (&xml, CallForm::Xml), (&refusing, CallForm::Xml), (&broken, CallForm::Xml)]
        {
            assert_eq!(format(template).call_form(), Some(form), "{template}");
        }
        for name in ["qwen3.5", "qwen3.6", "qwen3.8"] {
            let format = format(&zinc_model::template::builtin(name).unwrap());
            assert_eq!(format.call_form(), Some(CallForm::Xml), "{name}");
            assert_eq!(format.reasoning_tags(), Some(("<think>", "</think>")), "{name}");
        }
    }

    #[test]
    fn templates_of_harmony_are_known_by_its_channels() {
        let builtin = zinc_model::template::builtin("gpt-oss").unwrap();
        for template in [&*builtin, "'<|start|>assistant<|channel|>final<|message|>' + content + '<|end|>' <tool_call>"]
        {
            assert_eq!(format(template).call_form(), Some(CallForm::Harmony));
            assert_eq!(format(template).reasoning_tags(), Some(("<|channel|>analysis<|message|>", "<|end|>")));
        }
        let harmony = format(&builtin);
        for (tail, thinking) in [
            ("", Thinking::MayBegin),
            ("<|end|><|start|>assistant", Thinking::MayBegin),
            ("<|start|>assistant<|channel|>analysis<|message|>Hm", Thinking::Begun),
            ("<|start|>assistant<|channel|>final<|message|>The analysis", Thinking::No),
            ("a long beginning of an answer", Thinking::No),
        ] {
            assert_eq!(harmony.thinking(tail), thinking, "{tail}");
        }
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
