//! Reference of `advance`: the host's twin of accepting drafts.

use super::Candidate;
use crate::generated::candidates::NO_ID;
use crate::generated::state::{
    FINISH_BUDGET, FINISH_CANCELLED, FINISH_CONTEXT_FULL, FINISH_END_OF_GENERATION, FINISH_NON_FINITE, FINISH_NONE,
    STATUS_FED, STATUS_NO_OP, STATUS_SAMPLED, StepReport, StepState,
};

/// Decides the next tokens from the prompt or from the candidates, moves `state` on and reports.
///
/// `tokens` is `[context + MAX_BATCH]`: the prompt, what was sampled, and the step's drafts behind the state's position; what is sampled is
/// written to it. `candidates` holds those of each token of the step. `cancelled` is the sequence that the host wants stopped.
pub fn advance(
    state: &mut StepState,
    tokens: &mut [u32],
    end_tokens: &[u32],
    cancelled: u32,
    candidates: &[&[Candidate]],
) -> StepReport {
    let mut report = StepReport {
        sequence: state.sequence,
        status: STATUS_NO_OP,
        position: state.position,
        finish: state.finish,
        ..StepReport::default()
    };
    let taken = &candidates[..candidates.len().min(state.live as usize)];
    for (index, candidates) in taken.iter().enumerate() {
        let best = candidates.iter().copied().fold(Candidate::NONE, Candidate::better);
        state.position += 1;
        state.finish = if cancelled == state.sequence { FINISH_CANCELLED } else { FINISH_NONE };
        let place = &mut tokens[state.position as usize];
        let draft = *place;
        if state.position < state.prompt_length {
            report.status = STATUS_FED;
        } else {
            report.status = STATUS_SAMPLED;
            *place = best.id;
            state.budget = state.budget.wrapping_sub(1);
            if state.position >= state.context_length {
                state.finish = FINISH_CONTEXT_FULL;
            }
            if state.budget == 0 {
                state.finish = FINISH_BUDGET;
            }
            if end_tokens[..state.end_token_count as usize].contains(&best.id) {
                state.finish = FINISH_END_OF_GENERATION;
            }
            if best.non_finite != 0 || best.id == NO_ID {
                state.finish = FINISH_NON_FINITE;
                *place = 0;
            }
        }
        state.token = *place;
        state.live = u32::from(state.finish == FINISH_NONE);
        report.position = state.position;
        report.finish = state.finish;
        report.logit = best.logit;
        report.tokens[index] = state.token;
        report.count += 1;
        if report.status == STATUS_FED || state.live == 0 || draft != state.token {
            break;
        }
    }
    report
}
