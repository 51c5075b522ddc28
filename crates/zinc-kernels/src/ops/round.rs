//! Rounding before matrix products.

use super::{GROUP, Input, UNIT};
use crate::generated::round::{Constants, KERNEL, Push};
use crate::step::{Rows, StepShape};
use crate::{Dispatch, Target};

/// Rounds vectors to [`ActFormat::Q14`](super::ActFormat::Q14), for products whose workgroups could not keep them, or would each round them again.
#[derive(Clone, Copy, Debug)]
pub struct Round {
    /// The step state.
    pub state: u64,
    /// `[vectors, columns]`: [`Input::Floats`], or one vector that is [`Input::Normalised`].
    pub x: Input,
    /// `[vectors]` of [`rounded_bytes`](super::rounded_bytes).
    pub y: Rows,
    /// Vectors of each row of the step.
    pub vectors: u32,
    /// Elements of each: a multiple of [`UNIT`].
    pub columns: u32,
    /// Whether the runs stand in their order, as [`MatMul`](super::MatMul) and [`GateUpMul`](super::GateUpMul) have them, and no other operation.
    pub ordered: bool,
    /// The rows that the launch has workgroups for.
    pub shape: StepShape,
}

/// Subgroups of a workgroup, each of which rounds a group.
const SUBGROUPS: u32 = 4;
/// The most subgroups of a workgroup.
const MOST_SUBGROUPS: u32 = 16;

impl Round {
    /// The launch: a subgroup for each group of 256 elements.
    ///
    /// # Panics
    /// If the vectors are not a whole number of units, are rounded already, or are several that are to be normalised.
    #[must_use]
    pub fn dispatch(&self, target: &Target) -> Dispatch {
        assert!(
            self.columns.is_multiple_of(UNIT),
            "{} elements are not a whole number of units of {UNIT}",
            self.columns
        );
        assert!(
            matches!((self.x, self.vectors), (Input::Floats(_), _) | (Input::Normalised(..), 1)),
            "{} vectors to be rounded: any number of floats is supported, or one that is normalised",
            self.vectors
        );
        let norm = self.x.norm();
        let groups = self.columns.div_ceil(GROUP);
        let width = match self.x {
            // Every workgroup sums the squares of the whole vector, so that the fewer there are the better.
            Input::Normalised(..) => groups.next_power_of_two().clamp(SUBGROUPS, MOST_SUBGROUPS),
            _ => SUBGROUPS,
        };
        let constants = Constants {
            workgroup: target.workgroup_of(width),
            subgroup: target.subgroup,
            columns: self.columns,
            source: self.x.source(),
            epsilon: norm.epsilon.to_bits(),
            ordered: u32::from(self.ordered),
        };
        let push = Push {
            state: self.state,
            x: self.x.rows().address,
            norm: norm.weight,
            y: self.y.address,
            vectors: self.vectors,
            x_stride: self.x.rows().stride_in(self.shape),
            y_stride: self.y.stride_in(self.shape),
            ..Push::default()
        };
        let subgroups = self.vectors * groups;
        let grid = target.grid(subgroups.div_ceil(constants.workgroup / target.subgroup));
        Dispatch::new(&KERNEL, constants.values(), &push, self.shape.grid(grid))
    }
}
