//! Root-mean-square normalisation of one vector.

use crate::generated::rms_norm::{Constants, KERNEL, Push};
use crate::{Dispatch, Target};

/// `y = x / sqrt(mean(x^2) + epsilon) * weight`.
#[derive(Clone, Copy, Debug)]
pub struct RmsNorm {
    /// The step state.
    pub state: u64,
    /// `[columns]` f32.
    pub x: u64,
    /// `[columns]` f32.
    pub weight: u64,
    /// `[columns]` f32; may be `x`.
    pub y: u64,
    /// Elements.
    pub columns: u32,
    /// Added to the mean square.
    pub epsilon: f32,
}

impl RmsNorm {
    /// The launch: one workgroup.
    #[must_use]
    pub fn dispatch(&self, target: &Target) -> Dispatch {
        let constants = Constants { workgroup: target.wide_workgroup(self.columns), subgroup: target.subgroup };
        let push = Push {
            state: self.state,
            x: self.x,
            weight: self.weight,
            y: self.y,
            columns: self.columns,
            epsilon: self.epsilon,
        };
        Dispatch::new(&KERNEL, constants.values(), &push, [1, 1, 1])
    }
}
