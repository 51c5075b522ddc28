//! `POST /infill`: the text of a gap, for editors.

use axum::response::Response;
use serde::Deserialize;
use utoipa::ToSchema;

use super::completion::{ReplyFields, answer};
use crate::api::SamplingFields;
use crate::api::infill::{OtherFile, infill};
use crate::api::whole::Whole;
use crate::auth::Caller;
use crate::body::Fields;
use crate::error::ApiResult;

/// Fields that are known and change nothing here.
const ACCEPTED: [&str; 2] = ["input_extra.time", "n_indent"];

/// The fields of a gap, besides those of sampling.
#[derive(Debug, Default, Deserialize, ToSchema)]
pub struct InfillFields {
    #[serde(default)]
    input_prefix: String,
    #[serde(default)]
    input_suffix: String,
    input_extra: Option<Vec<ExtraField>>,
    prompt: Option<String>,
    n_probs: Option<Whole>,
    return_tokens: Option<bool>,
    timings_per_token: Option<bool>,
    return_progress: Option<bool>,
}

/// A file beside the one with the gap, or a piece of one.
#[derive(Debug, Deserialize, ToSchema)]
pub struct ExtraField {
    #[serde(default)]
    filename: Option<String>,
    text: String,
}

/// Fills in a gap.
///
/// # Errors
/// What is wrong with the request, or why it cannot be answered.
pub async fn fill_in(caller: Caller, fields: Fields<InfillFields, SamplingFields>) -> ApiResult<Response> {
    let Fields { own, shared, mut ignored } = fields;
    ignored.accept(&ACCEPTED);
    ignored.accept(&SamplingFields::ACCEPTED);
    let served = caller.state.served_anew()?;
    let InfillFields { input_prefix, input_suffix, input_extra, prompt, .. } = own;
    let other = |field: ExtraField| OtherFile { name: field.filename.unwrap_or("tmp".to_owned()), text: field.text };
    let others: Vec<OtherFile> = input_extra.unwrap_or_default().into_iter().map(other).collect();
    let begun = prompt.unwrap_or_default();
    let prompt = infill(&served, &others, (&input_prefix, &input_suffix), &begun)?;
    let (is_streamed, ping) = (shared.is_streamed(), shared.ping(&caller.state.options));
    let ask = shared.ask(&caller.state.options, &served, prompt)?;
    let InfillFields { n_probs, return_tokens, timings_per_token, return_progress, .. } = own;
    let wanted = ReplyFields { is_streamed, ping, n_probs, return_tokens, timings_per_token, return_progress };
    answer(caller, served, ask, wanted, ignored).await
}
