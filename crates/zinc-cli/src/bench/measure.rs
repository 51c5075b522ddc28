//! Runs tests: fills the context, repeats the work, and keeps the times that it took.
//!
//! The model is loaded once. Each [`Drive`], a way of driving the model, gets an engine of its own over the same
//! weights and the same cache. Before each repetition the cache is cut back to the depth of the test, so that the
//! context before the test is computed only once.

use std::fs;
use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{RngCore as _, SeedableRng as _};
use zinc_engine::ModelFile;
use zinc_kernels::step::{FeedShapes, StepShape};
use zinc_model::device::{DeviceModel, MOST_RANGE};
use zinc_model::plan::{Cost, Op, Sizes, StepPlan};
use zinc_model::tokenizer::{DecodeStream, Tokenizer};
use zinc_sched::adapter::{DraftSource, OpTimes, Queues, VulkanModel, VulkanOptions};
use zinc_sched::{
    Completion, Engine, EngineOptions, FnClock, KvCache, Outlet, Request, Sampling, SequenceStart, SpeculationMode,
    SpeculationStats, SpeculativeDecoding, StepKind, StepModel as _, Token, TraceSummary, Tracing,
};
use zinc_vk::host_now_ns;

use super::control::control;
use super::plan::{Drive, Test, Work};
use super::warm_up::WarmUp;
use crate::args::{self, BenchArgs, BenchSampler, Fill};
use crate::error::{Error, Result};
use crate::{output, text_file};

/// The seed of prompts and of sampling, so that each run of the program measures the same tokens.
const SEED: u64 = 0;

/// How many prompt tokens are computed between two updates of the progress bar.
const FILL_PART: u32 = 512;

/// A loaded model that is being measured.
pub(crate) struct Bench<'a> {
    model: Arc<DeviceModel>,
    feed_shapes: FeedShapes,
    draft_source: Option<DraftSource>,
    tokenizer: &'a Tokenizer,
    args: &'a BenchArgs,
    sampling: Sampling,
    /// The tokens whose keys and values the device's cache holds.
    kv: KvCache,
    /// The state behind these tokens, if the model has one and there are any.
    state: Vec<u8>,
    /// Random token ids. The prompt of every test is the beginning of this list.
    tokens: Vec<u32>,
}

/// The results of a test.
#[derive(Debug)]
pub(crate) struct Measurement {
    /// The time of each repetition, in nanoseconds.
    pub(crate) samples_ns: Vec<u64>,
    /// Time per token, in nanoseconds, that the engine's thread spent on everything except waiting for the device.
    pub(crate) host_ns: f64,
    /// Times by the device's clock, from a further run with timestamps; `None` if the device has none.
    pub(crate) seam: Option<SeamFigures>,
    pub(crate) dispatches: u32,
    pub(crate) barriers: u32,
    /// What the cost model says of the token in the middle of the test: bytes read and floating-point operations.
    pub(crate) cost: Cost,
    /// The FNV-1a hash of the bits of the last logits.
    pub(crate) logits: u64,
    /// Whether the last logits of every repetition were the same.
    pub(crate) reproducible: bool,
    /// On which queue steps sampled. A device with a single compute queue samples on that one, whatever was asked for.
    pub(crate) queues: Queues,
    /// Tokens of a prompt that were computed together.
    pub(crate) feed_rows: u32,
    /// The number of speculative steps and of the tokens that they sampled, over all counted repetitions.
    pub(crate) speculation_stats: SpeculationStats,
    /// The tokens of the last repetition.
    pub(crate) tokens: Vec<u32>,
}

/// How long the device works on a step and idles between steps, measured by the device's clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SeamFigures {
    /// The median time that the device works on a step, in nanoseconds.
    pub(crate) busy_ns: u64,
    /// Idle time between two steps, in nanoseconds: the median and the 99th percentile. `None` if there was only one step.
    pub(crate) gap_ns: Option<(u64, u64)>,
}

/// An operation of a step and its time.
#[derive(Debug)]
pub(crate) struct TimedOp {
    /// Kernel, format and shape.
    pub(crate) label: String,
    pub(crate) cost: Cost,
    /// Whether integer matrix units multiply for it.
    pub(crate) by_units: bool,
    /// Mean time in nanoseconds, with the barrier before it.
    pub(crate) ns: f64,
}

/// The times of a step's operations.
#[derive(Debug)]
pub(crate) struct TimedOps {
    /// The kind of the step.
    pub(crate) kind: StepKind,
    /// Its rows.
    pub(crate) rows: u32,
    /// The operations, in the order of the plan.
    pub(crate) ops: Vec<TimedOp>,
    /// Mean time of a barrier without an operation, in nanoseconds.
    pub(crate) empty_ns: f64,
    /// The times of the operations of each submission of the step, added up, in nanoseconds.
    pub(crate) submissions_ns: Vec<f64>,
}

impl<'a> Bench<'a> {
    /// A model with an empty cache, for tests that take up to `context` tokens.
    ///
    /// # Errors
    /// The tokenizer's error, if it cannot turn the default sequence breakers of DRY into tokens.
    pub(crate) fn new(
        model: DeviceModel,
        feed_shapes: FeedShapes,
        draft_source: Option<DraftSource>,
        file: &'a ModelFile,
        args: &'a BenchArgs,
        context: u32,
    ) -> Result<Self> {
        // There is one token more than the context holds, for the token that a generation begins with.
        let tokens = RandomTokens::new(model.model().config.n_vocab).take(context as usize + 1).collect();
        let mut sampling = sampling(args.sampler);
        file.set_breakers(&mut sampling, &args::DEFAULT_BREAKERS)?;
        Ok(Self {
            model: Arc::new(model),
            feed_shapes,
            draft_source,
            tokenizer: file.tokenizer(),
            args,
            sampling,
            kv: KvCache::new(),
            state: Vec::new(),
            tokens,
        })
    }

    /// Fills the cache with the keys and values of the first `depth` of the random token ids, or with random numbers if
    /// the user asked for a synthetic fill.
    ///
    /// # Errors
    /// An error of the device, or logits that are not finite.
    pub(crate) fn fill(&mut self, depth: u32) -> Result<()> {
        if self.args.fill == Fill::Synthetic {
            if depth > 0 {
                self.model.fill_cache(depth)?;
                self.state = self.driven(Drive::TIMELINE, Tracing::Off, StepShape::ONE)?.state(0, depth)?;
            }
            self.kv = KvCache::holding(&self.tokens[..depth as usize]);
            return Ok(());
        }
        if !self.state.is_empty() && (depth as usize) < self.kv.tokens().len() {
            // A state cannot go back.
            self.kv = KvCache::new();
        }
        let held = self.kv.reusable(&self.tokens);
        if depth > held {
            let progress = output::progress_steps(0, "filling the context");
            progress.set_length(depth.into());
            let mut engine =
                self.engine(self.driven(Drive::TIMELINE, Tracing::Off, self.feed_shapes.most())?, Drive::TIMELINE)?;
            // A state goes on from checkpoints only, and there may be none: such a model reads the whole context at once.
            let part_tokens = if self.model.state_bytes() > 0 { depth } else { FILL_PART };
            let mut end = held;
            while end < depth {
                end = (end + part_tokens).min(depth);
                let part = Test { work: Work::Prompt(end), depth: 0 };
                engine.run(&self.request(part, Drive::TIMELINE), &mut Vec::new())?;
                progress.set_position(end.into());
            }
            self.kv = engine.kv().clone();
            self.state = engine.model().state(0, depth)?;
            progress.finish_and_clear();
        }
        self.kv.keep(depth);
        Ok(())
    }

    /// Makes the drafts of later tests what a file says, or `generated` if there is no such file, which is then written.
    ///
    /// # Errors
    /// A file that cannot be read or written, or that has something else in it than ids of the vocabulary.
    pub(crate) fn replay(&mut self, path: &Path, generated: &[u32]) -> Result<()> {
        let tokens: Vec<u32> = if path.exists() {
            let content = |reason| Error::Content { path: path.to_owned(), reason };
            let vocabulary = self.model.model().config.n_vocab;
            let text = text_file::read(path)?;
            let parsed = text.split_whitespace().map(|word| match word.parse::<u32>() {
                Ok(id) if id < vocabulary => Ok(id),
                Ok(id) => Err(content(format!("token {id} is outside the vocabulary of {vocabulary}"))),
                Err(_) => Err(content(format!("'{word}' is no token id"))),
            });
            parsed.collect::<Result<_>>()?
        } else {
            let words: Vec<String> = generated.iter().map(u32::to_string).collect();
            fs::write(path, words.join(" ") + "\n").map_err(|source| Error::Write { path: path.to_owned(), source })?;
            generated.to_vec()
        };
        let tokens = with_errors(tokens, self.args.draft_replay_rate, self.model.model().config.n_vocab);
        let (mtp, max_drafts) = (self.args.draft.draft_mtp, self.args.draft.draft_max);
        self.draft_source = Some(DraftSource::Replay { tokens: tokens.into(), mtp, max_drafts });
        Ok(())
    }

    /// Runs a test. The cache must have been filled to its depth. The progress bar is labelled `what`.
    ///
    /// # Errors
    /// The errors of [`Self::fill`].
    pub(crate) fn measure(&self, test: Test, drive: Drive, what: String) -> Result<Measurement> {
        let mut engine = self.engine(self.driven(drive, Tracing::Off, self.feed_shape_of(test))?, drive)?;
        let request = self.request(test, drive);
        let mut warm_up = WarmUp::new(self.args.no_warmup);
        let (mut samples_ns, mut host_ns, mut hashes, mut tokens) = (Vec::new(), 0.0, Vec::new(), Vec::new());
        let mut speculation_stats = SpeculationStats::default();
        let progress = output::progress_steps(0, what);
        progress.set_length(self.args.repetitions.into());
        while samples_ns.len() < self.args.repetitions as usize {
            let counts = warm_up.is_over();
            engine.roll_back(test.depth);
            let waited_before = engine.model().counters().waited_ns;
            let mut reader = Reader::new(self.tokenizer);
            let start = host_now_ns();
            let completion = engine.run(&request, &mut reader)?;
            let elapsed = host_now_ns() - start;
            let waited = engine.model().counters().waited_ns - waited_before;
            tokens = reader.finish();
            if counts {
                samples_ns.push(elapsed);
                host_ns += elapsed.saturating_sub(waited) as f64;
                speculation_stats.add(completion.speculation_stats);
                hashes.push(fnv1a(&engine.model().last_logits()?));
                progress.inc(1);
            }
        }
        progress.finish_and_clear();
        let kind = match test.work {
            Work::Prompt(_) => StepKind::Feed,
            Work::Generate(_) | Work::Both(..) => StepKind::Decode,
        };
        let stats = engine.model().step_stats(kind)?;
        let cost = self.cost(engine.model(), test);
        let queues = engine.model().options().queues;
        drop(engine);
        let timed = f64::from(test.work.tokens()) * f64::from(self.args.repetitions);
        Ok(Measurement {
            host_ns: host_ns / timed,
            seam: self.trace(test, drive)?,
            dispatches: stats.dispatches,
            barriers: stats.barriers,
            cost,
            logits: *hashes.last().expect("there is at least one repetition"),
            reproducible: hashes.iter().all(|hash| *hash == hashes[0]),
            queues,
            feed_rows: self.feed_shapes.of_prompt(test.work.prompt()).rows(),
            speculation_stats,
            tokens,
            samples_ns,
        })
    }

    /// Times the operations of the steps of a test at a depth to which the cache must have been filled: of full steps of a prompt, by `feed_shape`, or of
    /// those that generate.
    ///
    /// # Errors
    /// The errors of [`Self::fill`], and an error if the device has no timestamps.
    pub(crate) fn profile(&self, test: Test, feed_shape: StepShape) -> Result<TimedOps> {
        let mut model = self.driven(Drive::TIMELINE, Tracing::Off, feed_shape)?;
        let (prompt, generated) = (test.work.prompt(), test.work.generated());
        // The last token of the prompt is not fed.
        let tokens = &self.tokens[..=(test.depth + prompt) as usize];
        let restored = self.put_state(&mut model)?.then_some(0);
        let start =
            SequenceStart { restored, ..SequenceStart::new(tokens, test.depth, generated.max(1), &self.sampling) };
        let kind = if prompt > 0 { StepKind::Feed } else { StepKind::Decode };
        let steps = if prompt > 0 { prompt / model.limits().feed_rows } else { generated };
        let OpTimes { plan, ops_ns, empty_ns } = model.profile(&[start], kind, steps)?;
        Ok(timed_ops(&self.model, kind, OpTimes { plan, ops_ns, empty_ns }, |shape| first_position(test, shape)))
    }

    /// Runs the test once more with timestamps around every step. They cost time, so this run is not among the repetitions.
    ///
    /// # Errors
    /// The errors of [`Self::fill`].
    pub(crate) fn trace(&self, test: Test, drive: Drive) -> Result<Option<SeamFigures>> {
        let driven = self.driven(drive, Tracing::On, self.feed_shape_of(test));
        let mut engine = driven.and_then(|driven| self.engine(driven, drive))?;
        engine.roll_back(test.depth);
        let request = self.request(test, drive).with_trace(Tracing::On);
        let Completion { trace, .. } = engine.run(&request, &mut Reader::new(self.tokenizer))?;
        let summary = TraceSummary::of(&trace.expect("a trace was asked for"));
        // A prompt's time is that of the steps that feed it, if there are any; one that samples alone is much shorter.
        let (seam, steps) = match test.work {
            Work::Prompt(_) => (summary.all, summary.prompt.gpu_step_ns.or(summary.all.gpu_step_ns)),
            Work::Both(..) => (summary.all, summary.all.gpu_step_ns),
            Work::Generate(_) => (summary.decode, summary.decode.gpu_step_ns),
        };
        let gap_ns = seam.idle_gap_ns.map(|gap| (gap.median, gap.p99));
        Ok(steps.map(|step| SeamFigures { busy_ns: step.median, gap_ns }))
    }

    /// The rows of a test's steps that feed a prompt: those of the loaded model, or as many as a shorter prompt takes.
    fn feed_shape_of(&self, test: Test) -> StepShape {
        let tokens = test.work.prompt();
        let most = self.feed_shapes.of_prompt(tokens);
        StepShape::feeding(tokens.clamp(1, most.rows()), most)
    }

    fn driven(&self, drive: Drive, stamps: Tracing, feed_shape: StepShape) -> Result<VulkanModel> {
        let options = VulkanOptions::new(drive.in_flight)
            .with_sync(drive.sync)
            .with_act(self.args.act.into())
            .with_stamps(stamps)
            .with_queues(drive.queues)
            // The context before a test has a checkpoint of its own, which is kept for good.
            .with_checkpoints(self.args.ctx_checkpoints.saturating_add(self.has_state().into()))
            .with_feed_shape(feed_shape)
            .with_draft_source(self.draft_source.clone().filter(|_| drive.speculative == SpeculativeDecoding::On));
        Ok(VulkanModel::new(self.model.clone(), options)?)
    }

    /// Whether there is a state behind the tokens of the cache.
    fn has_state(&self) -> bool {
        !self.state.is_empty() && !self.kv.tokens().is_empty()
    }

    /// Puts the state behind the tokens of the cache into the first slot of a model, if there is one, and returns whether there is.
    fn put_state(&self, driven: &mut VulkanModel) -> Result<bool> {
        if self.has_state() {
            driven.put_checkpoint(0, &self.state)?;
        }
        Ok(self.has_state())
    }

    /// Makes an engine over a driven model. The engine is told which tokens' keys and values the device's cache
    /// already holds.
    fn engine(&self, mut driven: VulkanModel, drive: Drive) -> Result<Engine<VulkanModel>> {
        let options = EngineOptions::default()
            .with_depth(drive.in_flight)
            .with_host_work(drive.host_work)
            .with_speculation(match drive.speculative {
                SpeculativeDecoding::Off => SpeculationMode::Off,
                SpeculativeDecoding::On => self.args.draft.speculation(),
            });
        let has_state = self.put_state(&mut driven)?;
        let engine = Engine::new(driven, FnClock(host_now_ns), options)?.with_cache(self.kv.clone());
        Ok(if has_state { engine.with_checkpoint() } else { engine })
    }

    /// The request of a test. It has no end-of-generation ids, so that no token ends it.
    fn request(&self, test: Test, drive: Drive) -> Request {
        // A request needs at least one prompt token that is not in the cache, so a generation test begins with one, at
        // position `depth`. A prompt test must sample one token, and its time ends with that token.
        let (prompt, generated) = match test.work {
            Work::Prompt(tokens) => (test.depth + tokens, 1),
            Work::Generate(tokens) => (test.depth + 1, tokens),
            // One token is sampled after the last prompt token, and one after each generated token but the last.
            Work::Both(prompt, generated) => (test.depth + prompt, generated + 1),
        };
        let mut request = Request::new(&self.tokens[..prompt as usize], []);
        request.max_tokens = Some(generated);
        request.sampling = self.sampling.clone();
        request.control = control(drive.control, self.args.mask_work);
        request
    }

    fn sizes(&self) -> Sizes<'_> {
        Sizes { config: &self.model.model().config, cache: self.model.cache() }
    }

    /// The cost of the token in the middle of a test; for a prompt with a generation, the mean of both kinds of tokens.
    fn cost(&self, model: &VulkanModel, test: Test) -> Cost {
        let (weights, sizes) = (&self.model.model().weights, self.sizes());
        // What a row has a share of.
        let of = |kind| -> Cost {
            let plan = model.plan(kind);
            let first = first_position(test, plan.shape);
            plan.ops.iter().map(|op| op.cost(weights, &sizes, first, plan.shape)).sum::<Cost>() / plan.shape.rows()
        };
        let (fed, decoded) = (of(StepKind::Feed), of(StepKind::Decode));
        let (prompt, generated) = (u64::from(test.work.prompt()), u64::from(test.work.generated()));
        let mean = |fed: u64, decoded: u64| (fed * prompt + decoded * generated) / (prompt + generated);
        Cost {
            weight_bytes: mean(fed.weight_bytes, decoded.weight_bytes),
            cache_bytes: mean(fed.cache_bytes, decoded.cache_bytes),
            flops: mean(fed.flops, decoded.flops),
        }
    }
}

/// Random token ids of a vocabulary, the same for each run of the program.
pub(crate) struct RandomTokens {
    random: Xoshiro256PlusPlus,
    vocabulary: u32,
}

impl RandomTokens {
    pub(crate) fn new(vocabulary: u32) -> Self {
        Self { random: Xoshiro256PlusPlus::seed_from_u64(SEED), vocabulary }
    }
}

impl Iterator for RandomTokens {
    type Item = u32;

    fn next(&mut self) -> Option<u32> {
        Some((self.random.next_u64() % u64::from(self.vocabulary)) as u32)
    }
}

/// What a profile has measured, with the cost of each operation for a step of a shape whose first row is at `first_position`.
pub(crate) fn timed_ops(
    model: &DeviceModel,
    kind: StepKind,
    OpTimes { plan, ops_ns, empty_ns }: OpTimes,
    first_position: impl Fn(StepShape) -> u32,
) -> TimedOps {
    let weights = &model.model().weights;
    let sizes = Sizes { config: &model.model().config, cache: model.cache() };
    let submissions_ns = submissions_ns(model, &plan, &ops_ns);
    let has_units = model.target().units_for(plan.shape).is_some();
    let experts_have_units = model.target().expert_units_for(plan.shape).is_some();
    let timed = |(op, ns): (&Op, f64)| TimedOp {
        label: op.label(weights),
        cost: op.cost(weights, &sizes, first_position(plan.shape), plan.shape),
        by_units: match op {
            Op::MatMul { .. } | Op::GateUpMul { experts: false, .. } => has_units,
            Op::GateUpMul { experts: true, .. } | Op::ExpertMul { .. } => experts_have_units,
            _ => false,
        },
        ns,
    };
    let ops = plan.ops.iter().zip(ops_ns).map(timed).collect();
    TimedOps { kind, rows: plan.shape.rows(), ops, empty_ns, submissions_ns }
}

/// The times of the operations of each range that a plan is submitted in, added up.
fn submissions_ns(model: &DeviceModel, plan: &StepPlan, ops_ns: &[f64]) -> Vec<f64> {
    let mut rest = ops_ns;
    let ranges = model.ranges(plan.clone(), MOST_RANGE).into_iter();
    let sum = |range: StepPlan| {
        // What cancels between two ranges is no operation of the whole plan.
        let (own, behind) = rest.split_at(range.ops.iter().filter(|op| **op != Op::Cancel).count());
        rest = behind;
        own.iter().sum()
    };
    ranges.map(sum).collect()
}

/// The position of the first row of a step in the middle of a test.
fn first_position(test: Test, shape: StepShape) -> u32 {
    test.depth + test.work.tokens().saturating_sub(shape.rows()) / 2
}

/// The sampling parameters of all tests.
pub(crate) fn sampling(sampler: BenchSampler) -> Sampling {
    let sampling = match sampler {
        BenchSampler::Greedy => Sampling::GREEDY,
        BenchSampler::Default => args::DEFAULTS,
        BenchSampler::All => args::every_stage(),
    };
    Sampling { seed: SEED, ..sampling }.normalized()
}

/// Turns each token into text and throws the text away, so that the measured time includes what a program that uses
/// zinc does.
struct Reader<'t> {
    stream: DecodeStream<&'t Tokenizer>,
    tokens: Vec<u32>,
}

impl<'t> Reader<'t> {
    fn new(tokenizer: &'t Tokenizer) -> Self {
        Self { stream: tokenizer.stream(), tokens: Vec::new() }
    }

    /// The tokens that were read.
    fn finish(mut self) -> Vec<u32> {
        black_box(self.stream.finish());
        self.tokens
    }
}

impl Outlet for Reader<'_> {
    fn tokens(&mut self, tokens: &[Token]) -> usize {
        for token in tokens {
            black_box(self.stream.push(token.id));
            self.tokens.push(token.id);
        }
        tokens.len()
    }
}

/// FNV-1a, 64 bits, of the values as little-endian bytes.
fn fnv1a(values: &[f32]) -> u64 {
    let bytes = values.iter().flat_map(|value| value.to_le_bytes());
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// Tokens of which a share of `rate` is as it was, and the others are wrong. Which ones are is spread at random, and the same every time.
fn with_errors(mut tokens: Vec<u32>, rate: f64, vocabulary: u32) -> Vec<u32> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    for token in &mut tokens {
        // Xorshift. (Marsaglia, 2003.)
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        if (state >> 11) as f64 / (1u64 << 53) as f64 >= rate {
            *token = (*token + 1) % vocabulary;
        }
    }
    tokens
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_of_replayed_tokens_is_right() {
        let tokens: Vec<u32> = (0..10_000).map(|token| token % 50).collect();
        for (rate, least, most) in [(0.0, 0, 0), (0.7, 6_850, 7_150), (1.0, 10_000, 10_000)] {
            let replayed = with_errors(tokens.clone(), rate, 50);
            let right = tokens.iter().zip(&replayed).filter(|(token, replayed)| token == replayed).count();
            assert!((least..=most).contains(&right), "{right} of 10,000 at {rate}");
            assert!(replayed.iter().all(|token| *token < 50));
        }
    }

    #[test]
    fn the_hash_is_fnv_1a() {
        assert_eq!(fnv1a(&[]), 0xcbf2_9ce4_8422_2325);
        // These hashes were computed with another program.
        assert_eq!(fnv1a(&[f32::from_le_bytes(*b"abcd")]), 0xfc17_9f83_ee07_24dd);
        assert_ne!(fnv1a(&[0.0]), fnv1a(&[-0.0]));
    }
}
