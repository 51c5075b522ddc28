//! DRY: the repetitions that each token would extend.

use super::{Batch, SamplerBuffers};
use crate::generated::dry::{Constants, KERNEL, Push};
use crate::{Dispatch, Target};

/// Raises the length of each token that would extend a repetition at the end of the history. Depends on tokens only.
#[derive(Clone, Copy, Debug)]
pub struct Dry {
    /// The step state.
    pub state: u64,
    /// Of these, `params`, `tokens`, `breakers` and `tails` are read, and `dry_lengths` written.
    pub buffers: SamplerBuffers,
    /// The step's tokens, each with its own `dry_lengths`.
    pub batch: Batch,
}

impl Dry {
    /// The launch: one workgroup a token of the batch.
    #[must_use]
    pub fn dispatch(&self, target: &Target) -> Dispatch {
        let constants = Constants { workgroup: target.chain_workgroup(), subgroup: target.subgroup };
        let SamplerBuffers { params, tokens, breakers, tails, dry_lengths, .. } = self.buffers;
        let push = Push {
            state: self.state,
            params,
            tokens,
            breakers,
            tails,
            dry_lengths,
            stride: self.batch.stride,
            ..Push::default()
        };
        Dispatch::new(&KERNEL, constants.values(), &push, self.batch.grid([1, 1, 1]))
    }
}
