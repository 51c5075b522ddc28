//! Flags of `zinc serve`, with llama-server's names and defaults where it has them.

use std::net::IpAddr;
use std::path::PathBuf;

use zinc_server::{ReasoningField, ReasoningFormat};

use super::{EngineArgs, ModelArgs, SamplingArgs, TemplateSourceArgs, TokenCount};

/// Flags of `zinc serve`.
#[derive(Debug, clap::Args)]
pub(crate) struct ServeArgs {
    #[command(flatten)]
    pub(crate) model: ModelArgs,
    /// Serve a model that says what this JSON file has for it, to test clients without a device
    #[arg(long, value_name = "FILE", conflicts_with = "model")]
    pub(crate) fake: Option<PathBuf>,
    /// Serve on the processor if there is no GPU, instead of saying why there is none
    #[arg(long)]
    pub(crate) cpu: bool,
    /// Requests that run at the same time, each with the whole context [-np] [default: 4, or 1 with --draft or --draft-mtp and on the interpreter]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(crate) parallel: Option<u32>,
    /// Tokens that the cache has room for, of all requests together; with less than the whole context of each, one may have to wait while others go on [default: -np
    /// times -c]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) cache_tokens: Option<u32>,
    /// Requests that may wait behind them; further ones are told to come back
    #[arg(long, value_name = "N", default_value_t = 128, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) max_queue: u32,
    /// Name of the model for clients [default: the name of its file]
    #[arg(short, long, value_name = "NAME")]
    pub(crate) alias: Option<String>,
    /// Write what is logged as JSON, an object in each line
    #[arg(long)]
    pub(crate) log_json: bool,
    /// Tokens of an answer where the request does not say it; -1 is until the model ends or the context is full
    #[arg(short = 'n', long = "predict", visible_alias = "n-predict", value_name = "N", default_value = "-1")]
    #[arg(allow_negative_numbers = true, value_parser = super::token_count)]
    pub(crate) predict: TokenCount,
    /// Where thoughts are in /v1/chat/completions, if the request does not say it: in a field of their own (auto, deepseek), in the content (none), or in both
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t)]
    pub(crate) reasoning_format: ReasoningFormatName,
    /// Name of their field
    #[arg(long, value_name = "NAME", value_enum, default_value_t)]
    pub(crate) reasoning_field: ReasoningFieldName,
    #[command(flatten)]
    pub(crate) template: TemplateSourceArgs,
    #[command(flatten)]
    pub(crate) engine: EngineArgs,
    // What comes behind these has their headings.
    #[command(flatten)]
    pub(crate) listen: ListenArgs,
    #[command(flatten)]
    pub(crate) sampling: SamplingArgs,
}

/// Where the server listens, and to whom.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Connections")]
pub(crate) struct ListenArgs {
    /// Address to listen at; others than those of this machine need a key
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1", value_parser = host)]
    pub(crate) host: IpAddr,
    /// Port to listen at; 0 is one that is free
    #[arg(long, value_name = "PORT", default_value_t = zinc_server::ServerOptions::PORT)]
    pub(crate) port: u16,
    /// Key that requests need, or several with commas between them; the environment variable ZINC_API_KEY does the same, and shows it to nobody
    #[arg(long, value_name = "KEY,...", value_delimiter = ',')]
    pub(crate) api_key: Vec<String>,
    /// File with a key in each line
    #[arg(long, value_name = "FILE")]
    pub(crate) api_key_file: Option<PathBuf>,
    /// Let anyone in who reaches the address, without a key
    #[arg(long)]
    pub(crate) insecure: bool,
    /// Name by which clients without a key may call the server, besides localhost and numeric addresses; may be given several times
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub(crate) allowed_host: Vec<String>,
    /// Web page that may use the server, as in https://chat.example, or * for all; may be given several times
    #[arg(long, value_name = "ORIGIN", value_delimiter = ',')]
    pub(crate) cors_origin: Vec<String>,
    /// Seconds for which the server waits for a request, and for a client to take more of its answer [-to]
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) timeout: u32,
    /// Seconds of silence in a stream after which a line comes that means nothing; -1 for no such lines
    #[arg(long, value_name = "SECONDS", default_value_t = 10, allow_negative_numbers = true)]
    pub(crate) sse_ping_interval: i32,
}

/// The places of thoughts, by llama-server's names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum ReasoningFormatName {
    #[default]
    Auto,
    None,
    Deepseek,
    DeepseekLegacy,
}

impl From<ReasoningFormatName> for ReasoningFormat {
    fn from(name: ReasoningFormatName) -> Self {
        match name {
            ReasoningFormatName::Auto => Self::Auto,
            ReasoningFormatName::None => Self::None,
            ReasoningFormatName::Deepseek => Self::Deepseek,
            ReasoningFormatName::DeepseekLegacy => Self::DeepseekLegacy,
        }
    }
}

/// The names of the field of thoughts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
#[value(rename_all = "snake_case")]
pub(crate) enum ReasoningFieldName {
    #[default]
    ReasoningContent,
    Reasoning,
    Both,
}

impl From<ReasoningFieldName> for ReasoningField {
    fn from(name: ReasoningFieldName) -> Self {
        match name {
            ReasoningFieldName::ReasoningContent => Self::ReasoningContent,
            ReasoningFieldName::Reasoning => Self::Reasoning,
            ReasoningFieldName::Both => Self::Both,
        }
    }
}

/// An address, or a name of this machine.
fn host(text: &str) -> Result<IpAddr, String> {
    match text {
        "localhost" => Ok(IpAddr::from([127, 0, 0, 1])),
        _ => text
            .parse()
            .map_err(|_| "must be a numeric address such as 127.0.0.1, 0.0.0.0 or ::1, or localhost".to_owned()),
    }
}
