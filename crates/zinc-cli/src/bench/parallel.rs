//! Several sequences at once: `zinc bench -npl`, with the names of llama-batched-bench.
//!
//! All sequences of a test are started together, and short prompts are read together. Longer ones are read while those before them generate already. What is timed
//! is the time in which all of them generate: from the first token of the last one to the last token of the first one that ends; and when each has its first token.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use zinc_engine::longest_range;
use zinc_kernels::step::FeedShapes;
use zinc_model::device::DeviceModel;
use zinc_model::tokenizer::{DecodeStream, Tokenizer};
use zinc_sched::adapter::{VulkanModel, VulkanOptions};
use zinc_sched::{
    Completion, Engine, EngineOptions, FnClock, InflightDepth, Outlet, Quantiles, Request, Sampling, SequenceId,
    SequenceStart, Started, StepKind, StepModel as _, Token, Trace, TraceSummary, Tracing,
};
use zinc_vk::host_now_ns;

use super::measure::{RandomTokens, TimedOps, timed_ops};
use super::profile::PROFILE_STEPS;
use super::report::Statistics;
use super::spread::Spread;
use super::warm_up::WarmUp;
use crate::error::Result;
use crate::output;

/// A test: how many sequences, and how long they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ParallelTest {
    /// Sequences at once.
    pub(crate) n_parallel: u32,
    /// Tokens of each prompt.
    pub(crate) n_prompt: u32,
    /// Tokens that each sequence generates.
    pub(crate) n_gen: u32,
}

impl ParallelTest {
    /// A JSON object of what was tested, on which model and device, and of a result, which is an object itself.
    pub(super) fn with_json(self, model: &str, device: &str, result: Value) -> Value {
        let Self { n_parallel, n_prompt, n_gen } = self;
        let mut object = json!({
            "model_filename": model,
            "gpu_info": device,
            "n_parallel": n_parallel,
            "n_prompt": n_prompt,
            "n_gen": n_gen,
        });
        if let (Value::Object(object), Value::Object(result)) = (&mut object, result) {
            object.extend(result);
        }
        object
    }
}

/// What a test of several sequences took.
#[derive(Debug)]
pub(crate) struct ParallelResult {
    pub(crate) test: ParallelTest,
    /// Tokens a second of all sequences together while all of them generate, of each repetition; `None` where one ended before the last began.
    pub(crate) samples_ts: Vec<Option<f64>>,
    /// Prompt tokens a second of all prompts, of each repetition: until the last sequence has its first token.
    pub(crate) prompt_ts: Vec<f64>,
    /// The times until the sequences have their first tokens, of all sequences and repetitions.
    pub(crate) first_tokens: Option<Spread>,
    /// The longest time between two tokens of a sequence while all of them generate, in nanoseconds; `None` if they never do.
    pub(crate) largest_gap_ns: Option<u64>,
    /// The longest time that there is to be between two tokens of a sequence while prompts of others are read.
    pub(crate) max_gap: Duration,
    /// What the device has said of its steps; `None` if it has no timestamps.
    pub(crate) steps: Option<DeviceSteps>,
}

/// What a device says of the steps of a test.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DeviceSteps {
    /// The median time that it works on a step that generates, in nanoseconds.
    pub(crate) median_ns: u64,
    /// What it idles between two of them, in nanoseconds.
    gaps_ns: Quantiles,
    /// The mean number of prompt tokens of a step that reads prompts; `None` if there were none.
    prompt_rows: Option<f64>,
}

/// A loaded model of several lanes that is being measured.
pub(crate) struct ParallelBench<'a> {
    pub(crate) model: Arc<DeviceModel>,
    pub(crate) feed_shapes: FeedShapes,
    pub(crate) tokenizer: &'a Tokenizer,
    pub(crate) sampling: Sampling,
    pub(crate) depth: InflightDepth,
    pub(crate) max_gap: Duration,
    /// How many checkpoints of states are kept.
    pub(crate) checkpoints: u32,
    pub(crate) repetitions: u32,
    /// Whether the first repetition counts.
    pub(crate) no_warm_up: bool,
}

/// What one run of a test took.
pub(super) struct Run {
    /// `None` if a sequence ended before the last began.
    together_ts: Option<f64>,
    prompt_ts: f64,
    largest_gap_ns: Option<u64>,
    /// The time until each sequence has its first token, in nanoseconds.
    first_tokens_ns: Vec<u64>,
    /// The outcomes of all sequences, that of the one whose first token came last at the end.
    completions: Vec<Completion>,
}

impl ParallelBench<'_> {
    /// Runs a test.
    ///
    /// # Errors
    /// An error of the device, or logits that are not finite.
    pub(crate) fn measure(&self, test: ParallelTest) -> Result<ParallelResult> {
        let ParallelTest { n_parallel, n_prompt, n_gen } = test;
        let mut engine = self.engine(Tracing::Off)?;
        let progress = output::progress_steps(0, format!("{n_parallel} x {n_prompt} + {n_gen}"));
        progress.set_length(self.repetitions.into());
        let mut warm_up = WarmUp::new(self.no_warm_up);
        let mut tokens = RandomTokens::new(self.model.model().config.n_vocab);
        let (mut samples_ts, mut prompt_ts, mut largest_gap_ns) = (Vec::new(), Vec::new(), None);
        let mut first_tokens_ns = Vec::new();
        while samples_ts.len() < self.repetitions as usize {
            let counts = warm_up.is_over();
            let run = self.run(&mut engine, test, &mut tokens, Tracing::Off)?;
            if counts {
                samples_ts.push(run.together_ts);
                prompt_ts.push(run.prompt_ts);
                largest_gap_ns = largest_gap_ns.max(run.largest_gap_ns);
                first_tokens_ns.extend(run.first_tokens_ns);
                progress.inc(1);
            }
        }
        drop(engine);
        progress.finish_and_clear();
        if samples_ts.contains(&None) {
            output::notice(&format!(
                "a sequence of {n_gen} tokens ended before the last of {n_parallel} began, so that their rate together is not known: give -ntg more tokens, or -npp fewer"
            ));
        }
        let (first_tokens, steps) = (Spread::of(first_tokens_ns.into_iter()), self.steps(test, &mut tokens)?);
        Ok(ParallelResult { test, samples_ts, prompt_ts, first_tokens, largest_gap_ns, max_gap: self.max_gap, steps })
    }

    /// Runs the test once more with timestamps around every step.
    fn steps(&self, test: ParallelTest, tokens: &mut RandomTokens) -> Result<Option<DeviceSteps>> {
        let mut engine = self.engine(Tracing::On)?;
        let run = self.run(&mut engine, test, tokens, Tracing::On)?;
        let traces: Vec<&Trace> = run.completions.iter().filter_map(|completion| completion.trace.as_ref()).collect();
        let decode = TraceSummary::of(traces.last().expect("traces were asked for")).decode;
        let prompt_rows = prompt_rows(&traces);
        let times = decode.gpu_step_ns.zip(decode.idle_gap_ns);
        Ok(times.map(|(step, gaps_ns)| DeviceSteps { median_ns: step.median, gaps_ns, prompt_rows }))
    }

    /// Times the operations of the steps of a test, one by one: of steps that generate a token of each sequence.
    ///
    /// # Errors
    /// An error of the device, and an error if it has no timestamps.
    pub(crate) fn profile(&self, test: ParallelTest) -> Result<TimedOps> {
        let ParallelTest { n_parallel, n_prompt, n_gen } = test;
        let options = VulkanOptions::new(self.depth).with_feed_shapes(self.feed_shapes);
        let mut model = VulkanModel::new(self.model.clone(), options)?;
        let limits = model.limits();
        let depth = n_prompt - 1;
        // What the cache holds does not matter here, as long as it is finite.
        self.model.fill_cache(depth)?;
        let has_state = depth > 0 && limits.checkpoints.is_some();
        if has_state {
            let state = model.state(0, depth)?;
            model.put_checkpoint(0, &state)?;
        }
        let mut tokens = RandomTokens::new(self.model.model().config.n_vocab);
        let prompts: Vec<Vec<u32>> =
            (0..n_parallel).map(|_| tokens.by_ref().take(n_prompt as usize).collect()).collect();
        let pages: Vec<Vec<u32>> = (0..n_parallel)
            .map(|lane| limits.pages.map_or(Vec::new(), |pool| pool.equal_part(lane, limits.lanes)))
            .collect();
        let starts: Vec<SequenceStart<'_>> = (0..n_parallel)
            .zip(prompts.iter().zip(&pages))
            .map(|(lane, (prompt, pages))| SequenceStart {
                lane,
                pages,
                restored: has_state.then_some(0),
                ..SequenceStart::new(prompt, depth, n_gen, &self.sampling)
            })
            .collect();
        let times = model.profile(&starts, StepKind::Decode, PROFILE_STEPS.min(n_gen))?;
        Ok(timed_ops(&self.model, StepKind::Decode, times, |_| depth))
    }

    pub(super) fn engine(&self, stamps: Tracing) -> Result<Engine<VulkanModel>> {
        let options = VulkanOptions::new(self.depth)
            .with_feed_shapes(self.feed_shapes)
            .with_longest_range(longest_range(self.max_gap))
            .with_checkpoints(self.checkpoints)
            .with_stamps(stamps);
        let driven = VulkanModel::new(self.model.clone(), options)?;
        let options = EngineOptions::default().with_depth(self.depth).with_max_gap(self.max_gap);
        Ok(Engine::new(driven, FnClock(host_now_ns), options)?)
    }

    pub(super) fn run(
        &self,
        engine: &mut Engine<VulkanModel>,
        test: ParallelTest,
        tokens: &mut RandomTokens,
        trace: Tracing,
    ) -> Result<Run> {
        let ParallelTest { n_parallel, n_prompt, n_gen } = test;
        let mut readers = Readers::default();
        let start_ns = host_now_ns();
        for number in 0..n_parallel {
            let prompt: Vec<u32> = tokens.by_ref().take(n_prompt as usize).collect();
            let sampling = Sampling { seed: u64::from(number), ..self.sampling.clone() };
            let request = Request::new(prompt, []).with_max_tokens(n_gen).with_sampling(sampling).with_trace(trace);
            let reader = Reader::new(self.tokenizer, n_gen);
            if let Started::Running(id) = engine.start(&Arc::new(request), &reader)? {
                readers.push((id, reader));
            }
        }
        let mut completions = Vec::new();
        while engine.running() > 0 {
            take_turn(engine, &mut readers, &mut completions)?;
        }
        let times = || readers.iter().map(|(_, reader)| &reader.times_ns[..]);
        let firsts = times().filter_map(<[u64]>::first);
        let all_generate_ns = firsts.max().copied().unwrap_or(start_ns);
        let one_ends_ns = times().filter_map(<[u64]>::last).min().copied().unwrap_or(start_ns);
        let within = |ns: &u64| *ns > all_generate_ns && *ns <= one_ends_ns;
        let counted = times().flatten().filter(|ns| within(ns)).count();
        let gaps =
            times().flat_map(|times| times.windows(2)).filter(|pair| within(&pair[1]) && pair[0] >= all_generate_ns);
        let largest_gap_ns = gaps.map(|pair| pair[1] - pair[0]).max();
        let seconds = |from: u64, to: u64| to.saturating_sub(from).max(1) as f64 / 1e9;
        let latest = readers.iter().max_by_key(|(_, reader)| reader.times_ns.first()).map(|(id, _)| *id);
        completions.sort_by_key(|(ended, _)| Some(*ended) == latest);
        Ok(Run {
            together_ts: (counted > 0).then(|| counted as f64 / seconds(all_generate_ns, one_ends_ns)),
            prompt_ts: f64::from(n_parallel * n_prompt) / seconds(start_ns, all_generate_ns),
            largest_gap_ns,
            first_tokens_ns: times().filter_map(<[u64]>::first).map(|ns| ns.saturating_sub(start_ns)).collect(),
            completions: completions.into_iter().map(|(_, completion)| completion).collect(),
        })
    }
}

/// The mean number of rows of the steps that fed the sequences of these traces, each step counted once, however many share it; `None` if there were none.
fn prompt_rows(traces: &[&Trace]) -> Option<f64> {
    let fed = traces.iter().flat_map(|trace| &trace.steps).filter(|step| step.kind.feeds());
    // No two steps are submitted at the same time.
    let steps: BTreeMap<u64, u32> = fed.map(|step| (step.timing.submitted_at_ns, step.rows)).collect();
    let rows: u64 = steps.values().map(|rows| u64::from(*rows)).sum();
    (!steps.is_empty()).then(|| rows as f64 / steps.len() as f64)
}

/// Takes the sequences a turn further, and adds those that have ended.
pub(super) fn take_turn(
    engine: &mut Engine<VulkanModel>,
    readers: &mut Readers<'_>,
    ended: &mut Vec<(SequenceId, Completion)>,
) -> Result<()> {
    for of in engine.turn(readers)? {
        ended.push((of.sequence, of.result?));
    }
    Ok(())
}

impl ParallelResult {
    /// The rate of all sequences together, of the repetitions in which it is known; `None` if there are none.
    fn together(&self) -> Option<Statistics> {
        let known: Vec<f64> = self.samples_ts.iter().copied().flatten().collect();
        (!known.is_empty()).then(|| Statistics::of(&known))
    }

    /// The keys of llama-bench and llama-batched-bench, where they have such.
    pub(crate) fn json(&self, model: &str, device: &str) -> Value {
        let together = self.together();
        self.test.with_json(
            model,
            device,
            json!({
                "avg_ts": together.map(|together| together.mean),
                "stddev_ts": together.map(|together| together.deviation),
                "samples_ts": self.samples_ts,
                "avg_ts_each": together.map(|together| together.mean / f64::from(self.test.n_parallel)),
                "avg_prompt_ts": Statistics::of(&self.prompt_ts).mean,
                "first_token": Spread::json(self.first_tokens),
                "prompt_step_rows": self.steps.and_then(|steps| steps.prompt_rows),
                "max_gap_ms": self.max_gap.as_secs_f64() * 1e3,
                "largest_gap_ms": self.largest_gap_ns.map(|ns| ns as f64 / 1e6),
                "gpu_step_us": self.steps.map(|steps| steps.median_ns as f64 / 1e3),
                "gpu_gap_us": self.steps.map(|steps| steps.gaps_ns.median as f64 / 1e3),
                "gpu_gap_p99_us": self.steps.map(|steps| steps.gaps_ns.p99 as f64 / 1e3),
            }),
        )
    }

    /// The head of a Markdown table of results.
    pub(crate) const MARKDOWN_HEAD: &'static str = "\
| n_parallel |    npp |    ntg |  prompts t/s | first token ms: median |      max | rows/prompt step |       together t/s | each t/s | largest gap ms | GPU us | gap us | gap p99 |
| ---------: | -----: | -----: | -----------: | ---------------------: | -------: | ---------------: | -----------------: | -------: | -------------: | -----: | -----: | ------: |
";

    /// A line of a Markdown table.
    pub(crate) fn markdown(&self) -> String {
        let ParallelTest { n_parallel, n_prompt, n_gen } = self.test;
        let prompts = Statistics::of(&self.prompt_ts).mean;
        let unknown = || "-".to_owned();
        let (together_text, each) = self.together().map_or((unknown(), unknown()), |Statistics { mean, deviation }| {
            (format!("{mean:.2} ± {deviation:.2}"), format!("{:.2}", mean / f64::from(n_parallel)))
        });
        let gap_ms = self.largest_gap_ns.map_or(unknown(), |ns| format!("{:.2}", ns as f64 / 1e6));
        let microseconds = |ns: Option<u64>| ns.map_or(unknown(), |ns| format!("{:.1}", ns as f64 / 1e3));
        let [step, gap, p99] = [
            microseconds(self.steps.map(|steps| steps.median_ns)),
            microseconds(self.steps.map(|steps| steps.gaps_ns.median)),
            microseconds(self.steps.map(|steps| steps.gaps_ns.p99)),
        ];
        let [first, _, last] = Spread::cells(self.first_tokens);
        let rows = self.steps.and_then(|steps| steps.prompt_rows).map_or("-".to_owned(), |rows| format!("{rows:.1}"));
        format!(
            "| {n_parallel:>10} | {n_prompt:>6} | {n_gen:>6} | {prompts:>12.2} | {first:>22} | {last:>8} | {rows:>16} | \
             {together_text:>18} | {each:>8} | \
             {gap_ms:>14} | {step:>6} | {gap:>6} | {p99:>7} |\n"
        )
    }
}

/// Turns the tokens of a sequence into text, as a program does that uses zinc, and notes when they came.
pub(super) struct Reader<'t> {
    stream: DecodeStream<&'t Tokenizer>,
    pub(super) times_ns: Vec<u64>,
    /// Whether it wants no more, so that its sequence is cancelled.
    pub(super) is_gone: bool,
}

impl<'t> Reader<'t> {
    /// A reader of at most so many tokens.
    pub(super) fn new(tokenizer: &'t Tokenizer, most: u32) -> Self {
        Self { stream: tokenizer.stream(), times_ns: Vec::with_capacity(most as usize), is_gone: false }
    }
}

impl Outlet for Reader<'_> {
    fn tokens(&mut self, tokens: &[Token]) -> usize {
        for token in tokens {
            black_box(self.stream.push(token.id));
            self.times_ns.push(host_now_ns());
        }
        tokens.len()
    }

    fn cancelled(&self) -> bool {
        self.is_gone
    }
}

/// The readers of all sequences of a test.
pub(super) type Readers<'t> = Vec<(SequenceId, Reader<'t>)>;

#[cfg(test)]
mod tests {
    use super::*;

    fn result(samples_ts: &[Option<f64>], largest_gap_ns: Option<u64>) -> ParallelResult {
        ParallelResult {
            test: ParallelTest { n_parallel: 4, n_prompt: 3, n_gen: 2 },
            samples_ts: samples_ts.to_vec(),
            prompt_ts: vec![7.0; samples_ts.len()],
            first_tokens: None,
            largest_gap_ns,
            max_gap: Duration::from_millis(30),
            steps: None,
        }
    }

    fn cells(result: &ParallelResult) -> Vec<String> {
        result.markdown().split('|').map(|cell| cell.trim().to_owned()).collect()
    }

    #[test]
    fn what_is_not_known_is_no_number() {
        let unknown = result(&[None, None], None);
        assert_eq!(cells(&unknown)[4..], ["7.00", "-", "-", "-", "-", "-", "-", "-", "-", "-", ""]);
        let json = unknown.json("m", "d");
        for key in ["avg_ts", "stddev_ts", "avg_ts_each", "largest_gap_ms", "gpu_step_us"] {
            assert_eq!(json[key], Value::Null, "{key}");
        }
        assert_eq!(json["samples_ts"], json!([null, null]));
    }

    #[test]
    fn what_is_known_counts() {
        let known = result(&[None, Some(8.0), Some(12.0)], Some(2_500_000));
        assert_eq!(cells(&known)[8..11], ["10.00 ± 2.83", "2.50", "2.50"]);
        let json = known.json("m", "d");
        assert_eq!((&json["avg_ts"], &json["avg_ts_each"]), (&json!(10.0), &json!(2.5)));
        assert_eq!((&json["samples_ts"], &json["largest_gap_ms"]), (&json!([null, 8.0, 12.0]), &json!(2.5)));
        assert_eq!(cells(&known).len(), ParallelResult::MARKDOWN_HEAD.lines().next().unwrap().split('|').count());
    }
}
