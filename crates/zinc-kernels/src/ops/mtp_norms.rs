//! The input of a block for multi-token prediction.

use super::{GROUP, Norm, UNIT};
use crate::generated::mtp_norms::{Constants, KERNEL, Push};
use crate::step::{Rows, StepShape};
use crate::{Dispatch, Target};

/// Normalises the embedding of the token behind each row, and puts the row's hidden vector behind it: the residual stream, normalised as a head takes it and then
/// once more.
#[derive(Clone, Copy, Debug)]
pub struct MtpNorms {
    /// The step state.
    pub state: u64,
    /// `[2, width]` f32: the embedding, in place, and room for the hidden vector.
    pub x: Rows,
    /// `[width]` f32: the residual stream.
    pub residual: Rows,
    /// `[width]` f32: the weights of the embedding's norm.
    pub embedding_norm: u64,
    /// `[width]` f32: the weights of the norm before the head.
    pub head_norm: u64,
    /// The norm of the hidden vector. All have its epsilon.
    pub hidden_norm: Norm,
    /// Elements of the residual stream, a multiple of [`UNIT`].
    pub width: u32,
    /// The rows that the launch has workgroups for.
    pub shape: StepShape,
}

impl MtpNorms {
    /// The launch: two workgroups a row.
    ///
    /// # Panics
    /// If the width is no multiple of [`UNIT`].
    #[must_use]
    pub fn dispatch(&self, target: &Target) -> Dispatch {
        assert!(
            self.width.is_multiple_of(UNIT),
            "vectors of {} elements: a multiple of {UNIT} is supported",
            self.width
        );
        let constants = Constants {
            workgroup: target.workgroup_of(self.width.div_ceil(GROUP).min(8)),
            subgroup: target.subgroup,
            columns: self.width,
            epsilon: self.hidden_norm.epsilon.to_bits(),
        };
        let push = Push {
            state: self.state,
            x: self.x.address,
            residual: self.residual.address,
            embedding_norm: self.embedding_norm,
            head_norm: self.head_norm,
            hidden_norm: self.hidden_norm.weight,
            x_stride: self.x.stride_in(self.shape),
            residual_stride: self.residual.stride_in(self.shape),
        };
        Dispatch::new(&KERNEL, constants.values(), &push, self.shape.grid([2, 1, 1]))
    }
}
