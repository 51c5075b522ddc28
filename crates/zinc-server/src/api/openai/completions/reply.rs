//! Whole answers in the shape of the API.

use std::collections::BTreeMap;

use serde::Serialize;

use super::Answer;
use crate::api::openai::{Head, UsageReply, finish_reason};
use crate::core::{Collected, TextToken, Timings};
use crate::state::Served;

/// Continued texts.
#[derive(Debug, Serialize)]
pub(super) struct CompletionReply<'a> {
    #[serde(flatten)]
    head: Head<'a>,
    choices: Vec<ChoiceReply>,
    usage: UsageReply,
    timings: Timings,
}

#[derive(Debug, Serialize)]
struct ChoiceReply {
    index: usize,
    text: String,
    logprobs: Option<TextLogprobs>,
    finish_reason: &'static str,
}

/// Log-probabilities in the older form of the API: lists beside each other.
#[derive(Debug, Serialize)]
pub(super) struct TextLogprobs {
    tokens: Vec<String>,
    token_logprobs: Vec<f32>,
    top_logprobs: Vec<BTreeMap<String, f32>>,
    text_offset: Vec<usize>,
}

impl TextLogprobs {
    /// The log-probabilities of tokens that begin at a place in the text, in characters.
    pub(super) fn new(served: &Served, tokens: &[TextToken], mut offset: usize) -> Self {
        let (mut texts, mut chosen, mut top, mut offsets) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for token in tokens {
            let text = String::from_utf8_lossy(&token.bytes).into_owned();
            offsets.push(offset);
            offset += text.chars().count();
            texts.push(text);
            let Some(logprobs) = &token.logprobs else { continue };
            chosen.push(logprobs.chosen.clamp(-9999.0, 0.0));
            let likely = logprobs.top.iter().map(|(id, logprob)| {
                let bytes = served.backend.token_bytes(*id).unwrap_or_default();
                (String::from_utf8_lossy(&bytes).into_owned(), logprob.clamp(-9999.0, 0.0))
            });
            top.push(likely.collect());
        }
        Self { tokens: texts, token_logprobs: chosen, top_logprobs: top, text_offset: offsets }
    }
}

impl<'a> CompletionReply<'a> {
    pub(super) fn new(common: &'a Answer, answers: Vec<Collected>) -> Self {
        let mut usage = UsageReply::default();
        let mut timings = Timings::default();
        for (choice, answer) in answers.iter().enumerate() {
            if let Some(end) = &answer.end {
                usage.add(end, choice, common.choices as usize);
            }
            timings = answer.timings;
        }
        let choice = |(index, answer): (usize, Collected)| ChoiceReply {
            index,
            logprobs: common.logprobs.then(|| TextLogprobs::new(&common.served, &answer.tokens, 0)),
            text: format!("{}{}", common.echo(u32::try_from(index).unwrap_or(u32::MAX)), answer.content),
            finish_reason: answer.end.as_ref().map_or("stop", |end| finish_reason(&end.reason)),
        };
        Self {
            head: common.header.head("text_completion"),
            choices: answers.into_iter().enumerate().map(choice).collect(),
            usage,
            timings,
        }
    }
}
