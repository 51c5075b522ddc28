//! Answers as server-sent events in the shape of the API.

use std::collections::BTreeMap;

use serde::Serialize;

use super::reply::TextLogprobs;
use super::{Answer, fit};
use crate::api::openai::{Head, UsageReply, finish_reason};
use crate::core::{Event, TextToken, Timings, Update};
use crate::stream::{Lines, event};

/// Writes the events of continued texts.
pub(super) struct CompletionLines {
    answer: Answer,
    usage: UsageReply,
    timings: Timings,
    /// Characters of each answer so far.
    offsets: Vec<usize>,
    /// Tokens of the prompts of answers that have not begun, by answer.
    scored: BTreeMap<u32, Vec<TextToken>>,
}

#[derive(Debug, Serialize)]
struct Chunk<'a> {
    #[serde(flatten)]
    head: Head<'a>,
    choices: &'a [Choice<'a>],
    #[serde(skip_serializing_if = "Option::is_none")]
    usage: Option<UsageReply>,
    #[serde(skip_serializing_if = "Option::is_none")]
    timings: Option<Timings>,
}

#[derive(Debug, Default, Serialize)]
struct Choice<'a> {
    index: u32,
    text: &'a str,
    logprobs: Option<TextLogprobs>,
    finish_reason: Option<&'static str>,
}

impl CompletionLines {
    pub(super) fn new(answer: Answer) -> Self {
        Self {
            answer,
            usage: UsageReply::default(),
            timings: Timings::default(),
            offsets: Vec::new(),
            scored: BTreeMap::new(),
        }
    }

    fn chunk<'a>(&'a self, choices: &'a [Choice<'a>]) -> Chunk<'a> {
        Chunk { head: self.answer.header.head("text_completion"), choices, usage: None, timings: None }
    }

    /// Writes the prompt that an answer begins with, with the log-probabilities of its tokens.
    fn scored_echo(&mut self, index: u32, out: &mut Vec<u8>) {
        let Some(mut tokens) = self.scored.remove(&index) else { return };
        fit(&mut tokens, self.answer.echo(index));
        let offset = self.advance(index, self.answer.echo(index).chars().count());
        let logprobs = Some(TextLogprobs::new(&self.answer.served, &tokens, offset));
        let text = self.answer.echo(index);
        event(out, &self.chunk(&[Choice { index, text, logprobs, finish_reason: None }]));
    }

    /// Adds to the length of an answer, and returns what it was.
    fn advance(&mut self, choice: u32, chars: usize) -> usize {
        let place = choice as usize;
        if self.offsets.len() <= place {
            self.offsets.resize(place + 1, 0);
        }
        let before = self.offsets[place];
        self.offsets[place] += chars;
        before
    }
}

impl Lines for CompletionLines {
    fn begin(&mut self, out: &mut Vec<u8>) {
        if self.answer.scores_echoes {
            // They come with their tokens.
            return;
        }
        for prompt in 0..self.answer.echoes.len() {
            for own in 0..self.answer.choices {
                let index = u32::try_from(prompt).unwrap_or(u32::MAX) * self.answer.choices + own;
                let text = self.answer.echo(index);
                event(out, &self.chunk(&[Choice { index, text, ..Choice::default() }]));
            }
        }
    }

    fn update(&mut self, update: Update, out: &mut Vec<u8>) {
        let Update { choice: index, event: what, timings } = update;
        if matches!(what, Event::Content { .. } | Event::Ended(_)) {
            self.scored_echo(index, out);
        }
        match what {
            Event::Content { text, tokens } => {
                let offset = self.advance(index, text.chars().count());
                let logprobs = self.answer.logprobs.then(|| TextLogprobs::new(&self.answer.served, &tokens, offset));
                let choices = [Choice { index, text: &text, logprobs, finish_reason: None }];
                event(out, &Chunk { timings: self.answer.timings.then_some(timings), ..self.chunk(&choices) });
            }
            Event::Ended(end) => {
                self.usage.add(&end, index as usize, self.answer.choices as usize);
                self.timings = timings;
                let choices = [Choice { index, finish_reason: Some(finish_reason(&end.reason)), ..Choice::default() }];
                // They are in the last event only, since some clients add up the tokens of all events that have them.
                let is_last = !self.answer.usage;
                event(
                    out,
                    &Chunk { timings: (is_last || self.answer.timings).then_some(timings), ..self.chunk(&choices) },
                );
            }
            Event::Failed(error) => event(out, &error.openai_body()),
            Event::Scored(token) => self.scored.entry(index).or_default().push(token),
            // A text has neither thoughts nor calls.
            Event::Progress(_)
            | Event::Reasoning(_)
            | Event::ToolCallBegin { .. }
            | Event::ToolCallArguments { .. }
            | Event::ToolCallEnd { .. } => {}
        }
    }

    fn finish(&mut self, out: &mut Vec<u8>) {
        if self.answer.usage {
            event(out, &Chunk { usage: Some(self.usage), timings: Some(self.timings), ..self.chunk(&[]) });
        }
        out.extend_from_slice(b"data: [DONE]\n\n");
    }
}
