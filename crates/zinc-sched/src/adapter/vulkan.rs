//! A model on a Vulkan device as a [`StepModel`]: recordings for each ring slot, made once and submitted for every token; or the
//! baseline, which writes every step's commands into its command buffer anew and waits for a fence.

mod chain;
mod draft;
mod memory;
mod options;
mod profile;
mod recordings;
mod score;
mod stamps;
mod submit;

pub use draft::DraftSource;
pub use options::{Queues, Sync, VulkanOptions};
pub use profile::OpTimes;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use zinc_kernels::generated::lane::STATUS_SAMPLED;
use zinc_kernels::step::{StepShape, StepState};
use zinc_model::device::DeviceModel;
use zinc_model::plan::{Array, Sampler, SamplingStage, StepPlan};
use zinc_model::{Error, Result};
use zinc_vk::{
    Buffer, Device, HostTimeline, Placement, Queue, QueueKind, Recording, RecordingBuilder, RecordingStats,
    TimelinePoint, WaitPolicy, host_now_ns,
};

use super::lane_output;
use super::only_lane::{OnlyLane, device_number};
use super::sampling::log_probabilities;
use super::sequence::{draft_model_state, end_tokens, initial_state};
use crate::control::Guide;
use crate::model::{
    Gate, HostChoice, LastToken, ModelCounters, ModelLimits, SequenceId, SequenceStart, SpeculativeDecoding, Step,
    StepModel, Ticket,
};
use crate::plan::{Feeding, prompt_step};
use crate::request::Tracing;
use crate::speculation::ResumeCost;
use crate::step::{LaneOutput, StepKind, StepOutput, StepTiming};
use chain::{ChainMemory, Tables};
use draft::Drafter;
use memory::{DRAFT_MODEL_STATE_OFFSET, END_TOKENS_OFFSET, STATE_OFFSET, SequenceMemory, TOKENS_OFFSET};
use recordings::{Recordings, SamplingMode, StepPart, StepRecorder};
use stamps::Stamps;

/// How often a wait for a step asks whether to stop: a fraction of a large model's step, and much longer than asking takes.
const STOP_LATENCY: Duration = Duration::from_micros(500);

/// A model on a device.
#[derive(Debug)]
pub struct VulkanModel {
    model: Arc<DeviceModel>,
    options: VulkanOptions,
    limits: ModelLimits,
    memory: SequenceMemory,
    chain: ChainMemory,
    drafter: Option<Drafter>,
    stamps: Option<Stamps>,
    opening: Arc<Recording>,
    recordings: Recordings,
    /// The timeline whose values open the gates of steps, one value for each gate.
    gates: HostTimeline,
    /// The value of `gates` that the last submitted step with a gate waits for.
    last_gate: u64,
    /// The highest value of `gates` that was signalled: up to it gates are open.
    opened_gate: u64,
    /// How the running sequence chooses its tokens.
    mode: SamplingMode,
    /// Whether the running sequence may speculate.
    speculative: SpeculativeDecoding,
    /// How many leading tokens of the sequence the draft model has keys and values of.
    draft_kv_tokens: u32,
    /// Tokens that the draft model must be fed before it can draft again: one for each plain step since it last drafted.
    draft_backlog: u32,
    /// How many of the likeliest tokens are reported with each token.
    top_logprobs: u32,
    /// The timeline point of the last submission to the second queue.
    last_on_second_queue: Option<TimelinePoint>,
    /// Whether the draft model's state lists the tokens behind the one that it takes next, as it does while the prompt goes on.
    draft_rows_listed: bool,
    /// The timeline point of the last submission that feeds the draft model, by ring slot, and the slot of the next one.
    draft_feeds: Vec<Option<TimelinePoint>>,
    next_draft_feed: u32,
    lane: OnlyLane,
    next_ticket: u64,
    /// Which of its step's rows the last token was sampled after, from 0; more than 0 only if drafts were accepted.
    last_row_of_step: u32,
    in_flight: VecDeque<SubmittedStep>,
    waited_ns: u64,
    logits: Vec<f32>,
}

/// A step that was submitted and not yet waited for.
#[derive(Debug)]
struct SubmittedStep {
    ticket: Ticket,
    kind: StepKind,
    rows: u32,
    slot: u32,
    /// The point at which its logits are computed, if it was submitted in two parts on their account.
    forward: Option<TimelinePoint>,
    /// The point at which the whole step is done. `None` with fences, where submitting waits, or sampling is still to be submitted.
    done: Option<TimelinePoint>,
    /// The value of `gates` that it waits for before it samples.
    gate: Option<u64>,
    /// Whether its sampling is still to be submitted, as with fences and a closed gate.
    sampling_owed: bool,
    submitted_at_ns: u64,
    submit_done_ns: u64,
}

impl VulkanModel {
    /// Makes the buffers that sequences need. Several may be made of one [`DeviceModel`], to drive it in several ways: they share its
    /// cache, and only one of them may have steps in flight.
    ///
    /// # Errors
    /// Whatever error the device reports.
    ///
    /// # Panics
    /// If the model was not loaded for as many rows as steps that feed have, or as drafts and the last token are, or a draft model has less context
    /// or another vocabulary.
    pub fn new(model: impl Into<Arc<DeviceModel>>, mut options: VulkanOptions) -> Result<Self> {
        let model = model.into();
        let device = model.device().clone();
        let (context, vocabulary) = (model.cache().context, model.model().config.n_vocab);
        let slots = match options.sync {
            Sync::Timeline => options.depth.get(),
            Sync::FenceKept | Sync::Fence => 1,
        };
        if device.second_compute_queue().is_none() || options.sync != Sync::Timeline {
            options.queues = Queues::One;
        }
        let (feed_rows, most) = (options.feed_shape.rows(), model.counts().rows);
        assert!(feed_rows <= most, "prompts fed by {feed_rows} rows to a model that was loaded for {most}");
        let memory = SequenceMemory::new(&model, slots)?;
        let drafter = options.draft_source.clone().map(|source| Drafter::new(&model, source, options.act));
        Ok(Self {
            limits: ModelLimits {
                context_tokens: context,
                vocabulary_tokens: vocabulary,
                ring_slots: slots,
                lanes: 1,
                feed_rows,
                last_token: match options.queues {
                    Queues::One => LastToken::Fed,
                    // Sampling is a submission of its own.
                    Queues::Two => LastToken::Alone,
                },
                max_drafts: drafter.as_ref().map_or(0, Drafter::max_drafts),
                resume_cost: drafter.as_ref().map_or(ResumeCost::Free, Drafter::resume_cost),
            },
            stamps: match options.stamps {
                Tracing::Off => None,
                Tracing::On => Some(Stamps::new(&device, slots)?),
            },
            opening: memory.record_opening(&device)?,
            recordings: Recordings::default(),
            gates: HostTimeline::new(&device, "gates")?,
            last_gate: 0,
            opened_gate: 0,
            mode: SamplingMode::PLAIN,
            speculative: SpeculativeDecoding::Off,
            draft_kv_tokens: 0,
            draft_backlog: 0,
            top_logprobs: 0,
            last_on_second_queue: None,
            draft_rows_listed: false,
            draft_feeds: vec![None; slots as usize],
            next_draft_feed: 0,
            lane: OnlyLane::default(),
            next_ticket: 0,
            last_row_of_step: 0,
            in_flight: VecDeque::new(),
            waited_ns: 0,
            logits: Vec::new(),
            chain: ChainMemory::new(&device, vocabulary, context),
            memory,
            drafter,
            model,
            options,
        })
    }

    /// The device.
    #[must_use]
    pub fn device(&self) -> &Arc<Device> {
        self.model.device()
    }

    /// The loaded model.
    #[must_use]
    pub fn model(&self) -> &Arc<DeviceModel> {
        &self.model
    }

    /// How it is driven.
    #[must_use]
    pub fn options(&self) -> &VulkanOptions {
        &self.options
    }

    /// The operations of a step in the running sequence: of one that feeds with all its rows, without what samples after the last one, or of one that
    /// samples after one row.
    #[must_use]
    pub fn plan(&self, kind: StepKind) -> StepPlan {
        match kind {
            StepKind::Feed | StepKind::FeedDecode => self.recorder().feed_plan(self.options.feed_shape),
            StepKind::Decode | StepKind::Speculate => self.recorder().decode_plan(self.mode.sampling, StepShape::ONE),
        }
    }

    /// Counts what the recordings of such a step as [`VulkanModel::plan`] gives consist of. The step is recorded once more for it.
    ///
    /// # Errors
    /// Whatever error the device reports.
    pub fn step_stats(&self, kind: StepKind) -> Result<RecordingStats> {
        let part = if kind.feeds() { StepPart::Feed(self.options.feed_shape) } else { StepPart::Decode(self.mode) };
        Ok(self.recorder().record(part, 0)?.iter().map(|recording| recording.stats()).sum())
    }

    /// The logits that the last token was sampled from, `[vocabulary]` f32.
    ///
    /// # Errors
    /// Whatever error the device reports.
    ///
    /// # Panics
    /// With steps in flight.
    pub fn last_logits(&self) -> Result<Vec<f32>> {
        assert!(self.in_flight.is_empty(), "logits are read with {} steps in flight", self.in_flight.len());
        self.read_logits(self.last_row_of_step)
    }

    /// The logits after a row of the last step, `[vocabulary]` f32.
    fn read_logits(&self, row: u32) -> Result<Vec<f32>> {
        let (logits, offset, bytes) = self.model.activation(Array::Logits, row);
        let readback = Buffer::new(self.device(), "logits", bytes, Placement::Readback)?;
        let mut recording = RecordingBuilder::new(self.device(), QueueKind::Compute, "logits")?;
        recording.copy(logits, offset, &readback, 0, bytes);
        self.queue().submit(&recording.finish()?, &[])?.wait()?;
        let mut values = vec![0.0f32; self.limits.vocabulary_tokens as usize];
        readback.read(0, bytemuck::cast_slice_mut(&mut values));
        Ok(values)
    }

    fn recorder(&self) -> StepRecorder<'_> {
        StepRecorder {
            model: &self.model,
            options: &self.options,
            memory: &self.memory,
            chain: &self.chain,
            drafter: self.drafter.as_ref(),
            stamps: self.stamps.as_ref(),
        }
    }

    fn queue(&self) -> &Arc<Queue> {
        self.device().compute_queue()
    }

    /// The parts that steps of the running sequence consist of, except those that feed its prompt.
    fn parts(&self) -> Vec<StepPart> {
        let mut parts = Vec::new();
        if self.is_split() {
            parts.extend([StepPart::Forward(self.mode), StepPart::Sample(self.mode)]);
        } else {
            parts.push(StepPart::Decode(self.mode));
        }
        if self.speculative == SpeculativeDecoding::On {
            parts.push(StepPart::Speculate(self.mode));
            if self.uses_draft_model() {
                parts.push(StepPart::FeedDraft(StepShape::ONE));
            }
        }
        parts
    }

    /// Whether the forward pass and the sampling of a step are submitted apart.
    fn is_split(&self) -> bool {
        self.mode.gate != Gate::Open || self.options.queues == Queues::Two
    }

    /// Whether a draft model has to take in the tokens of the running sequence.
    fn uses_draft_model(&self) -> bool {
        self.speculative == SpeculativeDecoding::On && self.drafter.as_ref().is_some_and(Drafter::uses_draft_model)
    }

    /// Records a part of a step for a ring slot, unless that was done before.
    fn provide(&mut self, part: StepPart, slot: u32) -> Result<()> {
        let mut recordings = std::mem::take(&mut self.recordings);
        let provided = recordings.provide(part, slot, &self.recorder());
        self.recordings = recordings;
        provided
    }

    /// The part that a step of a prompt is.
    fn feed_part(&self, kind: StepKind, rows: u32) -> StepPart {
        let shape = StepShape::feeding(rows, self.options.feed_shape);
        if kind.samples() { StepPart::FeedDecode(shape, self.mode) } else { StepPart::Feed(shape) }
    }

    /// Makes the recordings of the steps that feed a prompt of which so many tokens are left: those alone, since most prompts need few of their shapes.
    fn provide_feeds(&mut self, mut left: u32, last_token: LastToken) -> Result<()> {
        let feeding = Feeding { rows: self.limits.feed_rows, last_token };
        let slots = self.limits.ring_slots;
        let (mut slot, mut draft_slot) = ((self.next_ticket % u64::from(slots)) as u32, self.next_draft_feed);
        while let Some((kind, rows)) = prompt_step(left, feeding) {
            left -= rows;
            self.provide(self.feed_part(kind, rows), slot)?;
            slot = (slot + 1) % slots;
            let drafter = self.drafter.as_ref().filter(|_| self.uses_draft_model());
            for shape in drafter.map_or(Vec::new(), |drafter| drafter.feed_shapes(rows, true)) {
                self.provide(StepPart::FeedDraft(shape), draft_slot)?;
                draft_slot = (draft_slot + 1) % slots;
            }
        }
        Ok(())
    }

    /// The place of a step among those in flight, oldest first.
    fn index_of(&self, ticket: Ticket) -> usize {
        let index = self.in_flight.iter().position(|step| step.ticket == ticket);
        index.unwrap_or_else(|| panic!("{ticket:?} is not in flight"))
    }

    /// Ends the sequence that is open on the device, and opens its gates.
    fn stop(&mut self) {
        if let Some(sequence) = self.lane.sequence() {
            self.memory.cancelled.store_u32(0, device_number(sequence));
        }
        if let Err(error) = self.open_gates(self.last_gate) {
            // The error is not lost: a wait for the steps will return it too.
            tracing::warn!(%error, "opening the gates of a cancelled sequence");
        }
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

impl StepModel for VulkanModel {
    type Error = Error;

    fn limits(&self) -> ModelLimits {
        self.limits
    }

    fn open(&mut self, start: &SequenceStart<'_>) -> Result<SequenceId> {
        assert!(self.in_flight.is_empty(), "a sequence is opened with {} steps in flight", self.in_flight.len());
        let sequence = self.lane.open();
        if let Some(stamps) = &mut self.stamps {
            stamps.calibrate(self.model.device())?;
        }
        self.mode = Self::sampling_mode(start);
        self.speculative = start.speculative;
        self.top_logprobs = start.logprobs.unwrap_or(0);
        if let Sampler::Chain { .. } = self.mode.sampling.sampler
            && self.chain.write(start.sampling, start.tokens)? == Tables::Moved
        {
            self.recordings.forget_chain();
        }
        if self.mode.gate == Gate::Token {
            let device = self.device().clone();
            self.memory.provide_logits(&device)?;
        }
        for part in self.parts() {
            for slot in 0..self.limits.ring_slots {
                self.provide(part, slot)?;
            }
        }

        let state = initial_state(start, device_number(sequence), self.limits.context_tokens);
        self.draft_kv_tokens = self.draft_kv_tokens.min(start.cached);
        let mut draft_state = draft_model_state(&state, self.draft_kv_tokens, start.tokens);
        let room = self.limits.context_tokens as usize - start.tokens.len();
        let replayed = self.drafter.as_ref().map_or(&[][..], Drafter::replayed);
        let replayed = &replayed[..replayed.len().min(room)];
        if !replayed.is_empty() {
            // Drafts are taken up to where a draft model would stand.
            draft_state.lane.position = (start.tokens.len() + replayed.len()) as u32 - 1;
        }
        let image = &self.memory.image;
        image.write(STATE_OFFSET, bytemuck::bytes_of::<StepState>(&state));
        image.write(DRAFT_MODEL_STATE_OFFSET, bytemuck::bytes_of::<StepState>(&draft_state));
        image.write(END_TOKENS_OFFSET, bytemuck::cast_slice(end_tokens(start)));
        image.write(TOKENS_OFFSET, bytemuck::cast_slice(start.tokens));
        image.write(TOKENS_OFFSET + 4 * start.tokens.len() as u64, bytemuck::cast_slice(replayed));
        let before_ns = host_now_ns();
        // The host writes the image again for the next sequence, so it waits here until this copy is done.
        self.submit_and_wait(&self.opening)?;
        self.waited_ns += host_now_ns() - before_ns;
        self.draft_backlog = 0;
        self.draft_rows_listed = true;
        self.last_row_of_step = 0;
        if self.uses_draft_model() {
            self.feed_draft(start.cached - self.draft_kv_tokens)?;
            self.draft_kv_tokens = start.cached;
        }
        self.provide_feeds(start.tokens.len() as u32 - start.cached, start.last_token)?;
        Ok(sequence)
    }

    fn close(&mut self, sequence: SequenceId) {
        assert!(self.in_flight.is_empty(), "{sequence:?} is closed with {} steps in flight", self.in_flight.len());
        self.lane.close(sequence);
    }

    fn submit(&mut self, step: &Step<'_>) -> Result<Ticket> {
        let Step { kind, rows, lanes } = *step;
        self.lane.check_lanes(lanes);
        let ticket = Ticket::new(self.next_ticket);
        let slot = (self.next_ticket % u64::from(self.limits.ring_slots)) as u32;
        if kind == StepKind::Speculate {
            let backlog = std::mem::take(&mut self.draft_backlog);
            if self.uses_draft_model() {
                self.feed_draft(backlog)?;
            }
        } else if kind == StepKind::Decode {
            self.draft_backlog += 1;
        }
        if kind.samples() {
            self.draft_rows_listed = false;
        }
        let submitted_at_ns = host_now_ns();
        let split = kind == StepKind::Decode && self.is_split();
        let gate = (split && self.mode.gate != Gate::Open).then(|| {
            self.last_gate += 1;
            self.last_gate
        });
        let part = match kind {
            StepKind::Feed | StepKind::FeedDecode => self.feed_part(kind, rows),
            StepKind::Decode if split => StepPart::Forward(self.mode),
            StepKind::Decode => StepPart::Decode(self.mode),
            StepKind::Speculate => StepPart::Speculate(self.mode),
        };
        if let Some(stamps) = &self.stamps {
            stamps.reset(slot);
        }
        if kind == StepKind::Feed && self.uses_draft_model() {
            self.feed_draft(rows)?;
        }
        let (mut forward, mut done, mut sampling_owed) = (None, None, false);
        match self.options.sync {
            Sync::Timeline => {
                let end;
                (forward, end) =
                    if split { self.submit_split(slot, gate)? } else { (None, self.submit_part(part, slot)?) };
                done = Some(end);
            }
            Sync::FenceKept | Sync::Fence => {
                self.run_part(part, slot)?;
                sampling_owed = split;
            }
        }
        self.in_flight.push_back(SubmittedStep {
            ticket,
            kind,
            rows,
            slot,
            forward,
            done,
            gate,
            sampling_owed,
            submitted_at_ns,
            submit_done_ns: host_now_ns(),
        });
        self.next_ticket += 1;
        Ok(ticket)
    }

    fn guide(&mut self, ticket: Ticket, sequence: SequenceId, guide: &Guide) -> Result<()> {
        self.lane.check(sequence);
        self.memory.write_guide(self.in_flight[self.index_of(ticket)].slot, guide);
        self.let_sample(ticket)
    }

    fn logits(&mut self, ticket: Ticket, sequence: SequenceId) -> Result<&[f32]> {
        self.lane.check(sequence);
        let step = &self.in_flight[self.index_of(ticket)];
        if let Some(forward) = &step.forward {
            let before_ns = host_now_ns();
            forward.wait_with(&WaitPolicy::default())?;
            self.waited_ns += host_now_ns() - before_ns;
        }
        let slot = step.slot;
        self.logits.resize(self.limits.vocabulary_tokens as usize, 0.0);
        self.memory.read_logits(slot, &mut self.logits);
        Ok(&self.logits)
    }

    fn choose(&mut self, ticket: Ticket, sequence: SequenceId, choice: HostChoice) -> Result<()> {
        self.lane.check(sequence);
        self.memory.write_choice(self.in_flight[self.index_of(ticket)].slot, choice);
        self.let_sample(ticket)
    }

    fn wait(&mut self, ticket: Ticket) -> Result<StepOutput> {
        self.wait_or_stop(ticket, &|_| false)
    }

    fn wait_or_stop(&mut self, ticket: Ticket, stop: &dyn Fn(SequenceId) -> bool) -> Result<StepOutput> {
        if self.in_flight.front().is_some_and(|step| step.sampling_owed) {
            // The sequence was cancelled while the gate of this step was closed.
            self.let_sample(ticket)?;
        }
        let step = self.in_flight.pop_front().filter(|step| step.ticket == ticket);
        let Some(step) = step else { panic!("waited for {ticket:?}, which is not the oldest step in flight") };
        let before_ns = host_now_ns();
        if let Some(done) = &step.done {
            let (open, cancelled) = (self.lane.sequence(), &self.memory.cancelled);
            done.wait_watching(&WaitPolicy::default(), STOP_LATENCY, &mut || {
                if let Some(sequence) = open.filter(|sequence| stop(*sequence)) {
                    cancelled.store_u32(0, device_number(sequence));
                }
            })?;
        }
        let observed_at_ns = host_now_ns();
        self.waited_ns += observed_at_ns - before_ns;
        let split = step.kind == StepKind::Decode && self.is_split();
        let timing = StepTiming {
            submitted_at_ns: step.submitted_at_ns,
            submit_done_ns: step.submit_done_ns,
            observed_at_ns,
            gpu: self.stamps.as_ref().map(|stamps| stamps.span(step.slot, split, &self.memory)).transpose()?,
        };
        let mut report = self.memory.report(step.slot);
        if report.status == STATUS_SAMPLED {
            // Where a step samples after a prompt's last row, the device's report is about that row alone.
            report.fed = step.kind.fed_of(step.rows);
        }
        let logprobs = (self.mode.sampling.logprobs && step.kind != StepKind::Feed)
            .then(|| Arc::new(log_probabilities(&self.memory.logprobs(step.slot), report.logit, self.top_logprobs)));
        if self.uses_draft_model() && step.kind != StepKind::Decode {
            self.draft_kv_tokens = report.position;
        }
        if report.status == STATUS_SAMPLED {
            self.last_row_of_step = report.count.saturating_sub(1);
        }
        Ok(StepOutput { lanes: vec![LaneOutput { logprobs, ..lane_output(&report) }], timing })
    }

    fn cancel(&mut self, sequence: SequenceId) {
        if self.lane.sequence() == Some(sequence) {
            self.stop();
        }
    }

    fn counters(&self) -> ModelCounters {
        let queue = self.queue().stats();
        let second = self.device().second_compute_queue().map_or(0, |queue| queue.stats().submits);
        ModelCounters {
            submits: queue.submits + second,
            recordings: self.device().stats().recordings,
            fence_waits: queue.fence_waits,
            waited_ns: self.waited_ns,
        }
    }
}

impl Drop for VulkanModel {
    /// The device may still run steps that write to the buffers; recordings in flight keep those alive, so nothing is waited for.
    fn drop(&mut self) {
        self.stop();
    }
}
