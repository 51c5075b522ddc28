//! The first half of the sampler chain: adjusted logits, listed by shares.

use super::{PerLane, SamplerBuffers};
use crate::generated::adjust::{Constants, KERNEL, Push};
use crate::generated::sampler::{BIAS_BYTES, MAX_STEP_BIASES, MOMENTS_BYTES, STEP_INPUT_BYTES};
use crate::generated::shares::{MAX_SHARES, SHARE_BYTES, SHARE_IDS};
use crate::step::{Rows, StepShape};
use crate::{Dispatch, Target};

/// The largest vocabulary that the chain can choose from.
pub const MAX_CHAIN_VOCABULARY: u32 = MAX_SHARES * SHARE_IDS;

/// Shares of a vocabulary.
///
/// # Panics
/// If the vocabulary is empty or has more than [`MAX_CHAIN_VOCABULARY`] tokens.
#[must_use]
pub fn share_count(vocabulary: u32) -> u32 {
    assert!(
        (1..=MAX_CHAIN_VOCABULARY).contains(&vocabulary),
        "the sampler chain chooses from 1 to {MAX_CHAIN_VOCABULARY} tokens, not from {vocabulary}"
    );
    vocabulary.div_ceil(SHARE_IDS)
}

/// Bytes of the lists of candidates, 16-byte aligned.
#[must_use]
pub fn items_bytes(vocabulary: u32) -> u64 {
    u64::from(share_count(vocabulary)) * u64::from(SHARE_IDS) * 12
}

/// Bytes of the shares' summaries, [`Share`](crate::generated::shares::Share) each, 16-byte aligned.
#[must_use]
pub fn shares_bytes(vocabulary: u32) -> u64 {
    u64::from(share_count(vocabulary)) * u64::from(SHARE_BYTES)
}

/// Bytes of the shares' [`Moments`](crate::generated::sampler::Moments), 16-byte aligned.
#[must_use]
pub fn moments_bytes(vocabulary: u32) -> u64 {
    u64::from(share_count(vocabulary)) * u64::from(MOMENTS_BYTES)
}

/// Where the words of the mask begin in what the host says of a step, in bytes: behind a [`StepInput`](crate::generated::sampler::StepInput) and
/// the biases of the step.
pub const STEP_MASK_OFFSET: u32 = STEP_INPUT_BYTES + MAX_STEP_BIASES * BIAS_BYTES;

/// Bytes of what the host says of a step.
#[must_use]
pub fn step_input_bytes(vocabulary: u32) -> u64 {
    u64::from(STEP_MASK_OFFSET) + u64::from(vocabulary.div_ceil(32)) * 4
}

/// Adjusts the logits by biases, penalties and DRY, and lists the candidates of each share of the vocabulary.
#[derive(Clone, Copy, Debug)]
pub struct Adjust {
    /// The step state.
    pub state: u64,
    /// `[vocabulary]` f32.
    pub logits: Rows,
    /// Of these, `items`, `shares` and `moments` are written, and `dry_lengths` cleared.
    pub buffers: SamplerBuffers,
    /// What the host says of this step to each lane that it guides, [`step_input_bytes`]. For lanes of one row.
    pub step_inputs: PerLane,
    /// Tokens.
    pub vocabulary: u32,
    /// The rows that the launch has workgroups for.
    pub shape: StepShape,
}

impl Adjust {
    /// The launch: one workgroup a share and row.
    ///
    /// # Panics
    /// Where [`share_count`] panics.
    #[must_use]
    pub fn dispatch(&self, target: &Target) -> Dispatch {
        let constants = Constants { workgroup: target.chain_workgroup(), subgroup: target.subgroup };
        let SamplerBuffers { dry_lengths, items, shares, moments } = self.buffers;
        let push = Push {
            state: self.state,
            logits: self.logits.address,
            dry_lengths: dry_lengths.address,
            step_inputs: self.step_inputs.address,
            items: items.address,
            shares: shares.address,
            moments: moments.address,
            vocabulary: self.vocabulary,
            logits_stride: self.logits.stride_in(self.shape),
            dry_lengths_stride: dry_lengths.stride_in(self.shape),
            step_input_stride: self.step_inputs.stride,
            items_stride: items.stride_in(self.shape),
            shares_stride: shares.stride_in(self.shape),
            moments_stride: moments.stride_in(self.shape),
            ..Push::default()
        };
        let groups = self.shape.grid([share_count(self.vocabulary), 1, 1]);
        Dispatch::new(&KERNEL, constants.values(), &push, groups)
    }
}
