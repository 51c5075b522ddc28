//! `POST /v1/responses`: what comes, in which order, and what is refused. Tests with numbers are reports of users of other servers.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::{Value, json};
use zinc_server::ServerOptions;

use crate::named::{mirror, named_events, types, without_ids};
use crate::support::{Reply, Running, endless, leaving_frees_the_lane};

const PATH: &str = "/v1/responses";

/// What a response always has.
const REQUIRED: [&str; 32] = [
    "background",
    "completed_at",
    "created_at",
    "error",
    "frequency_penalty",
    "id",
    "incomplete_details",
    "instructions",
    "max_output_tokens",
    "max_tool_calls",
    "metadata",
    "model",
    "object",
    "output",
    "parallel_tool_calls",
    "presence_penalty",
    "previous_response_id",
    "prompt_cache_key",
    "reasoning",
    "safety_identifier",
    "service_tier",
    "status",
    "store",
    "temperature",
    "text",
    "tool_choice",
    "tools",
    "top_logprobs",
    "top_p",
    "truncation",
    "usage",
    "user",
];

fn ask(more: Value) -> Value {
    let mut body = json!({ "model": "any", "input": "Hi" });
    let Value::Object(more) = more else { panic!("no fields: {more}") };
    body.as_object_mut().unwrap().extend(more);
    body
}

fn tools() -> Value {
    let schema = json!({ "type": "object", "properties": { "path": { "type": "string" } } });
    json!([{ "type": "function", "name": "ls", "description": "Lists files.", "parameters": schema }])
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
    let events = named_events(&server.post(PATH, &body));
    let (done, events) = events.split_last().unwrap();
    assert_eq!(done, "[DONE]");
    for (number, event) in events.iter().enumerate() {
        assert_eq!(event["sequence_number"], number, "{event}");
    }
    events.to_vec()
}

/// The response, unstreamed. It is checked to be what the stream ends with.
fn respond(server: &Running, body: &Value) -> Value {
    let reply = server.post(PATH, body);
    assert_eq!((reply.status, reply.header("content-type")), (200, Some("application/json")), "{}", reply.text());
    let whole = reply.json();
    let streamed = stream(server, body).pop().unwrap()["response"].take();
    assert_eq!(without_ids(streamed), without_ids(whole.clone()), "{body}");
    whole
}

fn keys(value: &Value) -> BTreeSet<&str> {
    value.as_object().unwrap().keys().map(String::as_str).collect()
}

fn kinds(response: &Value) -> Vec<&str> {
    response["output"].as_array().unwrap().iter().map(|item| item["type"].as_str().unwrap()).collect()
}

/// The deltas of events of a type, joined.
fn joined(events: &[Value], kind: &str) -> String {
    let of_kind = events.iter().filter(|event| event["type"] == kind);
    let deltas: Vec<&str> = of_kind.map(|event| event["delta"].as_str().unwrap()).collect();
    assert!(deltas.iter().all(|delta| !delta.is_empty()), "{deltas:?}");
    deltas.concat()
}

#[test]
fn an_answer_comes_whole() {
    let server = Running::saying(json!({ "text": "Hello there." }));
    let response = respond(&server, &ask(json!({ "metadata": { "a": "b" }, "user": "u", "temperature": 0.5 })));
    assert!(response["id"].as_str().unwrap().starts_with("resp_"), "{response}");
    assert_eq!((&response["object"], &response["status"]), (&json!("response"), &json!("completed")));
    assert!(response["created_at"].as_u64().unwrap() > 1_600_000_000 && response["completed_at"].is_u64());
    let text = json!({ "type": "output_text", "text": "Hello there.", "annotations": [], "logprobs": [] });
    let message = json!({ "type": "message", "status": "completed", "role": "assistant", "content": [text] });
    assert_eq!(without_ids(response["output"].clone()), json!([message]));
    assert!(response["output"][0]["id"].as_str().unwrap().starts_with("msg_"));
    let usage = &response["usage"];
    let sum = usage["input_tokens"].as_u64().unwrap() + usage["output_tokens"].as_u64().unwrap();
    assert_eq!((usage["total_tokens"].as_u64(), &usage["output_tokens"]), (Some(sum), &json!(2)));
    assert_eq!(usage["input_tokens_details"], json!({ "cached_tokens": 0, "cache_write_tokens": 0 }));
    assert_eq!(usage["output_tokens_details"], json!({ "reasoning_tokens": 0 }));
    for (field, value) in [
        ("metadata", json!({ "a": "b" })),
        ("user", json!("u")),
        ("temperature", json!(0.5)),
        ("text", json!({ "format": { "type": "text" } })),
        ("tool_choice", json!("auto")),
        ("tools", json!([])),
        ("store", json!(false)),
        ("parallel_tool_calls", json!(true)),
        ("model", json!("fake")),
        ("error", json!(null)),
    ] {
        assert_eq!(response[field], value, "{field}");
    }
}

#[test]
fn an_answer_comes_in_events() {
    let server = Running::saying(json!({ "text": "Hello there, you." }));
    let events = stream(&server, &ask(json!({})));
    let expected = [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.content_part.added",
        "response.output_text.delta",
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.completed",
    ];
    assert_eq!(types(&events), expected);
    assert_eq!(joined(&events, "response.output_text.delta"), "Hello there, you.");
    let id = events[2]["item"]["id"].as_str().unwrap();
    for event in &events[2..events.len() - 1] {
        assert_eq!(event["output_index"], 0, "{event}");
        assert!(event["item_id"] == id || event["item"]["id"] == id, "{event}");
        let of_part = event.get("item").is_none();
        assert_eq!(event.get("content_index"), of_part.then_some(&json!(0)), "{event}");
    }
    assert_eq!((&events[2]["item"]["status"], &events[2]["item"]["content"]), (&json!("in_progress"), &json!([])));
    let empty = json!({ "type": "output_text", "text": "", "annotations": [], "logprobs": [] });
    assert_eq!(events[3]["part"], empty);
    let [.., text, part, item, _] = events.as_slice() else { panic!("{events:?}") };
    assert_eq!((&text["text"], &text["logprobs"]), (&json!("Hello there, you."), &json!([])));
    assert_eq!(item["item"]["content"], json!([part["part"]]));
}

#[test]
fn report_36_all_that_is_required_is_always_there() {
    let server = Running::saying(full_answer());
    let events = stream(&server, &ask(json!({ "tools": tools() })));
    let lifecycle: Vec<&Value> = events.iter().filter_map(|event| event.get("response")).collect();
    assert_eq!(lifecycle.len(), 3);
    for response in lifecycle {
        assert_eq!(keys(response), BTreeSet::from(REQUIRED));
        for field in ["id", "created_at", "model"] {
            assert_eq!(response[field], events[0]["response"][field]);
        }
    }
    for event in &events[2..events.len() - 1] {
        let kind = event["type"].as_str().unwrap();
        assert!(event["output_index"].is_u64(), "{event}");
        assert_eq!(event["item_id"].is_string(), !kind.starts_with("response.output_item"), "{event}");
    }
}

#[test]
fn thoughts_and_calls_are_items_of_their_own() {
    let server = Running::saying(full_answer());
    let body = ask(json!({ "tools": tools() }));
    let response = respond(&server, &body);
    assert_eq!(kinds(&response), ["reasoning", "message", "function_call"]);
    let [thoughts, message, call] = response["output"].as_array().unwrap().as_slice() else { panic!("{response}") };
    let part = json!({ "type": "reasoning_text", "text": "The user wants files." });
    assert_eq!((&thoughts["content"], &thoughts["summary"]), (&json!([part]), &json!([])));
    assert_eq!(message["content"][0]["text"], "I look.");
    assert!(call["id"].as_str().unwrap().starts_with("fc_") && call["call_id"].as_str().unwrap().starts_with("call_"));
    assert_eq!((&call["name"], &call["status"]), (&json!("ls"), &json!("completed")));
    let arguments: Value = serde_json::from_str(call["arguments"].as_str().unwrap()).unwrap();
    assert_eq!(arguments, json!({ "path": "src/ü" }));
    assert!(response["usage"]["output_tokens_details"]["reasoning_tokens"].as_u64().unwrap() > 0);

    let events = stream(&server, &body);
    let expected = [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.content_part.added",
        "response.reasoning_text.delta",
        "response.reasoning_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.output_item.added",
        "response.content_part.added",
        "response.output_text.delta",
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.output_item.added",
        "response.function_call_arguments.delta",
        "response.function_call_arguments.done",
        "response.output_item.done",
        "response.completed",
    ];
    assert_eq!(types(&events), expected);
    assert_eq!(joined(&events, "response.reasoning_text.delta"), "The user wants files.");
    assert_eq!(joined(&events, "response.function_call_arguments.delta"), call["arguments"].as_str().unwrap());
    let done = events.iter().find(|event| event["type"] == "response.function_call_arguments.done").unwrap();
    assert_eq!(
        (&done["arguments"], &done["name"], &done["output_index"]),
        (&call["arguments"], &json!("ls"), &json!(2))
    );
}

#[test]
fn thoughts_come_as_a_summary_and_to_be_sent_back_if_asked_for() {
    let server = Running::saying(full_answer());
    let body = ask(json!({
        "tools": tools(), "reasoning": { "summary": "auto" }, "include": ["reasoning.encrypted_content"],
    }));
    let response = respond(&server, &body);
    let thoughts = &response["output"][0];
    assert_eq!(thoughts["summary"], json!([{ "type": "summary_text", "text": "The user wants files." }]));
    assert_eq!(thoughts.get("content"), None);
    assert_eq!(thoughts["encrypted_content"], "zinc:The user wants files.");
    assert_eq!(response["reasoning"], json!({ "effort": null, "summary": "auto" }));
    let events = stream(&server, &body);
    let expected = [
        "response.reasoning_summary_part.added",
        "response.reasoning_summary_text.delta",
        "response.reasoning_summary_text.done",
        "response.reasoning_summary_part.done",
    ];
    assert_eq!(types(&events)[3..7], expected);
    assert_eq!(events[3]["summary_index"], 0);
    assert_eq!(joined(&events, "response.reasoning_summary_text.delta"), "The user wants files.");
}

#[test]
fn the_length_makes_a_response_incomplete() {
    let server = Running::saying(json!({ "text": "one two three" }));
    let body = ask(json!({ "max_output_tokens": 2 }));
    let response = respond(&server, &body);
    assert_eq!((&response["status"], &response["completed_at"]), (&json!("incomplete"), &json!(null)));
    assert_eq!(response["incomplete_details"], json!({ "reason": "max_output_tokens" }));
    assert_eq!(response["max_output_tokens"], 2);
    let message = &response["output"][0];
    assert_eq!((&message["status"], &message["content"][0]["text"]), (&json!("incomplete"), &json!("one two")));
    assert_eq!(stream(&server, &body).last().unwrap()["type"], "response.incomplete");
}

#[test]
fn log_probabilities_come_if_asked_for() {
    let server = Running::saying(json!({ "text": "one two three" }));
    let body = ask(json!({ "include": ["message.output_text.logprobs"], "top_logprobs": 2 }));
    let response = respond(&server, &body);
    let logprobs = response["output"][0]["content"][0]["logprobs"].as_array().unwrap();
    let text: String = logprobs.iter().map(|token| token["token"].as_str().unwrap()).collect();
    assert_eq!((text.as_str(), &response["top_logprobs"]), ("one two three", &json!(2)));
    assert!(logprobs.iter().all(|token| token["top_logprobs"].as_array().unwrap().len() == 2));
    for event in stream(&server, &body) {
        if event["type"] == "response.output_text.delta" {
            assert_eq!(event["logprobs"][0]["token"], event["delta"]);
        }
    }
}

#[test]
fn report_02_and_03_every_beginning_of_an_answer_is_a_response() {
    let server = Running::saying(full_answer());
    let mut statuses = BTreeSet::new();
    for most in 1..60 {
        let response = respond(&server, &ask(json!({ "tools": tools(), "max_output_tokens": most })));
        statuses.insert(response["status"].as_str().unwrap().to_owned());
        for item in response["output"].as_array().unwrap() {
            if item["type"] == "function_call" {
                let arguments = item["arguments"].as_str().unwrap();
                assert!(
                    r#"{"path": "src/ü"}"#.replace(' ', "").starts_with(&arguments.replace(' ', "")),
                    "{arguments}"
                );
                let is_whole = item["status"] == "completed";
                assert_eq!(serde_json::from_str::<Value>(arguments).is_ok_and(|value| value.is_object()), is_whole);
            }
        }
    }
    assert_eq!(statuses, BTreeSet::from(["completed".to_owned(), "incomplete".to_owned()]));
}

#[test]
fn report_06_streamed_and_unstreamed_answers_are_the_same() {
    for chars in [1, 2, 5, 100] {
        let mut answer = full_answer();
        answer["piece_chars"] = json!(chars);
        let first = respond(&Running::saying(full_answer()), &ask(json!({ "tools": tools() })));
        let other = respond(&Running::saying(answer), &ask(json!({ "tools": tools() })));
        assert_eq!(without_ids(first["output"].clone()), without_ids(other["output"].clone()), "{chars}");
    }
}

#[test]
fn report_01_and_07_what_is_no_call_is_content() {
    for text in ["<tool_call>\nnot JSON\n</tool_call>", "Done.</think>", "<tool_call>", "a < b && {\"name\": 1}"] {
        let server = Running::saying(json!({ "text": text }));
        let response = respond(&server, &ask(json!({ "tools": tools() })));
        assert_eq!((kinds(&response), &response["status"]), (vec!["message"], &json!("completed")), "{text}");
        assert_eq!(response["output"][0]["content"][0]["text"], text);
    }
}

#[test]
fn report_08_thoughts_that_are_cut_off_stay_thoughts() {
    let server = Running::saying(json!({ "reasoning": "one two three four", "text": "Hello." }));
    let response = respond(&server, &ask(json!({ "max_output_tokens": 4 })));
    assert_eq!((kinds(&response), &response["status"]), (vec!["reasoning"], &json!("incomplete")));
    assert_eq!(response["output"][0]["status"], "incomplete");
}

#[test]
fn report_09_thinking_can_be_turned_off() {
    let server = Running::saying(json!({ "reasoning": "Well.", "text": "Hello." }));
    for off in
        [json!({ "reasoning": { "effort": "none" } }), json!({ "chat_template_kwargs": { "enable_thinking": false } })]
    {
        let response = respond(&server, &ask(off.clone()));
        assert_eq!(kinds(&response), ["message"], "{off}");
        assert_eq!(response["output"][0]["content"][0]["text"], "Hello.");
    }
}

#[test]
fn report_10_thoughts_are_kept_through_a_tool_loop() {
    let server = Running::scripted(
        json!({ "answers": [{ "after_tool": true, "text": "{last}" }, full_answer()] }),
        ServerOptions::new(),
    );
    let body = json!({
        "input": [{ "role": "user", "content": "Hi" }], "tools": tools(), "include": ["reasoning.encrypted_content"],
    });
    let response = respond(&server, &body);
    // A client that sends back what it got, and the result.
    let mut input = body["input"].as_array().unwrap().clone();
    input.extend(response["output"].as_array().unwrap().iter().cloned());
    let call_id = &response["output"][2]["call_id"];
    input.push(json!({ "type": "function_call_output", "call_id": call_id, "output": "main.rs" }));
    let next = ask(json!({ "input": input, "tools": tools() }));
    assert_eq!(respond(&server, &next)["output"][0]["content"][0]["text"], "Hi");
    let reply = mirror().post(PATH, &next);
    assert_eq!(reply.header("x-zinc-ignored"), None);
    let seen = mirrored(&reply);
    assert_eq!(seen["messages"][1]["reasoning_content"], "The user wants files.");
    assert_eq!(seen["messages"][1]["tool_calls"][0]["function"]["arguments"], json!({ "path": "src/ü" }));
    assert_eq!((&seen["messages"][2]["content"], &seen["messages"][2]["name"]), (&json!("main.rs"), &json!("ls")));
}

/// What the template was given, as the answer of a mirror says it.
fn mirrored(reply: &Reply) -> Value {
    let response = if reply.header("content-type") == Some("application/json") {
        reply.json()
    } else {
        let events = named_events(reply);
        events[events.len() - 2]["response"].clone()
    };
    serde_json::from_str(response["output"][0]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{response}")))
        .unwrap()
}

#[test]
fn report_16_a_schema_does_not_turn_thinking_off() {
    let server = Running::saying(json!({ "reasoning": "Well.", "text": "{\"a\": 1}" }));
    let format = json!({ "type": "json_schema", "name": "x", "schema": { "type": "object" }, "strict": true });
    let response = respond(&server, &ask(json!({ "text": { "format": format, "verbosity": "low" } })));
    assert_eq!(kinds(&response), ["reasoning", "message"]);
    assert_eq!(response["text"], json!({ "format": format, "verbosity": "low" }));
}

#[test]
fn report_14_many_tools_are_taken() {
    let script = json!({ "context": 1_000_000, "answers": [{ "text": "Hello." }] });
    let server = Running::scripted(script, ServerOptions::new());
    let tool = |index: usize| {
        let schema =
            json!({ "type": "object", "properties": { "p": { "type": "string", "pattern": "^(a|b){1,900}$" } } });
        json!({ "type": "function", "name": format!("tool_{index}"), "parameters": schema })
    };
    let many: Vec<Value> = (0..500).map(tool).collect();
    assert_eq!(respond(&server, &ask(json!({ "tools": many })))["status"], "completed");
    let too_many: Vec<Value> = (0..1025).map(tool).collect();
    let reply = server.post(PATH, &ask(json!({ "tools": too_many })));
    assert_eq!((reply.status, &reply.json()["error"]["param"]), (400, &json!("tools")));
}

#[test]
fn report_35_the_requests_of_codex_are_taken() {
    let request: Value = serde_json::from_str(include_str!("requests/codex.json")).unwrap();
    let reply = mirror().post(PATH, &request);
    let ignored = "tools.1 (custom), tools.2 (web_search), tools.3 (image_generation), tools.4 (namespace)";
    assert_eq!((reply.status, reply.header("x-zinc-ignored")), (200, Some(ignored)));
    let seen = mirrored(&reply);
    let messages = seen["messages"].as_array().unwrap();
    let roles: Vec<&str> = messages.iter().map(|message| message["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["system", "user", "user", "assistant", "tool"]);
    let instructions = "You are Codex, a coding agent that runs in a terminal.\n\n\
                        <permissions>workspace-write</permissions>";
    assert_eq!(messages[0]["content"], instructions);
    assert_eq!(messages[3]["reasoning_content"], "I should list them.");
    assert_eq!(messages[3]["tool_calls"][0]["function"]["arguments"], json!({ "command": ["ls"] }));
    assert_eq!((&messages[4]["tool_call_id"], &messages[4]["content"]), (&json!("call_1"), &json!("main.rs\n")));
    assert_eq!((&seen["tools"].as_array().unwrap().len(), &seen["effort"]), (&1, &json!("medium")));
    assert_eq!(seen["tools"][0]["function"]["name"], "shell");
    // It reads these events, and stops at the last.
    let call = json!({ "text": "", "tool_calls": [{ "name": "shell", "arguments": { "command": ["ls"] } }] });
    let events = named_events(&Running::saying(call).post(PATH, &request));
    let last = &events[events.len() - 2];
    assert_eq!((&last["type"], &last["response"]["store"]), (&json!("response.completed"), &json!(false)));
    assert_eq!(last["response"]["prompt_cache_key"], request["prompt_cache_key"]);
    assert!(last["response"]["id"].is_string() && last["response"]["usage"]["total_tokens"].is_u64());
    assert_eq!(last["response"]["output"][0]["name"], "shell");
    assert_eq!(last["response"]["tools"], json!([request["tools"][0]]));
}

#[test]
fn tool_choices_are_taken() {
    let server = mirror();
    let two = json!([{ "type": "function", "name": "a" }, { "type": "function", "name": "b", "parameters": null }]);
    for (choice, offered) in [
        (json!("auto"), Some(2)),
        (json!("none"), None),
        (json!({ "type": "allowed_tools", "mode": "auto", "tools": [{ "type": "function", "name": "b" }] }), Some(1)),
    ] {
        let reply = server.post(PATH, &ask(json!({ "tools": two, "tool_choice": choice })));
        assert_eq!((reply.status, &reply.json()["tool_choice"]), (200, &choice), "{}", reply.text());
        assert_eq!(mirrored(&reply)["tools"].as_array().map(Vec::len), offered, "{choice}");
    }
    // A call that is required ends the answer where no other may follow.
    let call = json!({ "name": "b", "arguments": {} });
    let server = Running::saying(json!({ "reasoning": "Well.", "tool_calls": [call, call] }));
    for choice in [json!("required"), json!({ "type": "function", "name": "b" })] {
        let mut body = ask(json!({ "tools": two, "tool_choice": choice }));
        assert_eq!(kinds(&respond(&server, &body)), ["reasoning", "function_call", "function_call"], "{choice}");
        body["parallel_tool_calls"] = json!(false);
        let response = respond(&server, &body);
        assert_eq!((kinds(&response), &response["status"]), (vec!["reasoning", "function_call"], &json!("completed")));
    }
}

#[test]
fn what_is_wrong_is_named() {
    let server = Running::saying(json!({ "text": "x" }));
    let format = |format: Value| ask(json!({ "text": { "format": format } }));
    for (body, param) in [
        (json!({}), "input"),
        (ask(json!({ "input": [] })), "input"),
        (ask(json!({ "previous_response_id": "resp_1" })), "previous_response_id"),
        (ask(json!({ "conversation": "conv_1" })), "conversation"),
        (ask(json!({ "prompt": { "id": "pmpt_1" } })), "prompt"),
        (ask(json!({ "background": true })), "background"),
        (ask(json!({ "input": [{ "type": "item_reference", "id": "msg_1" }] })), "input[0]"),
        (ask(json!({ "max_output_tokens": -1 })), "max_output_tokens"),
        (ask(json!({ "top_logprobs": 21 })), "top_logprobs"),
        (ask(json!({ "temperature": -1 })), "temperature"),
        (ask(json!({ "tools": [{ "type": "function" }] })), "tools[0].name"),
        (ask(json!({ "tools": [{ "name": "f" }] })), "tools[0].type"),
        (ask(json!({ "tool_choice": "required" })), "tool_choice"),
        (ask(json!({ "tool_choice": { "type": "function", "name": "f" } })), "tool_choice"),
        (ask(json!({ "tool_choice": { "type": "web_search" } })), "tool_choice"),
        (format(json!({ "type": "yaml" })), "text.format.type"),
        (format(json!({ "type": "json_schema" })), "text.format.schema"),
        (format(json!({ "type": "json_schema", "schema": { "d": "x".repeat(2_000_000) } })), "text.format.schema"),
    ] {
        let reply = server.post(PATH, &body);
        let error = &reply.json()["error"];
        assert_eq!((reply.status, error["type"].as_str()), (400, Some("invalid_request_error")), "{error}");
        assert_eq!(error["param"], param, "{error}");
    }
}

#[test]
fn nulls_are_as_good_as_nothing() {
    let server = Running::saying(json!({ "text": "x" }));
    let body = ask(json!({
        "instructions": null, "tools": null, "tool_choice": null, "text": null, "reasoning": null, "metadata": null,
        "previous_response_id": null, "conversation": null, "prompt": null, "include": null, "max_output_tokens": null,
        "stream": null, "temperature": null, "truncation": null, "background": null, "user": null,
    }));
    let reply = server.post(PATH, &body);
    assert_eq!((reply.status, reply.header("x-zinc-ignored")), (200, None), "{}", reply.text());
}

#[test]
fn what_is_unknown_is_named_in_a_header() {
    let server = Running::saying(json!({ "text": "x" }));
    let body = ask(json!({
        "colour": 1, "truncation": "auto", "include": ["file_search_call.results"], "store": true,
        "input": [{ "role": "user", "content": "Hi", "id": "msg_1" }, { "type": "web_search_call", "action": { "a": 1 } }],
    }));
    let reply = server.post(PATH, &body);
    let ignored = "colour, include (file_search_call.results), input.1 (web_search_call), truncation";
    assert_eq!((reply.status, reply.header("x-zinc-ignored")), (200, Some(ignored)));
}

#[test]
fn tokens_of_a_request_are_counted() {
    let server = Running::saying(json!({ "text": "x" }));
    let counted = server.post("/v1/responses/input_tokens", &ask(json!({}))).json();
    assert_eq!(counted["object"], "response.input_tokens");
    assert_eq!(counted["input_tokens"], respond(&server, &ask(json!({})))["usage"]["input_tokens"]);
}

#[test]
fn nothing_is_stored() {
    let server = Running::saying(json!({ "text": "x" }));
    let reply = server.get("/v1/responses/resp_1");
    assert_eq!((reply.status, reply.json()["error"]["type"].as_str()), (404, Some("not_found_error")));
}

#[test]
fn report_31_a_prompt_that_is_too_long_is_refused_with_both_numbers() {
    let script = json!({ "context": 100, "answers": [{ "text": "x" }] });
    let server = Running::scripted(script, ServerOptions::new());
    let reply = server.post(PATH, &json!({ "input": "word ".repeat(100), "stream": true }));
    let error = reply.json()["error"].clone();
    assert_eq!((reply.status, error["type"].as_str()), (400, Some("exceed_context_size_error")));
    assert_eq!((&error["n_ctx"], error["n_prompt_tokens"].as_u64().unwrap() > 500), (&json!(100), true), "{error}");
}

#[test]
fn report_34_a_failure_is_the_last_event() {
    for kind in ["device_lost", "non_finite", "panic"] {
        let server = Running::saying(json!({ "text": "one two three", "fault": { "kind": kind, "after": 2 } }));
        let events = stream(&server, &ask(json!({})));
        let failed = events.last().unwrap();
        assert_eq!(failed["type"], "response.failed");
        let response = &failed["response"];
        assert_eq!((&response["status"], &response["error"]["code"]), (&json!("failed"), &json!("server_error")));
        assert!(!response["error"]["message"].as_str().unwrap().is_empty());
        assert_eq!((&response["output"][0]["status"], &response["usage"]), (&json!("incomplete"), &json!(null)));
        assert_eq!(events.iter().filter(|event| event.get("response").is_some()).count(), 3);
        let reply = server.post(PATH, &ask(json!({})));
        assert_eq!((reply.status, reply.header("x-should-retry")), (500, Some("false")), "{kind}");
    }
}

#[test]
fn report_22_a_client_that_leaves_frees_its_lane() {
    leaving_frees_the_lane(PATH, |stream| ask(json!({ "stream": stream })));
}

#[test]
fn report_25_silence_is_broken_by_comments() {
    let mut options = ServerOptions::new();
    options.ping = Some(Duration::from_millis(30));
    let server = endless(options, 128);
    let mut connection = server.send("POST", PATH, &[], ask(json!({ "stream": true })).to_string().as_bytes());
    connection.head();
    let mut text = String::new();
    while text.matches(": ping\n").count() < 2 {
        text.push_str(std::str::from_utf8(&connection.chunk().unwrap()).unwrap());
    }
    assert!(!text.contains(": ping\n\n") && text.starts_with("event: response.created\n"), "{text}");
}
