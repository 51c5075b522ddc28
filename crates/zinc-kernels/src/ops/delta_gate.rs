//! The output of a gated delta net.

use super::{ActFormat, GROUP, Norm};
use crate::delta::DeltaHeads;
use crate::generated::delta_gate::{Constants, KERNEL, Push};
use crate::step::{Rows, StepShape};
use crate::{Dispatch, Target};

/// Normalises each head's result and multiplies it with `silu(z)`, for the product that follows.
#[derive(Clone, Copy, Debug)]
pub struct DeltaGate {
    /// The step state.
    pub state: u64,
    /// `[value_heads, head_size]` f32, from [`DeltaNet`](super::DeltaNet).
    pub x: Rows,
    /// `[value_heads, head_size]` f32.
    pub z: Rows,
    /// Of each head: weights `[head_size]` f32.
    pub norm: Norm,
    /// `[value_heads, head_size]`, f32 or rounded ([`rounded_bytes`](super::rounded_bytes)), as `act` says.
    pub y: Rows,
    /// The shape.
    pub heads: DeltaHeads,
    /// What the product that follows computes with.
    pub act: ActFormat,
    /// Whether the runs of a rounded result stand in their order, as [`MatMul`](super::MatMul) has them.
    pub ordered: bool,
    /// The rows that the launch has workgroups for.
    pub shape: StepShape,
}

impl DeltaGate {
    /// The launch: a subgroup for each group of 256 elements.
    ///
    /// # Panics
    /// If the heads' size does not suit the kernel.
    #[must_use]
    pub fn dispatch(&self, target: &Target) -> Dispatch {
        self.heads.check_size();
        let constants = Constants {
            workgroup: target.workgroup_of(4),
            subgroup: target.subgroup,
            columns: self.heads.values(),
            head_size: self.heads.head_size,
            epsilon: self.norm.epsilon.to_bits(),
            out: self.act.code(),
            ordered: u32::from(self.ordered),
        };
        let push = Push {
            state: self.state,
            x: self.x.address,
            z: self.z.address,
            norm: self.norm.weight,
            y: self.y.address,
            x_stride: self.x.stride_in(self.shape),
            z_stride: self.z.stride_in(self.shape),
            y_stride: self.y.stride_in(self.shape),
            ..Push::default()
        };
        let groups = constants.columns.div_ceil(GROUP);
        let grid = target.grid(groups.div_ceil(constants.workgroup / target.subgroup));
        Dispatch::new(&KERNEL, constants.values(), &push, self.shape.grid(grid))
    }
}
