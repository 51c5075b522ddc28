//! Reference of `adjust`.

use super::sample::score;
use super::shares::{ShareList, list_shares};
use crate::generated::sampler::{Bias, Moments, SamplerParams};
use crate::generated::shares::SHARE_IDS;
use crate::sampler::SamplerTables;
use crate::step::Lane;

/// What the host says of one step.
#[derive(Clone, Copy, Debug, Default)]
pub struct StepLimits<'a> {
    /// A bit for each token, lowest bits of the words first: 1 is allowed. `None`: all are.
    pub mask: Option<&'a [u32]>,
    /// By id, no id twice.
    pub biases: &'a [Bias],
}

/// What is known of the history when a token is sampled: of each token of the vocabulary.
#[derive(Clone, Copy, Debug, Default)]
pub struct HistoryCounts<'a> {
    /// Occurrences in the window of the penalties: see [`window_counts`]. Not read without penalties.
    pub occurrences: &'a [u32],
    /// What [`dry`](super::dry) gives. Not read without DRY.
    pub dry_lengths: &'a [u32],
}

/// Occurrences of each token of the vocabulary in the last `window` tokens of the history.
#[must_use]
pub fn window_counts(history: &[u32], window: u32, vocabulary: u32) -> Vec<u32> {
    let mut counts = vec![0; vocabulary as usize];
    for token in &history[history.len() - history.len().min(window as usize)..] {
        counts[*token as usize] += 1;
    }
    counts
}

/// The logits after biases, penalties and DRY. Minus infinity are those of tokens that the step does not allow; NaN those that are not finite
/// before or after.
#[must_use]
pub fn adjusted(
    logits: &[f32],
    history: HistoryCounts<'_>,
    limits: StepLimits<'_>,
    tables: &SamplerTables,
) -> Vec<f32> {
    let SamplerParams { penalty_window, repeat, inverse_repeat, frequency, presence, dry_window, .. } = tables.params;
    let mut values: Vec<f32> = logits.iter().map(|logit| flushed(*logit)).collect();
    for Bias { id, bias } in tables.biases.iter().chain(limits.biases) {
        values[*id as usize] = flushed(values[*id as usize] + bias);
    }
    for (id, value) in values.iter_mut().enumerate() {
        if penalty_window != 0 && history.occurrences[id] != 0 {
            *value = flushed(*value * if *value > 0.0 { inverse_repeat } else { repeat });
            *value = flushed(*value - (history.occurrences[id] as f32 * frequency + presence));
        }
        if dry_window != 0 && history.dry_lengths[id] != 0 {
            let excess = history.dry_lengths[id] - 1 - tables.params.dry_allowed_length;
            *value = flushed(*value - tables.dry_penalties[excess as usize]);
        }
        if is_broken(logits[id]) || is_broken(*value) {
            *value = f32::NAN;
        } else if limits.mask.is_some_and(|mask| mask[id / 32] >> (id % 32) & 1 == 0) {
            *value = f32::NEG_INFINITY;
        }
    }
    values
}

/// NaN and plus infinity.
pub(super) fn is_broken(value: f32) -> bool {
    value.is_nan() || value == f32::INFINITY
}

/// Subnormal numbers as zero, which some devices do not tell apart, and so the negative zero.
pub(super) fn flushed(value: f32) -> f32 {
    if value.abs() < f32::MIN_POSITIVE { 0.0 } else { value }
}

/// Adjusts the logits and lists the candidates by shares.
#[must_use]
pub fn adjust(
    logits: &[f32],
    history: HistoryCounts<'_>,
    limits: StepLimits<'_>,
    tables: &SamplerTables,
    lane: &Lane,
) -> (Vec<ShareList>, Vec<Moments>) {
    let values = adjusted(logits, history, limits, tables);
    let lists = list_shares(&values, tables.params.top_k, |id, logit| score(logit, id, lane));
    (lists, values.chunks(SHARE_IDS as usize).map(moments).collect())
}

/// A logit in units of 2^-10, for top-n-sigma.
pub(super) fn coarse(logit: f32) -> i64 {
    (logit.clamp(-4_096.0, 4_096.0) * 1_024.0) as i64
}

fn moments(values: &[f32]) -> Moments {
    let candidates = values.iter().filter(|value| value.is_finite()).map(|value| coarse(*value));
    candidates.fold(Moments::default(), |moments, x| Moments {
        sum: moments.sum.wrapping_add(x as u64),
        squares: moments.squares + (x * x) as u64,
    })
}
