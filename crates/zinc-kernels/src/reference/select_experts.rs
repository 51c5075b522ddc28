//! The reference of how `gate_up` selects experts from the router's logits.

use std::cmp::Ordering;

use crate::ops::Weighting;

/// The ids and weights of the `used` experts with the highest logits, by falling logit. Of two equal logits the lower id comes first; NaN
/// counts as minus infinity.
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
    let over = match weighting {
        Weighting::SoftmaxOfChosen => &order[..used],
        Weighting::SoftmaxOfAll => &order[..],
    };
    let total: f32 = over.iter().map(|&i| weight(i)).sum();
    order[..used].iter().map(|&i| (i as u32, weight(i) / total)).collect()
}
