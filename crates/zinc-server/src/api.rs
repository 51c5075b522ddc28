//! The APIs, one module each, and the paths that lead to them.

pub mod anthropic;
pub mod health;
mod infill;
pub mod llama;
pub mod ollama;
pub mod openai;
mod openapi;
mod parts;
pub mod prompt;
mod sampling;
mod tools;
pub mod whole;

use std::sync::Arc;

use axum::Router;
use axum::middleware;
use axum::routing::{get, post};

pub use sampling::{Limits, SamplingFields};

use openai::responses::stored;

use crate::auth;
use crate::error::{ApiError, ErrorKind, shaped};
use crate::state::State;

/// All paths of a server.
pub fn router(state: &Arc<State>) -> Router {
    let router = Router::new()
        .route("/health", get(health::health))
        .route("/v1/health", get(health::health))
        .route("/live", get(health::live))
        .route("/metrics", get(health::metrics))
        .route("/openapi.json", get(openapi::document))
        .route("/v1/chat/completions", post(openai::chat::complete))
        .route("/chat/completions", post(openai::chat::complete))
        .route("/v1/completions", post(openai::completions::complete))
        .route("/v1/responses", post(openai::responses::respond))
        .route("/responses", post(openai::responses::respond))
        .route("/v1/responses/input_tokens", post(openai::responses::count))
        .route("/v1/responses/{*id}", get(stored).delete(stored).post(stored))
        .route("/v1/messages", post(anthropic::messages::answer))
        .route("/v1/messages/count_tokens", post(anthropic::messages::count_tokens))
        .route("/v1/embeddings", post(embeddings))
        .route("/embeddings", post(embeddings))
        .route("/api/embed", post(embeddings))
        .route("/api/embeddings", post(embeddings))
        .route("/completion", post(llama::completion::complete))
        .route("/completions", post(llama::completion::complete))
        .route("/infill", post(llama::infill::fill_in))
        .route("/tokenize", post(llama::text::tokenize))
        .route("/detokenize", post(llama::text::detokenize))
        .route("/apply-template", post(llama::text::apply_template))
        .route("/props", get(llama::info::props))
        .route("/slots", get(llama::info::slots))
        .route("/", get(ollama::info::root))
        .route("/api/version", get(ollama::info::version))
        .route("/api/tags", get(ollama::info::tags))
        .route("/api/ps", get(ollama::info::running))
        .route("/api/show", post(ollama::info::show))
        .route("/api/chat", post(ollama::chat::chat))
        .route("/api/generate", post(ollama::generate::generate))
        .route("/v1/models", get(openai::models::list))
        .route("/models", get(openai::models::list))
        .route("/v1/models/{*id}", get(openai::models::one));
    router
        .fallback(|| async { ApiError::new(ErrorKind::NotFound, "this server has no such path") })
        .method_not_allowed_fallback(|| async {
            ApiError::new(ErrorKind::MethodNotAllowed, "this path does not take that method")
        })
        .layer(middleware::from_fn_with_state(Arc::clone(state), auth::guard))
        .layer(middleware::from_fn(shaped))
        .with_state(Arc::clone(state))
}

/// What zinc does not do.
async fn embeddings() -> ApiError {
    ApiError::new(ErrorKind::NotSupported, "zinc makes no embeddings; it generates text")
}
