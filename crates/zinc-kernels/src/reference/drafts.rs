//! Drafts of what may follow the last token of a sequence: further rows of its step.

use crate::step::{Lane, StepState};

/// Whether the token behind the last one comes from the prompt. Then there are no drafts, and the rows of the step are the prompt's.
fn prompt_goes_on(lane: &Lane) -> bool {
    lane.position + 1 < lane.prompt_length
}

/// How many drafts the step may take: at most `drafts`, and no more than the budget and the context leave room for beside the step's first
/// row.
pub(super) fn most_drafts(lane: &Lane, drafts: u32) -> u32 {
    if prompt_goes_on(lane) {
        return 0;
    }
    let room = lane.budget.min(lane.context_length - lane.position);
    drafts.min(room.saturating_sub(1))
}

/// Makes the `count` tokens behind the sequence's last one rows of the step.
pub(super) fn set_drafts(state: &mut StepState, tokens: &[u32], count: u32) {
    if prompt_goes_on(&state.lane) {
        return;
    }
    let first = state.lane.position as usize;
    // The row of the last token is there.
    let first_row = state.rows[0];
    state.list(&tokens[first..=first + count as usize]);
    state.rows[0] = first_row;
}
