//! What drafts: a look-up in the sequence's own tokens, or a smaller model that runs on the same device.
//!
//! A draft model shares the array of tokens with the model that it drafts for, and writes its drafts there. It has two states of its own:
//! one for following, which takes every token of the sequence through its layers once, and one for drafting, which begins where the
//! sequence is. A round leaves the draft model with keys and values for all that was accepted, so following costs nothing as long as every
//! step is a round; plain steps leave it behind.

use std::sync::Arc;

use zinc_kernels::ops;
use zinc_model::Result;
use zinc_model::device::{ChainIo, DeviceModel, StepIo};
use zinc_model::plan::{Choosing, Plan, Sampler, Shape};
use zinc_vk::{Access, RecordingBuilder};

use super::memory::{DRAFT_OFFSET, END_TOKENS_OFFSET, FOLLOW_OFFSET, STATE_OFFSET, SequenceMemory, TOKENS_OFFSET};

/// Where drafts come from.
#[derive(Clone, Debug)]
pub enum Drafts {
    /// From what followed the last tokens where they occurred before.
    Lookup {
        /// The fewest tokens that must agree.
        min_ngram: u32,
        /// The most tokens that are compared.
        max_ngram: u32,
        /// The most drafts of a step, 1 to 7.
        drafts: u32,
    },
    /// From a model with the same vocabulary.
    Model {
        /// It, on the same device, with at least as much context.
        model: Arc<DeviceModel>,
        /// The drafts of a step, 1 to 7.
        drafts: u32,
    },
}

/// What drafts for one model.
#[derive(Debug)]
pub(super) struct Drafter {
    target: Arc<DeviceModel>,
    drafts: Drafts,
    /// Of the draft model: a fed token, a drafted one, and a last one whose successor nobody wants.
    plans: Option<[Plan; 3]>,
}

impl Drafter {
    pub(super) fn new(target: &Arc<DeviceModel>, drafts: Drafts, act: ops::ActFormat) -> Self {
        let plans = match &drafts {
            Drafts::Lookup { .. } => None,
            Drafts::Model { model, .. } => {
                let weights = &model.model().weights;
                let choosing = Choosing { sampler: Sampler::Plain, logprobs: false };
                let plan = |shape| Plan::choosing(weights, shape, act, choosing);
                Some([plan(Shape::Feed), plan(Shape::Decode), plan(Shape::Feed).split().0])
            }
        };
        Self { target: target.clone(), drafts, plans }
    }

    /// The most drafts of a step.
    pub(super) fn drafts(&self) -> u32 {
        match self.drafts {
            Drafts::Lookup { drafts, .. } | Drafts::Model { drafts, .. } => drafts,
        }
    }

    /// Whether every token has to go through a draft model, too.
    pub(super) fn follows(&self) -> bool {
        matches!(self.drafts, Drafts::Model { .. })
    }

    /// The draft model's next token goes through its layers.
    pub(super) fn record_feed(&self, memory: &SequenceMemory, recording: &mut RecordingBuilder) -> Result<()> {
        let (model, [feed, ..]) = self.model();
        model.record(feed, &self.io(memory, FOLLOW_OFFSET), recording)
    }

    /// Drafts, and says how many tokens the step has.
    pub(super) fn record_drafts(&self, memory: &SequenceMemory, recording: &mut RecordingBuilder) -> Result<()> {
        let state = memory.state(STATE_OFFSET);
        let tokens = memory.state(TOKENS_OFFSET);
        let shaders = Access::SHADER_READ | Access::SHADER_WRITE;
        match &self.drafts {
            Drafts::Lookup { min_ngram, max_ngram, drafts } => {
                let lookup =
                    ops::Lookup { state, tokens, min_ngram: *min_ngram, max_ngram: *max_ngram, drafts: *drafts };
                self.target.record_dispatch(|target| lookup.dispatch(target), recording)?;
            }
            Drafts::Model { drafts, .. } => {
                let (model, [_, decode, last]) = self.model();
                recording.barrier(shaders, Access::TRANSFER_READ | Access::TRANSFER_WRITE);
                let bytes = size_of::<zinc_kernels::generated::state::StepState>() as u64;
                recording.copy(&memory.sequence, STATE_OFFSET, &memory.sequence, DRAFT_OFFSET, bytes);
                recording.barrier(Access::TRANSFER_WRITE, shaders);
                let io = self.io(memory, DRAFT_OFFSET);
                for _ in 0..*drafts {
                    model.record(decode, &io, recording)?;
                    recording.barrier(Access::SHADER_WRITE, shaders);
                }
                model.record(last, &io, recording)?;
                let propose = ops::Propose { state, draft_state: memory.state(DRAFT_OFFSET), drafts: *drafts };
                self.target.record_dispatch(|target| propose.dispatch(target), recording)?;
            }
        }
        recording.barrier(Access::SHADER_WRITE, shaders);
        Ok(())
    }

    /// A draft model is where the sequence is, once the step is over.
    pub(super) fn record_following(&self, memory: &SequenceMemory, recording: &mut RecordingBuilder) {
        /// `live`, `token` and `position`: the rest of the state is the follower's own.
        const BYTES: u64 = 12;
        if self.follows() {
            recording
                .barrier(Access::SHADER_READ | Access::SHADER_WRITE, Access::TRANSFER_READ | Access::TRANSFER_WRITE);
            recording.copy(&memory.sequence, STATE_OFFSET, &memory.sequence, FOLLOW_OFFSET, BYTES);
        }
    }

    fn model(&self) -> (&DeviceModel, &[Plan; 3]) {
        match (&self.drafts, &self.plans) {
            (Drafts::Model { model, .. }, Some(plans)) => (model, plans),
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
