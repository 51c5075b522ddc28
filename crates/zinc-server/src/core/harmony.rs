//! Conversations as the templates of gpt-oss read them, whose format is harmony: thoughts have a field of their own, a message has one call of a tool with
//! its result behind it, and there is one message of instructions.

use serde_json::{Map, Value};

use super::ask::Conversation;
use super::message::{Arguments, Message, Role, TemplateMessage, value};
use crate::output::OutputFormat;

/// The messages as such a template reads them.
pub(super) fn messages(messages: &[Message], arguments: Arguments) -> Value {
    let ordered = ordered(messages);
    let ordered: Vec<TemplateMessage<'_>> = ordered.iter().map(|message| message.in_harmony(arguments)).collect();
    value(&ordered)
}

/// The variables of such a template. It knows three efforts; others become the nearest one.
pub(super) fn variables(given: &Map<String, Value>) -> Map<String, Value> {
    let mut variables = given.clone();
    if let Some(effort) = variables.get_mut("reasoning_effort") {
        let known = match effort.as_str() {
            Some("none" | "minimal") => Some("low"),
            Some("xhigh" | "max") => Some("high"),
            _ => None,
        };
        if let Some(known) = known {
            *effort = known.into();
        }
    }
    variables
}

/// The most tokens that the model thinks: in harmony none where thinking is off, since no template of that format can turn it off.
pub(super) fn most_thinking_tokens(format: &OutputFormat, conversation: &Conversation) -> Option<u32> {
    let is_off = conversation.variables.get("enable_thinking") == Some(&Value::Bool(false));
    if format.is_harmony() && is_off { Some(0) } else { conversation.most_thinking_tokens }
}

/// The messages in the order of harmony: all instructions in one message at the beginning, and each call in a message of its own, with its result behind it.
fn ordered(messages: &[Message]) -> Vec<Message> {
    let instructions: Vec<&str> = messages
        .iter()
        .filter(|message| message.role == Role::System)
        .filter_map(|message| message.content.as_deref())
        .collect();
    let mut ordered = Vec::with_capacity(messages.len());
    if !instructions.is_empty() {
        ordered.push(Message::new(Role::System, instructions.join("\n\n")));
    }
    let mut rest = messages;
    while let [message, behind @ ..] = rest {
        rest = behind;
        match message.role {
            Role::System => {}
            Role::Assistant if message.tool_calls.len() > 1 => {
                let results = behind.iter().take_while(|result| result.role == Role::Tool).count();
                let (own, others) = behind.split_at(results);
                rest = others;
                one_by_one(message, own, &mut ordered);
            }
            Role::User | Role::Assistant | Role::Tool => ordered.push(message.clone()),
        }
    }
    ordered
}

/// Adds a message of several calls as several messages of one, each with its results behind it.
fn one_by_one(message: &Message, results: &[Message], ordered: &mut Vec<Message>) {
    let is_of = |result: &Message, id: &str| result.tool_call_id.as_deref() == Some(id);
    for (place, call) in message.tool_calls.iter().enumerate() {
        let mut own = Message { tool_calls: vec![call.clone()], ..message.clone() };
        if place > 0 {
            (own.content, own.reasoning) = (None, None);
        }
        ordered.push(own);
        ordered.extend(results.iter().filter(|result| is_of(result, &call.id)).cloned());
    }
    let is_lost = |result: &&Message| !message.tool_calls.iter().any(|call| is_of(result, &call.id));
    ordered.extend(results.iter().filter(is_lost).cloned());
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::message::ToolCall;
    use super::*;

    fn called(names: &[&str]) -> Message {
        let call = |name: &&str| ToolCall {
            id: format!("id of {name}"),
            name: (*name).to_owned(),
            arguments: "{\"a\": 1}".to_owned(),
        };
        Message { content: None, tool_calls: names.iter().map(call).collect(), ..Message::new(Role::Assistant, "") }
    }

    fn result(name: &str) -> Message {
        Message { tool_call_id: Some(format!("id of {name}")), ..Message::new(Role::Tool, format!("result of {name}")) }
    }

    #[test]
    fn thoughts_and_calls_are_where_the_template_looks_for_them() {
        let thought = |message: Message| Message { reasoning: Some("Hm.".to_owned()), ..message };
        let said = Message { content: Some("I look.".to_owned()), ..called(&["f"]) };
        let given =
            [thought(called(&["f"])), thought(said.clone()), said, thought(Message::new(Role::Assistant, "Yes."))];
        let call =
            json!([{ "id": "id of f", "type": "function", "function": { "name": "f", "arguments": { "a": 1 } } }]);
        assert_eq!(
            messages(&given, Arguments::Object),
            json!([
                { "role": "assistant", "thinking": "Hm.", "tool_calls": call },
                // The template takes one of both, and what the model says before a call for a thought.
                { "role": "assistant", "thinking": "Hm.\n\nI look.", "tool_calls": call },
                { "role": "assistant", "content": "I look.", "tool_calls": call },
                { "role": "assistant", "content": "Yes.", "thinking": "Hm." },
            ])
        );
        assert_eq!(messages(&[called(&[])], Arguments::Object), json!([{ "role": "assistant", "content": "" }]));
    }

    #[test]
    fn each_call_has_its_result_behind_it() {
        let given = [
            Message::new(Role::User, "Both"),
            Message { reasoning: Some("Two.".to_owned()), ..called(&["f", "g"]) },
            result("g"),
            result("f"),
            result("h"),
            Message::new(Role::Assistant, "Done."),
        ];
        let ordered = ordered(&given);
        let first = Message { reasoning: Some("Two.".to_owned()), ..called(&["f"]) };
        let expected =
            [given[0].clone(), first, result("f"), called(&["g"]), result("g"), result("h"), given[5].clone()];
        assert_eq!(ordered, expected);
    }

    #[test]
    fn no_instruction_is_left_out() {
        let given = [
            Message::new(Role::System, "One."),
            Message::new(Role::System, "Two."),
            Message::new(Role::User, "Hi"),
            Message::new(Role::System, "Three."),
        ];
        assert_eq!(ordered(&given), [Message::new(Role::System, "One.\n\nTwo.\n\nThree."), given[2].clone()]);
    }

    #[test]
    fn efforts_are_those_that_the_model_knows() {
        for (given, effort) in [
            ("none", "low"),
            ("minimal", "low"),
            ("low", "low"),
            ("medium", "medium"),
            ("high", "high"),
            ("xhigh", "high"),
        ] {
            let given = Map::from_iter([("reasoning_effort".to_owned(), given.into()), ("x".to_owned(), 1.into())]);
            assert_eq!(Value::Object(variables(&given)), json!({ "reasoning_effort": effort, "x": 1 }));
        }
    }

    #[test]
    fn thinking_that_is_off_is_cut_off_at_once() {
        let harmony = OutputFormat::of_template(&zinc_model::template::builtin("gpt-oss").unwrap());
        let mut conversation = Conversation::new(Vec::new());
        conversation.most_thinking_tokens = Some(7);
        assert_eq!(most_thinking_tokens(&harmony, &conversation), Some(7));
        conversation.variables.insert("enable_thinking".to_owned(), Value::Bool(false));
        assert_eq!(most_thinking_tokens(&harmony, &conversation), Some(0));
        assert_eq!(most_thinking_tokens(&OutputFormat::of_template(""), &conversation), Some(7));
    }
}
