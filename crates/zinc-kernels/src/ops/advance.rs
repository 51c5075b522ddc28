//! The end of a step: the next tokens, how far the lanes have come, the reports to the host.

use super::PerLane;
use crate::generated::advance::{Constants, KERNEL, Push};
use crate::step::{Rows, StepShape};
use crate::{Dispatch, Target};

/// Decides the next token of each lane, and those after it as far as drafts foresaw them, and moves the sequences on.
#[derive(Clone, Copy, Debug)]
pub struct Advance {
    /// The step state.
    pub state: u64,
    /// A [`StepReport`](crate::step::StepReport) of each lane.
    pub reports: PerLane,
    /// `[lanes]` u32: for each lane the sequence that the host wants stopped.
    pub cancelled: u64,
    /// `[candidate_count]` of [`CANDIDATE_BYTES`](super::CANDIDATE_BYTES).
    pub candidates: Rows,
    /// How many there are; 0 in a step that only feeds the prompt.
    pub candidate_count: u32,
    /// One candidate of each lane whose tokens the host chooses.
    pub choices: PerLane,
    /// The most lanes of the step.
    pub lanes: u32,
    /// The most rows of the step.
    pub shape: StepShape,
}

impl Advance {
    /// The launch: one workgroup a lane.
    #[must_use]
    pub fn dispatch(&self, target: &Target) -> Dispatch {
        let candidate_count = self.candidate_count;
        let constants = Constants { workgroup: target.wide_workgroup(candidate_count), subgroup: target.subgroup };
        let push = Push {
            state: self.state,
            reports: self.reports.address,
            cancelled: self.cancelled,
            candidates: self.candidates.address,
            choices: self.choices.address,
            candidate_count,
            report_stride: self.reports.stride,
            // A step that only feeds may have more rows than there is room for candidates of.
            candidates_stride: if candidate_count == 0 { 0 } else { self.candidates.stride_in(self.shape) },
            choice_stride: self.choices.stride,
        };
        Dispatch::new(&KERNEL, constants.values(), &push, [1, 1, self.lanes])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Candidates of a large vocabulary are further apart than a step of the most rows could reach, if it had any.
    #[test]
    fn steps_that_feed_have_no_candidates() {
        let op = Advance {
            state: 0,
            reports: PerLane::default(),
            cancelled: 0,
            candidates: Rows { address: 0, stride: 1 << 30 },
            candidate_count: 0,
            choices: PerLane::default(),
            lanes: 1,
            shape: StepShape::MOST,
        };
        assert_eq!(op.dispatch(&Target::new(32)).groups, [1, 1, 1].into());
    }
}
