//! The router of an expert layer.

use super::{ActFormat, Matrix, Norm};
use crate::generated::router::{Constants, KERNEL, Push};
use crate::step::{Rows, StepShape};
use crate::{Dispatch, Target};

/// The router's logits `W norm(x) (+ bias)`, and `norm(x)` for the experts. [`GateUp`](super::GateUp) chooses, or
/// [`Route`](super::Route), by the logits of their experts: a matrix with a row more has the gate of a shared expert there.
#[derive(Clone, Copy, Debug)]
pub struct Router {
    /// The step state.
    pub state: u64,
    /// `[columns]` f32.
    pub x: Rows,
    /// Normalises `x`.
    pub norm: Norm,
    /// `[experts, columns]`.
    pub matrix: Matrix,
    /// Address of `[experts]` f32 to add to the logits; `None` for none.
    pub bias: Option<u64>,
    /// `[columns]`: the normalised `x`, f32 or rounded.
    pub y: Rows,
    /// What the products that take `y` compute with: it is rounded for [`ActFormat::Q14`].
    pub act: ActFormat,
    /// Whether the runs of a rounded `y` stand in their order, as [`Round::ordered`](super::Round::ordered).
    pub ordered: bool,
    /// `[experts]` f32.
    pub logits: Rows,
    /// The rows that the launch has workgroups for.
    pub shape: StepShape,
}

impl Router {
    /// The launch: one workgroup a logit.
    #[must_use]
    pub fn dispatch(&self, target: &Target) -> Dispatch {
        self.matrix.check_columns();
        let constants = Constants {
            workgroup: target.wide_workgroup(self.matrix.columns / 4),
            subgroup: target.subgroup,
            columns: self.matrix.columns,
            out: self.act.code(),
            format: self.matrix.format.code(),
            ordered: u32::from(self.ordered),
            bias: u32::from(self.bias.is_some()),
        };
        let push = Push {
            state: self.state,
            x: self.x.address,
            norm: self.norm.weight,
            matrix: self.matrix.address,
            bias: self.bias.unwrap_or(0),
            y: self.y.address,
            logits: self.logits.address,
            epsilon: self.norm.epsilon,
            x_stride: self.x.stride_in(self.shape),
            y_stride: self.y.stride_in(self.shape),
            logits_stride: self.logits.stride_in(self.shape),
        };
        Dispatch::new(&KERNEL, constants.values(), &push, self.shape.grid([self.matrix.rows, 1, 1]))
    }
}
