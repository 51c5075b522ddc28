//! Many clients at a time, of which some leave, send nonsense, read slowly, or hang.

#![allow(clippy::print_stdout, reason = "the counts and the time are for whoever reads the output")]

use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::json;
use zinc_server::ServerOptions;

use crate::clients::{Crowd, Numbers};
use crate::matrix::is_full;
use crate::support::{PATIENCE, Running, events};

const PATH: &str = "/v1/chat/completions";

#[test]
fn a_crowd_of_every_kind_of_client_hangs_nothing() {
    let script = json!({ "lanes": 8, "queue": 1000, "answers": [Crowd::answer(1)] });
    let server = Running::scripted(script, ServerOptions::new());
    let (clients, rounds) = if is_full() { (64, 10) } else { (32, 5) };
    let is_over = AtomicBool::new(false);
    let slowest_us = AtomicU64::new(0);
    let crowd = thread::scope(|scope| {
        let health = scope.spawn(|| {
            while !is_over.load(Relaxed) {
                let start = Instant::now();
                assert_eq!(server.get("/health").status, 200);
                slowest_us.fetch_max(start.elapsed().as_micros() as u64, Relaxed);
                thread::sleep(Duration::from_millis(2));
            }
        });
        let crowd = Crowd::run(&server, (clients, rounds), 0);
        is_over.store(true, Relaxed);
        health.join().unwrap();
        crowd
    });
    let slowest_ms = slowest_us.load(Relaxed) as f64 / 1e3;
    println!("{} requests answered, {} abandoned, {} broken", crowd.answered, crowd.abandoned, crowd.broken);
    println!("the slowest answer of /health took {slowest_ms:.1} ms");
    assert!(crowd.answered > 0 && crowd.abandoned > 0 && crowd.broken > 0, "{crowd:?}");
    server.wait_until_idle();
    let status = server.state().served().unwrap().backend.status();
    assert_eq!((status.running, status.queued), (0, 0));
    assert_eq!(ended(&server), started(&server), "each request that was taken ends once");
}

/// A figure of `/metrics`: the sum of all lines of this name.
fn figure(server: &Running, name: &str) -> u64 {
    let text = server.get("/metrics").text();
    let values = text.lines().filter(|line| line.starts_with(name)).filter_map(|line| line.rsplit(' ').next());
    values.map(|value| value.parse::<u64>().unwrap()).sum()
}

fn started(server: &Running) -> u64 {
    figure(server, "zinc_requests_started_total")
}

fn ended(server: &Running) -> u64 {
    figure(server, "zinc_requests_total")
}

#[test]
fn a_flood_of_connections_leaves_a_stream_alone() {
    let words: String = (0..200).map(|word| format!("w{word} ")).collect();
    let server = Running::saying(json!({ "text": words, "token_ms": 2 }));
    let body = json!({ "messages": [{ "role": "user", "content": "Hi" }], "stream": true }).to_string();
    let mut stream = server.send("POST", PATH, &[], body.as_bytes());
    stream.head();
    let flood = if is_full() { 2000 } else { 200 };
    let mut numbers = Numbers(1);
    let connections: Vec<TcpStream> = (0..flood).map(|_| one_of_the_flood(&server, &mut numbers)).collect();
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

/// A connection that says nothing, half of a head, what is no HTTP, or a whole request, and reads nothing.
fn one_of_the_flood(server: &Running, numbers: &mut Numbers) -> TcpStream {
    use std::io::Write as _;
    // Both ends of each connection are in this process, which may have too few files open (`ulimit -n`).
    let mut stream = TcpStream::connect_timeout(&server.address(), PATIENCE).expect("two open files a connection");
    let said: &[u8] = match numbers.below(4) {
        0 => b"",
        1 => b"POST /v1/chat/completions HTTP/1.1\r\nHost: local",
        2 => b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        _ => b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n",
    };
    // The server may have closed the connection already, where what it was told is no HTTP.
    let _ = stream.write_all(said);
    stream
}
