//! The end of a step: the next token, the state for the next step, the report to the host.

use super::candidate_count;
use crate::generated::advance::{Constants, KERNEL, Push};
use crate::{Dispatch, Target};

/// Decides the next token and moves the sequence on.
#[derive(Clone, Copy, Debug)]
pub struct Advance {
    /// The step state.
    pub state: u64,
    /// A [`StepReport`](crate::generated::state::StepReport).
    pub report: u64,
    /// `[context]` u32.
    pub prompt: u64,
    /// `[end_token_count]` u32.
    pub end_tokens: u64,
    /// u32: the sequence that the host wants stopped.
    pub cancelled: u64,
    /// Where [`Sample`](super::Sample) left its candidates.
    pub candidates: u64,
    /// Ids that were sampled from, or `None` in a step that only feeds the prompt.
    pub vocabulary: Option<u32>,
}

impl Advance {
    /// The launch: one workgroup.
    #[must_use]
    pub fn dispatch(&self, target: &Target) -> Dispatch {
        let candidate_count = self.vocabulary.map_or(0, candidate_count);
        let constants = Constants { workgroup: target.wide_workgroup(candidate_count), subgroup: target.subgroup };
        let push = Push {
            state: self.state,
            report: self.report,
            prompt: self.prompt,
            end_tokens: self.end_tokens,
            cancelled: self.cancelled,
            candidates: self.candidates,
            candidate_count,
            ..Push::default()
        };
        Dispatch::new(&KERNEL, constants.values(), &push, [1, 1, 1])
    }
}
