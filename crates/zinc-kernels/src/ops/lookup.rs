//! Drafts from what the sequence said before.

use std::ops::RangeInclusive;

use crate::generated::lookup::{Constants, KERNEL, Push};
use crate::step::MOST_RUN;
use crate::{Dispatch, Target};

/// Subgroups in the workgroup.
const SUBGROUPS: u32 = 16;

/// Looks for earlier places with the sequence's last tokens, and drafts what followed there: the longest match wins, then the latest.
#[derive(Clone, Debug)]
pub struct Lookup {
    /// The step state of one lane, whose rows the drafts become.
    pub state: u64,
    /// How many of the last tokens a place must have, and beyond how many it makes no difference: at least 1.
    pub ngrams: RangeInclusive<u32>,
    /// The most drafts: less than [`MOST_RUN`].
    pub drafts: u32,
}

impl Lookup {
    /// The launch: one workgroup.
    ///
    /// # Panics
    /// If no number of tokens is asked for, or more drafts than a step has room for.
    #[must_use]
    pub fn dispatch(&self, target: &Target) -> Dispatch {
        let (min_ngram, max_ngram) = (*self.ngrams.start(), *self.ngrams.end());
        assert!(
            min_ngram >= 1 && min_ngram <= max_ngram,
            "places with {min_ngram} to {max_ngram} tokens in common are looked for: at least 1 is needed"
        );
        assert!(self.drafts < MOST_RUN, "{} drafts: less than {MOST_RUN} are supported", self.drafts);
        let constants = Constants { workgroup: target.workgroup_of(SUBGROUPS), subgroup: target.subgroup };
        let push = Push { state: self.state, min_ngram, max_ngram, drafts: self.drafts, ..Push::default() };
        Dispatch::new(&KERNEL, constants.values(), &push, [1, 1, 1])
    }
}
