//! The first half of a feed-forward layer for many rows.

use super::gate_up::check_pair;
use super::{ActFormat, Activation, GateUpBiases, Matrix, Tiles};
use crate::formats::Format;
use crate::generated::gate_up_mul::{Constants, IN_TURN, KERNEL, Push};
use crate::generated::gate_up_mul_units as units;
use crate::generated::grids::GATE_UP_GRID;
use crate::splits::GroupValues;
use crate::step::{Rows, StepShape};
use crate::tiles::{Blocks, Form, Stage, UnitBlocks};
use crate::{Dispatch, Target, Units};

const _: () = assert!(size_of::<Push>() == size_of::<units::Push>(), "both forms of the kernel have the same operands");

/// `y[s] = activation(G[ids[s]] x, U[ids[s]] x)`, the products plus their biases if there are any, for each row of the step and each slot of its chosen
/// experts, or of a dense layer.
#[derive(Clone, Copy, Debug)]
pub struct GateUpMul {
    /// The step state.
    pub state: u64,
    /// `[experts, rows, columns]`, in a quantised format.
    pub gate: Matrix,
    /// `[experts, rows, columns]`, of the same shape.
    pub up: Matrix,
    /// The experts of each row; `None` for a dense layer.
    pub tiles: Option<Tiles>,
    /// Where workgroups may leave the values of groups if they share those of a block. Without it, and with experts, they do not.
    pub group_values: Option<GroupValues>,
    /// `[columns]`, rounded, as [`Input::Rounded`](super::Input::Rounded).
    pub x: Rows,
    /// What is added to the products.
    pub biases: Option<GateUpBiases>,
    /// How the two products become one.
    pub activation: Activation,
    /// `[slots, rows]` f32.
    pub y: Rows,
    /// The rows that the launch has workgroups for.
    pub shape: StepShape,
}

impl GateUpMul {
    /// The launch: some rows of a pair of matrices a workgroup, for a tile of vectors. With experts the device reads how many workgroups there are.
    ///
    /// # Panics
    /// If the matrices' shapes differ, or a format is not quantised.
    #[must_use]
    pub fn dispatch(&self, target: &Target) -> Dispatch {
        check_pair(&self.gate, &self.up, ActFormat::Q14);
        let biases = self.biases.unwrap_or(GateUpBiases::NONE);
        let group_values = self.group_values.filter(|_| self.tiles.is_none());
        let push = Push {
            state: self.state,
            gate: self.gate.address,
            up: self.up.address,
            gate_bias: biases.gate,
            up_bias: biases.up,
            x: self.x.address,
            y: self.y.address,
            pairs: self.tiles.map_or(0, |tiles| tiles.pairs),
            tiles: self.tiles.map_or(0, |tiles| tiles.tiles),
            group_values: group_values.map_or(0, |values| values.address),
            rows: self.gate.rows,
            slots: self.tiles.map_or(1, |tiles| tiles.used),
            room: self.shape.rows(),
            padding: [0],
            x_stride: self.x.stride_in(self.shape),
            y_stride: self.y.stride_in(self.shape),
        };
        let pair = [self.gate.format, self.up.format];
        let blocks = Blocks::new(target, &pair, 2, &[self.gate.rows], self.shape, self.tiles);
        let blocks = blocks.with_splits(target, (&[self.gate.rows], self.gate.columns), self.shape, group_values);
        let groups = blocks.groups(target, &[self.gate.rows], self.tiles, GATE_UP_GRID, self.shape);
        let Blocks { workgroup, listed, tile, splits, .. } = blocks;
        let (subgroup, columns) = (target.subgroup, self.gate.columns);
        let [gate_format, up_format] = pair.map(Format::code);
        let (activation, biases) = (self.activation.code(), u32::from(self.biases.is_some()));
        match blocks.form {
            Form::Units(UnitBlocks { units: Units { depth, emulated }, row_subgroups, row_fragments, stage }) => {
                let Stage { runs: stage_runs, gaps, part_scales, minimums, chunk_sums } = stage;
                let constants = units::Constants {
                    workgroup,
                    subgroup,
                    columns,
                    listed,
                    tile,
                    depth,
                    stage_runs,
                    row_subgroups,
                    row_fragments,
                    ragged: u32::from(self.tiles.is_some()),
                    gaps,
                    part_scales,
                    minimums,
                    chunk_sums,
                    format: gate_format,
                    activation,
                    biases,
                    splits,
                };
                let kernel = if emulated { &units::EMULATED } else { &units::KERNEL };
                Dispatch::new(kernel, constants.values(), &push, groups)
            }
            Form::Quads { quad_rows, in_turn } => {
                let constants = Constants {
                    workgroup,
                    subgroup,
                    columns,
                    listed,
                    tile,
                    quad_rows,
                    gate_format,
                    up_format,
                    activation,
                    biases,
                };
                let kernel = if in_turn { &IN_TURN } else { &KERNEL };
                Dispatch::new(kernel, constants.values(), &push, groups)
            }
        }
    }
}
