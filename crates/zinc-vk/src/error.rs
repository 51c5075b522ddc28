//! The error type of the crate. (What happens to the pipeline cache's file is no error: see [`CacheFault`](crate::CacheFault).)
//!
//! An error reports what a caller could not foresee: a missing driver, an exhausted heap, a lost device. Misuse that the
//! caller can see in its own source (a copy outside a buffer, a push block of the wrong size) panics with the numbers.

use std::time::Duration;

use ash::vk;

use crate::facts::ApiVersion;
use crate::plan::{DeviceSelector, Unsuitable};

/// Result with the crate's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Everything that can go wrong in this crate without being the caller's mistake.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The Vulkan loader library could not be opened.
    #[error(
        "no Vulkan loader on this machine ({reason}); on Debian or Ubuntu install it and a driver with \
         `apt-get install libvulkan1 mesa-vulkan-drivers`"
    )]
    NoLoader {
        /// What the dynamic linker said.
        reason: String,
    },
    /// The loader is older than the API version that the crate is written for.
    #[error("the Vulkan loader implements {found}, at least {needed} is needed; update libvulkan1")]
    LoaderTooOld {
        /// Version of the loader found.
        found: ApiVersion,
        /// Lowest version accepted.
        needed: ApiVersion,
    },
    /// Validation was asked for and the layer is not installed.
    #[error(
        "validation was asked for, but {layer} is not installed; on Debian or Ubuntu install it with \
         `apt-get install vulkan-validationlayers`"
    )]
    NoValidationLayer {
        /// Name of the layer.
        layer: &'static str,
    },
    /// The loader works and lists no device at all.
    #[error(
        "the Vulkan loader lists no device; install the GPU's Vulkan driver, or a CPU device with \
         `apt-get install mesa-vulkan-drivers`"
    )]
    NoDevice,
    /// No adapter answers to the selector.
    #[error("no Vulkan device answers to {selector}; there are: {}", available.join(", "))]
    NoSuchDevice {
        /// What was asked for.
        selector: DeviceSelector,
        /// Every adapter, by index and, where it has been asked for, name.
        available: Vec<String>,
    },
    /// Adapters exist, none of them can be used.
    #[error("no usable Vulkan device: {}", join(adapters))]
    NoSuitableDevice {
        /// The adapters considered, each with what it lacks.
        adapters: Vec<Unsuitable>,
    },
    /// The subgroup width asked for is outside what the device offers.
    #[error("{device} runs subgroups of {min} to {max} lanes, {requested} was asked for")]
    SubgroupWidth {
        /// Name of the device.
        device: String,
        /// Width asked for.
        requested: u32,
        /// Narrowest width of the device.
        min: u32,
        /// Widest width of the device; equal to `min` where the width cannot be chosen.
        max: u32,
    },
    /// A buffer is larger than one allocation may be.
    #[error(
        "buffer `{name}` of {size} bytes is larger than the {limit} bytes that this device allows in one allocation; \
         split it"
    )]
    BufferTooLarge {
        /// Name of the buffer.
        name: String,
        /// Bytes asked for, or bytes that the driver needs for them.
        size: u64,
        /// The lower of `maxMemoryAllocationSize` and `maxBufferSize`.
        limit: u64,
    },
    /// The device or the host has no memory left for a buffer.
    #[error("no memory for buffer `{name}` of {size} bytes: {available} bytes are free for such buffers ({reason})")]
    OutOfMemory {
        /// Name of the buffer.
        name: String,
        /// Bytes asked for.
        size: u64,
        /// Bytes still available in the largest heap that could have held it.
        available: u64,
        /// What the allocator said.
        reason: String,
    },
    /// The push block of a pipeline is larger than the device allows.
    #[error("pipeline `{name}` has {bytes} bytes of push constants, this device allows {limit}")]
    PushConstants {
        /// Name of the pipeline.
        name: String,
        /// Bytes of the push block.
        bytes: u32,
        /// `maxPushConstantsSize`.
        limit: u32,
    },
    /// A workgroup is larger than the device allows.
    #[error(
        "pipeline `{name}` has workgroups of {size} invocations, this device allows {limit} at subgroup width {width}"
    )]
    WorkgroupTooLarge {
        /// Name of the pipeline.
        name: String,
        /// Invocations of one workgroup.
        size: u32,
        /// Most invocations that the device allows here.
        limit: u32,
        /// Subgroup width of the device plan.
        width: u32,
    },
    /// The driver does not tell what it compiles a shader to.
    #[error("{device} tells no pipeline statistics: its driver lacks VK_KHR_pipeline_executable_properties")]
    NoPipelineStatistics {
        /// Name of the device.
        device: String,
    },
    /// The words are no SPIR-V module.
    #[error("pipeline `{name}`: {words} words that start with {first:#010x} are no SPIR-V module")]
    NotSpirv {
        /// Name of the pipeline.
        name: String,
        /// Length of the module in words.
        words: usize,
        /// First word; SPIR-V starts with 0x07230203.
        first: u32,
    },
    /// A recording was submitted again before its last submission completed.
    #[error("recording `{name}` is still pending: submitted at value {value}, the queue has completed {completed}")]
    RecordingPending {
        /// Name of the recording.
        name: String,
        /// Timeline value of the submission in flight; 0 for a submission that waits on a fence.
        value: u64,
        /// Value that the queue's timeline has reached.
        completed: u64,
    },
    /// A wait saw no progress for as long as the policy allows.
    #[error(
        "timeline `{timeline}` stands at {completed} and has not moved for {:.1} s while value {awaited} was awaited",
        stalled.as_secs_f64()
    )]
    Stalled {
        /// Name of the timeline.
        timeline: String,
        /// Value waited for.
        awaited: u64,
        /// Value reached.
        completed: u64,
        /// How long the counter stood still.
        stalled: Duration,
    },
    /// A fence was not signalled for as long as the policy allows.
    #[error("queue `{queue}` has not signalled its fence for {:.1} s", stalled.as_secs_f64())]
    FenceStalled {
        /// Name of the queue.
        queue: String,
        /// How long the wait took.
        stalled: Duration,
    },
    /// A value is farther ahead of the counter than the device can tell apart.
    #[error(
        "value {value} is {} ahead of timeline `{timeline}` (now {completed}); this device allows a difference of {limit}",
        value - completed
    )]
    TimelineDistance {
        /// Name of the timeline.
        timeline: String,
        /// Value that was to be signalled or waited for.
        value: u64,
        /// Value that the timeline has reached.
        completed: u64,
        /// `maxTimelineSemaphoreValueDifference`.
        limit: u64,
    },
    /// The host timeline was dropped before it signalled the value.
    #[error("timeline `{timeline}` was dropped at {completed}; value {awaited} will never be signalled")]
    TimelineAbandoned {
        /// Name of the timeline.
        timeline: String,
        /// Value waited for.
        awaited: u64,
        /// Last value signalled.
        completed: u64,
    },
    /// The device is lost: every wait and every submit fails from now on.
    #[error("the Vulkan device was lost (first seen in {during}); open it again to go on")]
    DeviceLost {
        /// The call that reported the loss first.
        during: &'static str,
    },
    /// Timestamps were read before the submission that writes them completed.
    #[error("timestamps {first}..{end} are not written yet; wait for the submission that writes them")]
    TimestampsNotReady {
        /// First query read.
        first: u32,
        /// One past the last query read.
        end: u32,
    },
    /// The queue family of the device cannot write timestamps.
    #[error("{device}: the {queue} queue writes no timestamps")]
    NoTimestamps {
        /// Name of the device.
        device: String,
        /// Name of the queue.
        queue: &'static str,
    },
    /// Any other failure of a Vulkan call.
    #[error("{call} failed: {source}")]
    Vulkan {
        /// Name of the Vulkan function.
        call: &'static str,
        /// The driver's result code.
        source: vk::Result,
    },
}

impl Error {
    /// An [`Error::Vulkan`] for `call`.
    pub(crate) fn vulkan(call: &'static str) -> impl Fn(vk::Result) -> Self {
        move |source| Self::Vulkan { call, source }
    }
}

fn join(adapters: &[Unsuitable]) -> String {
    let lines: Vec<String> = adapters.iter().map(ToString::to_string).collect();
    lines.join("; ")
}
