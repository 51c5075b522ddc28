//! The gated delta rule.

use super::PerLane;
use crate::delta::DeltaHeads;
use crate::generated::delta_net::{COLUMN_LANES, Constants, KERNEL, Push};
use crate::step::{Rows, StepShape};
use crate::{Dispatch, Target};

/// Takes the rows of each lane into the memories of its heads, one after the other, and reads of each what its query asks for. A row's results do not
/// depend on what is beside it, nor on the steps that the sequence is cut into. The recurrent state takes in a lane's first row and those of its
/// prompt. The others are drafts, which are kept: the lane's next step takes in those before its own position, and with them the sequence goes on as
/// if there had never been others.
///
/// A lane at position 0 begins with empty memories, whatever its recurrent state holds. One whose recurrent state is not that of the position before,
/// or of at most `drafts` before that, gets NaN.
#[derive(Clone, Copy, Debug)]
pub struct DeltaNet {
    /// The step state: rows of a lane stand together, at positions one behind the other.
    pub state: u64,
    /// `[channels]` f32, from [`DeltaConv`](super::DeltaConv): queries, keys and values.
    pub x: Rows,
    /// `[value_heads]` f32: its sigmoid is the share of a value's change that is written.
    pub beta: Rows,
    /// `[value_heads]` f32: with [`DeltaNet::alpha_bias`] and [`DeltaNet::decay`] it says how much of a memory is kept.
    pub alpha: Rows,
    /// `[value_heads]` f32, added to `alpha`.
    pub alpha_bias: u64,
    /// `[value_heads]` f32, at most 0: a memory keeps `exp(decay * softplus(alpha + alpha_bias))` of itself.
    pub decay: u64,
    /// [`DeltaHeads::recurrent_bytes`] of each lane, of this layer alone.
    pub recurrent: PerLane,
    /// `[value_heads, head_size]` f32.
    pub y: Rows,
    /// The shape.
    pub heads: DeltaHeads,
    /// The most drafts that a step takes of a lane, in all steps that use the recurrent state.
    pub drafts: u32,
    /// The most lanes of the step.
    pub lanes: u32,
    /// The most rows of the step.
    pub shape: StepShape,
}

impl DeltaNet {
    /// The launch: eight lanes of a subgroup for each lane of the step and each element of its values.
    ///
    /// # Panics
    /// If the heads do not suit the kernel, or recurrent states lie too close together.
    #[must_use]
    pub fn dispatch(&self, target: &Target) -> Dispatch {
        self.heads.check(self.recurrent, self.drafts);
        let constants = Constants {
            workgroup: target.workgroup_of(4),
            subgroup: target.subgroup,
            key_heads: self.heads.key_heads,
            value_heads: self.heads.value_heads,
            head_size: self.heads.head_size,
            drafts: self.drafts,
            head_order: self.heads.order.code(),
            query_scale: (1.0 / (self.heads.head_size as f32).sqrt()).to_bits(),
        };
        let push = Push {
            state: self.state,
            x: self.x.address,
            beta: self.beta.address,
            alpha: self.alpha.address,
            alpha_bias: self.alpha_bias,
            decay: self.decay,
            recurrent: self.recurrent.address,
            y: self.y.address,
            x_stride: self.x.stride_in(self.shape),
            beta_stride: self.beta.stride_in(self.shape),
            alpha_stride: self.alpha.stride_in(self.shape),
            y_stride: self.y.stride_in(self.shape),
            recurrent_stride: self.recurrent.stride,
            ..Push::default()
        };
        let threads = self.heads.values() * COLUMN_LANES;
        let [x, y, _] = target.grid(threads.div_ceil(constants.workgroup));
        Dispatch::new(&KERNEL, constants.values(), &push, [x, y, self.lanes])
    }
}
