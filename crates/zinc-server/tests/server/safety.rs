//! Who may use the server, and how large and how late requests may be.

use std::time::Duration;

use serde_json::json;
use zinc_server::auth::Keys;
use zinc_server::{ServeError, Server, ServerOptions};

use crate::support::Running;

const CHAT: &str = "/v1/chat/completions";

fn hello() -> Vec<u8> {
    json!({ "messages": [{ "role": "user", "content": "Hi" }] }).to_string().into_bytes()
}

fn with(change: impl FnOnce(&mut ServerOptions)) -> Running {
    let mut options = ServerOptions::new();
    change(&mut options);
    Running::scripted(json!({ "answers": [{ "text": "Hello." }] }), options)
}

#[test]
fn keys_are_asked_for_everywhere_but_of_health() {
    let server = with(|options| options.keys = Keys::new(["one", "two"]));
    for path in ["/health", "/v1/health", "/live"] {
        assert_eq!(server.get(path).status, 200, "{path}");
    }
    for path in ["/v1/models", "/metrics", "/none"] {
        let reply = server.get(path);
        assert_eq!((reply.status, reply.header("www-authenticate")), (401, Some("Bearer")), "{path}");
        assert_eq!(reply.json()["error"]["type"], "authentication_error");
    }
    for headers in [[("Authorization", "Bearer three")], [("x-api-key", "on")], [("Authorization", "Basic one")]] {
        assert_eq!(server.send("POST", CHAT, &headers, &hello()).reply().status, 401, "{headers:?}");
    }
    for headers in [[("Authorization", "Bearer one")], [("x-api-key", "two")]] {
        assert_eq!(server.send("POST", CHAT, &headers, &hello()).reply().status, 200, "{headers:?}");
    }
}

#[test]
fn report_32_an_open_address_needs_a_key() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let bind = |change: &dyn Fn(&mut ServerOptions)| {
        let mut options = ServerOptions::new();
        (options.host, options.port) = ([0, 0, 0, 0].into(), 0);
        change(&mut options);
        runtime.block_on(Server::bind(options)).map(|server| server.address())
    };
    assert!(matches!(bind(&|_| {}), Err(ServeError::Open { .. })));
    assert!(bind(&|options| options.insecure = true).is_ok());
    assert!(bind(&|options| options.keys = Keys::new(["k"])).is_ok());
}

#[test]
fn report_33_names_and_pages_of_others_are_refused() {
    let server = with(|_| {});
    for (header, status) in [
        (("Host", "evil.example"), 403),
        (("Host", "localhost:1234"), 200),
        (("Origin", "https://evil.example"), 403),
        (("Origin", "null"), 403),
        (("Origin", "vscode-webview://x"), 200),
    ] {
        let reply = server.send("POST", CHAT, &[header], &hello()).reply();
        assert_eq!(reply.status, status, "{header:?}");
        assert_eq!(reply.header("access-control-allow-origin"), None, "{header:?}");
    }
    let preflight = [("Origin", "https://chat.example"), ("Access-Control-Request-Method", "POST")];
    assert_eq!(server.send("OPTIONS", CHAT, &preflight, b"").reply().status, 403);
}

#[test]
fn listed_pages_are_answered() {
    let server = with(|options| options.cors_origins = vec!["https://chat.example".to_owned()]);
    let origin = ("Origin", "https://chat.example");
    let preflight = server.send("OPTIONS", CHAT, &[origin, ("Access-Control-Request-Method", "POST")], b"").reply();
    assert_eq!((preflight.status, preflight.header("access-control-allow-origin")), (204, Some(origin.1)));
    let reply = server.send("POST", CHAT, &[origin], &hello()).reply();
    assert_eq!((reply.status, reply.header("access-control-allow-origin")), (200, Some(origin.1)));
}

#[test]
fn a_refusal_that_leaves_the_body_says_that_the_connection_ends() {
    let server = with(|options| options.keys = Keys::new(["one"]));
    let key = ("x-api-key", "one");
    let connection = |method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]| {
        let reply = server.keep(method, path, headers, body).reply();
        (reply.status, reply.header("connection").map(str::to_owned))
    };
    let close = Some("close".to_owned());
    assert_eq!(connection("POST", CHAT, &[], &hello()), (401, close.clone()));
    assert_eq!(connection("POST", "/v2/chat", &[key], &hello()), (404, close.clone()));
    assert_eq!(connection("PUT", CHAT, &[key], &hello()), (405, close.clone()));
    assert_eq!(connection("POST", "/v1/embeddings", &[key], &hello()), (501, close));
    // Where there is no body, and where all of it was read, the connection can be used again.
    assert_eq!(connection("GET", "/v2/chat", &[key], b""), (404, None));
    assert_eq!(connection("POST", CHAT, &[key], b"{"), (400, None));
}

#[test]
fn bodies_have_a_largest_size() {
    let server = with(|options| options.most_body_bytes = 1000);
    let reply = server.send("POST", CHAT, &[], &vec![b' '; 2000]).reply();
    assert_eq!(reply.status, 413);
    assert_eq!(server.send("POST", CHAT, &[], &hello()).reply().status, 200);
}

#[test]
fn large_bodies_are_read() {
    let server = with(|_| {});
    let body =
        json!({ "messages": [{ "role": "user", "content": "word ".repeat(10_000) }], "colour": "x".repeat(1 << 20) });
    let reply = server.post(CHAT, &body);
    assert_eq!((reply.status, reply.header("x-zinc-ignored")), (200, Some("colour")));
    let broken = [b' '; 200_000].as_slice();
    assert_eq!(server.send("POST", CHAT, &[], broken).reply().status, 400);
}

#[test]
fn bodies_that_do_not_come_are_given_up() {
    let server = with(|options| options.timeout = Duration::from_millis(200));
    let body = hello();
    // The length says more than comes.
    let reply = server.send("POST", CHAT, &[("Content-Length", "500")], &body).reply();
    assert!([400, 408].contains(&reply.status), "{}", reply.status);
}

#[test]
fn a_model_that_loads_is_waited_for() {
    let server = Running::loading(ServerOptions::new());
    for path in ["/health", "/v1/models"] {
        let reply = server.get(path);
        assert_eq!((reply.status, reply.json()["error"]["type"].as_str()), (503, Some("unavailable_error")), "{path}");
        assert!(reply.header("retry-after").is_some() && reply.header("x-should-retry") == Some("true"));
    }
    assert_eq!(server.get("/live").status, 200);
    let reply = server.send("POST", CHAT, &[], &hello()).reply();
    assert_eq!((reply.status, reply.json()["error"]["message"].as_str()), (503, Some("Loading model")));
    server.state().give_up("it does not fit");
    assert_eq!(server.get("/health").status, 500);
    assert_eq!(server.get("/live").status, 500);
}

#[test]
fn unknown_paths_and_methods_are_told_in_json() {
    let server = with(|_| {});
    let reply = server.get("/v2/chat");
    assert_eq!((reply.status, reply.json()["error"]["type"].as_str()), (404, Some("not_found_error")));
    let reply = server.get(CHAT);
    assert_eq!((reply.status, reply.json()["error"]["type"].as_str()), (405, Some("invalid_request_error")));
    assert!(server.get("/api/none").json()["error"].is_string());
    assert_eq!(server.get("/v1/messages/none").json()["type"], "error");
}
