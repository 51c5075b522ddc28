//! The first half of sampling: the best candidate of each share of the vocabulary.

use crate::generated::sample::{Constants, KERNEL, Push};
use crate::step::{Rows, StepShape};
use crate::{Dispatch, Target};

/// Bytes of one candidate.
pub const CANDIDATE_BYTES: u32 = crate::generated::candidates::CANDIDATE_BYTES;

/// Ids that one workgroup looks at.
const SHARE: u32 = 1_024;

/// Candidates that sampling a vocabulary leaves: one a workgroup.
#[must_use]
pub fn candidate_count(vocabulary: u32) -> u32 {
    vocabulary.div_ceil(SHARE)
}

/// Finds the best of each share of the vocabulary, by the temperature and seed in the step state.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    /// The step state.
    pub state: u64,
    /// `[vocabulary]` f32.
    pub logits: Rows,
    /// [`candidate_count`] candidates of [`CANDIDATE_BYTES`].
    pub candidates: Rows,
    /// Ids.
    pub vocabulary: u32,
    /// The rows that the launch has workgroups for.
    pub shape: StepShape,
}

impl Sample {
    /// The launch: one workgroup a share.
    #[must_use]
    pub fn dispatch(&self, target: &Target) -> Dispatch {
        let constants = Constants { workgroup: target.wide_workgroup(SHARE / 4), subgroup: target.subgroup };
        let push = Push {
            state: self.state,
            logits: self.logits.address,
            candidates: self.candidates.address,
            vocabulary: self.vocabulary,
            share: SHARE,
            logits_stride: self.logits.stride_in(self.shape),
            candidates_stride: self.candidates.stride_in(self.shape),
        };
        let grid @ [_, y, _] = target.grid(candidate_count(self.vocabulary));
        assert!(y == 1, "a vocabulary of {} ids exceeds one row of workgroups", self.vocabulary);
        Dispatch::new(&KERNEL, constants.values(), &push, self.shape.grid(grid))
    }
}
