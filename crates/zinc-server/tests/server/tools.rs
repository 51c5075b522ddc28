//! Thoughts and calls of tools through the whole server.

use serde_json::{Value, json};
use zinc_server::{ReasoningField, ServerOptions};

use crate::support::Running;

const PATH: &str = "/v1/chat/completions";

fn tools() -> Value {
    let parameters = json!({ "type": "object", "properties": { "city": { "type": "string" } }, "required": ["city"] });
    json!([{ "type": "function", "function": { "name": "weather", "description": "The weather.", "parameters": parameters } }])
}

fn server() -> Running {
    let call = |city: &str| json!({ "name": "weather", "arguments": { "city": city } });
    let script = json!({ "answers": [
        { "when": "both", "tool_calls": [call("Ulm"), call("Bern")], "piece_chars": 3 },
        { "after_tool": true, "text": "It rains." },
        { "reasoning": "I need a tool.", "text": "I look. ", "tool_calls": [call("Ulm")], "piece_chars": 4 },
    ] });
    Running::scripted(script, ServerOptions::new())
}

fn ask(content: &str, more: Value) -> Value {
    let mut body = json!({ "messages": [{ "role": "user", "content": content }], "tools": tools() });
    let Value::Object(more) = more else { panic!("{more} is no object") };
    body.as_object_mut().unwrap().extend(more);
    body
}

#[test]
fn a_call_comes_whole_with_the_thought_before_it() {
    let reply = server().post(PATH, &ask("How is it?", json!({}))).json();
    let choice = &reply["choices"][0];
    let message = &choice["message"];
    assert_eq!(choice["finish_reason"], "tool_calls");
    assert_eq!((&message["reasoning_content"], &message["content"]), (&json!("I need a tool."), &json!("I look.")));
    let call = &message["tool_calls"][0];
    assert!(call["id"].as_str().unwrap().starts_with("call_"));
    assert_eq!((&call["type"], &call["function"]["name"]), (&json!("function"), &json!("weather")));
    let arguments: Value = serde_json::from_str(call["function"]["arguments"].as_str().unwrap()).unwrap();
    assert_eq!(arguments, json!({ "city": "Ulm" }));
    assert!(reply["usage"]["completion_tokens_details"]["reasoning_tokens"].as_u64().unwrap() > 2, "{reply}");
}

#[test]
fn calls_come_in_events() {
    let events = server().events(PATH, &ask("both", json!({ "stream": true })));
    let mut calls: Vec<(String, String, String)> = Vec::new();
    for event in &events {
        let Some(delta) = event["choices"][0]["delta"]["tool_calls"].as_array() else { continue };
        assert_eq!(delta.len(), 1);
        let index = delta[0]["index"].as_u64().unwrap() as usize;
        if index == calls.len() {
            assert_eq!(delta[0]["type"], "function");
            let name = delta[0]["function"]["name"].as_str().unwrap().to_owned();
            calls.push((delta[0]["id"].as_str().unwrap().to_owned(), name, String::new()));
        } else {
            let function = delta[0]["function"].as_object().unwrap();
            assert!(delta[0].get("id").is_none() && function.len() == 1, "{event}");
        }
        calls[index].2.push_str(delta[0]["function"]["arguments"].as_str().unwrap());
    }
    let said: Vec<(&str, Value)> =
        calls.iter().map(|(_, name, text)| (name.as_str(), serde_json::from_str(text).unwrap())).collect();
    assert_eq!(said, [("weather", json!({ "city": "Ulm" })), ("weather", json!({ "city": "Bern" }))]);
    assert_ne!(calls[0].0, calls[1].0);
    assert_eq!(events[events.len() - 2]["choices"][0]["finish_reason"], "tool_calls");
}

#[test]
fn one_call_ends_the_answer_where_there_is_to_be_no_other() {
    let reply = server().post(PATH, &ask("both", json!({ "parallel_tool_calls": false }))).json();
    let choice = &reply["choices"][0];
    assert_eq!(choice["message"]["tool_calls"].as_array().unwrap().len(), 1);
    assert_eq!(choice["finish_reason"], "tool_calls");
}

#[test]
fn the_result_of_a_call_is_answered() {
    let mut body = ask("How is it?", json!({}));
    let messages = body["messages"].as_array_mut().unwrap();
    let call = json!({ "id": "call_1", "type": "function", "function": { "name": "weather", "arguments": "{\"city\": \"Ulm\"}" } });
    messages.push(json!({ "role": "assistant", "content": null, "reasoning_content": "Hm.", "tool_calls": [call] }));
    messages.push(json!({ "role": "tool", "tool_call_id": "call_1", "content": "rain" }));
    let server = server();
    let reply = server.post(PATH, &body);
    assert_eq!(reply.header("x-zinc-ignored"), None);
    let reply = reply.json();
    assert_eq!(
        (&reply["choices"][0]["message"]["content"], &reply["choices"][0]["finish_reason"]),
        (&json!("It rains."), &json!("stop"))
    );
    let prompt = server.post("/apply-template", &body).json()["prompt"].as_str().unwrap().to_owned();
    assert!(
        prompt.contains("<think>\nHm.\n</think>") && prompt.contains("\"arguments\": {\"city\": \"Ulm\"}"),
        "{prompt}"
    );
}

#[test]
fn report_02_any_beginning_of_an_answer_is_a_legal_reply() {
    let server = server();
    for most in 0..30 {
        let reply = server.post(PATH, &ask("How is it?", json!({ "max_tokens": most })));
        assert_eq!(reply.status, 200, "{}", reply.text());
        let choice = &reply.json()["choices"][0];
        let calls = choice["message"]["tool_calls"].as_array().map_or(0, Vec::len);
        let finish = choice["finish_reason"].as_str().unwrap();
        assert!(finish == "length" || (calls == 1 && finish == "tool_calls"), "{most}: {choice}");
        // Thinking that is cut stays thinking.
        assert!(!choice["message"]["content"].as_str().unwrap_or_default().contains("need"), "{most}: {choice}");
    }
}

#[test]
fn report_11_a_stop_string_in_a_thought_or_a_call_ends_nothing() {
    let reply = server().post(PATH, &ask("How is it?", json!({ "stop": ["need", "Ulm"] }))).json();
    assert_eq!(reply["choices"][0]["finish_reason"], "tool_calls");
    assert_eq!(reply["choices"][0]["message"]["reasoning_content"], "I need a tool.");
    let reply = server().post(PATH, &ask("How is it?", json!({ "stop": "look" }))).json();
    assert_eq!(
        (&reply["choices"][0]["finish_reason"], &reply["choices"][0]["message"]["content"]),
        (&json!("stop"), &json!("I "))
    );
}

#[test]
fn thoughts_can_be_left_in_the_content() {
    let body = ask("How is it?", json!({ "reasoning_format": "none", "tool_choice": "none" }));
    let reply = server().post(PATH, &body).json();
    let content = reply["choices"][0]["message"]["content"].as_str().unwrap();
    assert!(content.starts_with("<think>\nI need a tool.\n</think>") && content.contains("<tool_call>"), "{content}");
}

/// The content, `reasoning_content` and `reasoning` of an answer, whole and put together from its stream; they must be equal.
fn thoughts(server: &Running, body: &Value) -> [String; 3] {
    const FIELDS: [&str; 3] = ["content", "reasoning_content", "reasoning"];
    let reply = server.post(PATH, body).json();
    let whole = FIELDS.map(|field| reply["choices"][0]["message"][field].as_str().unwrap_or_default().to_owned());
    let mut streamed = body.clone();
    streamed["stream"] = json!(true);
    let events = server.events(PATH, &streamed);
    let joined = FIELDS.map(|field| -> String {
        events.iter().map(|event| event["choices"][0]["delta"][field].as_str().unwrap_or_default()).collect()
    });
    assert_eq!(whole, joined);
    whole
}

#[test]
fn thoughts_are_where_the_format_says_and_calls_are_told_apart_everywhere() {
    const THOUGHT: &str = "I need a tool.";
    let tagged = format!("<think>\n{THOUGHT}\n</think>\n\n");
    for (format, in_content, in_field) in
        [("auto", false, true), ("deepseek", false, true), ("deepseek-legacy", true, true), ("none", true, false)]
    {
        let body = ask("How is it?", json!({ "reasoning_format": format }));
        let [content, field, other] = thoughts(&server(), &body);
        assert_eq!(content.starts_with(&tagged), in_content, "{format}: {content}");
        assert_eq!(content.contains(THOUGHT), in_content, "{format}: {content}");
        assert_eq!((field == THOUGHT, other.as_str()), (in_field, ""), "{format}");
        let reply = server().post(PATH, &body).json();
        assert_eq!(reply["choices"][0]["message"]["tool_calls"][0]["function"]["name"], "weather", "{format}");
    }
    // A thought that is cut off has no end.
    let cut = ask("How is it?", json!({ "reasoning_format": "deepseek-legacy", "max_tokens": 4 }));
    let [content, field, _] = thoughts(&server(), &cut);
    assert_eq!(content, format!("<think>\n{field}"));
    assert!(!field.is_empty() && THOUGHT.starts_with(&field), "{field}");
    let wrong = server().post(PATH, &ask("How is it?", json!({ "reasoning_format": "loud" })));
    assert_eq!((wrong.status, &wrong.json()["error"]["param"]), (400, &json!("reasoning_format")));
}

#[test]
fn report_10_the_field_of_thoughts_has_the_name_that_the_server_was_told() {
    let answer = json!({ "reasoning": "I wonder.", "text": "Yes." });
    for (field, names) in [
        (ReasoningField::ReasoningContent, ["I wonder.", ""]),
        (ReasoningField::Reasoning, ["", "I wonder."]),
        (ReasoningField::Both, ["I wonder.", "I wonder."]),
    ] {
        let mut options = ServerOptions::new();
        options.reasoning_field = field;
        let server = Running::scripted(json!({ "answers": [answer] }), options);
        let body = json!({ "messages": [{ "role": "user", "content": "Hi" }] });
        let [content, one, other] = thoughts(&server, &body);
        assert_eq!((content.as_str(), [one.as_str(), other.as_str()]), ("Yes.", names), "{field:?}");
    }
}

#[test]
fn calls_reach_clients_of_ollama() {
    let body = json!({ "messages": [{ "role": "user", "content": "How is it?" }], "tools": tools() });
    let text = server().post("/api/chat", &body).text();
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let call = lines.iter().find(|line| line["message"].get("tool_calls").is_some()).unwrap();
    assert_eq!(call["message"]["tool_calls"][0]["function"]["arguments"], json!({ "city": "Ulm" }));
    let thought: String = lines.iter().map(|line| line["message"]["thinking"].as_str().unwrap_or_default()).collect();
    assert_eq!(thought, "I need a tool.");
}
