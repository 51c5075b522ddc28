//! Reference of `propose`.

use super::drafts::{most_drafts, set_drafts};
use crate::step::{Lane, StepState};

/// Makes the drafts that were written behind the sequence's last token into rows of the step: at most `drafts`. The lane that they were made with is `draft`, and
/// stands `behind` positions behind the last of them.
pub fn propose(state: &mut StepState, draft: &Lane, behind: u32, tokens: &[u32], drafts: u32) {
    if state.row_count != 0 {
        let is_own = draft.sequence == state.lane.sequence;
        let made = if is_own { (draft.position + behind).saturating_sub(state.lane.position) } else { 0 };
        set_drafts(state, tokens, most_drafts(&state.lane, drafts).min(made));
    }
}
