//! One answer, from the request to the last character: what `zinc run` and `zinc chat` share.

use zinc_model::tokenizer::{Released, StopMatcher};
use zinc_sched::{Completion, Event, FinishReason, Generation, Request};

use crate::error::{Error, Result};
use crate::interrupt;
use crate::output;
use crate::session::Session;

/// An answer that has ended.
#[derive(Debug)]
pub(crate) struct Answer {
    /// All of its text, up to the stop string if there was one.
    pub(crate) text: String,
    /// Why it ended.
    pub(crate) ending: Ending,
    /// What it took.
    pub(crate) completion: Completion,
}

/// Why an answer ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// The model ended it, it came to a stop string, or its constraint is met.
    Stop,
    /// It has as many tokens as were asked for.
    Length,
    /// The context is full.
    ContextFull,
    /// Ctrl-C.
    Interrupted,
}

impl From<FinishReason> for Ending {
    fn from(reason: FinishReason) -> Self {
        match reason {
            FinishReason::Stop { .. } | FinishReason::Complete => Self::Stop,
            FinishReason::Length => Self::Length,
            FinishReason::ContextFull => Self::ContextFull,
            FinishReason::Cancelled => Self::Interrupted,
        }
    }
}

/// Generates an answer and prints it to stdout as it comes, up to the first stop string, with a newline after it. A stop string and
/// Ctrl-C cancel the generation, which ends within a step.
///
/// # Errors
/// A request that is refused, an engine that fails, or stdout.
pub(crate) fn stream(session: &Session, request: Request, stops: StopMatcher) -> Result<Answer> {
    interrupt::install()?;
    let generation = session.handle.generate(request)?;
    let answer = interrupt::during(&generation.cancel_handle(), || print_tokens(session, generation, stops));
    // Whatever was printed, what follows starts on a new line.
    let newline =
        if matches!(answer, Err(Error::OutputClosed | Error::Output(_))) { Ok(()) } else { output::stdout("\n") };
    let answer = answer?;
    newline.map(|()| answer)
}

fn print_tokens(session: &Session, generation: Generation, mut stops: StopMatcher) -> Result<Answer> {
    let cancel = generation.cancel_handle();
    let mut stream = session.host.tokenizer.stream();
    let mut text = String::new();
    // Says whether a stop string was found.
    let mut print = |released: Released| {
        text.push_str(&released.text);
        let printed = if released.text.is_empty() { Ok(()) } else { output::stdout(&released.text) };
        printed.map(|()| released.stop.is_some())
    };
    let mut is_stopped = false;
    for event in generation {
        match event {
            // A control token in the middle of an answer is none of its text.
            Event::Token(token) if session.host.tokenizer.is_control(token.id) => {}
            Event::Token(token) => {
                if print(stops.push(&stream.push(token.id)))? {
                    // A Ctrl-C that came before stays one.
                    is_stopped = !cancel.is_cancelled();
                    cancel.cancel();
                }
            }
            Event::Finished(completion) => {
                let held_back = [stops.push(&stream.finish()), stops.finish()];
                for released in held_back {
                    is_stopped |= print(released)? && completion.reason != FinishReason::Cancelled;
                }
                let ending = if is_stopped { Ending::Stop } else { completion.reason.into() };
                return Ok(Answer { text, ending, completion });
            }
            Event::Failed(error) => return Err(error.into()),
        }
    }
    Err(zinc_sched::Error::Stopped.into())
}

/// The lines on stderr after an answer.
pub(crate) fn summary(completion: &Completion) -> String {
    let usage = completion.usage;
    let computed = usage.prompt_tokens - usage.cached_tokens;
    let cached = if usage.cached_tokens > 0 { format!(", {} cached", usage.cached_tokens) } else { String::new() };
    let rate = |rate: Option<f64>| rate.map_or(String::new(), |rate| format!(", {rate:.2} tokens/s"));
    let accepted = completion.speculation_stats.accepted_per_step().map_or(String::new(), |accepted| {
        format!(", {accepted:.2} drafts accepted in each of {} steps", completion.speculation_stats.steps)
    });
    format!(
        "prompt:     {computed:>6} tokens in {:>9.1} ms{}{cached}\ngeneration: {:>6} tokens in {:>9.1} ms{}{accepted}",
        completion.durations.prompt.as_secs_f64() * 1e3,
        rate(completion.prompt_tokens_per_second()),
        usage.completion_tokens,
        completion.durations.decode.as_secs_f64() * 1e3,
        rate(completion.decode_tokens_per_second()),
    )
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use zinc_sched::{Durations, FinishReason, SpeculationStats, Usage};

    use super::*;

    fn completion(prompt: u32, cached: u32, generated: u32) -> Completion {
        Completion {
            reason: FinishReason::Length,
            usage: Usage { prompt_tokens: prompt, cached_tokens: cached, completion_tokens: generated },
            durations: Durations { prompt: Duration::from_millis(250), decode: Duration::from_secs(2) },
            overshoot_steps: 0,
            speculation_stats: SpeculationStats::default(),
            trace: None,
        }
    }

    #[test]
    fn rates_leave_out_the_cache_and_count_intervals() {
        let expected = "prompt:          5 tokens in     250.0 ms, 20.00 tokens/s, 2 cached\n\
                        generation:     11 tokens in    2000.0 ms, 5.00 tokens/s";
        assert_eq!(summary(&completion(7, 2, 11)), expected);
    }

    #[test]
    fn without_tokens_there_is_no_rate() {
        assert!(summary(&completion(7, 0, 0)).ends_with("generation:      0 tokens in    2000.0 ms"));
    }
}
