//! Where drafts come from: a look-up in the sequence's own tokens, or a smaller draft model that runs on the same device.
//!
//! A draft model shares the array of tokens with the model that it drafts for, and writes its drafts there. It has two states of its own.
//! With the first it takes in every token of the sequence once. The second is for drafting, and is set to the state of the sequence when a
//! `Speculate` step begins. Such a step leaves the draft model with keys and values for all accepted tokens. After plain steps the draft
//! model must be fed their tokens before it can draft again.

use std::mem::offset_of;
use std::ops::RangeInclusive;
use std::sync::Arc;

use zinc_kernels::generated::state::StepState;
use zinc_kernels::ops::ActFormat;
use zinc_model::Result;
use zinc_model::device::{ChainIo, DeviceModel, StepIo};
use zinc_model::plan::{PlanKind, StepPlan};
use zinc_vk::{Access, RecordingBuilder};

use super::memory::{
    DRAFT_MODEL_STATE_OFFSET, DRAFTING_STATE_OFFSET, END_TOKENS_OFFSET, STATE_OFFSET, SequenceMemory, TOKENS_OFFSET,
};
use crate::speculation::ResumeCost;

/// Where drafts come from.
#[derive(Clone, Debug)]
pub enum DraftSource {
    /// The last tokens of the sequence are looked up in what came before, and the tokens that followed there are the drafts.
    Lookup {
        /// How many of the last tokens must agree. The longest match wins, and of equally long ones the latest.
        ngrams: RangeInclusive<u32>,
        /// The most drafts of a step, 1 to 7.
        max_drafts: u32,
    },
    /// A draft model with the same vocabulary.
    Model {
        /// The draft model, loaded on the same device with at least as much context.
        model: Arc<DeviceModel>,
        /// The drafts of a step, 1 to 7.
        max_drafts: u32,
    },
}

/// Records the drafting and verifying of one model.
#[derive(Debug)]
pub(super) struct Drafter {
    source: DraftSource,
    /// The draft model's plans: one that takes in a token, one that also samples a draft, and one that takes in the last draft.
    plans: Option<[StepPlan; 3]>,
}

impl Drafter {
    /// # Panics
    /// If `target` has no room for the drafts beside its last token, or a draft model does not fit it.
    pub(super) fn new(target: &DeviceModel, source: DraftSource, act: ActFormat) -> Self {
        let plans = match &source {
            DraftSource::Lookup { .. } => None,
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
                let plan = |kind| StepPlan::new(&model.model().weights, kind, act);
                Some([plan(PlanKind::Feed), plan(PlanKind::Decode), plan(PlanKind::Feed).split().0])
            }
        };
        let this = Self { source, plans };
        let batch = this.max_drafts() + 1;
        assert!(batch <= target.batch(), "steps of {batch} tokens of a model that was loaded for {}", target.batch());
        this
    }

    /// The most drafts of a step.
    pub(super) fn max_drafts(&self) -> u32 {
        match self.source {
            DraftSource::Lookup { max_drafts, .. } | DraftSource::Model { max_drafts, .. } => max_drafts,
        }
    }

    /// Whether there is a draft model, which has to take in every token of the sequence.
    pub(super) fn uses_draft_model(&self) -> bool {
        matches!(self.source, DraftSource::Model { .. })
    }

    /// What it costs to draft again after steps without drafts: a draft model must first be fed the tokens of those steps.
    pub(super) fn resume_cost(&self) -> ResumeCost {
        if self.uses_draft_model() { ResumeCost::CatchUp } else { ResumeCost::Free }
    }

    /// Records that the draft model takes in the next token of the sequence.
    pub(super) fn record_feed(&self, memory: &SequenceMemory, recording: &mut RecordingBuilder) -> Result<()> {
        let (model, [feed, ..]) = self.model();
        model.record_while_live(feed, &self.io(memory, DRAFT_MODEL_STATE_OFFSET), memory.live(), recording)
    }

    /// The plan of a step that takes the last token and all drafts, made of `plan`, that of a step of one token.
    pub(super) fn verify(&self, plan: StepPlan) -> StepPlan {
        let plan = plan.with_batch(self.max_drafts() + 1);
        match &self.source {
            DraftSource::Lookup { ngrams, .. } => plan.with_lookup(ngrams.clone()),
            DraftSource::Model { .. } => plan,
        }
    }

    /// Records that a draft model makes drafts one after the other, and that the number of the step's tokens is set accordingly. Records
    /// nothing where drafts are looked up.
    pub(super) fn record_drafts(&self, memory: &SequenceMemory, recording: &mut RecordingBuilder) -> Result<()> {
        if !self.uses_draft_model() {
            return Ok(());
        }
        let shaders = Access::SHADER_READ | Access::SHADER_WRITE;
        let (model, [_, decode, last]) = self.model();
        recording.barrier(shaders, Access::TRANSFER_READ | Access::TRANSFER_WRITE);
        let bytes = size_of::<StepState>() as u64;
        recording.copy(&memory.sequence, STATE_OFFSET, &memory.sequence, DRAFTING_STATE_OFFSET, bytes);
        recording.barrier(Access::TRANSFER_WRITE, shaders);
        let io = self.io(memory, DRAFTING_STATE_OFFSET);
        for _ in 0..self.max_drafts() {
            model.record_while_live(decode, &io, memory.live(), recording)?;
            recording.barrier(Access::SHADER_WRITE, shaders);
        }
        model.record_while_live(last, &io, memory.live(), recording)?;
        model.record_proposal(&io, memory.state(STATE_OFFSET), self.max_drafts(), recording)?;
        recording.barrier(Access::SHADER_WRITE, shaders | Access::CONDITION_READ);
        Ok(())
    }

    /// Records that the draft model's state is set to that of the sequence after a `Speculate` step.
    pub(super) fn record_draft_state_copy(&self, memory: &SequenceMemory, recording: &mut RecordingBuilder) {
        /// Bytes of `live`, `token` and `position`, with which the state begins. The rest of the draft model's state stays as it is.
        const BYTES: usize = offset_of!(StepState, prompt_length);
        const {
            let [live, token, position] =
                [offset_of!(StepState, live), offset_of!(StepState, token), offset_of!(StepState, position)];
            assert!(live == 0 && token == 4 && position == 8 && BYTES == 12);
        }
        if self.uses_draft_model() {
            recording
                .barrier(Access::SHADER_READ | Access::SHADER_WRITE, Access::TRANSFER_READ | Access::TRANSFER_WRITE);
            recording.copy(&memory.sequence, STATE_OFFSET, &memory.sequence, DRAFT_MODEL_STATE_OFFSET, BYTES as u64);
        }
    }

    fn model(&self) -> (&DeviceModel, &[StepPlan; 3]) {
        match (&self.source, &self.plans) {
            (DraftSource::Model { model, .. }, Some(plans)) => (model, plans),
            _ => panic!("drafts are looked up: there is no draft model"),
        }
    }

    /// The arrays that the draft model works on; `state` is the offset of its state. Nobody reads its reports.
    fn io(&self, memory: &SequenceMemory, state: u64) -> StepIo {
        StepIo {
            state: memory.state(state),
            report: memory.scratch_report_address(),
            tokens: memory.state(TOKENS_OFFSET),
            end_tokens: memory.state(END_TOKENS_OFFSET),
            cancelled: memory.cancelled.address(),
            chain: ChainIo::default(),
            step_input: 0,
            choice: 0,
            logprobs: 0,
        }
    }
}
