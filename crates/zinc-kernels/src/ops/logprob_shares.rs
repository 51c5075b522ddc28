//! The first half of log-probabilities: each share of the vocabulary.

use super::share_count;
use crate::generated::logprob_shares::{Constants, KERNEL, Push};
use crate::step::{Rows, StepShape};
use crate::{Dispatch, Target};

/// Bytes of the shares' softmax masses, 16-byte aligned.
#[must_use]
pub fn masses_bytes(vocabulary: u32) -> u64 {
    u64::from(share_count(vocabulary)) * 8
}

/// What the two kernels of log-probabilities hand to each other.
#[derive(Clone, Copy, Debug, Default)]
pub struct LogprobBuffers {
    /// [`items_bytes`](super::items_bytes).
    pub items: Rows,
    /// [`shares_bytes`](super::shares_bytes).
    pub shares: Rows,
    /// [`masses_bytes`].
    pub masses: Rows,
}

/// Lists the highest logits of each share of the vocabulary, as the model gave them, and sums their softmax weights up. Beside
/// [`Adjust`](super::Adjust), and before [`Advance`](super::Advance) changes the step state.
#[derive(Clone, Copy, Debug)]
pub struct LogprobShares {
    /// The step state.
    pub state: u64,
    /// `[vocabulary]` f32.
    pub logits: Rows,
    /// All are written.
    pub buffers: LogprobBuffers,
    /// Tokens.
    pub vocabulary: u32,
    /// The rows that the launch has workgroups for.
    pub shape: StepShape,
}

impl LogprobShares {
    /// The launch: one workgroup a share and row.
    ///
    /// # Panics
    /// Where [`share_count`] panics.
    #[must_use]
    pub fn dispatch(&self, target: &Target) -> Dispatch {
        let constants = Constants { workgroup: target.chain_workgroup(), subgroup: target.subgroup };
        let LogprobBuffers { items, shares, masses } = self.buffers;
        let push = Push {
            state: self.state,
            logits: self.logits.address,
            items: items.address,
            shares: shares.address,
            masses: masses.address,
            vocabulary: self.vocabulary,
            logits_stride: self.logits.stride_in(self.shape),
            items_stride: items.stride_in(self.shape),
            shares_stride: shares.stride_in(self.shape),
            masses_stride: masses.stride_in(self.shape),
            ..Push::default()
        };
        let groups = self.shape.grid([share_count(self.vocabulary), 1, 1]);
        Dispatch::new(&KERNEL, constants.values(), &push, groups)
    }
}
