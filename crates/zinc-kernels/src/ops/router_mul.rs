//! The router of an expert layer, for many rows.

use super::{GROUP, Matrix, Norm};
use crate::generated::router_mul::{Constants, KERNEL, Push};
use crate::step::{Rows, StepShape};
use crate::{Dispatch, Target};

/// Workgroups that share the rows of a step, where their number is not bounded by what one can take: with those that share the logits of 128 experts, as
/// many as keep a card busy.
const ROW_WORKGROUPS: u32 = 16;

/// The router's logits `W norm(x) (+ bias)` of each row, for a matrix in a float format, to the bit as [`Router`](super::Router) computes them.
/// With one row more than there are experts, the matrix gives the logit of a shared expert's gate too. [`Round`](super::Round) makes `norm(x)` for the experts.
#[derive(Clone, Copy, Debug)]
pub struct RouterMul {
    /// The step state.
    pub state: u64,
    /// `[columns]` f32.
    pub x: Rows,
    /// Normalises `x`.
    pub norm: Norm,
    /// `[experts, columns]`, in a float format.
    pub matrix: Matrix,
    /// Address of `[experts]` f32 to add to the logits; `None` for none.
    pub bias: Option<u64>,
    /// `[experts]` f32.
    pub logits: Rows,
    /// The rows that the launch has workgroups for.
    pub shape: StepShape,
}

impl RouterMul {
    /// The launch: some logits of some rows a workgroup.
    ///
    /// # Panics
    /// If the matrix is quantised.
    #[must_use]
    pub fn dispatch(&self, target: &Target) -> Dispatch {
        self.matrix.check_columns();
        assert!(self.matrix.format.is_float(), "{}: a router for many rows has a float format", self.matrix.format);
        let logits = 1 << target.tuning.router_logits.clamp(1, target.subgroup).ilog2();
        // A subgroup takes as many rows at a time as make, with its logits, one sum for each of its lanes.
        let turn_rows = target.subgroup / logits;
        // No more rows than shared memory has room for: of each a sum for each logit and group, and one of squares for each group.
        let groups = self.matrix.columns.div_ceil(GROUP);
        let room = target.shared_bytes / (4 * groups * (logits + 1));
        let rows = (self.shape.rows() / ROW_WORKGROUPS).min(target.tuning.router_rows).min(room);
        let rows = (rows / turn_rows * turn_rows).max(turn_rows);
        let constants = Constants {
            workgroup: target.workgroup_of(groups.min(8)),
            subgroup: target.subgroup,
            columns: self.matrix.columns,
            format: self.matrix.format.code(),
            rows,
            logits,
            bias: u32::from(self.bias.is_some()),
        };
        let push = Push {
            state: self.state,
            x: self.x.address,
            norm: self.norm.weight,
            matrix: self.matrix.address,
            bias: self.bias.unwrap_or(0),
            logits: self.logits.address,
            epsilon: self.norm.epsilon,
            rows: self.shape.rows(),
            experts: self.matrix.rows,
            x_stride: self.x.stride_in(self.shape),
            logits_stride: self.logits.stride_in(self.shape),
            ..Push::default()
        };
        let grid = [self.matrix.rows.div_ceil(logits), self.shape.rows().div_ceil(rows), 1];
        Dispatch::new(&KERNEL, constants.values(), &push, grid)
    }
}
