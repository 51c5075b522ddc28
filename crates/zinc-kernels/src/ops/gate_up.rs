//! The first half of a SwiGLU feed-forward layer.

use super::{ActFormat, Matrix, Norm, RUN, UNIT};
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
    /// `[experts, rows, columns]`, the rows a multiple of [`RUN`].
    pub gate: Matrix,
    /// `[experts, rows, columns]`, of the same shape.
    pub up: Matrix,
    /// Which matrices are used.
    pub routing: Routing,
    /// `[columns]`: in the form `act`, or f32 where `norm` is given.
    pub x: u64,
    /// The form of the activations that the matrices meet: f32 where one of them has a float format.
    pub act: ActFormat,
    /// Normalises `x` on the way.
    pub norm: Option<Norm>,
    /// `[slots, rows]` in the form `out`.
    pub y: u64,
    /// The form of `y`.
    pub out: ActFormat,
}

impl GateUp {
    /// The launch: one workgroup a run of one slot.
    ///
    /// # Panics
    /// If the matrices' shapes differ or do not suit the kernel, or if a float format is to meet quantised activations.
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
        assert!(self.gate.rows.is_multiple_of(RUN), "{} rows are not a multiple of {RUN}", self.gate.rows);
        self.gate.check(self.act);
        self.up.check(self.act);
        let (experts, ids, slots) = match self.routing {
            Routing::Dense => (0, 0, 1),
            Routing::Experts { ids, slots } => (1, ids, slots),
        };
        let workgroup = target.workgroup_of(target.tuning.gate_up_width);
        let rows_of_subgroup = RUN * target.subgroup / workgroup;
        let constants = Constants {
            workgroup,
            subgroup: target.subgroup,
            act: self.act.code(),
            columns: self.gate.columns,
            norm: u32::from(self.norm.is_some()),
            out: self.out.code(),
            experts,
            gate_format: self.gate.format.code(),
            up_format: self.up.format.code(),
            ahead: target.tuning.chunks_ahead(2 * rows_of_subgroup, self.gate.columns / UNIT, target.subgroup),
        };
        let norm = self.norm.unwrap_or(Norm::NONE);
        let push = Push {
            state: self.state,
            gate: self.gate.address,
            up: self.up.address,
            ids,
            x: self.x,
            norm: norm.weight,
            y: self.y,
            rows: self.gate.rows,
            epsilon: norm.epsilon,
        };
        Dispatch::new(&KERNEL, constants.values(), &push, target.grid(self.gate.rows / RUN * slots))
    }
}
