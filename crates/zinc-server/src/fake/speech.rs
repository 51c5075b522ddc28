//! How a fake model says an answer: token by token, once it has a lane, and in the time that the script sets.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::{Duration, Instant};

use zinc_engine::{AnswerOptions, Ending, Result, TextPiece};
use zinc_sched::{
    CancelHandle, Durations, Error, ModelCall, PromptProgress, SpeculationStats, Token, TokenLogprobs, Usage,
};

use super::script::{Fault, FaultKind, Form, ScriptedAnswer};
use super::{Lanes, Place};
use crate::backend::{BackendEnd, BackendEvent};
use crate::output::Thinking;

/// How often one that waits looks whether it was cancelled.
const LOOK: Duration = Duration::from_millis(2);

/// The mark that begins a message of ChatML, and the one that ends it.
const BEGIN: &str = "<|im_start|>";
const END: &str = "<|im_end|>";

/// What a prompt ends with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Last<'a> {
    /// The last message of the user, or the whole text if it has no messages.
    pub(super) user: &'a str,
    /// Whether the last message is the result of a tool.
    pub(super) is_tool: bool,
    /// How the prompt leaves the thinking to the model.
    pub(super) thinking: Thinking,
}

impl<'a> Last<'a> {
    pub(super) fn of_prompt(text: &'a str, form: Form) -> Self {
        match form {
            Form::Qwen3 | Form::Qwen3_5 => Self::of_chatml(text),
            Form::Harmony => Self::of_harmony(text),
        }
    }

    /// Messages are behind their headers; those of tools have the name of the tool for a role.
    fn of_harmony(text: &'a str) -> Self {
        let messages = || text.split("<|start|>").filter_map(|message| message.split_once("<|message|>"));
        let said = |(_, content): (&str, &'a str)| content.split("<|end|>").next().unwrap_or(content);
        let user = messages().filter(|(header, _)| *header == "user").last().map_or(text, said);
        let before = messages().filter(|(header, _)| !header.starts_with("assistant")).last();
        let is_tool = before.is_some_and(|(header, _)| header.starts_with("functions."));
        Self { user, is_tool, thinking: Thinking::MayBegin }
    }

    /// Results of tools have the role `tool`, or stand between tags in a message of the user.
    fn of_chatml(text: &'a str) -> Self {
        let is_result = |(role, content): &(&str, &str)| *role == "tool" || content.starts_with("<tool_response>");
        let messages = || text.split(BEGIN).skip(1).filter_map(|message| message.split_once('\n'));
        let said = |(_, content): (&str, &'a str)| content.split(END).next().unwrap_or(content);
        let asked = messages().filter(|message| message.0 == "user" && !is_result(message)).last();
        // The last one is the model's, which it is about to say.
        let before = messages().filter(|(role, _)| *role != "assistant").last();
        let is_tool = before.is_some_and(|message| is_result(&message));
        let end = text.trim_end();
        let thinking = match (end.ends_with("</think>"), end.ends_with("<think>")) {
            (true, _) => Thinking::No,
            (_, true) => Thinking::Begun,
            _ => Thinking::MayBegin,
        };
        Self { user: asked.map_or(text, said), is_tool, thinking }
    }
}

/// Cuts a text into the texts of tokens: of so many characters at most, or words with the space before them.
pub(super) fn cut(text: &str, chars: Option<usize>) -> Vec<&str> {
    let mut pieces = Vec::new();
    let (mut start, mut count) = (0, 0);
    for (at, c) in text.char_indices() {
        let is_end = match chars {
            Some(most) => count >= most.max(1),
            None => c == ' ' || c == '\n',
        };
        if is_end && at > start {
            pieces.push(&text[start..at]);
            (start, count) = (at, 0);
        }
        count += 1;
    }
    if start < text.len() {
        pieces.push(&text[start..]);
    }
    pieces
}

/// An answer that is said: its events.
pub(super) struct Speech {
    lanes: Arc<Lanes>,
    place: Place,
    stage: Stage,
    answer: ScriptedAnswer,
    tokens: VecDeque<(u32, String)>,
    /// How many tokens there is room for, and what ends the answer if that is too few.
    most: (usize, Ending),
    logprobs: Option<u32>,
    prompt_tokens: u32,
    /// Tokens of the prompt whose log-probabilities are to be told.
    scored: VecDeque<u32>,
    said: u32,
    /// When it got its lane.
    start: Instant,
    first: Option<Instant>,
    cancel: CancelHandle,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Waiting,
    Prompt,
    Tokens,
    Over,
}

impl Speech {
    pub(super) fn new(
        (lanes, place): (Arc<Lanes>, Place),
        options: &AnswerOptions,
        (prompt_tokens, context_tokens): (usize, u32),
        answer: ScriptedAnswer,
        tokens: VecDeque<(u32, String)>,
        cancel: CancelHandle,
    ) -> Self {
        let room = (context_tokens as usize).saturating_sub(prompt_tokens);
        let asked = options.max_tokens.map_or(usize::MAX, |most| most as usize);
        let most = if asked <= room { (asked, Ending::Length) } else { (room, Ending::ContextFull) };
        Self {
            lanes,
            place,
            stage: Stage::Waiting,
            answer,
            tokens,
            most,
            logprobs: options.logprobs,
            prompt_tokens: u32::try_from(prompt_tokens).unwrap_or(u32::MAX),
            scored: options.scored.iter().copied().collect(),
            said: 0,
            start: Instant::now(),
            first: None,
            cancel,
        }
    }

    /// Waits for a lane. Returns false if the request was cancelled before.
    fn wait(&mut self) -> bool {
        let lanes = Arc::clone(&self.lanes);
        let mut state = lanes.state();
        loop {
            if self.cancel.is_cancelled() {
                return false;
            }
            if state.running.len() < self.lanes.places && state.is_next(self.place) {
                state.leave_queue(self.place);
                state.running.push(self.place.owner);
                return true;
            }
            let waited = lanes.changed.wait_timeout(state, LOOK);
            state = waited.unwrap_or_else(std::sync::PoisonError::into_inner).0;
        }
    }

    /// Gives the lane back, or the place in the queue.
    fn leave(&mut self) {
        let mut state = self.lanes.state();
        match self.stage {
            Stage::Over => {}
            Stage::Waiting => state.leave_queue(self.place),
            Stage::Prompt | Stage::Tokens => {
                if let Some(lane) = state.running.iter().position(|owner| *owner == self.place.owner) {
                    state.running.swap_remove(lane);
                }
            }
        }
        drop(state);
        self.lanes.changed.notify_all();
        self.stage = Stage::Over;
    }

    /// Sleeps unless the request is cancelled. Returns false if it is.
    fn sleep(&self, time: Duration) -> bool {
        let end = Instant::now() + time;
        while !self.cancel.is_cancelled() {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return true;
            }
            thread::sleep(left.min(LOOK));
        }
        false
    }

    fn end(&mut self, ending: Ending) -> Option<Result<BackendEvent>> {
        self.leave();
        let usage = Usage { prompt_tokens: self.prompt_tokens, cached_tokens: 0, completion_tokens: self.said };
        let first = self.first.unwrap_or_else(Instant::now);
        let durations = Durations { prompt: first - self.start, decode: first.elapsed() };
        let speculation = SpeculationStats::default();
        Some(Ok(BackendEvent::Ended(BackendEnd { ending, usage, durations, speculation })))
    }

    fn fail(&mut self, kind: FaultKind) -> Option<Result<BackendEvent>> {
        let error = match kind {
            FaultKind::DeviceLost => {
                self.lanes.losses.fetch_add(1, Relaxed);
                self.lanes.is_lost.store(true, Relaxed);
                let source = Arc::new(io::Error::other("the device is lost"));
                Error::Model { call: ModelCall::Wait { step: self.said }, source }
            }
            FaultKind::NonFinite => {
                Error::NonFinite { step: self.said, position: self.prompt_tokens.saturating_add(self.said) }
            }
            FaultKind::Panic => panic!("the script wants a panic"),
            FaultKind::Hang => {
                while !self.cancel.is_cancelled() {
                    thread::sleep(LOOK);
                }
                return self.end(Ending::Cancelled);
            }
        };
        self.leave();
        Some(Err(error.into()))
    }

    /// What is told of a token: itself, and behind it the single bytes.
    fn logprobs_of(&self, id: u32) -> Option<Arc<TokenLogprobs>> {
        self.logprobs.map(|top| {
            let others = (0..top.saturating_sub(1)).map(|place| (place, -3.0 - place as f32));
            let top = std::iter::once((id, -0.25)).take(top as usize).chain(others).collect();
            Arc::new(TokenLogprobs { chosen: -0.25, top })
        })
    }

    fn token(&mut self) -> Option<Result<BackendEvent>> {
        if let Some(Fault { kind, after }) = self.answer.fault
            && self.said as usize >= after
        {
            return self.fail(kind);
        }
        let pause = if self.said == 0 { self.answer.first_token_ms } else { self.answer.token_ms };
        if !self.sleep(Duration::from_millis(pause)) {
            return self.end(Ending::Cancelled);
        }
        if self.said as usize >= self.most.0 {
            return self.end(self.most.1);
        }
        let Some((id, text)) = self.tokens.pop_front() else { return self.end(Ending::EndToken) };
        let position = self.prompt_tokens.saturating_add(self.said);
        self.said += 1;
        self.first.get_or_insert_with(Instant::now);
        self.lanes.tokens.fetch_add(1, Relaxed);
        self.lanes.is_lost.store(false, Relaxed);
        let logprobs = self.logprobs_of(id);
        let mut piece = TextPiece::default();
        piece.text = text;
        piece.tokens = vec![Token { id, position, logprobs }];
        Some(Ok(BackendEvent::Text(piece)))
    }
}

impl Iterator for Speech {
    type Item = Result<BackendEvent>;

    fn next(&mut self) -> Option<Self::Item> {
        match self.stage {
            Stage::Over => None,
            Stage::Waiting => {
                if !self.wait() {
                    return self.end(Ending::Cancelled);
                }
                self.stage = Stage::Prompt;
                self.start = Instant::now();
                self.next()
            }
            Stage::Prompt => {
                self.stage = Stage::Tokens;
                let done = self.prompt_tokens.saturating_sub(1);
                Some(Ok(BackendEvent::Prompt(PromptProgress { done, tokens: self.prompt_tokens })))
            }
            Stage::Tokens => match self.scored.pop_front() {
                Some(id) => {
                    let position = self.prompt_tokens - 1 - u32::try_from(self.scored.len()).unwrap_or(u32::MAX);
                    let logprobs = self.logprobs_of(id);
                    Some(Ok(BackendEvent::Scored(Token { id, position, logprobs })))
                }
                None => self.token(),
            },
        }
    }
}

impl Drop for Speech {
    fn drop(&mut self) {
        self.leave();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_cut_into_words_or_by_length() {
        assert_eq!(cut("Hello big world", None), ["Hello", " big", " world"]);
        assert_eq!(cut("Grüße", Some(2)), ["Gr", "üß", "e"]);
        assert_eq!(cut("", None), [""; 0]);
    }

    #[test]
    fn the_last_messages_are_found() {
        let prompt = "<|im_start|>system\nS<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n";
        assert_eq!(
            Last::of_prompt(prompt, Form::Qwen3),
            Last { user: "Hi", is_tool: false, thinking: Thinking::MayBegin }
        );
        let tool = format!(
            "{prompt}call<|im_end|>\n<|im_start|>tool\n4<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"
        );
        assert_eq!(Last::of_prompt(&tool, Form::Qwen3), Last { user: "Hi", is_tool: true, thinking: Thinking::No });
        assert_eq!(Last::of_prompt("plain", Form::Qwen3).user, "plain");
        let result = "<|im_start|>user\n<tool_response>\n4\n</tool_response><|im_end|>\n";
        let tool = format!("{prompt}call<|im_end|>\n{result}<|im_start|>assistant\n<think>\n");
        assert_eq!(
            Last::of_prompt(&tool, Form::Qwen3_5),
            Last { user: "Hi", is_tool: true, thinking: Thinking::Begun }
        );
        let prompt = "<|start|>system<|message|>S<|end|><|start|>user<|message|>Hi<|end|><|start|>assistant";
        assert_eq!(
            Last::of_prompt(prompt, Form::Harmony),
            Last { user: "Hi", is_tool: false, thinking: Thinking::MayBegin }
        );
        let result = "<|start|>functions.f to=assistant<|channel|>commentary<|message|>4<|end|><|start|>assistant";
        let tool = format!("{prompt} to=functions.f<|channel|>commentary json<|message|>{{}}<|call|>{result}");
        assert_eq!(
            Last::of_prompt(&tool, Form::Harmony),
            Last { user: "Hi", is_tool: true, thinking: Thinking::MayBegin }
        );
    }
}
