//! From flags to the options of zinc-engine.

use std::time::Duration;

use zinc_engine::{
    AnswerOptions, ContextSize, DeviceChoice, DeviceOptions, DraftOptions, Drafter, DriveOptions, EndTokens,
    FileOptions, random_seed,
};
use zinc_kernels::ops::CacheFormat;
use zinc_model::config::RopeOverrides;
use zinc_sched::Tracing;

use zinc_server::ServerOptions;
use zinc_server::auth::Keys;
use zinc_server::output::{CallForm, OutputFormat};

use crate::args::{
    CacheArgs, CacheType, CacheTypeArgs, Device, DraftArgs, EngineArgs, GenerationArgs, ListenArgs, MatrixUnits,
    SamplingArgs, Seed, ServeArgs, TokenCount,
};
use crate::error::{Error, Result};
use crate::{device, surroundings, text_file};

/// How a model file is opened to be driven by an engine.
pub(crate) fn engine_file_options(args: &EngineArgs) -> FileOptions {
    let mut options = file_options(&args.cache, args.rope.overrides());
    options.mtp = args.draft.draft_mtp;
    options
}

/// How a model file is opened with the context and the position embedding that were asked for.
pub(crate) fn file_options(args: &CacheArgs, rope: RopeOverrides) -> FileOptions {
    let context = match args.ctx_size {
        None => ContextSize::Default,
        Some(0) => ContextSize::Trained,
        Some(tokens) => ContextSize::Tokens(tokens),
    };
    file_options_for(context, &args.types, rope)
}

/// How a model file is opened for a context, with the position embedding that was asked for.
pub(crate) fn file_options_for(context: ContextSize, types: &CacheTypeArgs, rope: RopeOverrides) -> FileOptions {
    let format = |cache_type| match cache_type {
        CacheType::F16 => CacheFormat::F16,
        CacheType::F32 => CacheFormat::F32,
    };
    let mut options = FileOptions::new();
    options.context = context;
    options.rope = rope;
    options.key_format = format(types.cache_type_k);
    options.value_format = format(types.cache_type_v);
    options.full_windows = types.swa_full;
    options
}

/// Has so many sequences run at the same time, with room for so many tokens of all of them together in the cache.
///
/// # Errors
/// [`Error::Usage`] if there is one sequence, whose room is its context.
pub(crate) fn set_lanes(options: &mut FileOptions, lanes: u32, cache_tokens: Option<u32>) -> Result<()> {
    if let Some(tokens) = cache_tokens.filter(|_| lanes == 1) {
        return Err(Error::usage(format!(
            "--cache-tokens {tokens} is for several sequences at a time: one alone has room for its whole context"
        )));
    }
    (options.lanes, options.cache_tokens) = (lanes, cache_tokens);
    Ok(())
}

/// How the device is opened that was asked for.
///
/// # Errors
/// An environment variable with a value that it cannot have.
pub(crate) fn device_options(asked: Option<&Device>, matrix_units: MatrixUnits) -> Result<DeviceOptions> {
    let mut options = DeviceOptions::new();
    options.device = match asked {
        None => DeviceChoice::Best,
        Some(Device::Vulkan(selector)) => DeviceChoice::Vulkan(selector.clone()),
        Some(Device::Interpreter) => DeviceChoice::Interpreter,
    };
    options.without_matrix_units = matrix_units == MatrixUnits::Off;
    options.validation = device::validation()?;
    options.pipeline_cache_dir = device::cache_directory();
    Ok(options)
}

/// How a model is loaded and driven.
pub(crate) fn drive_options(args: &EngineArgs, host_work: Duration, trace: Tracing) -> DriveOptions {
    let mut options = DriveOptions::new();
    options.act = args.device.act.into();
    options.sync = args.sync.into();
    options.depth = args.depth;
    options.queues = args.queues.queues();
    options.feed_shape = args.ubatch.shape();
    options.checkpoints = args.checkpoints.ctx_checkpoints;
    options.draft = draft_options(&args.draft);
    options.trace = trace;
    options.host_work = host_work;
    options
}

/// What drafts, if anything does.
pub(crate) fn draft_options(args: &DraftArgs) -> Option<DraftOptions> {
    let drafter = match &args.draft {
        Some(path) => Drafter::Model(path.clone()),
        None if args.draft_ngram => Drafter::Lookup,
        None if args.draft_mtp => Drafter::Mtp,
        None => return None,
    };
    let mut options = DraftOptions::new(drafter);
    options.tokens = args.draft_max;
    options.speculation = args.speculation();
    Some(options)
}

/// How answers are chosen and what ends them; a random seed is drawn here, and the file of a constraint read.
///
/// # Errors
/// [`Error::Usage`] for a parameter outside its range, or a file that cannot be read.
pub(crate) fn answer_options(args: &GenerationArgs) -> Result<AnswerOptions> {
    let mut options = sampling_options(&args.sampling)?;
    options.constraint = args.constraint.source()?;
    options.stops = args.stop.clone();
    options.max_tokens = most_tokens(args.predict);
    options.end_tokens = if args.ignore_eos { EndTokens::GoOn } else { EndTokens::End };
    Ok(options)
}

/// The control tokens that are part of an answer's text, from which it is taken apart: the marks of harmony, or the tags around thoughts. Those of other
/// forms are hidden.
pub(crate) fn shown(format: &OutputFormat) -> Vec<String> {
    let marks = match format.reasoning_tags() {
        _ if format.call_form() == Some(CallForm::Harmony) => format.marks().to_vec(),
        Some((open, close)) => vec![open, close],
        None => Vec::new(),
    };
    marks.into_iter().map(str::to_owned).collect()
}

/// How tokens are chosen.
fn sampling_options(args: &SamplingArgs) -> Result<AnswerOptions> {
    let seed = match args.seed {
        Seed::Fixed(seed) => seed,
        Seed::Random => random_seed(),
    };
    let mut options = AnswerOptions::new();
    options.sampling = args.sampling(seed);
    options.check().map_err(|error| Error::usage(error.to_string()))?;
    options.breakers = args.breakers();
    Ok(options)
}

fn most_tokens(count: TokenCount) -> Option<u32> {
    match count {
        TokenCount::Unlimited => None,
        TokenCount::AtMost(count) => Some(count),
    }
}

/// The environment variable with a key of the server.
const KEY_VARIABLE: &str = "ZINC_API_KEY";

/// How a model is served; the files of keys are read.
///
/// # Errors
/// [`Error::Usage`] for a parameter outside its range or a key that is no text, or a file that cannot be read.
pub(crate) fn server_options(args: &ServeArgs) -> Result<ServerOptions> {
    let ListenArgs { host, port, insecure, .. } = args.listen;
    let mut options = ServerOptions::new();
    (options.host, options.port, options.insecure) = (host, port, insecure);
    options.keys = keys(&args.listen)?;
    options.allowed_hosts = args.listen.allowed_host.clone();
    options.cors_origins = args.listen.cors_origin.clone();
    options.alias = args.alias.clone();
    options.reasoning_format = args.reasoning_format.into();
    options.reasoning_field = args.reasoning_field.into();
    options.timeout = Duration::from_secs(args.listen.timeout.into());
    options.reader_patience = options.timeout;
    let ping = u64::try_from(args.listen.sse_ping_interval).ok().filter(|seconds| *seconds > 0);
    options.ping = ping.map(Duration::from_secs);
    options.defaults = sampling_options(&args.sampling)?;
    options.defaults.max_tokens = most_tokens(args.predict);
    options.fixed_seed = matches!(args.sampling.seed, Seed::Fixed(_));
    Ok(options)
}

fn keys(args: &ListenArgs) -> Result<Keys> {
    let mut keys = args.api_key.clone();
    if let Some(path) = &args.api_key_file {
        keys.extend(text_file::read(path)?.lines().map(str::to_owned));
    }
    if let Some(key) = surroundings::variable(KEY_VARIABLE) {
        let key = key.into_string().map_err(|_| Error::usage(format!("{KEY_VARIABLE} is not UTF-8")))?;
        keys.extend(key.split(',').map(str::to_owned));
    }
    let keys = Keys::new(keys);
    if keys.is_empty() && (!args.api_key.is_empty() || args.api_key_file.is_some()) {
        return Err(Error::usage("the keys that were given are empty"));
    }
    Ok(keys)
}
