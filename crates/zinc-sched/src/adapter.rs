//! The implementations of [`StepModel`](crate::StepModel): a model on a Vulkan device, and the same model on the host's interpreter.
//!
//! This is the only place of the crate that knows of devices and tensors.

mod interpreter;
mod lanes;
mod sampling;
mod sequence;
mod vulkan;

pub use interpreter::InterpreterModel;
pub use vulkan::{DraftSource, OpTimes, Queues, Sync, VulkanModel, VulkanOptions};

use crate::step::{DeviceFinish, LaneOutput, StepKind, StepStatus, TokenRun};
use zinc_kernels::generated::lane::{
    FINISH_BUDGET, FINISH_CANCELLED, FINISH_CONTEXT_FULL, FINISH_END_OF_GENERATION, FINISH_NON_FINITE, STATUS_FED,
    STATUS_SAMPLED,
};
use zinc_kernels::step::{MOST_RUN, StepReport};
use zinc_model::plan::PlanKind;

/// The scheduler has room for exactly as many tokens of a lane of one step as the kernels.
const _: () = assert!(TokenRun::MAX == MOST_RUN as usize);

/// Computes the logits of given tokens, to compare engines.
pub trait Score {
    /// The error of the model.
    type Error;

    /// Runs `tokens` from position 0, and calls `sink` with the position of each and the logits after it, `[vocabulary]` f32. The former
    /// content of the cache is lost.
    ///
    /// # Errors
    /// [`Self::Error`].
    ///
    /// # Panics
    /// If there is no token, more than the context holds, or one outside the vocabulary.
    fn score(&mut self, tokens: &[u32], sink: &mut dyn FnMut(usize, &[f32])) -> Result<(), Self::Error>;
}

/// The kind of plan by which a step is computed.
fn plan_kind(kind: StepKind) -> PlanKind {
    match kind {
        StepKind::Feed => PlanKind::Feed,
        StepKind::FeedDecode | StepKind::Decode | StepKind::Speculate => PlanKind::Decode,
    }
}

/// Turns the device's report of a lane of a step into the scheduler's output. The report has the position at which the sequence stands after the step, the
/// output that of the first input token.
fn lane_output(report: &StepReport) -> LaneOutput {
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
    LaneOutput {
        tokens: TokenRun::new(&report.tokens[..report.count as usize]),
        fed: report.fed,
        drafts: report.drafts,
        position: report.position.saturating_sub(report.fed + report.count),
        status,
        finish,
        logprobs: None,
    }
}
