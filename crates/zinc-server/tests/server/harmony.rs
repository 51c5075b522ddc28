//! A model that reads and writes harmony, as gpt-oss does, through all APIs.

use serde_json::{Value, json};
use zinc_server::ServerOptions;

use crate::named::named_events;
use crate::support::Running;

const PATH: &str = "/v1/chat/completions";

fn tools() -> Value {
    let parameters = json!({ "type": "object", "properties": { "city": { "type": "string" } }, "required": ["city"] });
    json!([{ "type": "function", "function": { "name": "weather", "description": "The weather.", "parameters": parameters } }])
}

/// A model with the built-in template of gpt-oss.
fn saying(answers: &Value) -> Running {
    Running::scripted(json!({ "template": "gpt-oss", "answers": answers }), ServerOptions::new())
}

fn server() -> Running {
    let call = json!({ "name": "weather", "arguments": { "city": "Ulm" } });
    saying(&json!([
        { "after_tool": true, "reasoning": "Rain it is.", "text": "It rains." },
        { "reasoning": "I need a tool.", "text": "I look.", "tool_calls": [call] },
    ]))
}

fn ask(content: &str, more: Value) -> Value {
    let mut body = json!({ "messages": [{ "role": "user", "content": content }], "tools": tools() });
    let Value::Object(more) = more else { panic!("{more} is no object") };
    body.as_object_mut().unwrap().extend(more);
    body
}

/// Fails if anything of the format is in a reply.
fn has_no_marks(text: &str) {
    for word in ["<|", "|>", "analysis", "commentary", "functions."] {
        assert!(!text.contains(word), "{word} in {text}");
    }
}

#[test]
fn an_answer_comes_in_its_parts() {
    let reply = server().post(PATH, &ask("How is it?", json!({})));
    has_no_marks(&reply.text());
    let reply = reply.json();
    let choice = &reply["choices"][0];
    let message = &choice["message"];
    assert_eq!((&message["reasoning_content"], &message["content"]), (&json!("I need a tool."), &json!("I look.")));
    let function = &message["tool_calls"][0]["function"];
    let arguments: Value = serde_json::from_str(function["arguments"].as_str().unwrap()).unwrap();
    assert_eq!((&function["name"], &arguments), (&json!("weather"), &json!({ "city": "Ulm" })));
    assert_eq!(choice["finish_reason"], "tool_calls");
    assert!(reply["usage"]["completion_tokens_details"]["reasoning_tokens"].as_u64().unwrap() > 2, "{reply}");
}

#[test]
fn streamed_and_unstreamed_answers_are_equal() {
    let reply = server().post(PATH, &ask("How is it?", json!({ "stream": true })));
    has_no_marks(&reply.text());
    let events = server().events(PATH, &ask("How is it?", json!({ "stream": true })));
    let joined = |path: &str| -> String {
        events.iter().map(|event| event.pointer(path).and_then(Value::as_str).unwrap_or_default()).collect()
    };
    assert_eq!(joined("/choices/0/delta/reasoning_content"), "I need a tool.");
    assert_eq!(joined("/choices/0/delta/content"), "I look.");
    assert_eq!(joined("/choices/0/delta/tool_calls/0/function/name"), "weather");
    assert_eq!(joined("/choices/0/delta/tool_calls/0/function/arguments"), "{\"city\":\"Ulm\"}");
    assert_eq!(joined("/choices/0/finish_reason"), "tool_calls");
}

#[test]
fn every_api_has_the_parts_of_an_answer() {
    let server = server();
    let tool = json!({ "type": "function", "name": "weather", "parameters": { "type": "object" } });
    let reply = server.post("/v1/responses", &json!({ "input": "How is it?", "tools": [tool], "stream": true }));
    has_no_marks(&reply.text());
    let events = named_events(&reply);
    let done = events.iter().find(|event| event["type"] == "response.completed").expect("an end");
    let done = &done["response"]["output"];
    let kinds: Vec<&str> = done.as_array().unwrap().iter().map(|item| item["type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["reasoning", "message", "function_call"]);

    let tool = json!({ "name": "weather", "input_schema": { "type": "object" } });
    let messages = json!([{ "role": "user", "content": "How is it?" }]);
    let reply = server.post("/v1/messages", &json!({ "max_tokens": 500, "messages": messages, "tools": [tool] }));
    has_no_marks(&reply.text());
    let reply = reply.json();
    let kinds: Vec<&str> =
        reply["content"].as_array().unwrap().iter().map(|block| block["type"].as_str().unwrap()).collect();
    assert_eq!((kinds, &reply["stop_reason"]), (vec!["thinking", "text", "tool_use"], &json!("tool_use")));

    let reply = server.post("/api/chat", &ask("How is it?", json!({ "stream": false })));
    has_no_marks(&reply.text());
    let message = &reply.json()["message"];
    assert_eq!((&message["thinking"], &message["content"]), (&json!("I need a tool."), &json!("I look.")));
    assert_eq!(message["tool_calls"][0]["function"]["arguments"], json!({ "city": "Ulm" }));
}

#[test]
fn thoughts_before_a_call_stay_until_the_model_has_answered() {
    let server = server();
    let mut body = ask("How is it?", json!({ "reasoning_effort": "high" }));
    let call = json!({ "id": "call_1", "type": "function", "function": { "name": "weather", "arguments": "{\"city\": \"Ulm\"}" } });
    let called =
        json!({ "role": "assistant", "content": null, "reasoning_content": "I need a tool.", "tool_calls": [call] });
    let messages = body["messages"].as_array_mut().unwrap();
    messages.extend([called, json!({ "role": "tool", "tool_call_id": "call_1", "content": "rain" })]);
    let reply = server.post(PATH, &body).json();
    assert_eq!(reply["choices"][0]["message"]["content"], "It rains.");
    let prompt = |body: &Value| server.post("/apply-template", body).json()["prompt"].as_str().unwrap().to_owned();
    let loop_is_open = prompt(&body);
    let expected = "<|start|>assistant<|channel|>analysis<|message|>I need a tool.<|end|><|start|>assistant to=functions.weather<|channel|>commentary \
                    <|constrain|>json<|message|>{\"city\": \"Ulm\"}<|call|><|start|>functions.weather to=assistant<|channel|>commentary<|message|>rain<|end|>\
                    <|start|>assistant";
    assert!(loop_is_open.ends_with(expected), "{loop_is_open}");
    assert!(
        loop_is_open.contains("\n\nReasoning: high\n\n")
            && loop_is_open.contains("type weather = (_: {\ncity: string,\n}) => any;")
    );
    let answered = json!({ "role": "assistant", "content": "It rains.", "reasoning_content": "Rain it is." });
    body["messages"].as_array_mut().unwrap().extend([answered, json!({ "role": "user", "content": "Thanks." })]);
    let prompt = prompt(&body);
    assert!(!prompt.contains("I need a tool.") && !prompt.contains("Rain it is."), "{prompt}");
    assert!(prompt.contains("<|channel|>final<|message|>It rains.<|end|>"), "{prompt}");
}

#[test]
fn the_effort_of_every_api_reaches_the_template() {
    let server = saying(&json!([{ "text": "Hi." }]));
    for (effort, written) in
        [("low", "low"), ("medium", "medium"), ("high", "high"), ("minimal", "low"), ("none", "low"), ("xhigh", "high")]
    {
        let body = json!({ "messages": [{ "role": "user", "content": "Hi" }], "reasoning_effort": effort });
        let prompt = server.post("/apply-template", &body).json()["prompt"].to_string();
        assert!(prompt.contains(&format!("Reasoning: {written}\\n")), "{effort}: {prompt}");
    }
    let tokens = |path: &str, body: Value| -> u64 {
        let reply = server.post(path, &body);
        let json = reply.json();
        let found = ["/usage/prompt_tokens", "/usage/input_tokens", "/prompt_eval_count"]
            .iter()
            .find_map(|at| json.pointer(at)?.as_u64());
        found.unwrap_or_else(|| panic!("{}", reply.text()))
    };
    let messages = json!([{ "role": "user", "content": "Hi" }]);
    let efforts = |body: &dyn Fn(&str) -> Value, path: &str| ["low", "medium"].map(|effort| tokens(path, body(effort)));
    // The prompt of the fake model has a token for each byte.
    for [low, medium] in [
        efforts(&|effort| json!({ "messages": messages, "reasoning_effort": effort }), PATH),
        efforts(&|effort| json!({ "input": "Hi", "reasoning": { "effort": effort } }), "/v1/responses"),
        efforts(
            &|effort| json!({ "max_tokens": 9, "messages": messages, "output_config": { "effort": effort } }),
            "/v1/messages",
        ),
        efforts(&|effort| json!({ "messages": messages, "think": effort, "stream": false }), "/api/chat"),
    ] {
        assert_eq!(medium - low, 3);
    }
}

#[test]
fn props_tell_of_the_model_as_of_others() {
    let server = server();
    let props = server.get("/props").json();
    assert_eq!(
        (&props["chat_template_caps"]["supports_tool_calls"], &props["eos_token"]),
        (&json!(true), &json!("<|return|>"))
    );
    assert!(props["chat_template"].as_str().unwrap().contains("<|channel|>"));
    let shown = server.post("/api/show", &json!({ "model": "fake" })).json();
    let capabilities = shown["capabilities"].as_array().unwrap();
    assert!(capabilities.contains(&json!("tools")) && capabilities.contains(&json!("thinking")), "{capabilities:?}");
}

/// llama.cpp#27720, #25321: a malformed header or none failed a whole finished answer.
#[test]
fn malformed_answers_are_answers() {
    for (written, thought, said) in [
        (
            "<|channel|>??<|end|><|start|>assistant<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final<|message|>Hi.",
            "Hm.",
            "Hi.",
        ),
        ("<|channel|>commentary to=assistant<|channel|>commentary?<|message|>Hi.", "", "Hi."),
        ("<|channel|>Hi.<|return|>", "", "Hi."),
        ("<|end|>Hi.", "", "Hi."),
        (
            "<|channel|>commentary<|message|>One.<|end|><|start|>assistant<|channel|>final<|message|>Two.",
            "",
            "One.\n\nTwo.",
        ),
    ] {
        for piece_chars in [1, 4, 1000] {
            let server = saying(&json!([{ "text": written, "piece_chars": piece_chars }]));
            for tools in [json!([]), tools()] {
                let mut body = ask("Hi", json!({ "logprobs": true }));
                body["tools"] = tools;
                let reply = server.post(PATH, &body);
                assert_eq!(reply.status, 200, "{}", reply.text());
                let message = &reply.json()["choices"][0]["message"];
                assert_eq!(message["reasoning_content"].as_str().unwrap_or_default(), thought, "{written}");
                assert_eq!(message["content"], said, "{written}");
            }
        }
    }
}

#[test]
fn report_02_any_beginning_of_an_answer_is_a_legal_reply() {
    let server = server();
    for most in 0..60 {
        let reply = server.post(PATH, &ask("How is it?", json!({ "max_tokens": most })));
        assert_eq!(reply.status, 200, "{}", reply.text());
        let choice = &reply.json()["choices"][0];
        let calls = choice["message"]["tool_calls"].as_array().map_or(0, Vec::len);
        let finish = choice["finish_reason"].as_str().unwrap();
        assert!(finish == "length" || (calls == 1 && finish == "tool_calls"), "{most}: {choice}");
        assert!("I look.".starts_with(choice["message"]["content"].as_str().unwrap_or_default()), "{most}: {choice}");
    }
}

/// Without a parser the marks of all messages would be content, which no other form has.
#[test]
fn thoughts_that_are_left_in_the_content_stand_between_tags() {
    let body = ask("How is it?", json!({ "reasoning_format": "none", "tool_choice": "none" }));
    let reply = saying(&json!([{ "reasoning": "Hm.", "text": "Hi." }])).post(PATH, &body);
    assert_eq!(reply.json()["choices"][0]["message"]["content"], "<think>\nHm.\n</think>\n\nHi.");
}
