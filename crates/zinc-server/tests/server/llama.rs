//! llama.cpp's own paths, and `/v1/completions`.

use serde_json::{Value, json};
use zinc_server::ServerOptions;

use crate::support::{Running, events};

fn server() -> Running {
    let answer = json!({ "text": " world, said {last}" });
    Running::scripted(
        json!({ "model": "small", "context": 4096, "lanes": 3, "answers": [answer] }),
        ServerOptions::new(),
    )
}

#[test]
fn a_text_is_continued_in_llama_cpps_shape() {
    let server = server();
    let reply = server.post("/completion", &json!({ "prompt": "Hello", "n_predict": 3, "return_tokens": true })).json();
    assert_eq!(
        (&reply["content"], &reply["stop"], &reply["stop_type"]),
        (&json!(" world, said "), &json!(true), &json!("limit"))
    );
    assert_eq!(reply["tokens"].as_array().unwrap().len(), 3);
    assert_eq!(
        (&reply["tokens_predicted"], &reply["tokens_evaluated"], &reply["prompt"]),
        (&json!(3), &json!(5), &json!("Hello"))
    );
    assert_eq!((&reply["generation_settings"]["n_predict"], &reply["truncated"]), (&json!(3), &json!(false)));
}

#[test]
fn a_continued_text_comes_in_events() {
    let server = server();
    let text = server.post("/completion", &json!({ "prompt": "Hi", "stream": true, "stop": ["said"] })).text();
    assert!(!text.contains("[DONE]"));
    let events = events(&text);
    let (last, pieces) = events.split_last().unwrap();
    let content: String = pieces.iter().map(|piece| piece["content"].as_str().unwrap()).collect();
    assert_eq!(content, " world, ");
    assert!(pieces.iter().all(|piece| piece["stop"] == false && piece["content"] != ""));
    assert_eq!(
        (&last["stop"], &last["stop_type"], &last["stopping_word"]),
        (&json!(true), &json!("word"), &json!("said"))
    );
    assert!(last["timings"]["predicted_per_second"].is_number());
}

#[test]
fn probabilities_of_tokens_are_told() {
    let reply = server().post("/completion", &json!({ "prompt": "Hi", "n_predict": 1, "n_probs": 2 })).json();
    let token = &reply["completion_probabilities"][0];
    assert_eq!((&token["token"], token["top_logprobs"].as_array().unwrap().len()), (&json!(" world,"), 2));
    assert!(token["logprob"].as_f64().unwrap() < 0.0 && token["id"].is_number());
}

#[test]
fn texts_are_continued_in_openais_shape() {
    let server = server();
    let reply = server.post("/v1/completions", &json!({ "prompt": ["a", "b"], "max_tokens": 50, "echo": true })).json();
    let texts: Vec<&str> =
        reply["choices"].as_array().unwrap().iter().map(|choice| choice["text"].as_str().unwrap()).collect();
    assert_eq!(texts, ["a world, said a", "b world, said b"]);
    assert_eq!((&reply["object"], &reply["usage"]["prompt_tokens"]), (&json!("text_completion"), &json!(2)));
    let body = json!({ "prompt": "x", "stream": true, "logprobs": 1, "stream_options": { "include_usage": true } });
    let events = server.events("/v1/completions", &body);
    let text: String = events.iter().map(|event| event["choices"][0]["text"].as_str().unwrap_or_default()).collect();
    assert_eq!((text.as_str(), events.last()), (" world, said x", Some(&json!("[DONE]"))));
    assert_eq!(events[1]["choices"][0]["logprobs"]["text_offset"], json!([7]));
    assert_eq!(events[events.len() - 2]["choices"], json!([]));
    for (body, param) in [
        (json!({}), "prompt"),
        (json!({ "prompt": [] }), "prompt"),
        (json!({ "prompt": vec!["x"; 17] }), "prompt"),
        (json!({ "prompt": vec!["x"; 9], "n": 2 }), "n"),
        (json!({ "prompt": "x", "logprobs": 21 }), "logprobs"),
        (json!({ "prompt": "" }), "prompt"),
    ] {
        let reply = server.post("/v1/completions", &body);
        assert_eq!((reply.status, reply.json()["error"]["param"].as_str()), (400, Some(param)), "{body}");
    }
}

#[test]
fn log_probabilities_of_prompts_come_with_their_echo() {
    let server = server();
    let body = json!({ "prompt": ["ab", [99, 100]], "max_tokens": 0, "echo": true, "logprobs": 2 });
    let reply = server.post("/v1/completions", &body).json();
    for (index, text) in ["ab", "cd"].into_iter().enumerate() {
        let choice = &reply["choices"][index];
        assert_eq!((&choice["text"], &choice["finish_reason"]), (&json!(text), &json!("length")));
        let logprobs = &choice["logprobs"];
        assert_eq!(logprobs["tokens"], json!([&text[..1], &text[1..]]));
        assert_eq!(logprobs["token_logprobs"], json!([null, -0.25]));
        assert_eq!(logprobs["text_offset"], json!([0, 1]));
        assert_eq!(logprobs["top_logprobs"][0], Value::Null);
        assert_eq!(logprobs["top_logprobs"][1][&text[1..]], -0.25);
    }
    let usage = &reply["usage"];
    assert_eq!((&usage["prompt_tokens"], &usage["completion_tokens"]), (&json!(4), &json!(0)), "{usage}");
    let body = json!({ "prompt": "x", "max_tokens": 2, "echo": true, "logprobs": 0 });
    let whole = &server.post("/v1/completions", &body).json()["choices"][0];
    assert_eq!((&whole["text"], &whole["logprobs"]["text_offset"]), (&json!("x world, said"), &json!([0, 1, 8])));
    assert_eq!(whole["logprobs"]["token_logprobs"], json!([null, -0.25, -0.25]));
    // In events the same comes in parts, the prompt first.
    let mut body = body;
    body["stream"] = json!(true);
    let (mut text, mut offsets) = (String::new(), Vec::new());
    for event in server.events("/v1/completions", &body) {
        let choice = &event["choices"][0];
        text.push_str(choice["text"].as_str().unwrap_or_default());
        offsets.extend(choice["logprobs"]["text_offset"].as_array().cloned().unwrap_or_default());
    }
    assert_eq!((text.as_str(), json!(offsets)), ("x world, said", json!([0, 1, 8])));
}

#[test]
fn texts_become_tokens_and_tokens_texts() {
    let server = server();
    let reply = server.post("/tokenize", &json!({ "content": "Grü" })).json();
    assert_eq!(reply["tokens"], json!([71, 114, 195, 188]));
    let pieces = server.post("/tokenize", &json!({ "content": "rü", "with_pieces": true })).json();
    assert_eq!(pieces["tokens"][0], json!({ "id": 114, "piece": "r" }));
    assert_eq!(pieces["tokens"][1], json!({ "id": 195, "piece": [195] }));
    assert_eq!(server.post("/detokenize", &json!({ "tokens": reply["tokens"] })).json()["content"], "Grü");
    let outside = server.post("/detokenize", &json!({ "tokens": [9_999_999] }));
    assert_eq!((outside.status, outside.json()["error"]["param"].as_str()), (400, Some("tokens")));
}

#[test]
fn a_template_is_applied() {
    let body = json!({ "messages": [{ "role": "developer", "content": "S" }, { "role": "user", "content": [{ "type": "text", "text": "Hi" }] }] });
    let prompt = server().post("/apply-template", &body).json();
    let expected = "<|im_start|>system\nS<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n";
    assert_eq!(prompt["prompt"], expected);
}

#[test]
fn the_server_says_what_it_is_and_does() {
    let server = server();
    let props = server.get("/props").json();
    assert_eq!(props["default_generation_settings"]["n_ctx"], 4096);
    assert_eq!((&props["total_slots"], &props["model_alias"]), (&json!(3), &json!("small")));
    assert_eq!(
        (&props["modalities"]["vision"], &props["chat_template_caps"]["supports_tools"]),
        (&json!(false), &json!(true))
    );
    let slots: Vec<Value> = serde_json::from_value(server.get("/slots").json()).unwrap();
    assert!(slots.len() == 3 && slots.iter().all(|slot| slot["is_processing"] == false));
    assert_eq!(server.get("/slots?fail_on_no_slot=1").status, 200);
    let models = server.get("/v1/models").json();
    assert_eq!((&models["object"], &models["data"][0]["id"]), (&json!("list"), &json!("small")));
    assert_eq!(models["data"][0]["meta"]["n_ctx"], 4096);
    assert_eq!(server.get("/v1/models/small").json()["id"], "small");
    assert_eq!(server.get("/v1/models/large").json()["error"]["code"], "model_not_found");
    let embeddings = server.post("/v1/embeddings", &json!({ "input": "x" }));
    assert_eq!((embeddings.status, embeddings.json()["error"]["type"].as_str()), (501, Some("not_supported_error")));
    let gap = json!({ "input_prefix": "a", "input_suffix": "b" });
    let infill = server.post("/infill", &gap);
    assert_eq!((infill.status, infill.header("x-should-retry")), (501, Some("false")));
    let able = Running::scripted(json!({ "infill": true, "answers": [{ "text": "{last}" }] }), ServerOptions::new());
    let prompt = "<|fim_prefix|>a<|fim_suffix|>b<|fim_middle|>";
    assert_eq!(able.post("/infill", &gap).json()["content"], prompt);
}

#[test]
fn the_figures_are_for_prometheus() {
    let server = server();
    server.post("/completion", &json!({ "prompt": "Hello", "n_predict": 2 }));
    server.wait_until_idle();
    let text = server.get("/metrics").text();
    for line in [
        "zinc_tokens_predicted_total 2",
        "zinc_prompt_tokens_total 5",
        "zinc_requests_total{outcome=\"length\"} 1",
        "zinc_time_to_first_token_seconds_count 1",
        "zinc_requests_total{outcome=\"cancelled\"} 0",
        "zinc_prompt_tokens_cached_total 0",
        "zinc_prompt_seconds_total ",
        "zinc_prompt_tokens_seconds ",
        "zinc_tokens_predicted_seconds_total ",
        "zinc_predicted_tokens_seconds ",
        "zinc_n_tokens_max 7",
        "zinc_queue_wait_seconds_count 1",
        "zinc_inter_token_latency_seconds_count 1",
        "zinc_requests_processing 0",
        "zinc_requests_deferred 0",
        "# EOF",
    ] {
        assert!(text.contains(line), "{line}: {text}");
    }
}
