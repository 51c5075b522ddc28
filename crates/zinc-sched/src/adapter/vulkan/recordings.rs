//! The recordings that steps consist of, made when a sequence first needs them and submitted for every token since.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use zinc_model::Result;
use zinc_model::device::{DeviceModel, StepIo};
use zinc_model::plan::{Array, Choosing, Plan, Sampler, Shape};
use zinc_vk::{Access, QueueKind, Recording, RecordingBuilder, Stage, Timestamps};

use super::chain::ChainMemory;
use super::draft::Drafter;
use super::memory::{END_TOKENS_OFFSET, STAMPS, STATE_OFFSET, SequenceMemory, TOKENS_OFFSET};
use super::{Queues, VulkanOptions};
use crate::model::Gate;

/// How the tokens of a sequence are chosen: what its recordings differ by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Way {
    pub(super) choosing: Choosing,
    pub(super) gate: Gate,
}

impl Way {
    /// Greedy, or by temperature alone.
    pub(super) const PLAIN: Self =
        Self { choosing: Choosing { sampler: Sampler::Plain, logprobs: false }, gate: Gate::Open };
}

/// What a recording does of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Part {
    /// Takes a prompt token through the layers.
    Feed,
    /// Takes the draft model's next token through its layers.
    FeedDraft,
    /// A whole step of one token.
    Decode(Way),
    /// Its forward pass alone.
    Forward(Way),
    /// Its sampling alone.
    Choose(Way),
    /// Drafts, and a step that takes the last token and the drafts.
    Speculate(Way),
}

/// What recordings are made of.
pub(super) struct Ingredients<'a> {
    pub(super) model: &'a DeviceModel,
    pub(super) options: &'a VulkanOptions,
    pub(super) memory: &'a SequenceMemory,
    pub(super) chain: &'a ChainMemory,
    pub(super) drafter: Option<&'a Drafter>,
    pub(super) timestamps: Option<&'a Arc<Timestamps>>,
}

/// Recordings by part and ring slot.
#[derive(Debug, Default)]
pub(super) struct Recordings {
    made: HashMap<(Part, u32), Arc<Recording>>,
}

impl Recordings {
    /// The recording of a part for a slot.
    ///
    /// # Panics
    /// If it was not made.
    pub(super) fn get(&self, part: Part, slot: u32) -> &Arc<Recording> {
        self.made.get(&(part, slot)).unwrap_or_else(|| panic!("{part:?} was not recorded for slot {slot}"))
    }

    /// Makes what is missing of the parts for each slot.
    pub(super) fn provide(&mut self, parts: &[Part], slots: u32, from: &Ingredients<'_>) -> Result<()> {
        for &part in parts {
            for slot in 0..slots {
                if let Entry::Vacant(place) = self.made.entry((part, slot)) {
                    place.insert(from.record(part, slot)?.finish()?);
                }
            }
        }
        Ok(())
    }

    /// Forgets those that use the sampler chain's tables, because these have moved.
    pub(super) fn forget_chain(&mut self) {
        self.made.retain(|(part, _), _| match part {
            Part::Feed | Part::FeedDraft => true,
            Part::Decode(way) | Part::Forward(way) | Part::Choose(way) | Part::Speculate(way) => {
                !matches!(way.choosing.sampler, Sampler::Chain { .. })
            }
        });
    }
}

impl Ingredients<'_> {
    /// The plan of one token.
    pub(super) fn plan(&self, shape: Shape, choosing: Choosing) -> Plan {
        Plan::new(&self.model.model().weights, shape, self.options.act).with_choosing(choosing)
    }

    /// Where a step that reports into ring slot `slot` finds its sequence.
    pub(super) fn io(&self, slot: u32, way: Way) -> StepIo {
        let memory = self.memory;
        let input = memory.input_address(slot);
        StepIo {
            state: memory.state(STATE_OFFSET),
            report: memory.report_address(slot),
            tokens: memory.state(TOKENS_OFFSET),
            end_tokens: memory.state(END_TOKENS_OFFSET),
            cancelled: memory.cancelled.address(),
            chain: self.chain.io(),
            step_input: if way.gate == Gate::Guide { input } else { 0 },
            choice: input,
            logprobs: memory.logprobs_address(slot),
        }
    }

    /// Starts a recording that keeps what [`Self::io`] names.
    pub(super) fn start(&self, kind: QueueKind, name: &str) -> Result<RecordingBuilder> {
        let mut recording = RecordingBuilder::new(self.model.device(), kind, name)?;
        for buffer in self.memory.buffers().chain(self.chain.buffer()) {
            recording.keep(buffer.clone());
        }
        Ok(recording)
    }

    /// Records a part of a step that reports into ring slot `slot`.
    pub(super) fn record(&self, part: Part, slot: u32) -> Result<RecordingBuilder> {
        let second = self.options.queues == Queues::Two && matches!(part, Part::Choose(_));
        let kind = if second { QueueKind::SecondCompute } else { QueueKind::Compute };
        let mut recording = self.start(kind, &format!("{part:?} {slot}"))?;
        let r = &mut recording;
        match part {
            Part::Feed => {
                self.begin_stamps(r, slot, 0);
                self.model.record(&self.plan(Shape::Feed, Way::PLAIN.choosing), &self.io(slot, Way::PLAIN), r)?;
                self.end_stamps(r, slot, 1);
                self.copy_stamps(r, slot, 0..2);
            }
            Part::FeedDraft => self.drafter().record_feed(self.memory, r)?,
            Part::Decode(way) => {
                self.begin_stamps(r, slot, 0);
                self.model.record(&self.plan(Shape::Decode, way.choosing), &self.io(slot, way), r)?;
                self.end_stamps(r, slot, 1);
                self.copy_stamps(r, slot, 0..2);
            }
            Part::Forward(way) => {
                self.begin_stamps(r, slot, 0);
                let (forward, _) = self.plan(Shape::Decode, way.choosing).split();
                self.model.record(&forward, &self.io(slot, way), r)?;
                if way.gate == Gate::Token {
                    let (logits, offset, bytes) = self.model.activation(Array::Logits);
                    let (buffer, at) = self.memory.logits(slot);
                    r.barrier(Access::SHADER_WRITE, Access::TRANSFER_READ);
                    r.copy(logits, offset, buffer, at, bytes);
                }
                self.end_stamps(r, slot, 1);
                self.copy_stamps(r, slot, 0..2);
            }
            Part::Choose(way) => {
                if way.gate != Gate::Open {
                    // What the host wrote after the submit.
                    r.barrier(Access::HOST_WRITE, Access::SHADER_READ);
                }
                self.begin_stamps(r, slot, 2);
                let (_, sampling) = self.plan(Shape::Decode, way.choosing).split();
                self.model.record(&sampling, &self.io(slot, way), r)?;
                self.end_stamps(r, slot, 3);
                self.copy_stamps(r, slot, 2..4);
            }
            Part::Speculate(way) => {
                self.begin_stamps(r, slot, 0);
                let drafter = self.drafter();
                drafter.record_drafts(self.memory, r)?;
                let plan = drafter.verify(self.plan(Shape::Decode, way.choosing));
                self.model.record(&plan, &self.io(slot, way), r)?;
                drafter.record_following(self.memory, r);
                self.end_stamps(r, slot, 1);
                self.copy_stamps(r, slot, 0..2);
            }
        }
        Ok(recording)
    }

    fn drafter(&self) -> &Drafter {
        self.drafter.expect("a sequence is drafted only where there is something to draft with")
    }

    /// Resets the two timestamps of a part and writes the first.
    fn begin_stamps(&self, recording: &mut RecordingBuilder, slot: u32, first: u32) {
        if let Some(timestamps) = self.timestamps {
            let index = STAMPS * slot + first;
            recording.reset_timestamps(timestamps, index..index + 2);
            recording.timestamp(timestamps, index, Stage::Begin);
        }
    }

    fn end_stamps(&self, recording: &mut RecordingBuilder, slot: u32, last: u32) {
        if let Some(timestamps) = self.timestamps {
            recording.timestamp(timestamps, STAMPS * slot + last, Stage::End);
        }
    }

    fn copy_stamps(&self, recording: &mut RecordingBuilder, slot: u32, range: std::ops::Range<u32>) {
        if let Some(timestamps) = self.timestamps {
            let at = self.memory.stamps_offset(slot) + 8 * u64::from(range.start);
            let range = STAMPS * slot + range.start..STAMPS * slot + range.end;
            recording.copy_timestamps(timestamps, range, &self.memory.reports, at);
        }
    }
}
