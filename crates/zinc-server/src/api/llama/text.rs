//! `POST /tokenize`, `/detokenize` and `/apply-template`: what the model makes of texts.

use axum::Json;
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use zinc_model::Special;

use crate::api::openai::chat::ChatFields;
use crate::auth::Caller;
use crate::body::Fields;
use crate::core::{blocking, rendered};
use crate::error::{ApiError, ApiResult};

/// The fields of a text to be tokenised.
#[derive(Debug, Deserialize, ToSchema)]
pub struct TokenizeFields {
    content: String,
    #[serde(default)]
    add_special: Option<bool>,
    #[serde(default)]
    parse_special: Option<bool>,
    #[serde(default)]
    with_pieces: Option<bool>,
}

/// Tokens.
#[derive(Debug, Serialize)]
#[serde(untagged)]
enum TokensReply {
    Ids { tokens: Vec<u32> },
    Pieces { tokens: Vec<TokenReply> },
}

#[derive(Debug, Serialize)]
struct TokenReply {
    id: u32,
    piece: PieceReply,
}

/// The text of a token, or its bytes where they are no text by themselves.
#[derive(Debug, Serialize)]
#[serde(untagged)]
enum PieceReply {
    Text(String),
    Bytes(Vec<u8>),
}

/// The fields of tokens whose text is wanted.
#[derive(Debug, Deserialize, ToSchema)]
pub struct DetokenizeFields {
    tokens: Vec<u32>,
}

#[derive(Debug, Serialize)]
struct TextReply {
    content: String,
}

#[derive(Debug, Serialize)]
struct PromptReply {
    prompt: String,
}

/// Turns a text into tokens.
///
/// # Errors
/// What is wrong with the request, or a text that the vocabulary cannot express.
pub async fn tokenize(caller: Caller, fields: Fields<TokenizeFields>) -> ApiResult<Response> {
    let served = caller.state.served()?;
    let Fields { own, ignored, .. } = fields;
    let reply = blocking(move || {
        let special = if own.parse_special == Some(false) { Special::Plain } else { Special::Parse };
        let tokens = if own.add_special == Some(true) {
            served.backend.text_prompt(&own.content, special)?
        } else {
            served.backend.encode(&own.content, special)?
        };
        if own.with_pieces != Some(true) {
            return Ok(TokensReply::Ids { tokens });
        }
        let piece = |id: u32| match String::from_utf8(served.backend.token_bytes(id).unwrap_or_default()) {
            Ok(text) => PieceReply::Text(text),
            Err(error) => PieceReply::Bytes(error.into_bytes()),
        };
        Ok(TokensReply::Pieces { tokens: tokens.into_iter().map(|id| TokenReply { id, piece: piece(id) }).collect() })
    });
    Ok(ignored.named_in(Json(reply.await?).into_response()))
}

/// Turns tokens into text.
///
/// # Errors
/// What is wrong with the request, or an id that the vocabulary does not have.
pub async fn detokenize(caller: Caller, fields: Fields<DetokenizeFields>) -> ApiResult<Response> {
    let served = caller.state.served()?;
    let Fields { own, ignored, .. } = fields;
    let size = served.backend.facts().vocabulary_tokens;
    if let Some(id) = own.tokens.iter().find(|id| **id >= size) {
        let message = format!("token {id} is not in the vocabulary, whose ids are 0 to {}", size.saturating_sub(1));
        return Err(ApiError::invalid("tokens", message));
    }
    let reply = blocking(move || Ok(TextReply { content: served.backend.decode(&own.tokens) }));
    Ok(ignored.named_in(Json(reply.await?).into_response()))
}

/// Turns a conversation into the text of its prompt.
///
/// # Errors
/// What is wrong with the conversation, or a template that refuses it.
pub async fn apply_template(caller: Caller, fields: Fields<ChatFields>) -> ApiResult<Response> {
    let served = caller.state.served()?;
    let Fields { own, mut ignored, .. } = fields;
    let conversation = own.conversation(&caller.state.options, &mut ignored)?;
    let reply = blocking(move || Ok(PromptReply { prompt: rendered(&served, &conversation)? }));
    Ok(ignored.named_in(Json(reply.await?).into_response()))
}
