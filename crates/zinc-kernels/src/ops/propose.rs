//! Drafts of a draft model.

use crate::generated::propose::{Constants, KERNEL, Push};
use crate::step::MOST_RUN;
use crate::{Dispatch, Target};

/// Hands over the drafts that a draft model wrote into the array of tokens that it shares with the model that they are for.
#[derive(Clone, Copy, Debug)]
pub struct Propose {
    /// The step state, of one lane, of the model that the drafts are for, whose rows they become.
    pub state: u64,
    /// The step state of the draft model, whose own lane has moved on from the same position by as many steps as there are drafts.
    pub draft: u64,
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
        let push = Push { state: self.state, draft: self.draft, drafts: self.drafts, ..Push::default() };
        Dispatch::new(&KERNEL, constants.values(), &push, [1, 1, 1])
    }
}
