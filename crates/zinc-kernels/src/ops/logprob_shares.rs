//! The first half of log-probabilities: each share of the vocabulary.

use super::{Batch, share_count};
use crate::generated::logprob_shares::{Constants, KERNEL, Push};
use crate::{Dispatch, Target};

/// Bytes of the shares' softmax masses, 16-byte aligned.
#[must_use]
pub fn masses_bytes(vocabulary: u32) -> u64 {
    u64::from(share_count(vocabulary)) * 8
}

/// What the two kernels of log-probabilities hand to each other, a copy of each for each token of a batch.
#[derive(Clone, Copy, Debug, Default)]
pub struct LogprobBuffers {
    /// [`items_bytes`](super::items_bytes).
    pub items: u64,
    /// [`shares_bytes`](super::shares_bytes).
    pub shares: u64,
    /// [`masses_bytes`].
    pub masses: u64,
}

/// Lists the highest logits of each share of the vocabulary, as the model gave them, and sums their softmax weights up. Beside
/// [`Adjust`](super::Adjust), and before [`Advance`](super::Advance) changes the step state.
#[derive(Clone, Copy, Debug)]
pub struct LogprobShares {
    /// The step state.
    pub state: u64,
    /// `[vocabulary]` f32.
    pub logits: u64,
    /// All are written.
    pub buffers: LogprobBuffers,
    /// Tokens.
    pub vocabulary: u32,
    /// The step's tokens, each with its own logits and buffers.
    pub batch: Batch,
}

impl LogprobShares {
    /// The launch: one workgroup a share and token of the batch.
    ///
    /// # Panics
    /// Where [`share_count`] panics.
    #[must_use]
    pub fn dispatch(&self, target: &Target) -> Dispatch {
        let constants = Constants { workgroup: target.chain_workgroup(), subgroup: target.subgroup };
        let LogprobBuffers { items, shares, masses } = self.buffers;
        let push = Push {
            state: self.state,
            logits: self.logits,
            items,
            shares,
            masses,
            vocabulary: self.vocabulary,
            stride: self.batch.stride,
        };
        let groups = self.batch.grid([share_count(self.vocabulary), 1, 1]);
        Dispatch::new(&KERNEL, constants.values(), &push, groups)
    }
}
