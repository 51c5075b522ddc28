//! The short convolution of a gated delta net.

use super::PerLane;
use crate::delta::DeltaHeads;
use crate::generated::delta_conv::{Constants, KERNEL, Push};
use crate::step::{Rows, StepShape};
use crate::{Dispatch, Target};

/// Rows of a step that a thread takes, where there are as many: it loads each once, and three before them.
const MOST_ROWS_OF_THREAD: u32 = 8;
/// The smallest step in which threads take several rows: in smaller ones, that would leave a device idle.
const MANY_ROWS: StepShape = StepShape::of(64);

/// `y[c] = silu(sum over j of weights[c][j] * x[t - 3 + j][c])`, with the positions of a row's lane before the step from its recurrent state.
/// [`DeltaNet`](super::DeltaNet) takes what comes out.
#[derive(Clone, Copy, Debug)]
pub struct DeltaConv {
    /// The step state: rows of a lane stand together, at positions one behind the other.
    pub state: u64,
    /// `[channels]` f32.
    pub x: Rows,
    /// `[channels, 4]` f32: the last is that of the present position.
    pub weights: u64,
    /// [`DeltaHeads::recurrent_bytes`] of each lane, of this layer alone. What it holds when a sequence begins does not matter.
    pub recurrent: PerLane,
    /// `[channels]` f32, not where `x` is.
    pub y: Rows,
    /// The shape.
    pub heads: DeltaHeads,
    /// The most drafts that a step takes of a lane, in all steps that use the recurrent state.
    pub drafts: u32,
    /// The rows that the launch has threads for.
    pub shape: StepShape,
}

impl DeltaConv {
    /// The launch: one thread for four channels of one row or several.
    ///
    /// # Panics
    /// If the heads do not suit the kernel, or recurrent states lie too close together.
    #[must_use]
    pub fn dispatch(&self, target: &Target) -> Dispatch {
        self.heads.check(self.recurrent, self.drafts);
        let threads = self.heads.channels() / 4;
        let constants = Constants {
            workgroup: target.wide_workgroup(threads),
            subgroup: target.subgroup,
            key_heads: self.heads.key_heads,
            value_heads: self.heads.value_heads,
            head_size: self.heads.head_size,
            drafts: self.drafts,
            rows: if self.shape < MANY_ROWS { 1 } else { MOST_ROWS_OF_THREAD },
        };
        let push = Push {
            state: self.state,
            x: self.x.address,
            weights: self.weights,
            recurrent: self.recurrent.address,
            y: self.y.address,
            x_stride: self.x.stride_in(self.shape),
            y_stride: self.y.stride_in(self.shape),
            recurrent_stride: self.recurrent.stride,
            ..Push::default()
        };
        let [x, y, _] = target.grid(threads.div_ceil(constants.workgroup));
        Dispatch::new(&KERNEL, constants.values(), &push, [x, y, self.shape.rows() / constants.rows])
    }
}
