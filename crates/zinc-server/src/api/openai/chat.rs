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

use crate::api::SamplingFields;
use crate::auth::Caller;
use crate::body::Fields;
use crate::core;
use crate::error::ApiResult;
use crate::ids;
use crate::stream::{StreamForm, response};

/// What all events of an answer say of it.
#[derive(Clone, Debug)]
struct Header {
    id: String,
    created: u64,
    model: String,
}

impl Header {
    fn new(served: &crate::state::Served) -> Self {
        Self { id: ids::new("chatcmpl-"), created: ids::now_s(), model: served.alias.clone() }
    }
}

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
    let (streaming, wanted) = (own.is_streamed(), own.wanted(limits));
    let ask = own.ask(shared, limits, &served, &mut ignored)?;
    let header = Header::new(&served);
    let answering = core::start(&caller, ask).await?;
    let response = if streaming {
        let ping = wanted.ping(limits.ping);
        let lines = stream::ChatLines::new(header, served, answering.choices(), wanted);
        response(StreamForm::Events, answering, lines, ping)
    } else {
        let answers = answering.collect().await?;
        Json(reply::ChatReply::new(&header, &served, answers, &wanted)).into_response()
    };
    Ok(ignored.named_in(response))
}
