//! Serves a model that says what it is told, asks it a question over HTTP, prints the reply and ends: `cargo run -p zinc-server --example scripted`.

use std::io::Write as _;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::time::timeout;
use zinc_server::fake::{FakeModel, Script};
use zinc_server::{Server, ServerOptions};

/// How long the reply may take.
const PATIENCE: Duration = Duration::from_secs(10);

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut options = ServerOptions::new();
    // Any port that is free.
    options.port = 0;
    let server = Server::bind(options).await?;
    let address = server.address();
    let script: Script = serde_json::from_str(r#"{"answers": [{"text": "You said: {last}", "token_ms": 5}]}"#)?;
    server.state().serve(Box::new(FakeModel::new(script)?));

    let (stop, stopped) = oneshot::channel::<()>();
    let running = tokio::spawn(server.run(async {
        // An error says that nobody can tell it to stop any more, which is a reason to stop, too.
        let _ = stopped.await;
    }));
    let reply = timeout(PATIENCE, ask(address, "Hi")).await??;
    std::io::stdout().write_all(&reply)?;
    drop(stop);
    running.await?;
    Ok(())
}

/// Asks a question in the form of OpenAI's API, and returns the whole HTTP response.
async fn ask(address: SocketAddr, question: &str) -> std::io::Result<Vec<u8>> {
    let body = serde_json::json!({ "messages": [{ "role": "user", "content": question }] }).to_string();
    let length = body.len();
    let head = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n"
    );
    let mut stream = TcpStream::connect(address).await?;
    stream.write_all((head + &body).as_bytes()).await?;
    let mut reply = Vec::new();
    stream.read_to_end(&mut reply).await?;
    Ok(reply)
}
