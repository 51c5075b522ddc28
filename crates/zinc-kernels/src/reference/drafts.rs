//! How many drafts a step may take.

use crate::generated::state::StepState;

/// At most `drafts`, no more than the budget and the context leave room for beside the step's first token, and none while the prompt goes on.
pub(super) fn most_drafts(state: &StepState, drafts: u32) -> u32 {
    if state.position + 1 < state.prompt_length {
        return 0;
    }
    let room = state.budget.min(state.context_length - state.position);
    drafts.min(room.saturating_sub(1))
}
