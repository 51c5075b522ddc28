//! What the output of an observed step means for its sequence, as a pure function.

use crate::error::{Error, Result};
use crate::plan::{Limit, Phase, PlannedStep, SequencePlan};
use crate::request::FinishReason;
use crate::step::{DeviceFinish, LaneOutput, StepKind, StepStatus, TokenRun};

/// What is known about a step before its output is looked at.
#[derive(Debug, Clone, Copy)]
pub struct Expected<'a> {
    /// The step.
    pub step: PlannedStep,
    /// Position of its first input token.
    pub position: u32,
    /// How many tokens the steps before it have sampled.
    pub sampled: u32,
    /// The most tokens that a `Speculate` step drafts.
    pub max_drafts: u32,
    /// The plan of its sequence.
    pub plan: &'a SequencePlan,
    /// Whether the sequence still wants its tokens.
    pub phase: Phase,
    /// The request's end-of-generation ids.
    pub eog: &'a [u32],
}

/// What the output of a step means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resolved {
    /// The K/V of so many prompt tokens are in the cache.
    Fed(u32),
    /// The K/V of the prompt tokens that the step has fed are in the cache, and these tokens are to be delivered. If there is a reason, the sequence ends
    /// with it after them.
    Sampled(TokenRun, Option<FinishReason>),
    /// The sequence had ended before this step, so its output is not used.
    Stale,
}

/// Decides what the output of an observed step means.
///
/// The host knows the plan, so it does not rely on the device to notice the end of the budget, the end of the context or every
/// end-of-generation id. It is an error if the device's report contradicts the plan.
///
/// # Errors
/// [`Error::NonFinite`] if the step's logits were not finite, and [`Error::UnexpectedOutput`] if it reports something that the plan
/// excludes. A stale step is never an error.
pub fn resolve(expected: &Expected<'_>, output: &LaneOutput) -> Result<Resolved> {
    let Expected { step, position, sampled, max_drafts, plan, phase, eog } = *expected;
    if phase == Phase::Draining {
        return Ok(Resolved::Stale);
    }
    if output.finish == Some(DeviceFinish::NonFinite) {
        return Err(Error::NonFinite { step: step.index, position: position + step.kind.fed_of(step.rows) });
    }
    let unexpected = || Error::UnexpectedOutput {
        step: step.index,
        kind: step.kind,
        rows: step.rows,
        expected_position: position,
        position: output.position,
        fed: output.fed,
        tokens: output.tokens.as_slice().len(),
        status: output.status,
        finish: output.finish,
    };
    let run = output.tokens.as_slice();
    let counts = match step.kind {
        StepKind::Feed => 0..=0,
        StepKind::FeedDecode | StepKind::Decode => 1..=1,
        StepKind::Speculate => 1..=1 + max_drafts as usize,
    };
    let fed = step.kind.fed_of(step.rows);
    if output.position != position || output.fed != fed || !counts.contains(&run.len()) {
        return Err(unexpected());
    }
    match (step.kind.samples(), output.status) {
        (false, StepStatus::Fed) if output.finish.is_none() => return Ok(Resolved::Fed(fed)),
        (true, StepStatus::Emitted) => {}
        _ => return Err(unexpected()),
    }

    let sampled = sampled + run.len() as u32;
    let at_limit = sampled == plan.decodes();
    let consistent = match output.finish {
        None => true,
        Some(DeviceFinish::EndOfGeneration) => run.last().is_some_and(|token| eog.contains(token)),
        Some(DeviceFinish::Budget | DeviceFinish::ContextFull) => at_limit,
        Some(DeviceFinish::Cancelled | DeviceFinish::NonFinite) => false,
    };
    if !consistent || sampled > plan.decodes() {
        return Err(unexpected());
    }
    // An end-of-generation id comes first: the device may name the budget as the reason although the last token is such an id, and it goes
    // on behind an id that it was not told of.
    if let Some(end) = run.iter().position(|token| eog.contains(token)) {
        return Ok(Resolved::Sampled(TokenRun::new(&run[..end]), Some(FinishReason::Stop { token: run[end] })));
    }
    let end = at_limit.then_some(match plan.limit() {
        Limit::MaxTokens => FinishReason::Length,
        Limit::Context => FinishReason::ContextFull,
    });
    Ok(Resolved::Sampled(output.tokens, end))
}

#[cfg(test)]
mod tests {
    use super::*;

    const EOG: [u32; 2] = [7, 9];

    fn output(tokens: &[u32], position: u32, status: StepStatus, finish: Option<DeviceFinish>) -> LaneOutput {
        let (tokens, fed) = (TokenRun::new(tokens), u32::from(status == StepStatus::Fed));
        LaneOutput { tokens, fed, drafts: 0, position, status, finish, logprobs: None }
    }

    /// The plan of a prompt of 3 tokens that samples at most 4.
    fn plan() -> SequencePlan {
        SequencePlan::new(3, 0, Some(4), 100)
    }

    /// Resolves the output of a step at `position`; the number of tokens sampled before it follows from the plan.
    fn resolve_at(plan: &SequencePlan, kind: StepKind, position: u32, output: &LaneOutput) -> Result<Resolved> {
        let step = PlannedStep { index: position, kind, rows: 1 };
        let sampled = position.saturating_sub(2);
        let phase = Phase::Running;
        resolve(&Expected { step, position, sampled, max_drafts: 3, plan, phase, eog: &EOG }, output)
    }

    fn sampled(tokens: &[u32], end: Option<FinishReason>) -> Resolved {
        Resolved::Sampled(TokenRun::new(tokens), end)
    }

    #[test]
    fn the_table_of_a_running_sequence() {
        use DeviceFinish::{Budget, Cancelled, ContextFull, EndOfGeneration};
        use StepKind::{Decode, Feed};
        use StepStatus::{Emitted, Fed, NoOp};
        let plan = plan();
        let stop = |token| sampled(&[], Some(FinishReason::Stop { token }));
        let ok = |kind, position, out| resolve_at(&plan, kind, position, &out).unwrap();

        assert_eq!(ok(Feed, 0, output(&[], 0, Fed, None)), Resolved::Fed(1));
        assert_eq!(ok(Decode, 2, output(&[5], 2, Emitted, None)), sampled(&[5], None));
        assert_eq!(ok(Decode, 3, output(&[7], 3, Emitted, Some(EndOfGeneration))), stop(7));
        assert_eq!(ok(Decode, 3, output(&[9], 3, Emitted, None)), stop(9), "an id the device did not know");
        assert_eq!(ok(Decode, 5, output(&[9], 5, Emitted, Some(Budget))), stop(9), "the end wins over the budget");
        for finish in [None, Some(Budget), Some(ContextFull)] {
            let last = ok(Decode, 5, output(&[5], 5, Emitted, finish));
            assert_eq!(last, sampled(&[5], Some(FinishReason::Length)), "{finish:?}");
        }

        for (kind, position, out) in [
            (Feed, 0, output(&[], 1, Fed, None)),
            (Feed, 0, output(&[5], 0, Emitted, None)),
            (Feed, 0, output(&[], 0, NoOp, None)),
            (Feed, 0, output(&[], 0, NoOp, Some(Cancelled))),
            (Feed, 0, output(&[], 0, Fed, Some(Budget))),
            (Decode, 2, output(&[], 2, Fed, None)),
            (Decode, 2, output(&[], 2, Emitted, None)),
            (Decode, 2, output(&[5, 5], 2, Emitted, None)),
            (Decode, 2, output(&[5], 3, Emitted, None)),
            (Decode, 2, output(&[], 2, NoOp, None)),
            (Decode, 2, output(&[5], 2, NoOp, Some(EndOfGeneration))),
            (Decode, 2, output(&[5], 2, NoOp, Some(Cancelled))),
            (Decode, 2, output(&[5], 2, Emitted, Some(Cancelled))),
            (Decode, 2, output(&[5], 2, Emitted, Some(Budget))),
            (Decode, 2, output(&[5], 2, Emitted, Some(ContextFull))),
            (Decode, 2, output(&[5], 2, Emitted, Some(EndOfGeneration))),
        ] {
            let got = resolve_at(&plan, kind, position, &out);
            assert!(
                matches!(got, Err(Error::UnexpectedOutput { step, .. }) if step == position),
                "{position} {out:?}: {got:?}"
            );
        }
    }

    #[test]
    fn a_step_feeds_what_it_was_to_feed() {
        let plan = SequencePlan::new(9, 0, Some(4), 100);
        let step = PlannedStep { index: 0, kind: StepKind::Feed, rows: 8 };
        let (phase, eog) = (Phase::Running, &EOG);
        let expected = Expected { step, position: 0, sampled: 0, max_drafts: 0, plan: &plan, phase, eog };
        let fed = |fed| resolve(&expected, &LaneOutput { fed, ..output(&[], 0, StepStatus::Fed, None) });
        assert_eq!(fed(8).unwrap(), Resolved::Fed(8));
        for wrong in [0, 7, 9] {
            let error = fed(wrong).unwrap_err();
            assert!(matches!(error, Error::UnexpectedOutput { rows: 8, fed, .. } if fed == wrong), "{error}");
        }
    }

    #[test]
    fn a_step_feeds_the_end_of_a_prompt_and_samples() {
        use DeviceFinish::{Cancelled, EndOfGeneration, NonFinite};
        use StepStatus::{Emitted, Fed, NoOp};
        let plan = SequencePlan::new(9, 2, Some(4), 100);
        let step = PlannedStep { index: 0, kind: StepKind::FeedDecode, rows: 7 };
        let (phase, eog) = (Phase::Running, &EOG);
        let expected = Expected { step, position: 2, sampled: 0, max_drafts: 0, plan: &plan, phase, eog };
        let at = |tokens: &[u32], fed, status, finish| {
            resolve(&expected, &LaneOutput { fed, ..output(tokens, 2, status, finish) })
        };
        assert_eq!(at(&[5], 6, Emitted, None).unwrap(), sampled(&[5], None));
        let stop = sampled(&[], Some(FinishReason::Stop { token: 7 }));
        assert_eq!(at(&[7], 6, Emitted, Some(EndOfGeneration)).unwrap(), stop);
        let broken = at(&[], 6, Emitted, Some(NonFinite)).unwrap_err();
        assert!(matches!(broken, Error::NonFinite { step: 0, position: 8 }), "{broken}");
        for wrong in [
            at(&[5], 0, Emitted, None),
            at(&[5], 7, Emitted, None),
            at(&[], 6, Emitted, None),
            at(&[], 7, Fed, None),
            at(&[], 0, NoOp, Some(Cancelled)),
        ] {
            assert!(matches!(wrong, Err(Error::UnexpectedOutput { rows: 7, .. })), "{wrong:?}");
        }
    }

    #[test]
    fn a_speculative_step_brings_several_tokens() {
        use DeviceFinish::{Budget, EndOfGeneration};
        use StepKind::Speculate;
        use StepStatus::Emitted;
        let plan = plan();
        let at = |position, tokens: &[u32], finish| {
            resolve_at(&plan, Speculate, position, &output(tokens, position, Emitted, finish))
        };
        assert_eq!(at(2, &[5, 6], None).unwrap(), sampled(&[5, 6], None));
        assert_eq!(at(2, &[5, 6, 8, 4], Some(Budget)).unwrap(), sampled(&[5, 6, 8, 4], Some(FinishReason::Length)));
        let stop = Some(FinishReason::Stop { token: 9 });
        assert_eq!(at(2, &[5, 9], Some(EndOfGeneration)).unwrap(), sampled(&[5], stop));
        assert_eq!(
            at(2, &[5, 9, 6], None).unwrap(),
            sampled(&[5], stop),
            "an end in the middle that the device did not know"
        );
        assert!(at(3, &[5, 6, 8, 4], None).is_err(), "more than the budget");
        assert!(at(2, &[], None).is_err());
    }

    #[test]
    fn the_context_has_a_reason_of_its_own() {
        let plan = SequencePlan::new(3, 0, None, 4);
        for finish in [None, Some(DeviceFinish::Budget), Some(DeviceFinish::ContextFull)] {
            let out = output(&[5], 3, StepStatus::Emitted, finish);
            let got = resolve_at(&plan, StepKind::Decode, 3, &out).unwrap();
            assert_eq!(got, sampled(&[5], Some(FinishReason::ContextFull)), "{finish:?}");
        }
    }

    #[test]
    fn logits_that_are_not_finite_name_the_step() {
        for status in [StepStatus::Emitted, StepStatus::NoOp] {
            let out = output(&[], 4, status, Some(DeviceFinish::NonFinite));
            let got = resolve_at(&plan(), StepKind::Decode, 4, &out);
            assert!(matches!(got, Err(Error::NonFinite { step: 4, position: 4 })), "{got:?}");
        }
    }

    #[test]
    fn whatever_a_stale_step_says_is_ignored() {
        let plan = plan();
        for finish in [None, Some(DeviceFinish::NonFinite), Some(DeviceFinish::Cancelled)] {
            for status in [StepStatus::Fed, StepStatus::Emitted, StepStatus::NoOp] {
                for kind in [StepKind::Feed, StepKind::Decode] {
                    let step = PlannedStep { index: 3, kind, rows: 1 };
                    let (position, sampled, phase) = (3, 1, Phase::Draining);
                    let expected = Expected { step, position, sampled, max_drafts: 3, plan: &plan, phase, eog: &EOG };
                    assert_eq!(resolve(&expected, &output(&[1], 77, status, finish)).unwrap(), Resolved::Stale);
                }
            }
        }
    }
}
