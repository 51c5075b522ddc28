//! The end of an expert layer for many rows.

use super::SharedExpert;
use crate::generated::join::{Constants, KERNEL, Push};
use crate::step::{Rows, StepShape};
use crate::{Dispatch, Target};

/// `y += sum over slots of weights[s] * products[s] (+ the share of a shared expert)`.
#[derive(Clone, Copy, Debug)]
pub struct Join {
    /// The step state.
    pub state: u64,
    /// `[slots, width]` f32.
    pub products: Rows,
    /// `[slots]` f32.
    pub weights: Rows,
    /// An expert beside the chosen ones; `None` for none. Its share is added to the sum of theirs.
    pub shared: Option<SharedExpert>,
    /// `[width]` f32.
    pub y: Rows,
    /// Elements of a row.
    pub width: u32,
    /// Chosen experts, at least 1.
    pub slots: u32,
    /// The rows that the launch has workgroups for.
    pub shape: StepShape,
}

impl Join {
    /// The launch: one thread for four elements.
    ///
    /// # Panics
    /// If the width is not a multiple of 4.
    #[must_use]
    pub fn dispatch(&self, target: &Target) -> Dispatch {
        assert!(self.width.is_multiple_of(4), "a thread joins four elements, of which {} has a rest", self.width);
        let threads = self.width / 4;
        let constants = Constants {
            workgroup: target.wide_workgroup(threads),
            subgroup: target.subgroup,
            shared: u32::from(self.shared.is_some()),
        };
        let shared = self.shared.unwrap_or(SharedExpert::NONE);
        let push = Push {
            state: self.state,
            products: self.products.address,
            weights: self.weights.address,
            y: self.y.address,
            shared_y: shared.y.address,
            shared_logit: shared.logit.address,
            width: self.width,
            slots: self.slots,
            products_stride: self.products.stride_in(self.shape),
            weights_stride: self.weights.stride_in(self.shape),
            y_stride: self.y.stride_in(self.shape),
            shared_y_stride: shared.y.stride_in(self.shape),
            shared_logit_stride: shared.logit.stride_in(self.shape),
            ..Push::default()
        };
        let grid = target.grid(threads.div_ceil(constants.workgroup));
        Dispatch::new(&KERNEL, constants.values(), &push, self.shape.grid(grid))
    }
}
