//! The second half of log-probabilities: what is reported of the whole vocabulary.

use super::{LogprobBuffers, PerLane, share_count};
use crate::generated::logprobs::{Constants, KERNEL, Push};
use crate::step::StepShape;
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
    /// [`LOGPROB_REPORT_BYTES`] for each lane, host-visible. For lanes of one row.
    pub reports: PerLane,
    /// Tokens.
    pub vocabulary: u32,
    /// The rows that the launch has workgroups for.
    pub shape: StepShape,
}

impl Logprobs {
    /// The launch: one workgroup a row.
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
            items: items.address,
            shares: shares.address,
            masses: masses.address,
            reports: self.reports.address,
            vocabulary: self.vocabulary,
            items_stride: items.stride_in(self.shape),
            shares_stride: shares.stride_in(self.shape),
            masses_stride: masses.stride_in(self.shape),
            report_stride: self.reports.stride,
            ..Push::default()
        };
        Dispatch::new(&KERNEL, constants.values(), &push, self.shape.grid([1, 1, 1]))
    }
}
