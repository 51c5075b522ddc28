//! ollama's paths.

use serde_json::{Value, json};

use crate::support::{Reply, Running};

fn server() -> Running {
    Running::saying(json!({ "text": "You said {last}." }))
}

fn lines(reply: &Reply) -> Vec<Value> {
    assert_eq!((reply.status, reply.header("content-type")), (200, Some("application/x-ndjson")), "{}", reply.text());
    reply.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn a_conversation_is_answered_in_lines_unless_asked_otherwise() {
    let server = server();
    let body = json!({ "model": "fake", "messages": [{ "role": "user", "content": "Hi" }], "options": { "num_ctx": 8192, "top_k": 3 } });
    let reply = server.post("/api/chat", &body);
    assert_eq!(reply.header("x-zinc-ignored"), None);
    let lines = lines(&reply);
    let (last, pieces) = lines.split_last().unwrap();
    let text: String = pieces.iter().map(|line| line["message"]["content"].as_str().unwrap()).collect();
    assert_eq!(text, "You said Hi.");
    assert!(pieces.iter().all(|line| line["done"] == false && line["message"]["role"] == "assistant"));
    assert_eq!((&last["done"], &last["done_reason"]), (&json!(true), &json!("stop")));
    assert!(last["eval_count"].as_u64().unwrap() > 0 && last["total_duration"].is_u64());
    let mut whole = body;
    whole["stream"] = json!(false);
    let reply = server.post("/api/chat", &whole).json();
    assert_eq!((&reply["message"]["content"], &reply["done"]), (&json!("You said Hi."), &json!(true)));
    assert!(reply["created_at"].as_str().unwrap().ends_with('Z'));
}

#[test]
fn a_prompt_is_answered() {
    let server = server();
    let reply = server
        .post("/api/generate", &json!({ "prompt": "Hi", "stream": false, "options": { "num_predict": 2 } }))
        .json();
    assert_eq!(
        (&reply["response"], &reply["done_reason"], &reply["eval_count"]),
        (&json!("You said"), &json!("length"), &json!(2))
    );
    let lines = lines(&server.post("/api/generate", &json!({ "prompt": "Hi", "raw": true })));
    let text: String = lines.iter().map(|line| line["response"].as_str().unwrap()).collect();
    assert_eq!(text, "You said Hi.");
    // That is how clients have a model loaded.
    assert_eq!(server.post("/api/generate", &json!({ "model": "fake" })).json()["done"], true);
    assert_eq!(server.post("/api/chat", &json!({ "model": "fake" })).json()["done"], true);
}

#[test]
fn what_is_wrong_is_said_in_a_text() {
    let server = server();
    for (path, body) in [
        ("/api/chat", json!({ "messages": [{ "role": "king", "content": "Hi" }] })),
        ("/api/chat", json!({ "messages": [{ "role": "user", "content": "Hi", "images": ["x"] }] })),
        ("/api/chat", json!({ "messages": [{ "role": "user", "content": "Hi" }], "options": { "min_p": 2 } })),
        ("/api/generate", json!({ "prompt": "x", "format": "xml" })),
        ("/api/generate", json!({ "prompt": 1 })),
    ] {
        let reply = server.post(path, &body);
        assert_eq!((reply.status, reply.json()["error"].is_string()), (400, true), "{body}");
    }
    let unknown = json!({ "prompt": "x", "stream": false, "options": { "colour": 1 }, "keep_alive": "5m" });
    assert_eq!(server.post("/api/generate", &unknown).header("x-zinc-ignored"), Some("options.colour"));
}

#[test]
fn clients_find_what_they_ask_before() {
    let server = server();
    assert_eq!(server.get("/").text(), "Ollama is running");
    let accept = [("accept", "text/html,application/xhtml+xml,*/*;q=0.8")];
    let page = server.send("GET", "/", &accept, b"").reply();
    assert!(page.text().starts_with("zinc is running."), "{}", page.text());
    assert_eq!(server.send("HEAD", "/", &[], b"").head().0, 200);
    let version = server.get("/api/version").json();
    assert!(version["version"].as_str().unwrap().split('.').all(|part| part.parse::<u32>().is_ok()), "{version}");
    assert_eq!(server.get("/api/tags").json()["models"][0]["name"], "fake");
    assert_eq!(server.get("/api/ps").json()["models"][0]["context_length"], 65_536);
    for name in ["fake", "fake:latest"] {
        let shown = server.post("/api/show", &json!({ "model": name })).json();
        assert_eq!(shown["model_info"]["fake.context_length"], 65_536);
        let capabilities: Vec<String> = serde_json::from_value(shown["capabilities"].clone()).unwrap();
        assert_eq!(capabilities, ["completion", "tools", "thinking"]);
    }
    let other = server.post("/api/show", &json!({ "model": "other" }));
    assert_eq!((other.status, other.json()["error"].is_string()), (404, true));
}
