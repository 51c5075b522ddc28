//! Joins the shares of attention.

use crate::generated::attention_merge::{Constants, KERNEL, Push};
use crate::{Dispatch, Target};

/// Joins what [`Attention`](super::Attention) left for each head.
#[derive(Clone, Copy, Debug)]
pub struct AttentionMerge {
    /// The step state.
    pub state: u64,
    /// `[heads, splits, head_size + 2]` f32.
    pub partials: u64,
    /// `[heads, head_size]` f32.
    pub y: u64,
    /// Query heads.
    pub heads: u32,
    /// Elements of a head.
    pub head_size: u32,
    /// Shares of each head.
    pub splits: u32,
}

impl AttentionMerge {
    /// The launch: one workgroup a head.
    #[must_use]
    pub fn dispatch(&self, target: &Target) -> Dispatch {
        let constants = Constants { workgroup: target.wide_workgroup(self.head_size), subgroup: target.subgroup };
        let push = Push {
            state: self.state,
            partials: self.partials,
            y: self.y,
            head_size: self.head_size,
            splits: self.splits,
        };
        Dispatch::new(&KERNEL, constants.values(), &push, [self.heads, 1, 1])
    }
}
