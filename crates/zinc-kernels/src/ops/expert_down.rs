//! The second half of an expert layer.

use super::{ActFormat, GROUP, Input, Matrix};
use crate::generated::expert_down::{Constants, KERNEL, Push};
use crate::step::{Rows, StepShape};
use crate::tuning::MOST_ITEMS;
use crate::{Dispatch, Target};

/// An expert that every row has, beside those that it chooses. Its share is what it gives, times the sigmoid of its gate.
#[derive(Clone, Copy, Debug)]
pub struct SharedExpert {
    /// `[width]` f32: what the expert gives.
    pub y: Rows,
    /// 1 f32: the logit of its gate.
    pub logit: Rows,
}

impl SharedExpert {
    /// Operands where none are read.
    pub(super) const NONE: Self = Self { y: Rows::one(0), logit: Rows::one(0) };
}

/// `y += sum over slots of weights[s] * (D[ids[s]] h[s] (+ bias[ids[s]])) (+ the share of a shared expert)`.
#[derive(Clone, Copy, Debug)]
pub struct ExpertDown {
    /// The step state.
    pub state: u64,
    /// `[experts, rows, columns]`: all of them less than 4 GiB.
    pub down: Matrix,
    /// Address of `[experts, rows]` f32 to add to the products, before these are weighted; `None` for none.
    pub bias: Option<u64>,
    /// Experts.
    pub experts: u32,
    /// `[slots]` u32.
    pub ids: Rows,
    /// `[slots]` f32.
    pub weights: Rows,
    /// `[slots, columns]`, not [`Input::Normalised`].
    pub h: Input,
    /// An expert beside the chosen ones, of width `rows`; `None` for none. Its share is added to the sum of theirs.
    pub shared: Option<SharedExpert>,
    /// What the products compute with: f32 where the matrix has a float format.
    pub act: ActFormat,
    /// `[rows]` f32.
    pub y: Rows,
    /// Chosen experts.
    pub slots: u32,
    /// The rows that the launch has workgroups for.
    pub shape: StepShape,
}

impl ExpertDown {
    /// The launch: one subgroup a row.
    ///
    /// # Panics
    /// If the matrices are too large, a float format is to meet rounded activations, or a workgroup cannot keep the vectors.
    #[must_use]
    pub fn dispatch(&self, target: &Target) -> Dispatch {
        self.down.check(self.act);
        self.h.check(self.act, self.down.columns.next_multiple_of(GROUP) * self.slots, target);
        assert!(
            !matches!(self.h, Input::Normalised(..)),
            "the vectors of an expert layer's second half are not normalised"
        );
        let bytes = self.down.row_bytes() * u64::from(self.down.rows) * u64::from(self.experts);
        assert!(u32::try_from(bytes).is_ok(), "the experts' matrices have {bytes} bytes: less than 4 GiB is supported");
        let groups = self.down.columns.div_ceil(GROUP);
        let mut subgroups = target.subgroups_of(target.tuning.expert_down_width);
        while subgroups > 1 && !target.keeps(groups, self.h.staged(self.slots), groups * self.slots * subgroups) {
            subgroups /= 2;
        }
        let constants = Constants {
            workgroup: subgroups * target.subgroup,
            subgroup: target.subgroup,
            act: self.act.code(),
            columns: self.down.columns,
            format: self.down.format.code(),
            slots: self.slots,
            ahead: (groups * 4 * self.slots)
                .div_ceil(target.subgroup)
                .min(target.tuning.expert_quarters_ahead)
                .clamp(1, MOST_ITEMS),
            source: self.h.source(),
            bias: u32::from(self.bias.is_some()),
            shared: u32::from(self.shared.is_some()),
        };
        let shared = self.shared.unwrap_or(SharedExpert::NONE);
        let push = Push {
            state: self.state,
            down: self.down.address,
            bias: self.bias.unwrap_or(0),
            ids: self.ids.address,
            weights: self.weights.address,
            h: self.h.rows().address,
            y: self.y.address,
            shared_y: shared.y.address,
            shared_logit: shared.logit.address,
            rows: self.down.rows,
            ids_stride: self.ids.stride_in(self.shape),
            weights_stride: self.weights.stride_in(self.shape),
            h_stride: self.h.rows().stride_in(self.shape),
            y_stride: self.y.stride_in(self.shape),
            shared_y_stride: shared.y.stride_in(self.shape),
            shared_logit_stride: shared.logit.stride_in(self.shape),
            ..Push::default()
        };
        let grid = target.grid(self.down.rows.div_ceil(subgroups));
        Dispatch::new(&KERNEL, constants.values(), &push, self.shape.grid(grid))
    }
}
