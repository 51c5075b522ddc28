//! `GET /api/version`, `/api/tags`, `/api/ps`, `POST /api/show`: what ollama's clients ask before they use a server.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Json;
use axum::extract::State as Shared;
use axum::http::{HeaderMap, header};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use crate::body::Fields;
use crate::error::{ApiError, ApiResult, ErrorKind};
use crate::ids;
use crate::state::{Served, State};

/// The version of ollama's API that this is. Clients compare it as numbers, and refuse older ones.
const API_VERSION: &str = "0.21.0";

/// `GET /` of ollama, which clients look for a server with.
pub const RUNNING: &str = "Ollama is running";

/// `GET /` for a browser, whose user may expect a page.
const FOR_BROWSERS: &str = "zinc is running. It has no page of its own: give a client, such as an editor or Open WebUI, this address with /v1.\n";

/// The version of the API.
#[derive(Debug, Serialize)]
pub struct VersionReply {
    version: &'static str,
}

/// Models, of which there is one.
#[derive(Debug, Serialize)]
pub struct ModelsReply {
    models: Vec<ModelReply>,
}

/// A model.
#[derive(Debug, Serialize)]
pub struct ModelReply {
    name: String,
    model: String,
    modified_at: String,
    size: u64,
    digest: String,
    details: Details,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    size_vram: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    context_length: Option<u32>,
}

#[derive(Debug, Serialize)]
struct Details {
    parent_model: &'static str,
    format: &'static str,
    family: String,
    families: Vec<String>,
    parameter_size: String,
    quantization_level: String,
}

/// The fields of a question about a model.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[schema(as = OllamaShowFields)]
pub struct ShowFields {
    model: Option<String>,
    /// The older name of `model`.
    name: Option<String>,
}

/// What a model is.
#[derive(Debug, Serialize)]
pub struct ShowReply {
    license: &'static str,
    modelfile: String,
    parameters: &'static str,
    template: String,
    details: Details,
    model_info: BTreeMap<String, Value>,
    capabilities: Vec<&'static str>,
    modified_at: String,
}

impl Details {
    fn new(served: &Served) -> Self {
        let facts = served.backend.facts();
        let billions = facts.parameters as f64 / 1e9;
        let size = if billions >= 1.0 { format!("{billions:.1}B") } else { format!("{:.1}M", billions * 1e3) };
        Self {
            parent_model: "",
            format: "gguf",
            family: facts.architecture.clone(),
            families: vec![facts.architecture.clone()],
            parameter_size: size,
            quantization_level: facts.quantisation.clone(),
        }
    }
}

impl ModelReply {
    fn new(served: &Served, started_s: u64) -> Self {
        let facts = served.backend.facts();
        Self {
            name: served.alias.clone(),
            model: served.alias.clone(),
            modified_at: ids::rfc3339(started_s),
            size: facts.bytes,
            digest: digest(&served.alias, facts.bytes),
            details: Details::new(served),
            expires_at: None,
            size_vram: None,
            context_length: None,
        }
    }
}

/// 64 digits that name a model, as clients expect them. They say nothing of the file's content.
fn digest(name: &str, bytes: u64) -> String {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64 ^ bytes;
    let mut digits = String::new();
    for round in 0..4_u8 {
        for byte in name.bytes().chain([round]) {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        digits.push_str(&format!("{hash:016x}"));
    }
    digits
}

/// `GET /api/version`.
pub async fn version() -> Json<VersionReply> {
    Json(VersionReply { version: API_VERSION })
}

/// `GET /api/tags`.
///
/// # Errors
/// 503 while the model loads.
pub async fn tags(Shared(state): Shared<Arc<State>>) -> ApiResult<Json<ModelsReply>> {
    let model = ModelReply::new(&*state.served()?, state.started_s);
    Ok(Json(ModelsReply { models: vec![model] }))
}

/// `GET /api/ps`.
///
/// # Errors
/// 503 while the model loads.
pub async fn running(Shared(state): Shared<Arc<State>>) -> ApiResult<Json<ModelsReply>> {
    let served = state.served()?;
    let model = ModelReply {
        // It is never unloaded.
        expires_at: Some("2318-01-01T00:00:00Z".to_owned()),
        size_vram: Some(served.backend.facts().bytes),
        context_length: Some(served.backend.facts().context_tokens),
        ..ModelReply::new(&served, state.started_s)
    };
    Ok(Json(ModelsReply { models: vec![model] }))
}

/// `POST /api/show`.
///
/// # Errors
/// 503 while the model loads, 404 for another model.
pub async fn show(Shared(state): Shared<Arc<State>>, fields: Fields<ShowFields>) -> ApiResult<Json<ShowReply>> {
    let served = state.served()?;
    let ShowFields { model, name } = fields.own;
    let asked = model.or(name).unwrap_or_default();
    // ollama's clients put a tag behind names.
    if asked.strip_suffix(":latest").unwrap_or(&asked) != served.alias {
        return Err(ApiError::new(ErrorKind::NotFound, format!("model {asked:?} not found")));
    }
    let facts = served.backend.facts();
    let template = facts.template.clone().unwrap_or_default();
    let mut capabilities = vec!["completion"];
    if template.contains("tools") {
        capabilities.push("tools");
    }
    if template.contains("think") {
        capabilities.push("thinking");
    }
    if facts.infill.prefix.is_some() {
        capabilities.push("insert");
    }
    let of = |name: &str| format!("{}.{name}", facts.architecture);
    let model_info = BTreeMap::from([
        ("general.architecture".to_owned(), facts.architecture.clone().into()),
        ("general.parameter_count".to_owned(), facts.parameters.into()),
        // What a request may have, which may be less than the model was trained for.
        (of("context_length"), facts.context_tokens.into()),
        (of("embedding_length"), facts.embedding_width.into()),
    ]);
    Ok(Json(ShowReply {
        license: "",
        modelfile: format!("FROM {}", served.alias),
        parameters: "",
        template,
        details: Details::new(&served),
        model_info,
        capabilities,
        modified_at: ids::rfc3339(state.started_s),
    }))
}

/// `GET /` and `HEAD /`. ollama's clients look for its words; whoever looks by a browser is told what to do.
pub async fn root(headers: HeaderMap) -> &'static str {
    let accepted = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    if accepted.flat_map(|value| value.split(',')).any(|kind| kind.trim().starts_with("text/html")) {
        FOR_BROWSERS
    } else {
        RUNNING
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_have_64_digits_and_differ() {
        let (one, other) = (digest("a", 1), digest("b", 1));
        assert!(one.len() == 64 && one.bytes().all(|byte| byte.is_ascii_hexdigit()));
        assert_ne!(one, other);
    }
}
