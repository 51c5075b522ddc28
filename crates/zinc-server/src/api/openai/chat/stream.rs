//! An answer as server-sent events in the shape of the API.

use std::sync::Arc;
use std::time::Instant;

use serde::Serialize;

use super::reply::{Logprobs, ReplyTokens};
use super::request::Wanted;
use super::thoughts::TaggedThoughts;
use crate::api::openai::{Head, Header, UsageReply, finish_reason};
use crate::core::{Event, Timings, Update};
use crate::state::Served;
use crate::stream::{Lines, event};

/// Writes the events of a conversation's answers.
pub(super) struct ChatLines {
    header: Header,
    served: Arc<Served>,
    wanted: Wanted,
    choices: u32,
    /// Thoughts that are written into the content, by answers; none if they are not.
    tagged: Vec<TaggedThoughts>,
    start: Instant,
    usage: UsageReply,
    timings: Timings,
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
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt_progress: Option<Progress>,
}

#[derive(Debug, Default, Serialize)]
struct Choice<'a> {
    index: u32,
    delta: Delta<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    logprobs: Option<Logprobs>,
    finish_reason: Option<&'static str>,
}

#[derive(Debug, Default, Serialize)]
struct Delta<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    role: Option<&'static str>,
    /// The first event has it, and no text in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    content: Option<Option<&'a str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_content: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_calls: Option<[CallDelta<'a>; 1]>,
}

#[derive(Debug, Serialize)]
struct CallDelta<'a> {
    index: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a str>,
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    kind: Option<&'static str>,
    function: FunctionDelta<'a>,
}

#[derive(Debug, Serialize)]
struct FunctionDelta<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    arguments: &'a str,
}

#[derive(Clone, Copy, Debug, Serialize)]
struct Progress {
    total: u32,
    cache: u32,
    processed: u32,
    time_ms: u64,
}

impl ChatLines {
    pub(super) fn new(header: Header, served: Arc<Served>, choices: u32, wanted: Wanted) -> Self {
        let (usage, timings) = (UsageReply::default(), Timings::default());
        let tagged_choices = if wanted.reasoning_format.is_in_content() { choices as usize } else { 0 };
        let tagged = vec![TaggedThoughts::new(&served); tagged_choices];
        Self { header, served, wanted, choices, tagged, start: Instant::now(), usage, timings }
    }

    fn chunk<'a>(&'a self, choices: &'a [Choice<'a>]) -> Chunk<'a> {
        Chunk {
            head: self.header.head("chat.completion.chunk"),
            choices,
            usage: None,
            timings: None,
            prompt_progress: None,
        }
    }

    /// Writes a piece of an answer.
    fn piece(&self, out: &mut Vec<u8>, timings: Timings, choice: Choice<'_>) {
        let choices = [choice];
        event(out, &Chunk { timings: self.wanted.timings.then_some(timings), ..self.chunk(&choices) });
    }

    /// The content that ends an answer's thought before anything else; empty if none is to end.
    fn end_of_thought(&mut self, index: u32) -> String {
        self.tagged.get_mut(index as usize).map_or(String::new(), TaggedThoughts::end)
    }

    /// Writes a piece of content that belongs to no token, unless it is empty.
    fn content(&self, out: &mut Vec<u8>, timings: Timings, index: u32, text: &str) {
        if !text.is_empty() {
            let delta = Delta { content: Some(Some(text)), ..Delta::default() };
            self.piece(out, timings, Choice { index, delta, ..Choice::default() });
        }
    }

    fn call(&self, out: &mut Vec<u8>, timings: Timings, index: u32, call: CallDelta<'_>) {
        let delta = Delta { tool_calls: Some([call]), ..Delta::default() };
        self.piece(out, timings, Choice { index, delta, ..Choice::default() });
    }
}

impl Lines for ChatLines {
    fn begin(&mut self, out: &mut Vec<u8>) {
        for index in 0..self.choices {
            let delta = Delta { role: Some("assistant"), content: Some(None), ..Delta::default() };
            event(out, &self.chunk(&[Choice { index, delta, ..Choice::default() }]));
        }
    }

    fn update(&mut self, update: Update, out: &mut Vec<u8>) {
        let Update { choice: index, event: what, timings } = update;
        match what {
            Event::Progress(progress) => {
                if self.wanted.progress {
                    let progress = Progress {
                        total: progress.tokens,
                        cache: timings.cache_n,
                        processed: progress.done,
                        time_ms: u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX),
                    };
                    let choices = [Choice { index, ..Choice::default() }];
                    event(out, &Chunk { prompt_progress: Some(progress), ..self.chunk(&choices) });
                }
            }
            Event::Reasoning(text) => {
                let content = self.tagged.get_mut(index as usize).map(|tagged| tagged.thought(&text));
                let field = self.wanted.reasoning_field;
                let (reasoning_content, reasoning) =
                    if self.wanted.reasoning_format.has_field() { field.named(&*text) } else { (None, None) };
                let delta =
                    Delta { content: content.as_deref().map(Some), reasoning_content, reasoning, ..Delta::default() };
                self.piece(out, timings, Choice { index, delta, ..Choice::default() });
            }
            Event::Content { text, tokens } => {
                let close = self.end_of_thought(index);
                self.content(out, timings, index, &close);
                let delta = Delta { content: Some(Some(&text)), ..Delta::default() };
                let logprobs = self.wanted.logprobs.then(|| ReplyTokens(&self.served).logprobs(&tokens));
                self.piece(out, timings, Choice { index, delta, logprobs, finish_reason: None });
            }
            Event::ToolCallBegin { index: call, id, name } => {
                let close = self.end_of_thought(index);
                self.content(out, timings, index, &close);
                let function = FunctionDelta { name: Some(&name), arguments: "" };
                self.call(
                    out,
                    timings,
                    index,
                    CallDelta { index: call, id: Some(&id), kind: Some("function"), function },
                );
            }
            Event::ToolCallArguments { index: call, json } => {
                let function = FunctionDelta { name: None, arguments: &json };
                self.call(out, timings, index, CallDelta { index: call, id: None, kind: None, function });
            }
            Event::ToolCallEnd { .. } | Event::Scored(_) => {}
            Event::Ended(end) => {
                let close = self.tagged.get_mut(index as usize).map_or(String::new(), |own| own.end_of_answer(&end));
                self.content(out, timings, index, &close);
                self.usage.add(&end, index as usize, self.choices as usize);
                self.timings = timings;
                let choices = [Choice { index, finish_reason: Some(finish_reason(&end.reason)), ..Choice::default() }];
                // Many clients take any event with usage for the last, so that usage is in an event of its own. Timings are in the last event only,
                // since some clients add up the tokens of all events that have them.
                let is_last = !self.wanted.usage;
                event(
                    out,
                    &Chunk { timings: (is_last || self.wanted.timings).then_some(timings), ..self.chunk(&choices) },
                );
            }
            Event::Failed(error) => event(out, &error.openai_body()),
        }
    }

    fn finish(&mut self, out: &mut Vec<u8>) {
        if self.wanted.usage {
            event(out, &Chunk { usage: Some(self.usage), timings: Some(self.timings), ..self.chunk(&[]) });
        }
        out.extend_from_slice(b"data: [DONE]\n\n");
    }
}
