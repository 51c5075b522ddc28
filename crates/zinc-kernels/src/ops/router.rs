//! The choice of experts.

use crate::generated::router::{Constants, KERNEL, Push, SOFTMAX_OF_ALL, SOFTMAX_OF_CHOSEN};
use crate::{Dispatch, Target};

/// The largest number of experts.
pub const MAX_EXPERTS: u32 = crate::generated::router::MAX_EXPERTS;

/// Over what the experts' weights sum to one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weighting {
    /// The chosen experts (Qwen3-MoE: `norm_topk_prob`).
    SoftmaxOfChosen,
    /// All experts.
    SoftmaxOfAll,
}

/// The `used` highest logits, ties to the lower index, and their weights.
#[derive(Clone, Copy, Debug)]
pub struct Router {
    /// The step state.
    pub state: u64,
    /// `[experts]` f32.
    pub logits: u64,
    /// `[used]` u32, by falling logit.
    pub ids: u64,
    /// `[used]` f32.
    pub weights: u64,
    /// Experts: at most [`MAX_EXPERTS`].
    pub experts: u32,
    /// Experts to choose.
    pub used: u32,
    /// Over what the weights sum to one.
    pub weighting: Weighting,
}

impl Router {
    /// The launch: one subgroup.
    #[must_use]
    pub fn dispatch(&self, target: &Target) -> Dispatch {
        assert!(
            self.experts <= MAX_EXPERTS && self.used >= 1 && self.used <= self.experts,
            "choosing {} of {} experts: at least one of at most {MAX_EXPERTS} is supported",
            self.used,
            self.experts
        );
        let constants = Constants {
            workgroup: target.subgroup,
            subgroup: target.subgroup,
            weighting: match self.weighting {
                Weighting::SoftmaxOfChosen => SOFTMAX_OF_CHOSEN,
                Weighting::SoftmaxOfAll => SOFTMAX_OF_ALL,
            },
        };
        let push = Push {
            state: self.state,
            logits: self.logits,
            ids: self.ids,
            weights: self.weights,
            experts: self.experts,
            used: self.used,
        };
        Dispatch::new(&KERNEL, constants.values(), &push, [1, 1, 1])
    }
}
