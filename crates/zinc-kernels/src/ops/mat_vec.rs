//! Matrices times a vector.

use super::{ActFormat, GROUP, Input, Matrix, lane_rows};
use crate::generated::formats::NO_FORMAT;
use crate::generated::mat_vec::{Constants, KERNEL, MOST_KEPT_GROUPS, Push};
use crate::step::{Rows, StepShape};
use crate::{Dispatch, Target, Tuning};

/// The most matrices of one launch.
pub const MAX_PRODUCTS: usize = 3;

/// The most rounds of loops that a workgroup goes through in its turns: on llvmpipe a thread leaves every loop once it has gone through 65,535, and results
/// behind that are never written.
const MOST_ROUNDS: u32 = 1 << 15;
/// Rounds that a group of a turn's rows takes at most with f32 activations, whose loops may not be unrolled.
const FLOAT_GROUP_ROUNDS: u32 = 32;

/// One matrix of a [`MatVec`], with what becomes of the product.
#[derive(Clone, Copy, Debug)]
pub struct Product {
    /// `[rows, columns]`.
    pub weights: Matrix,
    /// Address of `[rows]` f32 to add, with experts of `[experts, rows]`; `None` for none.
    pub bias: Option<u64>,
    /// `[rows]` f32.
    pub y: Rows,
}

/// What kernels need of the products of a launch, by matrix; what is not there is 0 or [`NO_FORMAT`].
pub(super) struct ProductOperands {
    pub(super) columns: u32,
    pub(super) rows: [u32; MAX_PRODUCTS],
    pub(super) formats: [u32; MAX_PRODUCTS],
    pub(super) weights: [u64; MAX_PRODUCTS],
    pub(super) biases: [u64; MAX_PRODUCTS],
    pub(super) y: [u64; MAX_PRODUCTS],
    pub(super) y_strides: [u32; MAX_PRODUCTS],
}

impl ProductOperands {
    /// The operands of `products` with activations of the form `act`, in a step of this shape.
    ///
    /// # Panics
    /// If there are no products or too many, if their columns differ, or if a float format is to meet rounded activations.
    pub(super) fn new(products: &[Product], act: ActFormat, shape: StepShape) -> Self {
        assert!(
            (1..=MAX_PRODUCTS).contains(&products.len()),
            "{} matrices in one launch: 1 to {MAX_PRODUCTS} are supported",
            products.len()
        );
        let columns = products[0].weights.columns;
        let mut operands = Self {
            columns,
            rows: [0; MAX_PRODUCTS],
            formats: [NO_FORMAT; MAX_PRODUCTS],
            weights: [0; MAX_PRODUCTS],
            biases: [0; MAX_PRODUCTS],
            y: [0; MAX_PRODUCTS],
            y_strides: [0; MAX_PRODUCTS],
        };
        for (i, Product { weights, bias, y }) in products.iter().enumerate() {
            assert!(weights.columns == columns, "matrices of {columns} and {} columns share a vector", weights.columns);
            weights.check(act);
            operands.rows[i] = weights.rows;
            operands.formats[i] = weights.format.code();
            operands.weights[i] = weights.address;
            operands.biases[i] = bias.unwrap_or(0);
            operands.y[i] = y.address;
            operands.y_strides[i] = y.stride_in(shape);
        }
        operands
    }
}

/// `y = W x (+ bias)`, or `y = y + (W x (+ bias))`, for up to [`MAX_PRODUCTS`] matrices and one `x`.
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
        let of = ProductOperands::new(self.products, self.act, self.shape);
        let columns = of.columns;
        self.x.check(self.act, columns, target);
        let total: u32 = of.rows.iter().sum();
        let side_by_side = self.side_by_side(target);
        let vectors = self.vectors_at_a_time(target);
        let mut at_a_time = match vectors {
            1 => target.tuning.rows_at_a_time(total / side_by_side),
            _ => target.tuning.several_rows_at_a_time(total / side_by_side, self.has_long_rows()),
        };
        while at_a_time > 1 && !self.keeps(target, vectors, at_a_time) {
            at_a_time /= 2;
        }
        let norm = self.x.norm();
        let constants = Constants {
            workgroup: self.subgroups(target, vectors) * target.subgroup,
            subgroup: target.subgroup,
            act: self.act.code(),
            columns,
            source: self.x.source(),
            rows: at_a_time,
            ahead: self.ahead(target, at_a_time),
            accumulate: u32::from(self.accumulate),
            format_0: of.formats[0],
            format_1: of.formats[1],
            format_2: of.formats[2],
            vectors,
            epsilon: norm.epsilon.to_bits(),
        };
        let push = Push {
            state: self.state,
            x: self.x.rows().address,
            norm: norm.weight,
            weights_0: of.weights[0],
            weights_1: of.weights[1],
            weights_2: of.weights[2],
            bias_0: of.biases[0],
            bias_1: of.biases[1],
            bias_2: of.biases[2],
            y_0: of.y[0],
            y_1: of.y[1],
            y_2: of.y[2],
            rows_0: of.rows[0],
            rows_1: of.rows[1],
            rows_2: of.rows[2],
            vectors: self.shape.rows(),
            x_stride: self.x.rows().stride_in(self.shape),
            y_stride_0: of.y_strides[0],
            y_stride_1: of.y_strides[1],
            y_stride_2: of.y_strides[2],
        };
        let workgroup_rows = constants.workgroup / target.subgroup * side_by_side * at_a_time;
        let turns: u32 = of.rows.iter().map(|rows| rows.div_ceil(workgroup_rows)).sum();
        let group_rounds = match self.act {
            ActFormat::F32 => FLOAT_GROUP_ROUNDS,
            // A round over the weights, one for each vector in it, and one for each of a lane's results.
            ActFormat::Q14 => 1 + vectors + (side_by_side * at_a_time * vectors).div_ceil(target.subgroup),
        };
        let most_turns = (MOST_ROUNDS / group_rounds / columns.div_ceil(GROUP)).max(1);
        let [x, y, all_vectors] = self.shape.grid(target.bounded_grid(turns, most_turns));
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
        let results = self.subgroups(target, vectors) * self.side_by_side(target) * rows_of_lane * vectors;
        let (groups, ahead) = (self.groups(), self.ahead(target, rows_of_lane));
        // The shader's `WINDOW_PLACES`.
        let places = if self.is_windowed(vectors) { ahead * target.subgroup / 4 + 1 } else { groups };
        let staged = if self.act == ActFormat::Q14 { self.x.staged(vectors) } else { 0 };
        target.keeps(groups, staged, results * places)
    }

    /// Groups of a row.
    fn groups(&self) -> u32 {
        self.products[0].weights.columns.div_ceil(GROUP)
    }

    /// Whether rows have more groups than a workgroup of several vectors keeps all values of.
    fn has_long_rows(&self) -> bool {
        self.groups() > MOST_KEPT_GROUPS
    }

    /// Whether a workgroup of so many vectors keeps the values of one round's groups at a time.
    fn is_windowed(&self, vectors: u32) -> bool {
        vectors > 1 && self.has_long_rows()
    }

    /// Subgroups of a workgroup of so many vectors.
    fn subgroups(&self, target: &Target, vectors: u32) -> u32 {
        let Tuning { several_long_width, product_width, .. } = target.tuning;
        target.subgroups_of(if self.is_windowed(vectors) { several_long_width } else { product_width })
    }

    /// Quarters of each row that a lane loads before it uses the first.
    fn ahead(&self, target: &Target, rows_of_lane: u32) -> u32 {
        target.tuning.quarters_ahead(rows_of_lane, self.groups(), target.subgroup)
    }

    /// Rows of a matrix that a subgroup takes side by side.
    fn side_by_side(&self, target: &Target) -> u32 {
        if self.act == ActFormat::Q14 { lane_rows(self.products[0].weights.columns, target.subgroup) } else { 1 }
    }
}
