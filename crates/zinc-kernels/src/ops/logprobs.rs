//! The second half of log-probabilities: what is reported of the whole vocabulary.

use super::{Batch, LogprobBuffers, share_count};
use crate::generated::logprobs::{Constants, KERNEL, Push};
use crate::{Dispatch, Target};

/// Bytes of a [`LogprobReport`](crate::generated::logprob_report::LogprobReport).
pub const LOGPROB_REPORT_BYTES: u32 = crate::generated::logprob_report::LOGPROB_REPORT_BYTES;

/// Reports the highest logits in order, and the softmax mass. After [`LogprobShares`](super::LogprobShares), beside
/// [`Choose`](super::Choose), and before [`Advance`](super::Advance) changes the step state.
#[derive(Clone, Copy, Debug)]
pub struct Logprobs {
    /// The step state.
    pub state: u64,
    /// All are read.
    pub buffers: LogprobBuffers,
    /// [`LOGPROB_REPORT_BYTES`] for each token of the batch, host-visible.
    pub report: u64,
    /// Tokens.
    pub vocabulary: u32,
    /// The step's tokens, each with its own buffers.
    pub batch: Batch,
}

impl Logprobs {
    /// The launch: one workgroup a token of the batch.
    ///
    /// # Panics
    /// Where [`share_count`] panics.
    #[must_use]
    pub fn dispatch(&self, target: &Target) -> Dispatch {
        let _ = share_count(self.vocabulary);
        let constants = Constants {
            workgroup: target.chain_workgroup(),
            subgroup: target.subgroup,
            at_a_time: target.tuning.candidates_at_a_time,
        };
        let LogprobBuffers { items, shares, masses } = self.buffers;
        let push = Push {
            state: self.state,
            items,
            shares,
            masses,
            report: self.report,
            vocabulary: self.vocabulary,
            stride: self.batch.stride,
        };
        Dispatch::new(&KERNEL, constants.values(), &push, self.batch.grid([1, 1, 1]))
    }
}
