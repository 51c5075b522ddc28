//! The change from the rows of prompts to their last tokens, behind which a step samples.

use crate::generated::last_rows::{Constants, KERNEL, Push};
use crate::step::{Rows, StepShape};
use crate::{Dispatch, Target};

/// Makes the last rows of the prompts that end in a step its only ones: the first of the table and of the residual stream, in the order of their lanes, which move on
/// to their last tokens.
#[derive(Clone, Copy, Debug)]
pub struct LastRows {
    /// The step state.
    pub state: u64,
    /// `[width]` f32: the residual stream.
    pub x: Rows,
    /// Elements of a row, a multiple of 4.
    pub width: u32,
    /// The most rows that the step has listed.
    pub shape: StepShape,
}

impl LastRows {
    /// The launch: one workgroup.
    ///
    /// # Panics
    /// If the width is no multiple of 4.
    #[must_use]
    pub fn dispatch(&self, target: &Target) -> Dispatch {
        assert!(self.width.is_multiple_of(4), "rows of {} elements: a multiple of 4 is supported", self.width);
        let constants = Constants { workgroup: target.wide_workgroup(self.width / 4), subgroup: target.subgroup };
        let push =
            Push { state: self.state, x: self.x.address, width: self.width, x_stride: self.x.stride_in(self.shape) };
        Dispatch::new(&KERNEL, constants.values(), &push, [1, 1, 1])
    }
}
