//! The embedding of a token.

use super::Matrix;
use crate::generated::gather::{Constants, KERNEL, Push};
use crate::{Dispatch, Target};

/// `y = table[token]`, decoded, for the token in the step state.
#[derive(Clone, Copy, Debug)]
pub struct Gather {
    /// The step state.
    pub state: u64,
    /// `[vocabulary, columns]`.
    pub table: Matrix,
    /// `[columns]` f32.
    pub y: u64,
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
            y: self.y,
            columns: self.table.columns,
            ..Push::default()
        };
        Dispatch::new(&KERNEL, constants.values(), &push, target.grid(chunks.div_ceil(workgroup)))
    }
}
