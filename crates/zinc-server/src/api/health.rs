//! Whether the server is well, for balancers and launchers, and its figures for Prometheus.

use axum::Json;
use axum::extract::State as Shared;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use std::sync::Arc;

use crate::error::{ApiError, ErrorKind, RETRY_AFTER_S};
use crate::state::{Health, State, draining};

/// That all is well.
#[derive(Debug, Serialize)]
pub struct Fine {
    status: &'static str,
}

/// `GET /health`: 200 if requests can be answered, 503 while the model loads or the server drains, 500 if the device has failed.
pub async fn health(Shared(state): Shared<Arc<State>>) -> Result<Json<Fine>, ApiError> {
    match state.health() {
        Health::Ok => Ok(Json(Fine { status: "ok" })),
        Health::Loading => {
            Err(ApiError { code: Some("loading"), ..ApiError::unavailable("Loading model", RETRY_AFTER_S) })
        }
        Health::Draining => Err(draining()),
        Health::Recovering(reason) | Health::Failed(reason) => Err(ApiError::new(ErrorKind::Server, reason)),
    }
}

/// `GET /live`: 200 as long as there is any use in the process, 500 if the model could not be loaded or the device has failed for good.
pub async fn live(Shared(state): Shared<Arc<State>>) -> Result<Json<Fine>, ApiError> {
    match state.health() {
        Health::Failed(reason) => Err(ApiError::new(ErrorKind::Server, reason)),
        Health::Ok | Health::Loading | Health::Draining | Health::Recovering(_) => Ok(Json(Fine { status: "ok" })),
    }
}

/// `GET /metrics`.
pub async fn metrics(Shared(state): Shared<Arc<State>>) -> Response {
    let status = state.served().ok().map(|served| served.backend.status());
    let content_type = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    ([(header::CONTENT_TYPE, content_type)], state.metrics.text(status)).into_response()
}
