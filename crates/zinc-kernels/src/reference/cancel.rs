//! Reference of `cancel`.

use crate::generated::lane::FINISH_CANCELLED;
use crate::step::StepState;

/// Ends the step and its sequence if `cancelled`, the sequence that the host wants stopped, is that of the lane.
pub fn cancel(state: &mut StepState, cancelled: u32) {
    if state.row_count != 0 && cancelled == state.lane.sequence {
        state.row_count = 0;
        state.lane.rows = 0;
        state.lane.finish = FINISH_CANCELLED;
    }
}
