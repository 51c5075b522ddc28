//! Drafts that were made with a state of their own.

use crate::generated::propose::{Constants, KERNEL, Push};
use crate::step::MOST_RUN;
use crate::{Dispatch, Target};

/// Hands over the drafts that a draft model or a block for multi-token prediction wrote into the array of tokens of the sequence that they are for.
#[derive(Clone, Copy, Debug)]
pub struct Propose {
    /// The step state, of one lane, of the model that the drafts are for, whose rows they become.
    pub state: u64,
    /// The step state with which they were made, whose own lane has moved on by as many positions as there are drafts. If its sequence is another, there
    /// are none.
    pub draft: u64,
    /// Positions by which that lane stands behind the last draft: 0 for a draft model, whose last token that draft is, and 1 for [`LastAccepted`](super::LastAccepted).
    pub behind: u32,
    /// The most drafts: less than [`MOST_RUN`].
    pub drafts: u32,
}

impl Propose {
    /// The launch: one subgroup.
    ///
    /// # Panics
    /// If more drafts are asked for than a step has room for.
    #[must_use]
    pub fn dispatch(&self, target: &Target) -> Dispatch {
        assert!(self.drafts < MOST_RUN, "{} drafts: less than {MOST_RUN} are supported", self.drafts);
        let constants = Constants { workgroup: target.subgroup, subgroup: target.subgroup };
        let push = Push { state: self.state, draft: self.draft, drafts: self.drafts, behind: self.behind };
        Dispatch::new(&KERNEL, constants.values(), &push, [1, 1, 1])
    }
}
