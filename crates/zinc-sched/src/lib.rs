//! The in-flight decode window: steps queued ahead on a timeline, the host following behind.

#[cfg(feature = "vk")]
pub mod adapter;
mod apply;
pub mod clock;
mod engine;
mod error;
pub mod fake;
mod handle;
mod kv;
mod model;
pub mod plan;
mod request;
pub mod resolve;
mod sampling;
pub mod trace;
mod window;

pub use clock::{Clock, FnClock, ManualClock, SystemClock};
pub use engine::{Engine, EngineOptions};
pub use error::{Error, ModelCall, Result};
pub use handle::{EngineHandle, Event, Generation};
pub use kv::KvCache;
pub use model::{
    DeviceFinish, GpuSpan, ModelCounters, ModelLimits, SequenceStart, StepModel, StepOutput, StepShape, StepStatus,
    StepTiming, Ticket,
};
pub use request::{CancelHandle, Completion, Durations, FinishReason, Outlet, Request, Token, Tracing, Usage};
pub use sampling::Sampling;
pub use trace::{Quantiles, Seam, StepTrace, Trace, TraceSummary};
pub use window::InflightDepth;
