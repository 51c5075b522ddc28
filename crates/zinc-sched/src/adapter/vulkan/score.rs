//! The logits after each of given tokens, by steps of as many rows as the model is loaded for.

use std::sync::Arc;

use zinc_kernels::step::{StepLanes, StepShape};
use zinc_model::device::MOST_RANGE;
use zinc_model::plan::{Array, PlanKind, SamplingStage, StepPlan};
use zinc_model::{Error, Result};
use zinc_vk::{Access, QueueKind, Recording};

use super::VulkanModel;
use super::memory::STATE_OFFSET;
use crate::Sampling;
use crate::adapter::Score;
use crate::model::{SequenceStart, StepModel as _};

impl Score for VulkanModel {
    type Error = Error;

    fn score(&mut self, tokens: &[u32], sink: &mut dyn FnMut(usize, &[f32])) -> Result<()> {
        let counts = self.model.counts();
        let (rows, slice_rows) = (counts.rows as usize, counts.sampling_rows as usize);
        let mut layers = Vec::new();
        for (index, chunk) in tokens.chunks(rows).enumerate() {
            let first = index * rows;
            // The rows that a step lists end with the prompt. The lane's recurrent state, if it has one, is that behind the chunk before.
            let known = &tokens[..first + chunk.len()];
            let sequence = self.open_sequence(&SequenceStart::new(known, first as u32, 1, &Sampling::GREEDY))?;
            if layers.is_empty() {
                layers = self.record_layers(StepShape::filled_by(counts.rows))?;
            }
            self.memory.write_wanted(0, &StepLanes::of(&[0], counts.rows));
            for range in &layers {
                self.submit_and_wait(range)?;
            }
            for from in (0..chunk.len()).step_by(slice_rows) {
                let count = slice_rows.min(chunk.len() - from);
                self.submit_and_wait(&self.record_head(from as u32, count as u32)?)?;
                for row in 0..count {
                    sink(first + from + row, &self.read_logits(row as u32)?);
                }
            }
            self.close(sequence);
        }
        Ok(())
    }
}

impl VulkanModel {
    /// Records the layers of a step of so many rows, in ranges.
    fn record_layers(&self, shape: StepShape) -> Result<Vec<Arc<Recording>>> {
        let (recorder, model) = (self.recorder(), &self.model);
        let forward = StepPlan::forward(&model.model().weights, &recorder.feed_options(shape));
        let plans = model.ranges(forward, MOST_RANGE);
        let record = |plan: &StepPlan| -> Result<Arc<Recording>> {
            let mut recording = recorder.start(QueueKind::Compute, "score")?;
            model.record(plan, &recorder.io(0), &mut recording)?;
            Ok(recording.finish()?)
        };
        plans.iter().map(record).collect()
    }

    /// Records the head for `count` rows of a step behind its layers, from row `first` on. They become the first rows of the step, and the only ones.
    fn record_head(&self, first: u32, count: u32) -> Result<Arc<Recording>> {
        let (recorder, model) = (self.recorder(), &self.model);
        let shape = StepShape::filled_by(model.counts().sampling_rows);
        let options = recorder.options(PlanKind::Decode, SamplingStage::PLAIN).with_shape(shape);
        let mut recording = recorder.start(QueueKind::Compute, "score")?;
        recording.barrier(Access::SHADER_WRITE, Access::TRANSFER_READ | Access::TRANSFER_WRITE);
        for row in (0..count).filter(|_| first > 0) {
            let (residual, from, bytes) = model.activation(Array::Residual, first + row);
            let (_, to, _) = model.activation(Array::Residual, row);
            recording.copy(residual, from, residual, to, bytes);
        }
        let (sequences, row_count) = self.memory.live(STATE_OFFSET);
        recording.fill(sequences, row_count, 4, count);
        recording.barrier(Access::TRANSFER_WRITE, Access::SHADER_READ | Access::SHADER_WRITE);
        let head = StepPlan::head(&model.model().weights, &options);
        model.record(&head, &recorder.io(0), &mut recording)?;
        Ok(recording.finish()?)
    }
}
