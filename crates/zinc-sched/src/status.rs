//! What an engine's thread is doing, for anyone who asks. The figures publish nothing else, so that they are plain atomics which the thread writes after each turn.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use crate::clock::nanoseconds;
use crate::occupancy::Occupancy;
use crate::pages::PageCounts;
use crate::speculation::SpeculationStats;
use crate::step::StepKind;

/// The work of an engine since it was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct EngineCounts {
    /// Steps that were waited for, no-ops included.
    pub steps: u64,
    /// Prompt tokens whose keys and values were computed.
    pub prompt_tokens: u64,
    /// Tokens that were delivered.
    pub tokens: u64,
    /// How often a sequence had to give its pages back to others, and computed its keys and values again later.
    pub preemptions: u64,
    /// Checkpoints of recurrent states that were kept.
    pub checkpoints_kept: u64,
    /// How often a sequence began with a checkpoint, instead of computing all of its prompt.
    pub checkpoints_restored: u64,
    /// How often there was no memory for one more checkpoint, so that an earlier one made room for it or none was kept.
    pub checkpoints_without_memory: u64,
    /// The steps with drafts of sequences that have ended.
    pub speculation: SpeculationStats,
    /// The step that was waited for last.
    pub last_step: Option<LastStep>,
    /// The rows of the steps that sampled and fed nothing: the sequences of each.
    pub sampling_rows: RowCounts,
    /// The rows of the steps that fed prompts: the prompt tokens of each.
    pub feeding_rows: RowCounts,
    /// How long the device had work.
    pub occupancy: Occupancy,
}

/// How many steps had how many rows, no-ops included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RowCounts {
    /// The steps that had at most as many rows as the bound in the same place, and more than the bound before it. The last place is that of steps with more
    /// rows than any bound.
    pub steps: [u64; Self::PLACES],
    /// The rows of all these steps.
    pub rows: u64,
}

impl RowCounts {
    /// The bounds.
    pub const BOUNDS: [u32; 12] = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048];

    const PLACES: usize = Self::BOUNDS.len() + 1;

    /// How many steps there were.
    pub fn count(&self) -> u64 {
        self.steps.iter().sum()
    }

    /// Adds a step of so many rows.
    pub(crate) fn add(&mut self, rows: u32) {
        self.steps[Self::BOUNDS.partition_point(|bound| *bound < rows)] += 1;
        self.rows += u64::from(rows);
    }
}

/// The step that was waited for last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LastStep {
    /// Its kind.
    pub kind: StepKind,
    /// How many sequences it was of.
    pub lanes: u32,
    /// When it was observed, in nanoseconds on the engine's clock.
    pub observed_ns: u64,
}

/// Whether an engine's thread can answer requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Condition {
    /// It can.
    #[default]
    Well,
    /// Its model has failed and another one is made. Requests wait for that.
    Rebuilding,
    /// Its model has failed for good: every request fails.
    GivenUp,
}

/// What an engine's thread is doing. Each figure is that of a moment ago, and not all need be of the same moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Status {
    /// Whether it can answer requests. Readers of a generation that has failed with its model find this changed before they see the failure.
    pub condition: Condition,
    /// How often its model has failed, because the device was lost for example.
    pub failures: u64,
    /// Requests that wait for a lane.
    pub queued: usize,
    /// Requests that run.
    pub running: usize,
    /// Whether no further requests are taken ([`EngineHandle::drain`](crate::EngineHandle::drain)).
    pub draining: bool,
    /// How many pages of the cache there are of each kind; `None` if it has no pages.
    pub pages: Option<PageCounts>,
    /// What was done since the thread was started.
    pub counts: EngineCounts,
}

/// Where the thread writes its figures, and others read them.
#[derive(Debug, Default)]
pub(crate) struct Board {
    condition: AtomicU8,
    failures: AtomicU64,
    running: AtomicU64,
    steps: AtomicU64,
    prompt_tokens: AtomicU64,
    tokens: AtomicU64,
    preemptions: AtomicU64,
    checkpoints_kept: AtomicU64,
    checkpoints_restored: AtomicU64,
    checkpoints_without_memory: AtomicU64,
    /// Steps with drafts, the tokens that they sampled, and the drafts.
    speculation: [AtomicU64; 3],
    /// Pages used, free and cached; all 0 if the cache has none.
    pages: [AtomicU64; 3],
    /// The lanes of the last step, and its kind behind their 8 bits; 0 before the first.
    last_step: AtomicU64,
    last_observed_ns: AtomicU64,
    sampling_rows: RowBoard,
    feeding_rows: RowBoard,
    busy_ns: AtomicU64,
    idle_ns: AtomicU64,
}

/// Where [`RowCounts`] are written.
#[derive(Debug, Default)]
struct RowBoard {
    steps: [AtomicU64; RowCounts::PLACES],
    rows: AtomicU64,
}

impl RowBoard {
    fn write(&self, counts: &RowCounts) {
        self.steps.iter().zip(counts.steps).for_each(|(place, steps)| place.store(steps, Relaxed));
        self.rows.store(counts.rows, Relaxed);
    }

    fn read(&self) -> RowCounts {
        RowCounts { steps: self.steps.each_ref().map(|place| place.load(Relaxed)), rows: self.rows.load(Relaxed) }
    }
}

const KINDS: [StepKind; 4] = [StepKind::Feed, StepKind::FeedDecode, StepKind::Decode, StepKind::Speculate];

const CONDITIONS: [Condition; 3] = [Condition::Well, Condition::Rebuilding, Condition::GivenUp];

impl Board {
    /// Notes whether the thread can answer requests.
    pub(crate) fn set_condition(&self, condition: Condition) {
        self.condition.store(condition as u8, Relaxed);
    }

    /// Notes that the model has failed, and what becomes of the engine. One that was given up before has no model that could fail.
    pub(crate) fn fail(&self, condition: Condition) {
        if self.condition() != Condition::GivenUp {
            self.failures.fetch_add(1, Relaxed);
        }
        self.set_condition(condition);
    }

    /// How often the model has failed.
    pub(crate) fn failures(&self) -> u64 {
        self.failures.load(Relaxed)
    }

    /// Whether the thread can answer requests.
    pub(crate) fn condition(&self) -> Condition {
        CONDITIONS[usize::from(self.condition.load(Relaxed))]
    }

    /// Notes how many requests run, how many pages there are of each kind and what was done. The latter stays as it is where `None` is given.
    pub(crate) fn write(&self, running: usize, pages: Option<PageCounts>, counts: Option<EngineCounts>) {
        self.running.store(running as u64, Relaxed);
        let PageCounts { used, free, cached } = pages.unwrap_or_default();
        for (place, pages) in self.pages.iter().zip([used, free, cached]) {
            place.store(u64::from(pages), Relaxed);
        }
        let Some(counts) = counts else { return };
        let EngineCounts { steps, prompt_tokens, tokens, preemptions, last_step, .. } = counts;
        self.steps.store(steps, Relaxed);
        self.prompt_tokens.store(prompt_tokens, Relaxed);
        self.tokens.store(tokens, Relaxed);
        self.preemptions.store(preemptions, Relaxed);
        self.checkpoints_kept.store(counts.checkpoints_kept, Relaxed);
        self.checkpoints_restored.store(counts.checkpoints_restored, Relaxed);
        self.checkpoints_without_memory.store(counts.checkpoints_without_memory, Relaxed);
        let SpeculationStats { steps, tokens, drafts } = counts.speculation;
        for (place, count) in self.speculation.iter().zip([steps, tokens, drafts]) {
            place.store(count, Relaxed);
        }
        self.sampling_rows.write(&counts.sampling_rows);
        self.feeding_rows.write(&counts.feeding_rows);
        self.busy_ns.store(nanoseconds(counts.occupancy.busy), Relaxed);
        self.idle_ns.store(nanoseconds(counts.occupancy.idle), Relaxed);
        if let Some(LastStep { kind, lanes, observed_ns }) = last_step {
            let kind = KINDS.iter().position(|own| *own == kind).unwrap_or(0) as u64;
            self.last_step.store(kind << 8 | u64::from(lanes), Relaxed);
            self.last_observed_ns.store(observed_ns, Relaxed);
        }
    }

    /// How many requests run, how many pages there are of each kind, and what was done.
    pub(crate) fn read(&self) -> (usize, Option<PageCounts>, EngineCounts) {
        let last_step = self.last_step.load(Relaxed);
        let last_step = (last_step > 0).then(|| LastStep {
            kind: KINDS[(last_step >> 8) as usize],
            lanes: (last_step & 0xff) as u32,
            observed_ns: self.last_observed_ns.load(Relaxed),
        });
        let [steps, tokens, drafts] = self.speculation.each_ref().map(|place| place.load(Relaxed));
        let counts = EngineCounts {
            speculation: SpeculationStats { steps, tokens, drafts },
            steps: self.steps.load(Relaxed),
            prompt_tokens: self.prompt_tokens.load(Relaxed),
            tokens: self.tokens.load(Relaxed),
            preemptions: self.preemptions.load(Relaxed),
            checkpoints_kept: self.checkpoints_kept.load(Relaxed),
            checkpoints_restored: self.checkpoints_restored.load(Relaxed),
            checkpoints_without_memory: self.checkpoints_without_memory.load(Relaxed),
            last_step,
            sampling_rows: self.sampling_rows.read(),
            feeding_rows: self.feeding_rows.read(),
            occupancy: Occupancy {
                busy: Duration::from_nanos(self.busy_ns.load(Relaxed)),
                idle: Duration::from_nanos(self.idle_ns.load(Relaxed)),
            },
        };
        let [used, free, cached] = [0, 1, 2].map(|kind: usize| self.pages[kind].load(Relaxed) as u32);
        let pages = PageCounts { used, free, cached };
        (self.running.load(Relaxed) as usize, (pages != PageCounts::default()).then_some(pages), counts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let board = Board::default();
        assert_eq!(board.read(), (0, None, EngineCounts::default()));
        for kind in KINDS {
            let last_step = Some(LastStep { kind, lanes: 64, observed_ns: u64::MAX });
            let mut counts = EngineCounts {
                steps: 1 << 40,
                prompt_tokens: 2,
                tokens: 3,
                preemptions: 4,
                checkpoints_kept: 5,
                checkpoints_restored: 6,
                checkpoints_without_memory: 13,
                speculation: SpeculationStats { steps: 10, tokens: 11, drafts: 12 },
                last_step,
                ..Default::default()
            };
            counts.sampling_rows.add(7);
            counts.feeding_rows.add(512);
            counts.occupancy = Occupancy { busy: Duration::from_nanos(8), idle: Duration::from_nanos(9) };
            let pages = Some(PageCounts { used: 6, free: 0, cached: 7 });
            board.write(5, pages, Some(counts));
            assert_eq!(board.read(), (5, pages, counts));
            board.write(0, pages, None);
            assert_eq!(board.read(), (0, pages, counts));
        }
    }

    #[test]
    fn a_condition_is_read_as_it_was_set() {
        let board = Board::default();
        assert_eq!(board.condition(), Condition::Well);
        for condition in CONDITIONS {
            board.set_condition(condition);
            assert_eq!(board.condition(), condition);
        }
    }

    #[test]
    fn failures_are_counted_until_the_engine_is_given_up() {
        let board = Board::default();
        for (condition, failures) in
            [(Condition::Rebuilding, 1), (Condition::Rebuilding, 2), (Condition::GivenUp, 3), (Condition::GivenUp, 3)]
        {
            board.fail(condition);
            assert_eq!((board.condition(), board.failures()), (condition, failures));
        }
    }

    #[test]
    fn rows_are_counted_by_their_bounds() {
        let mut counts = RowCounts::default();
        for rows in [1, 1, 2, 3, 4, 5, 2048, 2049] {
            counts.add(rows);
        }
        assert_eq!(counts.steps, [2, 1, 2, 1, 0, 0, 0, 0, 0, 0, 0, 1, 1]);
        assert_eq!((counts.count(), counts.rows), (8, 16 + 2048 + 2049));
    }
}
