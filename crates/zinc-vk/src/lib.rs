//! Vulkan compute on one timeline: device choice, memory, recordings, queues and timeline points.
//!
//! The crate runs compute work that is recorded once and submitted again and again, with the host following a few submissions
//! behind and never in the way. It knows nothing of what is computed.
//!
//! # A tour
//!
//! 1. [`Instance::new`] opens the Vulkan loader; [`Instance::adapters`] lists what every device says of itself, as plain
//!    [`AdapterFacts`].
//! 2. [`DevicePlan::choose`] picks a device, its queues and its subgroup width from those facts, without side effects.
//!    [`Device::open`] opens what was picked.
//! 3. A [`Buffer`] is memory with an address that shaders use; its [`Placement`] says whether the host can map it. A [`Pipeline`] is
//!    one shader with its specialisation constants. Shaders get addresses as push constants.
//! 4. A [`RecordingBuilder`] takes down dispatches, copies and the barriers between them. [`RecordingBuilder::finish`] makes a
//!    [`Recording`], which can be submitted any number of times and owns what it touches.
//! 5. [`Queue::submit`] runs a recording behind everything submitted before and returns a [`TimelinePoint`]: the one thing that
//!    host threads and other submissions wait for. A [`HostTimeline`] is signalled by the host, for submissions that are queued
//!    ahead of a decision.
//! 6. [`Uploader`] brings host bytes onto the device, [`Retire`] holds values until a point is complete, [`Timestamps`] and
//!    [`Device::clock`] put the device's work onto the host's clock.
//!
//! ```no_run
//! use zinc_vk::{Device, DevicePlan, Instance, InstanceOptions, QueueKind, RecordingBuilder, Wants};
//!
//! # fn main() -> zinc_vk::Result<()> {
//! let instance = Instance::new(&InstanceOptions::default())?;
//! let plan = DevicePlan::choose(&instance.adapters()?, &Wants::default())?;
//! let device = Device::open(&instance, &plan)?;
//!
//! // One recording per step that may be in flight: with two, the device always has the next one at hand.
//! let step = |name| RecordingBuilder::new(&device, QueueKind::Compute, name)?.finish();
//! let (even, odd) = (step("even")?, step("odd")?);
//! let queue = device.compute_queue();
//! let mut oldest = queue.submit(&even, &[])?;
//! for _ in 0..100 {
//!     let next = queue.submit(&odd, &[])?; // while `oldest` runs
//!     oldest.wait()?;
//!     oldest = queue.submit(&even, &[])?;
//!     next.wait()?;
//! }
//! oldest.wait()?;
//! # Ok(())
//! # }
//! ```
//!
//! | file | what lives there |
//! |---|---|
//! | `instance`, `validation` | the loader, the instance, the messages of the validation layer |
//! | `facts` | what a driver says of its device, as plain data |
//! | `plan` | the choice of device, queues and subgroup width: a pure function of the facts |
//! | `device`, `memory`, `buffer` | the open device, its memory, buffers with addresses |
//! | `pipeline`, `pipeline_cache` | compute pipelines and their cache on disk |
//! | `compiler` | what the driver's compiler made of a shader: registers, instructions, machine code |
//! | `access`, `recording` | barriers with exact masks, command buffers that are recorded once |
//! | `queue`, `timeline` | submission, and **the contract of timelines and points** |
//! | `retire`, `staging` | values that wait for a point, the upload ring |
//! | `timestamps` | device timestamps on the host's clock |
//!
//! `sync` swaps atomics and locks for loom's in tests; `error` is the crate's error type.
//!
//! # What it does not do
//! No descriptor sets, images, graphics or presentation. No tracking of what a shader reads or writes: the caller places the
//! barriers inside a recording. No allocation strategy beyond gpu-allocator's.
//!
//! # Errors and panics
//! [`Error`] is for what a caller cannot foresee. Misuse that is visible in the caller's own code panics with the numbers.
//! [`CacheFault`] says why the file of the pipeline cache was not used; it is no error, because nothing depends on that file.

#![allow(unsafe_code, reason = "this crate is the project's wrapper of the Vulkan API")]

mod access;
mod buffer;
mod compiler;
mod device;
mod error;
mod facts;
mod instance;
mod memory;
mod pipeline;
mod pipeline_cache;
mod plan;
mod queue;
mod recording;
mod retire;
mod shared;
mod staging;
mod sync;
mod timeline;
mod timestamps;
mod validation;

pub use access::Access;
pub use buffer::{ALIGNMENT, Buffer, Placement};
pub use compiler::{Compiler, PipelineStatistics};
pub use device::{Device, DeviceStats};
pub use error::{Error, Result};
pub use facts::{
    AdapterFacts, AdapterKind, ApiVersion, DriverFacts, Features, Heap, HeapBudget, Limits, MatrixElement, MatrixShape,
    MemoryType, PciAddress, QueueAbilities, QueueFamily, SubgroupFacts, SubgroupOps,
};
pub use instance::{Instance, InstanceOptions};
pub use memory::{HeapReport, MemoryReport};
pub use pipeline::{Pipeline, PipelineSpec};
pub use pipeline_cache::CacheFault;
pub use plan::{DevicePlan, DeviceSelector, Missing, Notice, Unsuitable, Wants};
pub use queue::{Queue, QueueKind, QueueStats};
pub use recording::{Recording, RecordingBuilder, RecordingStats};
pub use retire::Retire;
pub use staging::{UploadRing, Uploader};
pub use timeline::{Counter, HostTimeline, SLICE, Timeline, TimelineId, TimelinePoint, WaitOutcome, WaitPolicy};
pub use timestamps::{ClockCalibration, ClockMethod, Stage, Timestamps, host_now_ns};
pub use validation::Validation;

/// Types that threads share or hand to each other. Whether they may is checked when the crate is compiled.
const _: () = {
    const fn crosses_threads<T: Send + Sync>() {}
    crosses_threads::<Instance>();
    crosses_threads::<Device>();
    crosses_threads::<Buffer>();
    crosses_threads::<Compiler>();
    crosses_threads::<Pipeline>();
    crosses_threads::<Recording>();
    crosses_threads::<Queue>();
    crosses_threads::<Timeline>();
    crosses_threads::<TimelinePoint>();
    crosses_threads::<HostTimeline>();
    crosses_threads::<Timestamps>();
    const fn can_be_moved<T: Send>() {}
    can_be_moved::<RecordingBuilder>();
    can_be_moved::<Uploader>();
};

/// Compiles the example of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
