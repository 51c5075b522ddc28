//! The logits of given tokens: an instrument for comparing engines.

use std::convert::Infallible;

use zinc_kernels::ops::ActFormat;
use zinc_kernels::step::{FeedShapes, StepShape};
use zinc_sched::InflightDepth;
use zinc_sched::adapter::{InterpreterModel, Score as _, VulkanModel, VulkanOptions};

use crate::error::Result;
use crate::event::OpenEvent;
use crate::file::ModelFile;
use crate::load::SamplingRows;
use crate::place::Place;

impl ModelFile {
    /// Loads the model and hands the logits after each of `ids` to `sink`: the position, counted from 0, and `[vocabulary]` f32. A device takes as many
    /// ids through the layers together as `shape` has rows, or as suit it, and computes their logits in slices.
    ///
    /// # Errors
    /// Those of [`Self::check_prompt`], and as [`Self::load`].
    pub fn score(
        &self,
        place: &Place,
        act: ActFormat,
        shape: Option<StepShape>,
        ids: &[u32],
        sink: &mut dyn FnMut(usize, &[f32]),
        on_event: &mut dyn FnMut(OpenEvent),
    ) -> Result<()> {
        self.check_prompt(ids)?;
        match place {
            Place::Interpreter => {
                let scored = InterpreterModel::new(self.model(), self.cache()).score(ids, sink);
                scored.unwrap_or_else(|never: Infallible| match never {});
            }
            Place::Vulkan { pipelines, .. } => {
                let options = VulkanOptions::new(InflightDepth::ONE).with_act(act);
                let shape = shape.unwrap_or_else(|| {
                    self.feed_shapes(pipelines, SamplingRows::plain(StepShape::SEVERAL), 0).of_prompt(ids.len() as u32)
                });
                let slice = SamplingRows::plain(shape.min(StepShape::SEVERAL));
                let mut model = VulkanModel::new(
                    self.load_weights(pipelines, act, FeedShapes::always(shape), slice, on_event)?,
                    options,
                )?;
                model.score(ids, sink)?;
            }
        }
        place.check_validation()
    }
}
