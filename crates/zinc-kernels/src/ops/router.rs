//! The router of an expert layer.

use super::{ActFormat, Batch, Matrix, Norm};
use crate::generated::router::{Constants, KERNEL, Push};
use crate::{Dispatch, Target};

/// The router's logits `W norm(x)`, and `norm(x)` for the experts. [`GateUp`](super::GateUp) chooses.
#[derive(Clone, Copy, Debug)]
pub struct Router {
    /// The step state.
    pub state: u64,
    /// `[columns]` f32.
    pub x: u64,
    /// Normalises `x`.
    pub norm: Norm,
    /// `[experts, columns]`.
    pub matrix: Matrix,
    /// `[columns]`: the normalised `x`, f32 or rounded.
    pub y: u64,
    /// What the products that take `y` compute with: it is rounded for [`ActFormat::Q14`].
    pub act: ActFormat,
    /// `[experts]` f32.
    pub logits: u64,
    /// The step's tokens, each with its `x`, `y` and `logits`.
    pub batch: Batch,
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
        };
        let push = Push {
            state: self.state,
            x: self.x,
            norm: self.norm.weight,
            matrix: self.matrix.address,
            y: self.y,
            logits: self.logits,
            epsilon: self.norm.epsilon,
            stride: self.batch.stride,
        };
        Dispatch::new(&KERNEL, constants.values(), &push, self.batch.grid([self.matrix.rows, 1, 1]))
    }
}
