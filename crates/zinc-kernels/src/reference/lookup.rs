//! Reference of `lookup`.

use std::ops::RangeInclusive;

use super::drafts::most_drafts;
use crate::generated::state::StepState;

/// Writes what followed the latest earlier place that has most of the last tokens in common, `ngrams` of them, behind the position: at most
/// `drafts` tokens. Gives the step in `state` so many more.
pub fn lookup(state: &mut StepState, tokens: &mut [u32], ngrams: &RangeInclusive<u32>, drafts: u32) {
    if state.live == 0 {
        return;
    }
    state.live = 1;
    let end = state.position as usize + 1;
    let (said, behind) = tokens.split_at_mut(end);
    let longest = (*ngrams.end() as usize).min(end - 1);
    for length in (*ngrams.start() as usize..=longest).rev() {
        let suffix = &said[end - length..];
        let earlier = said[..end - 1].windows(length).rposition(|window| window == suffix);
        if let Some(at) = earlier {
            let followers = &said[at + length..];
            let count = followers.len().min(most_drafts(state, drafts) as usize);
            behind[..count].copy_from_slice(&followers[..count]);
            state.live += count as u32;
            return;
        }
    }
}
