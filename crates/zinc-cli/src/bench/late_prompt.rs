//! A long prompt that arrives while other sequences generate: `zinc bench -npl N --late-prompt TOKENS`.
//!
//! What is measured is what the prompt costs its neighbours, which is the time between two of their tokens, and what these cost the prompt, which is its rate beside them
//! relative to its rate alone.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use zinc_sched::adapter::VulkanModel;
use zinc_sched::{Completion, Engine, Request, Sampling, SequenceId, Started, Tracing};
use zinc_vk::host_now_ns;

use super::measure::RandomTokens;
use super::parallel::{ParallelBench, ParallelTest, Reader, Readers, take_turn};
use super::spread::Spread;
use super::warm_up::WarmUp;
use crate::error::Result;
use crate::output;
use crate::trace::LaneTrace;

/// What the repetitions of a test took.
#[derive(Debug)]
pub(crate) struct LatePromptResult {
    /// The sequences that generate, and their prompts. Each generates until the late prompt is read.
    pub(crate) test: ParallelTest,
    pub(crate) max_gap: Duration,
    /// Tokens of the prompt that comes late.
    pub(crate) late_tokens: u32,
    /// The times from its arrival to its first token in nanoseconds, alone and beside the others, of each repetition.
    pub(crate) alone_ns: Vec<u64>,
    pub(crate) beside_ns: Vec<u64>,
    /// The times between two tokens of the others meanwhile, in nanoseconds.
    pub(crate) gaps_ns: Vec<u64>,
}

/// One run.
struct LateRun {
    first_token_ns: u64,
    gaps_ns: Vec<u64>,
    traces: Vec<LaneTrace>,
}

impl ParallelBench<'_> {
    /// Lets a prompt of so many tokens arrive beside the sequences of a test, which have begun to generate, and times it alone as well. With [`Tracing::On`] there is one
    /// repetition, whose sequences are returned, the late one last.
    ///
    /// # Errors
    /// An error of the device, or logits that are not finite.
    pub(crate) fn late_prompt(
        &self,
        test: ParallelTest,
        late_tokens: u32,
        trace: Tracing,
    ) -> Result<(LatePromptResult, Vec<LaneTrace>)> {
        let mut engine = self.engine(trace)?;
        let mut tokens = RandomTokens::new(self.model.model().config.n_vocab);
        let repetitions = if trace == Tracing::On { 1 } else { self.repetitions };
        let mut warm_up = WarmUp::new(self.no_warm_up || trace == Tracing::On);
        let mut result = LatePromptResult {
            test,
            max_gap: self.max_gap,
            late_tokens,
            alone_ns: Vec::new(),
            beside_ns: Vec::new(),
            gaps_ns: Vec::new(),
        };
        let mut traces = Vec::new();
        let progress = output::progress_steps(0, format!("{late_tokens} tokens beside {}", test.n_parallel));
        progress.set_length(repetitions.into());
        while result.beside_ns.len() < repetitions as usize {
            let counts = warm_up.is_over();
            let nobody = ParallelTest { n_parallel: 0, ..test };
            let alone = self.run_late(&mut engine, nobody, late_tokens, &mut tokens, Tracing::Off)?;
            let beside = self.run_late(&mut engine, test, late_tokens, &mut tokens, trace)?;
            if counts {
                result.alone_ns.push(alone.first_token_ns);
                result.beside_ns.push(beside.first_token_ns);
                result.gaps_ns.extend(beside.gaps_ns);
                traces = beside.traces;
                progress.inc(1);
            }
        }
        progress.finish_and_clear();
        Ok((result, traces))
    }

    fn run_late(
        &self,
        engine: &mut Engine<VulkanModel>,
        test: ParallelTest,
        late_tokens: u32,
        tokens: &mut RandomTokens,
        trace: Tracing,
    ) -> Result<LateRun> {
        let mut request = |seed: u32, prompt_tokens: u32, most: Option<u32>| {
            let prompt: Vec<u32> = tokens.by_ref().take(prompt_tokens as usize).collect();
            let sampling = Sampling { seed: seed.into(), ..self.sampling.clone() };
            Arc::new(Request::new(prompt, []).with_max_tokens(most).with_sampling(sampling).with_trace(trace))
        };
        let mut readers = Readers::default();
        let mut begun_ns = Vec::new();
        for number in 0..test.n_parallel {
            let reader = Reader::new(self.tokenizer, test.n_gen);
            begun_ns.push(host_now_ns());
            if let Started::Running(id) = engine.start(&request(number, test.n_prompt, None), &reader)? {
                readers.push((id, reader));
            }
        }
        let mut ended: Vec<(SequenceId, Completion)> = Vec::new();
        while readers.iter().any(|(_, reader)| reader.times_ns.len() < test.n_gen as usize) {
            take_turn(engine, &mut readers, &mut ended)?;
        }
        let late = request(test.n_parallel, late_tokens, Some(1));
        let reader = Reader::new(self.tokenizer, 1);
        let arrived_ns = host_now_ns();
        begun_ns.push(arrived_ns);
        if let Started::Running(id) = engine.start(&late, &reader)? {
            readers.push((id, reader));
        }
        while engine.running() > 0 {
            take_turn(engine, &mut readers, &mut ended)?;
            if readers.last().is_some_and(|(_, reader)| !reader.times_ns.is_empty()) {
                readers.iter_mut().for_each(|(_, reader)| reader.is_gone = true);
            }
        }
        let (others, late) = readers.split_at(test.n_parallel as usize);
        let first_ns = late.iter().find_map(|(_, reader)| reader.times_ns.first());
        let first_ns = *first_ns.expect("a request for a token runs until it has one");
        let pairs = others.iter().flat_map(|(_, reader)| reader.times_ns.windows(2));
        let meanwhile = pairs.filter(|pair| pair[1] > arrived_ns && pair[0] < first_ns);
        let gaps_ns = meanwhile.map(|pair| pair[1] - pair[0]).collect();
        let ids: Vec<SequenceId> = readers.iter().map(|(id, _)| *id).collect();
        let traces = ended.into_iter().filter_map(|(id, completion)| {
            let number = ids.iter().position(|own| *own == id)?;
            Some(LaneTrace::new(number, begun_ns[number], completion.trace?))
        });
        Ok(LateRun { first_token_ns: first_ns - arrived_ns, gaps_ns, traces: traces.collect() })
    }
}

/// The mean of some times, in seconds.
fn mean_s(times_ns: &[u64]) -> f64 {
    times_ns.iter().map(|ns| *ns as f64 / 1e9).sum::<f64>() / times_ns.len().max(1) as f64
}

impl LatePromptResult {
    /// Prompt tokens a second, alone and beside the others.
    fn rates(&self) -> [f64; 2] {
        [&self.alone_ns, &self.beside_ns].map(|times_ns| f64::from(self.late_tokens) / mean_s(times_ns).max(1e-9))
    }

    fn gaps(&self) -> Option<Spread> {
        Spread::of(self.gaps_ns.iter().copied())
    }

    /// The keys of llama-batched-bench, where it has such.
    pub(crate) fn json(&self, model: &str, device: &str) -> Value {
        let [alone, beside] = self.rates();
        self.test.with_json(
            model,
            device,
            json!({
                "n_late_prompt": self.late_tokens,
                "max_gap_ms": self.max_gap.as_secs_f64() * 1e3,
                "alone_prompt_ts": alone,
                "beside_prompt_ts": beside,
                "alone_first_token_ms": mean_s(&self.alone_ns) * 1e3,
                "beside_first_token_ms": mean_s(&self.beside_ns) * 1e3,
                "gaps": Spread::json(self.gaps()),
            }),
        )
    }

    /// The head of a Markdown table of results.
    pub(crate) const MARKDOWN_HEAD: &'static str = "\
| n_parallel |    npp |    ntg | late prompt | alone t/s | beside t/s | beside % | max gap ms | gap ms: median |      p95 |      max |
| ---------: | -----: | -----: | ----------: | --------: | ---------: | -------: | ---------: | -------------: | -------: | -------: |
";

    /// A line of a Markdown table.
    pub(crate) fn markdown(&self) -> String {
        let ParallelTest { n_parallel, n_prompt, n_gen } = self.test;
        let [alone, beside] = self.rates();
        let [gap, gap_95, gap_max] = Spread::cells(self.gaps());
        let (late, percent, limit_ms) = (self.late_tokens, beside / alone * 100.0, self.max_gap.as_secs_f64() * 1e3);
        format!(
            "| {n_parallel:>10} | {n_prompt:>6} | {n_gen:>6} | {late:>11} | {alone:>9.1} | {beside:>10.1} | {percent:>8.1} | {limit_ms:>10.1} | \
             {gap:>14} | {gap_95:>8} | {gap_max:>8} |\n"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_compares_the_rates() {
        let result = LatePromptResult {
            test: ParallelTest { n_parallel: 8, n_prompt: 3, n_gen: 4 },
            max_gap: Duration::from_millis(30),
            late_tokens: 100,
            alone_ns: vec![400_000_000, 600_000_000],
            beside_ns: vec![1_000_000_000],
            gaps_ns: vec![3_000_000, 31_000_000],
        };
        let json = result.json("m", "d");
        assert_eq!((&json["alone_prompt_ts"], &json["beside_prompt_ts"]), (&json!(200.0), &json!(100.0)));
        assert_eq!(json["gaps"], json!({ "median_ms": 3.0, "p95_ms": 31.0, "max_ms": 31.0 }));
        let line = result.markdown();
        assert!(line.contains("|     50.0 |"), "{line}");
        let columns = |line: &str| line.matches('|').count();
        assert_eq!(columns(&line), columns(LatePromptResult::MARKDOWN_HEAD.lines().next().unwrap()));
    }
}
