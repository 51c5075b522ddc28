//! Times the ops of a step one by one, with a recording that has a barrier before and a timestamp after every op.

use zinc_kernels::step::StepLanes;
use zinc_model::Result;
use zinc_model::plan::StepPlan;
use zinc_vk::{Access, QueueKind, Stage, Timestamps};

use super::VulkanModel;
use crate::model::{SequenceStart, StepModel};
use crate::step::StepKind;

/// Intervals without an op that are timed after those with one.
const EMPTY_INTERVALS: u32 = 16;

/// What [`VulkanModel::profile`] has measured, in nanoseconds.
#[derive(Clone, Debug)]
pub struct OpTimes {
    /// The step.
    pub plan: StepPlan,
    /// The mean of each of its ops, in order, the barrier before it included.
    pub ops_ns: Vec<f64>,
    /// The mean of a barrier with no op behind it, which is contained in the time of each op.
    pub empty_ns: f64,
}

impl VulkanModel {
    /// Runs `steps` steps of new sequences, one after the other, and times each op: `Feed`s of all their rows of one sequence, or `Decode`s of all of them. Ops
    /// that overlap otherwise, and barriers that are otherwise left out, make the sum larger than a step.
    ///
    /// # Errors
    /// Whatever error the device reports, or that it has no timestamps.
    ///
    /// # Panics
    /// With steps in flight, if `steps` is 0, or if the prompt that a start leaves to be fed has another length than so many steps take.
    pub fn profile(&mut self, starts: &[SequenceStart<'_>], kind: StepKind, steps: u32) -> Result<OpTimes> {
        assert!(steps > 0, "a profile of 0 steps");
        let fed = if kind == StepKind::Feed { steps * self.limits.feed_rows } else { 0 };
        for start in starts {
            assert!(
                start.tokens.len() == (start.cached + fed) as usize + 1 && (fed > 0 || start.budget >= steps),
                "{steps} steps, {kind:?}, are profiled with {} of {} tokens cached and a budget of {}",
                start.cached,
                start.tokens.len(),
                start.budget
            );
        }
        let sequences = starts.iter().map(|start| self.open(start)).collect::<Result<Vec<_>>>()?;
        let lanes: Vec<u32> = starts.iter().map(|start| start.lane).collect();
        let plan = self.plan(kind);
        let rows = if kind == StepKind::Feed { self.limits.feed_rows } else { 1 };
        self.memory.write_wanted(0, &StepLanes::of(&lanes, rows));
        let ops = plan.ops.len();
        let stamps = Timestamps::new(self.device(), 1 + ops as u32 + EMPTY_INTERVALS)?;
        let mut recording = self.recorder().start(QueueKind::Compute, "profile")?;
        recording.reset_timestamps(&stamps, 0..stamps.count());
        recording.timestamp(&stamps, 0, Stage::End);
        let mut next = 1;
        self.model.record_marked(&plan, &self.recorder().io(0), &mut recording, &mut |recording| {
            recording.timestamp(&stamps, next, Stage::End);
            next += 1;
        })?;
        for index in next..stamps.count() {
            recording.barrier(Access::SHADER_WRITE, Access::SHADER_READ | Access::SHADER_WRITE);
            recording.timestamp(&stamps, index, Stage::End);
        }
        let recording = recording.finish()?;
        let clock = self.device().clock()?;
        let mut sums_ns = vec![0.0; ops + EMPTY_INTERVALS as usize];
        for _ in 0..steps {
            self.device().compute_queue().submit(&recording, &[])?.wait()?;
            let ticks = stamps.read(0..stamps.count())?;
            for (sum_ns, pair) in sums_ns.iter_mut().zip(ticks.windows(2)) {
                let elapsed_ns = clock.host_ns(pair[1]).saturating_sub(clock.host_ns(pair[0]));
                *sum_ns += elapsed_ns as f64;
            }
        }
        sequences.into_iter().for_each(|sequence| self.close(sequence));
        let mut means_ns = sums_ns.into_iter().map(|ns| ns / f64::from(steps));
        let ops_ns = means_ns.by_ref().take(ops).collect();
        Ok(OpTimes { plan, ops_ns, empty_ns: means_ns.sum::<f64>() / f64::from(EMPTY_INTERVALS) })
    }
}
