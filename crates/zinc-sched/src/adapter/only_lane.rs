//! Which sequence is open in a model that has one lane.

use crate::model::SequenceId;

/// The one lane of a model: the sequence that is open in it, if there is one. Sequences are named by their number, from 1.
#[derive(Debug, Default)]
pub(super) struct OnlyLane {
    /// How many sequences were opened so far.
    opened: u64,
    open: Option<SequenceId>,
}

impl OnlyLane {
    /// Opens the next sequence.
    ///
    /// # Panics
    /// If one is open.
    pub(super) fn open(&mut self) -> SequenceId {
        assert_eq!(self.open, None, "a sequence is opened beside another");
        self.opened += 1;
        let sequence = SequenceId::new(self.opened);
        self.open = Some(sequence);
        sequence
    }

    /// Closes a sequence.
    ///
    /// # Panics
    /// If it is not open.
    pub(super) fn close(&mut self, sequence: SequenceId) {
        self.check(sequence);
        self.open = None;
    }

    /// The sequence that is open.
    pub(super) fn sequence(&self) -> Option<SequenceId> {
        self.open
    }

    /// Checks that a sequence is the one that is open.
    ///
    /// # Panics
    /// If it is not.
    pub(super) fn check(&self, sequence: SequenceId) {
        self.check_lanes(&[sequence]);
    }

    /// Checks that the lanes of a step are the sequence that is open.
    ///
    /// # Panics
    /// If they are not.
    pub(super) fn check_lanes(&self, lanes: &[SequenceId]) {
        assert_eq!(lanes, self.open.as_slice(), "the lanes of a step, and the sequence that is open");
    }
}

/// The number by which a step's state knows a sequence. It is never 0, which is what the word of a cancellation holds before the first one.
pub(super) fn device_number(sequence: SequenceId) -> u32 {
    (sequence.value() as u32).max(1)
}
