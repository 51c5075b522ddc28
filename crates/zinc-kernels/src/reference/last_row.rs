//! Reference of `last_row`.

use crate::step::StepState;

/// Makes the last row of a step its only one, and moves the lane on to its token. Returns which row it was, whose residual stream becomes that of the
/// first; `None` if the step has no rows.
pub fn last_row(state: &mut StepState) -> Option<usize> {
    let last = (state.row_count as usize).checked_sub(1)?;
    let row = state.rows[last];
    state.lane.token = row.token;
    state.lane.position = row.position;
    state.list(&[row.token]);
    Some(last)
}
