//! `POST /v1/messages` and `/v1/messages/count_tokens`.

mod blocks;
mod content;
mod partial;
mod reply;
mod request;
mod stream;

use axum::Json;
use axum::response::{IntoResponse, Response};

pub use request::MessagesFields;

use crate::api::SamplingFields;
use crate::auth::Caller;
use crate::body::Fields;
use crate::core;
use crate::error::ApiResult;
use crate::stream::{StreamForm, response};
use blocks::Blocks;
use reply::{Counted, Header};

/// Answers a conversation.
///
/// # Errors
/// What is wrong with the request, or why it cannot be answered.
pub async fn answer(caller: Caller, fields: Fields<MessagesFields, SamplingFields>) -> ApiResult<Response> {
    let Fields { own, shared, mut ignored } = fields;
    ignored.accept(&request::ACCEPTED);
    ignored.accept(&SamplingFields::ACCEPTED);
    let served = caller.state.served_anew()?;
    let limits = &caller.state.options;
    let (streaming, ping) = (shared.is_streamed(), shared.ping(limits));
    own.check_length()?;
    let ask = own.ask(shared, limits, &served, &mut ignored)?;
    let header = Header::new(&served);
    let answering = core::start(&caller, ask).await?;
    let response = if streaming {
        let lines = stream::MessageLines::new(header, answering.prompt_tokens());
        response(StreamForm::Events, answering, lines, ping)
    } else {
        let mut blocks = Blocks::default();
        let end = answering.only(|event| blocks.take(event, &mut ())).await?;
        blocks.end(&mut ());
        Json(header.reply(blocks.all(), Some(&end))).into_response()
    };
    Ok(ignored.named_in(response))
}

/// The number of tokens of a conversation, which is not answered.
///
/// # Errors
/// What is wrong with the request.
pub async fn count_tokens(caller: Caller, fields: Fields<MessagesFields, SamplingFields>) -> ApiResult<Response> {
    let Fields { own, shared, mut ignored } = fields;
    ignored.accept(&request::ACCEPTED);
    ignored.accept(&SamplingFields::ACCEPTED);
    let served = caller.state.served_anew()?;
    let ask = own.ask(shared, &caller.state.options, &served, &mut ignored)?;
    let input_tokens = core::count(&caller, ask.prompt).await?;
    Ok(ignored.named_in(Json(Counted { input_tokens }).into_response()))
}
