//! Reference of `cancel`.

use crate::generated::lane::FINISH_CANCELLED;
use crate::step::{Lane, StepState};

/// Ends the sequences of the step that the host wants stopped: `cancelled` holds their numbers, by lane, as `lanes` holds all lanes. A lane that has ended has no
/// rows from here on; once none has any, the step has none.
pub fn cancel(state: &mut StepState, lanes: &mut [Lane], cancelled: &[u32]) {
    if state.row_count == 0 {
        return;
    }
    let listed = &state.listed[..state.lane_count as usize];
    for number in listed.iter().map(|number| *number as usize) {
        let lane = &mut lanes[number];
        if lane.rows != 0 && cancelled[number] == lane.sequence {
            (lane.rows, lane.finish) = (0, FINISH_CANCELLED);
        }
    }
    if listed.iter().all(|number| lanes[*number as usize].rows == 0) {
        state.row_count = 0;
    }
}
