//! From a conversation to its prompt, in the form that the template of the model reads.

use zinc_model::{ChatInput, Special};

use super::ask::{Conversation, ToolChoice};
use super::harmony;
use super::message::{Arguments, Message, Role, messages_in_template, tools_in_template};
use crate::error::ApiResult;
use crate::output::{OutputFormat, Thinking};
use crate::state::Served;

/// Tokens at the end of what a template makes, in which the beginning of the model's message is.
const TAIL_TOKENS: usize = 64;

/// The prompt of a conversation.
pub(super) struct ConversationPrompt {
    pub(super) ids: Vec<u32>,
    /// The text of its end, from the beginning of the model's message.
    pub(super) tail: String,
}

impl ConversationPrompt {
    /// The prompt of a conversation. If the answer continues its last message, the prompt ends in that.
    ///
    /// # Errors
    /// A template that refuses the messages, and a text that the vocabulary cannot express.
    pub(super) fn new(served: &Served, conversation: &Conversation) -> ApiResult<Self> {
        let (messages, begun) = conversation.answered_and_begun();
        let ids = in_known_form(served, conversation, messages, |input| served.backend.chat_prompt(input))?;
        let tail = &ids[ids.len().saturating_sub(TAIL_TOKENS)..];
        let tail: Vec<u8> = tail.iter().filter_map(|id| served.backend.token_bytes(*id)).flatten().collect();
        let mut prompt = Self { tail: String::from_utf8_lossy(&tail).into_owned(), ids };
        if let Some(begun) = begun {
            for (text, special) in beginning(&served.format, &prompt.tail, begun) {
                prompt.ids.extend(served.backend.encode(&text, special)?);
                prompt.tail.push_str(&text);
            }
        }
        Ok(prompt)
    }
}

/// The texts behind a prompt that ends in `tail` with which the answer begins as in `message`. Where the prompt has begun the thinking, they end it, unless
/// the message has nothing behind its thought.
fn beginning(format: &OutputFormat, tail: &str, message: &Message) -> [(String, Special); 3] {
    let content = message.content.clone().unwrap_or_default();
    let (thought, between) = match format.static_tags() {
        Some((_, close)) if format.thinking(tail) == Thinking::Begun => {
            let between = if content.is_empty() { String::new() } else { format!("\n{close}\n\n") };
            (message.reasoning.clone().unwrap_or_default(), between)
        }
        _ => (String::new(), format.before_content().to_owned()),
    };
    [(thought, Special::Plain), (between, Special::Parse), (content, Special::Plain)]
}

/// The text of the prompt of a conversation.
///
/// # Errors
/// A template that refuses the messages.
pub(crate) fn rendered(served: &Served, conversation: &Conversation) -> ApiResult<String> {
    in_known_form(served, conversation, &conversation.messages, |input| served.backend.render(input))
}

/// Calls `make` with a form of the messages that the template takes. Templates that want arguments as objects cannot be told from those that do not; one
/// that fails gets texts. One that fails with several messages of instructions at the beginning gets them as one. If none is taken, the error is that
/// of the first.
fn in_known_form<T>(
    served: &Served,
    conversation: &Conversation,
    messages: &[Message],
    make: impl Fn(&ChatInput) -> zinc_engine::Result<T>,
) -> ApiResult<T> {
    let with = |messages: &[Message], arguments| make(&chat_input(served, conversation, messages, arguments));
    let with_arguments = |messages: &[Message]| match with(messages, served.arguments) {
        Err(error) if is_refusal(&error) && served.arguments == Arguments::Object => {
            with(messages, Arguments::Text).map_err(|_| error)
        }
        made => made,
    };
    match with_arguments(messages) {
        Err(error) if is_refusal(&error) => {
            let Some(messages) = with_one_instruction(messages) else { return Err(error.into()) };
            Ok(with_arguments(&messages).map_err(|_| error)?)
        }
        made => Ok(made?),
    }
}

/// Whether an error may be that of a template which takes the messages in another form.
fn is_refusal(error: &zinc_engine::Error) -> bool {
    matches!(error, zinc_engine::Error::Model(_))
}

/// The messages with all instructions at the beginning in one; `None` if there are not several.
fn with_one_instruction(messages: &[Message]) -> Option<Vec<Message>> {
    let count = messages.iter().take_while(|message| message.role == Role::System).count();
    if count < 2 {
        return None;
    }
    let (instructions, others) = messages.split_at(count);
    let texts: Vec<&str> = instructions.iter().filter_map(|message| message.content.as_deref()).collect();
    let mut joined = vec![Message::new(Role::System, texts.join("\n\n"))];
    joined.extend_from_slice(others);
    Some(joined)
}

fn chat_input(served: &Served, conversation: &Conversation, messages: &[Message], arguments: Arguments) -> ChatInput {
    let offered = conversation.tool_choice != ToolChoice::None;
    let (messages, kwargs) = match served.format.is_harmony() {
        true => (harmony::messages(messages, arguments), harmony::variables(&conversation.variables)),
        false => (messages_in_template(messages, arguments), served.efforts.variables(&conversation.variables)),
    };
    let tools = tools_in_template(&conversation.tools).filter(|_| offered);
    ChatInput { messages, tools, kwargs, add_generation_prompt: true }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instructions_at_the_beginning_become_one_message() {
        let (one, two) = (Message::new(Role::System, "One."), Message::new(Role::System, "Two."));
        let user = Message::new(Role::User, "Hi");
        let given = [one.clone(), two.clone(), user.clone(), two.clone()];
        let joined = vec![Message::new(Role::System, "One.\n\nTwo."), user.clone(), two.clone()];
        assert_eq!(with_one_instruction(&given), Some(joined));
        assert_eq!(with_one_instruction(&[one, user, two]), None);
        assert_eq!(with_one_instruction(&[]), None);
    }

    #[test]
    fn an_answer_begins_behind_its_thought() {
        let joined = |template: &str, tail: &str, message: &Message| -> String {
            beginning(&OutputFormat::of_template(template), tail, message).map(|(text, _)| text).concat()
        };
        let said = Message::new(Role::Assistant, "Once");
        let thought = Message { reasoning: Some("Hm.".to_owned()), ..said.clone() };
        let unsaid = Message { content: None, ..thought.clone() };
        let begun = "<|im_start|>assistant\n<think>\n";
        for (tail, message, expected) in [
            (begun, &said, "\n</think>\n\nOnce"),
            (begun, &thought, "Hm.\n</think>\n\nOnce"),
            (begun, &unsaid, "Hm."),
            ("<|im_start|>assistant\n<think>\n\n</think>\n\n", &thought, "Once"),
            ("<|im_start|>assistant\n", &thought, "Once"),
        ] {
            assert_eq!(joined("<think></think>", tail, message), expected);
        }
        let harmony = joined("<|start|><|channel|><|message|>", "<|start|>assistant", &thought);
        assert_eq!(harmony, "<|channel|>final<|message|>Once");
    }
}
