//! A server in this process, and a client that speaks HTTP by hand, so that nothing between hides what is sent. Every wait ends.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::sync::oneshot;
use zinc_server::backend::Backend;
use zinc_server::fake::{FakeModel, Script};
use zinc_server::state::State;
use zinc_server::{Server, ServerOptions};

/// How long a test waits for anything.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A server that runs until this is dropped.
pub(crate) struct Running {
    address: SocketAddr,
    state: std::sync::Arc<State>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Running {
    /// A server whose model loads for ever.
    pub(crate) fn loading(mut options: ServerOptions) -> Self {
        options.port = 0;
        let (sender, started) = std::sync::mpsc::channel();
        let (stop, stopped) = oneshot::channel::<()>();
        let thread = thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
            runtime.block_on(async move {
                let server = Server::bind(options).await.unwrap();
                sender.send((server.address(), std::sync::Arc::clone(server.state()))).unwrap();
                server.run(async move { drop(stopped.await) }).await;
            });
            runtime.shutdown_timeout(PATIENCE);
        });
        let (address, state) = started.recv_timeout(PATIENCE).unwrap();
        Self { address, state, stop: Some(stop), thread: Some(thread) }
    }

    /// A server of a backend.
    pub(crate) fn of(backend: Box<dyn Backend>, options: ServerOptions) -> Self {
        let running = Self::loading(options);
        running.state.serve(backend);
        running
    }

    /// A server of a fake model with this script.
    pub(crate) fn scripted(script: Value, options: ServerOptions) -> Self {
        let script: Script = serde_json::from_value(script).unwrap();
        Self::of(Box::new(FakeModel::new(script).unwrap()), options)
    }

    /// A server of a fake model with one answer, under the default options.
    pub(crate) fn saying(answer: Value) -> Self {
        let mut script = serde_json::json!({});
        script["answers"] = Value::Array(vec![answer]);
        Self::scripted(script, ServerOptions::new())
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn state(&self) -> &State {
        &self.state
    }

    /// Tells the server to end, and does not wait for that.
    pub(crate) fn stop(&mut self) {
        self.stop = None;
    }

    pub(crate) fn get(&self, path: &str) -> Reply {
        self.send("GET", path, &[], b"").reply()
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> Reply {
        self.send("POST", path, &[], body.to_string().as_bytes()).reply()
    }

    /// Sends a request as the last of its connection, and returns the connection, from which nothing was read yet.
    pub(crate) fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Connection {
        self.keep(method, path, &[headers, &[("Connection", "close")]].concat(), body)
    }

    /// Sends a request that leaves the connection open.
    pub(crate) fn keep(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Connection {
        let stream = TcpStream::connect_timeout(&self.address, PATIENCE).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        let mut head = format!("{method} {path} HTTP/1.1\r\nContent-Length: {}\r\n", body.len());
        let has_host = headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("host"));
        if !has_host {
            head.push_str(&format!("Host: {}\r\n", self.address));
        }
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        head.push_str("\r\n");
        let mut connection = Connection { reader: BufReader::new(stream) };
        let stream = connection.reader.get_mut();
        // A server that refuses a large body closes before it has all of it.
        let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body));
        connection
    }

    /// Streams an answer to its end.
    pub(crate) fn events(&self, path: &str, body: &Value) -> Vec<Value> {
        let reply = self.post(path, body);
        assert_eq!(reply.status, 200, "{}", reply.text());
        events(&reply.text())
    }

    /// Waits until no request is under way.
    pub(crate) fn wait_until_idle(&self) {
        wait_for("no request to be under way", || self.state.is_idle());
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop();
        if let Some(thread) = self.thread.take() {
            let ended = thread.join();
            if !thread::panicking() {
                ended.unwrap();
            }
        }
    }
}

/// A model with one lane that never ends its answer, behind which so many requests may wait.
pub(crate) fn endless(options: ServerOptions, queue: usize) -> Running {
    let hang = json!({ "text": "one two", "fault": { "kind": "hang", "after": 1 } });
    Running::scripted(json!({ "lanes": 1, "queue": queue, "answers": [hang] }), options)
}

/// Checks that a client which leaves in the middle of an answer frees the lane, whether its request is streamed or not; `body` makes the request.
pub(crate) fn leaving_frees_the_lane(path: &str, body: impl Fn(bool) -> Value) {
    let server = endless(ServerOptions::new(), 128);
    let running = || server.state().served().unwrap().backend.status().running;
    for stream in [false, true] {
        let connection = server.send("POST", path, &[], body(stream).to_string().as_bytes());
        wait_for("it to run", || running() == 1);
        drop(connection);
        wait_for("it to be gone", || running() == 0);
        server.wait_until_idle();
    }
}

/// Waits until something holds, and panics with what it is if it does not.
pub(crate) fn wait_for(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < PATIENCE, "waited for {what}");
        thread::sleep(Duration::from_millis(2));
    }
}

/// A connection on which a request was sent.
pub(crate) struct Connection {
    reader: BufReader<TcpStream>,
}

/// A whole response.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Connection {
    /// Reads the head of the response.
    pub(crate) fn head(&mut self) -> (u16, Vec<(String, String)>) {
        let mut line = String::new();
        self.reader.read_line(&mut line).unwrap();
        let status = line.split(' ').nth(1).unwrap_or_else(|| panic!("no status in {line:?}")).parse().unwrap();
        let mut headers = Vec::new();
        loop {
            line.clear();
            self.reader.read_line(&mut line).unwrap();
            let Some((name, value)) = line.trim_end().split_once(": ") else { break };
            headers.push((name.to_ascii_lowercase(), value.to_owned()));
        }
        (status, headers)
    }

    /// Reads the next chunk of a body without a length; `None` at its end.
    pub(crate) fn chunk(&mut self) -> Option<Vec<u8>> {
        let mut line = String::new();
        self.reader.read_line(&mut line).unwrap();
        let length = usize::from_str_radix(line.trim(), 16).ok()?;
        let mut chunk = vec![0; length + 2];
        self.reader.read_exact(&mut chunk).unwrap();
        chunk.truncate(length);
        (length > 0).then_some(chunk)
    }

    /// Reads the whole response.
    pub(crate) fn reply(mut self) -> Reply {
        let (status, headers) = self.head();
        let mut body = Vec::new();
        if headers.iter().any(|(name, value)| name == "transfer-encoding" && value == "chunked") {
            while let Some(chunk) = self.chunk() {
                body.extend(chunk);
            }
        } else {
            let length =
                headers.iter().find(|(name, _)| name == "content-length").map(|(_, value)| value.parse().unwrap());
            body.resize(length.unwrap_or(0), 0);
            self.reader.read_exact(&mut body).unwrap();
        }
        Reply { status, headers, body }
    }
}

impl Reply {
    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.body.clone()).unwrap()
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.text()))
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(own, _)| own == name).map(|(_, value)| value.as_str())
    }
}

/// The data of server-sent events; `[DONE]` is a text.
pub(crate) fn events(text: &str) -> Vec<Value> {
    let lines = text.lines().filter_map(|line| line.strip_prefix("data: "));
    lines.map(|data| serde_json::from_str(data).unwrap_or_else(|_| Value::from(data))).collect()
}
