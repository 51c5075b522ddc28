//! Reference of `choose`: the chain from top-n-sigma to the draw.

use std::cmp::Reverse;

use super::adjust::coarse;
use super::mass::{part, part_rounded_up, weight};
use super::random::philox;
use super::sample::Candidate;
use super::shares::{Item, ShareList, order_key};
use crate::generated::sampler::{Moments, PROBABILITY_ONE, SIGMA_OFF, SamplerParams};
use crate::step::Lane;

/// What is left of the candidates at a point of the chain: by falling logit, and by rising id where logits are equal.
struct Candidates {
    items: Vec<Item>,
    /// The highest logit of all: weights are relative to it.
    top: f32,
}

impl Candidates {
    fn weight(&self, item: &Item) -> u64 {
        weight(item.logit - self.top)
    }

    fn mass(&self) -> u64 {
        self.items.iter().map(|item| self.weight(item)).sum()
    }
}

/// Chooses among the listed candidates. `logits` are those of the model, unadjusted, of which the chosen one is reported.
///
/// At least one candidate stays at every point of the chain. [`Candidate::NONE`] without any, but for the count of what is not finite.
#[must_use]
pub fn choose(
    lists: &[ShareList],
    moments: &[Moments],
    logits: &[f32],
    params: &SamplerParams,
    lane: &Lane,
) -> Candidate {
    let non_finite = lists.iter().map(|list| list.share.non_finite).sum();
    let candidates = survivors(lists, moments, params, lane);
    let best = candidates.iter().max_by_key(|item| (order_key(item.score), Reverse(item.id)));
    best.map_or(Candidate { non_finite, ..Candidate::NONE }, |item| Candidate {
        score: item.score,
        logit: logits[item.id as usize],
        id: item.id,
        non_finite,
    })
}

/// The candidates from which [`choose`] draws: by falling logit, and by rising id where logits are equal.
#[must_use]
pub fn survivors(lists: &[ShareList], moments: &[Moments], params: &SamplerParams, lane: &Lane) -> Vec<Item> {
    let mut items: Vec<Item> = lists.iter().flat_map(|list| list.items.iter().copied()).collect();
    items.sort_by_key(|item| (Reverse(order_key(item.logit)), item.id));
    let Some(first) = items.first() else { return items };
    let mut candidates = Candidates { top: first.logit, items };
    let count = lists.iter().map(|list| list.share.finite).sum();
    top_n_sigma(&mut candidates, count, moments, params);
    top_k(&mut candidates, params);
    typical(&mut candidates, params);
    top_p(&mut candidates, params);
    min_p(&mut candidates, params);
    xtc(&mut candidates, params, lane);
    candidates.items
}

/// Keeps what lies at most n standard deviations below the highest logit. (Tang et al., Top-nσ, 2024.) Compared are squares, in units of 2^-20;
/// deviations are from the mean, rounded down to units of 2^-10.
fn top_n_sigma(candidates: &mut Candidates, count: u32, moments: &[Moments], params: &SamplerParams) {
    if params.sigma_squared == SIGMA_OFF {
        return;
    }
    let sum = moments.iter().fold(0i64, |sum, share| sum + share.sum as i64);
    let squares = moments.iter().fold(0u64, |sum, share| sum + share.squares);
    let mean = sum.div_euclid(count.into());
    // The sum of (x - mean)^2 fits into 64 bits, though its terms need not.
    let cross = mean.wrapping_mul(sum).wrapping_mul(2) as u64;
    let deviations = squares.wrapping_sub(cross).wrapping_add((mean.pow(2) as u64).wrapping_mul(count.into()));
    let variance = deviations / u64::from(count);
    let n_squared = u64::from(params.sigma_squared);
    let furthest = (variance >> 16) * n_squared + (((variance & 0xffff) * n_squared) >> 16);
    let top = coarse(candidates.top);
    candidates.items.retain(|item| ((top - coarse(item.logit)) as u64).pow(2) <= furthest);
}

/// Keeps the k highest.
fn top_k(candidates: &mut Candidates, params: &SamplerParams) {
    if params.top_k != 0 {
        candidates.items.truncate(params.top_k as usize);
    }
}

/// Keeps what is nearest to the entropy in information content, until its probability exceeds p. (Meister et al., Locally typical sampling,
/// 2022.) The information content is less than the highest one's by `top - logit`, so that the entropy is less by the weighted mean of that; both
/// in units of 2^-20.
fn typical(candidates: &mut Candidates, params: &SamplerParams) {
    if params.typical >= PROBABILITY_ONE {
        return;
    }
    let below = |item: &Item| ((candidates.top - item.logit).min(2_047.0) * 1_048_576.0) as u64;
    // The products of weights and distances in two parts, so that each sum fits into 64 bits.
    let (mut high, mut low) = (0u64, 0u64);
    for item in &candidates.items {
        let weight = candidates.weight(item);
        high += (weight >> 20) * below(item);
        low += (weight & 0xf_ffff) * below(item);
    }
    let mass = candidates.mass();
    let mean = (high + (low >> 20)) / (mass >> 20);
    let mut order = candidates.items.clone();
    order.sort_by_key(|item| (below(item).abs_diff(mean), item.id));
    let kept = until(&order, part(mass, params.typical) + 1, |item| candidates.weight(item));
    let last = order[kept - 1];
    let place = |item: &Item| (below(item).abs_diff(mean), item.id);
    let last = place(&last);
    let items = candidates.items.iter().filter(|item| place(item) <= last).copied().collect();
    candidates.items = items;
}

/// Keeps the most probable until their probability is at least p. (Holtzman et al., The curious case of neural text degeneration, 2020.)
fn top_p(candidates: &mut Candidates, params: &SamplerParams) {
    if params.top_p >= PROBABILITY_ONE {
        return;
    }
    let enough = part_rounded_up(candidates.mass(), params.top_p);
    let kept = until(&candidates.items, enough, |item| candidates.weight(item));
    candidates.items.truncate(kept);
}

/// How many of the first items it takes until their weights sum to at least `enough`; at least one.
fn until(items: &[Item], enough: u64, weight: impl Fn(&Item) -> u64) -> usize {
    let mut sum = 0;
    let reached = items.iter().position(|item| {
        sum += weight(item);
        sum >= enough
    });
    reached.map_or(items.len(), |index| index + 1)
}

/// Keeps what is at least p times as probable as the most probable. (Nguyen et al., Turning up the heat: min-p sampling, 2024.)
fn min_p(candidates: &mut Candidates, params: &SamplerParams) {
    let highest = candidates.items[0].logit;
    let least = order_key((highest + params.log_min_p).min(highest));
    candidates.items.retain(|item| order_key(item.logit) >= least);
}

/// With a probability, drops all but the least probable of those that reach the threshold. (XTC, by p-e-w: oobabooga/text-generation-webui, pull
/// request 6335, 2024.)
fn xtc(candidates: &mut Candidates, params: &SamplerParams, lane: &Lane) {
    let [random, ..] = philox([0, lane.position, 1, 0], [lane.seed_low, lane.seed_high]);
    if random >> 8 >= params.xtc_probability {
        return;
    }
    let least = part_rounded_up(candidates.mass(), params.xtc_threshold);
    // Weights need not fall with the logit where that changes by a unit in the last place.
    let last = candidates.items.iter().rposition(|item| candidates.weight(item) >= least);
    if let Some(last) = last {
        candidates.items.drain(..last);
    }
}
