//! What a sequence has in common with earlier ones: the leading tokens of its prompt whose keys and values are valid, and, where sequences have a state beside them, the
//! checkpoint behind them. Copies of states are asked for behind steps, and are checkpoints once these were observed as done.

use crate::checkpoints::{CheckpointBook, CheckpointPlace};
use crate::engine::Engine;
use crate::error::{Error, ModelCall, Result};
use crate::model::{Kept, StepModel};
use crate::pages::{Holding, PageBook, PageContent};
use crate::plan::PlannedStep;
use crate::resolve::Resolved;
use crate::sequence::{Sequence, StateCopy};

/// What a step did for a sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Did {
    /// What it was submitted for.
    Planned,
    /// Nothing, or what nobody wants any more.
    Stale,
    /// It failed, so that the state of the sequence may be broken.
    Failed,
}

impl Did {
    /// What the output of a step was resolved to.
    pub(crate) fn of(resolved: &Result<Resolved>) -> Self {
        match resolved {
            Ok(Resolved::Fed(_) | Resolved::Sampled(..)) => Self::Planned,
            Ok(Resolved::Stale) => Self::Stale,
            Err(_) => Self::Failed,
        }
    }
}

/// Whether what is reused may end with the content of a page: with any where there are no checkpoints, and else where there is one.
pub(crate) fn may_end(checkpoints: Option<&CheckpointBook>) -> impl Fn(PageContent) -> bool + '_ {
    move |content| checkpoints.is_none_or(|book| book.find(CheckpointPlace::Page(content)).is_some())
}

/// Notes what becomes of the copies that were asked for behind a step of a sequence in this lane, which was observed and applied. They are checkpoints if the step did what
/// it was submitted for and ended where it was expected to. Returns how many more are kept.
pub(crate) fn settle(
    checkpoints: &mut CheckpointBook,
    pages: Option<&PageBook>,
    (lane, sequence): (u32, &mut Sequence),
    step: PlannedStep,
    did: Did,
) -> u32 {
    if did == Did::Failed {
        checkpoints.distrust(sequence.age);
        // The keys and values that the sequence had are forgotten. With them go all checkpoints behind them, among them the one that it began with, which may be what is broken.
        checkpoints.retain(|place| match place {
            CheckpointPlace::Page(content) => pages.is_some_and(|pages| pages.knows(content)),
            CheckpointPlace::Lane { lane: own, .. } => own != lane,
        });
    }
    let mut kept = 0;
    while let Some(StateCopy { slot, position, end, .. }) = sequence.copy_behind(step) {
        let place = match (pages, &sequence.holding) {
            (Some(pages), Some(holding)) => pages.content_before(holding, position).map(CheckpointPlace::Page),
            _ => Some(CheckpointPlace::Lane { lane, position }),
        };
        let Some(place) = place.filter(|_| did == Did::Planned && sequence.progress.position() == end) else {
            checkpoints.release(slot);
            continue;
        };
        let is_new = checkpoints.keep(slot, place, sequence.age);
        kept += u32::from(is_new);
        if sequence.checkpoints.is_behind_prompt(position) {
            // One that others have taken, too, is not this sequence's to give up.
            sequence.last_sampled = is_new.then_some(place);
        }
    }
    kept
}

impl<M: StepModel> Engine<M> {
    /// How many leading tokens of a prompt need no step in a lane.
    pub(crate) fn reusable(&self, lane: usize, prompt: &[u32]) -> u32 {
        match &self.book {
            Some(book) => book.reusable(prompt, &may_end(self.checkpoints.as_ref())),
            None => self.reusable_in_lane(lane, prompt),
        }
    }

    /// How many leading tokens of a prompt need no step in a lane, because of what lies in its part of the cache: none if the cache has pages.
    pub(crate) fn reusable_in_lane(&self, lane: usize, prompt: &[u32]) -> u32 {
        let valid = self.lanes[lane].kv.reusable(prompt);
        let checkpoints = self.checkpoints.as_ref();
        checkpoints.map_or(valid, |book| book.last_in_lane(lane as u32, valid).map_or(0, |(position, _)| position))
    }

    /// The slot of the checkpoint that a sequence begins with which has `cached` tokens in common with earlier ones, in its pages or in its lane. It counts as restored.
    /// `None` without recurrent states, or if it begins at position 0.
    pub(crate) fn restored(&mut self, lane: usize, holding: Option<&Holding>, cached: u32) -> Option<u32> {
        let book = self.checkpoints.as_mut().filter(|_| cached > 0)?;
        let place = match holding {
            Some(holding) => CheckpointPlace::Page(holding.end()?),
            None => CheckpointPlace::Lane { lane: lane as u32, position: cached },
        };
        let slot = book.find(place)?;
        book.restored(slot);
        self.counts.checkpoints_restored += 1;
        Some(slot)
    }

    /// Keeps the leading `len` tokens of a lane that has a part of the cache for itself, and forgets the checkpoints behind more of them.
    pub(crate) fn cut_lane(&mut self, lane: usize, len: u32) {
        self.lanes[lane].kv.keep(len);
        if let Some(book) = &mut self.checkpoints {
            book.retain(|place| match place {
                CheckpointPlace::Lane { lane: own, position } => own as usize != lane || position <= len,
                CheckpointPlace::Page(_) => true,
            });
        }
    }

    /// Asks for copies of the states behind the step that was submitted last, for those of its sequences of which a checkpoint is taken there, as far as there are slots
    /// and memory for them.
    pub(crate) fn keep_states(&mut self) -> Result<()> {
        let Self { model, window, lanes, book: pages, checkpoints, counts, .. } = self;
        let (Some(checkpoints), Some(step)) = (checkpoints, window.newest()) else { return Ok(()) };
        for (opened, planned) in &step.lanes {
            let mut running = lanes.iter_mut().filter_map(|lane| lane.running.as_mut());
            let Some(sequence) = running.find(|sequence| sequence.opened == Some(*opened)) else { continue };
            let (due, end) = sequence.due_checkpoints(*planned);
            if let Some(pages) = pages.as_ref().filter(|_| !due.is_empty()) {
                checkpoints.retain(|place| match place {
                    CheckpointPlace::Page(content) => pages.knows(content),
                    CheckpointPlace::Lane { .. } => true,
                });
            }
            let step = planned.index;
            for position in due {
                let superseded = sequence.last_sampled.filter(|_| sequence.checkpoints.is_behind_prompt(position));
                while let Some(slot) = checkpoints.claim(superseded) {
                    let kept = model.keep(*opened, slot, position);
                    match kept.map_err(|source| Error::model(ModelCall::Keep { step }, source))? {
                        Kept::Queued => {
                            sequence.copies.push_back(StateCopy { step, slot, position, end });
                            break;
                        }
                        Kept::NoMemory(reason) => {
                            // An older checkpoint may make room for this one.
                            checkpoints.withdraw(slot);
                            if counts.checkpoints_without_memory == 0 {
                                tracing::warn!(%reason, "fewer checkpoints of states are kept than were asked for, since the memory for one more is lacking");
                            }
                            counts.checkpoints_without_memory += 1;
                        }
                    }
                }
            }
        }
        Ok(())
    }
}
