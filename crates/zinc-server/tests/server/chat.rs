//! `POST /v1/chat/completions`: what comes, in which order, and what is refused.

use serde_json::{Value, json};

use crate::support::Running;

const PATH: &str = "/v1/chat/completions";

fn ask(more: Value) -> Value {
    let mut body = json!({ "model": "any", "messages": [{ "role": "user", "content": "Hi" }] });
    let Value::Object(more) = more else { panic!("{more} is no object") };
    body.as_object_mut().unwrap().extend(more);
    body
}

#[test]
fn an_answer_comes_whole() {
    let server = Running::saying(json!({ "text": "Hello there." }));
    let reply = server.post(PATH, &ask(json!({})));
    assert_eq!((reply.status, reply.header("content-type")), (200, Some("application/json")));
    let body = reply.json();
    assert!(body["id"].as_str().unwrap().starts_with("chatcmpl-"), "{body}");
    assert_eq!((&body["object"], &body["model"]), (&json!("chat.completion"), &json!("fake")));
    assert!(body["created"].as_u64().unwrap() > 1_600_000_000 && body["system_fingerprint"].is_string(), "{body}");
    let choice = &body["choices"][0];
    let message = json!({ "role": "assistant", "content": "Hello there.", "refusal": null, "annotations": [] });
    assert_eq!(choice["message"], message);
    assert_eq!(
        (&choice["index"], &choice["finish_reason"], &choice["logprobs"]),
        (&json!(0), &json!("stop"), &json!(null))
    );
    let usage = &body["usage"];
    let sum = usage["prompt_tokens"].as_u64().unwrap() + usage["completion_tokens"].as_u64().unwrap();
    assert_eq!((usage["total_tokens"].as_u64(), &usage["completion_tokens"]), (Some(sum), &json!(2)));
    assert_eq!(body["timings"]["predicted_n"], 2);
}

#[test]
fn an_answer_comes_in_events() {
    let server = Running::saying(json!({ "text": "Hello there, you." }));
    let reply = server.post(PATH, &ask(json!({ "stream": true })));
    assert_eq!(reply.header("content-type"), Some("text/event-stream; charset=utf-8"));
    let text = reply.text();
    assert!(text.ends_with("data: [DONE]\n\n"), "{text}");
    // Each event is one line and an empty one.
    assert!(text.split("\n\n").all(|event| !event.contains('\n')), "{text}");
    let events = crate::support::events(&text);
    assert_eq!(events[0]["choices"][0]["delta"], json!({ "role": "assistant", "content": null }));
    assert!(events[0].get("timings").is_none());
    let (done, chunks) = events.split_last().unwrap();
    assert_eq!(done, "[DONE]");
    for chunk in chunks {
        for field in ["id", "created", "model", "system_fingerprint"] {
            assert_eq!(chunk[field], events[0][field], "{chunk}");
        }
        assert_eq!(chunk["object"], "chat.completion.chunk");
        assert!(chunk.get("usage").is_none(), "{chunk}");
        assert_eq!(chunk["choices"].as_array().unwrap().len(), 1);
        assert_eq!(chunk["choices"][0]["index"], 0);
    }
    let (last, pieces) = chunks[1..].split_last().unwrap();
    let pieces: Vec<&str> =
        pieces.iter().map(|chunk| chunk["choices"][0]["delta"]["content"].as_str().unwrap()).collect();
    assert!(pieces.iter().all(|piece| !piece.is_empty()));
    assert_eq!(pieces.concat(), "Hello there, you.");
    assert_eq!(last["choices"][0], json!({ "index": 0, "delta": {}, "finish_reason": "stop" }));
    assert_eq!(last["timings"]["predicted_n"], 3);
}

#[test]
fn usage_comes_in_an_event_of_its_own_if_asked_for() {
    let server = Running::saying(json!({ "text": "Hello there." }));
    let events = server.events(PATH, &ask(json!({ "stream": true, "stream_options": { "include_usage": true } })));
    let usage = &events[events.len() - 2];
    assert_eq!((&usage["choices"], &usage["usage"]["completion_tokens"]), (&json!([]), &json!(2)));
    assert_eq!(usage["usage"]["completion_tokens_details"]["reasoning_tokens"], 0);
    assert!(events[..events.len() - 2].iter().all(|event| event.get("usage").is_none()));
}

#[test]
fn a_stop_string_ends_an_answer_before_it() {
    let server = Running::saying(json!({ "text": "one two three", "piece_chars": 2 }));
    for stream in [false, true] {
        let body = ask(json!({ "stop": [" th", "zzz"], "stream": stream }));
        let (content, finish) = if stream {
            let events = server.events(PATH, &body);
            let delta = |event: &Value| event["choices"][0]["delta"]["content"].as_str().unwrap_or_default().to_owned();
            let finish = events[events.len() - 2]["choices"][0]["finish_reason"].clone();
            (events[..events.len() - 1].iter().map(delta).collect::<String>(), finish)
        } else {
            let reply = server.post(PATH, &body).json();
            let choice = &reply["choices"][0];
            (choice["message"]["content"].as_str().unwrap().to_owned(), choice["finish_reason"].clone())
        };
        assert_eq!((content.as_str(), finish), ("one two", json!("stop")), "stream: {stream}");
    }
    // A beginning of a stop string that stays one comes out at the end.
    let reply = server.post(PATH, &ask(json!({ "stop": "threes" }))).json();
    assert_eq!(reply["choices"][0]["message"]["content"], "one two three");
}

#[test]
fn the_length_ends_an_answer() {
    let server = Running::saying(json!({ "text": "one two three" }));
    for field in ["max_tokens", "max_completion_tokens", "n_predict"] {
        let reply = server.post(PATH, &ask(json!({ field: 2 }))).json();
        assert_eq!(reply["choices"][0]["finish_reason"], "length", "{field}");
        assert_eq!(reply["choices"][0]["message"]["content"], "one two", "{field}");
    }
    let reply = server.post(PATH, &ask(json!({ "max_tokens": -1 }))).json();
    assert_eq!(reply["choices"][0]["finish_reason"], "stop");
    // Some clients send several names, for servers old and new.
    let reply = server.post(PATH, &ask(json!({ "n_predict": -1, "max_tokens": 1, "max_completion_tokens": 2 }))).json();
    assert_eq!(reply["choices"][0]["message"]["content"], "one two");
}

#[test]
fn a_value_of_the_wrong_kind_is_refused_with_what_is_expected() {
    let server = Running::saying(json!({ "text": "x" }));
    for (field, value) in [
        ("stop", json!(5)),
        ("logit_bias", json!("5:-100")),
        ("samplers", json!({})),
        ("tool_choice", json!(1)),
        ("messages", json!([{ "role": "user", "content": 5 }])),
    ] {
        let reply = server.post(PATH, &ask(json!({ field: value })));
        assert_eq!(reply.status, 400, "{field}");
        let message = reply.json()["error"]["message"].as_str().unwrap().to_owned();
        assert!(message.starts_with(field) && message.contains(" is expected at line 1 column "), "{message}");
    }
}

#[test]
fn several_answers_have_their_indices() {
    let server = Running::saying(json!({ "text": "a b" }));
    let reply = server.post(PATH, &ask(json!({ "n": 3 }))).json();
    let indices: Vec<u64> =
        reply["choices"].as_array().unwrap().iter().map(|choice| choice["index"].as_u64().unwrap()).collect();
    assert_eq!(indices, [0, 1, 2]);
    assert_eq!(reply["usage"]["completion_tokens"], 6);
    let events = server.events(PATH, &ask(json!({ "n": 2, "stream": true })));
    for index in 0..2 {
        let own = events.iter().filter(|event| event["choices"][0]["index"] == index);
        let text: String =
            own.map(|event| event["choices"][0]["delta"]["content"].as_str().unwrap_or_default()).collect();
        assert_eq!(text, "a b");
    }
    let finishes = events.iter().filter(|event| event["choices"][0]["finish_reason"] == "stop").count();
    assert_eq!(finishes, 2);
}

#[test]
fn log_probabilities_are_those_of_the_text() {
    let server = Running::saying(json!({ "text": "Grüße an alle", "piece_chars": 3 }));
    let wanted = json!({ "logprobs": true, "top_logprobs": 2 });
    let joined = |tokens: &[Value]| -> String {
        let bytes = tokens.iter().flat_map(|token| token["bytes"].as_array().unwrap().iter());
        String::from_utf8(bytes.map(|byte| byte.as_u64().unwrap() as u8).collect()).unwrap()
    };
    let reply = server.post(PATH, &ask(wanted.clone())).json();
    let tokens = reply["choices"][0]["logprobs"]["content"].as_array().unwrap();
    assert_eq!(joined(tokens), "Grüße an alle");
    for token in tokens {
        assert!(token["logprob"].as_f64().unwrap() <= 0.0, "{token}");
        assert_eq!(token["top_logprobs"].as_array().unwrap().len(), 2);
        assert_eq!(token["top_logprobs"][0]["token"], token["token"]);
    }
    let mut streamed = ask(wanted);
    streamed["stream"] = json!(true);
    let mut tokens = Vec::new();
    for event in server.events(PATH, &streamed) {
        let choice = &event["choices"][0];
        if choice["delta"]["content"].is_string() {
            let own = choice["logprobs"]["content"].as_array().unwrap();
            assert_eq!(joined(own), choice["delta"]["content"].as_str().unwrap(), "a piece has its own tokens");
            tokens.extend(own.clone());
        }
    }
    assert_eq!(joined(&tokens), "Grüße an alle");
}

#[test]
fn what_is_wrong_is_named() {
    let server = Running::saying(json!({ "text": "x" }));
    for (body, param) in [
        (json!({}), "messages"),
        (json!({ "messages": [] }), "messages"),
        (json!({ "messages": "Hi" }), "messages"),
        (json!({ "messages": [{ "role": "king", "content": "Hi" }] }), "messages[0].role"),
        (json!({ "messages": [{ "role": "user" }] }), "messages[0].content"),
        (json!({ "messages": [{ "role": "user", "content": [{ "type": "image_url" }] }] }), "messages[0].content[0]"),
        (ask(json!({ "temperature": -1 })), "temperature"),
        (ask(json!({ "temperature": "hot" })), "temperature"),
        (ask(json!({ "min_p": 2 })), "min_p"),
        (ask(json!({ "n": 0 })), "n"),
        (ask(json!({ "n": 100 })), "n"),
        (ask(json!({ "max_tokens": -7 })), "max_tokens"),
        (ask(json!({ "max_tokens": 1.5 })), "max_tokens"),
        (ask(json!({ "top_logprobs": 21, "logprobs": true })), "top_logprobs"),
        (ask(json!({ "top_logprobs": 2 })), "top_logprobs"),
        (ask(json!({ "logit_bias": { "x": 1 } })), "logit_bias"),
        (ask(json!({ "logit_bias": { "70000": 1 } })), "logit_bias"),
        (ask(json!({ "samplers": ["top_p", "top_k"] })), "samplers"),
        (ask(json!({ "tool_choice": "required" })), "tool_choice"),
        (ask(json!({ "tool_choice": { "type": "function", "function": { "name": "f" } } })), "tool_choice"),
        (ask(json!({ "tools": [{ "type": "function" }] })), "tools[0].function"),
        (ask(json!({ "grammar": "root ::= x", "json_schema": {} })), "grammar"),
        (ask(json!({ "stop": vec!["x"; 65] })), "stop"),
    ] {
        let reply = server.post(PATH, &body);
        let error = &reply.json()["error"];
        assert_eq!((reply.status, error["type"].as_str()), (400, Some("invalid_request_error")), "{body}: {error}");
        assert_eq!(error["param"], param, "{body}: {error}");
        assert!(error["message"].is_string() && error.get("code").is_some());
    }
    let broken = server.send("POST", PATH, &[], b"{").reply();
    assert_eq!(broken.status, 400);
}

#[test]
fn what_is_unknown_is_named_in_a_header() {
    let server = Running::saying(json!({ "text": "x" }));
    let body = ask(json!({
        "colour": 1, "user": "u", "store": true, "metadata": {}, "temperature": 0.5, "cache_prompt": true,
        "tools": [{ "type": "web_search" }, { "type": "function", "function": { "name": "f", "strict": true } }],
    }));
    let reply = server.post(PATH, &body);
    assert_eq!((reply.status, reply.header("x-zinc-ignored")), (200, Some("colour, tools.0 (web_search)")));
    assert_eq!(server.post(PATH, &ask(json!({}))).header("x-zinc-ignored"), None);
}

#[test]
fn report_31_a_prompt_that_is_too_long_is_refused_with_both_numbers() {
    let script = json!({ "context": 100, "answers": [{ "text": "x" }] });
    let server = Running::scripted(script, zinc_server::ServerOptions::new());
    let body = json!({ "messages": [{ "role": "user", "content": "word ".repeat(100) }], "stream": true });
    let reply = server.post(PATH, &body);
    let error = reply.json()["error"].clone();
    assert_eq!((reply.status, error["type"].as_str()), (400, Some("exceed_context_size_error")));
    assert_eq!(error["n_ctx"], 100);
    assert!(error["n_prompt_tokens"].as_u64().unwrap() > 500, "{error}");
}

#[test]
fn a_failure_is_an_error_event_and_no_end() {
    for (kind, code) in [("device_lost", json!("device_failed")), ("non_finite", json!(null)), ("panic", json!(null))] {
        let server = Running::saying(json!({ "text": "one two three", "fault": { "kind": kind, "after": 2 } }));
        let events = server.events(PATH, &ask(json!({ "stream": true })));
        let error = &events.last().unwrap()["error"];
        assert_eq!((error["type"].as_str(), &error["code"]), (Some("server_error"), &code), "{events:?}");
        let reply = server.post(PATH, &ask(json!({})));
        assert_eq!((reply.status, reply.header("x-should-retry")), (500, Some("false")), "{kind}");
        // A lost device is told to whoever watches, until something is computed again.
        let health = server.get("/health").status;
        assert_eq!(health, if kind == "device_lost" { 500 } else { 200 }, "{kind}");
    }
}
