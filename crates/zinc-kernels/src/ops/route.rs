//! The choice of experts for many rows.

use super::gate_up::{check_selection, weighting_code};
use super::{ExpertSelection, Tiles};
use crate::generated::route::{Constants, KERNEL, Push};
use crate::step::StepShape;
use crate::{Dispatch, Target};

/// Chooses the experts of each row, and sorts the pairs of rows and slots by expert.
#[derive(Clone, Copy, Debug)]
pub struct Route {
    /// The step state.
    pub state: u64,
    /// The experts that a row uses.
    pub selection: ExpertSelection,
    /// What is written for the products, of as many experts.
    pub tiles: Tiles,
    /// `[1 + experts]` u32 that are 0, and are left 0.
    pub counters: u64,
    /// The rows that the launch has workgroups for.
    pub shape: StepShape,
}

impl Route {
    /// The launch: one workgroup a row, of which the last cuts the lists of pairs into tiles.
    ///
    /// # Panics
    /// If the number of experts does not suit the kernel.
    #[must_use]
    pub fn dispatch(&self, target: &Target) -> Dispatch {
        let ExpertSelection { logits, experts, used, weighting, ids, weights } = self.selection;
        check_selection(&self.selection);
        assert_eq!(
            (self.tiles.experts, self.tiles.used),
            (experts, used),
            "experts, and chosen ones, of tiles and of rows"
        );
        let constants = Constants {
            workgroup: target.workgroup_of(8),
            subgroup: target.subgroup,
            experts,
            weighting: weighting_code(weighting),
            tile: target.listed_pairs(self.shape),
        };
        let push = Push {
            state: self.state,
            logits: logits.address,
            ids: ids.address,
            weights: weights.address,
            pairs: self.tiles.pairs,
            tiles: self.tiles.tiles,
            counters: self.counters,
            slots: used,
            logits_stride: logits.stride_in(self.shape),
            ids_stride: ids.stride_in(self.shape),
            weights_stride: weights.stride_in(self.shape),
        };
        Dispatch::new(&KERNEL, constants.values(), &push, self.shape.grid([1, 1, 1]))
    }
}
