//! Reference of `lookup`.

use std::ops::RangeInclusive;

use super::drafts::{most_drafts, set_drafts};
use crate::step::StepState;

/// Writes what followed the latest earlier place that has most of the last tokens in common, `ngrams` of them, behind the position: at most
/// `drafts` tokens. Makes these rows of the step.
pub fn lookup(state: &mut StepState, tokens: &mut [u32], ngrams: &RangeInclusive<u32>, drafts: u32) {
    if state.row_count == 0 {
        return;
    }
    let count = write_followers(state, tokens, ngrams, drafts);
    set_drafts(state, tokens, count);
}

/// Writes the drafts behind the position, and says how many there are.
fn write_followers(state: &StepState, tokens: &mut [u32], ngrams: &RangeInclusive<u32>, drafts: u32) -> u32 {
    let end = state.lane.position as usize + 1;
    let (said, behind) = tokens.split_at_mut(end);
    let longest = (*ngrams.end() as usize).min(end - 1);
    for length in (*ngrams.start() as usize..=longest).rev() {
        let suffix = &said[end - length..];
        let earlier = said[..end - 1].windows(length).rposition(|window| window == suffix);
        if let Some(at) = earlier {
            let followers = &said[at + length..];
            let count = followers.len().min(most_drafts(&state.lane, drafts) as usize);
            behind[..count].copy_from_slice(&followers[..count]);
            return count as u32;
        }
    }
    0
}
