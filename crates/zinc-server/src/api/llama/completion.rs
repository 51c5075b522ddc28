//! `POST /completion`: a text that the model continues, in llama.cpp's shape, which `/infill` shares.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use zinc_engine::AnswerOptions;

use super::info::SettingsReply;
use crate::api::SamplingFields;
use crate::api::prompt::PromptField;
use crate::api::whole::Whole;
use crate::auth::Caller;
use crate::body::{Fields, Ignored};
use crate::core::{self, Ask, Collected, End, Event, Prompt, PromptPart, Reason, TextToken, Timings, Update};
use crate::error::{ApiError, ApiResult};
use crate::state::Served;
use crate::stream::{Lines, StreamForm, event, response};

/// What a reply is to contain, and in which form it is to come.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ReplyFields {
    pub(super) is_streamed: bool,
    pub(super) ping: Option<Duration>,
    pub(super) n_probs: Option<Whole>,
    pub(super) return_tokens: Option<bool>,
    pub(super) timings_per_token: Option<bool>,
    pub(super) return_progress: Option<bool>,
}

/// The fields of a text to be continued, besides those of sampling.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = LlamaCompletionFields)]
pub struct CompletionFields {
    prompt: PromptField,
    #[serde(default)]
    n_probs: Option<Whole>,
    #[serde(default)]
    return_tokens: Option<bool>,
    #[serde(default)]
    timings_per_token: Option<bool>,
    #[serde(default)]
    return_progress: Option<bool>,
}

/// Continues a text, or several.
///
/// # Errors
/// What is wrong with the request, or why it cannot be answered.
pub async fn complete(caller: Caller, fields: Fields<CompletionFields, SamplingFields>) -> ApiResult<Response> {
    let Fields { own, shared, mut ignored } = fields;
    ignored.accept(&SamplingFields::ACCEPTED);
    let served = caller.state.served_anew()?;
    let limits = &caller.state.options;
    let mut prompts = own.prompt.prompts(limits.most_choices as usize)?.into_iter();
    let first = prompts.next().ok_or_else(|| ApiError::invalid("prompt", "there is no prompt"))?;
    let (is_streamed, ping) = (shared.is_streamed(), shared.ping(limits));
    let mut ask = shared.ask(limits, &served, first)?;
    ask.further = prompts.collect();
    let CompletionFields { n_probs, return_tokens, timings_per_token, return_progress, .. } = own;
    let wanted = ReplyFields { is_streamed, ping, n_probs, return_tokens, timings_per_token, return_progress };
    answer(caller, served, ask, wanted, ignored).await
}

/// Answers in llama.cpp's shape.
///
/// # Errors
/// What is wrong with the request, or why it cannot be answered.
pub(super) async fn answer(
    caller: Caller,
    served: Arc<Served>,
    mut ask: Ask,
    wanted: ReplyFields,
    ignored: Ignored,
) -> ApiResult<Response> {
    let most = zinc_sched::TokenLogprobs::MAX_TOP;
    if let Some(asked) = wanted.n_probs.filter(|asked| *asked != Whole(0)) {
        let refuse = || ApiError::invalid("n_probs", format!("n_probs {} is not 0 to {most}", asked.0));
        ask.options.logprobs = Some(asked.count().filter(|top| *top <= most).ok_or_else(refuse)?);
    }
    let prompts = std::iter::once(&ask.prompt).chain(&ask.further).map(|prompt| text(&served, prompt)).collect();
    let shape = Shape { served, options: ask.options.clone(), prompts, wanted };
    let answering = core::start(&caller, ask).await?;
    let response = if wanted.is_streamed {
        let lines = CompletionLines { shape, counts: Vec::new() };
        response(StreamForm::Events, answering, lines, wanted.ping)
    } else {
        let answers = answering.collect().await?;
        let mut replies: Vec<CompletionReply<'_>> =
            answers.iter().enumerate().map(|(index, answer)| shape.whole(index, answer)).collect();
        match replies.len() {
            1 => Json(replies.remove(0)).into_response(),
            _ => Json(replies).into_response(),
        }
    };
    Ok(ignored.named_in(response))
}

fn text(served: &Served, prompt: &Prompt) -> String {
    let Prompt::Parts(parts) = prompt else { return String::new() };
    let part = |part: &PromptPart| match part {
        PromptPart::Text(text, _) => text.clone(),
        PromptPart::Tokens(ids) => served.backend.decode(ids),
    };
    parts.iter().map(part).collect()
}

/// What replies are made with.
struct Shape {
    served: Arc<Served>,
    options: AnswerOptions,
    prompts: Vec<String>,
    wanted: ReplyFields,
}

/// A piece of an answer, or all of it.
#[derive(Debug, Serialize)]
pub(super) struct CompletionReply<'a> {
    index: usize,
    content: &'a str,
    tokens: Vec<u32>,
    id_slot: i32,
    stop: bool,
    tokens_predicted: u32,
    tokens_evaluated: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt_progress: Option<Progress>,
    #[serde(skip_serializing_if = "Option::is_none")]
    completion_probabilities: Option<Vec<Probability>>,
    #[serde(flatten)]
    end: Option<Ending<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    timings: Option<Timings>,
}

/// What the last piece of an answer has besides.
#[derive(Debug, Serialize)]
struct Ending<'a> {
    model: &'a str,
    generation_settings: SettingsReply<'a>,
    prompt: &'a str,
    has_new_line: bool,
    truncated: bool,
    stop_type: &'static str,
    stopping_word: &'a str,
    tokens_cached: u32,
}

#[derive(Clone, Copy, Debug, Serialize)]
struct Progress {
    total: u32,
    cache: u32,
    processed: u32,
    time_ms: u64,
}

#[derive(Debug, Serialize)]
struct Probability {
    #[serde(flatten)]
    token: LikelyToken,
    top_logprobs: Vec<LikelyToken>,
}

#[derive(Debug, Serialize)]
struct LikelyToken {
    id: u32,
    token: String,
    bytes: Vec<u8>,
    logprob: f32,
}

impl Shape {
    /// A piece without anything in it.
    fn piece(&self, index: usize, timings: Timings) -> CompletionReply<'_> {
        CompletionReply {
            index,
            content: "",
            tokens: Vec::new(),
            id_slot: -1,
            stop: false,
            tokens_predicted: timings.predicted_n,
            tokens_evaluated: timings.prompt_n + timings.cache_n,
            prompt_progress: None,
            completion_probabilities: None,
            end: None,
            timings: (self.wanted.timings_per_token == Some(true)).then_some(timings),
        }
    }

    fn probabilities(&self, tokens: &[TextToken]) -> Option<Vec<Probability>> {
        self.options.logprobs?;
        let probability = |token: &TextToken| {
            let logprobs = token.logprobs.as_ref()?;
            let top = logprobs.top.iter().map(|&(id, logprob)| self.likely(id, logprob)).collect();
            Some(Probability { token: self.likely(token.id, logprobs.chosen), top_logprobs: top })
        };
        Some(tokens.iter().filter_map(probability).collect())
    }

    fn likely(&self, id: u32, logprob: f32) -> LikelyToken {
        let bytes = self.served.backend.token_bytes(id).unwrap_or_default();
        let token = String::from_utf8_lossy(&bytes).into_owned();
        LikelyToken { id, token, bytes, logprob: logprob.clamp(-9999.0, 0.0) }
    }

    /// The last piece.
    fn last<'a>(&'a self, index: usize, end: &'a End, timings: Timings, has_new_line: bool) -> CompletionReply<'a> {
        let (stop_type, stopping_word) = match &end.reason {
            Reason::Stop | Reason::ToolCalls => ("eos", ""),
            Reason::StopString(stop) => ("word", stop.as_str()),
            Reason::Length | Reason::ContextFull | Reason::TimeOver => ("limit", ""),
        };
        let ending = Ending {
            model: &self.served.alias,
            generation_settings: SettingsReply::new(&self.options),
            prompt: self.prompts.get(index).map_or("", String::as_str),
            has_new_line,
            truncated: false,
            stop_type,
            stopping_word,
            tokens_cached: end.usage.prompt_tokens.saturating_add(end.usage.completion_tokens),
        };
        CompletionReply {
            stop: true,
            tokens_predicted: end.usage.completion_tokens,
            tokens_evaluated: end.usage.prompt_tokens,
            end: Some(ending),
            timings: Some(timings),
            ..self.piece(index, timings)
        }
    }

    fn whole<'a>(&'a self, index: usize, answer: &'a Collected) -> CompletionReply<'a> {
        let has_new_line = answer.content.contains('\n');
        let last = match &answer.end {
            Some(end) => self.last(index, end, answer.timings, has_new_line),
            None => self.piece(index, answer.timings),
        };
        CompletionReply {
            content: &answer.content,
            tokens: self.ids(&answer.tokens),
            completion_probabilities: self.probabilities(&answer.tokens),
            ..last
        }
    }

    fn ids(&self, tokens: &[TextToken]) -> Vec<u32> {
        if self.wanted.return_tokens == Some(true) { tokens.iter().map(|token| token.id).collect() } else { Vec::new() }
    }
}

/// Writes the events of continued texts.
struct CompletionLines {
    shape: Shape,
    /// Whether each answer has a line's end so far.
    counts: Vec<bool>,
}

impl Lines for CompletionLines {
    fn begin(&mut self, _out: &mut Vec<u8>) {}

    fn update(&mut self, update: Update, out: &mut Vec<u8>) {
        let Update { choice, event: what, timings } = update;
        let index = choice as usize;
        let Self { shape, counts } = self;
        if counts.len() <= index {
            counts.resize(index + 1, false);
        }
        match what {
            Event::Content { text, tokens } => {
                counts[index] |= text.contains('\n');
                // Ids of the pieces of a stream are always there, as llama.cpp has it.
                let ids = tokens.iter().map(|token| token.id).collect();
                let completion_probabilities = shape.probabilities(&tokens);
                let piece = CompletionReply {
                    content: &text,
                    tokens: ids,
                    completion_probabilities,
                    ..shape.piece(index, timings)
                };
                event(out, &piece);
            }
            Event::Progress(progress) if shape.wanted.return_progress == Some(true) => {
                let progress = Progress {
                    total: progress.tokens,
                    cache: timings.cache_n,
                    processed: progress.done,
                    time_ms: timings.prompt_ms as u64,
                };
                event(out, &CompletionReply { prompt_progress: Some(progress), ..shape.piece(index, timings) });
            }
            Event::Ended(end) => event(out, &shape.last(index, &end, timings, counts[index])),
            Event::Failed(error) => event(out, &error.openai_body()),
            // A text has neither thoughts nor calls.
            Event::Progress(_)
            | Event::Scored(_)
            | Event::Reasoning(_)
            | Event::ToolCallBegin { .. }
            | Event::ToolCallArguments { .. }
            | Event::ToolCallEnd { .. } => {}
        }
    }

    /// llama.cpp's stream ends with the last piece.
    fn finish(&mut self, _out: &mut Vec<u8>) {}
}
