//! How a sequence is opened: what the device is told of it, and the recordings that its steps will need.

use zinc_kernels::step::StepShape;
use zinc_model::Result;
use zinc_model::plan::{Sampler, SamplingStage};
use zinc_vk::host_now_ns;

use super::super::lanes::device_number;
use super::super::sequence::{LaneAddresses, draft_model_lane, end_tokens, initial_lane};
use super::draft::Drafter;
use super::feeding::BegunStep;
use super::recordings::{SamplingMode, StepPart};
use super::{OpenSequence, Sync, VulkanModel};
use crate::model::{Gate, PagePool, SequenceId, SequenceStart};
use crate::plan::{CheckpointPlan, Feeding, prompt_step};

impl VulkanModel {
    /// Makes the device ready for the first step of a sequence, as [`StepModel::open`](crate::StepModel::open) says.
    pub(super) fn open_sequence(&mut self, start: &SequenceStart<'_>) -> Result<SequenceId> {
        if let Some(stamps) = self.stamps.as_mut().filter(|_| self.in_flight.is_empty()) {
            stamps.calibrate(self.model.device())?;
        }
        let (number, mode) = (start.lane, Self::sampling_mode(start));
        // A sequence may end before the device has opened it. Waiting for that is out of the question here, since it may be behind steps whose gates the caller is
        // still to open. The new sequence gets other memory to be copied from.
        let opened = self.opened.get(number as usize).and_then(Option::as_ref);
        let copies_are_ahead = opened.map_or(Ok(false), |point| point.is_complete().map(|is_complete| !is_complete))?;
        if copies_are_ahead {
            let device = self.device().clone();
            self.memory.replace_image(&device, number)?;
            self.chain.replace_image(number)?;
        }
        self.check_pages(start);
        let sequence =
            self.lanes.open(number, OpenSequence { mode, speculative: start.speculative, logprobs: start.logprobs });
        let samplers = match mode.sampling.sampler {
            Sampler::Chain { .. } => self.chain.write(number, start.sampling, start.tokens)?,
            Sampler::Plain | Sampler::Host => self.memory.no_samplers_address(),
        };
        if mode.gate == Gate::Token {
            let device = self.device().clone();
            self.memory.provide_logits(&device)?;
        }
        for part in self.parts() {
            for slot in 0..self.memory.slots() {
                self.provide(part, slot)?;
            }
        }

        let addresses = LaneAddresses {
            tokens: self.memory.tokens_address(number),
            end_tokens: self.memory.end_tokens_address(number),
            samplers,
        };
        let lane = initial_lane(start, device_number(sequence), self.limits.context_tokens, addresses);
        let room = self.limits.context_tokens as usize - start.tokens.len();
        let replayed = self.drafter.as_ref().map_or(&[][..], Drafter::replayed);
        let replayed = &replayed[..replayed.len().min(room)];
        if self.drafter.as_ref().is_some_and(Drafter::has_own_lane) {
            self.draft_kv_tokens = self.draft_kv_tokens.min(start.cached);
            let mut draft = draft_model_lane(&lane, self.draft_kv_tokens, start.tokens);
            if !replayed.is_empty() {
                // Drafts are taken up to where a draft model would stand.
                draft.position = (start.tokens.len() + replayed.len()) as u32 - 1;
            }
            self.memory.image(number).write_draft_lane(&draft);
        }
        self.memory.image(number).write(&lane, start.pages, end_tokens(start), start.tokens, replayed);
        let before_ns = host_now_ns();
        let opening = self.memory.image(number).copy().clone();
        match self.options.sync {
            // The image is written again for the next sequence of the lane, whose steps are behind this copy.
            Sync::Timeline => {
                let point = self.queue().submit(&opening, self.last_on_second_queue.as_slice())?;
                self.opened[number as usize] = Some(point);
            }
            Sync::FenceKept | Sync::Fence => self.queue().submit_and_wait_fence(&opening)?,
        }
        self.waited_ns += host_now_ns() - before_ns;
        self.restore_state(start)?;
        self.draft_backlog = 0;
        if self.uses_draft_model() {
            self.feed_draft(start.cached - self.draft_kv_tokens)?;
            self.draft_kv_tokens = start.cached;
        }
        self.provide_feeds(start, mode)?;
        Ok(sequence)
    }

    /// Panics if a sequence has no pages for its prompt, or others than there are.
    fn check_pages(&self, start: &SequenceStart<'_>) {
        let (pages, tokens) = (start.pages, start.tokens.len());
        let Some(PagePool { pages: count, positions }) = self.limits.pages else {
            assert!(pages.is_empty(), "{} pages of a cache that has none", pages.len());
            return;
        };
        let (least, most) = (tokens.div_ceil(positions as usize), self.model.cache().lane_pages());
        assert!(
            (least..=most as usize).contains(&pages.len()) && pages.iter().all(|page| *page < count),
            "{tokens} tokens in the pages {pages:?}: {least} to {most} of {count} are supported"
        );
    }

    /// The parts that steps of all open sequences consist of, except those that feed prompts.
    fn parts(&self) -> Vec<StepPart> {
        let (mut parts, mode) = (Vec::new(), self.mode_of_open());
        let shape = self.shape_of_open();
        if self.is_split(mode) {
            parts.extend([StepPart::Forward(shape, mode), StepPart::Sample(shape, mode)]);
        } else {
            parts.push(StepPart::Decode(shape, mode));
        }
        // Drafts are made for a sequence that is open alone.
        if self.speculates() && shape == StepShape::ONE {
            parts.push(StepPart::Speculate(mode));
            if self.uses_draft_model() {
                parts.push(StepPart::FeedDraft(StepShape::ONE));
            }
        }
        parts
    }

    /// Makes the recordings of the steps that feed the prompt of a sequence: those alone, since most prompts need few of their shapes.
    fn provide_feeds(&mut self, start: &SequenceStart<'_>, mode: SamplingMode) -> Result<()> {
        // The prompt is checked against the context, whose size is a u32.
        let (tokens, mut position) = (start.tokens.len() as u32, start.cached);
        let most = self.options.feed_shapes.of_prompt((tokens - position).saturating_sub(1)).rows();
        let checkpoints = CheckpointPlan::new(self.limits.checkpoints, tokens, tokens, position);
        let (slots, mut draft_slot) = (self.limits.ring_slots, self.next_draft_feed);
        // Steps take the slots in the order in which they become free.
        let taken = self.in_flight.iter().map(|step| step.slot).chain(self.begun.iter().map(BegunStep::slot));
        let coming: Vec<u32> = self.free_slots.iter().copied().chain(taken).collect();
        let mut coming = coming.into_iter().cycle();
        loop {
            let until_checkpoint = checkpoints.next_stop(position).map_or(u32::MAX, |next| next - position);
            let feeding = Feeding { rows: most.min(until_checkpoint), last_token: start.last_token };
            let Some((kind, rows)) = prompt_step(tokens - position, feeding) else { break };
            position += rows;
            if let Some(slot) = coming.next() {
                let (layers, end) = self.feed_parts(rows, u32::from(kind.samples()), mode);
                self.provide(layers, slot)?;
                self.provide(end, slot)?;
            }
            let drafter = self.drafter.as_ref().filter(|_| self.uses_draft_model());
            for (_, shape) in drafter.map_or(Vec::new(), |drafter| drafter.feeds(rows)) {
                self.provide(StepPart::FeedDraft(shape), draft_slot)?;
                draft_slot = (draft_slot + 1) % slots;
            }
        }
        Ok(())
    }

    /// How the tokens of a sequence are to be chosen.
    fn sampling_mode(start: &SequenceStart<'_>) -> SamplingMode {
        let sampler = match start.gate {
            Gate::Token => Sampler::Host,
            Gate::Open if start.sampling.is_plain() => Sampler::Plain,
            Gate::Open | Gate::Guide => Sampler::Chain { dry: start.sampling.has_dry() },
        };
        SamplingMode { sampling: SamplingStage { sampler, logprobs: start.logprobs.is_some() }, gate: start.gate }
    }
}
