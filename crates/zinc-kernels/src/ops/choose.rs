//! The second half of the sampler chain: the candidate that is drawn.

use super::{SamplerBuffers, share_count};
use crate::generated::choose::{Constants, KERNEL, Push};
use crate::step::{Rows, StepShape};
use crate::{Dispatch, Target};

/// Chooses among the candidates that [`Adjust`](super::Adjust) listed.
#[derive(Clone, Copy, Debug)]
pub struct Choose {
    /// The step state.
    pub state: u64,
    /// `[vocabulary]` f32, as the model gave them: the chosen one is reported.
    pub logits: Rows,
    /// Of these, `items`, `shares` and `moments` are read.
    pub buffers: SamplerBuffers,
    /// One candidate of [`CANDIDATE_BYTES`](super::CANDIDATE_BYTES).
    pub candidates: Rows,
    /// Tokens.
    pub vocabulary: u32,
    /// The rows that the launch has workgroups for.
    pub shape: StepShape,
}

impl Choose {
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
        let SamplerBuffers { items, shares, moments, .. } = self.buffers;
        let push = Push {
            state: self.state,
            logits: self.logits.address,
            items: items.address,
            shares: shares.address,
            moments: moments.address,
            candidates: self.candidates.address,
            vocabulary: self.vocabulary,
            logits_stride: self.logits.stride_in(self.shape),
            items_stride: items.stride_in(self.shape),
            shares_stride: shares.stride_in(self.shape),
            moments_stride: moments.stride_in(self.shape),
            candidates_stride: self.candidates.stride_in(self.shape),
        };
        Dispatch::new(&KERNEL, constants.values(), &push, self.shape.grid([1, 1, 1]))
    }
}
