//! The second half of an expert layer.

use super::Matrix;
use crate::generated::expert_down::{Constants, KERNEL, Push};
use crate::{Dispatch, Target};

/// `y += sum over s of weights[s] * (D[ids[s]] h[s])`, in slot order.
#[derive(Clone, Copy, Debug)]
pub struct ExpertDown {
    /// The step state.
    pub state: u64,
    /// `[experts, rows, columns]`.
    pub down: Matrix,
    /// `[slots]` u32.
    pub ids: u64,
    /// `[slots]` f32.
    pub weights: u64,
    /// `[slots, columns]` f32.
    pub h: u64,
    /// `[rows]` f32.
    pub y: u64,
    /// Chosen experts.
    pub slots: u32,
}

impl ExpertDown {
    /// The launch: one subgroup a row, for all slots.
    #[must_use]
    pub fn dispatch(&self, target: &Target) -> Dispatch {
        let constants =
            Constants { workgroup: target.row_workgroup(), subgroup: target.subgroup, format: self.down.format.code() };
        let push = Push {
            state: self.state,
            down: self.down.address,
            row_bytes: self.down.row_bytes(),
            ids: self.ids,
            weights: self.weights,
            h: self.h,
            y: self.y,
            rows: self.down.rows,
            columns: self.down.columns,
            slots: self.slots,
            ..Push::default()
        };
        Dispatch::new(&KERNEL, constants.values(), &push, target.row_grid(self.down.rows))
    }
}
