//! The choice of experts.

use super::{ActFormat, Matrix, Norm};
use crate::generated::router::{Constants, KERNEL, Push, SOFTMAX_OF_ALL, SOFTMAX_OF_CHOSEN};
use crate::{Dispatch, Target};

/// The largest number of experts.
pub const MAX_EXPERTS: u32 = crate::generated::router::MAX_EXPERTS;
/// The largest number of experts that are chosen.
pub const MAX_USED: u32 = crate::generated::router::MAX_USED;

/// Over what the experts' weights sum to one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weighting {
    /// The chosen experts (Qwen3-MoE: `norm_topk_prob`).
    SoftmaxOfChosen,
    /// All experts.
    SoftmaxOfAll,
}

/// The `used` highest of the logits `W norm(x)`, ties to the lower index, and their weights; and `norm(x)` for the experts.
#[derive(Clone, Copy, Debug)]
pub struct Router {
    /// The step state.
    pub state: u64,
    /// `[columns]` f32.
    pub x: u64,
    /// Normalises `x`.
    pub norm: Norm,
    /// `[experts, columns]`: at most [`MAX_EXPERTS`].
    pub matrix: Matrix,
    /// `[columns]` in the form `out`: the normalised `x`.
    pub y: u64,
    /// The form of `y`.
    pub out: ActFormat,
    /// `[experts]` f32.
    pub logits: u64,
    /// `[used]` u32, by falling logit.
    pub ids: u64,
    /// `[used]` f32.
    pub weights: u64,
    /// One u32 that is 0, and is left 0.
    pub counter: u64,
    /// Experts to choose: at most [`MAX_USED`].
    pub used: u32,
    /// Over what the weights sum to one.
    pub weighting: Weighting,
}

impl Router {
    /// The launch: one workgroup a logit.
    ///
    /// # Panics
    /// If there are more experts than the kernel has room for, or fewer than are to be chosen.
    #[must_use]
    pub fn dispatch(&self, target: &Target) -> Dispatch {
        let experts = self.matrix.rows;
        assert!(
            experts <= MAX_EXPERTS && self.used >= 1 && self.used <= experts.min(MAX_USED),
            "choosing {} of {experts} experts: at least one and at most {MAX_USED} of at most {MAX_EXPERTS} are supported",
            self.used,
        );
        self.matrix.check_columns();
        let constants = Constants {
            workgroup: target.wide_workgroup(self.matrix.columns / 4),
            subgroup: target.subgroup,
            columns: self.matrix.columns,
            out: self.out.code(),
            format: self.matrix.format.code(),
            weighting: match self.weighting {
                Weighting::SoftmaxOfChosen => SOFTMAX_OF_CHOSEN,
                Weighting::SoftmaxOfAll => SOFTMAX_OF_ALL,
            },
        };
        let push = Push {
            state: self.state,
            x: self.x,
            norm: self.norm.weight,
            matrix: self.matrix.address,
            y: self.y,
            logits: self.logits,
            ids: self.ids,
            weights: self.weights,
            counter: self.counter,
            experts,
            used: self.used,
            epsilon: self.norm.epsilon,
            ..Push::default()
        };
        Dispatch::new(&KERNEL, constants.values(), &push, [experts, 1, 1])
    }
}
