//! The reference of how `gate_up` selects experts from the router's logits.

use std::cmp::Ordering;

use super::ordered_sum;
use crate::ops::Weighting;

/// The ids and weights of the `used` experts with the highest logits, by falling logit. Of two equal logits the lower id comes first; NaN
/// counts as minus infinity. Terms of the softmax are added by falling logit where it is over the chosen ones, and in the order of [`ordered_sum`] where
/// it is over all: every bit is defined but those of the exponential and the division.
///
/// # Panics
/// If fewer than `used` logits are given.
#[must_use]
pub fn select_experts(logits: &[f32], used: usize, weighting: Weighting) -> Vec<(u32, f32)> {
    let key = |i: usize| if logits[i].is_nan() { f32::NEG_INFINITY } else { logits[i] };
    let mut order: Vec<usize> = (0..logits.len()).collect();
    order.sort_by(|&a, &b| key(b).partial_cmp(&key(a)).unwrap_or(Ordering::Equal));
    assert!(used <= order.len(), "choosing {used} of {} experts", order.len());
    let highest = key(order[0]);
    let weight = |i: usize| (key(i) - highest).exp();
    let total = match weighting {
        Weighting::SoftmaxOfChosen => order[..used].iter().map(|&i| weight(i)).reduce(|sum, x| sum + x).unwrap_or(0.0),
        Weighting::SoftmaxOfAll => ordered_sum(&(0..logits.len()).map(weight).collect::<Vec<f32>>()),
    };
    order[..used].iter().map(|&i| (i as u32, weight(i) / total)).collect()
}
