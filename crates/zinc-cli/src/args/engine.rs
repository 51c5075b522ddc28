//! Flags of how a model is run: on which device, with how much context, and how the host follows it.

use clap::ValueEnum;
use zinc_kernels::ops::ActFormat;
use zinc_kernels::step::StepShape;
use zinc_sched::adapter::{self, Queues};
use zinc_sched::{CheckpointLimits, InflightDepth};
use zinc_vk::DeviceSelector;

use super::{DraftArgs, RopeArgs};

/// How the model is run.
#[derive(Debug, clap::Args)]
pub(crate) struct EngineArgs {
    #[command(flatten)]
    pub(crate) device: DeviceArgs,
    #[command(flatten)]
    pub(crate) cache: CacheArgs,
    #[command(flatten)]
    pub(crate) rope: RopeArgs,
    /// How the host follows the GPU: steps queued ahead on a timeline, or a fence after every token
    #[arg(long, value_name = "HOW", value_enum, default_value_t = Sync::Timeline)]
    pub(crate) sync: Sync,
    /// Steps in flight with --sync timeline, 1 to 8
    #[arg(long, value_name = "N", default_value = "4", value_parser = depth)]
    pub(crate) depth: InflightDepth,
    #[command(flatten)]
    pub(crate) queues: QueueArgs,
    #[command(flatten)]
    pub(crate) ubatch: UbatchArgs,
    #[command(flatten)]
    pub(crate) checkpoints: CheckpointArgs,
    #[command(flatten)]
    pub(crate) draft: DraftArgs,
}

/// How many tokens are computed together.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct UbatchArgs {
    /// Tokens of a prompt that are computed together: a power of two up to 2048; other numbers count as the next lower one. The answer does not
    /// depend on it [-ub] [default: 512, with integrated graphics 128, on a CPU 64, or 16 of short prompts]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) ubatch_size: Option<u32>,
}

impl UbatchArgs {
    /// The steps that the number stands for, if there is one.
    pub(crate) fn shape(self) -> Option<StepShape> {
        self.ubatch_size.map(StepShape::filled_by)
    }
}

/// How many states are remembered.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct CheckpointArgs {
    /// Copies of the state of a model with gated delta nets (qwen35, qwen35moe, qwen3next) or sliding windows (gpt-oss) that are kept in the host's memory: a prompt is read
    /// from the last one on that fits it; 0 reads every prompt from its beginning. The answer does not depend on it [-ctxcp]
    #[arg(long, visible_alias = "swa-checkpoints", value_name = "N", default_value_t = CheckpointLimits::SLOTS)]
    pub(crate) ctx_checkpoints: u32,
}

/// Where sampling runs.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct QueueArgs {
    /// Queues of the GPU: 1, or 2 to sample on a second one where the device has it
    #[arg(long = "queues", value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=2))]
    count: u32,
}

impl QueueArgs {
    /// The choice.
    pub(crate) fn queues(self) -> Queues {
        if self.count == 2 { Queues::Two } else { Queues::One }
    }
}

/// A form of activations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Act {
    Q14,
    F32,
}

impl From<Act> for ActFormat {
    fn from(act: Act) -> Self {
        match act {
            Act::Q14 => Self::Q14,
            Act::F32 => Self::F32,
        }
    }
}

/// Which device.
#[derive(Debug, clap::Args)]
pub(crate) struct DeviceArgs {
    /// The device, by index or part of its name as `zinc devices` lists them, or `interpreter`: the CPU, op by op [-dev]
    #[arg(long, value_name = "DEVICE", value_parser = device)]
    pub(crate) device: Option<Device>,
    /// Activations that quantised weights meet: integers of 14 bits with a scale for each 256 of them, or f32
    #[arg(long, value_name = "FORM", value_enum, default_value_t = Act::Q14)]
    pub(crate) act: Act,
    #[command(flatten)]
    pub(crate) units: MatrixUnitArgs,
    /// List the devices and exit
    #[arg(long)]
    pub(crate) list_devices: bool,
}

/// Whether matrix units are used.
#[derive(Debug, clap::Args)]
pub(crate) struct MatrixUnitArgs {
    /// Matrix units of the device, for prompts and attention: used where they are known to give the right bits, or left alone
    #[arg(long, value_name = "WHETHER", value_enum, default_value_t = MatrixUnits::On)]
    pub(crate) matrix_units: MatrixUnits,
}

/// Whether matrix units are used where they could be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum MatrixUnits {
    On,
    Off,
}

/// How much context there is and how it is kept.
#[derive(Debug, clap::Args)]
pub(crate) struct CacheArgs {
    /// Tokens of context; 0 is all that the model was trained for [default: 4096, or the model's if that is less]
    #[arg(short, long, value_name = "N")]
    pub(crate) ctx_size: Option<u32>,
    #[command(flatten)]
    pub(crate) types: CacheTypeArgs,
}

/// How the cache is stored.
#[derive(Debug, clap::Args)]
pub(crate) struct CacheTypeArgs {
    /// Format of the cached keys [-ctk]
    #[arg(long, value_name = "TYPE", value_enum, default_value_t = CacheType::F16)]
    pub(crate) cache_type_k: CacheType,
    /// Format of the cached values [-ctv]
    #[arg(long, value_name = "TYPE", value_enum, default_value_t = CacheType::F16)]
    pub(crate) cache_type_v: CacheType,
    /// Keep the keys and values of all positions in layers with a sliding window (gpt-oss), too, instead of those that the window still needs. It takes more memory, and a
    /// prompt goes on exactly where it differs from an earlier one, not at the last checkpoint before. The answer does not depend on it
    #[arg(long)]
    pub(crate) swa_full: bool,
}

/// How the host follows the GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Sync {
    /// Steps queued ahead on one timeline semaphore.
    Timeline,
    /// The baseline: each step is recorded, submitted and waited for with a fence before the next.
    Fence,
    /// A fence as in the baseline, but with recordings that are made once and submitted again for every token.
    FenceKept,
}

impl From<Sync> for adapter::Sync {
    fn from(sync: Sync) -> Self {
        match sync {
            Sync::Timeline => Self::Timeline,
            Sync::Fence => Self::Fence,
            Sync::FenceKept => Self::FenceKept,
        }
    }
}

/// Format of cached keys or values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum CacheType {
    /// 16-bit floats.
    F16,
    /// 32-bit floats.
    F32,
}

/// A device as named on the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Device {
    /// A Vulkan device.
    Vulkan(DeviceSelector),
    /// The interpreter on the CPU, which computes every operation by its reference.
    Interpreter,
}

pub(super) fn depth(text: &str) -> Result<InflightDepth, String> {
    let depth = text.parse::<u32>().map_err(|error| error.to_string())?;
    InflightDepth::new(depth).map_err(|error| error.to_string())
}

#[allow(clippy::unnecessary_wraps, reason = "clap's value parsers return a result")]
pub(super) fn device(text: &str) -> Result<Device, String> {
    if text.eq_ignore_ascii_case("interpreter") {
        return Ok(Device::Interpreter);
    }
    // llama.cpp writes "Vulkan0" for the first device.
    let index = text.get(..6).filter(|prefix| prefix.eq_ignore_ascii_case("vulkan")).map_or(text, |_| &text[6..]);
    Ok(Device::Vulkan(match index.parse() {
        Ok(index) => DeviceSelector::Index(index),
        Err(_) => DeviceSelector::Name(text.to_owned()),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_by_index_name_and_interpreter() {
        let name = |name: &str| Device::Vulkan(DeviceSelector::Name(name.to_owned()));
        assert_eq!(device("0"), Ok(Device::Vulkan(DeviceSelector::Index(0))));
        assert_eq!(device("Vulkan1"), Ok(Device::Vulkan(DeviceSelector::Index(1))));
        assert_eq!(device("vulkan"), Ok(name("vulkan")));
        assert_eq!(device("llvmpipe"), Ok(name("llvmpipe")));
        assert_eq!(device("größer"), Ok(name("größer")));
        assert_eq!(device("interpreter"), Ok(Device::Interpreter));
    }
}
