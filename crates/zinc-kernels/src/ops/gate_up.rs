//! The first half of a feed-forward layer.

use super::{ActFormat, GROUP, Input, Matrix, RUN, lane_rows};
use crate::generated::choice::{SOFTMAX_OF_ALL, SOFTMAX_OF_CHOSEN};
use crate::generated::gate_up::{Constants, KERNEL, Push};
use crate::generated::swiglu::{CLAMPED_SWIGLU, SWIGLU};
use crate::step::{Rows, StepShape};
use crate::{Dispatch, Target};

/// Which matrices a layer uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Routing {
    /// One pair: a dense layer.
    Dense,
    /// The pair of each chosen expert: those of the highest logits, ties to the lower index.
    Experts(ExpertSelection),
}

/// The experts that a row uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExpertSelection {
    /// `[experts]` f32.
    pub logits: Rows,
    /// Experts: at most [`MAX_EXPERTS`].
    pub experts: u32,
    /// Experts to choose: at most [`MAX_USED`].
    pub used: u32,
    /// Over what the weights sum to one.
    pub weighting: Weighting,
    /// `[used]` u32, written: by falling logit.
    pub ids: Rows,
    /// `[used]` f32, written.
    pub weights: Rows,
}

/// The largest number of experts.
pub const MAX_EXPERTS: u32 = crate::generated::choice::MAX_EXPERTS;
/// The largest number of experts that are chosen.
pub const MAX_USED: u32 = crate::generated::choice::MAX_USED;

/// Over what the experts' weights sum to one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weighting {
    /// The chosen experts (Qwen3-MoE: `norm_topk_prob`).
    SoftmaxOfChosen,
    /// All experts.
    SoftmaxOfAll,
}

/// How the two products of the first half of a feed-forward layer, `g` of the gate and `u` of the other matrix, become one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Activation {
    /// `silu(g) * u`, where `silu(g) = g * sigmoid(g)`.
    #[default]
    SwiGlu,
    /// `g * sigmoid(1.702 g) * (u + 1)` with `g` at most 7 and `u` between -7 and 7 (gpt-oss).
    ClampedSwiGlu,
}

impl Activation {
    /// The value of the specialisation constant.
    pub(super) fn code(self) -> u32 {
        match self {
            Self::SwiGlu => SWIGLU,
            Self::ClampedSwiGlu => CLAMPED_SWIGLU,
        }
    }
}

/// What is added to the products of the first half of a feed-forward layer: device addresses of f32.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GateUpBiases {
    /// Of the gate: `[experts, rows]`, or `[rows]` of a dense layer.
    pub gate: u64,
    /// Of the other matrix, of the same shape.
    pub up: u64,
}

impl GateUpBiases {
    /// Addresses where none are read.
    pub(super) const NONE: Self = Self { gate: 0, up: 0 };
}

/// Panics if the number of experts, or of chosen ones, does not suit the kernels.
pub(super) fn check_selection(&ExpertSelection { experts, used, .. }: &ExpertSelection) {
    assert!(
        experts <= MAX_EXPERTS && used >= 1 && used <= experts.min(MAX_USED),
        "choosing {used} of {experts} experts: at least one and at most {MAX_USED} of at most {MAX_EXPERTS} are supported",
    );
}

/// The value of the specialisation constant.
pub(super) fn weighting_code(weighting: Weighting) -> u32 {
    match weighting {
        Weighting::SoftmaxOfChosen => SOFTMAX_OF_CHOSEN,
        Weighting::SoftmaxOfAll => SOFTMAX_OF_ALL,
    }
}

/// Checks that the matrices of the first half of a feed-forward layer have one shape, and can meet activations of the form `act`.
///
/// # Panics
/// If they do not.
pub(super) fn check_pair(gate: &Matrix, up: &Matrix, act: ActFormat) {
    assert!(
        (gate.rows, gate.columns) == (up.rows, up.columns),
        "gate is {} x {} but up is {} x {}",
        gate.rows,
        gate.columns,
        up.rows,
        up.columns
    );
    gate.check(act);
    up.check(act);
}

/// `y[s] = activation(G[ids[s]] x, U[ids[s]] x)`, the products plus their biases if there are any.
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
    /// `[columns]`.
    pub x: Input,
    /// What the products compute with: f32 where one of the matrices has a float format.
    pub act: ActFormat,
    /// What is added to the products.
    pub biases: Option<GateUpBiases>,
    /// How the two products become one.
    pub activation: Activation,
    /// `[slots, rows]` f32.
    pub y: Rows,
    /// The rows that the launch has workgroups for.
    pub shape: StepShape,
}

impl GateUp {
    /// The launch: a workgroup has one run of a slot in a step of one row, several in others.
    ///
    /// # Panics
    /// If the matrices' shapes differ or do not suit the kernel, or if a float format is to meet rounded activations, or if a
    /// workgroup cannot keep the vector.
    #[must_use]
    pub fn dispatch(&self, target: &Target) -> Dispatch {
        check_pair(&self.gate, &self.up, self.act);
        assert!(self.gate.rows.is_multiple_of(RUN), "{} rows are not a multiple of {RUN}", self.gate.rows);
        self.x.check(self.act, self.gate.columns, target);
        let selection = match self.routing {
            Routing::Dense => ExpertSelection {
                logits: Rows::default(),
                experts: 0,
                used: 1,
                weighting: Weighting::SoftmaxOfChosen,
                ids: Rows::default(),
                weights: Rows::default(),
            },
            Routing::Experts(selection) => {
                check_selection(&selection);
                selection
            }
        };
        let workgroup = target.workgroup_of(match self.shape.rows() {
            1 => target.tuning.gate_up_width,
            _ => target.tuning.several_gate_up_width,
        });
        let runs = self.gate.rows / RUN;
        let vectors = self.vectors_at_a_time(target);
        let runs_of_workgroup = match self.shape.rows() {
            1 => 1,
            _ if vectors > 1 => target.tuning.dense_gate_up_runs,
            2..=4 => target.tuning.several_gate_up_runs / 2,
            _ => target.tuning.several_gate_up_runs,
        }
        .clamp(1, runs);
        let rows_of_subgroup = RUN * target.subgroup / workgroup;
        let rows_of_lane = (rows_of_subgroup / lane_rows(self.gate.columns, target.subgroup)).max(1);
        let constants = Constants {
            workgroup,
            subgroup: target.subgroup,
            act: self.act.code(),
            columns: self.gate.columns,
            source: self.x.source(),
            experts: selection.experts,
            gate_format: self.gate.format.code(),
            up_format: self.up.format.code(),
            weighting: weighting_code(selection.weighting),
            ahead: target.tuning.quarters_ahead(
                2 * rows_of_lane.min(2),
                self.gate.columns.div_ceil(GROUP),
                target.subgroup,
            ),
            runs_of_workgroup,
            activation: self.activation.code(),
            biases: u32::from(self.biases.is_some()),
            vectors,
        };
        let norm = self.x.norm();
        let biases = self.biases.unwrap_or(GateUpBiases::NONE);
        let push = Push {
            state: self.state,
            gate: self.gate.address,
            up: self.up.address,
            gate_bias: biases.gate,
            up_bias: biases.up,
            logits: selection.logits.address,
            ids: selection.ids.address,
            weights: selection.weights.address,
            x: self.x.rows().address,
            norm: norm.weight,
            y: self.y.address,
            rows: self.gate.rows,
            slots: selection.used,
            epsilon: norm.epsilon,
            logits_stride: selection.logits.stride_in(self.shape),
            ids_stride: selection.ids.stride_in(self.shape),
            weights_stride: selection.weights.stride_in(self.shape),
            x_stride: self.x.rows().stride_in(self.shape),
            y_stride: self.y.stride_in(self.shape),
        };
        let [x, y, rows] = self.shape.grid(target.grid(runs.div_ceil(runs_of_workgroup) * selection.used));
        Dispatch::new(&KERNEL, constants.values(), &push, [x, y, rows / vectors])
    }

    /// Vectors of a workgroup, a power of two: of a dense layer those of all rows of the step, as long as there is shared memory for what it keeps of each.
    fn vectors_at_a_time(&self, target: &Target) -> u32 {
        if self.act == ActFormat::F32 || matches!(self.routing, Routing::Experts(_)) {
            return 1;
        }
        let groups = self.gate.columns.div_ceil(GROUP);
        let mut vectors = self.shape.rows();
        while vectors > 1 && !target.keeps(groups, self.x.staged(vectors), 2 * RUN * (groups + 1) * vectors) {
            vectors /= 2;
        }
        vectors
    }
}
