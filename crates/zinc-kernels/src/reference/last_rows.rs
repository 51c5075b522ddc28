//! Reference of `last_rows`.

use crate::step::{Lane, Row, StepState};

/// Makes the last rows of the prompts that end in a step its only ones, in the order of their lanes, and moves these lanes on to their last tokens. `lanes` are all
/// lanes, by number. Returns which rows they were: the residual stream of number n of them becomes that of row n.
pub fn last_rows(state: &mut StepState, lanes: &mut [Lane]) -> Vec<usize> {
    let mut last_rows = Vec::new();
    for number in state.listed.into_iter().take(state.lane_count as usize) {
        let lane = &mut lanes[number as usize];
        if lane.rows == 0 || lane.position + lane.rows < lane.prompt_length {
            continue;
        }
        let (last, first_row) = (lane.first_row + lane.rows - 1, last_rows.len() as u32);
        let Row { token, position, .. } = state.rows[last as usize];
        *lane = Lane { token, position, first_row, rows: 1, ..*lane };
        state.rows[last_rows.len()] = Row { offset: 0, token, position, lane: number };
        last_rows.push(last as usize);
    }
    state.row_count = last_rows.len() as u32;
    last_rows
}
