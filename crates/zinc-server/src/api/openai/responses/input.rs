//! The items of a request's input, and the messages that they are.

use std::collections::HashMap;

use serde::Deserialize;
use serde_json::json;
use utoipa::ToSchema;

use super::output::THOUGHTS;
use crate::api::parts::TextOrParts;
use crate::body::Ignored;
use crate::core::{Message, Role, ToolCall};
use crate::error::{ApiError, ApiResult};

/// An item of the input. Its type says which of the fields it has.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = ResponsesItemField)]
pub(super) struct ItemField {
    #[serde(rename = "type", default)]
    kind: Option<String>,
    #[serde(default)]
    role: Option<String>,
    #[serde(default)]
    content: Option<TextOrParts<PartField>>,
    #[serde(default)]
    call_id: Option<String>,
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    arguments: Option<TextOrParts<PartField>>,
    #[serde(default)]
    input: Option<TextOrParts<PartField>>,
    #[serde(default)]
    output: Option<TextOrParts<PartField>>,
    #[serde(default)]
    summary: Option<TextOrParts<PartField>>,
    #[serde(default)]
    encrypted_content: Option<String>,
}

/// A part of a content, an output or a summary.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = ResponsesPartField)]
pub(super) struct PartField {
    #[serde(rename = "type", default)]
    kind: Option<String>,
    #[serde(default)]
    text: Option<String>,
    #[serde(default)]
    refusal: Option<String>,
}

/// The messages that instructions and input are. Items that zinc does not know are ignored by name.
///
/// # Errors
/// An item that lacks what its type needs, or has what this server cannot read.
pub(super) fn messages(
    instructions: Option<&str>,
    input: TextOrParts<ItemField>,
    most_items: usize,
    ignored: &mut Ignored,
) -> ApiResult<Vec<Message>> {
    let mut turns = Turns::default();
    if let Some(instructions) = instructions.filter(|text| !text.is_empty()) {
        turns.say(Role::System, instructions.to_owned());
    }
    match input {
        TextOrParts::Text(text) => turns.say(Role::User, text),
        TextOrParts::Parts(items) => {
            let count = items.len();
            if count == 0 || count > most_items {
                return Err(ApiError::invalid("input", format!("{count} items; 1 to {most_items} are taken")));
            }
            for (index, item) in items.into_iter().enumerate() {
                turns.item(index, item, ignored)?;
            }
        }
        TextOrParts::Other => return Err(ApiError::invalid("input", "input is neither a text nor a list of items")),
    }
    Ok(turns.messages)
}

/// Messages that grow item by item: what the model thought, said and called between two messages of others is one message.
#[derive(Default)]
struct Turns {
    messages: Vec<Message>,
    /// Whether the last message is the model's and further items belong to it.
    is_open: bool,
    /// The names of called tools by the ids of the calls.
    names: HashMap<String, String>,
}

impl Turns {
    fn item(&mut self, index: usize, item: ItemField, ignored: &mut Ignored) -> ApiResult<()> {
        let kind = item.kind.clone().unwrap_or_else(|| match item.role {
            Some(_) => "message".to_owned(),
            None => "item_reference".to_owned(),
        });
        match kind.as_str() {
            "message" => self.message(index, item),
            "reasoning" => self.reasoning(index, item),
            "function_call" | "custom_tool_call" => self.call(index, item),
            "function_call_output" | "custom_tool_call_output" => self.result(index, item),
            "item_reference" => {
                let message = "items cannot be referred to, since no response is stored; send the items themselves \
                               (for clients that ask: store false)";
                Err(ApiError::invalid(format!("input[{index}]"), message))
            }
            _ => {
                ignored.add_whole(&format!("input.{index}"), &kind);
                Ok(())
            }
        }
    }

    fn message(&mut self, index: usize, item: ItemField) -> ApiResult<()> {
        let param = format!("input[{index}].content");
        let text = required_text(item.content, &param)?;
        match item.role.as_deref() {
            Some("user") => self.say(Role::User, text),
            Some("system" | "developer") => self.say(Role::System, text),
            Some("assistant") => {
                self.begin_part();
                self.turn().content = Some(text);
            }
            role => {
                let message = format!("the role {role:?} is none of user, assistant, system and developer");
                return Err(ApiError::invalid(format!("input[{index}].role"), message));
            }
        }
        Ok(())
    }

    /// Adds a message that is not the model's. Instructions at the beginning are one message, since many templates take no more.
    fn say(&mut self, role: Role, text: String) {
        self.is_open = false;
        if let ([first], Role::System) = (self.messages.as_mut_slice(), role)
            && first.role == Role::System
        {
            let content = first.content.get_or_insert_default();
            content.push_str("\n\n");
            content.push_str(&text);
            return;
        }
        self.messages.push(Message::new(role, text));
    }

    fn reasoning(&mut self, index: usize, item: ItemField) -> ApiResult<()> {
        let own = item.encrypted_content.as_deref().and_then(|text| text.strip_prefix(THOUGHTS)).map(str::to_owned);
        let text = |field: Option<TextOrParts<PartField>>, name: &str| {
            let field = field.unwrap_or(TextOrParts::Parts(Vec::new()));
            let text = text(field, &format!("input[{index}].{name}"))?;
            Ok::<_, ApiError>(Some(text).filter(|text| !text.is_empty()))
        };
        let (content, summary) = (text(item.content, "content")?, text(item.summary, "summary")?);
        // The thoughts themselves come before what sums them up. Those that another server has encrypted cannot be read.
        if let Some(thoughts) = own.or(content).or(summary) {
            self.begin_part();
            let reasoning = self.turn().reasoning.get_or_insert_default();
            if !reasoning.is_empty() {
                reasoning.push('\n');
            }
            reasoning.push_str(&thoughts);
        }
        Ok(())
    }

    fn call(&mut self, index: usize, item: ItemField) -> ApiResult<()> {
        let missing = |name| ApiError::invalid(format!("input[{index}].{name}"), format!("a call needs its {name}"));
        let id = item.call_id.ok_or_else(|| missing("call_id"))?;
        let name = item.name.ok_or_else(|| missing("name"))?;
        let arguments = match (item.arguments, item.input) {
            (Some(TextOrParts::Text(text)), _) if !text.trim().is_empty() => text,
            (Some(TextOrParts::Text(_)) | None, None) => "{}".to_owned(),
            // A tool without a schema takes a text.
            (None, Some(TextOrParts::Text(text))) => json!({ "input": text }).to_string(),
            _ => {
                let message = "the arguments of a call are a text that holds a JSON object";
                return Err(ApiError::invalid(format!("input[{index}].arguments"), message));
            }
        };
        self.names.insert(id.clone(), name.clone());
        self.turn().tool_calls.push(ToolCall { id, name, arguments });
        Ok(())
    }

    fn result(&mut self, index: usize, item: ItemField) -> ApiResult<()> {
        let param = format!("input[{index}].call_id");
        let id = item.call_id.ok_or_else(|| ApiError::invalid(param, "a result needs the call_id of its call"))?;
        let text = required_text(item.output, &format!("input[{index}].output"))?;
        self.is_open = false;
        let name = self.names.get(&id).cloned();
        self.messages.push(Message { tool_call_id: Some(id), name, ..Message::new(Role::Tool, text) });
        Ok(())
    }

    /// The model's message that further items belong to.
    fn turn(&mut self) -> &mut Message {
        if !self.is_open {
            self.messages.push(Message { content: None, ..Message::new(Role::Assistant, "") });
            self.is_open = true;
        }
        self.messages.last_mut().expect("one was added if there was none")
    }

    /// Begins another message of the model if the one that is open has gone beyond thoughts.
    fn begin_part(&mut self) {
        let goes_on = |message: &Message| message.content.is_none() && message.tool_calls.is_empty();
        self.is_open = self.is_open && self.messages.last().is_some_and(goes_on);
    }
}

fn required_text(content: Option<TextOrParts<PartField>>, param: &str) -> ApiResult<String> {
    match content {
        Some(content) => text(content, param),
        None => Err(ApiError::invalid(param, format!("{param} is missing"))),
    }
}

/// The text of a content.
fn text(content: TextOrParts<PartField>, param: &str) -> ApiResult<String> {
    let parts = match content {
        TextOrParts::Text(text) => return Ok(text),
        TextOrParts::Parts(parts) => parts,
        TextOrParts::Other => {
            return Err(ApiError::invalid(param, format!("{param} is neither a text nor a list of parts")));
        }
    };
    let mut texts = Vec::new();
    for (at, PartField { kind, text, refusal }) in parts.into_iter().enumerate() {
        let param = || format!("{param}[{at}]");
        match kind.as_deref().unwrap_or("text") {
            kind @ ("text" | "input_text" | "output_text" | "refusal" | "summary_text" | "reasoning_text") => {
                let missing = || ApiError::invalid(param(), format!("a part of type {kind} needs its text"));
                texts.push(text.or(refusal).ok_or_else(missing)?);
            }
            kind => {
                let message = format!("parts of type {kind:?} are not supported; this model reads text alone");
                return Err(ApiError::invalid(param(), message));
            }
        }
    }
    Ok(texts.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::body::{Fields, NoFields};

    #[derive(Deserialize)]
    struct Body {
        input: TextOrParts<ItemField>,
    }

    fn read(instructions: Option<&str>, input: &serde_json::Value) -> ApiResult<Vec<Message>> {
        let body = json!({ "input": input }).to_string();
        let Fields { own, mut ignored, .. } = Fields::<Body, NoFields>::parse(body.as_bytes())?;
        messages(instructions, own.input, 100, &mut ignored)
    }

    fn call(id: &str) -> ToolCall {
        ToolCall { id: id.to_owned(), name: "ls".to_owned(), arguments: "{}".to_owned() }
    }

    #[test]
    fn a_text_is_what_the_user_says() {
        let expected = [Message::new(Role::System, "Be brief."), Message::new(Role::User, "Hi")];
        assert_eq!(read(Some("Be brief."), &json!("Hi")).unwrap(), expected);
        assert_eq!(read(None, &json!("Hi")).unwrap(), expected[1..]);
    }

    #[test]
    fn instructions_at_the_beginning_are_one_message() {
        let input = json!([
            { "type": "message", "role": "developer", "content": [{ "type": "input_text", "text": "B" }] },
            { "role": "user", "content": "Hi" },
            { "role": "developer", "content": "C" },
        ]);
        let expected =
            [Message::new(Role::System, "A\n\nB"), Message::new(Role::User, "Hi"), Message::new(Role::System, "C")];
        assert_eq!(read(Some("A"), &input).unwrap(), expected);
    }

    #[test]
    fn what_the_model_did_between_messages_of_others_is_one_message() {
        let input = json!([
            { "role": "user", "content": "Hi" },
            { "type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": format!("{THOUGHTS}Look.") },
            { "type": "message", "role": "assistant", "content": [{ "type": "output_text", "text": "I look." }] },
            { "type": "function_call", "call_id": "1", "name": "ls", "arguments": "{}" },
            { "type": "function_call", "call_id": "2", "name": "ls", "arguments": "" },
            { "type": "function_call_output", "call_id": "1", "output": "a" },
            { "type": "function_call_output", "call_id": "2", "output": [{ "type": "input_text", "text": "b" }] },
            { "type": "reasoning", "summary": [{ "type": "summary_text", "text": "Done." }] },
            { "type": "message", "role": "assistant", "content": "Two files." },
            { "type": "message", "role": "assistant", "content": "Bye." },
        ]);
        let of_model = |content: &str| Message::new(Role::Assistant, content);
        let result = |id: &str, text: &str| Message {
            tool_call_id: Some(id.to_owned()),
            name: Some("ls".to_owned()),
            ..Message::new(Role::Tool, text)
        };
        let expected = [
            Message::new(Role::User, "Hi"),
            Message {
                reasoning: Some("Look.".to_owned()),
                tool_calls: vec![call("1"), call("2")],
                ..of_model("I look.")
            },
            result("1", "a"),
            result("2", "b"),
            Message { reasoning: Some("Done.".to_owned()), ..of_model("Two files.") },
            of_model("Bye."),
        ];
        assert_eq!(read(None, &input).unwrap(), expected);
    }

    #[test]
    fn thoughts_are_read_from_where_they_are_whole() {
        let thoughts = |item: serde_json::Value| {
            let call = json!({ "type": "function_call", "call_id": "1", "name": "ls", "arguments": "{}" });
            read(None, &json!([item, call])).unwrap()[0].reasoning.clone()
        };
        let summary = json!([{ "type": "summary_text", "text": "short" }]);
        let content = json!([{ "type": "reasoning_text", "text": "long" }]);
        let item = json!({ "type": "reasoning", "summary": summary, "content": content, "encrypted_content": "gAAAA" });
        assert_eq!(thoughts(item).as_deref(), Some("long"));
        let item = json!({ "type": "reasoning", "summary": summary, "content": null, "encrypted_content": null });
        assert_eq!(thoughts(item).as_deref(), Some("short"));
        // What another server has encrypted is nothing to this one.
        let item = json!({ "type": "reasoning", "summary": [], "encrypted_content": "gAAAA" });
        assert_eq!(thoughts(item), None);
    }

    #[test]
    fn items_of_other_kinds_are_ignored_whatever_they_hold() {
        let input = json!([
            { "role": "user", "content": "Hi" },
            { "type": "web_search_call", "id": "ws_1", "status": "completed", "action": { "type": "search" } },
            { "type": "computer_call_output", "call_id": "c", "output": { "type": "computer_screenshot" } },
            { "type": "tool_search_call", "call_id": "c", "arguments": { "query": "x" } },
        ]);
        assert_eq!(read(None, &input).unwrap(), [Message::new(Role::User, "Hi")]);
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (input, param) in [
            (json!(1), "input"),
            (json!([]), "input"),
            (json!([{ "id": "msg_1" }]), "input[0]"),
            (json!([{ "type": "item_reference", "id": "msg_1" }]), "input[0]"),
            (json!([{ "role": "user" }]), "input[0].content"),
            (json!([{ "role": "king", "content": "x" }]), "input[0].role"),
            (json!([{ "role": "user", "content": 1 }]), "input[0].content"),
            (json!([{ "role": "user", "content": [{ "type": "input_image" }] }]), "input[0].content[0]"),
            (json!([{ "role": "user", "content": [{ "type": "input_text" }] }]), "input[0].content[0]"),
            (json!([{ "role": "user", "content": [{ "type": "input_text", "text": 1 }] }]), "input[0].content[0].text"),
            (json!([{ "type": "function_call", "name": "f", "arguments": "{}" }]), "input[0].call_id"),
            (json!([{ "type": "function_call", "call_id": "1", "arguments": "{}" }]), "input[0].name"),
            (json!([{ "type": "function_call", "call_id": "1", "name": "f", "arguments": {} }]), "input[0].arguments"),
            (json!([{ "type": "function_call_output", "call_id": "1" }]), "input[0].output"),
            (json!([{ "type": "function_call_output", "output": "x" }]), "input[0].call_id"),
        ] {
            let error = read(None, &input).unwrap_err();
            assert_eq!(error.param.as_deref(), Some(param), "{input}: {error}");
        }
    }
}
