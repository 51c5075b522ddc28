//! `zinc serve` as a process of its own.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use crate::support::{ANSWER, QUESTION, command, zinc};

/// How long a test waits for anything.
const PATIENCE: Duration = Duration::from_secs(60);

/// A server that is killed when this is dropped.
struct Server {
    process: Child,
    address: String,
    lines: Receiver<String>,
}

impl Server {
    /// Starts a server, at a port that is free, and waits until it serves its model.
    fn start(arguments: &[&str], key: Option<&str>) -> Self {
        let server = Self::begin(arguments, key);
        server.line("serving ");
        server
    }

    /// Starts a server, at a port that is free, and waits until it listens.
    fn begin(arguments: &[&str], key: Option<&str>) -> Self {
        let mut command = command(&[&["serve", "--port", "0"], arguments].concat());
        command.env_remove("ZINC_API_KEY");
        if let Some(key) = key {
            command.env("ZINC_API_KEY", key);
        }
        let mut process = command.stderr(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let stderr = BufReader::new(process.stderr.take().unwrap());
        let (sender, lines) = channel();
        thread::spawn(move || {
            for line in stderr.lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        let mut server = Self { process, address: String::new(), lines };
        server.address = server.line("listening at http://").split("http://").nth(1).unwrap().to_owned();
        server
    }

    /// Waits for a line of stderr that contains `part`.
    fn line(&self, part: &str) -> String {
        let end = Instant::now() + PATIENCE;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let line = self.lines.recv_timeout(left).unwrap_or_else(|error| panic!("no line with {part}: {error}"));
            if line.contains(part) {
                return line;
            }
        }
    }

    /// The whole response to a request.
    fn request(&self, method: &str, path: &str, headers: &str, body: &str) -> String {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let (address, length) = (&self.address, body.len());
        let head =
            format!("{method} {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nContent-Length: {length}\r\n");
        stream.write_all(format!("{head}{headers}\r\n{body}").as_bytes()).unwrap();
        let mut response = String::new();
        stream.read_to_string(&mut response).unwrap();
        response
    }

    #[cfg(unix)]
    fn signal(&self, signal: rustix::process::Signal) {
        let id = rustix::process::Pid::from_child(&self.process);
        rustix::process::kill_process(id, signal).unwrap();
    }

    /// Waits for the end of the process, and returns its exit status.
    fn ended(&mut self) -> Option<i32> {
        let end = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.process.try_wait().unwrap() {
                return status.code();
            }
            assert!(Instant::now() < end, "it does not end");
            thread::sleep(Duration::from_millis(10));
        }
    }

    fn post(&self, path: &str, body: &serde_json::Value) -> serde_json::Value {
        let response = self.request("POST", path, "", &body.to_string());
        let (head, body) = response.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 200"), "{response}");
        serde_json::from_str(body).unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn a_scripted_model_is_served_until_a_signal_ends_it() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("script.json");
    std::fs::write(&file, r#"{"model": "test", "answers": [{"text": "Hello, {last}."}]}"#).unwrap();
    let mut server = Server::start(&["--fake", file.to_str().unwrap(), "--alias", "mine", "--log-json"], None);
    let body = serde_json::json!({ "messages": [{ "role": "user", "content": "World" }] });
    let reply = server.post("/v1/chat/completions", &body);
    assert_eq!(reply["choices"][0]["message"]["content"], "Hello, World.");
    assert_eq!(reply["model"], "mine");
    let logged = server.line("answered");
    let logged: serde_json::Value = serde_json::from_str(&logged).unwrap();
    assert_eq!((&logged["outcome"], &logged["message"]), (&"stop".into(), &"answered".into()), "{logged}");
    assert!(!logged.to_string().contains("World"), "what was said is nobody's business: {logged}");
    #[cfg(unix)]
    {
        server.signal(rustix::process::Signal::TERM);
        server.line("ending when");
        assert_eq!(server.ended(), Some(0));
    }
}

/// The server stays in the foreground. While it loads, Ctrl-C ends it at once; later the first Ctrl-C waits for what runs, and the second does not.
#[cfg(unix)]
#[test]
fn report_37_ctrl_c_ends_a_server_in_every_phase() {
    use rustix::process::Signal;

    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("script.json");
    let script = |script: &str| {
        std::fs::write(&file, script).unwrap();
        ["--fake", file.to_str().unwrap()]
    };
    let mut loading = Server::begin(&script(r#"{ "load_ms": 600000 }"#), None);
    assert!(loading.request("GET", "/health", "", "").starts_with("HTTP/1.1 503"));
    loading.signal(Signal::INT);
    assert_eq!(loading.ended(), Some(130));

    let endless = script(r#"{ "answers": [{ "text": "one two", "fault": { "kind": "hang", "after": 1 } }] }"#);
    let mut streaming = Server::start(&endless, None);
    let mut stream = TcpStream::connect(&streaming.address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let body = r#"{ "prompt": "x", "stream": true }"#;
    let (address, length) = (&streaming.address, body.len());
    write!(stream, "POST /completion HTTP/1.1\r\nHost: {address}\r\nContent-Length: {length}\r\n\r\n{body}").unwrap();
    let mut lines = BufReader::new(stream).lines().map_while(Result::ok);
    assert!(lines.any(|line| line.contains("one")), "the answer has begun");
    streaming.signal(Signal::INT);
    streaming.line("ending when what runs is answered; once more ends at once");
    assert!(streaming.request("GET", "/health", "", "").starts_with("HTTP/1.1 503"));
    assert!(streaming.request("GET", "/live", "", "").starts_with("HTTP/1.1 200"));
    streaming.signal(Signal::INT);
    assert_eq!(streaming.ended(), Some(130));
}

#[test]
fn the_demo_model_is_served() {
    let server = Server::start(&["--device", "interpreter", "--temp", "0"], Some("secret"));
    assert!(server.request("GET", "/health", "", "").starts_with("HTTP/1.1 200"));
    let body = serde_json::json!({ "messages": [{ "role": "user", "content": QUESTION }] }).to_string();
    assert!(server.request("POST", "/v1/chat/completions", "", &body).starts_with("HTTP/1.1 401"));
    let key = "Authorization: Bearer secret\r\n";
    let response = server.request("POST", "/v1/chat/completions", key, &body);
    assert!(response.contains(ANSWER.trim_end()), "{response}");
    assert!(response.contains("\"model\":\"zinc-demo-q4_k_m\""), "{response}");
}

#[test]
fn what_cannot_be_served_is_said_at_once() {
    zinc(&["serve", "--host", "0.0.0.0", "--port", "0"]).failure(2, &["0.0.0.0", "--api-key", "--insecure"]);
    zinc(&["serve", "--host", "gpu.lan"]).failure(2, &["--host", "numeric"]);
    zinc(&["serve", "--api-key", "", "--port", "0"]).failure(2, &["empty"]);
    zinc(&["serve", "--ssl-key-file", "x"]).failure(2, &["--ssl-key-file", "reverse proxy"]);
    zinc(&["serve", "--parallel", "65"]).failure(2, &["--parallel"]);
    zinc(&["serve", "--cache-tokens", "0"]).failure(2, &["--cache-tokens"]);
    zinc(&["serve", "-np", "1", "--cache-tokens", "64", "--port", "0"]).failure(2, &["--cache-tokens 64", "one alone"]);
    let two_drafted = zinc(&["serve", "-np", "2", "--draft", "draft.gguf", "--port", "0"]);
    two_drafted.failure(2, &["-np 2", "-np 1", "--draft-ngram"]);
    zinc(&["serve", "--min-p", "2", "--port", "0"]).failure(2, &["min-p"]);
    zinc(&["serve", "--api-key-file", "/nonexistent", "--port", "0"]).failure(1, &["/nonexistent"]);
    let notes = zinc(&["serve", "-np", "2", "--metrics", "--no-webui", "--min-p", "2"]).stderr;
    assert!(notes.contains("--metrics changes nothing") && notes.contains("--no-webui changes nothing"), "{notes}");
}
