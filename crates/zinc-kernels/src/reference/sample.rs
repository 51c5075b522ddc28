//! Reference of `sample`.

use super::random::{gumbel, philox};
use crate::generated::candidates::NO_ID;
use crate::step::Lane;

/// The best of a set of ids.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
pub struct Candidate {
    /// What was compared: the logit, or logit / temperature plus noise.
    pub score: f32,
    /// The logit.
    pub logit: f32,
    /// The id, or [`NO_ID`].
    pub id: u32,
    /// Logits of the set that are NaN or plus infinity.
    pub non_finite: u32,
}

impl Candidate {
    /// The best of no ids.
    pub const NONE: Self = Self { score: 0.0, logit: 0.0, id: NO_ID, non_finite: 0 };

    /// The better of two by score, the lower id where they are equal.
    #[must_use]
    pub fn better(self, other: Self) -> Self {
        let non_finite = self.non_finite + other.non_finite;
        let take_other = other.id != NO_ID
            && (self.id == NO_ID || other.score > self.score || (other.score == self.score && other.id < self.id));
        Self { non_finite, ..if take_other { other } else { self } }
    }
}

/// The best id of each share of `share` logits, by the temperature, seed and position in `lane`. `share` is a multiple of 4.
#[must_use]
pub fn sample(logits: &[f32], lane: &Lane, share: usize) -> Vec<Candidate> {
    let mut shares = Vec::with_capacity(logits.len().div_ceil(share));
    for (index, logits) in logits.chunks(share).enumerate() {
        let mut best = Candidate::NONE;
        for (offset, &logit) in logits.iter().enumerate() {
            let id = (index * share + offset) as u32;
            let own = if logit.is_nan() || logit == f32::INFINITY {
                Candidate { non_finite: 1, ..Candidate::NONE }
            } else {
                Candidate { score: score(logit, id, lane), logit, id, non_finite: 0 }
            };
            best = best.better(own);
        }
        shares.push(best);
    }
    shares
}

/// The best of all logits.
#[must_use]
pub fn sample_best(logits: &[f32], lane: &Lane) -> Candidate {
    sample(logits, lane, logits.len().next_multiple_of(4).max(4)).into_iter().fold(Candidate::NONE, Candidate::better)
}

/// What the draw compares: the logit, or logit / temperature plus noise.
pub(super) fn score(logit: f32, id: u32, lane: &Lane) -> f32 {
    if lane.inverse_temperature == 0.0 {
        return logit;
    }
    let random = philox([id / 4, lane.position, 0, 0], [lane.seed_low, lane.seed_high]);
    logit * lane.inverse_temperature + gumbel(random[(id % 4) as usize])
}
