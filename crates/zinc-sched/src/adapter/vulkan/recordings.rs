//! The recordings that steps consist of. Each is made when a step first needs it, and is submitted again whenever another step does.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use zinc_kernels::step::StepShape;
use zinc_model::Result;
use zinc_model::device::{DeviceModel, ResidualStream, StepIo};
use zinc_model::plan::{PlanKind, PlanOptions, Sampler, SamplingStage, StepPlan};
use zinc_vk::{Access, QueueKind, Recording, RecordingBuilder};

use super::chain::ChainMemory;
use super::draft::Drafter;
use super::memory::{STATE_OFFSET, StepMemory};
use super::stamps::{Stamped, Stamps};
use super::{Queues, VulkanOptions};
use crate::model::Gate;

/// How the tokens of a step are chosen. Steps that differ in it need different recordings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct SamplingMode {
    pub(super) sampling: SamplingStage,
    pub(super) gate: Gate,
}

impl SamplingMode {
    /// The device samples greedily or by temperature alone, without log-probabilities or gates.
    pub(super) const PLAIN: Self = Self { sampling: SamplingStage::PLAIN, gate: Gate::Open };

    /// How a step chooses the tokens of lanes that differ: each stage is part of it that one of the lanes needs.
    pub(super) fn join(self, other: Self) -> Self {
        let sampler = match (self.sampling.sampler, other.sampling.sampler) {
            (Sampler::Chain { dry }, Sampler::Chain { dry: other }) => Sampler::Chain { dry: dry || other },
            (chain @ Sampler::Chain { .. }, _) | (_, chain @ Sampler::Chain { .. }) => chain,
            (Sampler::Plain, _) | (_, Sampler::Plain) => Sampler::Plain,
            (Sampler::Host, Sampler::Host) => Sampler::Host,
        };
        let gate = match (self.gate, other.gate) {
            (Gate::Token, _) | (_, Gate::Token) => Gate::Token,
            (Gate::Guide, _) | (_, Gate::Guide) => Gate::Guide,
            (Gate::Open, Gate::Open) => Gate::Open,
        };
        let logprobs = self.sampling.logprobs || other.sampling.logprobs;
        Self { sampling: SamplingStage { sampler, logprobs }, gate }
    }
}

/// The part of a step that one recording does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum StepPart {
    /// The layers of a step that takes prompt tokens through them. They are the same whether it samples behind them or not.
    Feed(StepShape),
    /// What such a step does behind its layers if no prompt ends in it.
    FeedEnd,
    /// What such a step does behind its layers otherwise: it samples after the last tokens of so many prompts, and ends.
    FeedSampling(StepShape, SamplingMode),
    /// The draft model takes in its next tokens.
    FeedDraft(StepShape),
    /// A whole step of one row a lane that samples.
    Decode(StepShape, SamplingMode),
    /// The forward pass of such a step, up to the logits.
    Forward(StepShape, SamplingMode),
    /// The sampling of such a step, behind the logits.
    Sample(StepShape, SamplingMode),
    /// A whole step that drafts, and takes the last token and the drafts through the layers.
    Speculate(SamplingMode),
}

/// What is needed to record the parts of steps.
pub(super) struct StepRecorder<'a> {
    pub(super) model: &'a DeviceModel,
    pub(super) options: &'a VulkanOptions,
    pub(super) memory: &'a StepMemory,
    pub(super) chain: &'a ChainMemory,
    pub(super) drafter: Option<&'a Drafter>,
    pub(super) stamps: Option<&'a Stamps>,
}

/// The recordings made so far, by part and ring slot: one for each of a part's ranges, in order.
#[derive(Debug, Default)]
pub(super) struct Recordings {
    made: HashMap<(StepPart, u32), Vec<Arc<Recording>>>,
}

impl Recordings {
    /// The recordings of a part for a slot, which are submitted one after the other.
    ///
    /// # Panics
    /// If they were not made.
    pub(super) fn ranges(&self, part: StepPart, slot: u32) -> &[Arc<Recording>] {
        self.made.get(&(part, slot)).unwrap_or_else(|| panic!("{part:?} was not recorded for slot {slot}"))
    }

    /// The recording of a part that is not cut into ranges, for a slot.
    ///
    /// # Panics
    /// If it was not made, or is cut.
    pub(super) fn whole(&self, part: StepPart, slot: u32) -> &Arc<Recording> {
        let [recording] = self.ranges(part, slot) else { panic!("{part:?} is submitted in ranges") };
        recording
    }

    /// Makes the recordings of a part for a slot, unless that was done before.
    pub(super) fn provide(&mut self, part: StepPart, slot: u32, from: &StepRecorder<'_>) -> Result<()> {
        if let Entry::Vacant(place) = self.made.entry((part, slot)) {
            place.insert(from.record(part, slot)?);
        }
        Ok(())
    }
}

impl StepRecorder<'_> {
    /// What the plan of a step of one row is made for.
    pub(super) fn options(&self, kind: PlanKind, sampling: SamplingStage) -> PlanOptions {
        let options = PlanOptions::new(kind, self.options.act).with_sampling(sampling);
        match kind {
            PlanKind::Feed => options,
            PlanKind::Decode => options.with_tiled_rows(self.model.sampling_tiled_rows()),
        }
    }

    /// What the plan of a step that feeds is made for.
    pub(super) fn feed_options(&self, shape: StepShape) -> PlanOptions {
        self.options(PlanKind::Feed, SamplingStage::PLAIN).with_shape(shape)
    }

    /// The plan of a step that feeds.
    pub(super) fn feed_plan(&self, shape: StepShape) -> StepPlan {
        StepPlan::new(&self.model.model().weights, &self.feed_options(shape))
    }

    /// The plan of the layers of a step that feeds.
    pub(super) fn feed_layers(&self, shape: StepShape) -> StepPlan {
        let options = self.feed_options(shape);
        self.with_mtp_rows(StepPlan::forward(&self.model.model().weights, &options), &options)
    }

    /// The plan of a step that samples after each of its rows.
    pub(super) fn decode_plan(&self, sampling: SamplingStage, shape: StepShape) -> StepPlan {
        let options = self.options(PlanKind::Decode, sampling).with_shape(shape);
        self.with_mtp_rows(StepPlan::new(&self.model.model().weights, &options), &options)
    }

    /// A plan by `options` that ends a step, or has the layers of one that feeds, with what a block for multi-token prediction needs of its rows, if it drafts.
    fn with_mtp_rows(&self, plan: StepPlan, options: &PlanOptions) -> StepPlan {
        if self.drafter.is_some_and(Drafter::uses_mtp) {
            plan.followed_by(StepPlan::mtp_rows(&self.model.model().weights, options))
        } else {
            plan
        }
    }

    /// Where a step in ring slot `slot` finds its sequences.
    pub(super) fn io(&self, slot: u32) -> StepIo {
        let memory = self.memory;
        StepIo {
            state: memory.state(STATE_OFFSET),
            wanted: memory.wanted_address(slot),
            cancelled: memory.cancelled_address(),
            leader: 0,
            draft: self.drafter.map_or((0, 0), |drafter| drafter.proposing_state(memory)),
            drafted: None,
            reports: memory.reports_of(slot),
            step_inputs: memory.guides_of(slot),
            choices: memory.choices_of(slot),
            logprobs: memory.logprobs_of(slot),
            residual: ResidualStream::Shared,
        }
    }

    /// Where a step that feeds in ring slot `slot` finds its sequence. In a model of several lanes nothing that it needs between its ranges is touched by
    /// steps that sample: it has a state and a residual stream of its own.
    pub(super) fn feed_io(&self, slot: u32) -> StepIo {
        let residual = if self.model.carries() { ResidualStream::Carried } else { ResidualStream::Shared };
        StepIo { state: self.memory.state(self.feed_state()), residual, ..self.io(slot) }
    }

    /// Offset of the state of steps that feed.
    fn feed_state(&self) -> u64 {
        if self.model.cache().lanes > 1 { self.memory.feed_state_offset() } else { STATE_OFFSET }
    }

    /// Starts a recording that keeps what [`Self::io`] names, and what lanes name.
    pub(super) fn start(&self, kind: QueueKind, name: &str) -> Result<RecordingBuilder> {
        let mut recording = RecordingBuilder::new(self.model.device(), kind, name)?;
        for buffer in self.memory.buffers() {
            recording.keep(buffer.clone());
        }
        recording.keep(self.chain.tables().clone());
        Ok(recording)
    }

    /// Records a part of a step that reports into ring slot `slot`: one recording for each of its plans.
    pub(super) fn record(&self, part: StepPart, slot: u32) -> Result<Vec<Arc<Recording>>> {
        let plans = self.plans(part);
        let last = plans.len() - 1;
        let record = |(index, plan): (usize, &StepPlan)| -> Result<Arc<Recording>> {
            let mut recording = self.start(self.queue_of(part), &format!("{part:?} {slot}, range {index}"))?;
            self.record_range(part, plan, slot, (index == 0, index == last), &mut recording)?;
            Ok(recording.finish()?)
        };
        plans.iter().enumerate().map(record).collect()
    }

    /// The plans of a part, in order, each of which is a submission. Those that feed are the ranges of layers of one plan; every other part has one.
    fn plans(&self, part: StepPart) -> Vec<StepPlan> {
        let weights = &self.model.model().weights;
        match part {
            StepPart::Feed(shape) => self.model.ranges(self.feed_layers(shape), self.options.longest_range),
            StepPart::FeedEnd => vec![StepPlan::tail(&self.feed_options(StepShape::ONE))],
            StepPart::FeedSampling(shape, mode) => {
                let options = self.options(PlanKind::Decode, mode.sampling).with_shape(shape);
                vec![self.with_mtp_rows(StepPlan::behind_last_rows(weights, &options), &options)]
            }
            StepPart::FeedDraft(shape) => self.drafter().feed_ranges(shape),
            StepPart::Decode(shape, mode) => vec![self.decode_plan(mode.sampling, shape)],
            StepPart::Forward(shape, mode) => {
                vec![StepPlan::forward(weights, &self.options(PlanKind::Decode, mode.sampling).with_shape(shape))]
            }
            StepPart::Sample(shape, mode) => {
                let options = self.options(PlanKind::Decode, mode.sampling).with_shape(shape);
                vec![self.with_mtp_rows(StepPlan::tail(&options), &options)]
            }
            StepPart::Speculate(mode) => {
                let options = self.drafter().verify(self.options(PlanKind::Decode, mode.sampling));
                vec![self.with_mtp_rows(StepPlan::new(weights, &options), &options)]
            }
        }
    }

    /// The queue that a part is submitted to.
    fn queue_of(&self, part: StepPart) -> QueueKind {
        let second = self.options.queues == Queues::Two && matches!(part, StepPart::Sample(..));
        if second { QueueKind::SecondCompute } else { QueueKind::Compute }
    }

    /// Records what one plan of a part needs; `first` and `last` say whether it is the first and the last one.
    fn record_range(
        &self,
        part: StepPart,
        plan: &StepPlan,
        slot: u32,
        (first, last): (bool, bool),
        r: &mut RecordingBuilder,
    ) -> Result<()> {
        let stamped = match part {
            StepPart::FeedDraft(_) => None,
            StepPart::Sample(..) => Some(Stamped::Sampling),
            StepPart::Feed(_)
            | StepPart::FeedEnd
            | StepPart::FeedSampling(..)
            | StepPart::Decode(..)
            | StepPart::Forward(..)
            | StepPart::Speculate(_) => Some(Stamped::Forward),
        };
        let stamps = self.stamps.zip(stamped);
        if let StepPart::Sample(_, SamplingMode { gate: Gate::Guide | Gate::Token, .. }) = part {
            // The host writes its guide or choice after the submit.
            r.barrier(Access::HOST_WRITE, Access::SHADER_READ);
        }
        // The layers of a step that feeds and what is behind them are stamped as one.
        let is_behind = matches!(part, StepPart::FeedEnd | StepPart::FeedSampling(..));
        let (begins, ends) = (first && !is_behind, last && !matches!(part, StepPart::Feed(_)));
        if let Some((stamps, part)) = stamps.filter(|_| begins) {
            stamps.record_begin(r, slot, part);
        }
        match part {
            StepPart::Decode(..) | StepPart::Sample(..) => self.record_plan(plan, slot, r)?,
            StepPart::Feed(_) | StepPart::FeedEnd | StepPart::FeedSampling(..) => {
                self.record_feeding(plan, slot, r)?;
            }
            StepPart::FeedDraft(_) => self.drafter().record_feed(plan, self.memory, slot, r)?,
            StepPart::Forward(shape, mode) => {
                self.record_plan(plan, slot, r)?;
                if mode.gate == Gate::Token {
                    self.memory.record_logits(self.model, slot, shape.rows(), r);
                }
            }
            StepPart::Speculate(_) => {
                let drafter = self.drafter();
                drafter.record_drafts(self.memory, slot, r)?;
                self.record_plan(plan, slot, r)?;
                drafter.record_draft_state_copy(self.memory, r);
                drafter.record_mtp_drafts(self.model, self.memory, slot, r)?;
            }
        }
        if let Some((stamps, part)) = stamps.filter(|_| ends) {
            stamps.record_end(r, slot, part, self.memory);
        }
        Ok(())
    }

    fn record_plan(&self, plan: &StepPlan, slot: u32, recording: &mut RecordingBuilder) -> Result<()> {
        self.model.record_while_live(plan, &self.io(slot), self.memory.live(STATE_OFFSET), recording)
    }

    /// Records a plan of a step that feeds.
    fn record_feeding(&self, plan: &StepPlan, slot: u32, recording: &mut RecordingBuilder) -> Result<()> {
        self.model.record_while_live(plan, &self.feed_io(slot), self.memory.live(self.feed_state()), recording)
    }

    fn drafter(&self) -> &Drafter {
        self.drafter.expect("a sequence is drafted only where there is something to draft with")
    }
}
