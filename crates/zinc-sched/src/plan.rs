//! What the loop does next, as pure functions of counts. Nothing here touches a model, a clock or a channel.

mod checkpoints;
mod prompts;

use std::time::Duration;

pub use checkpoints::CheckpointPlan;
pub use prompts::{Feeding, PromptPart, prompt_step};

use crate::depth::InflightDepth;
use crate::step::StepKind;
use prompts::next_feed;

/// What bounds the number of tokens that a sequence samples.
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
    /// How many steps of the sequence come before it.
    pub index: u32,
    /// Its kind.
    pub kind: StepKind,
    /// How many prompt tokens it takes in, if it feeds; otherwise 1.
    pub rows: u32,
}

/// How many tokens a sequence feeds and samples at most. The prompt's length and the token budget decide this before the first step is submitted; an
/// end-of-generation id or a cancellation may make it fewer.
///
/// Of a prompt of `p` tokens of which `c` are cached `p - 1 - c` are fed, those at positions `c..p - 1`. Then tokens are sampled, the first of them
/// behind position `p - 1`, by the step that feeds the last of those tokens or by the one behind it. Positions end with the context, so at most
/// `context - p + 1` tokens can be sampled: the last of them is sampled at the last position and has no position of its own.
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

    /// This plan for a sequence that goes on with so many tokens, of which `cached` need no step: all others but the last are fed again, and as many tokens are
    /// sampled in all.
    ///
    /// # Panics
    /// Unless `cached < tokens`.
    #[must_use]
    pub fn resumed(self, tokens: u32, cached: u32) -> Self {
        assert!(cached < tokens, "a plan needs cached < tokens, not {cached}, {tokens}");
        Self { cached, feeds: tokens - 1 - cached, ..self }
    }

    /// Position of the first step.
    pub fn first_position(&self) -> u32 {
        self.cached
    }

    /// How many prompt tokens are fed.
    pub fn feeds(&self) -> u32 {
        self.feeds
    }

    /// The most tokens that will be sampled.
    pub fn decodes(&self) -> u32 {
        self.decodes
    }

    /// What bounds [`decodes`](Self::decodes). If the budget and the context end at the same token, it is [`Limit::MaxTokens`].
    pub fn limit(&self) -> Limit {
        self.limit
    }

    /// The most steps that the sequence can take, never more than the context has positions.
    pub fn steps(&self) -> u32 {
        self.feeds + self.decodes
    }
}

/// Whether the sequence still wants tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// It does, and steps are submitted.
    Running,
    /// It has ended. Steps in flight are waited for, and their output is thrown away.
    Draining,
}

/// How many steps of a sequence were submitted and observed, and what they sampled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StepCounts {
    /// Prompt tokens that submitted steps feed.
    pub tokens_fed: u32,
    /// Tokens that observed steps have sampled.
    pub tokens_sampled: u32,
    /// Its steps in flight that sample. Each will bring at least one token.
    pub sampling_steps_in_flight: u32,
}

/// The step that a sequence wants next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted {
    /// A step that feeds its prompt, in this way.
    Feed(Feeding),
    /// The next range of a step that feeds and is begun. It takes so long: no time if all sequences of the step have ended, since the step then does nothing.
    Range(Duration),
    /// A step that samples and feeds nothing.
    Sample,
    /// None: it has ended, or steps in flight bring all its tokens.
    Nothing,
}

/// Says which step a sequence wants next: one that feeds while its prompt is not fed, then one that samples while tokens are wanted that no step in flight
/// brings.
pub fn wanted(plan: &SequencePlan, phase: Phase, counts: StepCounts, feeding: Feeding) -> Wanted {
    let StepCounts { tokens_fed, tokens_sampled, sampling_steps_in_flight } = counts;
    if phase != Phase::Running {
        return Wanted::Nothing;
    }
    if tokens_fed < plan.feeds() {
        return Wanted::Feed(feeding);
    }
    if tokens_sampled + sampling_steps_in_flight < plan.decodes() { Wanted::Sample } else { Wanted::Nothing }
}

/// What is known of a running sequence when the loop decides what to do next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SequenceView {
    /// The step that it wants next.
    pub wanted: Wanted,
    /// Prompt tokens that no submitted step feeds.
    pub feeds_left: u32,
    /// Tokens of its prompt up to the next position where a step that feeds has to end; `None` if there is none before the prompt's end.
    pub until_checkpoint: Option<u32>,
    /// How many steps have fed other prompts since this one was fed last, while it waited.
    pub passed_over: u32,
}

/// What the loop does next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Turn {
    /// Begin a step that feeds these parts of prompts.
    Feed {
        /// The parts, each of another sequence.
        parts: Vec<PromptPart>,
        /// Whether the step could have fed more.
        has_room: bool,
    },
    /// Submit the next range of the step that is begun.
    Range,
    /// Submit a step that takes the sequences at these indices a token further.
    Sample(Vec<usize>),
    /// Wait for the oldest step in flight.
    Observe,
    /// Nothing is in flight and nothing is wanted.
    Idle,
}

/// What was submitted since the last step that samples for those who are not fed, and how much more may be before the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Interval {
    /// What the ranges of steps that feed take which were submitted since; `None` if there are none.
    pub ranges: Option<Duration>,
    /// What such ranges may take together.
    pub room: Duration,
}

/// The steps in flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct InFlight {
    /// How many there are.
    pub steps: u32,
    /// Whether one of them feeds and could have fed more.
    pub has_room: bool,
}

/// Says what to do next: to submit while the window has room and a sequence wants a step, then to wait.
///
/// All sequences that want a token get it by one step. Ranges of a step that feeds come between those: one, or as many of the same step as `interval` has room
/// for, so that nobody's next token waits for longer, or for more than one of them. If nobody wants a token, whole steps that feed are submitted. A step that is
/// begun is ended before another begins.
///
/// A step that feeds takes in prompts until its rows are full, of which a model has `feed_rows` at most, each up to its next checkpoint. One that could take in more is
/// submitted only while no other such step is in flight: prompts that come meanwhile share the next one, since a step takes nearly as long for one short prompt as for
/// many. If a checkpoint has cut a prompt they share the step with the rest of it, which needs no further one.
pub fn next_turn(
    sequences: &[SequenceView],
    in_flight: InFlight,
    depth: InflightDepth,
    feed_rows: u32,
    interval: Interval,
) -> Turn {
    if in_flight.steps < depth.get() {
        let samples = |view: &SequenceView| view.wanted == Wanted::Sample;
        let feed = next_feed(sequences, feed_rows).filter(|(_, has_room)| !(*has_room && in_flight.has_room));
        let begun = sequences.iter().find_map(|view| match view.wanted {
            Wanted::Range(time) => Some(time),
            _ => None,
        });
        let someone_samples = sequences.iter().any(samples);
        if let Some(time) = begun {
            let fits = interval.ranges.is_none_or(|ranges| ranges.saturating_add(time) <= interval.room);
            if !someone_samples || time.is_zero() || fits {
                return Turn::Range;
            }
        } else if let Some((parts, has_room)) = feed.filter(|_| !someone_samples || interval.ranges.is_none()) {
            return Turn::Feed { parts, has_room };
        }
        if someone_samples {
            let indices = sequences.iter().enumerate().filter(|(_, view)| samples(view)).map(|(index, _)| index);
            return Turn::Sample(indices.collect());
        }
    }
    if in_flight.steps > 0 { Turn::Observe } else { Turn::Idle }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::LastToken;

    #[test]
    fn all_but_the_last_uncached_prompt_token_are_fed() {
        for (prompt, cached, max, context, expected) in [
            (1, 0, Some(3), 10, (0, 3)),
            (4, 0, Some(2), 10, (3, 2)),
            (4, 2, Some(2), 10, (1, 2)),
            (4, 3, Some(2), 10, (0, 2)),
            (4, 0, Some(0), 10, (3, 0)),
            (4, 0, Some(1), 4, (3, 1)),
            (4, 0, None, 4, (3, 1)),
            (4, 0, None, 6, (3, 3)),
            (4, 0, Some(99), 6, (3, 3)),
            (1, 0, None, 1, (0, 1)),
        ] {
            let plan = SequencePlan::new(prompt, cached, max, context);
            let steps = (plan.feeds(), plan.decodes());
            assert_eq!(steps, expected, "prompt {prompt} cached {cached} max {max:?} context {context}");
            assert_eq!(plan.first_position() + plan.feeds(), prompt - 1);
        }
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

    /// A sequence that wants a step, alone in the loop.
    fn alone(plan: &SequencePlan, phase: Phase, counts: StepCounts, in_flight: u32, feeding: Feeding) -> Turn {
        let view = SequenceView {
            wanted: wanted(plan, phase, counts, feeding),
            feeds_left: plan.feeds() - counts.tokens_fed,
            until_checkpoint: None,
            passed_over: 0,
        };
        let in_flight = InFlight { steps: in_flight, has_room: false };
        next_turn(&[view], in_flight, InflightDepth::new(2).unwrap(), feeding.rows, UNFED)
    }

    /// A step that feeds so many tokens of the prompt at an index alone.
    fn feed(index: usize, kind: StepKind, rows: u32, has_room: bool) -> Turn {
        Turn::Feed { parts: vec![PromptPart { index, kind, rows }], has_room }
    }

    #[test]
    fn the_window_is_filled_before_anything_is_observed() {
        let plan = SequencePlan::new(2, 0, Some(3), 100);
        let next = |phase, tokens_fed, tokens_sampled, steps_in_flight, sampling_steps_in_flight| {
            let counts = StepCounts { tokens_fed, tokens_sampled, sampling_steps_in_flight };
            alone(&plan, phase, counts, steps_in_flight, Feeding { rows: 16, last_token: LastToken::Alone })
        };
        let sample = Turn::Sample(vec![0]);
        assert_eq!(next(Phase::Running, 0, 0, 0, 0), feed(0, StepKind::Feed, 1, true));
        assert_eq!(next(Phase::Running, 1, 0, 1, 0), sample);
        assert_eq!(next(Phase::Running, 1, 0, 2, 1), Turn::Observe);
        assert_eq!(next(Phase::Running, 1, 0, 1, 1), sample);
        assert_eq!(next(Phase::Running, 1, 2, 1, 1), Turn::Observe, "every token is on its way");
        assert_eq!(next(Phase::Running, 1, 3, 0, 0), Turn::Idle);
        assert_eq!(next(Phase::Draining, 1, 0, 1, 1), Turn::Observe);
        assert_eq!(next(Phase::Draining, 1, 0, 0, 0), Turn::Idle);
    }

    #[test]
    fn a_prompt_is_fed_in_full_steps_and_what_is_left() {
        let plan = SequencePlan::new(12, 1, Some(3), 100);
        let fed = |rows, last_token| {
            let mut counts = StepCounts::default();
            let mut kinds = Vec::new();
            let steps = std::iter::from_fn(|| {
                let turn = alone(&plan, Phase::Running, counts, 0, Feeding { rows, last_token });
                let Turn::Feed { parts, has_room } = turn else { return None };
                let [PromptPart { index: 0, kind, rows: fed }] = parts[..] else { panic!("{parts:?}") };
                assert_eq!(has_room, fed < rows, "{fed} of {rows}");
                counts.tokens_fed += kind.fed_of(fed);
                counts.sampling_steps_in_flight += u32::from(kind.samples());
                kinds.push(kind);
                Some(fed)
            });
            let rows: Vec<u32> = steps.collect();
            assert_eq!(counts.tokens_fed, plan.feeds());
            let sampling = kinds.iter().position(|kind| kind.samples());
            assert!(sampling.is_none_or(|index| index + 1 == kinds.len()), "{kinds:?}");
            (rows, sampling.is_some())
        };
        assert_eq!(fed(1, LastToken::Alone), (vec![1; 10], false));
        assert_eq!(fed(4, LastToken::Alone), (vec![4, 4, 2], false));
        assert_eq!(fed(5, LastToken::Alone), (vec![5, 5], false));
        assert_eq!(fed(16, LastToken::Alone), (vec![10], false));
        assert_eq!(fed(1, LastToken::Fed), (vec![1; 10], false));
        assert_eq!(fed(2, LastToken::Fed), (vec![2; 5], false));
        assert_eq!(fed(4, LastToken::Fed), (vec![4, 4, 3], true));
        assert_eq!(fed(5, LastToken::Fed), (vec![5, 5], false));
        assert_eq!(fed(10, LastToken::Fed), (vec![10], false));
        assert_eq!(fed(11, LastToken::Fed), (vec![11], true));
        assert_eq!(fed(16, LastToken::Fed), (vec![11], true));
    }

    /// A sequence that wants to feed so many tokens, by steps of 4 at most.
    fn feeding(left: u32, passed_over: u32) -> SequenceView {
        let feeding = Feeding { rows: 4, last_token: LastToken::Alone };
        SequenceView { wanted: Wanted::Feed(feeding), feeds_left: left, until_checkpoint: None, passed_over }
    }

    const SAMPLING: SequenceView =
        SequenceView { wanted: Wanted::Sample, feeds_left: 0, until_checkpoint: None, passed_over: 0 };
    const DONE: SequenceView = SequenceView { wanted: Wanted::Nothing, ..SAMPLING };

    const ROOM: Duration = Duration::from_millis(20);
    const UNFED: Interval = Interval { ranges: None, room: ROOM };

    /// A turn behind a step that feeds, or behind one that samples.
    fn turn(sequences: &[SequenceView], in_flight: u32, fed_last: bool) -> Turn {
        let (ranges, in_flight) = (fed_last.then_some(Duration::ZERO), InFlight { steps: in_flight, has_room: false });
        next_turn(sequences, in_flight, InflightDepth::DEFAULT, 4, Interval { ranges, ..UNFED })
    }

    /// A sequence whose step is begun, and has a range of so many milliseconds next.
    fn begun(range_ms: u64) -> SequenceView {
        SequenceView {
            wanted: Wanted::Range(Duration::from_millis(range_ms)),
            feeds_left: 9,
            until_checkpoint: None,
            passed_over: 0,
        }
    }

    /// The turn behind ranges of so many milliseconds.
    fn turn_behind(sequences: &[SequenceView], ranges_ms: Option<u64>) -> Turn {
        let interval = Interval { ranges: ranges_ms.map(Duration::from_millis), ..UNFED };
        next_turn(sequences, InFlight { steps: 1, has_room: false }, InflightDepth::DEFAULT, 4, interval)
    }

    #[test]
    fn ranges_come_between_tokens_as_there_is_room() {
        let decode = Turn::Sample(vec![0]);
        let both = |range_ms| [SAMPLING, begun(range_ms), feeding(5, 9)];
        for (range_ms, behind_ms, expected) in [
            (90, None, Turn::Range),
            (10, Some(10), Turn::Range),
            (11, Some(10), decode.clone()),
            (90, Some(0), decode.clone()),
            (0, Some(90), Turn::Range),
        ] {
            assert_eq!(turn_behind(&both(range_ms), behind_ms), expected, "{range_ms} ms behind {behind_ms:?}");
        }
        assert_eq!(
            turn_behind(&[SAMPLING, feeding(5, 0)], Some(1)),
            decode,
            "a step is not begun in the room that is left"
        );
        let full = InFlight { steps: InflightDepth::DEFAULT.get(), has_room: false };
        assert_eq!(next_turn(&both(0), full, InflightDepth::DEFAULT, 4, UNFED), Turn::Observe, "the window is full");
    }

    #[test]
    fn a_step_that_is_begun_is_ended_before_another_begins() {
        assert_eq!(turn_behind(&[feeding(1, 99), begun(90)], Some(90)), Turn::Range);
        assert_eq!(turn_behind(&[DONE, begun(90)], Some(90)), Turn::Range, "nobody waits for a token");
        assert_eq!(turn_behind(&[SAMPLING, begun(90), feeding(1, 99)], Some(90)), Turn::Sample(vec![0]));
    }

    #[test]
    fn all_who_want_a_token_share_a_step() {
        assert_eq!(turn(&[SAMPLING, DONE, SAMPLING], 0, false), Turn::Sample(vec![0, 2]));
        assert_eq!(turn(&[DONE, DONE], 1, false), Turn::Observe);
        assert_eq!(turn(&[DONE, DONE], 0, true), Turn::Idle);
        assert_eq!(turn(&[], 0, false), Turn::Idle);
        assert_eq!(turn(&[SAMPLING], InflightDepth::DEFAULT.get(), false), Turn::Observe);
    }

    #[test]
    fn a_token_waits_for_one_step_that_feeds_at_most() {
        let both = [SAMPLING, feeding(9, 0)];
        assert_eq!(turn(&both, 1, false), feed(1, StepKind::Feed, 4, false));
        assert_eq!(turn(&both, 1, true), Turn::Sample(vec![0]));
        assert_eq!(
            turn(&[DONE, feeding(9, 0)], 1, true),
            feed(1, StepKind::Feed, 4, false),
            "nobody waits for a token"
        );
    }

    /// A prompt of 40 tokens beside an endless row of prompts of 4: it is fed now and then, more often the less of it is left, and does not keep the others out.
    #[test]
    fn a_long_prompt_beside_endless_short_ones_is_fed_in_time() {
        let (mut left, mut passed_over, mut waits) = (40, 0, Vec::new());
        while left > 0 {
            let turn = turn(&[feeding(left, passed_over), feeding(4, 0)], 0, false);
            let Turn::Feed { parts, has_room: false } = turn else { panic!("{turn:?}") };
            match parts[..] {
                [PromptPart { index: 0, rows: 4, .. }] => {
                    waits.push(passed_over);
                    (left, passed_over) = (left - 4, 0);
                }
                [PromptPart { index: 1, rows: 4, .. }] => passed_over += 1,
                _ => panic!("{parts:?}"),
            }
        }
        assert_eq!(waits, [9, 8, 7, 6, 5, 4, 3, 2, 1, 0]);
    }

    /// Prompts that come while a step with room is in flight wait for it, and share the next one. A full step waits for none.
    #[test]
    fn one_step_with_room_is_in_flight_at_a_time() {
        let next = |sequences: &[SequenceView], has_room| {
            next_turn(sequences, InFlight { steps: 1, has_room }, InflightDepth::DEFAULT, 4, UNFED)
        };
        assert_eq!(next(&[feeding(2, 0)], false), feed(0, StepKind::Feed, 2, true));
        assert_eq!(next(&[feeding(2, 0)], true), Turn::Observe);
        assert_eq!(next(&[feeding(2, 0), SAMPLING], true), Turn::Sample(vec![1]));
        assert_eq!(next(&[feeding(9, 0)], true), feed(0, StepKind::Feed, 4, false));
        let shared = [(0, 2), (1, 2)].map(|(index, rows)| PromptPart { index, kind: StepKind::Feed, rows });
        let shared = Turn::Feed { parts: shared.to_vec(), has_room: false };
        assert_eq!(next(&[feeding(2, 0), feeding(3, 0)], true), shared);
    }
}
