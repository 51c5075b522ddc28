//! Reference of `last_accepted`.

use crate::generated::lane::{FINISH_NONE, GATE_OPEN};
use crate::step::{Lane, StepState};

/// Makes the last row of a step of one lane that was accepted the row of a drafting lane, whose tokens begin with the second of `tokens`. `lane` is the step's. Returns
/// which row it is: its vector becomes that of the drafting state's row. `None` if the step has no rows, and then nothing changes.
pub fn last_accepted(state: &StepState, lane: &Lane, draft: &mut Lane, tokens: u64) -> Option<usize> {
    if state.row_count == 0 || lane.rows == 0 {
        return None;
    }
    let position = lane.position - 1;
    *draft = Lane {
        token: lane.token,
        position,
        prompt_length: 0,
        budget: u32::MAX,
        context_length: lane.context_length - 1,
        end_token_count: 0,
        finish: FINISH_NONE,
        inverse_temperature: 0.0,
        sequence: lane.sequence,
        gate: GATE_OPEN,
        tokens: tokens + 4,
        samplers: 0,
        ..*draft
    };
    let first = lane.first_row as usize;
    Some(first + (position - state.rows[first].position) as usize)
}
