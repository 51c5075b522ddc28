//! The choice of experts for many rows.

use super::gate_up::{check_selection, weighting_code};
use super::{ExpertSelection, Matrix, Tiles};
use crate::formats::Format;
use crate::generated::route::{Constants, KERNEL, Push};
use crate::step::StepShape;
use crate::tiles::{Blocks, TileGroups};
use crate::{Dispatch, Target};

/// Chooses the experts of each row, sorts the pairs of rows and slots by expert, and says how many workgroups the products have that take them.
#[derive(Clone, Copy, Debug)]
pub struct Route {
    /// The step state.
    pub state: u64,
    /// The experts that a row uses.
    pub selection: ExpertSelection,
    /// What is written for the products, of as many experts.
    pub tiles: Tiles,
    /// The first matrices that [`GateUpMul`](super::GateUpMul) multiplies with these tiles: only their format and height matter, as of those below.
    pub gate: Matrix,
    /// The second ones, of the same shape.
    pub up: Matrix,
    /// The matrices that [`MatMul`](super::MatMul) multiplies with these tiles.
    pub down: Matrix,
    /// `[1 + experts]` u32 that are 0, and are left 0.
    pub counters: u64,
    /// The rows that the launch has workgroups for.
    pub shape: StepShape,
}

impl Route {
    /// The launch: one workgroup a row, of which the last cuts the lists of pairs into tiles and counts these.
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
            tile: target.listed_pairs(self.shape, experts, used),
        };
        let Self { gate, up, down, shape, .. } = self;
        let groups_of = |formats: &[Format], together, height| {
            Blocks::new(target, formats, together, &[height], *shape, Some(self.tiles)).tile_groups(target, &[height])
        };
        let (gate_up, down) =
            (groups_of(&[gate.format, up.format], 2, gate.rows), groups_of(&[down.format], 1, down.rows));
        let TileGroups { x: gate_up_x, y: gate_up_y, parts: gate_up_parts } = gate_up;
        let TileGroups { x: down_x, y: down_y, parts: down_parts } = down;
        let push = Push {
            state: self.state,
            logits: logits.address,
            ids: ids.address,
            weights: weights.address,
            pairs: self.tiles.pairs,
            tiles: self.tiles.tiles,
            grids: self.tiles.grids,
            counters: self.counters,
            slots: used,
            logits_stride: logits.stride_in(self.shape),
            ids_stride: ids.stride_in(self.shape),
            weights_stride: weights.stride_in(self.shape),
            gate_up_x,
            gate_up_y,
            gate_up_parts,
            down_x,
            down_y,
            down_parts,
        };
        Dispatch::new(&KERNEL, constants.values(), &push, self.shape.grid([1, 1, 1]))
    }
}
