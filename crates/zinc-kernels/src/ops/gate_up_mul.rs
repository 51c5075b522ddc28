//! The first half of a SwiGLU feed-forward layer for many rows.

use super::{ActFormat, Matrix, Tiles};
use crate::generated::gate_up_mul::{Constants, KERNEL, Push};
use crate::step::{Rows, StepShape};
use crate::{Dispatch, Target, tiles};

/// `y[s] = silu(G[ids[s]] x) * (U[ids[s]] x)` for each row of the step and each slot of its chosen experts, or of a dense layer.
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
    /// `[columns]`, rounded, as [`Input::Rounded`](super::Input::Rounded).
    pub x: Rows,
    /// `[slots, rows]` f32.
    pub y: Rows,
    /// The rows that the launch has workgroups for.
    pub shape: StepShape,
}

impl GateUpMul {
    /// The launch: some rows of a pair of matrices a workgroup, for a tile of vectors.
    ///
    /// # Panics
    /// If the matrices' shapes differ, or a format is not quantised.
    #[must_use]
    pub fn dispatch(&self, target: &Target) -> Dispatch {
        assert!(
            (self.gate.rows, self.gate.columns) == (self.up.rows, self.up.columns),
            "gate is {} x {} but up is {} x {}",
            self.gate.rows,
            self.gate.columns,
            self.up.rows,
            self.up.columns
        );
        self.gate.check(ActFormat::Q14);
        self.up.check(ActFormat::Q14);
        let constants = Constants {
            workgroup: tiles::workgroup(target),
            subgroup: target.subgroup,
            columns: self.gate.columns,
            tile: tiles::tile(target),
            quad_rows: tiles::quad_rows(target, 2),
            gate_format: self.gate.format.code(),
            up_format: self.up.format.code(),
        };
        let push = Push {
            state: self.state,
            gate: self.gate.address,
            up: self.up.address,
            x: self.x.address,
            y: self.y.address,
            pairs: self.tiles.map_or(0, |tiles| tiles.pairs),
            tiles: self.tiles.map_or(0, |tiles| tiles.tiles),
            rows: self.gate.rows,
            slots: self.tiles.map_or(1, |tiles| tiles.used),
            x_stride: self.x.stride_in(self.shape),
            y_stride: self.y.stride_in(self.shape),
        };
        let grid =
            tiles::grid(target, &[self.gate.rows], constants.quad_rows, tiles::count(target, self.tiles, self.shape));
        Dispatch::new(&KERNEL, constants.values(), &push, grid)
    }
}
