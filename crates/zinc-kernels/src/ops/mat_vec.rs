//! Matrices times a vector.

use super::{ActFormat, GROUP, Input, Matrix, lane_rows};
use crate::generated::formats::NO_FORMAT;
use crate::generated::mat_vec::{Constants, KERNEL, Push};
use crate::step::{Rows, StepShape};
use crate::tuning::MOST_ITEMS;
use crate::{Dispatch, Target};

/// The most matrices of one launch.
pub const MAX_PRODUCTS: usize = 3;

/// One matrix of a [`MatVec`], with what becomes of the product.
#[derive(Clone, Copy, Debug)]
pub struct Product {
    /// `[rows, columns]`.
    pub weights: Matrix,
    /// Address of `[rows]` f32 to add, or `None`.
    pub bias: Option<u64>,
    /// `[rows]` f32.
    pub y: Rows,
}

/// `y = W x (+ bias)`, or `y = y + W x`, for up to [`MAX_PRODUCTS`] matrices and one `x`.
#[derive(Clone, Copy, Debug)]
pub struct MatVec<'a> {
    /// The step state.
    pub state: u64,
    /// Of equal columns.
    pub products: &'a [Product],
    /// `[columns]`.
    pub x: Input,
    /// What the products compute with: f32 where one of the matrices has a float format.
    pub act: ActFormat,
    /// Adds to what `y` holds.
    pub accumulate: bool,
    /// The rows that the launch has workgroups for.
    pub shape: StepShape,
}

impl MatVec<'_> {
    /// The launch: some rows of one matrix a subgroup, for the vectors of as many rows of the step as a workgroup can keep.
    ///
    /// # Panics
    /// If there are no products or too many, if their columns differ, or if a float format is to meet rounded activations, or if
    /// a workgroup cannot keep the vector.
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
            product.weights.check(self.act);
        }
        self.x.check(self.act, columns, target);
        let rows = |i: usize| self.products.get(i).map_or(0, |product| product.weights.rows);
        let format = |i: usize| self.products.get(i).map_or(NO_FORMAT, |product| product.weights.format.code());
        let address = |i: usize, of: fn(&Product) -> u64| self.products.get(i).map_or(0, of);
        let stride = |i: usize| self.products.get(i).map_or(0, |product| product.y.stride_in(self.shape));
        let total = rows(0) + rows(1) + rows(2);
        let side_by_side = if self.act == ActFormat::Q14 { lane_rows(columns, target.subgroup) } else { 1 };
        let vectors = self.vectors_at_a_time(target);
        let mut at_a_time = match vectors {
            1 => target.tuning.rows_at_a_time(total / side_by_side),
            _ => target.tuning.several_rows.min(MOST_ITEMS),
        };
        while at_a_time > 1 && !self.keeps(target, vectors, at_a_time) {
            at_a_time /= 2;
        }
        let norm = self.x.norm();
        let constants = Constants {
            workgroup: target.workgroup_of(target.tuning.product_width),
            subgroup: target.subgroup,
            act: self.act.code(),
            columns,
            source: self.x.source(),
            rows: at_a_time,
            ahead: target.tuning.quarters_ahead(at_a_time, columns.div_ceil(GROUP), target.subgroup),
            accumulate: u32::from(self.accumulate),
            format_0: format(0),
            format_1: format(1),
            format_2: format(2),
            vectors,
            epsilon: norm.epsilon.to_bits(),
        };
        let push = Push {
            state: self.state,
            x: self.x.rows().address,
            norm: norm.weight,
            weights_0: address(0, |p| p.weights.address),
            weights_1: address(1, |p| p.weights.address),
            weights_2: address(2, |p| p.weights.address),
            bias_0: address(0, |p| p.bias.unwrap_or(0)),
            bias_1: address(1, |p| p.bias.unwrap_or(0)),
            bias_2: address(2, |p| p.bias.unwrap_or(0)),
            y_0: address(0, |p| p.y.address),
            y_1: address(1, |p| p.y.address),
            y_2: address(2, |p| p.y.address),
            rows_0: rows(0),
            rows_1: rows(1),
            rows_2: rows(2),
            vectors: self.shape.rows(),
            x_stride: self.x.rows().stride_in(self.shape),
            y_stride_0: stride(0),
            y_stride_1: stride(1),
            y_stride_2: stride(2),
        };
        let workgroup_rows = constants.workgroup / target.subgroup * side_by_side * at_a_time;
        let turns = (0..MAX_PRODUCTS).map(|i| rows(i).div_ceil(workgroup_rows)).sum();
        let [x, y, all_vectors] = self.shape.grid(target.bounded_grid(turns));
        Dispatch::new(&KERNEL, constants.values(), &push, [x, y, all_vectors.div_ceil(vectors)])
    }

    /// Vectors of a workgroup, a power of two: those of all rows of the step, as long as there is shared memory for what it keeps of each.
    fn vectors_at_a_time(&self, target: &Target) -> u32 {
        if self.act == ActFormat::F32 {
            return 1;
        }
        let mut vectors = self.shape.rows();
        while vectors > 1 && !self.keeps(target, vectors, 1) {
            vectors /= 2;
        }
        vectors
    }

    /// Whether a workgroup can keep what it needs of so many vectors and of so many rows of a matrix of a lane.
    fn keeps(&self, target: &Target, vectors: u32, rows_of_lane: u32) -> bool {
        let columns = self.products[0].weights.columns;
        let subgroups = target.subgroups_of(target.tuning.product_width);
        let rows = subgroups * lane_rows(columns, target.subgroup) * rows_of_lane;
        target.keeps(columns.div_ceil(GROUP), self.x.staged(vectors), rows * vectors)
    }
}
