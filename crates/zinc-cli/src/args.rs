//! The command line: every command and flag, with llama.cpp's names and defaults where llama.cpp has them.
//!
//! What llama.cpp spells otherwise than clap can read is rewritten first, and flags of llama.cpp that mean nothing here are taken out; see
//! [`rewrite`]. Of a flag that is given several times the last one counts, as in llama.cpp, unless the flag collects its values.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{CommandFactory as _, Parser, Subcommand, ValueEnum};

use crate::error::Result;
use crate::synth::{Mix, Preset};

mod bench;
mod constraint;
mod doctor;
mod engine;
mod foreign;
mod rewrite;
mod rope;
mod sampling;
mod serve;
mod speculation;
mod text;
mod trace;

pub(crate) use bench::{BenchArgs, BenchControl, BenchSampler, BenchSync, Fill, TableFormat};
pub(crate) use constraint::ConstraintArgs;
pub(crate) use doctor::DoctorArgs;
pub(crate) use engine::{
    Act, CacheArgs, CacheType, CacheTypeArgs, Device, DeviceArgs, EngineArgs, MatrixUnitArgs, MatrixUnits, QueueArgs,
    UbatchArgs,
};
use engine::{depth, device};
pub(crate) use rope::RopeArgs;
pub(crate) use sampling::{DEFAULT_BREAKERS, DEFAULTS, SamplingArgs, Seed, every_stage};
pub(crate) use serve::{ListenArgs, ServeArgs};
pub(crate) use speculation::DraftArgs;
pub(crate) use text::{ChatTemplateArgs, TemplateSourceArgs, TextArgs};
pub(crate) use trace::TraceArgs;

/// A command line that was understood.
#[derive(Debug)]
pub(crate) struct Parsed {
    /// What to do.
    pub(crate) command: Command,
    /// Whether to show what the libraries log.
    pub(crate) verbose: bool,
    /// What the user is told of flags that were left out, a line each.
    pub(crate) notes: Vec<String>,
}

/// Parses the arguments of the process, the program's name first.
///
/// # Errors
/// [`Error::Usage`] for arguments that are not understood, [`Error::Help`] where help or the version was asked for.
pub(crate) fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<Parsed> {
    let mut definition = Arguments::command();
    definition.build();
    let rewritten = rewrite::rewrite(&definition, arguments)?;
    let Arguments { command, verbose } = Arguments::try_parse_from(rewritten.arguments)?;
    Ok(Parsed { command, verbose, notes: rewritten.notes })
}

/// The command line as clap reads it.
#[derive(Debug, Parser)]
#[command(name = "zinc", version, about = "Runs language models in GGUF files on a Vulkan GPU.", max_term_width = 120)]
#[command(args_override_self = true)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
    /// Show on stderr what the program does inside
    #[arg(short, long, global = true)]
    verbose: bool,
}

/// What zinc can be asked to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Answer one prompt.
    Run(RunArgs),
    /// Hold a conversation.
    Chat(ChatArgs),
    /// Serve a model over HTTP, to editors, agents and chat pages.
    Serve(ServeArgs),
    /// List the Vulkan devices.
    Devices(DevicesArgs),
    /// Show what is in a GGUF file and what running it takes.
    Inspect(InspectArgs),
    /// Compute the logits of given token ids, to compare engines.
    Logits(LogitsArgs),
    /// Turn text into token ids.
    Tokenize(TokenizeArgs),
    /// Render a conversation with the model's chat template.
    Template(TemplateArgs),
    /// Measure how fast models run.
    Bench(BenchArgs),
    /// Measure the device and what it costs to keep it busy, and say what zinc makes of it.
    Doctor(DoctorArgs),
    /// Draw what `zinc run --trace` has recorded: host and GPU, and the gaps between the steps.
    Trace(TraceArgs),
    /// Write a model file with random weights, to measure with.
    Synth(SynthArgs),
    /// Write a completion script for a shell.
    Completions(CompletionsArgs),
}

/// Flags of `zinc run`.
#[derive(Debug, clap::Args)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    pub(crate) model: ModelArgs,
    #[command(flatten)]
    pub(crate) text: TextArgs,
    /// Continue the text itself: no chat template, and control tokens in the text count as such
    #[arg(long)]
    pub(crate) raw: bool,
    #[command(flatten)]
    pub(crate) chat: ChatTemplateArgs,
    #[command(flatten)]
    pub(crate) generation: GenerationArgs,
    #[command(flatten)]
    pub(crate) engine: EngineArgs,
    #[command(flatten)]
    pub(crate) measure: MeasureArgs,
}

/// Flags of `zinc chat`.
#[derive(Debug, clap::Args)]
pub(crate) struct ChatArgs {
    #[command(flatten)]
    pub(crate) model: ModelArgs,
    #[command(flatten)]
    pub(crate) chat: ChatTemplateArgs,
    /// Read plain lines, without editing, where stdin is a terminal
    #[arg(long)]
    pub(crate) simple_io: bool,
    #[command(flatten)]
    pub(crate) generation: GenerationArgs,
    #[command(flatten)]
    pub(crate) engine: EngineArgs,
}

/// Flags of `zinc devices`.
#[derive(Debug, clap::Args)]
pub(crate) struct DevicesArgs {
    #[command(flatten)]
    pub(crate) format: FormatArgs,
}

/// Flags of `zinc inspect`.
#[derive(Debug, clap::Args)]
pub(crate) struct InspectArgs {
    /// The GGUF file; the demo model without it
    #[arg(value_name = "FILE", conflicts_with = "model")]
    pub(crate) file: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) model: ModelArgs,
    #[command(flatten)]
    pub(crate) cache: CacheArgs,
    #[command(flatten)]
    pub(crate) rope: RopeArgs,
    #[command(flatten)]
    pub(crate) format: FormatArgs,
}

/// Flags of `zinc logits`.
#[derive(Debug, clap::Args)]
pub(crate) struct LogitsArgs {
    #[command(flatten)]
    pub(crate) model: ModelArgs,
    /// Token ids, the whole input
    #[arg(long, value_name = "ID,ID,...", value_delimiter = ',', required = true)]
    pub(crate) ids: Vec<u32>,
    /// Write all logits as little-endian float32, position after position, instead of the top tokens
    #[arg(long, value_name = "OUT.f32")]
    pub(crate) raw: Option<PathBuf>,
    /// Tokens to show at each position
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub(crate) top: usize,
    #[command(flatten)]
    pub(crate) cache: CacheArgs,
    #[command(flatten)]
    pub(crate) rope: RopeArgs,
    #[command(flatten)]
    pub(crate) device: DeviceArgs,
    #[command(flatten)]
    pub(crate) ubatch: UbatchArgs,
    #[command(flatten)]
    pub(crate) format: FormatArgs,
}

/// Flags of `zinc tokenize`.
#[derive(Debug, clap::Args)]
pub(crate) struct TokenizeArgs {
    #[command(flatten)]
    pub(crate) model: ModelArgs,
    #[command(flatten)]
    pub(crate) text: TextArgs,
    /// Read control tokens in the text as such, instead of as plain text
    #[arg(long)]
    pub(crate) parse_special: bool,
    #[command(flatten)]
    pub(crate) format: FormatArgs,
}

/// Flags of `zinc template`.
#[derive(Debug, clap::Args)]
pub(crate) struct TemplateArgs {
    #[command(flatten)]
    pub(crate) model: ModelArgs,
    #[command(flatten)]
    pub(crate) template: TemplateSourceArgs,
    /// JSON array of messages, each with `role` and `content`; `-` is stdin
    #[arg(long, value_name = "MESSAGES.json")]
    pub(crate) messages: PathBuf,
    /// JSON array of tools
    #[arg(long, value_name = "TOOLS.json")]
    pub(crate) tools: Option<PathBuf>,
    /// Further variables of the template, as a JSON object
    #[arg(long, value_name = "JSON", alias = "chat-template-kwargs", value_parser = json_object)]
    pub(crate) kwargs: Option<JsonObject>,
    /// End after the last message instead of opening the assistant's answer
    #[arg(long)]
    pub(crate) no_generation_prompt: bool,
}

/// Flags of `zinc synth`.
#[derive(Debug, clap::Args)]
pub(crate) struct SynthArgs {
    /// The model whose shapes the file has
    #[arg(value_name = "PRESET", value_enum)]
    pub(crate) preset: Preset,
    /// The GGUF file to write
    #[arg(value_name = "OUT.gguf")]
    pub(crate) out: PathBuf,
    /// The mix of formats: mxfp4_moe for gpt-oss and q4_k_m for others without it
    #[arg(long, value_name = "MIX", value_enum, ignore_case = true)]
    pub(crate) quant: Option<Mix>,
    /// Layers, fewer or more than the model has
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) layers: Option<u32>,
    /// Seed of the weights: the same one gives the same file
    #[arg(short, long, value_name = "SEED", default_value_t = 0)]
    pub(crate) seed: u64,
    /// Overwrite the file if it exists
    #[arg(long)]
    pub(crate) force: bool,
}

/// Flags of `zinc completions`.
#[derive(Debug, clap::Args)]
pub(crate) struct CompletionsArgs {
    /// The shell
    pub(crate) shell: clap_complete::Shell,
}

/// Which model.
#[derive(Debug, clap::Args)]
pub(crate) struct ModelArgs {
    /// The GGUF file, or any part of a split one; the demo model without it
    #[arg(short, long, value_name = "FILE")]
    pub(crate) model: Option<PathBuf>,
}

/// How many tokens are generated, what ends them, and how they are chosen.
#[derive(Debug, clap::Args)]
pub(crate) struct GenerationArgs {
    /// Tokens to generate at most; -1 is until the model ends or the context is full
    #[arg(short = 'n', long = "predict", visible_alias = "n-predict", value_name = "N", default_value = "-1")]
    #[arg(allow_negative_numbers = true, value_parser = token_count)]
    pub(crate) predict: TokenCount,
    /// Go on after the model ends its answer, until -n or the context is full
    #[arg(long)]
    pub(crate) ignore_eos: bool,
    /// End the answer before this text, in which \n is a newline; may be given several times
    #[arg(short = 'r', long, visible_alias = "reverse-prompt", value_name = "TEXT")]
    #[arg(allow_hyphen_values = true, value_parser = sampling::text)]
    pub(crate) stop: Vec<String>,
    #[command(flatten)]
    pub(crate) sampling: SamplingArgs,
    #[command(flatten)]
    pub(crate) constraint: ConstraintArgs,
}

/// What stands for a value on the command line.
pub(crate) fn word(value: &impl ValueEnum) -> String {
    value.to_possible_value().map_or(String::new(), |value| value.get_name().to_owned())
}

/// How results are printed.
#[derive(Debug, clap::Args)]
pub(crate) struct FormatArgs {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl FormatArgs {
    /// The form that was asked for.
    pub(crate) fn format(&self) -> Format {
        if self.json { Format::Json } else { Format::Text }
    }
}

/// Measuring aids of `zinc run`.
#[derive(Debug, clap::Args)]
pub(crate) struct MeasureArgs {
    /// Write when each step was submitted, ran and was observed: as a picture where the name ends in .svg or .html, else as JSON for
    /// Perfetto and `zinc trace`
    #[arg(long, value_name = "FILE", help_heading = "Measuring aids")]
    pub(crate) trace: Option<PathBuf>,
    /// Keep the host busy for this long after every token (to measure what queueing ahead hides)
    #[arg(long = "host-work-us", value_name = "MICROSECONDS", default_value = "0", value_parser = microseconds)]
    #[arg(help_heading = "Measuring aids")]
    pub(crate) host_work: Duration,
}

/// The form of printed results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// For people.
    Text,
    /// For programs.
    Json,
}

/// How many tokens to generate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TokenCount {
    /// Until the model ends or the context is full.
    Unlimited,
    /// At most as many.
    AtMost(u32),
}

/// A JSON object.
pub(crate) type JsonObject = serde_json::Map<String, serde_json::Value>;

fn token_count(text: &str) -> Result<TokenCount, String> {
    match text.parse::<i64>() {
        Ok(-1) => Ok(TokenCount::Unlimited),
        Ok(count) => {
            u32::try_from(count).map(TokenCount::AtMost).map_err(|_| "must be -1 or 0 to 4294967295".to_owned())
        }
        Err(error) => Err(error.to_string()),
    }
}

fn milliseconds(text: &str) -> Result<Duration, String> {
    text.parse::<u32>().map(|ms| Duration::from_millis(ms.into())).map_err(|error| error.to_string())
}

fn microseconds(text: &str) -> Result<Duration, String> {
    text.parse::<u64>().map(Duration::from_micros).map_err(|error| error.to_string())
}

fn json_object(text: &str) -> Result<JsonObject, String> {
    // A text from a file, as in "$(cat kwargs.json)", may begin with a byte order mark.
    serde_json::from_str(text.trim_start_matches('\u{feff}')).map_err(|error| format!("not a JSON object: {error}"))
}

#[cfg(test)]
mod tests {
    use zinc_sched::InflightDepth;
    use zinc_vk::DeviceSelector;

    use super::engine::Sync;
    use super::*;
    use crate::error::Error;

    fn parsed(line: &[&str]) -> Result<Command> {
        parse(std::iter::once("zinc").chain(line.iter().copied()).map(OsString::from)).map(|parsed| parsed.command)
    }

    fn run(line: &[&str]) -> RunArgs {
        match parsed(&[&["run"], line].concat()) {
            Ok(Command::Run(args)) => args,
            other => panic!("{line:?} gave {other:?}"),
        }
    }

    #[test]
    fn the_definition_is_consistent() {
        <Arguments as clap::CommandFactory>::command().debug_assert();
    }

    #[test]
    fn defaults_are_those_of_llama_cpp() {
        let args = run(&[]);
        assert_eq!((args.generation.predict, args.generation.sampling.seed), (TokenCount::Unlimited, Seed::Random));
        assert!(args.generation.stop.is_empty());
        assert_eq!(
            (args.engine.cache.types.cache_type_k, args.engine.cache.types.cache_type_v),
            (CacheType::F16, CacheType::F16)
        );
        assert_eq!((args.engine.sync, args.engine.depth), (Sync::Timeline, InflightDepth::DEFAULT));
    }

    #[test]
    fn flags_of_several_letters_behind_one_dash() {
        let args = run(&["-ctk", "f32", "-ctv", "f32", "-dev", "1", "-sys", "Be brief."]);
        assert_eq!(
            (args.engine.cache.types.cache_type_k, args.engine.cache.types.cache_type_v),
            (CacheType::F32, CacheType::F32)
        );
        assert_eq!(args.engine.device.device, Some(Device::Vulkan(DeviceSelector::Index(1))));
        assert_eq!(args.chat.system().unwrap().as_deref(), Some("Be brief."));
    }

    #[test]
    fn a_text_may_look_like_a_flag() {
        assert_eq!(run(&["-p", "-ctk", "-ctv", "f32"]).text.prompt.as_deref(), Some("-ctk"));
        assert_eq!(run(&["-p", "-p", "-ctv", "f32"]).text.prompt.as_deref(), Some("-p"));
        let stops = run(&["-r", "-ctk", "--stop", r"\n", "--reverse-prompt", "-p"]).generation.stop;
        assert_eq!(stops, ["-ctk", "\n", "-p"]);
        assert_eq!(run(&["-p", "- one\n- two"]).text.prompt.as_deref(), Some("- one\n- two"));
    }

    #[test]
    fn counts_and_seeds() {
        assert_eq!(run(&["-n", "-1", "-s", "-1"]).generation.sampling.seed, Seed::Random);
        assert_eq!(run(&["-n", "0"]).generation.predict, TokenCount::AtMost(0));
        assert_eq!(run(&["--n-predict", "12"]).generation.predict, TokenCount::AtMost(12));
        assert_eq!(run(&["--seed", "18446744073709551615"]).generation.sampling.seed, Seed::Fixed(u64::MAX));
        for bad in [
            ["-n", "-2"],
            ["-n", "x"],
            ["-s", "-2"],
            ["--depth", "0"],
            ["--depth", "9"],
            ["--host-work-us", "-1"],
            ["--stop", ""],
        ] {
            assert!(matches!(parsed(&[&["run"], &bad[..]].concat()), Err(Error::Usage { .. })), "{bad:?}");
        }
    }

    #[test]
    fn the_last_of_repeated_flags_wins_and_lists_collect() {
        let args =
            run(&["-n", "1", "-p", "a", "--predict", "2", "-p", "b", "--temp", "1", "--temperature", "0", "-n", "3"]);
        assert_eq!(args.generation.predict, TokenCount::AtMost(3));
        assert_eq!(args.text.prompt.as_deref(), Some("b"));
        assert_eq!(args.generation.sampling.sampling(0).temperature, 0.0);
        let args = run(&["--raw", "--raw", "-dev", "0", "--device", "interpreter", "-r", "a", "-r", "b", "-r", "a"]);
        assert_eq!((args.raw, args.engine.device.device), (true, Some(Device::Interpreter)));
        assert_eq!(args.generation.stop, ["a", "b", "a"]);
    }

    #[test]
    fn verbosity_may_stand_anywhere() {
        for line in [&["-v", "run"][..], &["run", "--verbose"], &["run", "-v", "-v"], &["chat", "--log-verbose"]] {
            let parsed = parse(std::iter::once(&"zinc").chain(line).map(OsString::from)).unwrap();
            assert!(parsed.verbose, "{line:?}");
        }
    }

    #[test]
    fn prompt_and_file_exclude_each_other() {
        assert!(matches!(parsed(&["run", "-p", "a", "-f", "b"]), Err(Error::Usage { .. })));
    }
}
