//! Where the time of a step goes, op by op: a recording of its own, with a barrier before and a timestamp after every op.

use zinc_model::Result;
use zinc_vk::{Stage, Timestamps};

use super::VulkanModel;
use crate::model::{SequenceStart, StepModel, StepShape};

impl VulkanModel {
    /// Runs `steps` decode steps of a new sequence, one after the other, and times each op: the mean of each in nanoseconds, in the
    /// order of [`VulkanModel::plan`], the barrier before it included. Ops that overlap otherwise, and barriers that are otherwise
    /// left out, make the sum larger than a step.
    ///
    /// # Errors
    /// What the device says, and that it has no timestamps.
    ///
    /// # Panics
    /// With steps in flight, or if `start` leaves prompt tokens to be fed or its budget is below `steps`.
    pub fn profile(&mut self, start: &SequenceStart<'_>, steps: u32) -> Result<Vec<f64>> {
        assert!(
            start.tokens.len() == start.cached as usize + 1 && start.budget >= steps,
            "{steps} steps are profiled with {} of {} tokens cached and a budget of {}",
            start.cached,
            start.tokens.len(),
            start.budget
        );
        let ops = self.plan(StepShape::Decode).ops.len();
        let stamps = Timestamps::new(self.device(), ops as u32 + 1)?;
        let mut recording = self.start_recording("profile")?;
        recording.reset_timestamps(&stamps, 0..stamps.count());
        recording.timestamp(&stamps, 0, Stage::End);
        let mut next = 1;
        self.model.record_marked(self.plan(StepShape::Decode), &self.io(0), &mut recording, &mut |recording| {
            recording.timestamp(&stamps, next, Stage::End);
            next += 1;
        })?;
        let recording = recording.finish()?;
        self.begin(start)?;
        let clock = self.device().clock()?;
        let mut times = vec![0.0; ops];
        for _ in 0..steps {
            self.device().compute_queue().submit(&recording, &[])?.wait()?;
            let ticks = stamps.read(0..stamps.count())?;
            for (time, pair) in times.iter_mut().zip(ticks.windows(2)) {
                let elapsed_ns = clock.host_ns(pair[1]).saturating_sub(clock.host_ns(pair[0]));
                *time += elapsed_ns as f64 / f64::from(steps.max(1));
            }
        }
        Ok(times)
    }
}
