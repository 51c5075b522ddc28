//! Clients that leave or read slowly, a queue that is full, and the end of the server.

use std::thread;
use std::time::Duration;

use serde_json::{Value, json};
use zinc_server::ServerOptions;
use zinc_server::auth::Keys;

use crate::support::{Running, endless, wait_for};

const CHAT: &str = "/v1/chat/completions";

fn hello(stream: bool) -> Vec<u8> {
    json!({ "messages": [{ "role": "user", "content": "Hi" }], "stream": stream }).to_string().into_bytes()
}

fn running(server: &Running) -> (usize, usize) {
    let status = server.state().served().unwrap().backend.status();
    (status.running, status.queued)
}

#[test]
fn report_22_a_client_that_leaves_frees_its_lane_in_every_phase() {
    let server = endless(ServerOptions::new(), 8);
    for stream in [false, true] {
        // The first runs and the second waits.
        let first = server.send("POST", CHAT, &[], &hello(stream));
        wait_for("the first to run", || running(&server) == (1, 0));
        let second = server.send("POST", CHAT, &[], &hello(stream));
        wait_for("the second to wait", || running(&server) == (1, 1));
        drop(second);
        wait_for("the second to be gone", || running(&server) == (1, 0));
        drop(first);
        wait_for("the first to be gone", || running(&server) == (0, 0));
        server.wait_until_idle();
    }
}

#[test]
fn a_full_queue_is_told_at_once() {
    let server = endless(ServerOptions::new(), 1);
    let first = server.send("POST", CHAT, &[], &hello(true));
    wait_for("the first to run", || running(&server) == (1, 0));
    let second = server.send("POST", CHAT, &[], &hello(true));
    wait_for("the second to wait", || running(&server) == (1, 1));
    let reply = server.send("POST", CHAT, &[], &hello(true)).reply();
    assert_eq!((reply.status, reply.json()["error"]["code"].as_str()), (503, Some("queue_full")));
    assert!(reply.header("retry-after").is_some() && reply.header("x-should-retry") == Some("true"));
    drop((first, second));
}

#[test]
fn who_has_half_of_the_lanes_waits_behind_others() {
    let mut options = ServerOptions::new();
    options.keys = Keys::new(["greedy", "modest"]);
    let script = json!({ "lanes": 2, "answers": [
        { "when": "modest", "text": "done" },
        { "text": "x", "fault": { "kind": "hang" } },
    ] });
    let server = Running::scripted(script, options);
    let send = |key: &str| {
        let body = json!({ "messages": [{ "role": "user", "content": key }] });
        server.send("POST", CHAT, &[("x-api-key", key)], body.to_string().as_bytes())
    };
    // None of the greedy ones ends by itself.
    let mut greedy = Vec::new();
    for count in 1..=6 {
        greedy.push(send("greedy"));
        wait_for("each to be queued behind the one before", || {
            let (running, queued) = running(&server);
            running + queued == count
        });
    }
    let modest = send("modest");
    wait_for("the modest one to wait, too", || running(&server) == (2, 5));
    drop(greedy.remove(0));
    // It came last, and gets the lane before those that came earlier.
    assert_eq!(modest.reply().json()["choices"][0]["message"]["content"], "done");
}

#[test]
fn silence_is_broken_by_a_comment_of_one_line() {
    let mut options = ServerOptions::new();
    options.ping = Some(Duration::from_millis(30));
    let server = endless(options, 8);
    let mut connection = server.send("POST", CHAT, &[], &hello(true));
    connection.head();
    let mut text = String::new();
    while text.matches(": ping\n").count() < 2 {
        text.push_str(std::str::from_utf8(&connection.chunk().unwrap()).unwrap());
    }
    assert!(!text.contains(": ping\n\n") && !text.contains("id:"), "{text}");
    // A request may do without.
    let body = json!({ "messages": [{ "role": "user", "content": "Hi" }], "stream": true, "sse_ping": false });
    drop(connection);
    let mut quiet = server.send("POST", CHAT, &[], body.to_string().as_bytes());
    quiet.head();
    let first = quiet.chunk().unwrap();
    thread::sleep(Duration::from_millis(100));
    assert!(!String::from_utf8_lossy(&first).contains("ping"));
}

#[test]
fn a_reader_that_takes_nothing_is_cancelled() {
    let mut options = ServerOptions::new();
    options.outlet_events = 4;
    options.reader_patience = Duration::from_millis(100);
    let long = json!({ "text": "word ".repeat(400_000) });
    let script = json!({ "lanes": 1, "context": 10_000_000, "answers": [long] });
    let server = Running::scripted(script, options);
    let slow = server.send("POST", CHAT, &[], &hello(true));
    wait_for("the request to run", || running(&server).0 == 1);
    wait_for("it to be cancelled", || running(&server).0 == 0);
    assert!(server.get("/metrics").text().contains("outcome=\"slow_reader\"} 1"));
    drop(slow);
}

#[test]
fn report_40_the_end_of_the_server_waits_for_what_runs_and_refuses_the_rest() {
    let answer = json!({ "text": "a b c d e f g h", "token_ms": 60 });
    let mut server = Running::scripted(json!({ "lanes": 1, "answers": [answer] }), ServerOptions::new());
    let first = server.send("POST", CHAT, &[], &hello(false));
    wait_for("the first to run", || running(&server) == (1, 0));
    let second = server.send("POST", CHAT, &[], &hello(false));
    wait_for("the second to wait", || running(&server) == (1, 1));
    wait_for("the first to have begun", || {
        server
            .state()
            .active()
            .first()
            .is_some_and(|active| active.has_begun.load(std::sync::atomic::Ordering::Relaxed))
    });
    server.stop();
    let refused = second.reply();
    assert_eq!((refused.status, refused.json()["error"]["code"].as_str()), (503, Some("draining")));
    assert!(refused.header("retry-after").is_some());
    assert_eq!(server.get("/health").status, 503);
    assert_eq!(server.get("/live").status, 200);
    assert_eq!(server.send("POST", CHAT, &[], &hello(false)).reply().status, 503);
    let answered = first.reply();
    assert_eq!(answered.status, 200);
    assert_eq!(answered.json()["choices"][0]["message"]["content"], "a b c d e f g h");
}

#[test]
fn report_21_answers_stay_with_those_who_asked() {
    let answer = json!({ "text": "You said {last} and nothing else.", "piece_chars": 3 });
    let server = Running::scripted(json!({ "lanes": 4, "answers": [answer] }), ServerOptions::new());
    thread::scope(|scope| {
        for client in 0..8 {
            let server = &server;
            scope.spawn(move || {
                for round in 0..10 {
                    let secret = format!("secret-{client}-{round}");
                    let body = json!({ "messages": [{ "role": "user", "content": secret }] });
                    let reply: Value = server.post(CHAT, &body).json();
                    let expected = format!("You said {secret} and nothing else.");
                    assert_eq!(reply["choices"][0]["message"]["content"], expected.as_str());
                }
            });
        }
    });
    server.wait_until_idle();
}
