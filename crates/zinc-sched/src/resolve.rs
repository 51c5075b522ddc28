//! What an observed step means for the sequence, as a pure function.

use crate::error::{Error, Result};
use crate::model::{DeviceFinish, StepOutput, StepShape, StepStatus};
use crate::plan::{Limit, Phase, PlannedStep, SequencePlan};
use crate::request::FinishReason;

/// What was expected of an observed step.
#[derive(Debug, Clone, Copy)]
pub struct Expected<'a> {
    /// The step.
    pub step: PlannedStep,
    /// The plan it belongs to.
    pub plan: &'a SequencePlan,
    /// Whether its result is still wanted.
    pub phase: Phase,
    /// The request's end-of-generation ids.
    pub eog: &'a [u32],
}

/// What an observed step means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resolved {
    /// A prompt token is in the cache.
    Fed,
    /// A token to deliver, and the sequence goes on.
    Emit(u32),
    /// A token to deliver, and the sequence ends with it.
    EmitLast(u32, FinishReason),
    /// The sequence ends without a further token.
    Finish(FinishReason),
    /// The sequence had ended before; nothing of this step is used.
    Stale,
}

/// Decides what an observed step means.
///
/// The host knows the plan, so it does not rely on the device to notice the budget, the context's end or every end-of-generation id; it
/// does insist that the two never contradict each other.
///
/// # Errors
/// [`Error::NonFinite`] when the step found its logits so, and [`Error::UnexpectedOutput`] when it reports what the plan excludes. A
/// stale step is never an error.
pub fn resolve(expected: &Expected<'_>, output: &StepOutput) -> Result<Resolved> {
    let Expected { step, plan, phase, eog } = *expected;
    if phase == Phase::Draining {
        return Ok(Resolved::Stale);
    }
    if output.finish == Some(DeviceFinish::NonFinite) {
        return Err(Error::NonFinite { step: step.index, position: step.position });
    }
    let unexpected = || Error::UnexpectedOutput {
        step: step.index,
        shape: step.shape,
        expected_position: step.position,
        position: output.position,
        status: output.status,
        finish: output.finish,
    };
    if output.position != step.position {
        return Err(unexpected());
    }
    match (step.shape, output.status, output.finish) {
        (StepShape::Feed, StepStatus::Fed, None) => Ok(Resolved::Fed),
        (StepShape::Decode, StepStatus::Emitted, None | Some(DeviceFinish::EndOfGeneration))
            if eog.contains(&output.token) =>
        {
            Ok(Resolved::Finish(FinishReason::Stop { token: output.token }))
        }
        (StepShape::Decode, StepStatus::Emitted, None | Some(DeviceFinish::Budget | DeviceFinish::ContextFull))
            if plan.is_last(&step) =>
        {
            let reason = match plan.limit() {
                Limit::MaxTokens => FinishReason::Length,
                Limit::Context => FinishReason::ContextFull,
            };
            // The device may name the budget although the token ends the sequence anyway.
            Ok(if eog.contains(&output.token) {
                Resolved::Finish(FinishReason::Stop { token: output.token })
            } else {
                Resolved::EmitLast(output.token, reason)
            })
        }
        (StepShape::Decode, StepStatus::Emitted, None) => Ok(Resolved::Emit(output.token)),
        _ => Err(unexpected()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::StepTiming;

    const EOG: [u32; 2] = [7, 9];

    fn output(token: u32, position: u32, status: StepStatus, finish: Option<DeviceFinish>) -> StepOutput {
        StepOutput { token, position, status, finish, timing: StepTiming::default() }
    }

    /// Prompt of 3, 4 tokens: steps f f D D D D at positions 0 to 5.
    fn plan() -> SequencePlan {
        SequencePlan::new(3, 0, Some(4), 100)
    }

    fn resolve_at(plan: &SequencePlan, index: u32, output: &StepOutput) -> Result<Resolved> {
        let step = plan.step(index).unwrap();
        resolve(&Expected { step, plan, phase: Phase::Running, eog: &EOG }, output)
    }

    #[test]
    fn the_table_of_a_running_sequence() {
        use DeviceFinish::{Budget, Cancelled, ContextFull, EndOfGeneration};
        use StepStatus::{Emitted, Fed, NoOp};
        let plan = plan();
        let stop = |token| Resolved::Finish(FinishReason::Stop { token });
        let ok = |index, out| resolve_at(&plan, index, &out).unwrap();

        assert_eq!(ok(0, output(0, 0, Fed, None)), Resolved::Fed);
        assert_eq!(ok(2, output(5, 2, Emitted, None)), Resolved::Emit(5));
        assert_eq!(ok(3, output(7, 3, Emitted, Some(EndOfGeneration))), stop(7));
        assert_eq!(ok(3, output(9, 3, Emitted, None)), stop(9), "an id the device did not know");
        assert_eq!(ok(5, output(9, 5, Emitted, Some(Budget))), stop(9), "the end wins over the budget");
        for finish in [None, Some(Budget), Some(ContextFull)] {
            assert_eq!(ok(5, output(5, 5, Emitted, finish)), Resolved::EmitLast(5, FinishReason::Length), "{finish:?}");
        }

        for (index, out) in [
            (0, output(0, 1, Fed, None)),
            (0, output(5, 0, Emitted, None)),
            (0, output(0, 0, NoOp, None)),
            (0, output(0, 0, Fed, Some(Budget))),
            (2, output(0, 2, Fed, None)),
            (2, output(5, 3, Emitted, None)),
            (2, output(5, 2, NoOp, None)),
            (2, output(5, 2, NoOp, Some(EndOfGeneration))),
            (2, output(5, 2, NoOp, Some(Cancelled))),
            (2, output(5, 2, Emitted, Some(Cancelled))),
            (2, output(5, 2, Emitted, Some(Budget))),
            (2, output(5, 2, Emitted, Some(ContextFull))),
            (2, output(5, 2, Emitted, Some(EndOfGeneration))),
        ] {
            let got = resolve_at(&plan, index, &out);
            assert!(
                matches!(got, Err(Error::UnexpectedOutput { step, .. }) if step == index),
                "{index} {out:?}: {got:?}"
            );
        }
    }

    #[test]
    fn the_context_has_a_reason_of_its_own() {
        let plan = SequencePlan::new(3, 0, None, 4);
        for finish in [None, Some(DeviceFinish::Budget), Some(DeviceFinish::ContextFull)] {
            let got = resolve_at(&plan, 3, &output(5, 3, StepStatus::Emitted, finish)).unwrap();
            assert_eq!(got, Resolved::EmitLast(5, FinishReason::ContextFull), "{finish:?}");
        }
    }

    #[test]
    fn logits_that_are_not_finite_name_the_step() {
        for status in [StepStatus::Emitted, StepStatus::NoOp] {
            let got = resolve_at(&plan(), 4, &output(0, 4, status, Some(DeviceFinish::NonFinite)));
            assert!(matches!(got, Err(Error::NonFinite { step: 4, position: 4 })), "{got:?}");
        }
    }

    #[test]
    fn whatever_a_stale_step_says_is_ignored() {
        let plan = plan();
        for finish in [None, Some(DeviceFinish::NonFinite), Some(DeviceFinish::Cancelled)] {
            for status in [StepStatus::Fed, StepStatus::Emitted, StepStatus::NoOp] {
                let expected = Expected { step: plan.step(3).unwrap(), plan: &plan, phase: Phase::Draining, eog: &EOG };
                assert_eq!(resolve(&expected, &output(1, 77, status, finish)).unwrap(), Resolved::Stale);
            }
        }
    }
}
