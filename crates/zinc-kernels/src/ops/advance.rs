//! The end of a step: the next tokens, the state for the next step, the report to the host.

use crate::generated::advance::{Constants, KERNEL, Push};
use crate::step::{Rows, StepShape};
use crate::{Dispatch, Target};

/// Decides the next token, and those after it as far as drafts foresaw them, and moves the sequence on.
#[derive(Clone, Copy, Debug)]
pub struct Advance {
    /// The step state.
    pub state: u64,
    /// A [`StepReport`](crate::step::StepReport).
    pub report: u64,
    /// `[context + MOST_SAMPLING_ROWS]` u32: the prompt, what was sampled, and drafts behind the lane's position.
    pub tokens: u64,
    /// `[end_token_count]` u32.
    pub end_tokens: u64,
    /// u32: the sequence that the host wants stopped.
    pub cancelled: u64,
    /// `[candidate_count]` of [`CANDIDATE_BYTES`](super::CANDIDATE_BYTES).
    pub candidates: Rows,
    /// How many there are; 0 in a step that only feeds the prompt.
    pub candidate_count: u32,
    /// What counts occurrences for the penalties, where the chain of samplers chose.
    pub window: Option<PenaltyWindow>,
    /// The rows that the launch has workgroups for.
    pub shape: StepShape,
}

/// The window of the chain's penalties, which moves with each token that is sampled: the counts are those of
/// [`window_counts`](crate::reference::window_counts) up to the lane's position, before a step and after it.
#[derive(Clone, Copy, Debug)]
pub struct PenaltyWindow {
    /// [`SamplerParams`](crate::sampler::SamplerParams), which has the window's length.
    pub params: u64,
    /// `[vocabulary]` u32: not touched without penalties.
    pub counts: u64,
}

impl Advance {
    /// The launch: one workgroup.
    #[must_use]
    pub fn dispatch(&self, target: &Target) -> Dispatch {
        let candidate_count = self.candidate_count;
        let constants = Constants { workgroup: target.wide_workgroup(candidate_count), subgroup: target.subgroup };
        let (params, counts) = self.window.map_or((0, 0), |window| (window.params, window.counts));
        let push = Push {
            state: self.state,
            report: self.report,
            tokens: self.tokens,
            end_tokens: self.end_tokens,
            cancelled: self.cancelled,
            candidates: self.candidates.address,
            params,
            counts,
            candidate_count,
            rows: self.shape.rows(),
            // A step that only feeds may have more rows than there is room for candidates of.
            candidates_stride: if candidate_count == 0 { 0 } else { self.candidates.stride_in(self.shape) },
            ..Push::default()
        };
        Dispatch::new(&KERNEL, constants.values(), &push, [1, 1, 1])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Candidates of a large vocabulary are further apart than a step of the most rows could reach, if it had any.
    #[test]
    fn steps_that_feed_have_no_candidates() {
        let candidates = Rows { address: 0, stride: 1 << 30 };
        let op = Advance {
            state: 0,
            report: 0,
            tokens: 0,
            end_tokens: 0,
            cancelled: 0,
            candidates,
            candidate_count: 0,
            window: None,
            shape: StepShape::MOST,
        };
        assert_eq!(op.dispatch(&Target::new(32)).groups, [1, 1, 1].into());
    }
}
