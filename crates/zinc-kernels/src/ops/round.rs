//! Rounding before matrix products.

use super::{Batch, GROUP, UNIT};
use crate::generated::round::{Constants, KERNEL, Push};
use crate::{Dispatch, Target};

/// Rounds vectors to [`ActFormat::Q14`](super::ActFormat::Q14), for products whose workgroups cannot keep them.
#[derive(Clone, Copy, Debug)]
pub struct Round {
    /// The step state.
    pub state: u64,
    /// `[vectors, columns]` f32.
    pub x: u64,
    /// `[vectors]` of [`rounded_bytes`](super::rounded_bytes).
    pub y: u64,
    /// Their number.
    pub vectors: u32,
    /// Elements of each: a multiple of [`UNIT`].
    pub columns: u32,
    /// The step's tokens, each with its `x` and `y`.
    pub batch: Batch,
}

impl Round {
    /// The launch: a subgroup for each group of 256 elements.
    ///
    /// # Panics
    /// If the vectors are not a whole number of units.
    #[must_use]
    pub fn dispatch(&self, target: &Target) -> Dispatch {
        assert!(
            self.columns.is_multiple_of(UNIT),
            "{} elements are not a whole number of units of {UNIT}",
            self.columns
        );
        let constants =
            Constants { workgroup: target.workgroup_of(4), subgroup: target.subgroup, columns: self.columns };
        let push = Push { state: self.state, x: self.x, y: self.y, vectors: self.vectors, stride: self.batch.stride };
        let subgroups = self.vectors * self.columns.div_ceil(GROUP);
        let grid = target.grid(subgroups.div_ceil(constants.workgroup / target.subgroup));
        Dispatch::new(&KERNEL, constants.values(), &push, self.batch.grid(grid))
    }
}
