//! Where drafts come from: a look-up in the sequence's own tokens, a smaller draft model that runs on the same device, the model's block for multi-token prediction,
//! or what is known to follow.
//!
//! A draft model shares the array of tokens with the model that it drafts for, and writes its drafts there. It has two states of its own.
//! With the first it takes in every token of the sequence once. The second is for drafting: its lane is set to that of the sequence when a
//! `Speculate` step begins. Such a step leaves the draft model with keys and values for all accepted tokens. After plain steps the draft
//! model must be fed their tokens before it can draft again.
//!
//! A block for multi-token prediction takes in the rows of every step, and drafts behind a `Speculate` step for the next one, so that the first such step has no drafts.
//! It drafts with the second of those states.

use std::mem::offset_of;
use std::ops::RangeInclusive;
use std::sync::Arc;

use zinc_kernels::ops::ActFormat;
use zinc_kernels::step::{Lane, StepShape, StepState};
use zinc_model::Result;
use zinc_model::device::{DeviceModel, Drafted, MOST_RANGE, StepIo};
use zinc_model::plan::{Drafts, Lookup, MtpDraft, PlanKind, PlanOptions, StepPlan};
use zinc_vk::{Access, RecordingBuilder};

use super::memory::{DRAFT_MODEL_STATE_OFFSET, DRAFTING_STATE_OFFSET, STATE_OFFSET, StepMemory};
use crate::speculation::ResumeCost;

/// Where drafts come from.
#[derive(Clone, Debug)]
pub enum DraftSource {
    /// The last tokens of the sequence are looked up in what came before, and the tokens that followed there are the drafts.
    Lookup {
        /// How many of the last tokens must agree. The longest match wins, and of equally long ones the latest.
        ngrams: RangeInclusive<u32>,
        /// The most drafts of a step, 1 to 15.
        max_drafts: u32,
    },
    /// A draft model with the same vocabulary.
    Model {
        /// The draft model, loaded on the same device with at least as much context.
        model: Arc<DeviceModel>,
        /// The drafts of a step, 1 to 15.
        max_drafts: u32,
    },
    /// The block for multi-token prediction of the model, which must be opened with it.
    Mtp {
        /// The drafts of a step, 1 to 15.
        max_drafts: u32,
    },
    /// What is known to follow the prompt, as an oracle drafts it: a measure of what right drafts are worth.
    Replay {
        /// The tokens behind the prompt. Those for which the context has no room are left out.
        tokens: Arc<[u32]>,
        /// Whether the model's block for multi-token prediction drafts, too, although these drafts are not used: steps take as long as with it.
        mtp: bool,
        /// The most drafts of a step, 1 to 15.
        max_drafts: u32,
    },
}

/// Records the drafting and verifying of one model.
#[derive(Debug)]
pub(super) struct Drafter {
    source: DraftSource,
    /// Of a draft model.
    plans: Option<DraftPlans>,
    /// Of a block for multi-token prediction: the first draft of a step, and another.
    mtp_plans: Option<[StepPlan; 2]>,
}

/// The plans of a draft model.
#[derive(Debug)]
struct DraftPlans {
    /// What the plan of the largest step that takes in tokens of the sequence is made for.
    largest_feed: PlanOptions,
    /// Takes in a token and samples a draft.
    decode: StepPlan,
    /// Takes in the last draft.
    last: StepPlan,
}

impl Drafter {
    /// # Panics
    /// If `target` has no room for the drafts beside its last token, or a draft model does not fit it or has a state that cannot be cut back.
    pub(super) fn new(target: &DeviceModel, source: DraftSource, act: ActFormat) -> Self {
        let plans = match &source {
            DraftSource::Lookup { .. } | DraftSource::Mtp { .. } | DraftSource::Replay { .. } => None,
            DraftSource::Model { model, .. } => {
                let [own, other] = [model.as_ref(), target].map(|m| (m.model().config.n_vocab, m.cache().context));
                assert!(
                    own.0 == other.0 && own.1 >= other.1,
                    "a draft model of {} tokens and {} positions for one of {} and {}",
                    own.0,
                    own.1,
                    other.0,
                    other.1
                );
                assert!(model.state_bytes() == 0, "a draft model with a recurrent state or with rings");
                let weights = &model.model().weights;
                let feed = PlanOptions::new(PlanKind::Feed, act);
                let most = StepShape::filled_by(model.counts().rows);
                Some(DraftPlans {
                    largest_feed: feed.clone().with_shape(most),
                    decode: StepPlan::new(weights, &PlanOptions::new(PlanKind::Decode, act)),
                    last: StepPlan::forward(weights, &feed),
                })
            }
        };
        let mtp_plans = matches!(source, DraftSource::Mtp { .. } | DraftSource::Replay { mtp: true, .. }).then(|| {
            let weights = &target.model().weights;
            [MtpDraft::First, MtpDraft::Next].map(|draft| StepPlan::mtp_draft(weights, act, draft))
        });
        let this = Self { source, plans, mtp_plans };
        let (rows, most) = (this.shape().rows(), target.counts().sampling_rows);
        assert!(rows <= most, "steps of {rows} rows sample, of a model that was loaded for {most}");
        let (drafts, most) = (this.max_drafts(), target.cache().drafts);
        let is_recurrent = target.model().config.recurrent_bytes(0) > 0;
        assert!(
            !is_recurrent || drafts <= most,
            "{drafts} drafts, of a model whose recurrent states have room for {most}"
        );
        this
    }

    /// The most drafts of a step.
    pub(super) fn max_drafts(&self) -> u32 {
        match self.source {
            DraftSource::Lookup { max_drafts, .. }
            | DraftSource::Model { max_drafts, .. }
            | DraftSource::Mtp { max_drafts }
            | DraftSource::Replay { max_drafts, .. } => max_drafts,
        }
    }

    /// The rows of a step that verifies drafts.
    fn shape(&self) -> StepShape {
        StepShape::of(self.max_drafts() + 1)
    }

    /// The steps that feed `tokens` tokens of the sequence to the draft model, in order: the rows of each, and its shape.
    pub(super) fn feeds(&self, mut tokens: u32) -> Vec<(u32, StepShape)> {
        let most = self.model().1.largest_feed.shape;
        let mut feeds = Vec::new();
        while tokens > 0 {
            let rows = tokens.min(most.rows());
            tokens -= rows;
            feeds.push((rows, StepShape::feeding(rows, most)));
        }
        feeds
    }

    /// Whether there is a draft model, which has to take in every token of the sequence.
    pub(super) fn uses_draft_model(&self) -> bool {
        matches!(self.source, DraftSource::Model { .. })
    }

    /// Whether a block for multi-token prediction drafts, which has to take in the rows of every step.
    pub(super) fn uses_mtp(&self) -> bool {
        self.mtp_plans.is_some()
    }

    /// Whether drafts are handed over by a lane that is set when a sequence is opened. Those that are looked up are made for the lane of the step, and those by
    /// multi-token prediction with a lane that is set behind the step before.
    pub(super) fn has_own_lane(&self) -> bool {
        matches!(self.source, DraftSource::Model { .. } | DraftSource::Replay { .. })
    }

    /// What it costs to draft again after steps without drafts: a draft model must first be fed the tokens of those steps.
    pub(super) fn resume_cost(&self) -> ResumeCost {
        if self.uses_draft_model() { ResumeCost::CatchUp } else { ResumeCost::Free }
    }

    /// The ranges of layers in which the draft model takes in the next tokens of the sequence, by a step of one of [`Self::feeds`].
    pub(super) fn feed_ranges(&self, shape: StepShape) -> Vec<StepPlan> {
        let (model, plans) = self.model();
        let plan = StepPlan::new(&model.model().weights, &plans.largest_feed.clone().with_shape(shape));
        model.ranges(plan, MOST_RANGE)
    }

    /// Records one of [`Self::feed_ranges`], of which the host writes the rows into slot `slot` of those steps.
    pub(super) fn record_feed(
        &self,
        range: &StepPlan,
        memory: &StepMemory,
        slot: u32,
        recording: &mut RecordingBuilder,
    ) -> Result<()> {
        let io = self.io(memory, DRAFT_MODEL_STATE_OFFSET, memory.draft_slot(slot));
        self.model().0.record_while_live(range, &io, memory.live(DRAFT_MODEL_STATE_OFFSET), recording)
    }

    /// What the plan of a step that takes the last token and all drafts is made for, where `options` is that of a step of one row.
    pub(super) fn verify(&self, options: PlanOptions) -> PlanOptions {
        let drafts = match &self.source {
            DraftSource::Lookup { ngrams, max_drafts } => {
                Drafts::Lookup(Lookup { ngrams: ngrams.clone(), drafts: *max_drafts })
            }
            DraftSource::Model { max_drafts, .. }
            | DraftSource::Mtp { max_drafts }
            | DraftSource::Replay { max_drafts, .. } => Drafts::Proposed(*max_drafts),
        };
        options.with_shape(self.shape()).with_drafts(drafts)
    }

    /// The address of the state whose own lane has moved over the drafts of a step, and positions by which that lane stands behind the last of them.
    pub(super) fn proposing_state(&self, memory: &StepMemory) -> (u64, u32) {
        match self.source {
            DraftSource::Model { .. } => (memory.state(DRAFTING_STATE_OFFSET), 0),
            DraftSource::Mtp { .. } => (memory.state(DRAFTING_STATE_OFFSET), 1),
            DraftSource::Lookup { .. } | DraftSource::Replay { .. } => (memory.state(DRAFT_MODEL_STATE_OFFSET), 0),
        }
    }

    /// The tokens that are known to follow the prompt.
    pub(super) fn replayed(&self) -> &[u32] {
        match &self.source {
            DraftSource::Replay { tokens, .. } => tokens,
            DraftSource::Lookup { .. } | DraftSource::Model { .. } | DraftSource::Mtp { .. } => &[],
        }
    }

    /// Records that a draft model makes drafts one after the other, before a step in ring slot `slot`. Records nothing where there is none.
    pub(super) fn record_drafts(&self, memory: &StepMemory, slot: u32, recording: &mut RecordingBuilder) -> Result<()> {
        if !self.uses_draft_model() {
            return Ok(());
        }
        let shaders = Access::SHADER_READ | Access::SHADER_WRITE;
        let (model, DraftPlans { decode, last, .. }) = self.model();
        recording.barrier(shaders, Access::TRANSFER_READ | Access::TRANSFER_WRITE);
        // All but the samplers, which are the sequence's alone.
        let bytes = offset_of!(Lane, samplers) as u64;
        recording.copy(
            &memory.sequences,
            memory.lane_offset(0),
            &memory.sequences,
            own_lane(DRAFTING_STATE_OFFSET),
            bytes,
        );
        recording.barrier(Access::TRANSFER_WRITE, shaders);
        let (io, live) = (self.io(memory, DRAFTING_STATE_OFFSET, slot), memory.live(DRAFTING_STATE_OFFSET));
        for _ in 0..self.max_drafts() {
            model.record_while_live(decode, &io, live, recording)?;
            recording.barrier(Access::SHADER_WRITE, shaders);
        }
        model.record_while_live(last, &io, live, recording)?;
        recording.barrier(Access::SHADER_WRITE, shaders);
        Ok(())
    }

    /// Records that the draft model's lane is set to that of the sequence after a `Speculate` step, as far as the last token goes. The rest of the
    /// lane stays as it is.
    pub(super) fn record_draft_state_copy(&self, memory: &StepMemory, recording: &mut RecordingBuilder) {
        /// Bytes of `token` and `position`, with which a lane begins.
        const HEAD_BYTES: usize = offset_of!(Lane, prompt_length);
        const {
            assert!(offset_of!(Lane, token) == 0 && offset_of!(Lane, position) == 4 && HEAD_BYTES == 8);
        }
        if self.uses_draft_model() {
            recording
                .barrier(Access::SHADER_READ | Access::SHADER_WRITE, Access::TRANSFER_READ | Access::TRANSFER_WRITE);
            let (from, to) = (memory.lane_offset(0), own_lane(DRAFT_MODEL_STATE_OFFSET));
            recording.copy(&memory.sequences, from, &memory.sequences, to, HEAD_BYTES as u64);
        }
    }

    /// Records that a block for multi-token prediction makes drafts one after the other, behind a step of `target` in ring slot `slot`. Records nothing where there is
    /// none.
    pub(super) fn record_mtp_drafts(
        &self,
        target: &DeviceModel,
        memory: &StepMemory,
        slot: u32,
        recording: &mut RecordingBuilder,
    ) -> Result<()> {
        let Some([first, next]) = &self.mtp_plans else { return Ok(()) };
        let is_replayed = matches!(self.source, DraftSource::Replay { .. });
        let tokens = is_replayed.then(|| memory.unused_drafts_address());
        let drafted = Some(Drafted { state: memory.state(STATE_OFFSET), tokens });
        let io = StepIo { drafted, ..self.io(memory, DRAFTING_STATE_OFFSET, slot) };
        for draft in 0..self.max_drafts() {
            recording.barrier(Access::SHADER_WRITE, Access::SHADER_READ | Access::SHADER_WRITE);
            let plan = if draft == 0 { first } else { next };
            target.record_while_live(plan, &io, memory.live(DRAFTING_STATE_OFFSET), recording)?;
        }
        Ok(())
    }

    fn model(&self) -> (&DeviceModel, &DraftPlans) {
        match (&self.source, &self.plans) {
            (DraftSource::Model { model, .. }, Some(plans)) => (model, plans),
            _ => panic!("there is no draft model"),
        }
    }

    /// Where what drafts finds its sequence; `state` is the offset of its state, and `wanted` the slot of its rows. Nobody reads its reports.
    fn io(&self, memory: &StepMemory, state: u64, wanted: u32) -> StepIo {
        StepIo {
            state: memory.state(state),
            wanted: memory.wanted_address(wanted),
            cancelled: memory.cancelled_address(),
            leader: memory.lane_address(0),
            reports: memory.scratch_report(),
            ..StepIo::default()
        }
    }
}

/// Where the own lane of the state at an offset lies.
fn own_lane(state: u64) -> u64 {
    state + offset_of!(StepState, lane) as u64
}
