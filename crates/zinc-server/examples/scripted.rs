//! Serves a model that says what it is told, at a port that is free: `cargo run -p zinc-server --example scripted`, then
//! `curl http://ADDRESS/v1/chat/completions -d '{"messages": [{"role": "user", "content": "Hi"}]}'`.

use zinc_server::fake::{FakeModel, Script};
use zinc_server::{Server, ServerOptions};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut options = ServerOptions::new();
    options.port = 0;
    let server = Server::bind(options).await?;
    let mut err = std::io::stderr().lock();
    std::io::Write::write_fmt(&mut err, format_args!("listening at http://{}\n", server.address()))?;
    drop(err);
    let script: Script = serde_json::from_str(r#"{"answers": [{"text": "You said: {last}", "token_ms": 50}]}"#)?;
    server.state().serve(Box::new(FakeModel::new(script)?));
    server
        .run(async {
            // Without a handler of Ctrl-C the server goes on until it is killed.
            if tokio::signal::ctrl_c().await.is_err() {
                std::future::pending::<()>().await;
            }
        })
        .await;
    Ok(())
}
