//! What Open WebUI sends, in the three APIs that it can be told to use, and what it makes of the answers.

use serde_json::{Value, json};

use crate::named::mirror;
use crate::support::{Running, events};

/// A tool as it is listed in each request of a page's chat, in the form of chat completions.
fn clock() -> Value {
    let parameters = json!({ "properties": {}, "type": "object" });
    let function =
        json!({ "name": "get_current_timestamp", "description": "Tell the time.", "parameters": parameters });
    json!({ "type": "function", "function": function })
}

/// The request behind the result of a tool, in the form of chat completions.
fn after_a_call() -> Value {
    let call = json!({ "id": "call_1", "type": "function", "function": { "name": "get_current_timestamp", "arguments": "{}" } });
    json!({
        "stream": true, "model": "zinc", "stream_options": { "include_usage": true }, "tools": [clock()],
        "messages": [
            { "role": "user", "content": "How late is it?" },
            { "role": "assistant", "content": "I look.", "tool_calls": [call], "reasoning_content": "I need a clock." },
            { "role": "tool", "tool_call_id": "call_1", "content": "{\"current_timestamp\":1796094972}" },
        ],
    })
}

/// What the template was given as messages, where the answer is a stream of chat completions.
fn mirrored(text: &str) -> Value {
    let deltas = events(text);
    let content: String = deltas.iter().filter_map(|event| event["choices"][0]["delta"]["content"].as_str()).collect();
    serde_json::from_str(&content).unwrap_or_else(|error| panic!("{error}: {content}"))
}

#[test]
fn a_chat_with_tools_is_taken() {
    let reply = mirror().post("/v1/chat/completions", &after_a_call());
    assert_eq!((reply.status, reply.header("x-zinc-ignored")), (200, None), "{}", reply.text());
    let call = json!({
        "id": "call_1", "type": "function", "function": { "name": "get_current_timestamp", "arguments": {} },
    });
    let expected = json!([
        { "role": "user", "content": "How late is it?" },
        { "role": "assistant", "content": "I look.", "reasoning_content": "I need a clock.", "tool_calls": [call] },
        { "role": "tool", "content": "{\"current_timestamp\":1796094972}", "tool_call_id": "call_1" },
    ]);
    assert_eq!(mirrored(&reply.text())["messages"], expected);
}

/// It adds up the counts of all events of a stream that have `usage` or `timings`.
#[test]
fn the_counts_of_a_stream_come_once() {
    let server = Running::saying(json!({ "text": "It is late." }));
    for (path, prompt) in [("/v1/chat/completions", "messages"), ("/v1/completions", "prompt")] {
        let mut body = after_a_call();
        if prompt == "prompt" {
            body = json!({ "stream": true, "stream_options": { "include_usage": true }, "prompt": "It" });
        }
        for asks_for_usage in [true, false] {
            body["stream_options"]["include_usage"] = json!(asks_for_usage);
            let events = server.events(path, &body);
            let counted: Vec<usize> = (0..events.len())
                .filter(|place| ["usage", "timings"].iter().any(|field| events[*place].get(field).is_some()))
                .collect();
            assert_eq!(counted, [events.len() - 2], "{path}, usage asked for: {asks_for_usage}");
            assert_eq!(events[counted[0]]["timings"]["predicted_n"], 3, "{path}");
        }
    }
}

/// Its button "Continue" asks for more of the last answer, by these fields where the connection is set to llama.cpp.
#[test]
fn an_answer_is_continued_if_that_is_asked_for() {
    let messages = json!([{ "role": "user", "content": "Count." }, { "role": "assistant", "content": "one" }]);
    let mirror = mirror();
    let asked = |more: Value| {
        let mut body = json!({ "model": "zinc", "messages": messages, "stream": true });
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let reply = mirror.post("/v1/chat/completions", &body);
        assert_eq!((reply.status, reply.header("x-zinc-ignored")), (200, None), "{}", reply.text());
        mirrored(&reply.text())["messages"].as_array().unwrap().len()
    };
    // The message that is continued is no message of the template.
    assert_eq!(asked(json!({})), 1);
    assert_eq!(asked(json!({ "continue_final_message": true, "add_generation_prompt": false })), 1);
    assert_eq!(asked(json!({ "continue_final_message": false, "add_generation_prompt": true })), 2);
    let question = json!([{ "role": "user", "content": "Count." }]);
    let body = json!({ "messages": question, "continue_final_message": true, "add_generation_prompt": false });
    let reply = mirror.post("/v1/chat/completions", &body);
    let param = reply.json()["error"]["param"].clone();
    assert_eq!((reply.status, param), (400, json!("continue_final_message")));
    let body = json!({ "messages": question, "add_generation_prompt": false });
    let reply = mirror.post("/v1/chat/completions", &body);
    assert_eq!((reply.status, reply.header("x-zinc-ignored")), (200, Some("add_generation_prompt")));
}

/// It puts the thought and the name of the tool into messages of ollama's form, with the place of a call beside its id.
#[test]
fn a_chat_with_tools_is_taken_in_ollamas_form() {
    let call = json!({ "index": 0, "id": "call_1", "function": { "name": "get_current_timestamp", "arguments": {} } });
    let body = json!({
        "stream": true, "model": "zinc", "tools": [clock()], "keep_alive": "5m", "think": true,
        "options": { "temperature": 0.5, "num_ctx": 4096, "num_predict": 1000 },
        "messages": [
            { "role": "user", "content": "How late is it?" },
            { "role": "assistant", "content": "", "tool_calls": [call], "thinking": "I need a clock." },
            { "role": "tool", "content": "{\"current_timestamp\":1796094972}", "tool_call_id": "call_1" },
        ],
    });
    let reply = mirror().post("/api/chat", &body);
    assert_eq!((reply.status, reply.header("x-zinc-ignored")), (200, None), "{}", reply.text());
    let lines: Vec<Value> = reply.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let content: String = lines.iter().filter_map(|line| line["message"]["content"].as_str()).collect();
    let messages = serde_json::from_str::<Value>(&content).unwrap()["messages"].clone();
    assert_eq!(messages[1]["reasoning_content"], "I need a clock.");
    let call = &messages[1]["tool_calls"][0];
    assert_eq!((&call["id"], &call["function"]["name"]), (&json!("call_1"), &json!("get_current_timestamp")));
    assert_eq!((&messages[2]["role"], &messages[2]["tool_call_id"]), (&json!("tool"), &json!("call_1")));
}

#[test]
fn what_it_asks_of_ollama_is_answered() {
    let server = Running::saying(json!({ "text": "x" }));
    for names in [json!({ "model": "fake" }), json!({ "name": "fake" }), json!({ "model": "fake", "name": "fake" })] {
        assert_eq!(server.post("/api/show", &names).status, 200, "{names}");
    }
    for path in ["/api/embed", "/api/embeddings"] {
        let reply = server.post(path, &json!({ "model": "fake", "input": "x" }));
        assert_eq!((reply.status, reply.json()["error"].is_string()), (501, true), "{path}");
    }
    // That is how it unloads a model.
    let unload = json!({ "model": "fake", "keep_alive": 0, "prompt": "" });
    assert_eq!(server.post("/api/generate", &unload).status, 200);
}

#[test]
fn a_chat_with_tools_is_taken_in_the_form_of_responses() {
    let tool = json!({
        "type": "function", "name": "get_current_timestamp", "description": "Tell the time.", "strict": false,
        "parameters": { "properties": {}, "type": "object" },
    });
    let body = json!({
        "stream": true, "model": "zinc", "tools": [tool],
        "input": [
            { "type": "message", "role": "user", "content": [{ "type": "input_text", "text": "How late is it?" }] },
            { "type": "message", "role": "assistant", "content": [{ "type": "output_text", "text": "I look." }] },
            { "type": "function_call", "call_id": "call_1", "name": "get_current_timestamp", "arguments": "{}" },
            { "type": "function_call_output", "call_id": "call_1", "output": "{\"current_timestamp\":1796094972}" },
        ],
    });
    let reply = Running::saying(json!({ "text": "It is late." })).post("/v1/responses", &body);
    assert_eq!((reply.status, reply.header("x-zinc-ignored")), (200, None), "{}", reply.text());
    let events = events(&reply.text());
    let last = &events[events.len() - 2];
    assert_eq!(last["type"], "response.completed");
    assert_eq!(last["response"]["output"][0]["content"][0]["text"], "It is late.");
}
