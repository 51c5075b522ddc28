//! The implementations of [`StepModel`](crate::StepModel): a model on a Vulkan device, and the same model on the host's interpreter.
//!
//! This is the only place of the crate that knows of devices and tensors.

#[cfg(feature = "grammar")]
pub mod grammar;
mod interpreter;
mod sampling;
mod sequence;
mod vulkan;

pub use interpreter::InterpreterModel;
pub use vulkan::{DraftSource, OpTimes, Queues, Sync, VulkanModel, VulkanOptions};

use crate::step::{DeviceFinish, StepKind, StepOutput, StepStatus, StepTiming, TokenRun};
use zinc_kernels::generated::state::{
    FINISH_BUDGET, FINISH_CANCELLED, FINISH_CONTEXT_FULL, FINISH_END_OF_GENERATION, FINISH_NON_FINITE, STATUS_FED,
    STATUS_SAMPLED, StepReport,
};
use zinc_kernels::ops::MAX_BATCH;
use zinc_model::plan::PlanKind;

/// A report of the device has room for as many tokens as a run of the scheduler.
const _: () = assert!(TokenRun::MAX == MAX_BATCH as usize);

/// Computes the logits of given tokens: an instrument for comparing engines.
pub trait Score {
    /// What the model says when it fails.
    type Error;

    /// Runs `tokens` from position 0 and hands the logits after each (position, `[vocabulary]` f32) to `sink`. What the cache held
    /// before is lost.
    ///
    /// # Errors
    /// The model's own.
    ///
    /// # Panics
    /// If there is no token, more than the context holds, or one outside the vocabulary.
    fn score(&mut self, tokens: &[u32], sink: &mut dyn FnMut(usize, &[f32])) -> Result<(), Self::Error>;
}

fn plan_kind(kind: StepKind) -> PlanKind {
    match kind {
        StepKind::Feed => PlanKind::Feed,
        StepKind::Decode | StepKind::Speculate => PlanKind::Decode,
    }
}

/// What the scheduler makes of a device's report. The report gives the position of the token that comes next, the scheduler wants that of the
/// first token that went in.
fn step_output(report: &StepReport, timing: StepTiming) -> StepOutput {
    let status = match report.status {
        STATUS_FED => StepStatus::Fed,
        STATUS_SAMPLED => StepStatus::Emitted,
        _ => StepStatus::NoOp,
    };
    let finish = match report.finish {
        FINISH_END_OF_GENERATION => Some(DeviceFinish::EndOfGeneration),
        FINISH_BUDGET => Some(DeviceFinish::Budget),
        FINISH_CONTEXT_FULL => Some(DeviceFinish::ContextFull),
        FINISH_CANCELLED => Some(DeviceFinish::Cancelled),
        FINISH_NON_FINITE => Some(DeviceFinish::NonFinite),
        _ => None,
    };
    let sampled = if status == StepStatus::Emitted { &report.tokens[..report.count as usize] } else { &[] };
    let tokens = TokenRun::new(sampled);
    StepOutput {
        tokens,
        position: report.position.saturating_sub(report.count),
        status,
        finish,
        logprobs: None,
        timing,
    }
}
