//! `POST /v1/chat/completions`.

mod reply;
mod request;
mod stream;
mod thoughts;

use axum::Json;
use axum::response::{IntoResponse, Response};

pub use reply::{Logprobs, ReplyTokens, TokenReply};
pub(crate) use request::tools;
pub use request::{ChatFields, FunctionField, MessageField, ToolField};

use super::Header;
use crate::api::SamplingFields;
use crate::auth::Caller;
use crate::body::Fields;
use crate::core;
use crate::error::ApiResult;
use crate::stream::{StreamForm, response};

/// Answers a conversation.
///
/// # Errors
/// What is wrong with the request, or why it cannot be answered.
pub async fn complete(caller: Caller, fields: Fields<ChatFields, SamplingFields>) -> ApiResult<Response> {
    let Fields { own, shared, mut ignored } = fields;
    ignored.accept(&request::ACCEPTED);
    ignored.accept(&SamplingFields::ACCEPTED);
    let served = caller.state.served_anew()?;
    let limits = &caller.state.options;
    let (streaming, ping, wanted) = (shared.is_streamed(), shared.ping(limits), own.wanted(limits));
    let ask = own.ask(shared, limits, &served, &mut ignored)?;
    let header = Header::new("chatcmpl-", &served);
    let answering = core::start(&caller, ask).await?;
    let response = if streaming {
        let lines = stream::ChatLines::new(header, served, answering.choices(), wanted);
        response(StreamForm::Events, answering, lines, ping)
    } else {
        let answers = answering.collect().await?;
        Json(reply::ChatReply::new(&header, &served, answers, &wanted)).into_response()
    };
    Ok(ignored.named_in(response))
}
