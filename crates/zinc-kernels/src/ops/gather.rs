//! The embeddings of a step's rows.

use super::Matrix;
use crate::generated::gather::{Constants, KERNEL, Push};
use crate::step::{Rows, StepShape};
use crate::{Dispatch, Target};

/// `y = table[token]`, decoded, for the token of each row or the one behind it.
#[derive(Clone, Copy, Debug)]
pub struct Gather {
    /// The step state.
    pub state: u64,
    /// Whether it is the token behind the row's, as far as the prompt or a step that has ended says it: [`token_behind`](crate::reference::token_behind).
    pub behind: bool,
    /// `[vocabulary, columns]`.
    pub table: Matrix,
    /// `[columns]` f32.
    pub y: Rows,
    /// The rows that the launch has workgroups for.
    pub shape: StepShape,
}

impl Gather {
    /// The launch: one thread a chunk of 32 elements.
    #[must_use]
    pub fn dispatch(&self, target: &Target) -> Dispatch {
        self.table.check_columns();
        let chunks = self.table.columns / super::UNIT;
        let workgroup = target.wide_workgroup(chunks);
        let constants = Constants {
            workgroup,
            subgroup: target.subgroup,
            format: self.table.format.code(),
            behind: u32::from(self.behind),
        };
        let push = Push {
            state: self.state,
            table: self.table.address,
            y: self.y.address,
            columns: self.table.columns,
            y_stride: self.y.stride_in(self.shape),
        };
        Dispatch::new(&KERNEL, constants.values(), &push, self.shape.grid(target.grid(chunks.div_ceil(workgroup))))
    }
}
