//! The options of a model on a Vulkan device.

use std::time::Duration;

use zinc_kernels::ops::ActFormat;
use zinc_kernels::step::{FeedShapes, StepShape};
use zinc_model::device::MOST_RANGE;

use super::draft::DraftSource;
use crate::depth::InflightDepth;
use crate::model::CheckpointLimits;
use crate::request::Tracing;

/// How steps are recorded, submitted and waited for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sync {
    /// Steps are recorded once, and queued ahead on the timeline.
    #[default]
    Timeline,
    /// Steps are recorded once; each is submitted and waited for with a binary fence.
    FenceKept,
    /// The baseline: the commands of a step, which are worked out once, are written into its command buffer anew for each token, submitted,
    /// and waited for with a binary fence. This is the loop of engines that record every step.
    Fence,
}

/// On which queue steps sample.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Queues {
    /// On the queue of the forward pass.
    #[default]
    One,
    /// On a second queue, if the device has one. The two queues wait for each other through their timelines.
    Two,
}

/// How a [`VulkanModel`](super::VulkanModel) is driven. [`VulkanOptions::new`] makes options, whose fields can then be set.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct VulkanOptions {
    /// How steps are recorded, submitted and waited for.
    pub sync: Sync,
    /// The most steps in flight. Each of as many ring slots has recordings of its own.
    pub depth: InflightDepth,
    /// The form of activations where they are multiplied with quantised weights.
    pub act: ActFormat,
    /// Whether each step takes timestamps on the device, for traces. On a device that takes none, traces have the host's times alone.
    pub stamps: Tracing,
    /// On which queue steps sample.
    pub queues: Queues,
    /// Where drafts come from; `None` for no speculative decoding.
    pub draft_source: Option<DraftSource>,
    /// The rows of steps that feed a prompt, at most as many as the model was loaded for. What is left in the end is fed by a smaller step.
    pub feed_shapes: FeedShapes,
    /// The longest range of layers in which such steps are submitted, by the cost model: [`MOST_RANGE`] or less. It bounds what the tokens of other lanes wait
    /// for at least.
    pub longest_range: Duration,
    /// How many checkpoints are kept of states, if the model has any; 0 if none, so that every prompt is computed from its beginning.
    pub checkpoints: u32,
    /// The distance of the checkpoints that are taken inside prompts and while tokens are sampled, in tokens; it is rounded up to whole pages.
    pub checkpoint_spacing: u32,
}

impl VulkanOptions {
    /// The timeline at the given depth, with 14-bit activations, on one queue, without timestamps and drafts; prompts are fed by steps of one row, and checkpoints are those
    /// of [`CheckpointLimits`] by default.
    #[must_use]
    pub fn new(depth: InflightDepth) -> Self {
        Self {
            sync: Sync::Timeline,
            depth,
            act: ActFormat::default(),
            stamps: Tracing::Off,
            queues: Queues::One,
            draft_source: None,
            feed_shapes: FeedShapes::always(StepShape::ONE),
            longest_range: MOST_RANGE,
            checkpoints: CheckpointLimits::SLOTS,
            checkpoint_spacing: CheckpointLimits::SPACING,
        }
    }

    /// Returns these options with steps submitted and waited for in this way.
    #[must_use]
    pub fn with_sync(mut self, sync: Sync) -> Self {
        self.sync = sync;
        self
    }

    /// Returns these options with this form of activations.
    #[must_use]
    pub fn with_act(mut self, act: ActFormat) -> Self {
        self.act = act;
        self
    }

    /// Returns these options with timestamps on the device or without.
    #[must_use]
    pub fn with_stamps(mut self, stamps: Tracing) -> Self {
        self.stamps = stamps;
        self
    }

    /// Returns these options with sampling on this queue.
    #[must_use]
    pub fn with_queues(mut self, queues: Queues) -> Self {
        self.queues = queues;
        self
    }

    /// Returns these options with drafts from this source; `None` is no speculative decoding.
    #[must_use]
    pub fn with_draft_source(mut self, draft_source: impl Into<Option<DraftSource>>) -> Self {
        self.draft_source = draft_source.into();
        self
    }

    /// Returns these options with ranges of layers of at most so long.
    #[must_use]
    pub fn with_longest_range(mut self, longest_range: Duration) -> Self {
        self.longest_range = longest_range;
        self
    }

    /// Returns these options with so many checkpoints of states.
    #[must_use]
    pub fn with_checkpoints(mut self, checkpoints: u32) -> Self {
        self.checkpoints = checkpoints;
        self
    }

    /// Returns these options with this distance of checkpoints.
    #[must_use]
    pub fn with_checkpoint_spacing(mut self, checkpoint_spacing: u32) -> Self {
        self.checkpoint_spacing = checkpoint_spacing;
        self
    }

    /// Returns these options with prompts fed by steps of this shape.
    #[must_use]
    pub fn with_feed_shape(self, feed_shape: StepShape) -> Self {
        self.with_feed_shapes(FeedShapes::always(feed_shape))
    }

    /// Returns these options with prompts fed by steps of these shapes.
    #[must_use]
    pub fn with_feed_shapes(mut self, feed_shapes: FeedShapes) -> Self {
        self.feed_shapes = feed_shapes;
        self
    }
}
