//! Streams whose events have names, as `/v1/responses` and `/v1/messages` send them.

use serde_json::{Value, json};
use zinc_server::ServerOptions;

use crate::support::{Reply, Running};

/// A template that shows the model all that templates get, and nothing of it in a form in which calls or thoughts could stand.
pub(crate) const MIRROR: &str = "<|im_start|>user\n{{ {'messages': messages, 'tools': tools | default(none), \
     'thinking': enable_thinking | default(none), 'effort': reasoning_effort | default(none)} | tojson }}<|im_end|>\n\
     <|im_start|>assistant\n";

/// A server whose answers repeat what the template was given.
pub(crate) fn mirror() -> Running {
    let script = json!({ "template": MIRROR, "answers": [{ "text": "{last}" }] });
    Running::scripted(script, ServerOptions::new())
}

/// The data of the events of a stream. Each is checked to have the name that its data has as its type.
pub(crate) fn named_events(reply: &Reply) -> Vec<Value> {
    let text = reply.text();
    assert_eq!(reply.status, 200, "{text}");
    assert_eq!(reply.header("content-type"), Some("text/event-stream; charset=utf-8"));
    let mut events = Vec::new();
    for event in text.split_terminator("\n\n") {
        let lines: Vec<&str> = event.lines().collect();
        match lines.as_slice() {
            ["data: [DONE]"] => events.push(json!("[DONE]")),
            [name, data] => {
                let name = name.strip_prefix("event: ").unwrap_or_else(|| panic!("no name: {event}"));
                let data = data.strip_prefix("data: ").unwrap_or_else(|| panic!("no data: {event}"));
                let data: Value = serde_json::from_str(data).unwrap();
                assert_eq!(data["type"], name, "{event}");
                events.push(data);
            }
            _ => panic!("not one event: {event:?}"),
        }
    }
    events
}

/// The types of events, where several of one type behind each other count once.
pub(crate) fn types(events: &[Value]) -> Vec<&str> {
    let mut types: Vec<&str> = events.iter().map(|event| event["type"].as_str().unwrap_or("[DONE]")).collect();
    types.dedup();
    types
}

/// A value without what is another in each answer: ids and times.
pub(crate) fn without_ids(mut value: Value) -> Value {
    match &mut value {
        Value::Object(fields) => {
            fields
                .retain(|name, _| !["id", "call_id", "item_id", "created_at", "completed_at"].contains(&name.as_str()));
            fields.values_mut().for_each(|field| *field = without_ids(field.take()));
        }
        Value::Array(values) => values.iter_mut().for_each(|value| *value = without_ids(value.take())),
        _ => {}
    }
    value
}
