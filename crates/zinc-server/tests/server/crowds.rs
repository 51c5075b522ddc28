//! Many clients at a time, of which some leave, send nonsense, or hang.

use std::io::Write as _;
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use serde_json::json;
use zinc_server::ServerOptions;

use crate::support::{Running, events};

const PATH: &str = "/v1/chat/completions";

/// Numbers that look random and are the same each time.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }
}

/// Whether tests go through the whole of what they can.
fn is_full() -> bool {
    std::env::var_os("ZINC_TEST_MATRIX").is_some_and(|value| value == "full")
}

#[test]
fn a_crowd_of_every_kind_of_client_hangs_nothing() {
    let answer = json!({ "text": "The secret is {last}, and that is all there is.", "piece_chars": 5, "token_ms": 1 });
    let mut options = ServerOptions::new();
    options.timeout = Duration::from_millis(500);
    options.reader_patience = options.timeout;
    let server = Running::scripted(json!({ "lanes": 8, "queue": 1000, "answers": [answer] }), options);
    let (clients, rounds) = if is_full() { (64, 10) } else { (32, 5) };
    let answered = AtomicUsize::new(0);
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let health = scope.spawn(|| {
            while !is_over.load(Relaxed) {
                assert_eq!(server.get("/health").status, 200);
            }
        });
        let crowd: Vec<_> = (0..clients)
            .map(|client| {
                let (server, answered) = (&server, &answered);
                scope.spawn(move || {
                    let mut numbers = Numbers(client);
                    for round in 0..rounds {
                        let secret = format!("s{client}-{round}");
                        one_of_the_crowd(server, &mut numbers, &secret, answered);
                    }
                })
            })
            .collect();
        for one in crowd {
            one.join().unwrap();
        }
        is_over.store(true, Relaxed);
        health.join().unwrap();
    });
    assert!(answered.load(Relaxed) > 0);
    server.wait_until_idle();
    let status = server.state().served().unwrap().backend.status();
    assert_eq!((status.running, status.queued), (0, 0));
}

/// A request that is answered, abandoned or broken.
fn one_of_the_crowd(server: &Running, numbers: &mut Numbers, secret: &str, answered: &AtomicUsize) {
    let stream = numbers.below(2) == 0;
    let body = json!({ "messages": [{ "role": "user", "content": secret }], "stream": stream }).to_string();
    let expected = format!("The secret is {secret}, and that is all there is.");
    let pause = Duration::from_millis(numbers.below(30));
    match numbers.below(6) {
        0..3 => {
            let reply = server.send("POST", PATH, &[], body.as_bytes()).reply();
            assert_eq!(reply.status, 200, "{}", reply.text());
            let text = if stream {
                let delta = |event: &serde_json::Value| {
                    event["choices"][0]["delta"]["content"].as_str().unwrap_or_default().to_owned()
                };
                events(&reply.text()).iter().map(delta).collect()
            } else {
                reply.json()["choices"][0]["message"]["content"].as_str().unwrap().to_owned()
            };
            assert_eq!(text, expected);
            answered.fetch_add(1, Relaxed);
        }
        3 => {
            let mut connection = server.send("POST", PATH, &[], body.as_bytes());
            if stream {
                connection.head();
            }
            thread::sleep(pause);
        }
        4 => {
            let half = &body.as_bytes()[..body.len() / 2];
            assert_eq!(server.send("POST", PATH, &[], half).reply().status, 400);
        }
        _ => {
            let mut stream = TcpStream::connect(server.address()).unwrap();
            stream.write_all(b"POST /v1/chat/completions HTTP/1.1\r\nHost: local").unwrap();
            thread::sleep(pause);
        }
    }
}

#[test]
fn a_flood_of_connections_leaves_a_stream_alone() {
    let words: String = (0..200).map(|word| format!("w{word} ")).collect();
    let server = Running::saying(json!({ "text": words, "token_ms": 2 }));
    let mut stream = server.send(
        "POST",
        PATH,
        &[],
        json!({ "messages": [{ "role": "user", "content": "Hi" }], "stream": true }).to_string().as_bytes(),
    );
    stream.head();
    let flood = if is_full() { 2000 } else { 200 };
    let connections: Vec<TcpStream> = (0..flood).map(|_| TcpStream::connect(server.address()).unwrap()).collect();
    let mut text = String::new();
    while let Some(chunk) = stream.chunk() {
        text.push_str(std::str::from_utf8(&chunk).unwrap());
    }
    let said: String = events(&text)
        .iter()
        .map(|event| event["choices"][0]["delta"]["content"].as_str().unwrap_or_default().to_owned())
        .collect();
    assert_eq!(said.trim_end(), words.trim_end());
    assert_eq!(server.get("/health").status, 200);
    drop(connections);
}
