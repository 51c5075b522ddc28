//! The whole chain on the host.

use super::adjust::{HistoryCounts, StepLimits, adjust, window_counts};
use super::choose::choose;
use super::dry::dry;
use super::sample::Candidate;
use crate::sampler::SamplerTables;
use crate::step::Lane;

/// Draws a token as `dry`, `adjust` and `choose` do: the same one from the same logits.
///
/// `history` is the prompt and what was sampled, up to and including the token at the lane's position, whose logits are given. The lane's
/// temperature, seed and position count.
#[must_use]
pub fn draw(logits: &[f32], history: &[u32], limits: StepLimits<'_>, tables: &SamplerTables, lane: &Lane) -> Candidate {
    let vocabulary = logits.len() as u32;
    let occurrences = window_counts(history, tables.params.penalty_window, vocabulary);
    let dry_lengths = dry(history, tables, vocabulary);
    let counts = HistoryCounts { occurrences: &occurrences, dry_lengths: &dry_lengths };
    let (lists, moments) = adjust(logits, counts, limits, tables, lane);
    choose(&lists, &moments, logits, &tables.params, lane)
}
