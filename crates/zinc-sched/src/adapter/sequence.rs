//! Makes the state that the device's buffer holds when a sequence begins.

use zinc_kernels::generated::lane::FINISH_NONE;
use zinc_kernels::step::{Lane, MOST_SAMPLING_ROWS, StepState, next_rows};

use crate::model::SequenceStart;

/// The most end-of-generation ids that the device compares a sampled token with. A model may have more; the host
/// compares with all of them.
pub(super) const MAX_END_TOKENS: usize = 64;

/// Temperatures below this count as greedy, because logits divided by such a temperature would leave the range in which
/// scores can be told apart.
const MIN_TEMPERATURE: f32 = 1e-5;

/// Makes the state before the first step of a sequence. `sequence` is its number, `context` the positions of its cache.
pub(super) fn initial_state(start: &SequenceStart<'_>, sequence: u32, context: u32) -> StepState {
    let temperature = start.sampling.temperature;
    let seed = start.sampling.seed;
    let lane = Lane {
        token: start.tokens[start.cached as usize],
        position: start.cached,
        prompt_length: u32::try_from(start.tokens.len()).unwrap_or(u32::MAX),
        budget: start.budget,
        context_length: context,
        end_token_count: end_tokens(start).len() as u32,
        finish: FINISH_NONE,
        seed_low: seed as u32,
        seed_high: (seed >> 32) as u32,
        inverse_temperature: if temperature < MIN_TEMPERATURE { 0.0 } else { 1.0 / temperature },
        sequence,
    };
    first_state(lane, start.tokens)
}

/// The state whose next step takes as many tokens as the lane's prompt lets it take at once.
fn first_state(lane: Lane, tokens: &[u32]) -> StepState {
    let first = lane.position as usize;
    let rows = (next_rows(lane.position, lane.prompt_length) as usize).min(tokens.len() - first);
    StepState::new(lane, &tokens[first..first + rows])
}

/// The end-of-generation ids that the device has room for.
pub(super) fn end_tokens<'a>(start: &SequenceStart<'a>) -> &'a [u32] {
    &start.eog[..start.eog.len().min(MAX_END_TOKENS)]
}

/// The state of a draft model that has taken in the tokens of the sequence before `position`. It takes every token from the array of tokens,
/// as if all were prompt tokens: the prompt ends where that array does ([`CacheOptions::token_places`](zinc_model::plan::CacheOptions::token_places)).
pub(super) fn draft_model_state(state: &StepState, position: u32, tokens: &[u32]) -> StepState {
    let token = tokens[position as usize];
    let prompt_length = state.lane.context_length + MOST_SAMPLING_ROWS;
    let lane = Lane { token, position, prompt_length, budget: u32::MAX, ..state.lane };
    first_state(lane, tokens)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sampling::Sampling;

    /// The rows that a draft model's steps list lie within the array of tokens, and there are as many as it can be behind by.
    #[test]
    fn a_draft_model_reads_no_tokens_behind_the_array() {
        let (context, tokens) = (700, vec![1; 700 + MOST_SAMPLING_ROWS as usize]);
        let greedy = Sampling::GREEDY;
        let start = SequenceStart::new(&tokens[..1], 0, 1, &greedy);
        let state = initial_state(&start, 0, context);
        for position in 0..context {
            let lane = draft_model_state(&state, position, &tokens).lane;
            let end = position + next_rows(lane.position, lane.prompt_length);
            assert!(end as usize <= tokens.len(), "position {position}: rows up to {end}");
            assert!(end > position + (tokens.len() as u32 - 1 - position).min(MOST_SAMPLING_ROWS) - 1);
        }
    }
}
