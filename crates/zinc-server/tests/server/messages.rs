//! `POST /v1/messages` and `/v1/messages/count_tokens`: what comes, in which order, and what is refused. Tests with numbers are reports of users of
//! other servers.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::{Value, json};
use zinc_server::ServerOptions;
use zinc_server::auth::Keys;

use crate::named::{mirror, named_events, types, without_ids};
use crate::support::{Reply, Running, endless, leaving_frees_the_lane};

const PATH: &str = "/v1/messages";
const COUNT: &str = "/v1/messages/count_tokens";

fn ask(more: Value) -> Value {
    let mut body = json!({ "model": "any", "max_tokens": 1000, "messages": [{ "role": "user", "content": "Hi" }] });
    let Value::Object(more) = more else { panic!("no fields: {more}") };
    body.as_object_mut().unwrap().extend(more);
    body
}

fn tools() -> Value {
    let schema = json!({ "type": "object", "properties": { "path": { "type": "string" } } });
    json!([{ "name": "ls", "description": "Lists files.", "input_schema": schema }])
}

/// An answer that thinks, says something and calls a tool.
fn full_answer() -> Value {
    json!({
        "reasoning": "The user wants files.",
        "text": "I look.",
        "tool_calls": [{ "name": "ls", "arguments": { "path": "src/ü" } }],
        "piece_chars": 3,
    })
}

fn stream(server: &Running, body: &Value) -> Vec<Value> {
    let mut body = body.clone();
    body["stream"] = json!(true);
    named_events(&server.post(PATH, &body))
}

/// The message that the events of a stream make, put together as clients do it.
fn put_together(events: &[Value]) -> Value {
    let [start, blocks @ .., end, stop] = events else { panic!("{events:?}") };
    assert_eq!((&start["type"], &stop), (&json!("message_start"), &&json!({ "type": "message_stop" })));
    let mut message = start["message"].clone();
    let mut content = Vec::new();
    let mut inputs = String::new();
    for event in blocks {
        let kind = event["type"].as_str().unwrap();
        let index = usize::try_from(event["index"].as_u64().unwrap()).unwrap();
        assert_eq!(index + usize::from(kind != "content_block_start"), content.len(), "{event}");
        match kind {
            "content_block_start" => {
                content.push(event["content_block"].clone());
                inputs.clear();
            }
            "content_block_delta" => {
                let delta = &event["delta"];
                let (field, name) = match delta["type"].as_str().unwrap() {
                    "text_delta" => ("text", "text"),
                    "thinking_delta" => ("thinking", "thinking"),
                    "signature_delta" => ("signature", "signature"),
                    "input_json_delta" => ("partial_json", "input"),
                    other => panic!("{other}"),
                };
                let more = delta[field].as_str().unwrap();
                assert!(!more.is_empty(), "{event}");
                if name == "input" {
                    inputs.push_str(more);
                } else {
                    let so_far = content[index][name].as_str().unwrap();
                    content[index][name] = json!(format!("{so_far}{more}"));
                }
            }
            "content_block_stop" => {
                if content[index]["type"] == "tool_use" && !inputs.is_empty() {
                    // What was cut off is none.
                    content[index]["input"] = serde_json::from_str(&inputs).unwrap_or(Value::Null);
                }
            }
            other => panic!("{other}"),
        }
    }
    message["content"] = json!(content);
    for field in ["stop_reason", "stop_sequence", "stop_details", "container"] {
        message[field] = end["delta"][field].clone();
    }
    message["usage"] = end["usage"].clone();
    message
}

/// The message, unstreamed. It is checked to be what the stream says.
fn answer(server: &Running, body: &Value) -> Value {
    let reply = server.post(PATH, body);
    assert_eq!((reply.status, reply.header("content-type")), (200, Some("application/json")), "{}", reply.text());
    let whole = reply.json();
    let mut expected = without_ids(whole.clone());
    let streamed = without_ids(put_together(&stream(server, body)));
    for (index, block) in streamed["content"].as_array().unwrap().iter().enumerate() {
        if block["input"].is_null() && block["type"] == "tool_use" {
            // The stream has the text of arguments that were cut off, and the message has as much of the object as is whole.
            assert!(expected["content"][index]["input"].is_object());
            expected["content"][index]["input"] = Value::Null;
        }
    }
    assert_eq!(streamed, expected, "{body}");
    whole
}

fn kinds(message: &Value) -> Vec<&str> {
    message["content"].as_array().unwrap().iter().map(|block| block["type"].as_str().unwrap()).collect()
}

/// What the template was given, as the answer of a mirror says it.
fn mirrored(reply: &Reply) -> Value {
    let message = if reply.header("content-type") == Some("application/json") {
        reply.json()
    } else {
        put_together(&named_events(reply))
    };
    serde_json::from_str(message["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{message}"))).unwrap()
}

/// A block of text without sources.
fn text_block(text: &str) -> Value {
    json!({ "type": "text", "text": text, "citations": null })
}

#[test]
fn an_answer_comes_whole() {
    let server = Running::saying(json!({ "text": "Hello there." }));
    let message = answer(&server, &ask(json!({})));
    assert!(message["id"].as_str().unwrap().starts_with("msg_"), "{message}");
    let usage = message["usage"].clone();
    let expected = json!({
        "type": "message", "role": "assistant", "model": "fake", "content": [text_block("Hello there.")],
        "stop_reason": "end_turn", "stop_sequence": null, "stop_details": null, "container": null, "usage": usage,
    });
    assert_eq!(without_ids(message), expected);
    assert!(usage["input_tokens"].as_u64().unwrap() > 0);
    assert_eq!(usage["output_tokens"], 2);
    assert_eq!(usage["output_tokens_details"], json!({ "thinking_tokens": 0 }));
    // Anthropic's schema has these among the fields that are always there.
    for field in ["cache_creation", "inference_geo", "server_tool_use", "service_tier"] {
        assert_eq!(usage.get(field), Some(&Value::Null), "{field}");
    }
    assert_eq!((&usage["cache_read_input_tokens"], &usage["cache_creation_input_tokens"]), (&json!(0), &json!(0)));
}

#[test]
fn an_answer_comes_in_events() {
    let server = Running::saying(json!({ "text": "Hello there, you." }));
    let events = stream(&server, &ask(json!({})));
    let expected = [
        "message_start",
        "content_block_start",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
    ];
    assert_eq!(types(&events), expected);
    let start = &events[0]["message"];
    for (field, value) in [
        ("type", json!("message")),
        ("role", json!("assistant")),
        ("content", json!([])),
        ("stop_reason", json!(null)),
        ("stop_sequence", json!(null)),
    ] {
        assert_eq!(start.get(field), Some(&value), "{field}");
    }
    assert!(start["id"].is_string() && start["usage"]["input_tokens"].as_u64().unwrap() > 0, "{start}");
    assert_eq!(start["usage"]["output_tokens"], 0);
    assert_eq!(events[1]["content_block"], text_block(""));
    let end = &events[events.len() - 2];
    let stop = json!({ "stop_reason": "end_turn", "stop_sequence": null, "stop_details": null, "container": null });
    assert_eq!(end["delta"], stop);
    assert_eq!(end["usage"]["output_tokens"], 3);
    assert!(events.iter().all(|event| event.get("timings").is_none()));
}

#[test]
fn thoughts_and_calls_are_blocks_of_their_own() {
    let server = Running::saying(full_answer());
    let message = answer(&server, &ask(json!({ "tools": tools() })));
    assert!(message["content"][2]["id"].as_str().unwrap().starts_with("toolu_"));
    let expected = json!([
        { "type": "thinking", "thinking": "The user wants files.", "signature": "zinc" },
        text_block("I look."),
        { "type": "tool_use", "name": "ls", "caller": { "type": "direct" }, "input": { "path": "src/ü" } },
    ]);
    assert_eq!(without_ids(message["content"].clone()), expected);
    assert_eq!((&message["stop_reason"], &message["stop_sequence"]), (&json!("tool_use"), &json!(null)));
    let events = stream(&server, &ask(json!({ "tools": tools() })));
    let starts: Vec<&Value> = events.iter().filter_map(|event| event.get("content_block")).collect();
    assert_eq!(
        without_ids(json!(starts[2])),
        json!({ "type": "tool_use", "name": "ls", "caller": { "type": "direct" }, "input": {} })
    );
    assert_eq!(starts[0], &json!({ "type": "thinking", "thinking": "", "signature": "" }));
}

#[test]
fn what_ends_a_message_is_told() {
    let server = Running::saying(json!({ "text": "one two three", "piece_chars": 2 }));
    let message = answer(&server, &ask(json!({ "stop_sequences": ["zzz", " th"] })));
    assert_eq!((&message["stop_reason"], &message["stop_sequence"]), (&json!("stop_sequence"), &json!(" th")));
    assert_eq!(message["content"], json!([text_block("one two")]));
    let message = answer(&server, &ask(json!({ "max_tokens": 2 })));
    assert_eq!((&message["stop_reason"], &message["content"][0]["text"]), (&json!("max_tokens"), &json!("one ")));
}

#[test]
fn report_02_and_03_every_beginning_of_an_answer_is_a_message() {
    let server = Running::saying(full_answer());
    let mut reasons = BTreeSet::new();
    for most in 1..60 {
        let message = answer(&server, &ask(json!({ "tools": tools(), "max_tokens": most })));
        reasons.insert(message["stop_reason"].as_str().unwrap().to_owned());
        for block in message["content"].as_array().unwrap() {
            if block["type"] == "tool_use" {
                let path = block["input"].get("path").map_or("", |path| path.as_str().unwrap());
                assert!("src/ü".starts_with(path), "{block}");
            }
        }
    }
    assert_eq!(reasons, BTreeSet::from(["max_tokens".to_owned(), "tool_use".to_owned()]));
}

#[test]
fn report_06_streamed_and_unstreamed_answers_are_the_same() {
    for chars in [1, 2, 5, 100] {
        let mut other = full_answer();
        other["piece_chars"] = json!(chars);
        let first = answer(&Running::saying(full_answer()), &ask(json!({ "tools": tools() })));
        let other = answer(&Running::saying(other), &ask(json!({ "tools": tools() })));
        assert_eq!(without_ids(first["content"].clone()), without_ids(other["content"].clone()), "{chars}");
    }
}

#[test]
fn report_01_and_07_what_is_no_call_is_text() {
    for text in ["<tool_call>\nnot JSON\n</tool_call>", "Done.</think>", "<tool_call>"] {
        let server = Running::saying(json!({ "text": text }));
        let message = answer(&server, &ask(json!({ "tools": tools() })));
        assert_eq!((&message["content"], &message["stop_reason"]), (&json!([text_block(text)]), &json!("end_turn")));
    }
}

#[test]
fn report_08_thoughts_that_are_cut_off_stay_thoughts() {
    let server = Running::saying(json!({ "reasoning": "one two three four", "text": "Hello." }));
    let message = answer(&server, &ask(json!({ "max_tokens": 4 })));
    assert_eq!((kinds(&message), &message["stop_reason"]), (vec!["thinking"], &json!("max_tokens")));
}

#[test]
fn report_09_thinking_can_be_turned_off() {
    let server = Running::saying(json!({ "reasoning": "Well.", "text": "Hello." }));
    for (thinking, expected) in [
        (json!({ "type": "disabled" }), vec!["text"]),
        (json!({ "type": "enabled", "budget_tokens": 1024 }), vec!["thinking", "text"]),
        (json!({ "type": "adaptive" }), vec!["thinking", "text"]),
        (json!(null), vec!["thinking", "text"]),
    ] {
        assert_eq!(kinds(&answer(&server, &ask(json!({ "thinking": thinking })))), expected, "{thinking}");
    }
    let mirror = mirror();
    for (thinking, expected) in [
        (json!({ "type": "disabled" }), json!(false)),
        (json!({ "type": "enabled", "budget_tokens": 1024 }), json!(true)),
        (json!({ "type": "adaptive" }), json!(null)),
    ] {
        let reply = mirror.post(PATH, &ask(json!({ "thinking": thinking })));
        assert_eq!(mirrored(&reply)["thinking"], expected, "{thinking}");
    }
}

#[test]
fn report_10_thoughts_are_kept_through_a_tool_loop() {
    let message = answer(&Running::saying(full_answer()), &ask(json!({ "tools": tools() })));
    let result = json!({ "type": "tool_result", "tool_use_id": message["content"][2]["id"], "content": "main.rs" });
    let messages = json!([
        { "role": "user", "content": "Hi" },
        { "role": "assistant", "content": message["content"] },
        { "role": "user", "content": [result] },
    ]);
    let reply = mirror().post(PATH, &ask(json!({ "messages": messages, "tools": tools() })));
    assert_eq!(reply.header("x-zinc-ignored"), None);
    let seen = mirrored(&reply);
    assert_eq!(seen["messages"][1]["reasoning_content"], "The user wants files.");
    assert_eq!(seen["messages"][1]["tool_calls"][0]["function"]["arguments"], json!({ "path": "src/ü" }));
    assert_eq!((&seen["messages"][2]["role"], &seen["messages"][2]["name"]), (&json!("tool"), &json!("ls")));
    assert_eq!(seen["messages"][2]["tool_call_id"], message["content"][2]["id"]);
}

#[test]
fn report_11_a_stop_sequence_in_thoughts_ends_nothing() {
    let server = Running::saying(full_answer());
    let message = answer(&server, &ask(json!({ "tools": tools(), "stop_sequences": ["wants"] })));
    assert_eq!(kinds(&message), ["thinking", "text", "tool_use"]);
    let message = answer(&server, &ask(json!({ "tools": tools(), "stop_sequences": ["look"] })));
    assert_eq!((kinds(&message), &message["stop_sequence"]), (vec!["thinking", "text"], &json!("look")));
    assert_eq!(message["content"][1]["text"], "I ");
}

#[test]
fn report_16_a_schema_does_not_turn_thinking_off() {
    let server = Running::saying(json!({ "reasoning": "Well.", "text": "{\"a\": 1}" }));
    let format = json!({ "type": "json_schema", "schema": { "type": "object" } });
    for body in [json!({ "output_config": { "format": format } }), json!({ "output_format": format })] {
        assert_eq!(kinds(&answer(&server, &ask(body))), ["thinking", "text"]);
    }
}

#[test]
fn report_17_what_is_for_billing_is_dropped() {
    let mirror = mirror();
    let system = |nonce: &str| {
        let text = format!("x-anthropic-billing-header: cc_version=2.1.328; cc_entrypoint=cli; cch={nonce};");
        json!([{ "type": "text", "text": text }, { "type": "text", "text": "You are Claude Code." }])
    };
    let seen = |system: Value| mirrored(&mirror.post(PATH, &ask(json!({ "system": system }))))["messages"].clone();
    let expected = json!([
        { "role": "system", "content": "You are Claude Code." }, { "role": "user", "content": "Hi" },
    ]);
    for nonce in ["4f1c2", "00000000"] {
        assert_eq!(seen(system(nonce)), expected);
        let counted = mirror.post(COUNT, &ask(json!({ "system": system(nonce) }))).json();
        assert_eq!(counted, mirror.post(COUNT, &ask(json!({ "system": "You are Claude Code." }))).json());
    }
}

#[test]
fn report_35_the_requests_of_claude_code_are_taken() {
    let request: Value = serde_json::from_str(include_str!("requests/claude_code.json")).unwrap();
    let mirror = mirror();
    let path = format!("{PATH}?beta=true");
    let headers = [("anthropic-version", "2023-06-01"), ("anthropic-beta", "x"), ("x-api-key", "any")];
    let reply = mirror.send("POST", &path, &headers, request.to_string().as_bytes()).reply();
    let ignored = "context_management, tools.1 (web_search_20250305)";
    assert_eq!((reply.status, reply.header("x-zinc-ignored")), (200, Some(ignored)), "{}", reply.text());
    let seen = mirrored(&reply);
    let expected = json!([
        { "role": "system", "content": "You are Claude Code.\n\n# Environment\ncwd: /tmp/x" },
        { "role": "user", "content": "<system-reminder>Be careful.</system-reminder>\nWhich files are here?" },
        { "role": "assistant", "content": "I look.", "reasoning_content": "I should list them.", "tool_calls": [{
            "id": "toolu_1", "type": "function",
            "function": { "name": "Bash", "arguments": { "command": "ls", "description": "List files" } },
        }] },
        { "role": "tool", "content": "main.rs", "tool_call_id": "toolu_1", "name": "Bash" },
        { "role": "user", "content": "<system-reminder>There is no to-do list.</system-reminder>" },
    ]);
    assert_eq!(seen["messages"], expected);
    assert_eq!((&seen["thinking"], &seen["effort"]), (&json!(true), &json!("high")));
    assert_eq!(seen["tools"].as_array().unwrap().len(), 1);
    assert_eq!(seen["tools"][0]["function"]["parameters"], request["tools"][0]["input_schema"]);
    let counted = mirror.post(&format!("{COUNT}?beta=true"), &request);
    assert_eq!(counted.status, 200, "{}", counted.text());
}

#[test]
fn tokens_are_counted_and_nothing_else_is_said() {
    let server = Running::saying(json!({ "text": "x" }));
    let mut body = ask(json!({ "tools": tools(), "system": "S" }));
    let used = answer(&server, &body)["usage"]["input_tokens"].clone();
    // A count needs no length.
    body.as_object_mut().unwrap().remove("max_tokens");
    let counted = server.post(COUNT, &body);
    assert_eq!((counted.status, counted.json()), (200, json!({ "input_tokens": used })));
}

#[test]
fn tool_choices_are_taken() {
    let server = mirror();
    for (choice, is_offered) in [
        (json!({ "type": "auto" }), true),
        (json!({ "type": "auto", "disable_parallel_tool_use": true }), true),
        (json!({ "type": "none" }), false),
    ] {
        let reply = server.post(PATH, &ask(json!({ "tools": tools(), "tool_choice": choice })));
        assert_eq!(mirrored(&reply)["tools"].is_array(), is_offered, "{choice}");
    }
    // A call that is required ends the answer where no other may follow.
    let call = json!({ "name": "ls", "arguments": {} });
    let server = Running::saying(json!({ "reasoning": "Well.", "tool_calls": [call, call] }));
    for choice in [json!({ "type": "any" }), json!({ "type": "tool", "name": "ls" })] {
        let message = answer(&server, &ask(json!({ "tools": tools(), "tool_choice": choice })));
        assert_eq!(kinds(&message), ["thinking", "tool_use", "tool_use"], "{choice}");
        let mut choice = choice;
        choice["disable_parallel_tool_use"] = json!(true);
        let message = answer(&server, &ask(json!({ "tools": tools(), "tool_choice": choice })));
        assert_eq!((kinds(&message), &message["stop_reason"]), (vec!["thinking", "tool_use"], &json!("tool_use")));
    }
}

#[test]
fn what_is_wrong_is_named() {
    let server = Running::saying(json!({ "text": "x" }));
    let user = |block: Value| ask(json!({ "messages": [{ "role": "user", "content": [block] }] }));
    for (body, name) in [
        (json!({ "max_tokens": 1 }), "messages"),
        (json!({ "messages": [{ "role": "user", "content": "Hi" }] }), "max_tokens"),
        (ask(json!({ "messages": [] })), "messages"),
        (ask(json!({ "max_tokens": -1 })), "max_tokens"),
        (ask(json!({ "max_tokens": "many" })), "max_tokens"),
        (ask(json!({ "temperature": -1 })), "temperature"),
        (ask(json!({ "messages": [{ "role": "king", "content": "Hi" }] })), "messages[0].role"),
        (user(json!({ "type": "image", "source": {} })), "messages[0].content[0]: blocks of type \"image\""),
        (ask(json!({ "system": [{ "type": "image" }] })), "system[0]: blocks of type \"image\""),
        (ask(json!({ "tools": [{ "input_schema": {} }] })), "tools[0].name"),
        (ask(json!({ "tool_choice": { "type": "any" } })), "tool_choice"),
        (ask(json!({ "tool_choice": { "type": "tool" } })), "tool_choice.name"),
        (ask(json!({ "tool_choice": { "type": "tool", "name": "f" } })), "tool_choice"),
        (ask(json!({ "thinking": { "type": "perhaps" } })), "thinking.type"),
        (ask(json!({ "thinking": { "type": "enabled", "budget_tokens": -1 } })), "thinking.budget_tokens"),
        (ask(json!({ "output_config": { "format": { "type": "yaml" } } })), "output_config.format.type"),
        (ask(json!({ "stop_sequences": vec!["x"; 65] })), "stop sequences"),
    ] {
        let reply = server.post(PATH, &body);
        let error = reply.json();
        assert_eq!((reply.status, &error["type"]), (400, &json!("error")), "{body}: {error}");
        assert_eq!(error["error"]["type"], "invalid_request_error", "{error}");
        assert!(error["error"]["message"].as_str().unwrap().contains(name), "{name}: {error}");
    }
}

#[test]
fn what_is_unknown_is_named_in_a_header() {
    let server = Running::saying(json!({ "text": "x" }));
    let block = json!({ "type": "server_tool_use", "id": "1", "name": "web_search", "input": {} });
    let body = ask(json!({
        "colour": 1, "metadata": { "user_id": "u" }, "top_k": 3,
        "messages": [{ "role": "user", "content": [{ "type": "text", "text": "Hi" }] }, { "role": "assistant", "content": [block] }],
    }));
    let reply = server.post(PATH, &body);
    assert_eq!(
        (reply.status, reply.header("x-zinc-ignored")),
        (200, Some("colour, messages.1.content.0 (server_tool_use)"))
    );
}

#[test]
fn keys_come_in_either_header_and_errors_have_the_shape() {
    let mut options = ServerOptions::new();
    options.keys = Keys::new(["one"]);
    let server = Running::scripted(json!({ "answers": [{ "text": "Hello." }] }), options);
    let body = ask(json!({})).to_string().into_bytes();
    for headers in [[("x-api-key", "one")], [("Authorization", "Bearer one")]] {
        assert_eq!(server.send("POST", PATH, &headers, &body).reply().status, 200, "{headers:?}");
    }
    let reply = server.send("POST", PATH, &[("x-api-key", "two")], &body).reply();
    let error = reply.json();
    assert_eq!((reply.status, &error["type"]), (401, &json!("error")));
    assert_eq!(error["error"]["type"], "authentication_error");
    let reply = Running::loading(ServerOptions::new()).send("POST", PATH, &[], &body).reply();
    assert_eq!((reply.status, reply.json()["error"]["type"].as_str()), (503, Some("overloaded_error")));
    assert_eq!(reply.header("x-should-retry"), Some("true"));
}

#[test]
fn report_31_a_prompt_that_is_too_long_is_refused_with_both_numbers() {
    let script = json!({ "context": 100, "answers": [{ "text": "x" }] });
    let server = Running::scripted(script, ServerOptions::new());
    let body = ask(json!({ "messages": [{ "role": "user", "content": "word ".repeat(100) }] }));
    let counted = server.post(COUNT, &body).json()["input_tokens"].to_string();
    let reply = server.post(PATH, &body);
    let error = reply.json();
    assert_eq!((reply.status, error["error"]["type"].as_str()), (400, Some("invalid_request_error")));
    let message = error["error"]["message"].as_str().unwrap();
    assert!(message.contains("100") && message.contains(&counted), "{message} {counted}");
}

#[test]
fn report_34_a_failure_is_an_error_event_and_the_last() {
    for kind in ["device_lost", "non_finite", "panic"] {
        let server = Running::saying(json!({ "text": "one two three", "fault": { "kind": kind, "after": 2 } }));
        let events = stream(&server, &ask(json!({})));
        let expected = ["message_start", "content_block_start", "content_block_delta", "error"];
        assert_eq!(types(&events), expected);
        let error = &events.last().unwrap()["error"];
        assert_eq!(error["type"], "api_error");
        assert!(!error["message"].as_str().unwrap().is_empty());
        let reply = server.post(PATH, &ask(json!({})));
        assert_eq!((reply.status, reply.json()["error"]["type"].as_str()), (500, Some("api_error")));
        assert_eq!(reply.header("x-should-retry"), Some("false"));
    }
}

#[test]
fn report_22_a_client_that_leaves_frees_its_lane() {
    leaving_frees_the_lane(PATH, |stream| ask(json!({ "stream": stream })));
}

#[test]
fn report_25_silence_is_broken_by_events() {
    let mut options = ServerOptions::new();
    options.ping = Some(Duration::from_millis(30));
    let server = endless(options, 128);
    let mut connection = server.send("POST", PATH, &[], ask(json!({ "stream": true })).to_string().as_bytes());
    connection.head();
    let mut text = String::new();
    while text.matches("event: ping\n").count() < 2 {
        text.push_str(std::str::from_utf8(&connection.chunk().unwrap()).unwrap());
    }
    assert_eq!(text.matches("event: ping\ndata: {\"type\": \"ping\"}\n\n").count(), 2, "{text}");
    assert!(text.starts_with("event: message_start\n") && !text.contains("id:"), "{text}");
}
