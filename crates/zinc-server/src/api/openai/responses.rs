//! `POST /v1/responses`: answers without memory. Clients send all of a conversation each time, and nothing is stored.

mod input;
mod output;
mod reply;
mod request;
mod stream;

use axum::Json;
use axum::response::{IntoResponse, Response};

pub use request::ResponsesFields;

use crate::api::SamplingFields;
use crate::auth::Caller;
use crate::body::Fields;
use crate::core;
use crate::error::{ApiError, ApiResult, ErrorKind};
use crate::stream::{StreamForm, response};
use output::Output;
use reply::{Header, Outcome};

/// Answers a conversation.
///
/// # Errors
/// What is wrong with the request, or why it cannot be answered.
pub async fn respond(caller: Caller, fields: Fields<ResponsesFields, SamplingFields>) -> ApiResult<Response> {
    let Fields { own, shared, mut ignored } = fields;
    ignored.accept(&request::ACCEPTED);
    ignored.accept(&SamplingFields::ACCEPTED);
    let served = caller.state.served_anew()?;
    let limits = &caller.state.options;
    let (streaming, ping) = (shared.is_streamed(), shared.ping(limits));
    let (ask, echo, wanted) = own.ask(shared, limits, &served, &mut ignored)?;
    let header = Header::new(&served, echo);
    let answering = core::start(&caller, ask).await?;
    let mut output = Output::new(served, wanted);
    let response = if streaming {
        response(StreamForm::Events, answering, stream::ResponseLines::new(header, output), ping)
    } else {
        let end = answering.only(|event| output.take(event, &mut ())).await?;
        output.end(&end, &mut ());
        Json(header.reply(&output, &Outcome::Ended(end))).into_response()
    };
    Ok(ignored.named_in(response))
}

/// The number of tokens of a request, which is not answered.
///
/// # Errors
/// What is wrong with the request.
pub async fn count(caller: Caller, fields: Fields<ResponsesFields, SamplingFields>) -> ApiResult<Response> {
    let Fields { own, shared, mut ignored } = fields;
    ignored.accept(&request::ACCEPTED);
    ignored.accept(&SamplingFields::ACCEPTED);
    let served = caller.state.served_anew()?;
    let (ask, ..) = own.ask(shared, &caller.state.options, &served, &mut ignored)?;
    let input_tokens = core::count(&caller, ask.prompt).await?;
    let counted = reply::Counted { object: "response.input_tokens", input_tokens };
    Ok(ignored.named_in(Json(counted).into_response()))
}

/// Says of answers of the past that there are none, and that nothing is done with them.
pub async fn stored() -> ApiError {
    ApiError::new(
        ErrorKind::NotFound,
        "no response is stored or compacted; send the whole conversation as input each time",
    )
}
