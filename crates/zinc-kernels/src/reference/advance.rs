//! Reference of `advance`: the host's twin of moving over the prompt and of accepting drafts.

use super::Candidate;
use crate::generated::candidates::NO_ID;
use crate::generated::lane::{
    FINISH_BUDGET, FINISH_CANCELLED, FINISH_CONTEXT_FULL, FINISH_END_OF_GENERATION, FINISH_NON_FINITE, FINISH_NONE,
    STATUS_FED, STATUS_NO_OP, STATUS_SAMPLED,
};
use crate::step::{Lane, StepReport};

/// Decides the next tokens of a lane from the prompt or from the candidates, moves its sequence on and reports.
///
/// `tokens` is `[context + MOST_RUN]`: the prompt, what was sampled, and the step's drafts behind the lane's position; what is sampled is
/// written to it. `candidates` holds those of each row of the lane. `cancelled` is the sequence that the host wants stopped.
pub fn advance(
    lane: &mut Lane,
    tokens: &mut [u32],
    end_tokens: &[u32],
    cancelled: u32,
    candidates: &[&[Candidate]],
) -> StepReport {
    let mut report = StepReport {
        sequence: lane.sequence,
        status: STATUS_NO_OP,
        position: lane.position,
        finish: lane.finish,
        ..StepReport::default()
    };
    let taken = &candidates[..lane.rows as usize];
    if taken.is_empty() {
        return report;
    }
    let unless_cancelled = if cancelled == lane.sequence { FINISH_CANCELLED } else { FINISH_NONE };
    lane.finish = unless_cancelled;
    report.fed = lane.prompt_length.saturating_sub(1).saturating_sub(lane.position).min(taken.len() as u32);
    if report.fed > 0 {
        report.status = STATUS_FED;
        lane.position += report.fed;
        lane.token = tokens[lane.position as usize];
    } else {
        report.status = STATUS_SAMPLED;
        report.drafts = taken.len() as u32 - 1;
        for candidates in taken {
            let best = candidates.iter().copied().fold(Candidate::NONE, Candidate::better);
            lane.position += 1;
            lane.finish = unless_cancelled;
            let place = &mut tokens[lane.position as usize];
            let draft = *place;
            *place = best.id;
            lane.budget = lane.budget.wrapping_sub(1);
            if lane.position >= lane.context_length {
                lane.finish = FINISH_CONTEXT_FULL;
            }
            if lane.budget == 0 {
                lane.finish = FINISH_BUDGET;
            }
            if end_tokens[..lane.end_token_count as usize].contains(&best.id) {
                lane.finish = FINISH_END_OF_GENERATION;
            }
            if best.non_finite != 0 || best.id == NO_ID {
                lane.finish = FINISH_NON_FINITE;
                *place = 0;
            }
            lane.token = *place;
            report.logit = best.logit;
            report.tokens[report.count as usize] = lane.token;
            report.count += 1;
            if lane.finish != FINISH_NONE || draft != lane.token {
                break;
            }
        }
    }
    report.position = lane.position;
    report.finish = lane.finish;
    report
}
