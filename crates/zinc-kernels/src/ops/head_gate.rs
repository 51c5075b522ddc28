//! The gates of a layer's heads.

use super::{ActFormat, GROUP, Norm};
use crate::delta::DELTA_HEAD_SIZES;
use crate::generated::head_gate::{Constants, KERNEL, Push, SIGMOID, SILU};
use crate::step::{Rows, StepShape};
use crate::{Dispatch, Target};

/// What a head's result is multiplied by, given an element `g` of its gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Opening {
    /// `silu(g) = g * sigmoid(g)` (gated delta nets).
    Silu,
    /// `sigmoid(g) = 1 / (1 + exp(-g))` (gated attention).
    Sigmoid,
}

impl Opening {
    fn code(self) -> u32 {
        match self {
            Self::Silu => SILU,
            Self::Sigmoid => SIGMOID,
        }
    }
}

/// Multiplies the results of a layer's heads by what opens their gates, for the product that follows. The heads may be normalised before.
#[derive(Clone, Copy, Debug)]
pub struct HeadGate {
    /// The step state.
    pub state: u64,
    /// `[heads, head_size]` f32, such as the results of [`DeltaNet`](super::DeltaNet) or [`Attention`](super::Attention).
    pub x: Rows,
    /// `[heads, head_size]` f32.
    pub gate: Rows,
    /// Of each head of `x`: weights `[head_size]` f32. `None` where heads are not normalised.
    pub norm: Option<Norm>,
    /// What opens the gates.
    pub opening: Opening,
    /// `[heads, head_size]`, f32 or rounded ([`rounded_bytes`](super::rounded_bytes)), as `act` says. It may be `x` itself if it is f32.
    pub y: Rows,
    /// Heads of a row.
    pub heads: u32,
    /// Elements of a head: 32, 64, 128 or 256 where heads are normalised, otherwise a multiple of 4.
    pub head_size: u32,
    /// What the product that follows computes with.
    pub act: ActFormat,
    /// Whether the runs of a rounded result stand in their order, as [`MatMul`](super::MatMul) has them.
    pub ordered: bool,
    /// The rows that the launch has workgroups for.
    pub shape: StepShape,
}

impl HeadGate {
    /// The launch: a subgroup for each group of 256 elements.
    ///
    /// # Panics
    /// If there are no heads, or their size does not suit the kernel.
    #[must_use]
    pub fn dispatch(&self, target: &Target) -> Dispatch {
        let &Self { heads, head_size, norm, .. } = self;
        assert!(
            heads > 0 && head_size > 0 && head_size.is_multiple_of(4),
            "{heads} heads of {head_size} elements: at least one head of a multiple of 4 is supported"
        );
        assert!(
            norm.is_none() || DELTA_HEAD_SIZES.contains(&head_size),
            "heads of {head_size} elements: 32, 64, 128 and 256 can be normalised"
        );
        let of_norm = norm.unwrap_or(Norm::NONE);
        let constants = Constants {
            workgroup: target.workgroup_of(4),
            subgroup: target.subgroup,
            columns: heads * head_size,
            head_size,
            normalises: u32::from(norm.is_some()),
            epsilon: of_norm.epsilon.to_bits(),
            opening: self.opening.code(),
            out: self.act.code(),
            ordered: u32::from(self.ordered),
        };
        let push = Push {
            state: self.state,
            x: self.x.address,
            gate: self.gate.address,
            norm: of_norm.weight,
            y: self.y.address,
            x_stride: self.x.stride_in(self.shape),
            gate_stride: self.gate.stride_in(self.shape),
            y_stride: self.y.stride_in(self.shape),
            ..Push::default()
        };
        let groups = constants.columns.div_ceil(GROUP);
        let grid = target.grid(groups.div_ceil(constants.workgroup / target.subgroup));
        Dispatch::new(&KERNEL, constants.values(), &push, self.shape.grid(grid))
    }
}
