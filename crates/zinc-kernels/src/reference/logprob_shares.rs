//! Reference of `logprob_shares`.

use super::adjust::{flushed, is_broken};
use super::mass::weight;
use super::shares::{ShareList, list_shares};
use crate::generated::logprob_report::TOP_LOGPROBS;
use crate::generated::shares::SHARE_IDS;

/// The lists of the highest logits of each share of the vocabulary, and the shares' softmax masses, each relative to its own highest logit.
/// Scores are the logits.
#[must_use]
pub fn logprob_shares(logits: &[f32]) -> (Vec<ShareList>, Vec<u64>) {
    let values: Vec<f32> =
        logits.iter().map(|logit| if is_broken(*logit) { f32::NAN } else { flushed(*logit) }).collect();
    let mass = |values: &[f32]| {
        let finite = || values.iter().copied().filter(|value| value.is_finite());
        let highest = finite().fold(f32::NEG_INFINITY, f32::max);
        finite().map(|value| weight(value - highest)).sum()
    };
    let lists = list_shares(&values, TOP_LOGPROBS, |_, logit| logit);
    (lists, values.chunks(SHARE_IDS as usize).map(mass).collect())
}
