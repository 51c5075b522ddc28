//! A whole answer in the shape of the API.

use serde::Serialize;

use super::request::Wanted;
use super::thoughts::TaggedThoughts;
use crate::api::openai::{Head, Header, UsageReply, finish_reason};
use crate::core::{Collected, CollectedCall, TextToken, Timings};
use crate::state::Served;

/// The answers to a conversation.
#[derive(Debug, Serialize)]
pub(super) struct ChatReply<'a> {
    #[serde(flatten)]
    head: Head<'a>,
    choices: Vec<ChoiceReply>,
    usage: UsageReply,
    timings: Timings,
}

#[derive(Debug, Serialize)]
struct ChoiceReply {
    index: usize,
    message: MessageReply,
    logprobs: Option<Logprobs>,
    finish_reason: &'static str,
}

#[derive(Debug, Serialize)]
struct MessageReply {
    role: &'static str,
    content: Option<String>,
    refusal: Option<()>,
    /// Sources of the content, of which there are none.
    annotations: [(); 0],
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_content: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<CallReply>,
}

#[derive(Debug, Serialize)]
struct CallReply {
    id: String,
    #[serde(rename = "type")]
    kind: &'static str,
    function: FunctionReply,
}

#[derive(Debug, Serialize)]
struct FunctionReply {
    name: String,
    arguments: String,
}

/// Log-probabilities of the tokens of a content.
#[derive(Debug, Serialize)]
pub struct Logprobs {
    /// One for each token.
    pub content: Vec<TokenReply>,
    refusal: Option<()>,
}

/// The log-probability of a token, and those of the most likely tokens in its place.
#[derive(Clone, Debug, Serialize)]
pub struct TokenReply {
    #[serde(flatten)]
    token: LikelyToken,
    top_logprobs: Vec<LikelyToken>,
}

#[derive(Clone, Debug, Serialize)]
struct LikelyToken {
    token: String,
    logprob: f32,
    bytes: Vec<u8>,
}

/// Turns tokens into log-probabilities in the shape of the API.
#[derive(Clone, Copy, Debug)]
pub struct ReplyTokens<'a>(pub &'a Served);

impl ReplyTokens<'_> {
    /// The log-probabilities of tokens; those that have none are left out.
    #[must_use]
    pub fn logprobs(&self, tokens: &[TextToken]) -> Logprobs {
        let reply = |token: &TextToken| {
            let logprobs = token.logprobs.as_ref()?;
            let top = logprobs
                .top
                .iter()
                .map(|&(id, logprob)| likely(self.0.backend.token_bytes(id).unwrap_or_default(), logprob));
            Some(TokenReply { token: likely(token.bytes.clone(), logprobs.chosen), top_logprobs: top.collect() })
        };
        Logprobs { content: tokens.iter().filter_map(reply).collect(), refusal: None }
    }
}

fn likely(bytes: Vec<u8>, logprob: f32) -> LikelyToken {
    // JSON has no infinity, and rounding may leave a probability above 1.
    let logprob = logprob.clamp(-9999.0, 0.0);
    LikelyToken { token: String::from_utf8_lossy(&bytes).into_owned(), logprob, bytes }
}

impl<'a> ChatReply<'a> {
    pub(super) fn new(header: &'a Header, served: &Served, answers: Vec<Collected>, wanted: &Wanted) -> Self {
        let mut usage = UsageReply::default();
        let mut timings = Timings::default();
        for (choice, answer) in answers.iter().enumerate() {
            if let Some(end) = &answer.end {
                usage.add(end, choice, answers.len());
            }
            timings = answer.timings;
        }
        let choice = |(index, answer): (usize, Collected)| ChoiceReply {
            index,
            logprobs: wanted.logprobs.then(|| ReplyTokens(served).logprobs(&answer.tokens)),
            finish_reason: answer.end.as_ref().map_or("stop", |end| finish_reason(&end.reason)),
            message: MessageReply::new(answer, served, wanted),
        };
        Self {
            head: header.head("chat.completion"),
            choices: answers.into_iter().enumerate().map(choice).collect(),
            usage,
            timings,
        }
    }
}

impl MessageReply {
    fn new(answer: Collected, served: &Served, wanted: &Wanted) -> Self {
        let Collected { mut content, reasoning, calls, end, .. } = answer;
        let call = |call: CollectedCall| CallReply {
            id: call.id,
            kind: "function",
            function: FunctionReply { name: call.name, arguments: call.arguments },
        };
        if wanted.reasoning_format.is_in_content() && !reasoning.is_empty() {
            let mut tagged = TaggedThoughts::new(served);
            let thought = tagged.thought(&reasoning);
            let is_followed = !content.is_empty() || !calls.is_empty();
            let close = match &end {
                Some(end) if !is_followed => tagged.end_of_answer(end),
                _ => tagged.end(),
            };
            content = thought + &close + &content;
        }
        let (reasoning_content, reasoning) = if reasoning.is_empty() || !wanted.reasoning_format.has_field() {
            (None, None)
        } else {
            wanted.reasoning_field.named(reasoning)
        };
        let has_content = !content.is_empty() || calls.is_empty();
        Self {
            role: "assistant",
            content: has_content.then_some(content),
            refusal: None,
            annotations: [],
            reasoning_content,
            reasoning,
            tool_calls: calls.into_iter().map(call).collect(),
        }
    }
}
