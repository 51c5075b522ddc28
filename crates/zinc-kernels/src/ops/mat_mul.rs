//! Matrices times the vectors of many rows.

use super::mat_vec::ProductOperands;
use super::{ActFormat, Product, Tiles};
use crate::formats::Format;
use crate::generated::grids::DOWN_GRID;
use crate::generated::mat_mul::{Constants, IN_TURN, KERNEL, Push};
use crate::generated::mat_mul_units as units;
use crate::splits::GroupValues;
use crate::step::{Rows, StepShape};
use crate::tiles::{Blocks, Form, Stage, UnitBlocks};
use crate::{Dispatch, Target, Units};

const _: () = assert!(size_of::<Push>() == size_of::<units::Push>(), "both forms of the kernel have the same operands");

/// `y = W x (+ bias)`, or `y = y + (W x (+ bias))`, for up to [`MAX_PRODUCTS`](super::MAX_PRODUCTS) matrices and the `x` of each row of the step; or, with
/// experts, `y[s] = W[ids[s]] x[s] (+ bias[ids[s]])` for one stack of matrices and each slot of each row.
#[derive(Clone, Copy, Debug)]
pub struct MatMul<'a> {
    /// The step state.
    pub state: u64,
    /// Of equal columns and quantised formats.
    pub products: &'a [Product],
    /// `[columns]`, or with experts `[used]` of them: rounded, as [`Input::Rounded`](super::Input::Rounded).
    pub x: Rows,
    /// Adds to what `y` holds; not with experts.
    pub accumulate: bool,
    /// The experts of each row, if the only product is with a stack of their matrices.
    pub tiles: Option<Tiles>,
    /// Where workgroups may leave the values of groups if they share those of a block. Without it, and with experts, they do not.
    pub group_values: Option<GroupValues>,
    /// The rows that the launch has workgroups for.
    pub shape: StepShape,
}

impl MatMul<'_> {
    /// The launch: some rows of one matrix a workgroup, for a tile of vectors. With experts the device reads how many workgroups there are.
    ///
    /// # Panics
    /// If there are no products or too many, if their columns differ, if a format is not quantised, or if experts have more than one product, or
    /// one that is added to something.
    #[must_use]
    pub fn dispatch(&self, target: &Target) -> Dispatch {
        let of = ProductOperands::new(self.products, ActFormat::Q14, self.shape);
        assert!(
            self.tiles.is_none() || (self.products.len() == 1 && !self.accumulate),
            "experts have one product, which is added to nothing"
        );
        // Experts have one product, so that the places of other outputs are free.
        let [y_1_or_pairs, y_2_or_tiles] = self.tiles.map_or([of.y[1], of.y[2]], |tiles| [tiles.pairs, tiles.tiles]);
        let group_values = self.group_values.filter(|_| self.tiles.is_none());
        let push = Push {
            state: self.state,
            x: self.x.address,
            weights_0: of.weights[0],
            weights_1: of.weights[1],
            weights_2: of.weights[2],
            bias_0: of.biases[0],
            bias_1: of.biases[1],
            bias_2: of.biases[2],
            y_0: of.y[0],
            y_1_or_pairs,
            y_2_or_tiles,
            group_values: group_values.map_or(0, |values| values.address),
            rows_0: of.rows[0],
            rows_1: of.rows[1],
            rows_2: of.rows[2],
            slots_and_room: self.tiles.map_or(0, |tiles| tiles.used) << 16 | self.shape.rows(),
            x_stride: self.x.stride_in(self.shape),
            y_stride_0: of.y_strides[0],
            y_stride_1: of.y_strides[1],
            y_stride_2: of.y_strides[2],
        };
        let formats: Vec<Format> = self.products.iter().map(|product| product.weights.format).collect();
        let blocks = Blocks::new(target, &formats, 1, &of.rows, self.shape, self.tiles);
        let blocks = blocks.with_splits(target, (&of.rows, of.columns), self.shape, group_values);
        let groups = blocks.groups(target, &of.rows, self.tiles, DOWN_GRID, self.shape);
        let Blocks { workgroup, listed, tile, splits, .. } = blocks;
        let (subgroup, columns, accumulate) = (target.subgroup, of.columns, u32::from(self.accumulate));
        let [format_0, format_1, format_2] = of.formats;
        let bias_by_expert = u32::from(self.tiles.is_some() && self.products[0].bias.is_some());
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
                    accumulate,
                    format_0,
                    format_1,
                    format_2,
                    bias_by_expert,
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
                    accumulate,
                    format_0,
                    format_1,
                    format_2,
                    bias_by_expert,
                };
                let kernel = if in_turn { &IN_TURN } else { &KERNEL };
                Dispatch::new(kernel, constants.values(), &push, groups)
            }
        }
    }
}
