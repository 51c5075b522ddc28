//! Reference of `propose`.

use super::drafts::{most_drafts, set_drafts};
use crate::step::{Lane, StepState};

/// Makes the drafts that a draft model, whose lane is `draft`, has written behind the sequence's last token into rows of the step: at most `drafts`.
pub fn propose(state: &mut StepState, draft: &Lane, tokens: &[u32], drafts: u32) {
    if state.row_count != 0 {
        let made = draft.position.saturating_sub(state.lane.position);
        set_drafts(state, tokens, most_drafts(&state.lane, drafts).min(made));
    }
}
