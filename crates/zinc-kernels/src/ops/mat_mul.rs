//! Matrices times the vectors of many rows.

use super::{ActFormat, MAX_PRODUCTS, Product, Tiles};
use crate::formats::Format;
use crate::generated::formats::NO_FORMAT;
use crate::generated::mat_mul::{Constants, KERNEL, Push};
use crate::generated::mat_mul_units as units;
use crate::step::{Rows, StepShape};
use crate::tiles::{self, Blocks};
use crate::{Dispatch, Target};

const _: () = assert!(size_of::<Push>() == size_of::<units::Push>(), "both forms of the kernel have the same operands");

/// `y = W x (+ bias)`, or `y = y + W x`, for up to [`MAX_PRODUCTS`] matrices and the `x` of each row of the step; or, with experts,
/// `y[s] = W[ids[s]] x[s]` for one stack of matrices and each slot of each row.
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
    /// The rows that the launch has workgroups for.
    pub shape: StepShape,
}

impl MatMul<'_> {
    /// The launch: some rows of one matrix a workgroup, for a tile of vectors.
    ///
    /// # Panics
    /// If there are no products or too many, if their columns differ, if a format is not quantised, or if experts have more than one product, or
    /// one that is added to something.
    #[must_use]
    pub fn dispatch(&self, target: &Target) -> Dispatch {
        assert!(
            (1..=MAX_PRODUCTS).contains(&self.products.len()),
            "{} matrices in one launch: 1 to {MAX_PRODUCTS} are supported",
            self.products.len()
        );
        let columns = self.products[0].weights.columns;
        for product in self.products {
            assert!(
                product.weights.columns == columns,
                "matrices of {columns} and {} columns share a vector",
                product.weights.columns
            );
            product.weights.check(ActFormat::Q14);
        }
        assert!(
            self.tiles.is_none() || (self.products.len() == 1 && self.products[0].bias.is_none() && !self.accumulate),
            "experts have one product, which is stored as it is"
        );
        let rows = |i: usize| self.products.get(i).map_or(0, |product| product.weights.rows);
        let format = |i: usize| self.products.get(i).map_or(NO_FORMAT, |product| product.weights.format.code());
        let address = |i: usize, of: fn(&Product) -> u64| self.products.get(i).map_or(0, of);
        let stride = |i: usize| self.products.get(i).map_or(0, |product| product.y.stride_in(self.shape));
        let push = Push {
            state: self.state,
            x: self.x.address,
            weights_0: address(0, |p| p.weights.address),
            weights_1: address(1, |p| p.weights.address),
            weights_2: address(2, |p| p.weights.address),
            bias_0: address(0, |p| p.bias.unwrap_or(0)),
            bias_1: address(1, |p| p.bias.unwrap_or(0)),
            bias_2: address(2, |p| p.bias.unwrap_or(0)),
            y_0: address(0, |p| p.y.address),
            y_1_or_pairs: self.tiles.map_or(address(1, |p| p.y.address), |tiles| tiles.pairs),
            y_2_or_tiles: self.tiles.map_or(address(2, |p| p.y.address), |tiles| tiles.tiles),
            rows_0: rows(0),
            rows_1: rows(1),
            rows_2: rows(2),
            slots: self.tiles.map_or(0, |tiles| tiles.used),
            room: self.shape.rows(),
            padding: [0],
            x_stride: self.x.stride_in(self.shape),
            y_stride_0: stride(0),
            y_stride_1: stride(1),
            y_stride_2: stride(2),
        };
        let formats: Vec<Format> = self.products.iter().map(|product| product.weights.format).collect();
        let blocks = Blocks::new(target, &formats, 1, self.shape);
        let grid = blocks.grid(target, &[0, 1, 2].map(rows), 1, self.tiles, self.shape);
        let (workgroup, subgroup, accumulate) = (blocks.workgroup, target.subgroup, u32::from(self.accumulate));
        let [format_0, format_1, format_2] = [0, 1, 2].map(format);
        if let Some(of) = blocks.units {
            let constants = units::Constants {
                workgroup,
                subgroup,
                columns,
                listed: blocks.listed,
                tile: blocks.tile,
                depth: of.units.depth,
                row_subgroups: of.row_subgroups,
                row_fragments: of.row_fragments,
                ragged: u32::from(self.tiles.is_some()),
                accumulate,
                format_0,
                format_1,
                format_2,
            };
            let kernel = if of.units.emulated { &units::EMULATED } else { &units::KERNEL };
            return Dispatch::new(kernel, constants.values(), &push, grid);
        }
        let constants = Constants {
            workgroup,
            subgroup,
            columns,
            listed: blocks.listed,
            tile: blocks.tile,
            quad_rows: tiles::quad_rows(target, 1),
            accumulate,
            format_0,
            format_1,
            format_2,
        };
        Dispatch::new(&KERNEL, constants.values(), &push, grid)
    }
}
