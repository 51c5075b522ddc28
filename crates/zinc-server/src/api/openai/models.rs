//! `GET /v1/models` and `/v1/models/{id}`.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State as Shared};
use serde::Serialize;

use crate::error::{ApiError, ApiResult, ErrorKind};
use crate::state::{Served, State};

/// The list of models, which has one.
#[derive(Debug, Serialize)]
pub struct ModelList {
    object: &'static str,
    data: Vec<ModelReply>,
}

/// A model.
#[derive(Debug, Serialize)]
pub struct ModelReply {
    id: String,
    object: &'static str,
    created: u64,
    owned_by: &'static str,
    meta: ModelMeta,
}

/// What llama-server says of a model.
#[derive(Debug, Serialize)]
pub struct ModelMeta {
    n_ctx: u32,
    n_ctx_train: u32,
    n_vocab: u32,
    n_embd: u32,
    n_params: u64,
    size: u64,
}

impl ModelReply {
    fn new(served: &Served, created: u64) -> Self {
        let facts = served.backend.facts();
        let meta = ModelMeta {
            n_ctx: facts.context_tokens,
            n_ctx_train: facts.trained_tokens,
            n_vocab: facts.vocabulary_tokens,
            n_embd: facts.embedding_width,
            n_params: facts.parameters,
            size: facts.bytes,
        };
        Self { id: served.alias.clone(), object: "model", created, owned_by: "zinc", meta }
    }
}

/// `GET /v1/models`.
pub async fn list(Shared(state): Shared<Arc<State>>) -> ApiResult<Json<ModelList>> {
    let model = ModelReply::new(&*state.served()?, state.started_s);
    Ok(Json(ModelList { object: "list", data: vec![model] }))
}

/// `GET /v1/models/{id}`.
pub async fn one(Shared(state): Shared<Arc<State>>, Path(id): Path<String>) -> ApiResult<Json<ModelReply>> {
    let served = state.served()?;
    if id != served.alias {
        let message = format!("there is no model {id:?}; this server has {:?}", served.alias);
        let code = Some("model_not_found");
        return Err(ApiError { code, ..ApiError::new(ErrorKind::NotFound, message) }.with_param("model"));
    }
    Ok(Json(ModelReply::new(&served, state.started_s)))
}
