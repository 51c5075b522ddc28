//! Matrix times vector.

use super::Matrix;
use crate::generated::mat_vec::{ACCUMULATE, ADD_BIAS, Constants, KERNEL, Push, STORE};
use crate::{Dispatch, Target};

/// What becomes of the product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Epilogue {
    /// `y = W x`.
    Store,
    /// `y = W x + bias`; the address of `[rows]` f32.
    AddBias(u64),
    /// `y = y + W x`.
    Accumulate,
}

/// `W x`, with an [`Epilogue`].
#[derive(Clone, Copy, Debug)]
pub struct MatVec {
    /// The step state.
    pub state: u64,
    /// `[rows, columns]`.
    pub weights: Matrix,
    /// `[columns]` f32.
    pub x: u64,
    /// `[rows]` f32.
    pub y: u64,
    /// What becomes of the product.
    pub epilogue: Epilogue,
}

impl MatVec {
    /// The launch: one subgroup a row.
    #[must_use]
    pub fn dispatch(&self, target: &Target) -> Dispatch {
        let (epilogue, bias) = match self.epilogue {
            Epilogue::Store => (STORE, 0),
            Epilogue::AddBias(bias) => (ADD_BIAS, bias),
            Epilogue::Accumulate => (ACCUMULATE, 0),
        };
        let constants = Constants {
            workgroup: target.row_workgroup(),
            subgroup: target.subgroup,
            format: self.weights.format.code(),
            epilogue,
        };
        let push = Push {
            state: self.state,
            weights: self.weights.address,
            row_bytes: self.weights.row_bytes(),
            x: self.x,
            bias,
            y: self.y,
            rows: self.weights.rows,
            columns: self.weights.columns,
        };
        Dispatch::new(&KERNEL, constants.values(), &push, target.row_grid(self.weights.rows))
    }
}
