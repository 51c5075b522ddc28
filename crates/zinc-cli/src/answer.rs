//! Printing one answer as it comes: what `zinc run` and `zinc chat` share.

use std::time::{Duration, Instant};

use indicatif::ProgressBar;
use zinc_engine::{Answer, AnswerEvent, AnswerRules, AnswerStream, Ending, LoadedModel};
use zinc_sched::{Completion, PromptProgress};
use zinc_server::output::OutputFormat;

use crate::error::{Error, Result};
use crate::interrupt;
use crate::output;
use crate::spoken::{Kept, Spoken};

/// Tokens at the end of a prompt, in which the beginning of the model's message is.
const TAIL_TOKENS: usize = 64;

/// Generates an answer and prints it to stdout as it comes, with a newline after it. Returns it with what a conversation keeps of its text. Ctrl-C cancels
/// the generation, which ends within a step.
///
/// # Errors
/// A request that the engine refuses, a failure of the engine, or a failure to write to stdout.
pub(crate) fn print(
    model: &LoadedModel,
    rules: &AnswerRules,
    format: &OutputFormat,
    prompt: Vec<u32>,
) -> Result<(Answer, Kept)> {
    interrupt::install()?;
    // A constraint holds from the first token of an answer on, so that none of it is a thought.
    let tail = if rules.is_constrained() { &[][..] } else { &prompt[prompt.len().saturating_sub(TAIL_TOKENS)..] };
    let spoken = Spoken::new(format, &model.file().tokenizer().decode(tail));
    let stream = model.answer(rules, prompt)?;
    let answer = interrupt::during(&stream.cancel_handle(), || print_pieces(stream, spoken));
    // What is printed after the answer, be it an error, starts on a new line. Nothing is printed if stdout is what
    // failed.
    let newline =
        if matches!(answer, Err(Error::OutputClosed | Error::Output(_))) { Ok(()) } else { output::stdout("\n") };
    let answer = answer?;
    newline.map(|()| answer)
}

fn print_pieces(stream: AnswerStream, mut spoken: Spoken) -> Result<(Answer, Kept)> {
    let mut bar = PromptBar::new();
    for event in stream {
        match event? {
            AnswerEvent::Prompt(progress) => bar.show(progress),
            AnswerEvent::Text(zinc_engine::TextPiece { text: piece, .. }) => {
                bar.clear();
                output::stdout(&spoken.push(&piece))?;
            }
            AnswerEvent::Ended(answer) => {
                output::stdout(&spoken.finish())?;
                return Ok((answer, spoken.kept()));
            }
            _ => {}
        }
    }
    Err(zinc_sched::Error::Stopped.into())
}

/// A progress bar over the tokens of a prompt that takes long. It is gone before the first piece of text is printed, and when it is dropped.
struct PromptBar {
    start: Instant,
    bar: Option<ProgressBar>,
}

impl PromptBar {
    /// How long a prompt takes before there is a bar.
    const DELAY: Duration = Duration::from_millis(500);

    fn new() -> Self {
        Self { start: Instant::now(), bar: None }
    }

    fn show(&mut self, progress: PromptProgress) {
        if self.bar.is_none() && self.start.elapsed() >= Self::DELAY {
            self.bar = Some(output::progress_steps(progress.tokens.into(), "reading the prompt"));
        }
        if let Some(bar) = &self.bar {
            bar.set_position(progress.done.into());
        }
    }

    fn clear(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }
}

impl Drop for PromptBar {
    fn drop(&mut self) {
        self.clear();
    }
}

/// Tells the user if a limit has cut an answer before its constraint was met, so that the text may not match the
/// constraint.
pub(crate) fn tell_of_cut(answer: &Answer, rules: &AnswerRules) {
    if rules.is_constrained() && matches!(answer.ending, Ending::Length | Ending::ContextFull) {
        let count = answer.completion.usage.completion_tokens;
        let limit = if answer.ending == Ending::Length { "-n" } else { "-c" };
        output::notice(&format!(
            "the answer was cut after {count} tokens, by {limit}, and may not match its constraint, which was not met yet"
        ));
    }
}

/// The two lines that are printed to stderr after an answer: numbers of tokens, times and rates of the prompt and of
/// the generation.
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
