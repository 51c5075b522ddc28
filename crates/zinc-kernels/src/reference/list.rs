//! Reference of `list`.

use crate::generated::lane::{FINISH_CANCELLED, FINISH_NONE};
use crate::step::{Lane, MOST_ROWS, Row, StepLanes, StepState, WantedLane};

/// Lists the lanes that are wanted, and their rows, and enters the pages that they get into `tables`, those of the pages of all lanes.
///
/// `lanes` are all lanes, by number; `tokens` gives the token of a lane, by its number, at a position. `cancelled` holds for each lane the sequence that the
/// host wants stopped. Where the sequence of `leader` has ended, no lane has rows.
pub fn list(
    state: &mut StepState,
    lanes: &mut [Lane],
    tables: &mut [u32],
    wanted: &StepLanes,
    cancelled: &[u32],
    leader: Option<&Lane>,
    tokens: impl Fn(u32, u32) -> u32,
) {
    for grown in &wanted.grown[..wanted.grown_count as usize] {
        tables[grown.entry as usize] = grown.page;
    }
    let led = leader.is_none_or(|leader| leader.finish == FINISH_NONE);
    (state.row_count, state.lane_count) = (0, wanted.count);
    for (place, &WantedLane { lane: number, rows }) in wanted.lanes[..wanted.count as usize].iter().enumerate() {
        state.listed[place] = number;
        let lane = &mut lanes[number as usize];
        let mut live = lane.finish == FINISH_NONE;
        if live && cancelled[number as usize] == lane.sequence {
            lane.finish = FINISH_CANCELLED;
            live = false;
        }
        let left = lane.prompt_length.saturating_sub(lane.position);
        lane.first_row = state.row_count;
        let rows = left.min(rows.clamp(1, MOST_ROWS)).max(1).min(MOST_ROWS - state.row_count);
        lane.rows = if live && led { rows } else { 0 };
        for offset in 0..lane.rows {
            let position = lane.position + offset;
            let token = if offset == 0 { lane.token } else { tokens(number, position) };
            state.rows[state.row_count as usize] = Row { offset, token, position, lane: number };
            state.row_count += 1;
        }
    }
}
