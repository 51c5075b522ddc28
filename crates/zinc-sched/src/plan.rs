//! What to do next, as pure functions of the counts. Nothing here touches a model, a clock or a channel.

use crate::model::StepShape;
use crate::window::InflightDepth;

/// What bounds the number of decoded tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    /// The request's own `max_tokens`.
    MaxTokens,
    /// The context has no further position.
    Context,
}

/// One step of a sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlannedStep {
    /// Steps before it in the sequence.
    pub index: u32,
    /// What it does.
    pub shape: StepShape,
    /// Position of the token it consumes.
    pub position: u32,
}

/// All steps of a sequence, known before the first is submitted: the prompt's length and the token budget decide them. Only how many of
/// them are needed is found out on the way.
///
/// A prompt of `p` tokens of which `c` are cached takes `p - 1 - c` feed steps, at positions `c..p - 1`, and then decode steps from
/// position `p - 1` on. Positions end with the context, so at most `context - p + 1` tokens can be decoded: the last of them is
/// sampled at the last position and has no position of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SequencePlan {
    cached: u32,
    feeds: u32,
    decodes: u32,
    limit: Limit,
}

impl SequencePlan {
    /// The plan for a prompt. `max_tokens` of `None` means as many as the context has room for.
    ///
    /// # Panics
    /// Unless `cached < prompt_tokens <= context_tokens`.
    pub fn new(prompt_tokens: u32, cached: u32, max_tokens: Option<u32>, context_tokens: u32) -> Self {
        assert!(
            cached < prompt_tokens && prompt_tokens <= context_tokens,
            "a plan needs cached < prompt <= context, not {cached}, {prompt_tokens}, {context_tokens}"
        );
        let room = context_tokens - (prompt_tokens - 1);
        let (decodes, limit) = match max_tokens {
            Some(most) if most <= room => (most, Limit::MaxTokens),
            _ => (room, Limit::Context),
        };
        Self { cached, feeds: prompt_tokens - 1 - cached, decodes, limit }
    }

    /// Steps that feed prompt tokens.
    pub fn feeds(&self) -> u32 {
        self.feeds
    }

    /// The most tokens that will be decoded.
    pub fn decodes(&self) -> u32 {
        self.decodes
    }

    /// What bounds [`decodes`](Self::decodes). A budget that ends exactly with the context counts as the request's own.
    pub fn limit(&self) -> Limit {
        self.limit
    }

    /// The most steps there will be; at most one per position of the context.
    pub fn steps(&self) -> u32 {
        self.feeds + self.decodes
    }

    /// The step after `index` others; `None` past the last.
    pub fn step(&self, index: u32) -> Option<PlannedStep> {
        let shape = match index {
            i if i < self.feeds => StepShape::Feed,
            i if i < self.steps() => StepShape::Decode,
            _ => return None,
        };
        Some(PlannedStep { index, shape, position: self.cached + index })
    }

    /// Whether no step follows this one.
    pub fn is_last(&self, step: &PlannedStep) -> bool {
        step.index + 1 == self.steps()
    }
}

/// Whether the sequence still wants tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// It does.
    Running,
    /// It has ended; what is in flight is waited for and thrown away.
    Draining,
}

/// What the loop does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Submit this step.
    Submit(PlannedStep),
    /// Wait for the oldest step in flight.
    Observe,
    /// Nothing is in flight and nothing is wanted.
    Done,
}

/// Fills the window first, then follows behind it.
pub fn next_action(plan: &SequencePlan, phase: Phase, submitted: u32, in_flight: u32, depth: InflightDepth) -> Action {
    if phase == Phase::Running
        && in_flight < depth.get()
        && let Some(step) = plan.step(submitted)
    {
        return Action::Submit(step);
    }
    if in_flight > 0 { Action::Observe } else { Action::Done }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shapes(plan: &SequencePlan) -> String {
        (0..).map_while(|i| plan.step(i)).map(|s| if s.shape == StepShape::Feed { 'f' } else { 'D' }).collect()
    }

    #[test]
    fn all_but_the_last_uncached_prompt_token_are_fed() {
        for (prompt, cached, max, context, expected) in [
            (1, 0, Some(3), 10, "DDD"),
            (4, 0, Some(2), 10, "fffDD"),
            (4, 2, Some(2), 10, "fDD"),
            (4, 3, Some(2), 10, "DD"),
            (4, 0, Some(0), 10, "fff"),
            (4, 0, Some(1), 4, "fffD"),
            (4, 0, None, 4, "fffD"),
            (4, 0, None, 6, "fffDDD"),
            (4, 0, Some(99), 6, "fffDDD"),
            (1, 0, None, 1, "D"),
        ] {
            let plan = SequencePlan::new(prompt, cached, max, context);
            assert_eq!(shapes(&plan), expected, "prompt {prompt} cached {cached} max {max:?} context {context}");
        }
    }

    #[test]
    fn positions_follow_the_cache_and_stay_in_the_context() {
        let plan = SequencePlan::new(5, 2, None, 8);
        let positions: Vec<u32> = (0..plan.steps()).map(|i| plan.step(i).unwrap().position).collect();
        assert_eq!(positions, [2, 3, 4, 5, 6, 7]);
        assert_eq!(plan.step(plan.steps()), None);
        assert!(plan.is_last(&plan.step(5).unwrap()));
        assert!(!plan.is_last(&plan.step(4).unwrap()));
    }

    #[test]
    fn the_limit_that_binds_is_named() {
        assert_eq!(SequencePlan::new(4, 0, Some(2), 6).limit(), Limit::MaxTokens);
        assert_eq!(SequencePlan::new(4, 0, Some(3), 6).limit(), Limit::MaxTokens);
        assert_eq!(SequencePlan::new(4, 0, Some(4), 6).limit(), Limit::Context);
        assert_eq!(SequencePlan::new(4, 0, None, 6).limit(), Limit::Context);
    }

    #[test]
    fn the_largest_context_does_not_overflow() {
        let plan = SequencePlan::new(u32::MAX, 0, None, u32::MAX);
        assert_eq!((plan.feeds(), plan.decodes()), (u32::MAX - 1, 1));
        assert_eq!(plan.steps(), u32::MAX);
        let plan = SequencePlan::new(1, 0, Some(u32::MAX), u32::MAX);
        assert_eq!(plan.steps(), u32::MAX);
    }

    #[test]
    #[should_panic(expected = "not 4, 4, 8")]
    fn a_fully_cached_prompt_is_refused() {
        let _ = SequencePlan::new(4, 4, None, 8);
    }

    #[test]
    fn the_window_is_filled_before_anything_is_observed() {
        let plan = SequencePlan::new(2, 0, Some(3), 100);
        let depth = InflightDepth::new(2).unwrap();
        let next = |phase, submitted, in_flight| next_action(&plan, phase, submitted, in_flight, depth);
        let step = |i| Action::Submit(plan.step(i).unwrap());
        assert_eq!(next(Phase::Running, 0, 0), step(0));
        assert_eq!(next(Phase::Running, 1, 1), step(1));
        assert_eq!(next(Phase::Running, 2, 2), Action::Observe);
        assert_eq!(next(Phase::Running, 2, 1), step(2));
        assert_eq!(next(Phase::Running, 4, 1), Action::Observe, "every step is submitted");
        assert_eq!(next(Phase::Running, 4, 0), Action::Done);
        assert_eq!(next(Phase::Draining, 2, 1), Action::Observe);
        assert_eq!(next(Phase::Draining, 2, 0), Action::Done);
    }
}
