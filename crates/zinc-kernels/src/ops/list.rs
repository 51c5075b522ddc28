//! The beginning of a step: which lanes take part, their rows, and the pages that they get.

use crate::generated::list::{Constants, KERNEL, Push};
use crate::step::MOST_LANES;
use crate::{Dispatch, Target};

/// Lists the lanes that the host wants in a step, and their rows, and enters the pages that lanes get into the tables behind the state. A lane whose sequence has ended, or that the host has cancelled, has none.
#[derive(Clone, Copy, Debug)]
pub struct List {
    /// The step state.
    pub state: u64,
    /// A [`StepLanes`](crate::step::StepLanes).
    pub wanted: u64,
    /// `[lanes]` u32: for each lane the sequence that the host wants stopped.
    pub cancelled: u64,
    /// A [`Lane`](crate::step::Lane), with whose sequence those of the state end; 0 if there is none.
    pub leader: u64,
}

impl List {
    /// The launch: one workgroup.
    #[must_use]
    pub fn dispatch(&self, target: &Target) -> Dispatch {
        let constants = Constants { workgroup: target.wide_workgroup(MOST_LANES), subgroup: target.subgroup };
        let push = Push { state: self.state, wanted: self.wanted, cancelled: self.cancelled, leader: self.leader };
        Dispatch::new(&KERNEL, constants.values(), &push, [1, 1, 1])
    }
}
