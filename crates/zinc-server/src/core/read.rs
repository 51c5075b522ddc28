//! The thread that reads one answer: it turns text into thoughts, content and calls, looks for stop strings, and passes on what comes of it. If
//! whoever reads that is gone, or is too slow for too long, the request is cancelled.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;
use zinc_engine::{Ending, TextPiece};
use zinc_model::tokenizer::StopMatcher;
use zinc_sched::{Token, Usage};

use super::ask::Ask;
use super::event::{End, Event, Reason, TextToken, Timings, Update};
use crate::backend::{BackendEnd, BackendEvent, Running};
use crate::error::{ApiError, ErrorKind};
use crate::output::{OutputParser, Piece};
use crate::state::{Cause, Entered, Served, draining, outcome};
use crate::{ids, state};

/// Reads one answer.
pub(super) struct Reader {
    entered: Entered,
    served: Arc<Served>,
    choice: u32,
    running: Running,
    parser: Option<OutputParser>,
    /// Whether the answer ends with its first call.
    ends_with_call: bool,
    updates: mpsc::Sender<Update>,
    stops: Vec<String>,
    matcher: StopMatcher,
    /// The stop string that has ended the answer.
    stopped: Option<String>,
    most_time: Option<Duration>,
    clock: TokenClock,
    tokens: TokenQueue,
    calls: Calls,
    reasoning_tokens: u32,
    /// Whether the last piece was a thought.
    is_thinking: bool,
}

/// When the tokens of an answer came.
struct TokenClock {
    start: Instant,
    prompt_tokens: u32,
    first: Option<Instant>,
    last: Instant,
    tokens: u32,
}

/// The calls of an answer.
#[derive(Default)]
struct Calls {
    begun: usize,
    complete: usize,
}

/// The tokens whose text has not come out yet as content.
#[derive(Default)]
struct TokenQueue {
    waiting: VecDeque<TextToken>,
    /// Bytes of text that have gone in and have not come out.
    held: usize,
    /// Whether thoughts, a call or marks stand before the next content.
    is_behind_other: bool,
}

impl TokenQueue {
    /// Takes a piece of text as the model has written it.
    fn push(&mut self, bytes: usize, tokens: impl Iterator<Item = TextToken>) {
        self.held += bytes;
        self.waiting.extend(tokens);
    }

    /// Notes that so many bytes of content are next, of which some may be held back as a possible stop string.
    fn content(&mut self, bytes: usize) {
        if !self.is_behind_other {
            return;
        }
        self.is_behind_other = false;
        self.held = bytes;
        // What stands before the content are marks.
        self.drop_before(bytes);
    }

    /// The tokens that begin in so many bytes of content, which come out. All behind them are held back.
    fn take(&mut self, bytes: usize) -> Vec<TextToken> {
        self.held = self.held.saturating_sub(bytes);
        let mut left = self.bytes();
        let mut taken = Vec::new();
        while left > self.held
            && let Some(token) = self.waiting.pop_front()
        {
            left -= token.bytes.len();
            taken.push(token);
        }
        taken
    }

    /// Removes tokens from the front that lie wholly before so many bytes at the end.
    fn drop_before(&mut self, kept: usize) {
        let mut left = self.bytes();
        while let Some(front) = self.waiting.front() {
            left -= front.bytes.len();
            if left < kept {
                break;
            }
            self.waiting.pop_front();
        }
    }

    fn bytes(&self) -> usize {
        self.waiting.iter().map(|token| token.bytes.len()).sum()
    }

    /// Notes that marks stand before the next content.
    fn gap(&mut self) {
        self.is_behind_other = true;
    }

    /// Forgets the tokens of thoughts and calls.
    fn other(&mut self) {
        self.waiting.clear();
        self.held = 0;
        self.is_behind_other = true;
    }
}

impl TokenClock {
    /// Notes that tokens came, and returns how long they took: since the start if they are the first.
    fn tick(&mut self, tokens: u32) -> Duration {
        let now = Instant::now();
        let since = if self.first.is_none() { now - self.start } else { now - self.last };
        self.first.get_or_insert(now);
        self.last = now;
        self.tokens += tokens;
        since
    }

    /// How long the request waited for a lane, if its prompt then took so long up to the first token, or up to `end` if it had none.
    fn wait_before(&self, prompt: Duration, end: Instant) -> Duration {
        (self.first.unwrap_or(end) - self.start).saturating_sub(prompt)
    }

    /// The timings as far as the host can see them.
    fn timings(&self) -> Timings {
        let ms = |from: Instant, to: Instant| (to - from).as_secs_f64() * 1e3;
        let prompt_ms = ms(self.start, self.first.unwrap_or_else(Instant::now));
        let predicted_ms = self.first.map_or(0.0, |first| ms(first, self.last));
        Timings::new((0, self.prompt_tokens, prompt_ms), (self.tokens, predicted_ms))
    }
}

/// Whoever reads the answer does so no longer.
struct Gone;

impl Reader {
    pub(super) fn new(
        (entered, served): (Entered, Arc<Served>),
        choice: u32,
        running: Running,
        (parser, ends_with_call): (Option<OutputParser>, bool),
        ask: &Ask,
        updates: mpsc::Sender<Update>,
    ) -> Self {
        let start = entered.active.since;
        let prompt_tokens = entered.active.prompt_tokens;
        let tokens = TokenQueue { is_behind_other: parser.is_some(), ..TokenQueue::default() };
        Self {
            entered,
            served,
            choice,
            running,
            parser,
            ends_with_call,
            updates,
            matcher: StopMatcher::new(&ask.stops),
            stops: ask.stops.clone(),
            stopped: None,
            most_time: ask.most_time,
            clock: TokenClock { start, prompt_tokens, first: None, last: start, tokens: 0 },
            tokens,
            calls: Calls::default(),
            reasoning_tokens: 0,
            is_thinking: false,
        }
    }

    /// Reads to the end.
    pub(super) fn run(mut self) {
        if self.read().is_err() {
            // Nobody hears of the end, which nevertheless has to come before the lane is free.
            self.running.cancel.cancel();
            for event in self.running.events.by_ref() {
                if matches!(event, Ok(BackendEvent::Ended(_)) | Err(_)) {
                    break;
                }
            }
            self.entered.state.metrics.cancelled(self.entered.active.cause());
            self.log("cancelled", None);
        }
    }

    fn read(&mut self) -> Result<(), Gone> {
        loop {
            match self.running.events.next() {
                Some(Ok(BackendEvent::Prompt(progress))) => {
                    self.begin();
                    self.send(Event::Progress(progress))?;
                }
                Some(Ok(BackendEvent::Scored(token))) => {
                    let token = self.text_token(token);
                    self.send(Event::Scored(token))?;
                }
                Some(Ok(BackendEvent::Text(piece))) => {
                    self.begin();
                    self.text(piece)?;
                }
                Some(Ok(BackendEvent::Ended(end))) => return self.end(end),
                Some(Err(error)) => return self.fail(error.into()),
                None => return self.fail(zinc_engine::Error::from(zinc_sched::Error::Stopped).into()),
            }
        }
    }

    /// Notes that something was computed.
    fn begin(&mut self) {
        self.entered.active.has_begun.store(true, Relaxed);
    }

    fn text(&mut self, piece: TextPiece) -> Result<(), Gone> {
        let TextPiece { text, tokens, .. } = piece;
        let count = u32::try_from(tokens.len()).unwrap_or(u32::MAX);
        let is_first = self.clock.first.is_none();
        let took = self.clock.tick(count).as_secs_f64();
        let metrics = &self.entered.state.metrics;
        if is_first { &metrics.first_token } else { &metrics.inter_token }.observe(took);
        self.entered.active.tokens.store(self.clock.tokens, Relaxed);
        if self.most_time.is_some_and(|most| self.clock.first.is_some_and(|first| first.elapsed() >= most)) {
            self.entered.active.cancel(Cause::TimeOver);
        }
        if self.is_over() {
            return Ok(());
        }
        let tokens: Vec<TextToken> = tokens.into_iter().map(|token| self.text_token(token)).collect();
        self.tokens.push(text.len(), tokens.into_iter());
        let pieces = match &mut self.parser {
            Some(parser) => parser.push(&text),
            None => vec![Piece::Content(text)],
        };
        self.pieces(pieces)?;
        if self.is_thinking {
            self.reasoning_tokens += count;
        }
        Ok(())
    }

    fn text_token(&self, token: Token) -> TextToken {
        let bytes = self.served.backend.token_bytes(token.id).unwrap_or_default();
        TextToken { bytes, id: token.id, logprobs: token.logprobs }
    }

    /// Whether a stop string or a call has ended the answer, so that nothing more of it counts.
    fn is_over(&self) -> bool {
        self.stopped.is_some() || (self.ends_with_call && self.calls.complete > 0)
    }

    fn pieces(&mut self, pieces: Vec<Piece>) -> Result<(), Gone> {
        for piece in pieces {
            if self.is_over() {
                return Ok(());
            }
            if let Piece::Content(text) = piece {
                self.is_thinking = false;
                self.tokens.content(text.len());
                let released = self.matcher.push(&text);
                self.content(released.text)?;
                if let Some(stop) = released.stop {
                    self.stop(stop);
                }
                continue;
            }
            self.finish_content()?;
            if self.stopped.is_some() {
                return Ok(());
            }
            match piece {
                Piece::ContentBreak => self.tokens.gap(),
                _ => self.tokens.other(),
            }
            self.is_thinking = matches!(piece, Piece::Reasoning(_));
            let event = match piece {
                Piece::Reasoning(text) | Piece::Content(text) => Event::Reasoning(text),
                // No token stands for the blank line.
                Piece::ContentBreak => Event::Content { text: "\n\n".to_owned(), tokens: Vec::new() },
                Piece::ToolCallBegin { index, name } => {
                    self.calls.begun += 1;
                    Event::ToolCallBegin { index, id: ids::new("call_"), name }
                }
                Piece::ToolCallArguments { index, json } => Event::ToolCallArguments { index, json },
                Piece::ToolCallEnd { index } => {
                    self.calls.complete += 1;
                    if self.ends_with_call {
                        self.running.cancel.cancel();
                    }
                    Event::ToolCallEnd { index }
                }
            };
            let is_empty = match &event {
                Event::Reasoning(text) | Event::ToolCallArguments { json: text, .. } => text.is_empty(),
                _ => false,
            };
            if !is_empty {
                self.send(event)?;
            }
        }
        Ok(())
    }

    /// Lets out content that is held back because it may begin a stop string.
    fn finish_content(&mut self) -> Result<(), Gone> {
        let matcher = std::mem::replace(&mut self.matcher, StopMatcher::new(&self.stops));
        let released = matcher.finish();
        self.content(released.text)?;
        if let Some(stop) = released.stop {
            self.stop(stop);
        }
        Ok(())
    }

    fn content(&mut self, text: String) -> Result<(), Gone> {
        if text.is_empty() {
            return Ok(());
        }
        let tokens = self.tokens.take(text.len());
        self.send(Event::Content { text, tokens })
    }

    fn stop(&mut self, stop: usize) {
        self.stopped = Some(self.stops[stop].clone());
        self.running.cancel.cancel();
    }

    fn end(&mut self, end: BackendEnd) -> Result<(), Gone> {
        let BackendEnd { ending, usage, durations, speculation } = end;
        if !self.is_over() {
            let pieces = self.parser.as_mut().map_or(Vec::new(), OutputParser::finish);
            self.pieces(pieces)?;
            if !self.is_over() {
                self.finish_content()?;
            }
        }
        let is_ended_by_call = self.is_over();
        let cause = self.entered.active.cause();
        let is_cut = self.calls.begun > self.calls.complete;
        let reason = match (self.stopped.take(), ending) {
            (Some(stop), _) => Reason::StopString(stop),
            (None, _) if is_ended_by_call => Reason::ToolCalls,
            (None, Ending::Cancelled) if cause == Cause::TimeOver => Reason::TimeOver,
            (None, Ending::Cancelled) if cause == Cause::Draining => return self.fail(draining()),
            (None, Ending::Cancelled) => return Err(Gone),
            (None, Ending::Length) if self.calls.complete == 0 || is_cut => Reason::Length,
            (None, Ending::ContextFull) if self.calls.complete == 0 || is_cut => Reason::ContextFull,
            (None, _) if self.calls.complete > 0 => Reason::ToolCalls,
            (None, _) => Reason::Stop,
        };
        let Usage { prompt_tokens, cached_tokens, completion_tokens } = usage;
        let ms = |time: Duration| time.as_secs_f64() * 1e3;
        let timings = Timings::new(
            (cached_tokens, prompt_tokens.saturating_sub(cached_tokens), ms(durations.prompt)),
            (completion_tokens, ms(durations.decode)),
        )
        .with_drafts(speculation);
        let wait = self.clock.wait_before(durations.prompt, Instant::now());
        self.entered.state.metrics.queue_wait.observe(wait.as_secs_f64());
        let end = End { reason, usage, reasoning_tokens: self.reasoning_tokens.min(completion_tokens) };
        self.entered.state.metrics.ended(&end, &timings);
        self.log(outcome(&end), Some((usage, timings)));
        self.send_with(Event::Ended(end), timings)
    }

    fn fail(&mut self, error: ApiError) -> Result<(), Gone> {
        if error.code == Some("device_failed") {
            self.entered.state.note_failure(&error.message);
        }
        if error.kind == ErrorKind::Server {
            self.entered.state.metrics.failed();
        }
        self.log(&error.message, None);
        self.send(Event::Failed(error))
    }

    fn send(&mut self, event: Event) -> Result<(), Gone> {
        let timings = self.clock.timings();
        self.send_with(event, timings)
    }

    /// Passes an event on. If there is no room for it, waits for a while.
    fn send_with(&mut self, event: Event, timings: Timings) -> Result<(), Gone> {
        let update = Update { choice: self.choice, event, timings };
        let update = match self.updates.try_send(update) {
            Ok(()) => return Ok(()),
            Err(TrySendError::Closed(_)) => return Err(Gone),
            Err(TrySendError::Full(update)) => update,
        };
        let patience = self.entered.state.options.reader_patience;
        let sent =
            Handle::current().block_on(async { tokio::time::timeout(patience, self.updates.send(update)).await });
        match sent {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) => Err(Gone),
            Err(_) => {
                tracing::warn!(request = self.entered.active.id, ?patience, "cancelled: its reader takes nothing");
                self.entered.active.cancel(Cause::SlowReader);
                Err(Gone)
            }
        }
    }

    /// The one line that the log has for each answer.
    fn log(&self, outcome: &str, ended: Option<(Usage, Timings)>) {
        let state::Active { id, since, .. } = &*self.entered.active;
        let ms = since.elapsed().as_millis();
        let (usage, timings) = ended.unwrap_or_else(|| {
            let usage = Usage {
                prompt_tokens: self.clock.prompt_tokens,
                cached_tokens: 0,
                completion_tokens: self.clock.tokens,
            };
            (usage, self.clock.timings())
        });
        tracing::info!(
            request = id,
            choice = self.choice,
            outcome,
            prompt = usage.prompt_tokens,
            cached = usage.cached_tokens,
            tokens = usage.completion_tokens,
            prompt_ms = in_tenths(timings.prompt_ms),
            per_second = in_tenths(timings.predicted_per_second),
            ms,
            "answered"
        );
    }
}

/// A figure as the log has it, rounded to tenths.
fn in_tenths(figure: f64) -> f64 {
    (figure * 10.0).round() / 10.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(text: &str) -> TextToken {
        TextToken { id: 0, bytes: text.as_bytes().to_vec(), logprobs: None }
    }

    fn joined(tokens: &[TextToken]) -> String {
        tokens.iter().map(|token| String::from_utf8_lossy(&token.bytes).into_owned()).collect()
    }

    #[test]
    fn tokens_come_with_the_text_that_they_begin() {
        let mut queue = TokenQueue::default();
        queue.push(5, [token("He"), token("llo")].into_iter());
        assert_eq!(joined(&queue.take(5)), "Hello");
        // " wor" is held back, and then only "ld" is.
        queue.push(4, [token(" wor")].into_iter());
        queue.push(2, [token("ld")].into_iter());
        assert_eq!(joined(&queue.take(4)), " wor");
        assert_eq!(joined(&queue.take(2)), "ld");
    }

    #[test]
    fn a_token_whose_end_is_held_back_comes_with_its_beginning() {
        let mut queue = TokenQueue::default();
        queue.push(7, [token("one "), token("two")].into_iter());
        assert_eq!(joined(&queue.take(3)), "one ");
        assert_eq!(joined(&queue.take(4)), "two");
    }

    #[test]
    fn the_tokens_of_a_stop_string_do_not_come() {
        let mut queue = TokenQueue::default();
        queue.push(6, [token("a"), token("<en"), token("d>")].into_iter());
        assert_eq!(joined(&queue.take(1)), "a");
    }

    #[test]
    fn marks_before_content_are_none_of_it() {
        let mut queue = TokenQueue { is_behind_other: true, ..TokenQueue::default() };
        queue.push(6, [token("thought")].into_iter());
        queue.other();
        queue.push(12, [token("</think>"), token("\n\n"), token("Hi")].into_iter());
        queue.content(2);
        assert_eq!(joined(&queue.take(2)), "Hi");
    }

    #[test]
    fn marks_between_contents_are_none_of_them() {
        let mut queue = TokenQueue::default();
        queue.push(1, [token("a")].into_iter());
        assert_eq!(joined(&queue.take(1)), "a");
        queue.push(12, [token("<|message|>"), token("b")].into_iter());
        queue.gap();
        queue.content(1);
        assert_eq!(joined(&queue.take(1)), "b");
    }

    #[test]
    fn the_wait_for_a_lane_is_what_the_prompt_did_not_take() {
        let start = Instant::now();
        let ms = Duration::from_millis;
        let clock = |first| TokenClock { start, prompt_tokens: 1, first, last: start, tokens: 0 };
        let with_token = clock(Some(start + ms(500)));
        assert_eq!(with_token.wait_before(ms(200), start + ms(9000)), ms(300));
        assert_eq!(with_token.wait_before(ms(501), start + ms(9000)), ms(0), "clocks of two threads may disagree");
        assert_eq!(clock(None).wait_before(ms(200), start + ms(700)), ms(500));
    }
}
