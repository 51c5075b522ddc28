//! What an engine's thread is doing, for anyone who asks. The figures publish nothing else, so that they are plain atomics which the thread writes after each turn.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::pages::PageCounts;
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
    /// The step that was waited for last.
    pub last_step: Option<LastStep>,
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

/// What an engine's thread is doing. Each figure is that of a moment ago, and not all need be of the same moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Status {
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
    running: AtomicU64,
    steps: AtomicU64,
    prompt_tokens: AtomicU64,
    tokens: AtomicU64,
    preemptions: AtomicU64,
    /// Pages used, free and cached; all 0 if the cache has none.
    pages: [AtomicU64; 3],
    /// The lanes of the last step, and its kind behind their 8 bits; 0 before the first.
    last_step: AtomicU64,
    last_observed_ns: AtomicU64,
}

const KINDS: [StepKind; 4] = [StepKind::Feed, StepKind::FeedDecode, StepKind::Decode, StepKind::Speculate];

impl Board {
    /// Notes how many requests run, how many pages there are of each kind and what was done. The latter stays as it is where `None` is given.
    pub(crate) fn write(&self, running: usize, pages: Option<PageCounts>, counts: Option<EngineCounts>) {
        self.running.store(running as u64, Relaxed);
        let PageCounts { used, free, cached } = pages.unwrap_or_default();
        for (place, pages) in self.pages.iter().zip([used, free, cached]) {
            place.store(u64::from(pages), Relaxed);
        }
        let Some(EngineCounts { steps, prompt_tokens, tokens, preemptions, last_step }) = counts else { return };
        self.steps.store(steps, Relaxed);
        self.prompt_tokens.store(prompt_tokens, Relaxed);
        self.tokens.store(tokens, Relaxed);
        self.preemptions.store(preemptions, Relaxed);
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
        let counts = EngineCounts {
            steps: self.steps.load(Relaxed),
            prompt_tokens: self.prompt_tokens.load(Relaxed),
            tokens: self.tokens.load(Relaxed),
            preemptions: self.preemptions.load(Relaxed),
            last_step,
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
            let counts = EngineCounts { steps: 1 << 40, prompt_tokens: 2, tokens: 3, preemptions: 4, last_step };
            let pages = Some(PageCounts { used: 6, free: 0, cached: 7 });
            board.write(5, pages, Some(counts));
            assert_eq!(board.read(), (5, pages, counts));
            board.write(0, pages, None);
            assert_eq!(board.read(), (0, pages, counts));
        }
    }
}
