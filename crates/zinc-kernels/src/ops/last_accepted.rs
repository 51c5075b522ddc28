//! The beginning of the drafts of a block for multi-token prediction.

use crate::generated::last_accepted::{Constants, KERNEL, Push};
use crate::step::{Rows, StepShape};
use crate::{Dispatch, Target};

/// Makes the last row that was accepted, of a step of one lane that has ended, the row of a drafting state. The block takes a row with the token behind it, so the
/// drafting lane stands a position behind the sequence, and its tokens begin with the second of the sequence. It drafts greedily, up to the end of the context.
#[derive(Clone, Copy, Debug)]
pub struct LastAccepted {
    /// The step state of the step that has ended.
    pub state: u64,
    /// The step state whose own lane drafts.
    pub draft: u64,
    /// `[context + MOST_RUN]` u32: where drafts go instead of to the tokens of the sequence, at the same positions. `None`: to these.
    pub tokens: Option<u64>,
    /// `[width]` f32: of the rows of the step.
    pub x: Rows,
    /// `[width]` f32: of the drafting state's row.
    pub y: u64,
    /// Elements of a row, a multiple of 4.
    pub width: u32,
    /// The most rows of the step.
    pub shape: StepShape,
}

impl LastAccepted {
    /// The launch: one workgroup.
    ///
    /// # Panics
    /// If the width is no multiple of 4.
    #[must_use]
    pub fn dispatch(&self, target: &Target) -> Dispatch {
        assert!(self.width.is_multiple_of(4), "rows of {} elements: a multiple of 4 is supported", self.width);
        let constants = Constants { workgroup: target.wide_workgroup(self.width / 4), subgroup: target.subgroup };
        let push = Push {
            state: self.state,
            draft: self.draft,
            tokens: self.tokens.unwrap_or(0),
            x: self.x.address,
            y: self.y,
            width: self.width,
            x_stride: self.x.stride_in(self.shape),
        };
        Dispatch::new(&KERNEL, constants.values(), &push, [1, 1, 1])
    }
}
