//! Embedding look-up.

use super::Matrix;
use crate::generated::gather::{Constants, KERNEL, Push};
use crate::{Dispatch, Target};

/// `y = table[token]`, decoded.
#[derive(Clone, Copy, Debug)]
pub struct Gather {
    /// The step state, whose `token` names the row.
    pub state: u64,
    /// `[vocabulary, columns]`.
    pub table: Matrix,
    /// `[columns]` f32.
    pub y: u64,
}

impl Gather {
    /// The launch: one thread a unit of 32 elements.
    #[must_use]
    pub fn dispatch(&self, target: &Target) -> Dispatch {
        let units = self.table.columns / 32;
        let workgroup = target.wide_workgroup(units);
        let constants = Constants { workgroup, subgroup: target.subgroup, format: self.table.format.code() };
        let push = Push {
            state: self.state,
            table: self.table.address,
            row_bytes: self.table.row_bytes(),
            y: self.y,
            columns: self.table.columns,
            ..Push::default()
        };
        Dispatch::new(&KERNEL, constants.values(), &push, target.grid(units.div_ceil(workgroup)))
    }
}
