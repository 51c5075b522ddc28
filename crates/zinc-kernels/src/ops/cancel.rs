//! The end of sequences before the last submission of a step, where the host wants them stopped.

use crate::generated::cancel::{Constants, KERNEL, Push};
use crate::{Dispatch, Target};

/// Ends the sequences of the step that the host has cancelled: what is left of the step, and all steps queued behind it, change nothing for them. Once all have
/// ended the table of rows is empty.
#[derive(Clone, Copy, Debug)]
pub struct Cancel {
    /// The step state.
    pub state: u64,
    /// `[lanes]` u32: for each lane the sequence that the host wants stopped.
    pub cancelled: u64,
}

impl Cancel {
    /// The launch: one subgroup.
    #[must_use]
    pub fn dispatch(&self, target: &Target) -> Dispatch {
        let constants = Constants { workgroup: target.subgroup, subgroup: target.subgroup };
        let push = Push { state: self.state, cancelled: self.cancelled };
        Dispatch::new(&KERNEL, constants.values(), &push, [1, 1, 1])
    }
}
