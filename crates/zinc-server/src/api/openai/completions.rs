//! `POST /v1/completions`: texts that the model continues.

mod reply;
mod stream;

use std::sync::Arc;

use axum::Json;
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use utoipa::ToSchema;

use super::{Header, StreamOptions};
use crate::api::SamplingFields;
use crate::api::infill::between;
use crate::api::prompt::PromptField;
use crate::api::sampling::{Limits, choices};
use crate::api::whole::Whole;
use crate::auth::Caller;
use crate::body::Fields;
use crate::core::{self, Ask, Prompt, PromptPart, TextToken};
use crate::error::{ApiError, ApiResult};
use crate::state::Served;
use crate::stream::{StreamForm, response};

/// Fields that are known and change nothing here.
const ACCEPTED: [&str; 4] = ["best_of", "model", "stream_options.include_obfuscation", "user"];

/// The fields of a text to be continued, besides those of sampling.
#[derive(Debug, Deserialize, ToSchema)]
pub struct CompletionFields {
    prompt: PromptField,
    #[serde(default)]
    suffix: Option<String>,
    #[serde(default)]
    echo: Option<bool>,
    #[serde(default)]
    logprobs: Option<Whole>,
    #[serde(default)]
    n: Option<Whole>,
    #[serde(default)]
    stream_options: Option<StreamOptions>,
    #[serde(default)]
    timings_per_token: Option<bool>,
}

/// What all replies and events of an answer say of it, and what it is to contain.
#[derive(Clone, Debug)]
struct Answer {
    header: Header,
    served: Arc<Served>,
    /// Answers to each prompt.
    choices: u32,
    logprobs: bool,
    usage: bool,
    timings: bool,
    /// Texts that the answers begin with, one for each prompt, or none.
    echoes: Vec<String>,
    /// Whether the tokens of these texts come with log-probabilities.
    scores_echoes: bool,
}

impl Answer {
    /// The text that an answer begins with.
    fn echo(&self, choice: u32) -> &str {
        self.echoes.get((choice / self.choices.max(1)) as usize).map_or("", String::as_str)
    }
}

/// Continues texts.
///
/// # Errors
/// What is wrong with the request, or why it cannot be answered.
pub async fn complete(caller: Caller, fields: Fields<CompletionFields, SamplingFields>) -> ApiResult<Response> {
    let Fields { own, shared, mut ignored } = fields;
    ignored.accept(&ACCEPTED);
    ignored.accept(&SamplingFields::ACCEPTED);
    let served = caller.state.served_anew()?;
    let limits = &caller.state.options;
    let (streaming, ping) = (shared.is_streamed(), shared.ping(limits));
    let mut answer = Answer {
        header: Header::new("cmpl-", &served),
        served: Arc::clone(&served),
        choices: choices(limits, own.n)?,
        logprobs: own.logprobs.is_some(),
        usage: own.stream_options.and_then(|options| options.include_usage) == Some(true),
        timings: own.timings_per_token == Some(true),
        echoes: Vec::new(),
        scores_echoes: false,
    };
    let echo = own.echo == Some(true);
    let ask = own.ask(shared, limits, &served)?;
    answer.scores_echoes = ask.scores_prompts;
    if echo {
        answer.echoes = std::iter::once(&ask.prompt).chain(&ask.further).map(|prompt| text(&served, prompt)).collect();
    }
    let answering = core::start(&caller, ask).await?;
    let response = if streaming {
        response(StreamForm::Events, answering, stream::CompletionLines::new(answer), ping)
    } else {
        Json(reply::CompletionReply::new(&answer, answering.collect().await?)).into_response()
    };
    Ok(ignored.named_in(response))
}

impl CompletionFields {
    fn ask(self, sampling: SamplingFields, limits: &Limits, served: &Served) -> ApiResult<Ask> {
        let choices = choices(limits, self.n)?;
        let most = zinc_sched::TokenLogprobs::MAX_TOP;
        let refuse = |top: Whole| ApiError::invalid("logprobs", format!("logprobs {} is not 0 to {most}", top.0));
        let logprobs =
            self.logprobs.map(|top| top.count().filter(|top| *top <= most).ok_or_else(|| refuse(top))).transpose()?;
        let mut prompts = self.prompt.prompts(limits.most_choices as usize)?;
        if prompts.len() * choices as usize > limits.most_choices as usize {
            let message =
                format!("{} prompts with n {choices}; at most {} answers are made", prompts.len(), limits.most_choices);
            return Err(ApiError::invalid("n", message));
        }
        if let Some(suffix) = self.suffix.filter(|suffix| !suffix.is_empty()) {
            prompts = prompts.into_iter().map(|prompt| between(served, prompt, &suffix)).collect::<ApiResult<_>>()?;
        }
        let mut prompts = prompts.into_iter();
        let first = prompts.next().ok_or_else(|| ApiError::invalid("prompt", "there is no prompt"))?;
        let mut ask = sampling.ask(limits, served, first)?;
        ask.further = prompts.collect();
        ask.choices = choices;
        ask.options.logprobs = logprobs;
        ask.scores_prompts = self.echo == Some(true) && logprobs.is_some();
        Ok(ask)
    }
}

/// The text of a prompt.
fn text(served: &Served, prompt: &Prompt) -> String {
    let Prompt::Parts(parts) = prompt else { return String::new() };
    let part = |part: &PromptPart| match part {
        PromptPart::Text(text, _) => text.clone(),
        PromptPart::Tokens(ids) => served.backend.decode(ids),
    };
    parts.iter().map(part).collect()
}

/// Shortens the first of a prompt's tokens so that all of them make its text: a token that the model wants at the beginning is none of the text,
/// and neither is a space that a vocabulary of SentencePiece has before its first word.
fn fit(tokens: &mut [TextToken], text: &str) {
    let bytes: usize = tokens.iter().map(|token| token.bytes.len()).sum();
    let mut excess = bytes.saturating_sub(text.len());
    for token in tokens {
        let cut = excess.min(token.bytes.len());
        token.bytes.drain(..cut);
        excess -= cut;
    }
}
