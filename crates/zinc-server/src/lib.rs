//! Serves a model over HTTP: the APIs of OpenAI, Anthropic, llama.cpp and ollama, all from one core.
//!
//! ```no_run
//! use zinc_server::fake::{FakeModel, Script};
//! use zinc_server::{Server, ServerOptions};
//!
//! # async fn serve() -> Result<(), Box<dyn std::error::Error>> {
//! let server = Server::bind(ServerOptions::new()).await?;
//! let state = server.state().clone();
//! // Requests are answered with 503 until there is a model.
//! state.serve(Box::new(FakeModel::new(Script::default())?));
//! server.run(std::future::pending()).await;
//! # Ok(())
//! # }
//! ```
//!
//! # The life of a request
//!
//! 1. *Connection*: [`Server`] accepts it, within its limits of number and time.
//! 2. *Guard*: [`auth`] compares its key, or without keys the name that it calls the server by and the web page that it comes from.
//! 3. *Body*: [`body::Fields`] reads it into the plain structs of its API, and remembers the fields that are unknown.
//! 4. *Ask*: the API turns the fields into a [`core::Ask`], which has no API's shape. What is known and wrong is refused here, with the
//!    field's name.
//! 5. *Start*: on a thread that may block, [`core::start`] makes the prompt of a conversation, checks constraint and sizes, and puts the
//!    request into the queue of the [`backend::Backend`]. Until here an error has a status of its own.
//! 6. *Answer*: a thread for each answer reads its tokens, and makes thoughts, content and calls of their text ([`output`]). They go through
//!    a channel of bounded size. If it stays full, whoever reads is too slow, and the request is cancelled.
//! 7. *Shape*: the API writes the [`core::Event`]s as they come ([`stream`]), or gathers them ([`core::Answering::collect`]). If the client
//!    leaves, what it was to read is dropped, and that cancels the request.
//!
//! # Invariants
//!
//! - No text work happens on the thread that owns the device, and none that takes milliseconds on a thread that serves connections.
//! - An answer that has ended is never thrown away: whatever it is, it is a legal reply.
//! - A request that was taken ends with exactly one end or one error.
//! - `/health` and `/live` wait for nothing.
//! - No error names a path, and no key is ever shown.

#![forbid(unsafe_code)]

pub mod api;
pub mod auth;
pub mod backend;
pub mod body;
pub mod core;
pub mod error;
pub mod fake;
mod ids;
mod metrics;
mod options;
pub mod output;
mod server;
mod stall;
pub mod state;
pub mod stream;
mod version;

pub use options::{ReasoningField, ReasoningFormat, ServerOptions};
pub use server::{ServeError, Server};
