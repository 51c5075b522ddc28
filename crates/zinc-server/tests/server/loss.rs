//! The loss of the device, in each API: what ran fails with an error event, what waited is answered, and `/health` says so.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use zinc_engine::{EndTokens, LoadedModel, OpenOptions};
use zinc_model::ChatTemplate;
use zinc_server::ServerOptions;
use zinc_server::backend::Loaded;

use crate::support::{Running, wait_for};

/// A path, a request that it takes, and where a failure is in the last of its events.
struct Api {
    path: &'static str,
    body: Value,
    /// What the last event has at this place, and that it is behind an event of this name; none has no name.
    error: (&'static str, Option<&'static str>),
}

fn apis() -> Vec<Api> {
    let messages = json!([{ "role": "user", "content": "break" }]);
    let api = |path, body, error| Api { path, body, error };
    vec![
        api("/v1/chat/completions", json!({ "messages": messages }), ("/error/message", None)),
        api("/v1/completions", json!({ "prompt": "break" }), ("/error/message", None)),
        api("/v1/responses", json!({ "input": "break" }), ("/response/error/message", Some("response.failed"))),
        api("/v1/messages", json!({ "messages": messages, "max_tokens": 4096 }), ("/error/message", Some("error"))),
        api("/completion", json!({ "prompt": "break" }), ("/error/message", None)),
        api("/api/chat", json!({ "messages": messages }), ("/error", None)),
        api("/api/generate", json!({ "prompt": "break" }), ("/error", None)),
    ]
}

impl Api {
    fn body(&self, stream: bool) -> Vec<u8> {
        let mut body = self.body.clone();
        body["stream"] = json!(stream);
        body.to_string().into_bytes()
    }

    /// Checks that a stream ends with the failure, in this API's shape.
    fn check_stream(&self, text: &str) {
        let lines: Vec<&str> = text.lines().filter(|line| !line.is_empty() && !line.starts_with(": ")).collect();
        // Responses end with a mark in any case.
        let lines = lines.strip_suffix(&["data: [DONE]"]).filter(|_| self.path == "/v1/responses").unwrap_or(&lines);
        let (last, before) = lines.split_last().unwrap_or_else(|| panic!("{}: nothing came", self.path));
        let data: Value = serde_json::from_str(last.strip_prefix("data: ").unwrap_or(last)).unwrap();
        let message = data.pointer(self.error.0).and_then(Value::as_str);
        assert!(message.is_some_and(|message| !message.is_empty()), "{}: {last}", self.path);
        if let Some(name) = self.error.1 {
            let named = format!("event: {name}");
            assert_eq!(before.last(), Some(&named.as_str()), "{}", self.path);
            assert_eq!(data["type"], name, "{}", self.path);
        }
    }
}

#[test]
fn report_34_a_lost_device_is_an_error_in_the_shape_of_each_api() {
    let script = json!({ "answers": [
        { "when": "break", "text": "one two three", "fault": { "kind": "device_lost", "after": 2 } },
        { "text": "Hello." },
    ] });
    let server = Running::scripted(script, ServerOptions::new());
    for api in apis() {
        let streamed = server.send("POST", api.path, &[], &api.body(true)).reply();
        assert_eq!(streamed.status, 200, "{}", api.path);
        let text = streamed.text();
        api.check_stream(&text);
        assert!(text.contains("one") && text.contains("two"), "what came before the failure is told: {text}");
        assert_eq!((server.get("/health").status, server.get("/live").status), (500, 200), "{}", api.path);
        let whole = server.send("POST", api.path, &[], &api.body(false)).reply();
        assert_eq!((whole.status, whole.header("x-should-retry")), (500, Some("false")), "{}", api.path);
        assert!(whole.json()["error"].is_object() || whole.json()["error"].is_string(), "{}", whole.text());
        // The next answer shows that the device is well.
        assert_eq!(server.post("/completion", &json!({ "prompt": "Hi" })).json()["content"], "Hello.", "{}", api.path);
        assert_eq!(server.get("/health").status, 200, "{}", api.path);
    }
    let losses = format!("zinc_device_losses_total {}", 2 * apis().len());
    assert!(server.get("/metrics").text().contains(&losses), "{losses}");
}

/// A model on a Vulkan device that is lost while each API has a stream and one request waits: the streams end with the failure, and the one that waits is
/// answered by the model on the device that is opened anew.
#[test]
fn report_34_a_lost_device_is_opened_again_for_those_who_wait() {
    let mut options = OpenOptions::new();
    options.file.lanes = apis().len() as u32;
    options.drive.queue_capacity = 8;
    options.drive.reopen = Some(options.device.clone());
    // No stream comes to the end of the context before the device is lost.
    options.drive.host_work = Duration::from_millis(5);
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/tiny/qwen3-f16.gguf");
    let model = LoadedModel::open(path, &options, &mut |_| {}).unwrap();
    let device = Arc::clone(model.place().device().expect("the model is on a device"));
    let source = "{% for message in messages %}{{ message.content }}{% endfor %}";
    let template = ChatTemplate::for_file(source, &model.file().model().file).unwrap();
    let mut options = ServerOptions::new();
    // Nor by a token that ends answers.
    options.defaults.end_tokens = EndTokens::GoOn;
    let server = Running::of(Box::new(Loaded::new(model, Some((template, source.to_owned())))), options);
    let streams: Vec<_> =
        apis().into_iter().map(|api| (server.send("POST", api.path, &[], &api.body(true)), api)).collect();
    let status = || server.state().served().unwrap().backend.status();
    wait_for("all to run", || status().running == streams.len());
    let waiting =
        server.send("POST", "/completion", &[], json!({ "prompt": "A", "n_predict": 3 }).to_string().as_bytes());
    wait_for("one to wait", || status().queued == 1);
    device.declare_lost();
    for (stream, api) in streams {
        let reply = stream.reply();
        assert_eq!(reply.status, 200, "{}", api.path);
        api.check_stream(&reply.text());
    }
    let answered = waiting.reply().json();
    assert_eq!((&answered["stop_type"], &answered["tokens_predicted"]), (&json!("limit"), &json!(3)), "{answered}");
    assert_eq!((server.get("/health").status, server.get("/live").status), (200, 200));
    assert!(server.get("/metrics").text().contains("zinc_device_losses_total 1"));
}
