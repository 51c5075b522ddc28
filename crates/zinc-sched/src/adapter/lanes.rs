//! Which sequence is open in which lane of a model.

use crate::model::{SequenceId, StepLane};

/// The lanes of a model, and what it keeps of the sequence that is open in each. Sequences are named by their number, from 1.
#[derive(Debug)]
pub(super) struct Lanes<T> {
    /// How many sequences were opened so far.
    opened: u64,
    open: Vec<Option<(SequenceId, T)>>,
}

impl<T> Lanes<T> {
    /// So many lanes, in which no sequence is open.
    pub(super) fn new(lanes: u32) -> Self {
        Self { opened: 0, open: (0..lanes).map(|_| None).collect() }
    }

    /// Opens the next sequence in a lane.
    ///
    /// # Panics
    /// If one is open there, or there is no such lane.
    pub(super) fn open(&mut self, lane: u32, kept: T) -> SequenceId {
        let lanes = self.open.len();
        let place = self.open.get_mut(lane as usize).unwrap_or_else(|| panic!("lane {lane} of {lanes}"));
        assert!(
            place.is_none(),
            "a sequence is opened in lane {lane}, where {:?} is open",
            place.as_ref().map(|of| of.0)
        );
        self.opened += 1;
        let sequence = SequenceId::new(self.opened);
        *place = Some((sequence, kept));
        sequence
    }

    /// Closes a sequence.
    ///
    /// # Panics
    /// If it is not open.
    pub(super) fn close(&mut self, sequence: SequenceId) {
        let lane = self.lane(sequence);
        self.open[lane as usize] = None;
    }

    /// The lane in which a sequence is open; `None` if it is not open.
    pub(super) fn find(&self, sequence: SequenceId) -> Option<u32> {
        let is_own = |place: &Option<(SequenceId, T)>| place.as_ref().is_some_and(|(own, _)| *own == sequence);
        self.open.iter().position(is_own).map(|lane| lane as u32)
    }

    /// The lane in which a sequence is open.
    ///
    /// # Panics
    /// If it is not open.
    pub(super) fn lane(&self, sequence: SequenceId) -> u32 {
        self.find(sequence).unwrap_or_else(|| panic!("{sequence:?} is not open"))
    }

    /// The numbers of a step's lanes, in order.
    ///
    /// # Panics
    /// If one of the sequences is not open, or is named twice, or none is named.
    pub(super) fn lanes_of(&self, step: &[StepLane]) -> Vec<u32> {
        assert!(!step.is_empty(), "a step of no lanes");
        let lanes: Vec<u32> = step.iter().map(|lane| self.lane(lane.sequence)).collect();
        let twice = lanes.iter().enumerate().any(|(place, lane)| lanes[..place].contains(lane));
        assert!(!twice, "a step of {step:?}");
        lanes
    }

    /// What is kept of the sequence that is open in a lane.
    ///
    /// # Panics
    /// If none is.
    pub(super) fn kept(&self, lane: u32) -> &T {
        self.open[lane as usize].as_ref().map(|(_, kept)| kept).unwrap_or_else(|| panic!("no sequence in lane {lane}"))
    }

    /// The open sequences with their lanes and what is kept of them.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, SequenceId, &T)> {
        let open = (0..).zip(&self.open);
        open.filter_map(|(lane, place)| place.as_ref().map(|(sequence, kept)| (lane, *sequence, kept)))
    }
}

/// The number by which a lane knows its sequence. It is never 0, which is what the word of a cancellation holds before the first one.
pub(super) fn device_number(sequence: SequenceId) -> u32 {
    (sequence.value() as u32).max(1)
}
