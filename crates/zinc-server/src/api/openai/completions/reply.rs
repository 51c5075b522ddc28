//! Whole answers in the shape of the API.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{Answer, fit};
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
    /// `null` for the first token of a prompt, which has nothing before it.
    token_logprobs: Vec<Option<f32>>,
    top_logprobs: Vec<Option<BTreeMap<String, f32>>>,
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
            let likely = |(id, logprob): &(u32, f32)| {
                let bytes = served.backend.token_bytes(*id).unwrap_or_default();
                (String::from_utf8_lossy(&bytes).into_owned(), logprob.clamp(-9999.0, 0.0))
            };
            chosen.push(token.logprobs.as_ref().map(|logprobs| logprobs.chosen.clamp(-9999.0, 0.0)));
            top.push(token.logprobs.as_ref().map(|logprobs| logprobs.top.iter().map(likely).collect()));
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
        let choice = |(index, mut answer): (usize, Collected)| {
            let echo = common.echo(u32::try_from(index).unwrap_or(u32::MAX));
            fit(&mut answer.scored, echo);
            let tokens = [answer.scored, answer.tokens].concat();
            ChoiceReply {
                index,
                logprobs: common.logprobs.then(|| TextLogprobs::new(&common.served, &tokens, 0)),
                text: format!("{echo}{}", answer.content),
                finish_reason: answer.end.as_ref().map_or("stop", |end| finish_reason(&end.reason)),
            }
        };
        Self {
            head: common.header.head("text_completion"),
            choices: answers.into_iter().enumerate().map(choice).collect(),
            usage,
            timings,
        }
    }
}
