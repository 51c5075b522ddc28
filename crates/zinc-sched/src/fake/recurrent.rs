//! The states of the simulated model, recurrent ones or those of windows: which tokens the state of each lane has really taken in, and the copies of states in the slots of
//! checkpoints.

use super::FakeModel;
use crate::model::{CheckpointLimits, ModelLimits, SequenceId, SequenceStart};

/// A state: the tokens that it has taken in, one that is nobody's where it is broken.
type State = Vec<u32>;

/// The states of a model that has them.
pub(super) struct Recurrent {
    limits: CheckpointLimits,
    /// A token that nobody samples.
    broken: u32,
    /// The most rows of a step, and so how far behind its end a copy of the state may be that is taken inside steps.
    most_rows: u32,
    lanes: Vec<State>,
    slots: Vec<Option<(State, u32)>>,
}

/// A copy of a state that is queued behind a step.
#[derive(Debug, Clone, Copy)]
pub(super) struct QueuedCopy {
    lane: usize,
    slot: usize,
    position: u32,
}

impl Recurrent {
    /// The empty states of a model, if it has any.
    pub(super) fn new(limits: ModelLimits) -> Option<Self> {
        let ModelLimits { lanes, checkpoints, vocabulary_tokens, feed_rows, .. } = limits;
        checkpoints.map(|limits| Self {
            limits,
            broken: vocabulary_tokens,
            most_rows: feed_rows,
            lanes: vec![State::new(); lanes as usize],
            slots: vec![None; limits.slots as usize],
        })
    }

    /// Takes in a token at a position. At position 0 a state begins anew; one that has taken in others than those before the position is broken from then on.
    pub(super) fn take_in(&mut self, lane: usize, position: u32, token: u32) {
        let state = &mut self.lanes[lane];
        if position == 0 {
            state.clear();
        }
        if state.len() != position as usize {
            state.push(self.broken);
        }
        state.push(token);
    }

    /// Notes that a step which takes in tokens was ended in the middle of its layers.
    pub(super) fn break_off(&mut self, lane: usize) {
        self.lanes[lane].push(self.broken);
    }

    /// Whether a lane's state has taken in these tokens: at position 0, where it begins anew, in any case.
    pub(super) fn has(&self, lane: usize, tokens: &[u32]) -> bool {
        tokens.is_empty() || self.lanes[lane] == tokens
    }

    /// Copies the state of a lane into a slot: what it has taken in by now, or the part of it that is asked for, if it may be taken inside steps and goes back no further
    /// than a step does.
    pub(super) fn copy(&mut self, QueuedCopy { lane, slot, position }: QueuedCopy) {
        let mut state = self.lanes[lane].clone();
        let further = state.len().saturating_sub(position as usize);
        if self.limits.inside_steps && further < self.most_rows as usize {
            state.truncate(position as usize);
        }
        self.slots[slot] = Some((state, position));
    }

    /// Makes the state in a slot that of the lane in which a sequence is opened.
    fn restore(&mut self, start: &SequenceStart<'_>) {
        let (cached, page) = (start.cached, self.limits.page);
        let Some(slot) = start.restored else {
            assert!(cached == 0, "open at position {cached} without a checkpoint");
            return;
        };
        assert!(
            cached > 0 && cached.is_multiple_of(page),
            "open at position {cached} of a checkpoint: pages have {page}"
        );
        let slots = self.slots.len();
        let state = self.slots.get(slot as usize).unwrap_or_else(|| panic!("slot {slot} of {slots} restored"));
        let (state, position) = state.as_ref().unwrap_or_else(|| panic!("slot {slot} restored, which is empty"));
        assert_eq!(*position, cached, "the position of what slot {slot} holds, and that where it is restored");
        self.lanes[start.lane as usize].clone_from(state);
    }
}

impl FakeModel {
    /// Gives the lane in which a sequence is opened the state of a checkpoint, if it begins with one. The copies in flight into other slots do not matter.
    pub(super) fn restore(&mut self, start: &SequenceStart<'_>) {
        let in_flight = self.in_flight.iter().flat_map(|pending| &pending.copies);
        let awaited = in_flight.filter(|copy| start.restored.is_some_and(|slot| copy.slot == slot as usize)).count();
        assert!(awaited == 0, "slot {:?} restored with {awaited} copies into it in flight", start.restored);
        match &mut self.recurrent {
            Some(recurrent) => recurrent.restore(start),
            None => assert!(start.restored.is_none(), "slot {:?} restored without a recurrent state", start.restored),
        }
    }

    /// Queues a copy of a sequence's state into a slot, behind the steps in flight.
    pub(super) fn queue_copy(&mut self, sequence: SequenceId, slot: u32, position: u32) {
        let lane = self.lane_of(sequence, "keep");
        assert!(!self.is_begun(sequence), "keep between the ranges of a step of its sequence");
        let recurrent = self.recurrent.as_mut().expect("keep of a state that there is not");
        let slots = recurrent.slots.len();
        assert!((slot as usize) < slots, "keep in slot {slot} of {slots}");
        let copy = QueuedCopy { lane, slot: slot as usize, position };
        match self.in_flight.back_mut() {
            Some(last) => last.copies.push(copy),
            None => recurrent.copy(copy),
        }
    }
}
