//! The messages of a conversation, and what is done to them between answers.

use serde_json::{Map, Value, json};
use zinc_model::ChatInput;

/// A conversation: the messages so far, and texts that go with the next one.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Conversation {
    messages: Vec<Value>,
    system: Option<String>,
    attached: String,
}

impl Conversation {
    /// A conversation without messages but the system message, if there is one.
    #[must_use]
    pub fn new(system: Option<&str>) -> Self {
        let mut conversation = Self { system: system.map(str::to_owned), ..Self::default() };
        conversation.clear();
        conversation
    }

    /// The messages, each an object with `role` and `content`.
    #[must_use]
    pub fn messages(&self) -> &[Value] {
        &self.messages
    }

    /// What a chat template makes the prompt of: the messages up to where the assistant answers, and further variables of the template.
    #[must_use]
    pub fn input(&self, variables: Map<String, Value>) -> ChatInput {
        ChatInput {
            messages: Value::Array(self.messages.clone()),
            tools: None,
            kwargs: variables,
            add_generation_prompt: true,
        }
    }

    /// Starts again: only the system message stays, and attached texts are forgotten.
    pub fn clear(&mut self) {
        let system = self.system.iter().map(|text| json!({ "role": "system", "content": text }));
        self.messages = system.collect();
        self.attached.clear();
    }

    /// Puts a text before the next message of the user, and behind the texts attached before it.
    pub fn attach(&mut self, text: &str) {
        if !self.attached.is_empty() {
            self.attached.push_str("\n\n");
        }
        self.attached.push_str(text);
    }

    /// Adds a message of the user, with the attached texts before it.
    pub fn say(&mut self, text: impl Into<String>) {
        let text = text.into();
        let attached = std::mem::take(&mut self.attached);
        let content = if attached.is_empty() { text } else { format!("{attached}\n\n{text}") };
        self.messages.push(json!({ "role": "user", "content": content }));
    }

    /// Adds an answer of the assistant.
    pub fn answered(&mut self, text: &str) {
        self.messages.push(json!({ "role": "assistant", "content": text }));
    }

    /// Adds an answer of the assistant, and what it thought before. Whether the model reads that again is up to the chat template.
    pub fn answered_after(&mut self, thought: &str, text: &str) {
        self.messages.push(json!({ "role": "assistant", "content": text, "reasoning_content": thought }));
    }

    /// Removes the last answer, so that it can be given again; says whether there was one.
    pub fn reopen(&mut self) -> bool {
        let answered = self.last_role() == Some("assistant");
        if answered {
            self.messages.pop();
        }
        answered
    }

    /// Removes the last message if it is the user's.
    pub fn take_back(&mut self) {
        if self.last_role() == Some("user") {
            self.messages.pop();
        }
    }

    fn last_role(&self) -> Option<&str> {
        self.messages.last()?["role"].as_str()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_system_message_comes_first() {
        let mut conversation = Conversation::new(Some("Be brief."));
        conversation.say("hi");
        let input = conversation.input(Map::new());
        assert_eq!(input.messages[0], json!({"role": "system", "content": "Be brief."}));
        assert_eq!(input.messages[1], json!({"role": "user", "content": "hi"}));
        assert!(input.add_generation_prompt);
        assert!(Conversation::new(None).messages().is_empty());
    }

    #[test]
    fn a_text_goes_with_the_next_message_only() {
        let mut conversation = Conversation::new(None);
        conversation.attach("one");
        conversation.attach("two");
        conversation.say("Sum up.");
        conversation.answered("Numbers.");
        conversation.say("And?");
        assert_eq!(conversation.messages[0]["content"], "one\n\ntwo\n\nSum up.");
        assert_eq!(conversation.messages[2]["content"], "And?");
    }

    #[test]
    fn an_answer_is_given_again_and_a_message_taken_back() {
        let mut conversation = Conversation::new(Some("Be brief."));
        assert!(!conversation.reopen());
        conversation.take_back();
        assert_eq!(conversation.messages.len(), 1);
        conversation.say("hi");
        conversation.answered("Hello.");
        assert!(conversation.reopen());
        conversation.answered_after("A greeting.", "Hello.");
        let answer = json!({ "role": "assistant", "content": "Hello.", "reasoning_content": "A greeting." });
        assert_eq!(conversation.messages.last(), Some(&answer));
        assert!(conversation.reopen());
        assert_eq!(conversation.last_role(), Some("user"));
        conversation.take_back();
        assert_eq!(conversation.last_role(), Some("system"));
    }

    #[test]
    fn clearing_keeps_the_system_message_and_forgets_files() {
        let mut conversation = Conversation::new(Some("Be brief."));
        conversation.attach("file");
        conversation.say("hi");
        conversation.attach("file");
        conversation.clear();
        conversation.say("again");
        assert_eq!(conversation.messages.len(), 2);
        assert_eq!(conversation.messages[1]["content"], "again");
    }
}
