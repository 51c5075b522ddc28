//! The blocks of a request's messages, and the messages that they are.

use std::collections::HashMap;

use serde::Deserialize;
use serde_json::Value;
use utoipa::ToSchema;

use crate::api::parts::TextOrParts;
use crate::body::Ignored;
use crate::core::{Message, Role, ToolCall};
use crate::error::{ApiError, ApiResult};

/// What the block begins with in which Claude Code sends a number that is another in each request. A prompt that has it is never in the cache.
const BILLING: &str = "x-anthropic-billing-header";

/// A message.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = AnthropicMessageField)]
pub(super) struct MessageField {
    role: RoleField,
    content: TextOrParts<BlockField>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, ToSchema)]
#[schema(as = AnthropicRoleField)]
#[serde(rename_all = "lowercase")]
enum RoleField {
    User,
    Assistant,
    System,
}

/// A block of a content. Its type says which of the fields it has.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = AnthropicBlockField)]
pub(super) struct BlockField {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    text: Option<String>,
    #[serde(default)]
    thinking: Option<String>,
    #[serde(default)]
    id: Option<String>,
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    input: Option<Value>,
    #[serde(default)]
    tool_use_id: Option<String>,
    #[serde(default)]
    content: Option<TextOrParts<ResultField>>,
    #[serde(default)]
    source: Option<SourceField>,
}

/// A block of the result of a tool.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = AnthropicResultField)]
pub(super) struct ResultField {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    text: Option<String>,
}

/// Where the content of a document is.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = AnthropicSourceField)]
struct SourceField {
    #[serde(rename = "type", default)]
    kind: Option<String>,
    #[serde(default)]
    data: Option<String>,
}

/// The text of what the model is told before the conversation, without blocks for billing.
///
/// # Errors
/// What is not text.
pub(super) fn system(field: TextOrParts<BlockField>) -> ApiResult<Option<String>> {
    let text = match field {
        TextOrParts::Text(text) => without_billing(&text).to_owned(),
        TextOrParts::Parts(blocks) => {
            let mut texts = Vec::new();
            for (at, block) in blocks.into_iter().enumerate() {
                let param = format!("system[{at}]");
                match (block.kind.as_str(), block.text) {
                    ("text", Some(text)) if text.starts_with(BILLING) => {}
                    ("text", Some(text)) => texts.push(text),
                    ("text", None) => return Err(ApiError::invalid(param, "a block of type text needs its text")),
                    (kind, _) => return Err(unsupported(param, kind)),
                }
            }
            texts.join("\n\n")
        }
        TextOrParts::Other => return Err(ApiError::invalid("system", "system is neither a text nor a list of blocks")),
    };
    Ok(Some(text).filter(|text| !text.is_empty()))
}

/// A text without its first line if that is for billing.
fn without_billing(text: &str) -> &str {
    if text.starts_with(BILLING) { text.split_once('\n').map_or("", |(_, rest)| rest.trim_start()) } else { text }
}

/// The messages of a conversation.
///
/// # Errors
/// A message that lacks what it needs, or has what this server cannot read.
pub(super) fn messages(
    system: Option<String>,
    fields: Vec<MessageField>,
    ignored: &mut Ignored,
) -> ApiResult<Vec<Message>> {
    let mut messages: Vec<Message> = system.map(|text| Message::new(Role::System, text)).into_iter().collect();
    let mut names = HashMap::new();
    for (index, MessageField { role, content }) in fields.into_iter().enumerate() {
        let blocks = match content {
            TextOrParts::Text(text) => {
                messages.push(Message::new(role.into(), text));
                continue;
            }
            TextOrParts::Parts(blocks) => blocks,
            TextOrParts::Other => {
                let message = "a content is neither a text nor a list of blocks";
                return Err(ApiError::invalid(format!("messages[{index}].content"), message));
            }
        };
        let mut reader = Reader { index, names: &mut names, ignored };
        match role {
            RoleField::Assistant => messages.push(reader.assistant(blocks)?),
            RoleField::User | RoleField::System => reader.user(role.into(), blocks, &mut messages)?,
        }
    }
    Ok(messages)
}

impl From<RoleField> for Role {
    fn from(role: RoleField) -> Self {
        match role {
            RoleField::User => Self::User,
            RoleField::Assistant => Self::Assistant,
            RoleField::System => Self::System,
        }
    }
}

/// Reads the blocks of one message.
struct Reader<'a> {
    /// The place of the message.
    index: usize,
    /// The names of called tools by the ids of the calls.
    names: &'a mut HashMap<String, String>,
    ignored: &'a mut Ignored,
}

impl Reader<'_> {
    /// What the model thought, said and called is one message.
    fn assistant(&mut self, blocks: Vec<BlockField>) -> ApiResult<Message> {
        let (mut texts, mut thoughts) = (Vec::new(), Vec::new());
        let mut tool_calls = Vec::new();
        for (at, block) in blocks.into_iter().enumerate() {
            match block.kind.as_str() {
                "text" => texts.push(self.needed(at, "text", block.text)?),
                "thinking" => thoughts.push(self.needed(at, "thinking", block.thinking)?),
                "tool_use" => {
                    let id = self.needed(at, "id", block.id)?;
                    let name = self.needed(at, "name", block.name)?;
                    let arguments = block.input.map_or_else(|| "{}".to_owned(), |input| input.to_string());
                    self.names.insert(id.clone(), name.clone());
                    tool_calls.push(ToolCall { id, name, arguments });
                }
                kind => self.other(at, kind)?,
            }
        }
        let content = (!texts.is_empty() || tool_calls.is_empty()).then(|| texts.join("\n"));
        let reasoning = Some(thoughts.join("\n")).filter(|thoughts| !thoughts.is_empty());
        Ok(Message { content, reasoning, tool_calls, ..Message::new(Role::Assistant, "") })
    }

    /// Each result of a tool is a message of its own, and so is the text between them.
    fn user(&mut self, role: Role, blocks: Vec<BlockField>, messages: &mut Vec<Message>) -> ApiResult<()> {
        let mut texts = Vec::new();
        let from = messages.len();
        for (at, block) in blocks.into_iter().enumerate() {
            match block.kind.as_str() {
                "text" => texts.push(self.needed(at, "text", block.text)?),
                "document" => texts.push(self.document(at, block.source)?),
                "tool_result" => {
                    let id = self.needed(at, "tool_use_id", block.tool_use_id)?;
                    let text = self.result(at, block.content)?;
                    say(role, &mut texts, messages);
                    let name = self.names.get(&id).cloned();
                    messages.push(Message { tool_call_id: Some(id), name, ..Message::new(Role::Tool, text) });
                }
                kind => self.other(at, kind)?,
            }
        }
        say(role, &mut texts, messages);
        if messages.len() == from {
            messages.push(Message::new(role, ""));
        }
        Ok(())
    }

    /// The text of a tool's result, which may be without any.
    fn result(&mut self, at: usize, content: Option<TextOrParts<ResultField>>) -> ApiResult<String> {
        let blocks = match content {
            None => return Ok(String::new()),
            Some(TextOrParts::Text(text)) => return Ok(text),
            Some(TextOrParts::Parts(blocks)) => blocks,
            Some(TextOrParts::Other) => {
                let message = "the content of a result is neither a text nor a list of blocks";
                return Err(ApiError::invalid(format!("{}.content", self.param(at)), message));
            }
        };
        let mut texts = Vec::new();
        for (place, ResultField { kind, text }) in blocks.into_iter().enumerate() {
            let param = format!("{}.content[{place}]", self.param(at));
            match (kind.as_str(), text) {
                ("text", Some(text)) => texts.push(text),
                ("text", None) => return Err(ApiError::invalid(param, "a block of type text needs its text")),
                ("image" | "document", _) => return Err(unsupported(param, &kind)),
                _ => {
                    let path = format!("messages.{}.content.{at}.content.{place}", self.index);
                    self.ignored.add_whole(&path, &kind);
                }
            }
        }
        Ok(texts.join("\n"))
    }

    fn document(&self, at: usize, source: Option<SourceField>) -> ApiResult<String> {
        match source {
            Some(SourceField { kind: Some(kind), data: Some(text) }) if kind == "text" => Ok(text),
            _ => Err(unsupported(self.param(at), "document")),
        }
    }

    /// A block that is neither text nor a call: what the model would have to see is refused, and the rest is ignored by name.
    fn other(&mut self, at: usize, kind: &str) -> ApiResult<()> {
        match kind {
            // Thoughts that another server has encrypted are nothing to this one.
            "redacted_thinking" => Ok(()),
            "image" | "document" | "tool_use" | "tool_result" | "thinking" => Err(unsupported(self.param(at), kind)),
            _ => {
                self.ignored.add_whole(&format!("messages.{}.content.{at}", self.index), kind);
                Ok(())
            }
        }
    }

    fn needed(&self, at: usize, field: &str, value: Option<String>) -> ApiResult<String> {
        value.ok_or_else(|| {
            ApiError::invalid(format!("{}.{field}", self.param(at)), format!("the block needs its {field}"))
        })
    }

    /// The path of a block.
    fn param(&self, at: usize) -> String {
        format!("messages[{}].content[{at}]", self.index)
    }
}

/// Adds a message of the texts so far, if there are any.
fn say(role: Role, texts: &mut Vec<String>, messages: &mut Vec<Message>) {
    if !texts.is_empty() {
        messages.push(Message::new(role, texts.join("\n")));
        texts.clear();
    }
}

fn unsupported(param: String, kind: &str) -> ApiError {
    let message = format!("blocks of type {kind:?} are not supported here; this model reads text alone");
    ApiError::invalid(param, message)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::body::{Fields, NoFields};

    #[derive(Deserialize)]
    struct Body {
        #[serde(default)]
        system: Option<TextOrParts<BlockField>>,
        messages: Vec<MessageField>,
    }

    fn read(body: &Value) -> ApiResult<Vec<Message>> {
        let Fields { own, mut ignored, .. } = Fields::<Body, NoFields>::parse(body.to_string().as_bytes())?;
        messages(own.system.map_or(Ok(None), system)?, own.messages, &mut ignored)
    }

    fn system_text(system: &Value) -> Option<String> {
        let read = read(&json!({ "system": system, "messages": [] })).unwrap();
        read.into_iter().next().and_then(|message| message.content)
    }

    #[test]
    fn what_is_for_billing_is_dropped() {
        let header = "x-anthropic-billing-header: cc_version=2.1.0; cc_entrypoint=cli; cch=4f1c2;";
        let block = |text: &str| json!({ "type": "text", "text": text });
        assert_eq!(system_text(&json!([block(header), block("A"), block("B")])).as_deref(), Some("A\n\nB"));
        assert_eq!(system_text(&json!([block(header)])), None);
        assert_eq!(system_text(&json!(format!("{header}\n\nA"))).as_deref(), Some("A"));
        assert_eq!(system_text(&json!(header)), None);
        assert_eq!(system_text(&json!("A")).as_deref(), Some("A"));
    }

    #[test]
    fn blocks_become_messages() {
        let body = json!({ "messages": [
            { "role": "user", "content": "Hi" },
            { "role": "assistant", "content": [
                { "type": "thinking", "thinking": "Look.", "signature": "s" },
                { "type": "redacted_thinking", "data": "x" },
                { "type": "text", "text": "I look." },
                { "type": "tool_use", "id": "1", "name": "ls", "input": { "path": "." } },
                { "type": "tool_use", "id": "2", "name": "ls", "input": {} },
            ] },
            { "role": "user", "content": [
                { "type": "tool_result", "tool_use_id": "1", "content": "a" },
                { "type": "tool_result", "tool_use_id": "2", "content": [
                    { "type": "text", "text": "b" }, { "type": "text", "text": "c" },
                ] },
                { "type": "text", "text": "Go" },
                { "type": "text", "text": "on." },
            ] },
            { "role": "user", "content": [{ "type": "tool_result", "tool_use_id": "3", "is_error": true }] },
        ] });
        let result = |id: &str, name: Option<&str>, text: &str| Message {
            tool_call_id: Some(id.to_owned()),
            name: name.map(str::to_owned),
            ..Message::new(Role::Tool, text)
        };
        let call = |id: &str, arguments: &str| ToolCall {
            id: id.to_owned(),
            name: "ls".to_owned(),
            arguments: arguments.to_owned(),
        };
        let expected = [
            Message::new(Role::User, "Hi"),
            Message {
                reasoning: Some("Look.".to_owned()),
                tool_calls: vec![call("1", r#"{"path":"."}"#), call("2", "{}")],
                ..Message::new(Role::Assistant, "I look.")
            },
            result("1", Some("ls"), "a"),
            result("2", Some("ls"), "b\nc"),
            Message::new(Role::User, "Go\non."),
            result("3", None, ""),
        ];
        assert_eq!(read(&body).unwrap(), expected);
    }

    #[test]
    fn text_before_a_result_stays_before_it() {
        let body = json!({ "messages": [{ "role": "user", "content": [
            { "type": "text", "text": "See" }, { "type": "tool_result", "tool_use_id": "1", "content": "a" },
        ] }] });
        let roles: Vec<Role> = read(&body).unwrap().iter().map(|message| message.role).collect();
        assert_eq!(roles, [Role::User, Role::Tool]);
    }

    #[test]
    fn what_is_wrong_is_named() {
        let user = |block: Value| json!([{ "role": "user", "content": [block] }]);
        let image = json!({ "type": "image", "source": { "type": "base64", "data": "x" } });
        let result = json!({ "type": "tool_result", "tool_use_id": "1", "content": [image] });
        for (messages, param) in [
            (json!([{ "role": "king", "content": "x" }]), "messages[0].role"),
            (json!([{ "role": "user" }]), "messages[0].content"),
            (json!([{ "role": "user", "content": 1 }]), "messages[0].content"),
            (user(image), "messages[0].content[0]"),
            (user(result), "messages[0].content[0].content[0]"),
            (user(json!({ "type": "document", "source": { "type": "url" } })), "messages[0].content[0]"),
            (user(json!({ "type": "text" })), "messages[0].content[0].text"),
            (user(json!({ "type": "tool_result" })), "messages[0].content[0].tool_use_id"),
            (user(json!({ "type": "tool_use", "id": "1", "name": "f" })), "messages[0].content[0]"),
            (json!([{ "role": "assistant", "content": [{ "type": "tool_use" }] }]), "messages[0].content[0].id"),
        ] {
            let error = read(&json!({ "messages": messages })).unwrap_err();
            assert_eq!(error.param.as_deref(), Some(param), "{messages}: {error}");
        }
    }
}
