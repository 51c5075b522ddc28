//! A crowd of clients of all APIs: some are answered, some leave, some send nonsense. Whatever is answered is checked.

use std::io::Write as _;
use std::net::TcpStream;
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::{Connection, PATIENCE, Running, events};

/// The paths that clients ask.
const PATHS: [&str; 6] =
    ["/v1/chat/completions", "/v1/messages", "/v1/responses", "/v1/completions", "/completion", "/api/chat"];

/// Numbers that look random and are the same each time.
pub(crate) struct Numbers(pub(crate) u64);

impl Numbers {
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }
}

/// What has become of the requests of a crowd.
#[derive(Debug, Default)]
pub(crate) struct Crowd {
    pub(crate) answered: usize,
    pub(crate) abandoned: usize,
    pub(crate) broken: usize,
    /// Connections on which a request was begun that never comes. They stay open.
    half_open: Vec<TcpStream>,
}

impl Crowd {
    /// The answer that the server's script has to have: it says the secret of whoever asks, in pieces that cut it, with so many milliseconds between.
    pub(crate) fn answer(token_ms: u64) -> Value {
        json!({ "text": "The secret is {last}, and that is all.", "piece_chars": 5, "token_ms": token_ms })
    }

    /// Lets so many clients at a time make so many requests each, which carry so many bytes along that zinc has no use for.
    pub(crate) fn run(server: &Running, (clients, rounds): (u64, u64), ballast: usize) -> Self {
        thread::scope(|scope| {
            let client = |client| {
                scope.spawn(move || {
                    let (mut own, mut numbers) = (Self::default(), Numbers(client));
                    for round in 0..rounds {
                        own.one(server, &mut numbers, &format!("s{client}-{round}"), ballast);
                    }
                    own
                })
            };
            let clients: Vec<_> = (0..clients).map(client).collect();
            clients.into_iter().fold(Self::default(), |mut sum, client| {
                let own = client.join().unwrap();
                sum.answered += own.answered;
                sum.abandoned += own.abandoned;
                sum.broken += own.broken;
                sum.half_open.extend(own.half_open);
                sum
            })
        })
    }

    /// A request that is answered, read slowly, abandoned or broken.
    fn one(&mut self, server: &Running, numbers: &mut Numbers, secret: &str, ballast: usize) {
        let path = PATHS[numbers.below(PATHS.len() as u64) as usize];
        let stream = numbers.below(2) == 0;
        let mut body = body(path, secret, stream);
        body["ballast"] = Value::from("x".repeat(ballast));
        let body = body.to_string();
        let pause = Duration::from_millis(numbers.below(30));
        let send = |bytes: &[u8]| server.send("POST", path, &[], bytes);
        match numbers.below(8) {
            0..4 => {
                let pause = if numbers.below(4) == 0 { Duration::from_millis(3) } else { Duration::ZERO };
                check(path, stream, secret, send(body.as_bytes()), pause);
                self.answered += 1;
            }
            4..6 => {
                let mut connection = send(body.as_bytes());
                if stream {
                    connection.head();
                }
                thread::sleep(pause);
                self.abandoned += 1;
            }
            6 => {
                assert_eq!(send(&body.as_bytes()[..body.len() / 2]).reply().status, 400);
                self.broken += 1;
            }
            _ => {
                // The rest of the head, or of the body, never comes.
                let mut half = TcpStream::connect_timeout(&server.address(), PATIENCE).unwrap();
                let length = if numbers.below(2) == 0 { "" } else { "host\r\nContent-Length: 500\r\n\r\n{" };
                half.write_all(format!("POST {path} HTTP/1.1\r\nHost: local{length}").as_bytes()).unwrap();
                self.half_open.push(half);
                self.broken += 1;
            }
        }
    }
}

/// The body of a request to a path whose answer says the secret.
fn body(path: &str, secret: &str, stream: bool) -> Value {
    let messages = json!([{ "role": "user", "content": secret }]);
    match path {
        "/v1/responses" => json!({ "input": secret, "stream": stream }),
        "/v1/completions" | "/completion" => json!({ "prompt": secret, "stream": stream }),
        "/v1/messages" => json!({ "messages": messages, "stream": stream, "max_tokens": 1000 }),
        _ => json!({ "messages": messages, "stream": stream }),
    }
}

/// Reads a response, chunk by chunk with a pause between, and checks that it says the secret and how it has ended.
fn check(path: &str, stream: bool, secret: &str, mut connection: Connection, pause: Duration) {
    let text = if stream {
        assert_eq!(connection.head().0, 200, "{path}");
        let mut text = Vec::new();
        while let Some(chunk) = connection.chunk() {
            text.extend(chunk);
            thread::sleep(pause);
        }
        String::from_utf8(text).unwrap()
    } else {
        let reply = connection.reply();
        assert_eq!(reply.status, 200, "{path}: {}", reply.text());
        reply.text()
    };
    let values: Vec<Value> = match path {
        "/api/chat" if stream => text.lines().map(|line| serde_json::from_str(line).unwrap()).collect(),
        _ if stream => events(&text),
        _ => vec![serde_json::from_str(&text).unwrap()],
    };
    let (said, ends) = match path {
        "/v1/chat/completions" if stream => ("/choices/0/delta/content", "/choices/0/finish_reason"),
        "/v1/chat/completions" => ("/choices/0/message/content", "/choices/0/finish_reason"),
        "/v1/completions" => ("/choices/0/text", "/choices/0/finish_reason"),
        "/completion" => ("/content", "/stop_type"),
        "/api/chat" => ("/message/content", "/done_reason"),
        "/v1/messages" if stream => ("/delta/text", "/delta/stop_reason"),
        "/v1/messages" => ("/content/0/text", "/stop_reason"),
        "/v1/responses" if stream => ("/delta", "/response/completed_at"),
        "/v1/responses" => ("/output/0/content/0/text", "/completed_at"),
        _ => panic!("{path}"),
    };
    let texts = values.iter().filter_map(|value| value.pointer(said)?.as_str());
    assert_eq!(texts.collect::<String>(), format!("The secret is {secret}, and that is all."), "{path}: {text}");
    let is_end = |end: &Value| end.is_number() || end.as_str().is_some_and(|end| end != "none");
    let ends = values.iter().filter_map(|value| value.pointer(ends)).filter(|end| is_end(end));
    assert_eq!(ends.count(), 1, "{path}: {text}");
}
