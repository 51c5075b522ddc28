//! DRY: the repetitions that each token would extend.

use super::SamplerBuffers;
use crate::generated::dry::{Constants, KERNEL, Push};
use crate::step::StepShape;
use crate::{Dispatch, Target};

/// Raises the length of each token that would extend a repetition at the end of the history. Depends on tokens only.
#[derive(Clone, Copy, Debug)]
pub struct Dry {
    /// The step state.
    pub state: u64,
    /// Of these, `dry_lengths` is written.
    pub buffers: SamplerBuffers,
    /// The rows that the launch has workgroups for.
    pub shape: StepShape,
}

impl Dry {
    /// The launch: one workgroup a row.
    #[must_use]
    pub fn dispatch(&self, target: &Target) -> Dispatch {
        let constants = Constants { workgroup: target.chain_workgroup(), subgroup: target.subgroup };
        let SamplerBuffers { dry_lengths, .. } = self.buffers;
        let push = Push {
            state: self.state,
            dry_lengths: dry_lengths.address,
            dry_lengths_stride: dry_lengths.stride_in(self.shape),
            ..Push::default()
        };
        Dispatch::new(&KERNEL, constants.values(), &push, self.shape.grid([1, 1, 1]))
    }
}
