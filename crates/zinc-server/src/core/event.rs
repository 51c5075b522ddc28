//! What comes of a request: the pieces of its answers, then their ends.

use serde::Serialize;
use zinc_sched::{PromptProgress, SpeculationStats, TokenLogprobs, Usage};

use crate::error::ApiError;

/// An event of one of the answers of a request.
#[derive(Clone, Debug)]
pub struct Update {
    /// Which answer, from 0.
    pub choice: u32,
    /// What has come.
    pub event: Event,
    /// What the answer has taken so far.
    pub timings: Timings,
}

/// What has come of an answer. The last event of an answer is [`Event::Ended`] or [`Event::Failed`]; after the latter the whole request is over.
#[derive(Clone, Debug)]
pub enum Event {
    /// How far the prompt has come.
    Progress(PromptProgress),
    /// The next token of the prompt, with its log-probabilities unless it is the first: if the request asked for them.
    Scored(TextToken),
    /// A piece of what the model thinks, never empty.
    Reasoning(String),
    /// A piece of the content, never empty.
    Content {
        /// The text.
        text: String,
        /// Its tokens, as far as they can be told apart from those of other pieces.
        tokens: Vec<TextToken>,
    },
    /// A call of a tool begins.
    ToolCallBegin {
        /// Which call of the answer, from 0.
        index: usize,
        /// An id for it that no other call has.
        id: String,
        /// The tool's name.
        name: String,
    },
    /// A fragment of the JSON object that is the arguments of a call, never empty.
    ToolCallArguments {
        /// Which call of the answer.
        index: usize,
        /// The fragment.
        json: String,
    },
    /// A call is complete.
    ToolCallEnd {
        /// Which call of the answer.
        index: usize,
    },
    /// The answer has ended.
    Ended(End),
    /// The answer has failed.
    Failed(ApiError),
}

/// A token of an answer.
#[derive(Clone, Debug, PartialEq)]
pub struct TextToken {
    /// Its id.
    pub id: u32,
    /// Its bytes, which need not be UTF-8.
    pub bytes: Vec<u8>,
    /// Log-probabilities, if the request asked for them.
    pub logprobs: Option<std::sync::Arc<TokenLogprobs>>,
}

/// How an answer has ended.
#[derive(Clone, Debug, PartialEq)]
pub struct End {
    /// Why.
    pub reason: Reason,
    /// How many tokens it had.
    pub usage: Usage,
    /// How many of its tokens were thoughts.
    pub reasoning_tokens: u32,
}

/// Why an answer has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The model has ended it, or nothing more may follow under its constraint.
    Stop,
    /// This stop string came.
    StopString(String),
    /// The model has called tools.
    ToolCalls,
    /// It has as many tokens as it may.
    Length,
    /// The context is full.
    ContextFull,
    /// It has taken as long as it may.
    TimeOver,
}

/// What an answer has taken, by the names of llama.cpp.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Timings {
    /// Tokens of the prompt that the cache held already.
    pub cache_n: u32,
    /// Tokens of the prompt that were computed.
    pub prompt_n: u32,
    /// Milliseconds from the start of the request to its first token.
    pub prompt_ms: f64,
    /// Milliseconds for each of them.
    pub prompt_per_token_ms: f64,
    /// How many of them in a second.
    pub prompt_per_second: f64,
    /// Tokens of the answer.
    pub predicted_n: u32,
    /// Milliseconds from the first of them to the last.
    pub predicted_ms: f64,
    /// Milliseconds for each of them but the first.
    pub predicted_per_token_ms: f64,
    /// How many of them in a second.
    pub predicted_per_second: f64,
    /// Tokens that were drafted; `None` without drafts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub draft_n: Option<u64>,
    /// How many of them were accepted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub draft_n_accepted: Option<u64>,
}

impl Timings {
    /// Timings of so many tokens in so many milliseconds.
    pub(crate) fn new(
        (cache_n, prompt_n, prompt_ms): (u32, u32, f64),
        (predicted_n, predicted_ms): (u32, f64),
    ) -> Self {
        // A rate of no time would be infinite, which JSON cannot say.
        let per = |sum: f64, count: f64| if count > 0.0 { sum / count } else { 0.0 };
        let intervals = f64::from(predicted_n.saturating_sub(1));
        Self {
            cache_n,
            prompt_n,
            prompt_ms,
            prompt_per_token_ms: per(prompt_ms, f64::from(prompt_n)),
            prompt_per_second: per(1e3 * f64::from(prompt_n), prompt_ms),
            predicted_n,
            predicted_ms,
            predicted_per_token_ms: per(predicted_ms, intervals),
            predicted_per_second: per(1e3 * intervals, predicted_ms),
            draft_n: None,
            draft_n_accepted: None,
        }
    }

    /// These timings of an answer that had these drafts.
    pub(crate) fn with_drafts(self, speculation: SpeculationStats) -> Self {
        let drafted = (speculation.drafts > 0).then_some(speculation);
        Self { draft_n: drafted.map(|own| own.drafts), draft_n_accepted: drafted.map(|own| own.accepted()), ..self }
    }
}

/// A whole answer.
#[derive(Clone, Debug, Default)]
pub struct Collected {
    /// What the model thought.
    pub reasoning: String,
    /// The tokens of the prompt, if the request asked for their log-probabilities.
    pub scored: Vec<TextToken>,
    /// What it said.
    pub content: String,
    /// The tokens of the content.
    pub tokens: Vec<TextToken>,
    /// The calls that it made, the last of them possibly cut.
    pub calls: Vec<CollectedCall>,
    /// How it ended; `None` only while it has not.
    pub end: Option<End>,
    /// What it took.
    pub timings: Timings,
}

/// A call of a whole answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CollectedCall {
    /// Its id.
    pub id: String,
    /// The tool's name.
    pub name: String,
    /// The arguments, as far as they came: the text of a JSON object.
    pub arguments: String,
}

impl Collected {
    /// Takes what comes next.
    ///
    /// # Errors
    /// The failure, if that is what comes.
    pub(crate) fn take(&mut self, event: Event, timings: Timings) -> Result<(), ApiError> {
        self.timings = timings;
        match event {
            Event::Progress(_) | Event::ToolCallEnd { .. } => {}
            Event::Scored(token) => self.scored.push(token),
            Event::Reasoning(text) => self.reasoning.push_str(&text),
            Event::Content { text, tokens } => {
                self.content.push_str(&text);
                self.tokens.extend(tokens);
            }
            Event::ToolCallBegin { id, name, .. } => {
                self.calls.push(CollectedCall { id, name, arguments: String::new() });
            }
            Event::ToolCallArguments { json, .. } => {
                if let Some(call) = self.calls.last_mut() {
                    call.arguments.push_str(&json);
                }
            }
            Event::Ended(end) => self.end = Some(end),
            Event::Failed(error) => return Err(error),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drafts_are_told_where_there_were_any() {
        let timings = Timings::new((0, 2, 3.0), (5, 8.0));
        let told = |speculation| {
            let value = serde_json::to_value(timings.with_drafts(speculation)).unwrap();
            [value.get("draft_n").cloned(), value.get("draft_n_accepted").cloned()]
        };
        assert_eq!(told(SpeculationStats::default()), [None, None]);
        let none_found = SpeculationStats { steps: 4, tokens: 4, drafts: 0 };
        assert_eq!(told(none_found), [None, None]);
        let drafted = SpeculationStats { steps: 2, tokens: 5, drafts: 6 };
        assert_eq!(told(drafted), [Some(6.into()), Some(3.into())]);
    }
}
