//! A model with the templates of Qwen3.5 and Qwen3.8, whose prompts begin the thinking and whose calls are XML, through all APIs.

use serde_json::{Value, json};
use zinc_server::ServerOptions;

use crate::named::named_events;
use crate::support::{Reply, Running};

const PATH: &str = "/v1/chat/completions";

/// The schema of the arguments of the tool.
fn parameters() -> Value {
    let properties =
        json!({ "city": { "type": "string" }, "days": { "type": "integer" }, "exact": { "type": "boolean" } });
    json!({ "type": "object", "properties": properties, "required": ["city"] })
}

fn tools() -> Value {
    json!([{ "type": "function", "function": { "name": "weather", "parameters": parameters() } }])
}

/// What the model calls the tool with; the city would be a number by itself, and has lines of its own.
fn arguments() -> Value {
    json!({ "city": "42\n  Ulm\n", "days": 3, "exact": true })
}

/// A model with a built-in template.
fn saying(template: &str, answers: &Value) -> Running {
    Running::scripted(json!({ "template": template, "answers": answers }), ServerOptions::new())
}

fn server() -> Running {
    let call = json!({ "name": "weather", "arguments": arguments() });
    saying(
        "qwen3.8",
        &json!([
            { "after_tool": true, "reasoning": "Rain it is.", "text": "It rains." },
            { "reasoning": "I need a tool.", "text": "I look.", "tool_calls": [call, call] },
        ]),
    )
}

fn ask(content: &str, more: Value) -> Value {
    let mut body = json!({ "messages": [{ "role": "user", "content": content }], "tools": tools() });
    let Value::Object(more) = more else { panic!("{more} is no object") };
    body.as_object_mut().unwrap().extend(more);
    body
}

/// The prompt that is made of the body of a request.
fn prompt(server: &Running, body: &Value) -> String {
    let reply = server.post("/apply-template", body);
    assert_eq!(reply.status, 200, "{}", reply.text());
    reply.json()["prompt"].as_str().unwrap().to_owned()
}

/// Fails if a mark of the format is in a reply, and returns it.
fn without_marks(reply: Reply) -> Reply {
    assert_eq!(reply.status, 200, "{}", reply.text());
    for mark in ["think>", "tool_call>", "<function", "parameter>", "<|im_"] {
        assert!(!reply.text().contains(mark), "{mark} in {}", reply.text());
    }
    reply
}

#[test]
fn every_api_has_the_parts_of_an_answer() {
    let server = server();
    let reply = without_marks(server.post(PATH, &ask("How is it?", json!({})))).json();
    let choice = &reply["choices"][0];
    let message = &choice["message"];
    assert_eq!((&message["reasoning_content"], &message["content"]), (&json!("I need a tool."), &json!("I look.")));
    let calls: Vec<Value> = message["tool_calls"].as_array().unwrap().iter().map(arguments_of).collect();
    assert_eq!((calls, &choice["finish_reason"]), (vec![arguments(), arguments()], &json!("tool_calls")));

    let events = server.events(PATH, &ask("How is it?", json!({ "stream": true })));
    let deltas = || events.iter().map(|event| &event["choices"][0]["delta"]);
    let joined = |field: &str| -> String { deltas().filter_map(|delta| delta[field].as_str()).collect() };
    assert_eq!((joined("reasoning_content"), joined("content")), ("I need a tool.".to_owned(), "I look.".to_owned()));
    for index in 0..2 {
        let calls = deltas().filter_map(|delta| delta["tool_calls"].get(0)).filter(|call| call["index"] == index);
        let text: String = calls.filter_map(|call| call["function"]["arguments"].as_str()).collect();
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), arguments());
    }

    let tool = json!({ "type": "function", "name": "weather", "parameters": parameters() });
    let body = json!({ "input": "How is it?", "tools": [tool], "stream": true });
    let events = named_events(&without_marks(server.post("/v1/responses", &body)));
    let done = events.iter().find(|event| event["type"] == "response.completed").expect("an end");
    let items = done["response"]["output"].as_array().unwrap();
    let kinds: Vec<&str> = items.iter().map(|item| item["type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["reasoning", "message", "function_call", "function_call"]);
    assert_eq!(arguments_of(&json!({ "function": items[3] })), arguments());

    let tool = json!({ "name": "weather", "input_schema": parameters() });
    let messages = json!([{ "role": "user", "content": "How is it?" }]);
    let body = json!({ "max_tokens": 500, "messages": messages, "tools": [tool] });
    let reply = without_marks(server.post("/v1/messages", &body)).json();
    let blocks = reply["content"].as_array().unwrap();
    let kinds: Vec<&str> = blocks.iter().map(|block| block["type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["thinking", "text", "tool_use", "tool_use"]);
    assert_eq!((&blocks[2]["input"], &reply["stop_reason"]), (&arguments(), &json!("tool_use")));

    let reply = without_marks(server.post("/api/chat", &ask("How is it?", json!({ "stream": false })))).json();
    let message = &reply["message"];
    assert_eq!((&message["thinking"], &message["content"]), (&json!("I need a tool."), &json!("I look.")));
    assert_eq!(message["tool_calls"][1]["function"]["arguments"], arguments());
}

/// The arguments of a call in OpenAI's shape.
fn arguments_of(call: &Value) -> Value {
    serde_json::from_str(call["function"]["arguments"].as_str().unwrap()).unwrap()
}

/// A conversation with a call and its result, in the shape of each API, and the prompt that is the same for all.
#[test]
fn every_api_gives_thoughts_calls_and_results_back_to_the_template() {
    let expected = "<|im_start|>user\nHow is it?<|im_end|>\n<|im_start|>assistant\n<think>\nI need a tool.\n</think>\n\nI look.\n\n\
                    <tool_call>\n<function=weather>\n<parameter=city>\nUlm\n</parameter>\n<parameter=exact>\ntrue\n</parameter>\n</function>\n\
                    </tool_call><|im_end|>\n<|im_start|>user\n<tool_response>\nrain\n</tool_response><|im_end|>\n<|im_start|>assistant\n<think>\n";
    let given = json!({ "city": "Ulm", "exact": true });
    let call = json!({ "id": "call_1", "type": "function", "function": { "name": "weather", "arguments": given.to_string() } });
    let called = json!({ "role": "assistant", "content": "I look.", "reasoning_content": "I need a tool.", "tool_calls": [call] });
    let result = json!({ "role": "tool", "tool_call_id": "call_1", "content": "rain" });
    let mut body = ask("How is it?", json!({ "reasoning_effort": "medium" }));
    body["messages"].as_array_mut().unwrap().extend([called, result]);
    let server = server();
    let written = prompt(&server, &body);
    assert!(written.ends_with(expected), "{written}");
    let reply = server.post(PATH, &body).json();
    assert_eq!(reply["choices"][0]["message"]["content"], "It rains.");
    let tokens = &reply["usage"]["prompt_tokens"];

    // The prompt of the fake model has a token for each byte.
    let input = json!([
        { "role": "user", "content": "How is it?" },
        { "type": "reasoning", "summary": [], "content": [{ "type": "reasoning_text", "text": "I need a tool." }] },
        { "role": "assistant", "content": [{ "type": "output_text", "text": "I look." }] },
        { "type": "function_call", "call_id": "call_1", "name": "weather", "arguments": given.to_string() },
        { "type": "function_call_output", "call_id": "call_1", "output": "rain" },
    ]);
    let tool = json!({ "type": "function", "name": "weather", "parameters": parameters() });
    let body = json!({ "input": input, "tools": [tool], "reasoning": { "effort": "medium" } });
    let reply = server.post("/v1/responses", &body).json();
    assert_eq!(&reply["usage"]["input_tokens"], tokens, "{reply}");

    let blocks = json!([
        { "type": "thinking", "thinking": "I need a tool.", "signature": "zinc" },
        { "type": "text", "text": "I look." },
        { "type": "tool_use", "id": "call_1", "name": "weather", "input": given },
    ]);
    let result = json!([{ "type": "tool_result", "tool_use_id": "call_1", "content": "rain" }]);
    let messages = json!([
        { "role": "user", "content": "How is it?" },
        { "role": "assistant", "content": blocks },
        { "role": "user", "content": result },
    ]);
    let tool = json!({ "name": "weather", "input_schema": parameters() });
    let effort = json!({ "effort": "medium" });
    let body = json!({ "max_tokens": 500, "messages": messages, "tools": [tool], "output_config": effort });
    let reply = server.post("/v1/messages", &body).json();
    assert_eq!(&reply["usage"]["input_tokens"], tokens, "{reply}");

    let call = json!({ "function": { "name": "weather", "arguments": given } });
    let messages = json!([
        { "role": "user", "content": "How is it?" },
        { "role": "assistant", "content": "I look.", "thinking": "I need a tool.", "tool_calls": [call] },
        { "role": "tool", "tool_name": "weather", "content": "rain" },
    ]);
    let body = json!({ "messages": messages, "tools": tools(), "think": "medium", "stream": false });
    let reply = server.post("/api/chat", &body).json();
    assert_eq!(&reply["prompt_eval_count"], tokens, "{reply}");
}

/// What the templates say of each effort, and whether they have the model think.
#[test]
fn the_effort_that_is_written_is_the_nearest_that_the_template_knows() {
    let user = json!([{ "role": "user", "content": "Hi" }]);
    let (thinks, does_not) = ("assistant\n<think>\n", "assistant\n<think>\n\n</think>\n\n");
    let server = saying("qwen3.8", &json!([{ "text": "Hi." }]));
    for (effort, said, end) in [
        (json!({}), "effort is set to xhigh.", thinks),
        (json!({ "reasoning_effort": "none" }), "", does_not),
        (json!({ "reasoning_effort": "minimal" }), "effort is set to low.", thinks),
        (json!({ "reasoning_effort": "low" }), "effort is set to low.", thinks),
        (json!({ "reasoning_effort": "medium" }), "", thinks),
        (json!({ "reasoning_effort": "high" }), "effort is set to xhigh.", thinks),
        (json!({ "reasoning_effort": "xhigh" }), "effort is set to xhigh.", thinks),
        (json!({ "chat_template_kwargs": { "reasoning_effort": "max" } }), "effort is set to xhigh.", thinks),
        (json!({ "enable_thinking": false, "reasoning_effort": "high" }), "", does_not),
    ] {
        let mut body = effort;
        body["messages"] = user.clone();
        let prompt = prompt(&server, &body);
        let is_said = if said.is_empty() { prompt.starts_with("<|im_start|>user") } else { prompt.contains(said) };
        assert!(is_said && prompt.ends_with(end), "{body}: {prompt}");
    }
    let unknown = json!({ "messages": user, "chat_template_kwargs": { "reasoning_effort": "turbo" } });
    let reply = server.post(PATH, &unknown);
    assert_eq!(reply.status, 400, "{}", reply.text());
    assert!(reply.json()["error"]["message"].as_str().unwrap().contains("turbo"), "{}", reply.text());
    // That of Qwen3.5 knows no effort.
    let body = json!({ "messages": user, "reasoning_effort": "high" });
    let server = saying("qwen3.5", &json!([{ "text": "Hi." }]));
    assert_eq!(prompt(&server, &body), "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n<think>\n");
}

#[test]
fn thoughts_of_earlier_turns_are_kept_as_the_template_has_it() {
    let messages = json!([
        { "role": "user", "content": "One?" },
        { "role": "assistant", "content": "1.", "reasoning_content": "It is one." },
        { "role": "user", "content": "Two?" },
    ]);
    for (template, preserve, is_kept) in [
        ("qwen3.5", None, false),
        ("qwen3.6", None, false),
        ("qwen3.6", Some(true), true),
        ("qwen3.8", None, true),
        ("qwen3.8", Some(false), false),
    ] {
        let mut body = json!({ "messages": messages });
        if let Some(preserve) = preserve {
            body["chat_template_kwargs"] = json!({ "preserve_thinking": preserve });
        }
        let prompt = prompt(&saying(template, &json!([])), &body);
        assert_eq!(prompt.contains("It is one."), is_kept, "{template}: {prompt}");
    }
}

#[test]
fn instructions_come_first_or_are_refused() {
    let server = saying("qwen3.5", &json!([{ "text": "Hi." }]));
    let user = || json!({ "role": "user", "content": "Hi" });
    let instruction = |role: &str, text: &str| json!({ "role": role, "content": text });
    // Several at the beginning are one.
    let first = [instruction("system", "One."), instruction("developer", "Two."), user()];
    let written = prompt(&server, &json!({ "messages": first }));
    assert!(written.starts_with("<|im_start|>system\nOne.\n\nTwo.<|im_end|>\n<|im_start|>user\nHi"), "{written}");
    let later = json!([user(), instruction("system", "Late."), user()]);
    for (path, body) in [
        (PATH, json!({ "messages": later })),
        ("/v1/responses", json!({ "input": later })),
        ("/v1/messages", json!({ "max_tokens": 9, "messages": later })),
        ("/api/chat", json!({ "messages": later })),
        ("/apply-template", json!({ "messages": later })),
    ] {
        let reply = server.post(path, &body);
        assert_eq!(reply.status, 400, "{path}: {}", reply.text());
        assert!(reply.text().contains("a system message has to be the first message"), "{path}: {}", reply.text());
    }
}

#[test]
fn calls_without_arguments_are_written_as_such() {
    let server = server();
    for arguments in ["", " ", "{}"] {
        let call = json!({ "id": "call_1", "type": "function", "function": { "name": "now", "arguments": arguments } });
        let mut body = ask("When?", json!({}));
        body["messages"].as_array_mut().unwrap().extend([
            json!({ "role": "assistant", "content": null, "tool_calls": [call] }),
            json!({ "role": "tool", "tool_call_id": "call_1", "content": "12:00" }),
        ]);
        let written = prompt(&server, &body);
        assert!(
            written.contains("</think>\n\n<tool_call>\n<function=now>\n</function>\n</tool_call><|im_end|>"),
            "{written}"
        );
    }
}

/// The prompt begins the thinking, which has to end before what the answer is to continue.
#[test]
fn an_answer_that_has_begun_goes_on_behind_its_thought() {
    let server = saying("qwen3.8", &json!([{ "text": " upon a time" }]));
    let tokens = |more: &[Value]| {
        let mut messages = vec![json!({ "role": "user", "content": "Tell me." })];
        messages.extend_from_slice(more);
        let reply = server.post(PATH, &json!({ "messages": messages })).json();
        assert_eq!(reply["choices"][0]["message"]["content"], " upon a time", "{reply}");
        reply["usage"]["prompt_tokens"].as_u64().unwrap()
    };
    let alone = tokens(&[]);
    let once = tokens(&[json!({ "role": "assistant", "content": "Once" })]);
    assert_eq!(once - alone, "\n</think>\n\nOnce".len() as u64);
    let thought = tokens(&[json!({ "role": "assistant", "content": "Once", "reasoning_content": "Hm." })]);
    assert_eq!(thought - alone, "Hm.\n</think>\n\nOnce".len() as u64);
}

/// The opening tag is in the prompt and not in the answer, and clients that look for thoughts in the content need it.
#[test]
fn thoughts_that_are_left_in_the_content_have_both_tags() {
    let server = saying("qwen3.8", &json!([{ "reasoning": "Hm.", "text": "Hi." }]));
    let none = json!({ "messages": [{ "role": "user", "content": "Hi" }], "reasoning_format": "none" });
    let reply = server.post(PATH, &none).json();
    assert_eq!(reply["choices"][0]["message"]["content"], "<think>\nHm.\n</think>\n\nHi.");
    let mut off = none;
    off["enable_thinking"] = json!(false);
    assert_eq!(server.post(PATH, &off).json()["choices"][0]["message"]["content"], "Hi.");
}

#[test]
fn report_02_any_beginning_of_an_answer_is_a_legal_reply() {
    let call = json!({ "name": "weather", "arguments": arguments() });
    let answer = json!({ "reasoning": "I need a tool.", "text": "I look.", "tool_calls": [call] });
    let server = saying("qwen3.5", &json!([answer]));
    for most in 0..60 {
        let reply = server.post(PATH, &ask("How is it?", json!({ "max_tokens": most })));
        assert_eq!(reply.status, 200, "{}", reply.text());
        let choice = &reply.json()["choices"][0];
        let message = &choice["message"];
        let finish = choice["finish_reason"].as_str().unwrap();
        let calls = message["tool_calls"].as_array().map_or(0, Vec::len);
        assert!(finish == "length" || (calls > 0 && finish == "tool_calls"), "{most}: {choice}");
        assert!("I need a tool.".starts_with(message["reasoning_content"].as_str().unwrap_or_default()), "{choice}");
        // What may become a call is content where the answer ends before the first parameter.
        let said = "I look.\n<tool_call>\n<function=weather>\n<parameter=city>";
        let content = message["content"].as_str().unwrap_or_default();
        assert!(said.starts_with(content) && (calls == 0 || content == "I look."), "{most}: {choice}");
    }
}
