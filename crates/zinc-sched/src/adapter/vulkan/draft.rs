//! What drafts: a look-up in the sequence's own tokens, or a smaller model that runs on the same device.
//!
//! A draft model shares the array of tokens with the model that it drafts for, and writes its drafts there. It has two states of its own:
//! one for following, which takes every token of the sequence through its layers once, and one for drafting, which begins where the
//! sequence is. A round leaves the draft model with keys and values for all that was accepted, so following costs nothing as long as every
//! step is a round; plain steps leave it behind.

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
    /// From what followed the last tokens where they occurred before.
    Lookup {
        /// How many of the last tokens must agree: the longest match wins, then the latest.
        ngrams: RangeInclusive<u32>,
        /// The most drafts of a step, 1 to 7.
        max_drafts: u32,
    },
    /// From a model with the same vocabulary.
    Model {
        /// It, on the same device, with at least as much context.
        model: Arc<DeviceModel>,
        /// The drafts of a step, 1 to 7.
        max_drafts: u32,
    },
}

/// What drafts for one model.
#[derive(Debug)]
pub(super) struct Drafter {
    source: DraftSource,
    /// Of the draft model: a fed token, a drafted one, and a last one whose successor nobody wants.
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

    /// Whether every token has to go through a draft model, too.
    pub(super) fn uses_draft_model(&self) -> bool {
        matches!(self.source, DraftSource::Model { .. })
    }

    /// What it costs to draft again after steps without drafts: a draft model must first be fed the tokens of those steps.
    pub(super) fn resume_cost(&self) -> ResumeCost {
        if self.uses_draft_model() { ResumeCost::CatchUp } else { ResumeCost::Free }
    }

    /// The draft model's next token goes through its layers.
    pub(super) fn record_feed(&self, memory: &SequenceMemory, recording: &mut RecordingBuilder) -> Result<()> {
        let (model, [feed, ..]) = self.model();
        model.record_while_live(feed, &self.io(memory, DRAFT_MODEL_STATE_OFFSET), memory.live(), recording)
    }

    /// The plan of a step that takes the last token and the drafts, made of that of a step of one token.
    pub(super) fn verify(&self, plan: StepPlan) -> StepPlan {
        let plan = plan.with_batch(self.max_drafts() + 1);
        match &self.source {
            DraftSource::Lookup { ngrams, .. } => plan.with_lookup(ngrams.clone()),
            DraftSource::Model { .. } => plan,
        }
    }

    /// A draft model's drafts, one after the other, and how many tokens the step has with them.
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

    /// A draft model is where the sequence is, once the step is over.
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
            _ => panic!("only a model follows a sequence"),
        }
    }

    /// The draft model's view of the sequence. Nobody reads what it reports.
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
