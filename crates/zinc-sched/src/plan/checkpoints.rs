//! At which positions the checkpoints of a sequence are taken.

use crate::model::CheckpointLimits;

/// How many tokens a checkpoint lies before the end of a prompt at least. The next turn of a conversation has the tokens before these in common with it, but a
/// template ends a prompt with the beginning of an answer, which it may write otherwise once the answer is there.
const BEFORE_END: u32 = 16;

/// Where the checkpoints of a sequence are taken: near the end of its prompt and at regular distances, if there is more than one slot. Inside a prompt they may take half
/// of the slots, so that a long one leaves others theirs; of those behind it each takes the place of the one before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CheckpointPlan {
    /// The limits of a model that keeps checkpoints.
    limits: Option<CheckpointLimits>,
    /// Position of the first step.
    first: u32,
    /// How many tokens the sequence begins with.
    tokens: u32,
    /// The positions near the end of its prompt, and near the end of the tokens that it begins with. These are more if it goes on after it was interrupted.
    ends: [u32; 2],
    /// The distance inside its prompt; `None` if there are none.
    distance: Option<u32>,
}

impl CheckpointPlan {
    /// The plan for a sequence with a prompt of so many tokens which begins with `tokens`, those that were sampled before included. Its first step is at position
    /// `first`. `limits` are those of the model.
    pub fn new(limits: Option<CheckpointLimits>, prompt: u32, tokens: u32, first: u32) -> Self {
        let limits = limits.filter(|limits| limits.slots > 0);
        let page = limits.map_or(1, |limits| limits.page);
        let distance = limits.filter(|limits| limits.slots > 1).map(|limits| {
            let mut distance = limits.spacing;
            while (tokens - 1) / distance - first / distance > limits.slots / 2 {
                distance = distance.saturating_mul(2);
            }
            distance
        });
        let end = |tokens: u32| tokens.saturating_sub(BEFORE_END) / page * page;
        Self { limits, first, tokens, ends: [end(prompt), end(tokens)], distance }
    }

    /// The first position behind this one where a step that feeds has to end.
    pub fn next_stop(&self, position: u32) -> Option<u32> {
        if self.limits?.inside_steps { None } else { self.next_in_prompt(position) }
    }

    /// The positions where a checkpoint is taken behind a step that takes in `rows` tokens and ends at this position.
    pub fn due(&self, rows: u32, end: u32) -> Vec<u32> {
        let is_inside = self.limits.is_some_and(|limits| limits.inside_steps);
        let first = if is_inside { end.saturating_sub(rows) + 1 } else { end };
        (first..=end).filter(|position| self.is_at(*position)).collect()
    }

    /// The first position behind this one where a checkpoint is taken inside the prompt.
    fn next_in_prompt(&self, position: u32) -> Option<u32> {
        self.limits?;
        let regular = self.distance.and_then(|distance| (position / distance + 1).checked_mul(distance));
        let all = self.ends.into_iter().chain(regular);
        all.filter(|at| *at > position && *at > self.first && *at < self.tokens).min()
    }

    /// Whether a checkpoint is taken at this position.
    fn is_at(&self, position: u32) -> bool {
        let Some(limits) = self.limits.filter(|_| position > self.first) else { return false };
        if position < self.tokens {
            self.next_in_prompt(position - 1) == Some(position)
        } else {
            limits.slots > 1 && position.is_multiple_of(limits.spacing)
        }
    }

    /// Whether a position is behind the prompt, so that the checkpoint there takes the place of the one before.
    pub fn is_behind_prompt(&self, position: u32) -> bool {
        position >= self.tokens
    }

    /// This plan for a sequence that goes on with so many tokens, its prompt included, whose first step is at position `first`.
    #[must_use]
    pub fn resumed(self, prompt: u32, tokens: u32, first: u32) -> Self {
        Self::new(self.limits, prompt, tokens, first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A plan of a model with so many slots, for pages of 4 positions and regular checkpoints at a distance of 8.
    fn plan(slots: u32, prompt: u32, tokens: u32, first: u32) -> CheckpointPlan {
        CheckpointPlan::new(
            Some(CheckpointLimits { slots, page: 4, spacing: 8, inside_steps: false }),
            prompt,
            tokens,
            first,
        )
    }

    /// All positions up to `last` where the plan has a checkpoint.
    fn all(plan: CheckpointPlan, last: u32) -> Vec<u32> {
        (0..=last).filter(|position| plan.is_at(*position)).collect()
    }

    #[test]
    fn checkpoints_lie_near_the_end_and_at_regular_distances() {
        for (slots, prompt, tokens, first, expected) in [
            // Sixteen tokens before the end at least, at the end of a page.
            (9, 20, 20, 0, &[4, 8, 16, 24, 32, 40][..]),
            (9, 27, 27, 0, &[8, 16, 24, 32, 40]),
            (9, 28, 28, 0, &[8, 12, 16, 24, 32, 40]),
            (9, 19, 19, 0, &[8, 16, 24, 32, 40]),
            // Not where it begins, or before.
            (9, 28, 28, 8, &[12, 16, 24, 32, 40]),
            (9, 28, 28, 12, &[16, 24, 32, 40]),
            // One that goes on has one near the end of what it has sampled, too.
            (9, 28, 39, 0, &[8, 12, 16, 20, 24, 32, 40]),
            // Half of the slots at most are for regular ones inside a prompt.
            (4, 40, 40, 0, &[16, 24, 32, 40]),
            (2, 40, 40, 0, &[24, 32, 40]),
            (4, 40, 40, 20, &[24, 32, 40]),
            (1, 28, 28, 0, &[12]),
            (0, 40, 40, 0, &[]),
        ] {
            let own = plan(slots, prompt, tokens, first);
            assert_eq!(all(own, 40), expected, "{slots} slots, {prompt} and {tokens} tokens from {first} on");
            assert_eq!(plan(slots, prompt, prompt, 0).resumed(prompt, tokens, first), own);
        }
        assert_eq!([27, 28, 32].map(|position| plan(9, 28, 28, 0).is_behind_prompt(position)), [false, true, true]);
        assert_eq!(all(CheckpointPlan::new(None, 40, 40, 0), 40), [0_u32; 0]);
    }

    #[test]
    fn steps_end_where_checkpoints_are_inside_the_prompt() {
        for slots in 0..6 {
            for tokens in 1..60 {
                for first in 0..tokens {
                    let own = plan(slots, tokens, tokens, first);
                    let stops = std::iter::successors(own.next_stop(first), |position| own.next_stop(*position));
                    let inside: Vec<u32> = all(own, 60).into_iter().filter(|position| *position < tokens).collect();
                    assert_eq!(stops.collect::<Vec<_>>(), inside, "{slots} slots, {tokens} tokens from {first} on");
                    assert!(inside.len() as u32 <= slots / 2 + 1, "{inside:?} of {slots} slots");
                }
            }
        }
    }

    #[test]
    fn the_largest_context_does_not_overflow() {
        let limits = CheckpointLimits { slots: 2, page: 64, spacing: 1 << 31, inside_steps: false };
        let own = CheckpointPlan::new(Some(limits), u32::MAX, u32::MAX, 0);
        assert_eq!(own.next_stop(0), Some(1 << 31));
        assert_eq!(own.next_stop(1 << 31), Some(u32::MAX - 63));
        assert_eq!(own.next_stop(u32::MAX - 63), None);
    }

    /// Where checkpoints may lie inside steps, no step ends for their sake, and those are taken that lie behind one of its rows, whatever the steps.
    #[test]
    fn checkpoints_inside_steps_cut_none() {
        for tokens in 1..60 {
            for first in 0..tokens {
                let cutting = plan(4, tokens, tokens, first);
                let limits = cutting.limits.map(|limits| CheckpointLimits { inside_steps: true, ..limits });
                let own = CheckpointPlan { limits, ..cutting };
                assert!((0..tokens).all(|position| own.next_stop(position).is_none()));
                for rows in 1..20 {
                    let steps = (0..).map(|step| first + step * rows).take_while(|begin| *begin < 60);
                    let taken: Vec<u32> = steps.flat_map(|begin| own.due(rows, begin + rows)).collect();
                    assert_eq!(taken, all(cutting, first + (60 - first).div_ceil(rows) * rows), "{rows} rows, {own:?}");
                }
            }
        }
    }
}
