//! What the simulated model keeps of its sequences and of the steps in flight.

use super::recurrent::QueuedCopy;
use crate::control::Guide;
use crate::model::{Gate, HostChoice, LastToken, SequenceId, SpeculativeDecoding, StepLane};
use crate::sampling::Sampling;
use crate::step::{DeviceFinish, StepKind, StepStatus};

/// A submitted step that was not waited for yet.
pub(super) struct Pending {
    /// How many steps the model has run before it, over all sequences.
    pub(super) step: u64,
    /// What it is for all of its lanes together.
    pub(super) kind: StepKind,
    /// Its lanes, in order.
    pub(super) lanes: Vec<PendingLane>,
    /// The ranges of steps that feed which lie between the step before and this one, in order; without the one that this step ends with.
    pub(super) behind: Vec<LooseRange>,
    /// The copies of recurrent states that are queued behind it.
    pub(super) copies: Vec<QueuedCopy>,
    pub(super) submitted_at_ns: u64,
    pub(super) submit_done_ns: u64,
}

/// A step that feeds of which not all ranges are submitted.
pub(super) struct Begun {
    /// Its lanes, in order.
    pub(super) lanes: Vec<StepLane>,
    /// How many of its ranges are.
    pub(super) submitted: u32,
}

/// A submitted range of a step that feeds, but the last.
pub(super) struct LooseRange {
    /// The lanes of its step, and the rows of each.
    pub(super) lanes: Vec<(usize, u32)>,
    pub(super) first: bool,
    pub(super) submit_done_ns: u64,
}

/// A lane of a submitted step.
pub(super) struct PendingLane {
    pub(super) sequence: SequenceId,
    pub(super) lane: usize,
    /// What the step is for it.
    pub(super) kind: StepKind,
    /// How many tokens of its prompt it takes in, if it feeds.
    pub(super) rows: u32,
    /// How many pages it has in the step.
    pub(super) pages: usize,
    /// How its gate was opened, if it was.
    pub(super) opened: Option<Opened>,
}

/// When and with what a gate was opened.
pub(super) struct Opened {
    pub(super) at_ns: u64,
    pub(super) with: Option<With>,
}

/// What a gate was opened with; a cancel opens it with nothing.
pub(super) enum With {
    Guide(Guide),
    HostChoice(HostChoice),
}

/// A sequence that is open in a lane.
pub(super) struct OpenSequence {
    pub(super) id: SequenceId,
    /// Its pages, in the order of positions; none if the cache has no pages.
    pub(super) pages: Vec<u32>,
    pub(super) host: HostState,
    pub(super) device: DeviceState,
}

/// The state of a sequence that the device keeps.
pub(super) struct DeviceState {
    pub(super) prompt: Vec<u32>,
    pub(super) position: u32,
    pub(super) budget: u32,
    pub(super) decoded: u32,
    pub(super) token: u32,
    pub(super) live: bool,
    pub(super) sampling: Sampling,
    pub(super) eog: Vec<u32>,
}

impl DeviceState {
    /// The input token at the present position: a prompt token, or the last sampled one.
    pub(super) fn next_input(&self) -> u32 {
        self.prompt.get(self.position as usize).copied().unwrap_or(self.token)
    }
}

/// What the host may still ask of a sequence; the contract of [`StepModel`] is checked against it.
pub(super) struct HostState {
    /// Prompt tokens that no submitted step feeds, the last one not counted.
    pub(super) feeds_left: u32,
    pub(super) decodes_left: u32,
    /// Position of the first token of the next step.
    pub(super) position: u32,
    pub(super) last_token: LastToken,
    pub(super) gate: Gate,
    pub(super) speculative: SpeculativeDecoding,
    pub(super) cancelled_at_ns: Option<u64>,
}

/// What a step did on the simulated device.
pub(super) struct Executed {
    pub(super) tokens: Vec<u32>,
    pub(super) fed: u32,
    pub(super) drafts: u32,
    pub(super) position: u32,
    pub(super) status: StepStatus,
    pub(super) finish: Option<DeviceFinish>,
}
