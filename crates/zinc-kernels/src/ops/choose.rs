//! The second half of the sampler chain: the candidate that is drawn.

use super::{Batch, SamplerBuffers, share_count};
use crate::generated::choose::{Constants, KERNEL, Push};
use crate::{Dispatch, Target};

/// Chooses among the candidates that [`Adjust`](super::Adjust) listed.
#[derive(Clone, Copy, Debug)]
pub struct Choose {
    /// The step state.
    pub state: u64,
    /// `[vocabulary]` f32, as the model gave them: the chosen one is reported.
    pub logits: u64,
    /// Of these, `params`, `items`, `shares` and `moments` are read.
    pub buffers: SamplerBuffers,
    /// One candidate of [`CANDIDATE_BYTES`](super::CANDIDATE_BYTES).
    pub candidates: u64,
    /// Tokens.
    pub vocabulary: u32,
    /// The step's tokens, each with its own logits, items, shares, moments and candidates.
    pub batch: Batch,
}

impl Choose {
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
        let SamplerBuffers { params, items, shares, moments, .. } = self.buffers;
        let push = Push {
            state: self.state,
            logits: self.logits,
            params,
            items,
            shares,
            moments,
            candidates: self.candidates,
            vocabulary: self.vocabulary,
            stride: self.batch.stride,
        };
        Dispatch::new(&KERNEL, constants.values(), &push, self.batch.grid([1, 1, 1]))
    }
}
