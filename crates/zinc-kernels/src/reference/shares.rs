//! The vocabulary by shares, as `shaders/include/shares.glsl` lists it.

use crate::generated::shares::{SHARE_IDS, SOME, Share};

/// A token that may be chosen.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Item {
    /// Its id.
    pub id: u32,
    /// Its logit, adjusted.
    pub logit: f32,
    /// What is compared when one is drawn.
    pub score: f32,
}

/// A share of the vocabulary: its summary and its list.
#[derive(Clone, Debug, PartialEq)]
pub struct ShareList {
    /// The summary.
    pub share: Share,
    /// The list, by rising id.
    pub items: Vec<Item>,
}

/// Floats as integers of the same order, both zeros alike. Not for NaN.
#[must_use]
pub fn order_key(value: f32) -> u32 {
    let bits = (value + 0.0).to_bits();
    if bits >> 31 == 0 { bits | 1 << 31 } else { !bits }
}

/// How far below the highest logit of its share a logit lies, in 256 steps: 16 to a factor of two, from 2^-8 to 2^8.
fn step_below(highest: f32, logit: f32) -> u32 {
    (((highest - logit).to_bits() >> 19).max(1_904) - 1_904).min(255)
}

/// Lists the candidates, those that are neither NaN nor infinite, of each share of the values. With a limit other than 0 a list is cut at the step
/// at which it has so many.
pub(super) fn list_shares(values: &[f32], limit: u32, score: impl Fn(u32, f32) -> f32) -> Vec<ShareList> {
    let list = |(index, values): (usize, &[f32])| {
        let first = index as u32 * SHARE_IDS;
        let candidates = || (first..).zip(values.iter().copied()).filter(|(_, logit)| logit.is_finite());
        let highest = candidates().map(|(_, logit)| logit).fold(f32::NEG_INFINITY, f32::max);
        let finite = candidates().count() as u32;
        let mut steps: Vec<u32> = candidates().map(|(_, logit)| step_below(highest, logit)).collect();
        steps.sort_unstable();
        let step_of = |count: u32| steps.get(count as usize - 1).copied().unwrap_or(255);
        let last_step = if limit != 0 && limit < finite { step_of(limit) } else { 255 };
        let items: Vec<Item> = candidates()
            .filter(|(_, logit)| step_below(highest, *logit) <= last_step)
            .map(|(id, logit)| Item { id, logit, score: score(id, logit) })
            .collect();
        let listed = items.len() as u32;
        let least_of = |last_step: u32, enough: bool| {
            let within = items.iter().filter(|item| enough && step_below(highest, item.logit) <= last_step);
            within.map(|item| order_key(item.logit)).min().unwrap_or(0)
        };
        let share = Share {
            finite,
            non_finite: values.iter().filter(|value| value.is_nan()).count() as u32,
            highest: if finite == 0 { 0 } else { order_key(highest) },
            some: least_of(step_of(SOME), listed >= SOME),
            least: least_of(255, limit != 0 && listed >= limit),
            listed,
        };
        ShareList { share, items }
    };
    values.chunks(SHARE_IDS as usize).enumerate().map(list).collect()
}
