//! The recorder: a plan becomes dispatches and barriers.

use std::sync::Arc;

use zinc_kernels::Dispatch;
use zinc_kernels::ops;
use zinc_vk::{Access, Buffer, RecordingBuilder};

use super::DeviceModel;
use crate::error::Result;
use crate::plan::{Array, Lookup, Op, PlanKind, StepPlan, barriers_before};

/// Where a step keeps its residual stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ResidualStream {
    /// In [`Array::Residual`], which all steps share: nothing may run between the ranges of the step.
    #[default]
    Shared,
    /// In [`Array::CarriedResidual`]: steps that share [`Array::Residual`] may run between its ranges.
    Carried,
}

/// Device addresses of the memory that the sequences of a step own.
#[derive(Clone, Copy, Debug, Default)]
pub struct StepIo {
    /// The [`StepState`](zinc_kernels::step::StepState).
    pub state: u64,
    /// What the host wants of this step, [`StepLanes`](zinc_kernels::step::StepLanes).
    pub wanted: u64,
    /// A u32 for each lane: the number of the sequence that the host wants stopped.
    pub cancelled: u64,
    /// The [`StepState`](zinc_kernels::step::StepState) that drafts were made with, which [`Op::Propose`] reads, and positions by which its lane stands behind the
    /// last of them.
    pub draft: (u64, u32),
    /// What drafts by multi-token prediction are made behind, in steps that are such drafts.
    pub drafted: Option<Drafted>,
    /// A [`Lane`](zinc_kernels::step::Lane), with whose sequence those of the state end; 0 if there is none.
    pub leader: u64,
    /// Where this step leaves the [`StepReport`](zinc_kernels::step::StepReport) of each lane.
    pub reports: ops::PerLane,
    /// The host's guide for this step, [`step_input_bytes`](zinc_kernels::ops::step_input_bytes) long, which only lanes with a guide read.
    pub step_inputs: ops::PerLane,
    /// The candidates that the host chooses, one for each lane. Lanes whose tokens the device chooses do not read theirs.
    pub choices: ops::PerLane,
    /// Where plans with log-probabilities report those of each lane.
    pub logprobs: ops::PerLane,
    /// Where the step keeps its residual stream.
    pub residual: ResidualStream,
}

/// What drafts by multi-token prediction are made behind.
#[derive(Clone, Copy, Debug, Default)]
pub struct Drafted {
    /// The [`StepState`](zinc_kernels::step::StepState) of the step that has ended.
    pub state: u64,
    /// Where the drafts go instead of to the tokens of the sequence, at the same positions, if they do.
    pub tokens: Option<u64>,
}

impl StepIo {
    /// The array that stands for `array` in this step.
    pub(super) fn array(&self, array: Array) -> Array {
        match (array, self.residual) {
            (Array::Residual, ResidualStream::Carried) => Array::CarriedResidual,
            (Array::Logits, _) if self.drafted.is_some() => Array::MtpLogits,
            _ => array,
        }
    }
}

impl DeviceModel {
    /// Records a step. The recording keeps the model's buffers alive; those behind `io` are the caller's to keep.
    ///
    /// # Errors
    /// Whatever error the driver reports for a pipeline.
    ///
    /// # Panics
    /// If the plan has more rows than the model was loaded for, or more drafts and the model has recurrent states.
    pub fn record(&self, plan: &StepPlan, io: &StepIo, recording: &mut RecordingBuilder) -> Result<()> {
        self.record_ops(plan, io, None, recording, barriers_before(&plan.ops), &mut |_| ())
    }

    /// Records a step, as [`DeviceModel::record`] does, such that the device leaves out most of it if the step is a no-op. `live` is the buffer
    /// and the offset of a word that is 0 only then. See [`RecordingBuilder::begin_condition`] for when the word may change.
    ///
    /// # Errors
    /// The errors of [`DeviceModel::record`].
    ///
    /// # Panics
    /// Where [`DeviceModel::record`] panics.
    pub fn record_while_live(
        &self,
        plan: &StepPlan,
        io: &StepIo,
        live: (&Arc<Buffer>, u64),
        recording: &mut RecordingBuilder,
    ) -> Result<()> {
        self.record_ops(plan, io, Some(live), recording, barriers_before(&plan.ops), &mut |_| ())
    }

    /// Records a step with a barrier before every op, and calls `mark` after every op, to time ops one by one.
    ///
    /// # Errors
    /// The errors of [`DeviceModel::record`].
    pub fn record_marked(
        &self,
        plan: &StepPlan,
        io: &StepIo,
        recording: &mut RecordingBuilder,
        mark: &mut dyn FnMut(&mut RecordingBuilder),
    ) -> Result<()> {
        self.record_ops(plan, io, None, recording, vec![true; plan.ops.len()], mark)
    }

    /// Records the ops of a plan: a barrier before each op for which `barriers` says so, the op, and a call of `mark`. If `live` is given, most
    /// ops run only if the word there is not 0.
    fn record_ops(
        &self,
        plan: &StepPlan,
        io: &StepIo,
        live: Option<(&Arc<Buffer>, u64)>,
        recording: &mut RecordingBuilder,
        barriers: Vec<bool>,
        mark: &mut dyn FnMut(&mut RecordingBuilder),
    ) -> Result<()> {
        let counts = self.counts();
        let most = match plan.kind {
            PlanKind::Feed => counts.rows,
            PlanKind::Decode => counts.sampling_rows,
        };
        assert!(
            plan.shape.rows() <= most,
            "{:?} of {} rows; the model is loaded for {most}",
            plan.kind,
            plan.shape.rows()
        );
        self.check_drafts(plan);
        for buffer in self.buffers() {
            recording.keep(buffer.clone());
        }
        let mut conditional = false;
        // Whether numbers of workgroups have been written since the last barrier.
        let mut grids_written = false;
        for (op, barrier) in plan.ops.iter().zip(barriers) {
            // These write the word that the condition reads, and Advance has to report a no-op, so they always run.
            let always = matches!(
                op,
                Op::List
                    | Op::Lookup(_)
                    | Op::Propose { .. }
                    | Op::Cancel
                    | Op::LastRows
                    | Op::LastAccepted
                    | Op::Advance { .. }
            );
            let on_condition = live.is_some() && !always;
            if barrier {
                let mut later = Access::SHADER_READ | Access::SHADER_WRITE;
                later.set(Access::CONDITION_READ, on_condition && !conditional);
                // The first barrier behind what writes the grids orders the write before all launches that read them. Before the grids are written
                // again, an ordinary barrier is enough: the device reads the grid of a launch before it runs its shader, which the barrier waits for.
                later.set(Access::INDIRECT_READ, std::mem::take(&mut grids_written));
                recording.barrier(Access::SHADER_WRITE, later);
            }
            grids_written |= op.writes().contains(&Array::Grids);
            if let Some((buffer, offset)) = live {
                if on_condition && !conditional {
                    recording.begin_condition(buffer, offset);
                } else if !on_condition && conditional {
                    recording.end_condition();
                }
                conditional = on_condition;
            }
            self.pipelines.record(recording, &self.dispatch(op, io, plan.shape))?;
            mark(recording);
        }
        if conditional {
            recording.end_condition();
        }
        Ok(())
    }

    /// Builds every pipeline that the plans need, and those of the first plan so that it is fastest. `progress` is called with the number of pipelines that are
    /// built, and the number of all.
    ///
    /// # Errors
    /// Whatever error the driver reports for a pipeline.
    pub fn build_pipelines(&self, plans: &[StepPlan], progress: &mut dyn FnMut(usize, usize)) -> Result<()> {
        let io = StepIo::default();
        let launches = |plan: &StepPlan| -> Vec<Dispatch> {
            plan.ops.iter().map(|op| self.dispatch(op, &io, plan.shape)).collect()
        };
        let Some((first, others)) = plans.split_first() else { return Ok(()) };
        let others: Vec<Dispatch> = others.iter().flat_map(launches).collect();
        Ok(self.pipelines.build(&launches(first), &others, progress)?)
    }

    fn buffers(&self) -> impl Iterator<Item = &Arc<Buffer>> {
        self.weights.buffers().iter().chain(self.arrays.buffers()).chain([&self.rotation])
    }

    /// Panics if the steps of a plan take more drafts of a lane than recurrent states have room for.
    fn check_drafts(&self, plan: &StepPlan) {
        let drafts = plan.ops.iter().map(|op| match op {
            Op::Lookup(Lookup { drafts, .. }) | Op::Propose { drafts } => *drafts,
            _ => 0,
        });
        let (drafts, most) = (drafts.max().unwrap_or(0), self.cache.drafts);
        let recurrent = !self.arrays.recurrent.is_empty();
        assert!(!recurrent || drafts <= most, "{drafts} drafts of a lane; the model is loaded for {most}");
    }
}
