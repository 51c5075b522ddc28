//! The first half of a SwiGLU feed-forward layer.

use super::Matrix;
use crate::generated::gate_up::{Constants, KERNEL, Push};
use crate::{Dispatch, Target};

/// Which matrices a layer uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Routing {
    /// One pair: a dense layer.
    Dense,
    /// The pair of each chosen expert.
    Experts {
        /// `[slots]` u32.
        ids: u64,
        /// Chosen experts.
        slots: u32,
    },
}

/// `y[s] = silu(G[ids[s]] x) * (U[ids[s]] x)`.
#[derive(Clone, Copy, Debug)]
pub struct GateUp {
    /// The step state.
    pub state: u64,
    /// `[experts, rows, columns]`.
    pub gate: Matrix,
    /// `[experts, rows, columns]`, of the same shape.
    pub up: Matrix,
    /// Which matrices are used.
    pub routing: Routing,
    /// `[columns]` f32.
    pub x: u64,
    /// `[slots, rows]` f32.
    pub y: u64,
}

impl GateUp {
    /// The launch: one subgroup a row and slot.
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
        let (experts, ids, slots) = match self.routing {
            Routing::Dense => (0, 0, 1),
            Routing::Experts { ids, slots } => (1, ids, slots),
        };
        let constants = Constants {
            workgroup: target.row_workgroup(),
            subgroup: target.subgroup,
            gate_format: self.gate.format.code(),
            up_format: self.up.format.code(),
            experts,
        };
        let push = Push {
            state: self.state,
            gate: self.gate.address,
            up: self.up.address,
            gate_row_bytes: self.gate.row_bytes(),
            up_row_bytes: self.up.row_bytes(),
            ids,
            x: self.x,
            y: self.y,
            rows: self.gate.rows,
            columns: self.gate.columns,
            slots,
            ..Push::default()
        };
        Dispatch::new(&KERNEL, constants.values(), &push, target.row_grid(self.gate.rows * slots))
    }
}
