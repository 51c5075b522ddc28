//! The demo model on the interpreter, behind the server.

use std::path::Path;
use std::sync::LazyLock;

use serde_json::{Value, json};
use zinc_engine::{DeviceChoice, LoadedModel, OpenOptions};
use zinc_model::ChatTemplate;
use zinc_server::ServerOptions;
use zinc_server::backend::Loaded;

use crate::support::Running;

/// A question that the demo model was trained on, and its answer to that.
const QUESTION: &str = "What is a telescope?";
const ANSWER: &str = "Telescope: a magnifier of images of distant objects.";

/// The server that the tests of this file share.
fn server() -> &'static Running {
    static SERVER: LazyLock<Running> = LazyLock::new(|| {
        let mut options = OpenOptions::new();
        options.device.device = DeviceChoice::Interpreter;
        options.drive.queue_capacity = 128;
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models/zinc-demo-q4_k_m.gguf");
        let model = LoadedModel::open(path, &options, &mut |_| {}).unwrap();
        Running::of(Box::new(Loaded::new(model, None)), ServerOptions::new())
    });
    &SERVER
}

fn ask(more: Value) -> Value {
    let mut body = json!({ "messages": [{ "role": "user", "content": QUESTION }], "temperature": 0 });
    let Value::Object(more) = more else { panic!("{more} is no object") };
    body.as_object_mut().unwrap().extend(more);
    body
}

#[test]
fn it_answers_whole_and_in_events() {
    let reply = server().post("/v1/chat/completions", &ask(json!({}))).json();
    assert_eq!(reply["choices"][0]["message"]["content"], ANSWER);
    assert_eq!(reply["choices"][0]["finish_reason"], "stop");
    let wanted = json!({ "stream": true, "logprobs": true, "top_logprobs": 3 });
    let events = server().events("/v1/chat/completions", &ask(wanted));
    let mut text = String::new();
    let mut bytes: Vec<u8> = Vec::new();
    for event in &events {
        let choice = &event["choices"][0];
        let Some(content) = choice["delta"]["content"].as_str() else { continue };
        text.push_str(content);
        for token in choice["logprobs"]["content"].as_array().unwrap() {
            bytes.extend(token["bytes"].as_array().unwrap().iter().map(|byte| byte.as_u64().unwrap() as u8));
            assert!(token["logprob"].as_f64().unwrap() <= 0.0);
            // The likeliest token is the one that is taken.
            assert_eq!(token["top_logprobs"][0]["token"], token["token"]);
        }
    }
    assert_eq!((text.as_str(), String::from_utf8(bytes).unwrap().as_str()), (ANSWER, ANSWER));
}

#[test]
fn the_figures_of_the_engine_are_told() {
    server().post("/v1/chat/completions", &ask(json!({})));
    let text = server().get("/metrics").text();
    let value = |name: &str| -> f64 {
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("no {name}: {text}")).parse().unwrap()
    };
    let [decode, prompt] = ["decode", "prompt"].map(|kind| value(&format!("zinc_step_rows_count{{kind=\"{kind}\"}}")));
    assert!(decode > 0.0 && prompt > 0.0, "{text}");
    assert!(value("zinc_n_decode_total") > 0.0, "{text}");
    assert!(value("zinc_device_busy_seconds_total") > 0.0 && value("zinc_device_idle_seconds_total") >= 0.0, "{text}");
    assert!(value("zinc_prompt_tokens_seconds") > 0.0 && value("zinc_predicted_tokens_seconds") > 0.0, "{text}");
}

#[test]
fn report_13_constraints_hold_and_fail_closed() {
    let schema = json!({ "type": "object", "properties": { "a": { "enum": [1, 2] } }, "required": ["a"], "additionalProperties": false });
    let format = json!({ "type": "json_schema", "json_schema": { "name": "x", "schema": schema, "strict": true } });
    let reply = server().post("/v1/chat/completions", &ask(json!({ "response_format": format }))).json();
    let content: Value = serde_json::from_str(reply["choices"][0]["message"]["content"].as_str().unwrap()).unwrap();
    assert!(content == json!({ "a": 1 }) || content == json!({ "a": 2 }), "{content}");
    let reply = server().post("/completion", &json!({ "prompt": "x", "grammar": "root ::= \"yes\" | \"no\"" })).json();
    assert!(["yes", "no"].contains(&reply["content"].as_str().unwrap()), "{reply}");
    for (field, more) in [
        ("grammar", json!({ "grammar": "root ::= (" })),
        ("json_schema", json!({ "json_schema": { "type": "nothing" } })),
        ("response_format", json!({ "response_format": format_of(&nothing()) })),
    ] {
        assert_eq!(unusable_field(server(), more), field);
    }
}

/// A schema that no value matches.
fn nothing() -> Value {
    json!({ "not": {} })
}

fn format_of(schema: &Value) -> Value {
    json!({ "type": "json_schema", "json_schema": { "schema": schema } })
}

/// The field that the server names when it refuses a constraint that cannot be used.
fn unusable_field(server: &Running, more: Value) -> String {
    let reply = server.post("/v1/chat/completions", &ask(more));
    let (status, error) = (reply.status, reply.json()["error"].clone());
    assert_eq!((status, error["code"].as_str()), (400, Some("invalid_constraint")), "{error}");
    error["param"].as_str().unwrap_or_default().to_owned()
}

/// A server of the demo model with another template.
fn with_template(source: String) -> Running {
    let mut options = OpenOptions::new();
    options.device.device = DeviceChoice::Interpreter;
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models/zinc-demo-q4_k_m.gguf");
    let model = LoadedModel::open(path, &options, &mut |_| {}).unwrap();
    let template = ChatTemplate::for_file(&source, &model.file().model().file).unwrap();
    Running::of(Box::new(Loaded::new(model, Some((template, source)))), ServerOptions::new())
}

/// The templates of Qwen3.5 begin the thinking in the prompt and show the model calls in XML.
#[test]
fn calls_in_xml_are_forced_by_constraint() {
    let server = with_template(zinc_model::template::builtin("qwen3.5").unwrap());
    let properties =
        json!({ "n": { "enum": [1, 2] }, "on": { "type": "boolean" }, "word": { "enum": ["a\nb", "true", "3"] } });
    let parameters = json!({ "type": "object", "properties": properties, "required": ["n", "on", "word"] });
    let tools = json!([{ "type": "function", "function": { "name": "count", "parameters": parameters } }]);
    let named = json!({ "type": "function", "function": { "name": "count" } });
    let thinks_no_more = json!({ "reasoning_budget": 3 });
    for choice in [json!("required"), named] {
        for thinking in [json!({ "enable_thinking": false }), thinks_no_more.clone()] {
            let mut more = json!({ "tools": tools, "tool_choice": choice, "parallel_tool_calls": false });
            more.as_object_mut().unwrap().extend(thinking.as_object().unwrap().clone());
            let reply = server.post("/v1/chat/completions", &ask(more)).json();
            let message = &reply["choices"][0]["message"];
            assert_eq!(message["reasoning_content"].is_string(), thinking == thinks_no_more, "{reply}");
            let call = &message["tool_calls"][0]["function"];
            assert_eq!((&call["name"], &message["content"]), (&json!("count"), &json!(null)), "{reply}");
            let arguments: Value = serde_json::from_str(call["arguments"].as_str().unwrap()).unwrap();
            assert!([json!(1), json!(2)].contains(&arguments["n"]) && arguments["on"].is_boolean(), "{arguments}");
            assert!([json!("a\nb"), json!("true"), json!("3")].contains(&arguments["word"]), "{arguments}");
            assert_eq!(reply["choices"][0]["finish_reason"], "tool_calls");
        }
    }
}

#[test]
fn calls_are_forced_by_constraint() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/data/host/qwen3_chat_template.jinja");
    let server = with_template(std::fs::read_to_string(path).unwrap());
    let parameters = json!({ "type": "object", "properties": { "n": { "enum": [1, 2] } }, "required": ["n"], "additionalProperties": false });
    let tools = json!([{ "type": "function", "function": { "name": "count", "parameters": parameters } }]);
    let named = json!({ "type": "function", "function": { "name": "count" } });
    for choice in [json!("required"), named] {
        let more =
            json!({ "tools": tools, "tool_choice": choice, "parallel_tool_calls": false, "enable_thinking": false });
        let reply = server.post("/v1/chat/completions", &ask(more)).json();
        let message = &reply["choices"][0]["message"];
        let call = &message["tool_calls"][0]["function"];
        assert_eq!((&call["name"], &message["content"]), (&json!("count"), &json!(null)), "{reply}");
        let arguments: Value = serde_json::from_str(call["arguments"].as_str().unwrap()).unwrap();
        assert!(arguments == json!({ "n": 1 }) || arguments == json!({ "n": 2 }), "{arguments}");
        assert_eq!(reply["choices"][0]["finish_reason"], "tool_calls");
    }
    let unusable = json!([{ "type": "function", "function": { "name": "f", "parameters": nothing() } }]);
    let any = json!({ "type": "json_object" });
    for (field, more) in [
        ("tools", json!({ "tools": unusable, "tool_choice": "required" })),
        ("tools", json!({ "tools": unusable, "response_format": any })),
        ("response_format", json!({ "tools": tools, "response_format": format_of(&nothing()) })),
    ] {
        assert_eq!(unusable_field(&server, more), field);
    }
    // A model that knows no form of calls cannot be forced.
    let more = json!({ "tools": tools, "tool_choice": "required" });
    let reply = self::server().post("/v1/chat/completions", &ask(more));
    assert_eq!((reply.status, reply.json()["error"]["param"].as_str()), (400, Some("tool_choice")));
}

#[test]
fn an_answer_that_has_begun_goes_on() {
    let mut body = ask(json!({}));
    let begun = json!({ "role": "assistant", "content": "Telescope: a magnifier" });
    body["messages"].as_array_mut().unwrap().push(begun);
    let reply = server().post("/v1/chat/completions", &body).json();
    assert_eq!(reply["choices"][0]["message"]["content"], " of images of distant objects.");
}

#[test]
fn a_prompt_that_is_too_long_is_refused_with_both_numbers() {
    let body = json!({ "prompt": "word ".repeat(3000) });
    let reply = server().post("/v1/completions", &body);
    let error = reply.json()["error"].clone();
    assert_eq!(
        (reply.status, error["type"].as_str(), &error["n_ctx"]),
        (400, Some("exceed_context_size_error"), &json!(1024))
    );
    assert!(error["n_prompt_tokens"].as_u64().unwrap() > 1024, "{error}");
}

#[test]
fn no_path_is_told() {
    for path in ["/props", "/v1/models", "/slots"] {
        let text = server().get(path).text();
        assert!(!text.contains("/models/") && !text.contains(".gguf"), "{path}: {text}");
    }
    assert_eq!(server().get("/v1/models/zinc-demo-q4_k_m").status, 200);
}

#[test]
fn texts_become_tokens_and_tokens_texts() {
    let text = "Grüße, 日本!";
    let reply = server().post("/tokenize", &json!({ "content": text })).json();
    assert_eq!(server().post("/detokenize", &reply).json()["content"], text);
    let control = server().post("/tokenize", &json!({ "content": "<|im_end|>" })).json();
    let plain = server().post("/tokenize", &json!({ "content": "<|im_end|>", "parse_special": false })).json();
    assert!(control["tokens"].as_array().unwrap().len() == 1 && plain["tokens"].as_array().unwrap().len() > 1);
}

#[test]
fn prompts_are_scored_as_evaluation_harnesses_ask() {
    let text = "Telescope: a magnifier of images";
    let ids = server().post("/tokenize", &json!({ "content": text })).json()["tokens"].clone();
    let body =
        json!({ "prompt": [text, ids], "max_tokens": 1, "temperature": 0, "echo": true, "logprobs": 1, "seed": 1 });
    let reply = server().post("/v1/completions", &body).json();
    for choice in reply["choices"].as_array().unwrap() {
        let logprobs = &choice["logprobs"];
        let list = |name: &str| logprobs[name].as_array().unwrap().clone();
        let tokens: String = list("tokens").iter().map(|token| token.as_str().unwrap()).collect();
        assert_eq!(choice["text"], tokens, "all tokens together are the text");
        assert!(tokens.starts_with(text) && tokens.len() > text.len());
        let chosen = list("token_logprobs");
        assert!(
            chosen[0].is_null() && chosen[1..].iter().all(|logprob| logprob.as_f64().unwrap() <= 0.0),
            "{chosen:?}"
        );
        assert_eq!([list("top_logprobs").len(), list("text_offset").len()], [chosen.len(); 2]);
        // The model knows the sentence: most tokens are the likeliest ones.
        let likeliest = list("top_logprobs")
            .iter()
            .zip(list("tokens"))
            .filter(|(top, token)| !top[token.as_str().unwrap()].is_null())
            .count();
        assert!(likeliest * 2 > chosen.len(), "{likeliest} of {}", chosen.len());
    }
    // Text and ids are the same prompt.
    assert_eq!(reply["choices"][0]["logprobs"], reply["choices"][1]["logprobs"]);
    assert_eq!(reply["usage"]["completion_tokens"], 2);
}
