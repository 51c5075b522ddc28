//! Reference of `advance`.

use super::Candidate;
use crate::generated::candidates::NO_ID;
use crate::generated::state::{
    FINISH_BUDGET, FINISH_CANCELLED, FINISH_CONTEXT_FULL, FINISH_END_OF_GENERATION, FINISH_NON_FINITE, FINISH_NONE,
    STATUS_FED, STATUS_NO_OP, STATUS_SAMPLED, StepReport, StepState,
};

/// Decides the next token from the prompt or the candidates, moves `state` on and reports. `cancelled` is the sequence that the host
/// wants stopped.
pub fn advance(
    state: &mut StepState,
    prompt: &[u32],
    end_tokens: &[u32],
    cancelled: u32,
    candidates: &[Candidate],
) -> StepReport {
    let best = candidates.iter().copied().fold(Candidate::NONE, Candidate::better);
    if state.live == 0 {
        return StepReport {
            sequence: state.sequence,
            status: STATUS_NO_OP,
            token: state.token,
            position: state.position,
            finish: state.finish,
            logit: Candidate::NONE.logit,
        };
    }
    let next = state.position + 1;
    let mut finish = FINISH_NONE;
    let (status, token) = if next < state.prompt_length {
        (STATUS_FED, prompt[next as usize])
    } else {
        state.budget = state.budget.wrapping_sub(1);
        if next >= state.context_length {
            finish = FINISH_CONTEXT_FULL;
        }
        if state.budget == 0 {
            finish = FINISH_BUDGET;
        }
        if end_tokens[..state.end_token_count as usize].contains(&best.id) {
            finish = FINISH_END_OF_GENERATION;
        }
        if best.non_finite != 0 || best.id == NO_ID {
            finish = FINISH_NON_FINITE;
            (STATUS_SAMPLED, 0)
        } else {
            (STATUS_SAMPLED, best.id)
        }
    };
    if finish == FINISH_NONE && cancelled == state.sequence {
        finish = FINISH_CANCELLED;
    }
    state.token = token;
    state.position = next;
    state.finish = finish;
    state.live = u32::from(finish == FINISH_NONE);
    StepReport { sequence: state.sequence, status, token, position: next, finish, logit: best.logit }
}
