//! The token behind that of a row.

use crate::step::{Lane, Row};

/// The token behind that of a row, as the prompt or the step itself says it once it has ended. `tokens` are those of the row's lane. A row behind which none is
/// known yet has its own token: the last one of a prompt that is fed, and those of drafts that were not accepted.
#[must_use]
pub fn token_behind(lane: &Lane, row: &Row, tokens: &[u32]) -> u32 {
    let is_known = row.position < lane.position || row.position + 1 < lane.prompt_length;
    if is_known { tokens[row.position as usize + 1] } else { row.token }
}
