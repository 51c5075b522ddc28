//! Flags of `zinc bench`, with llama-bench's names and defaults where llama-bench has them.

use std::path::PathBuf;
use std::time::Duration;

use clap::ValueEnum;
use zinc_sched::InflightDepth;

use crate::bench::arrivals::Arrivals;

use super::{
    Act, CacheTypeArgs, Device, DraftArgs, MatrixUnitArgs, QueueArgs, RopeArgs, UbatchArgs, depth, device,
    microseconds, milliseconds,
};

/// Flags of `zinc bench`.
#[derive(Debug, clap::Args)]
pub(crate) struct BenchArgs {
    /// The GGUF file; may be given several times; the demo model without it
    #[arg(short, long = "model", value_name = "FILE")]
    pub(crate) models: Vec<PathBuf>,
    /// Tokens of the prompts to be timed; 0 times none
    #[arg(short = 'p', long, value_name = "N,N,...", value_delimiter = ',', default_value = "512")]
    #[arg(default_value_if("sync_matrix", "true", "0"))]
    pub(crate) n_prompt: Vec<u32>,
    /// Tokens of the generations to be timed; 0 times none
    #[arg(short = 'n', long, value_name = "N,N,...", value_delimiter = ',', default_value = "128")]
    #[arg(default_value_if("sync_matrix", "true", "64"))]
    pub(crate) n_gen: Vec<u32>,
    /// Tokens of a prompt and of a generation behind it, to be timed together; may be given several times [-pg]
    #[arg(long, value_name = "N,N", value_parser = pair)]
    pub(crate) n_prompt_gen: Vec<(u32, u32)>,
    /// Generate so many sequences at once, and time all of them together [-npl]
    #[arg(long, value_name = "N,N,...", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=64))]
    #[arg(conflicts_with_all = ["sync_matrix", "sync", "control", "draft", "draft_ngram", "draft_mtp", "draft_replay", "n_prompt", "n_gen", "n_prompt_gen", "n_depth", "count", "host_work", "mask_work", "fill"])]
    pub(crate) npl: Vec<u32>,
    /// Tokens of each prompt with --npl [-npp]
    #[arg(long, value_name = "N,N,...", value_delimiter = ',', default_value = "128", requires = "npl")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) npp: Vec<u32>,
    /// Tokens that each sequence generates with --npl [-ntg]
    #[arg(long, value_name = "N,N,...", value_delimiter = ',', default_value = "128", requires = "npl")]
    #[arg(value_parser = clap::value_parser!(u32).range(2..))]
    pub(crate) ntg: Vec<u32>,
    /// Let requests arrive at random times with --npl, so many a second on average, and report how long their tokens take: poisson:RATE
    #[arg(long, value_name = "poisson:RATE", requires = "npl", conflicts_with = "profile", group = "requests")]
    pub(crate) arrivals: Option<Arrivals>,
    /// Let a prompt of so many tokens arrive when all sequences of --npl generate, and report its rate beside them, and how far apart their tokens are
    #[arg(long, value_name = "TOKENS", requires = "npl", conflicts_with = "profile", group = "requests")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) late_prompt: Option<u32>,
    /// Draw the run of --arrivals or --late-prompt, a row for each lane, into this file
    #[arg(long, value_name = "FILE.svg", requires = "requests")]
    pub(crate) trace: Option<PathBuf>,
    /// Tokens of context before what is timed
    #[arg(short = 'd', long, value_name = "N,N,...", value_delimiter = ',', default_value = "0")]
    pub(crate) n_depth: Vec<u32>,
    /// How the context before it is made
    #[arg(long, value_name = "HOW", value_enum, default_value_t = Fill::Real)]
    pub(crate) fill: Fill,
    /// Times that each test is repeated
    #[arg(short, long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    #[arg(default_value_if("sync_matrix", "true", "2"))]
    pub(crate) repetitions: u32,
    /// Do without the repetitions that come before and are not counted, one or as many as take a second
    #[arg(long)]
    pub(crate) no_warmup: bool,
    /// Time every way to follow the GPU, with each control and with 0, 250 and 500 us of host work, and compare them with the fence. Unless
    /// told otherwise, it times 64 generated tokens, twice
    #[arg(long, conflicts_with_all = ["sync", "depth", "control", "host_work", "draft", "draft_ngram", "draft_mtp"])]
    pub(crate) sync_matrix: bool,
    /// How the host follows the GPU; both is timeline and fence, and prints the ratio of the two as well
    #[arg(long, value_name = "HOW", value_enum, default_value_t = BenchSync::Timeline)]
    pub(crate) sync: BenchSync,
    /// Steps in flight with --sync timeline, 1 to 8
    #[arg(long, value_name = "N,N,...", value_delimiter = ',', default_value = "4", value_parser = depth)]
    pub(crate) depth: Vec<InflightDepth>,
    /// How tokens are chosen
    #[arg(long, value_name = "HOW", value_enum, default_value_t = BenchSampler::Greedy)]
    pub(crate) sampler: BenchSampler,
    /// Who chooses the tokens
    #[arg(long, value_name = "WHO", value_enum, default_value_t = BenchControl::Gpu)]
    pub(crate) control: BenchControl,
    /// Compute for this long for each mask of masked steps
    #[arg(long = "mask-us", value_name = "MICROSECONDS", default_value = "0", value_parser = microseconds)]
    pub(crate) mask_work: Duration,
    #[command(flatten)]
    pub(crate) queues: QueueArgs,
    #[command(flatten)]
    pub(crate) ubatch: UbatchArgs,
    /// Copies of the state of a model with gated delta nets or sliding windows that are kept while a prompt is read, as `zinc serve` does: with delta nets each cuts the prompt
    /// at its position. The context before a test has one of its own [-ctxcp]
    #[arg(long, visible_alias = "swa-checkpoints", value_name = "N", default_value_t = 0)]
    pub(crate) ctx_checkpoints: u32,
    /// Milliseconds between two tokens of a sequence, at most, while a prompt of another is read
    #[arg(long = "max-gap-ms", value_name = "N", default_value = "30", value_parser = milliseconds, requires = "npl")]
    pub(crate) max_gap: Duration,
    /// Tokens that the cache has room for, of all sequences of --npl together [default: as many as all of them may have]
    #[arg(long, value_name = "N", requires = "npl", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) cache_tokens: Option<u32>,
    #[command(flatten)]
    pub(crate) draft: DraftArgs,
    /// Draft what the test is known to generate, to measure what right drafts are worth. FILE has the ids of those tokens, with white space
    /// between; if there is no such file, the run without drafts writes it
    #[arg(long, value_name = "FILE", conflicts_with_all = ["draft", "draft_ngram", "sync_matrix"], help_heading = "Speculation")]
    pub(crate) draft_replay: Option<PathBuf>,
    /// Make so large a share of the replayed drafts right, and the others wrong. With --draft-mtp the model's block drafts beside, so that its time counts
    #[arg(long, value_name = "SHARE", default_value_t = 1.0, value_parser = share, requires = "draft_replay", help_heading = "Speculation")]
    pub(crate) draft_replay_rate: f64,
    #[command(flatten)]
    pub(crate) cache: CacheTypeArgs,
    #[command(flatten)]
    pub(crate) rope: RopeArgs,
    /// The device, by index or part of its name as `zinc devices` lists them [-dev]
    #[arg(long, value_name = "DEVICE", value_parser = device)]
    pub(crate) device: Option<Device>,
    /// Activations that quantised weights meet: integers of 14 bits with a scale for each 256 of them, or f32
    #[arg(long, value_name = "FORM", value_enum, default_value_t = Act::Q14)]
    pub(crate) act: Act,
    #[command(flatten)]
    pub(crate) units: MatrixUnitArgs,
    /// Keep the host busy for this long after every token (to measure what queueing ahead hides)
    #[arg(long = "host-work-us", value_name = "MICROSECONDS", default_value = "0", value_parser = microseconds)]
    pub(crate) host_work: Duration,
    /// Print the GPU time of each kind of operation as well, at each depth: of a generated token, and of a step of a prompt
    #[arg(long)]
    pub(crate) profile: bool,
    /// The form of the results
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value_t = TableFormat::Md)]
    pub(crate) output: TableFormat,
}

/// A share of a whole, from 0 to 1.
fn share(text: &str) -> Result<f64, String> {
    let share = text.parse::<f64>().ok().filter(|share| (0.0..=1.0).contains(share));
    share.ok_or_else(|| "must be a number from 0 to 1".to_owned())
}

impl BenchArgs {
    /// Whether the flags ask for drafts.
    pub(crate) fn is_drafted(&self) -> bool {
        self.draft.is_drafted() || self.draft_replay.is_some()
    }
}

/// How the context before a test is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Fill {
    /// Random tokens are run through the model
    Real,
    /// The cache is overwritten with pseudo-random numbers, which takes no time
    Synthetic,
}

/// How the host follows the GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum BenchSync {
    /// Steps queued ahead on one timeline semaphore
    Timeline,
    /// The baseline: each step is recorded, submitted and waited for with a fence before the next
    Fence,
    /// A fence as in the baseline, but with recordings that are made once and submitted again for every token
    FenceKept,
    /// The timeline, then the fence baseline
    Both,
}

/// Who chooses the tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum BenchControl {
    /// The GPU, which chooses among all tokens
    Gpu,
    /// The GPU, which chooses among the tokens that a mask from the host allows; the mask allows all, so that the
    /// tokens stay the same
    Masked,
    /// A sampler on the host, which reads the logits and takes the most likely token
    HostFed,
}

/// How tokens are chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum BenchSampler {
    /// The most likely one
    Greedy,
    /// As `zinc run` does without flags, with a fixed seed
    Default,
    /// With every stage of the sampler switched on, and a fixed seed
    All,
}

/// The form of the results.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum TableFormat {
    /// A Markdown table
    Md,
    /// Comma-separated values
    Csv,
    /// A JSON array
    Json,
    /// A JSON object a line
    Jsonl,
}

fn pair(text: &str) -> Result<(u32, u32), String> {
    let number = |text: &str| text.parse::<u32>().map_err(|error| format!("'{text}': {error}"));
    let Some((prompt, generated)) = text.split_once(',') else {
        return Err("must be two numbers with a comma between them".to_owned());
    };
    match (number(prompt)?, number(generated)?) {
        (0, _) | (_, 0) => Err("neither may be 0".to_owned()),
        pair => Ok(pair),
    }
}
