//! What users of other servers have reported, through the whole server. The tests of each report are named after its number; those of what the
//! parser and the scheduler do about it are with these, and some are in the other files here.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};
use zinc_server::ServerOptions;

use crate::support::{Running, events, wait_for};

/// The number of reports in the table of docs/server.md.
const REPORTS: usize = 42;

const PATH: &str = "/v1/chat/completions";

fn hello() -> Value {
    json!({ "messages": [{ "role": "user", "content": "Hi" }] })
}

fn send(server: &Running, body: &Value) -> crate::support::Connection {
    server.send("POST", PATH, &[], body.to_string().as_bytes())
}

#[test]
fn report_03_cut_arguments_are_an_answer_and_true_failures_are_not_tried_again() {
    let call = json!({ "name": "write", "arguments": { "text": "one two three four five" } });
    let server = Running::saying(json!({ "tool_calls": [call], "piece_chars": 4 }));
    let mut body = hello();
    body["tools"] = json!([{ "type": "function", "function": { "name": "write" } }]);
    body["max_tokens"] = json!(18);
    let reply = server.post(PATH, &body);
    assert_eq!(reply.status, 200);
    let choice = &reply.json()["choices"][0];
    let arguments = choice["message"]["tool_calls"][0]["function"]["arguments"].as_str().unwrap();
    assert!(arguments.starts_with("{\"text\":") && !arguments.ends_with('}'), "{arguments}");
    assert_eq!(choice["finish_reason"], "length");
    let broken = Running::saying(json!({ "text": "x", "fault": { "kind": "non_finite" } }));
    let reply = broken.post(PATH, &hello());
    assert_eq!((reply.status, reply.header("x-should-retry")), (500, Some("false")));
}

#[test]
fn report_10_thoughts_are_read_by_either_name_and_kept_through_a_tool_loop() {
    let server = Running::saying(json!({ "text": "x" }));
    for field in ["reasoning_content", "reasoning"] {
        let call = json!({ "id": "1", "type": "function", "function": { "name": "f", "arguments": "{}" } });
        let body = json!({ "messages": [
            { "role": "user", "content": "Hi" },
            { "role": "assistant", "content": "", field: "I wonder.", "tool_calls": [call] },
            { "role": "tool", "tool_call_id": "1", "content": "4" },
        ]});
        let prompt = server.post("/apply-template", &body).json();
        assert!(prompt["prompt"].as_str().unwrap().contains("<think>\nI wonder.\n</think>"), "{field}: {prompt}");
    }
}

#[test]
fn report_23_who_leaves_the_queue_ends_no_other() {
    let answer = json!({ "text": "a b c d e f", "token_ms": 30 });
    let server = Running::scripted(json!({ "lanes": 1, "answers": [answer] }), ServerOptions::new());
    let status = || server.state().served().unwrap().backend.status();
    let first = send(&server, &hello());
    wait_for("the first to run", || status().running == 1);
    let second = send(&server, &hello());
    wait_for("the second to wait", || status().queued == 1);
    drop(second);
    let reply = first.reply().json();
    assert_eq!(reply["choices"][0]["message"]["content"], "a b c d e f");
}

#[test]
fn report_24_and_25_a_long_prompt_is_waited_for_with_an_early_head_and_pings() {
    let mut options = ServerOptions::new();
    options.timeout = Duration::from_millis(50);
    options.reader_patience = options.timeout;
    options.ping = Some(Duration::from_millis(20));
    let answer = json!({ "text": "Hello there.", "first_token_ms": 400 });
    let server = Running::scripted(json!({ "answers": [answer] }), options);
    let mut body = hello();
    body["stream"] = json!(true);
    body["return_progress"] = json!(true);
    let mut connection = send(&server, &body);
    assert_eq!(connection.head().0, 200);
    let mut text = String::new();
    while let Some(chunk) = connection.chunk() {
        text.push_str(std::str::from_utf8(&chunk).unwrap());
    }
    let first = text.find("\"content\":\"Hello\"").unwrap();
    assert!(text[..first].contains(": ping\n") && text[..first].contains("prompt_progress"), "{text}");
    assert_eq!(events(&text).last(), Some(&json!("[DONE]")));
    assert_eq!(server.post(PATH, &hello()).status, 200);
}

#[test]
fn report_34_a_lost_device_fails_what_runs_and_no_more() {
    let script = json!({ "lanes": 1, "answers": [
        { "when": "break", "text": "one two three", "token_ms": 30, "fault": { "kind": "device_lost", "after": 2 } },
        { "text": "Hello." },
    ] });
    let server = Running::scripted(script, ServerOptions::new());
    let breaking = json!({ "messages": [{ "role": "user", "content": "break" }], "stream": true });
    let first = send(&server, &breaking);
    wait_for("the first to run", || server.state().served().unwrap().backend.status().running == 1);
    let waiting = send(&server, &hello());
    let broken = events(&first.reply().text());
    assert_eq!(broken.last().unwrap()["error"]["code"], "device_failed", "{broken:?}");
    assert_eq!(waiting.reply().json()["choices"][0]["message"]["content"], "Hello.");
    // Which of the two told of the device last is not known; the next answer shows that it works.
    assert_eq!(server.post(PATH, &hello()).status, 200);
    assert_eq!(server.get("/health").status, 200);
    server.post(PATH, &json!({ "messages": [{ "role": "user", "content": "break" }] }));
    assert_eq!(server.get("/health").json()["error"]["type"], "server_error");
    assert!(server.get("/metrics").text().contains("zinc_device_losses_total 2"));
}

#[test]
fn report_35_unknown_kinds_of_tools_are_ignored_by_name() {
    let server = Running::saying(json!({ "text": "x" }));
    let mut body = hello();
    body["tools"] = json!([
        { "type": "web_search" },
        { "type": "custom", "name": "apply_patch", "format": { "type": "grammar" } },
        { "type": "namespace", "name": "n", "tools": [] },
        { "type": "image_generation" },
    ]);
    let reply = server.post(PATH, &body);
    let named = reply.header("x-zinc-ignored").unwrap();
    assert_eq!(reply.status, 200);
    for kind in ["web_search", "custom", "namespace", "image_generation"] {
        assert!(named.contains(&format!("({kind})")), "{named}");
    }
}

#[test]
fn report_36_every_required_field_is_always_there() {
    let server = Running::saying(json!({ "text": "" }));
    let reply = server.post(PATH, &hello()).json();
    for field in ["id", "object", "created", "model", "choices", "usage"] {
        assert!(!reply[field].is_null(), "{field}: {reply}");
    }
    let choice = &reply["choices"][0];
    assert!(choice["index"].is_number() && choice["finish_reason"].is_string(), "{reply}");
    // An answer without text has a text nevertheless.
    let message = choice["message"].as_object().unwrap();
    assert_eq!((&message["content"], message.contains_key("refusal")), (&json!(""), true));
    let mut body = hello();
    body["stream"] = json!(true);
    for event in server.events(PATH, &body).iter().filter(|event| event.is_object()) {
        for field in ["id", "object", "created", "model"] {
            assert!(!event[field].is_null(), "{field}: {event}");
        }
        let choice = &event["choices"][0];
        assert!(choice["index"].is_number() && choice["delta"].is_object() && choice.get("finish_reason").is_some());
    }
}

#[test]
fn report_41_an_answer_that_takes_long_comes_whole_without_a_stream() {
    let mut options = ServerOptions::new();
    options.timeout = Duration::from_millis(50);
    let answer = json!({ "text": "a b c d e f g h", "token_ms": 40 });
    let server = Running::scripted(json!({ "answers": [answer] }), options);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let reply = server.post(PATH, &hello()).json();
                assert_eq!(reply["choices"][0]["message"]["content"], "a b c d e f g h");
            });
        }
    });
}

/// Adds the numbers of the reports that the names of functions in a folder's sources say they are about.
fn add_tested(folder: &Path, tested: &mut BTreeSet<usize>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            add_tested(&path, tested);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path).unwrap();
            for name in text.split("fn report_").skip(1) {
                let words = name.split(|c: char| c != '_' && !c.is_ascii_alphanumeric()).next().unwrap_or_default();
                let numbers = words.split('_').take_while(|word| *word == "and" || word.parse::<usize>().is_ok());
                tested.extend(numbers.filter_map(|word| word.parse::<usize>().ok()));
            }
        }
    }
}

#[test]
fn each_report_of_the_table_has_a_test() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let document = fs::read_to_string(root.join("docs/server.md")).unwrap();
    let (_, section) = document.split_once("\n## What users have reported").expect("the section with the table");
    let lines = section.lines().skip(1).take_while(|line| !line.starts_with("## "));
    let numbers = lines.filter_map(|line| line.strip_prefix("| ")?.split(" | ").next()?.parse().ok());
    assert_eq!(numbers.collect::<Vec<usize>>(), (1..=REPORTS).collect::<Vec<_>>());
    let mut tested = BTreeSet::new();
    add_tested(&root.join("crates"), &mut tested);
    assert_eq!(tested, (1..=REPORTS).collect());
}
