//! The embeddings of a step's tokens.

use super::{Batch, Matrix};
use crate::generated::gather::{Constants, KERNEL, Push};
use crate::{Dispatch, Target};

/// `y = table[token]`, decoded, for the token in the step state and for the drafts behind it.
#[derive(Clone, Copy, Debug)]
pub struct Gather {
    /// The step state.
    pub state: u64,
    /// `[vocabulary, columns]`.
    pub table: Matrix,
    /// `[context + MAX_BATCH]` u32: drafts stand behind the state's position. Read by a step with drafts.
    pub tokens: u64,
    /// `[columns]` f32.
    pub y: u64,
    /// The step's tokens.
    pub batch: Batch,
}

impl Gather {
    /// The launch: one thread a chunk of 32 elements.
    #[must_use]
    pub fn dispatch(&self, target: &Target) -> Dispatch {
        self.table.check_columns();
        let chunks = self.table.columns / super::UNIT;
        let workgroup = target.wide_workgroup(chunks);
        let constants = Constants { workgroup, subgroup: target.subgroup, format: self.table.format.code() };
        let push = Push {
            state: self.state,
            table: self.table.address,
            tokens: self.tokens,
            y: self.y,
            columns: self.table.columns,
            stride: self.batch.stride,
        };
        Dispatch::new(&KERNEL, constants.values(), &push, self.batch.grid(target.grid(chunks.div_ceil(workgroup))))
    }
}
