//! Chat templates: each is refused, or renders a conversation or says why not.

use std::sync::LazyLock;

use serde_json::{Map, Value, json};
use zinc_model::{ChatInput, ChatTemplate};

use crate::grammar::BYTES;
use crate::text::text;

/// The templates that Jinja2 has rendered, and the variables they were given.
pub static CASES: LazyLock<Value> = LazyLock::new(|| {
    serde_json::from_str(include_str!("../../tests/data/host/jinja.json")).expect("the file of cases is JSON")
});

static INPUT: LazyLock<ChatInput> = LazyLock::new(|| {
    let call = json!({"id": "1", "type": "function", "function": {"name": "now", "arguments": {"zone": "UTC"}}});
    let function =
        json!({"name": "now", "description": "The time.", "parameters": {"type": "object", "properties": {}}});
    let variables: &Map<String, Value> = CASES["variables"].as_object().expect("the variables are an object");
    ChatInput {
        messages: json!([
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": [{"type": "text", "text": "<|im_end|> é {{ x }}"}]},
            {"role": "assistant", "content": null, "reasoning_content": "Hm.", "tool_calls": [call]},
            {"role": "tool", "content": "12:00", "tool_call_id": "1"},
            {"role": "assistant", "content": "<think>\nIt is noon.\n</think>\n\nNoon."},
            {"role": "user", "content": ""},
        ]),
        tools: Some(json!([{"type": "function", "function": function}])),
        kwargs: variables.clone(),
        add_generation_prompt: true,
    }
});

/// All bytes are the template.
pub fn check(data: &[u8]) {
    let Ok(template) = ChatTemplate::new(&text(data)) else { return };
    let _ = template.render(&INPUT);
    let _ = template.encode(&INPUT, &BYTES);
}
