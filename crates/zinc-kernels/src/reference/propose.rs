//! Reference of `propose`.

use super::drafts::most_drafts;
use crate::generated::state::StepState;

/// Gives the step in `state` the drafts that a draft model, whose state is `draft`, has made behind its position: at most `drafts`.
pub fn propose(state: &mut StepState, draft: &StepState, drafts: u32) {
    if state.live != 0 {
        state.live = 1 + most_drafts(state, drafts).min(draft.position.saturating_sub(state.position));
    }
}
