//! One answer, from the request to the last character: what `zinc run` and `zinc chat` share.

use std::hash::{BuildHasher as _, RandomState};

use zinc_sched::{Completion, Event, Generation, Request, Sampling, Tracing};

use crate::args::{GenerationArgs, Seed, TokenCount};
use crate::error::{Error, Result};
use crate::interrupt;
use crate::output;
use crate::session::{HostModel, Session};

/// How the tokens of an answer are chosen; checked before anything is loaded.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sampler {
    temperature: f32,
    seed: u64,
    max_tokens: Option<u32>,
    end: End,
}

/// What ends an answer, besides its length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// An end-of-generation token.
    Model,
    /// Nothing.
    Never,
}

impl Sampler {
    /// From the flags; a random seed is drawn here.
    ///
    /// # Errors
    /// A temperature that is none.
    pub(crate) fn new(args: &GenerationArgs) -> Result<Self> {
        let seed = match args.seed {
            Seed::Fixed(seed) => seed,
            // The standard library's hash keys are random; the hash of nothing under them is as good as a draw.
            Seed::Random => RandomState::new().hash_one(()),
        };
        let max_tokens = match args.predict {
            TokenCount::Unlimited => None,
            TokenCount::AtMost(count) => Some(count),
        };
        Sampling::new(args.temp, seed).map_err(|error| Error::usage(error.to_string()))?;
        let end = if args.ignore_eos { End::Never } else { End::Model };
        Ok(Self { temperature: args.temp, seed, max_tokens, end })
    }

    /// The seed.
    pub(crate) fn seed(&self) -> u64 {
        self.seed
    }

    /// Whether the seed matters.
    pub(crate) fn is_random(&self) -> bool {
        self.temperature > 0.0
    }

    /// The same sampler for the next answer, which should not be drawn like this one.
    pub(crate) fn advance(&mut self) {
        self.seed = self.seed.wrapping_add(1);
    }

    /// The request that continues `ids`.
    ///
    /// # Errors
    /// None that [`Self::new`] has not found.
    pub(crate) fn request(&self, host: &HostModel, ids: Vec<u32>, trace: Tracing) -> Result<Request> {
        let end_tokens = match self.end {
            End::Model => host.tokenizer.eog(),
            End::Never => &[],
        };
        let mut request = Request::new(ids, end_tokens);
        request.max_tokens = self.max_tokens;
        request.sampling = Sampling::new(self.temperature, self.seed)?;
        request.trace = trace;
        Ok(request)
    }
}

/// An answer that has ended.
#[derive(Debug)]
pub(crate) struct Answer {
    /// All of its text.
    pub(crate) text: String,
    /// How it ended.
    pub(crate) completion: Completion,
}

/// Generates an answer and prints it to stdout as it comes, with a newline after it. Ctrl-C cancels it within a step.
///
/// # Errors
/// A request that is refused, an engine that fails, or stdout.
pub(crate) fn stream(session: &Session, request: Request) -> Result<Answer> {
    interrupt::install()?;
    let generation = session.handle.generate(request)?;
    let answer = interrupt::during(&generation.cancel_handle(), || print_tokens(session, generation));
    // Whatever was printed, what follows starts on a new line.
    let newline =
        if matches!(answer, Err(Error::OutputClosed | Error::Output(_))) { Ok(()) } else { output::stdout("\n") };
    let answer = answer?;
    newline.map(|()| answer)
}

fn print_tokens(session: &Session, generation: Generation) -> Result<Answer> {
    let mut text = String::new();
    let mut stream = session.host.tokenizer.stream();
    let mut print = |piece: &str| {
        text.push_str(piece);
        if piece.is_empty() { Ok(()) } else { output::stdout(piece) }
    };
    for event in generation {
        match event {
            // A control token in the middle of an answer is none of its text.
            Event::Token(token) if session.host.tokenizer.is_control(token.id) => {}
            Event::Token(token) => print(&stream.push(token.id))?,
            Event::Finished(completion) => {
                print(&stream.finish())?;
                return Ok(Answer { text, completion });
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
    format!(
        "prompt:     {computed:>6} tokens in {:>9.1} ms{}{cached}\ngeneration: {:>6} tokens in {:>9.1} ms{}",
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

    use zinc_sched::{Durations, FinishReason, Usage};

    use super::*;

    fn completion(prompt: u32, cached: u32, generated: u32) -> Completion {
        Completion {
            reason: FinishReason::Length,
            usage: Usage { prompt_tokens: prompt, cached_tokens: cached, completion_tokens: generated },
            durations: Durations { prompt: Duration::from_millis(250), decode: Duration::from_secs(2) },
            overshoot_steps: 0,
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
