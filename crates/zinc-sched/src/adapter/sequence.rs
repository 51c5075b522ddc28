//! Makes the lane that the device's memory holds when a sequence begins.

use zinc_kernels::generated::lane::{FINISH_NONE, GATE_GUIDE, GATE_OPEN, GATE_TOKEN};
use zinc_kernels::step::{Lane, MOST_RUN};

use crate::model::{Gate, SequenceStart};

/// The most end-of-generation ids that the device compares a sampled token with. A model may have more; the host
/// compares with all of them.
pub(super) const MAX_END_TOKENS: usize = 64;

/// Temperatures below this count as greedy, because logits divided by such a temperature would leave the range in which
/// scores can be told apart.
const MIN_TEMPERATURE: f32 = 1e-5;

/// Where a lane finds what its sequence owns, as device addresses.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LaneAddresses {
    pub(super) tokens: u64,
    pub(super) end_tokens: u64,
    /// The parameters of the chain of samplers.
    pub(super) samplers: u64,
}

/// Makes the lane before the first step of a sequence. `sequence` is its number, `context` the positions that the lane has in the cache.
pub(super) fn initial_lane(start: &SequenceStart<'_>, sequence: u32, context: u32, at: LaneAddresses) -> Lane {
    let temperature = start.sampling.temperature;
    let seed = start.sampling.seed;
    Lane {
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
        gate: match start.gate {
            Gate::Open => GATE_OPEN,
            Gate::Guide => GATE_GUIDE,
            Gate::Token => GATE_TOKEN,
        },
        first_row: 0,
        rows: 0,
        tokens: at.tokens,
        end_tokens: at.end_tokens,
        samplers: at.samplers,
    }
}

/// The end-of-generation ids that the device has room for.
pub(super) fn end_tokens<'a>(start: &SequenceStart<'a>) -> &'a [u32] {
    &start.eog[..start.eog.len().min(MAX_END_TOKENS)]
}

/// The lane of a draft model that has taken in the tokens of the sequence of `lane` before `position`. It takes every token from the array of tokens,
/// as if all were prompt tokens: the prompt ends where that array does ([`CacheOptions::token_places`](zinc_model::plan::CacheOptions::token_places)).
pub(super) fn draft_model_lane(lane: &Lane, position: u32, tokens: &[u32]) -> Lane {
    let prompt_length = lane.context_length + MOST_RUN;
    Lane {
        token: tokens[position as usize],
        position,
        prompt_length,
        budget: u32::MAX,
        gate: GATE_OPEN,
        samplers: 0,
        ..*lane
    }
}
