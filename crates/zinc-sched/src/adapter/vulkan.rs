//! A model on a Vulkan device as a [`StepModel`]: recordings for each ring slot, made once and submitted for every token; or the
//! baseline, which writes every step's commands into its command buffer anew and waits for a fence.

mod chain;
mod checkpoints;
mod draft;
mod feeding;
mod memory;
mod opening;
mod options;
mod profile;
mod recordings;
mod score;
mod stamps;
mod submit;

pub use draft::DraftSource;
pub use options::{Queues, Sync, VulkanOptions};
pub use profile::OpTimes;

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use zinc_kernels::generated::lane::STATUS_SAMPLED;
use zinc_kernels::step::{PAGE_POSITIONS, StepLanes, StepShape};
use zinc_model::device::DeviceModel;
use zinc_model::plan::{Array, StepPlan};
use zinc_model::{Error, Result};
use zinc_vk::{
    Buffer, Device, HostTimeline, Placement, Queue, QueueKind, RecordingBuilder, RecordingStats, TimelinePoint,
    WaitPolicy, host_now_ns,
};

use super::lane_output;
use super::lanes::{Lanes, device_number};
use super::sampling::log_probabilities;
use crate::control::Guide;
use crate::model::{
    Gate, GrownPage, HostChoice, Kept, LastToken, ModelCounters, ModelLimits, PagePool, SequenceId, SequenceStart,
    SpeculativeDecoding, Step, StepLane, StepModel, Ticket,
};
use crate::request::Tracing;
use crate::speculation::ResumeCost;
use crate::step::{LaneOutput, StepKind, StepOutput, StepTiming};
use chain::ChainMemory;
use checkpoints::StateSlots;
use draft::Drafter;
use feeding::BegunStep;
use memory::StepMemory;
use recordings::{Recordings, SamplingMode, StepPart, StepRecorder};
use stamps::{Stamps, if_taken};

/// How often a wait for a step asks whether to stop: a fraction of a large model's step, and much longer than asking takes.
const STOP_LATENCY: Duration = Duration::from_micros(500);

/// A model on a device.
#[derive(Debug)]
pub struct VulkanModel {
    model: Arc<DeviceModel>,
    options: VulkanOptions,
    limits: ModelLimits,
    memory: StepMemory,
    chain: ChainMemory,
    /// The slots of checkpoints.
    states: StateSlots,
    drafter: Option<Drafter>,
    stamps: Option<Stamps>,
    recordings: Recordings,
    /// The timeline whose values open the gates of steps, one value for each gate.
    gates: HostTimeline,
    /// The value of `gates` that the last submitted step with a gate waits for.
    last_gate: u64,
    /// The highest value of `gates` that was signalled: up to it gates are open.
    opened_gate: u64,
    /// How many leading tokens of the sequence the draft model has keys and values of.
    draft_kv_tokens: u32,
    /// Tokens that the draft model must be fed before it can draft again: one for each plain step since it last drafted.
    draft_backlog: u32,
    /// The timeline point of the last submission to the second queue.
    last_on_second_queue: Option<TimelinePoint>,
    /// The timeline point of the last submission that feeds the draft model, by ring slot, and the slot of the next one.
    draft_feeds: Vec<Option<TimelinePoint>>,
    next_draft_feed: u32,
    lanes: Lanes<OpenSequence>,
    /// The timeline point of the last submission that opened each lane.
    opened: Vec<Option<TimelinePoint>>,
    next_ticket: u64,
    /// Which of its step's rows the last token was sampled after, from 0; more than 0 only if drafts were accepted.
    last_row_of_step: u32,
    in_flight: VecDeque<SubmittedStep>,
    /// The step that feeds of which not all ranges are submitted.
    begun: Option<BegunStep>,
    /// Ring slots that no step has, in the order in which they became free.
    free_slots: VecDeque<u32>,
    /// The ranges of steps that feed, by shape, as far as they were asked for.
    range_plans: HashMap<StepShape, Vec<StepPlan>>,
    waited_ns: u64,
    logits: Vec<f32>,
}

/// What the model keeps of a sequence while it is open.
#[derive(Clone, Copy, Debug)]
struct OpenSequence {
    /// How its tokens are chosen.
    mode: SamplingMode,
    /// Whether it may speculate.
    speculative: SpeculativeDecoding,
    /// How many of the likeliest tokens are reported with each token; `None` if no log-probabilities are reported.
    logprobs: Option<u32>,
}

/// A step that was submitted and not yet waited for.
#[derive(Debug)]
struct SubmittedStep {
    ticket: Ticket,
    /// What it is for all of its lanes together.
    kind: StepKind,
    /// What it does for each of its sequences, and the numbers of their lanes.
    lanes: Vec<(StepLane, u32)>,
    shape: StepShape,
    mode: SamplingMode,
    slot: u32,
    /// The sequences whose guide or choice has not been written yet.
    waits_for: Vec<SequenceId>,
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
    /// If the model was not loaded for as many rows as steps that feed have, or as drafts and the last token are, or as it has lanes; or has several lanes and drafts
    /// that are not looked up; or a draft model has less context or another vocabulary.
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
        let (feed_rows, most) = (options.feed_shapes.most().rows(), model.counts().rows);
        assert!(feed_rows <= most, "prompts fed by {feed_rows} rows to a model that was loaded for {most}");
        let lanes = model.cache().lanes;
        // A step that feeds, between whose ranges others run, has a slot beside those of the steps in flight.
        let ring = slots + u32::from(lanes > 1);
        let memory = StepMemory::new(&model, ring)?;
        let suits_lanes = |source: &DraftSource| lanes == 1 || matches!(source, DraftSource::Lookup { .. });
        assert!(
            options.draft_source.as_ref().is_none_or(suits_lanes),
            "drafts for a model of {lanes} lanes that are not looked up: others are made for one lane alone"
        );
        assert!(
            StepShape::of(lanes).rows() <= model.counts().sampling_rows,
            "a model of {lanes} lanes, of which {} rows sample",
            model.counts().sampling_rows
        );
        let drafter = options.draft_source.clone().map(|source| Drafter::new(&model, source, options.act));
        Ok(Self {
            limits: ModelLimits {
                context_tokens: context,
                vocabulary_tokens: vocabulary,
                ring_slots: slots,
                lanes,
                pages: (lanes > 1).then(|| PagePool { pages: model.cache().pages(), positions: PAGE_POSITIONS }),
                checkpoints: StateSlots::limits(&model, &options),
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
                Tracing::On => if_taken(Stamps::new(&device, ring))?,
            },
            recordings: Recordings::default(),
            gates: HostTimeline::new(&device, "gates")?,
            last_gate: 0,
            opened_gate: 0,
            draft_kv_tokens: 0,
            draft_backlog: 0,
            last_on_second_queue: None,
            draft_feeds: vec![None; slots as usize],
            next_draft_feed: 0,
            lanes: Lanes::new(lanes),
            opened: vec![None; lanes as usize],
            next_ticket: 0,
            last_row_of_step: 0,
            in_flight: VecDeque::new(),
            begun: None,
            free_slots: (0..ring).collect(),
            range_plans: HashMap::new(),
            waited_ns: 0,
            logits: Vec::new(),
            states: StateSlots::new(options.checkpoints),
            chain: ChainMemory::new(&device, vocabulary, context, lanes),
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

    /// Bytes of the checkpoints of recurrent states: of those slots that were used so far.
    #[must_use]
    pub fn checkpoint_bytes(&self) -> u64 {
        self.states.bytes()
    }

    /// The operations of a step of the sequences that are open: of one that feeds with all its rows, without what samples after the last one, or of one that
    /// samples after one row of each.
    #[must_use]
    pub fn plan(&self, kind: StepKind) -> StepPlan {
        match kind {
            StepKind::Feed | StepKind::FeedDecode => self.recorder().feed_plan(self.options.feed_shapes.most()),
            StepKind::Decode | StepKind::Speculate => {
                self.recorder().decode_plan(self.mode_of_open().sampling, self.shape_of_open())
            }
        }
    }

    /// Counts what the recordings of such a step as [`VulkanModel::plan`] gives consist of. The step is recorded once more for it.
    ///
    /// # Errors
    /// Whatever error the device reports.
    pub fn step_stats(&self, kind: StepKind) -> Result<RecordingStats> {
        let parts = if kind.feeds() {
            vec![StepPart::Feed(self.options.feed_shapes.most()), StepPart::FeedEnd]
        } else {
            vec![StepPart::Decode(self.shape_of_open(), self.mode_of_open())]
        };
        let recorder = self.recorder();
        let recordings = parts.into_iter().map(|part| recorder.record(part, 0)).collect::<Result<Vec<_>>>()?;
        Ok(recordings.iter().flatten().map(|recording| recording.stats()).sum())
    }

    /// The logits that the last token was sampled from, `[vocabulary]` f32, of a model of one lane.
    ///
    /// # Errors
    /// Whatever error the device reports.
    ///
    /// # Panics
    /// With steps in flight, or with several lanes.
    pub fn last_logits(&self) -> Result<Vec<f32>> {
        assert_eq!(self.limits.lanes, 1, "the lane whose logits are read is not said");
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

    /// How a step of all open sequences chooses its tokens.
    fn mode_of_open(&self) -> SamplingMode {
        self.lanes.iter().map(|(_, _, open)| open.mode).reduce(SamplingMode::join).unwrap_or(SamplingMode::PLAIN)
    }

    /// The shape of a step of all open sequences.
    fn shape_of_open(&self) -> StepShape {
        StepShape::of(self.lanes.iter().count().max(1) as u32)
    }

    /// Whether the forward pass and the sampling of a step are submitted apart.
    fn is_split(&self, mode: SamplingMode) -> bool {
        mode.gate != Gate::Open || self.options.queues == Queues::Two
    }

    /// Whether an open sequence may speculate.
    fn speculates(&self) -> bool {
        self.lanes.iter().any(|(_, _, open)| open.speculative == SpeculativeDecoding::On)
    }

    /// Whether a draft model has to take in the tokens of the open sequence.
    fn uses_draft_model(&self) -> bool {
        self.speculates() && self.drafter.as_ref().is_some_and(Drafter::uses_draft_model)
    }

    /// Records a part of a step for a ring slot, unless that was done before.
    fn provide(&mut self, part: StepPart, slot: u32) -> Result<()> {
        let mut recordings = std::mem::take(&mut self.recordings);
        let provided = recordings.provide(part, slot, &self.recorder());
        self.recordings = recordings;
        provided
    }

    /// The parts of a step that feeds so many rows: its layers, and its end, which samples behind so many of its prompts.
    fn feed_parts(&self, rows: u32, sampled: u32, mode: SamplingMode) -> (StepPart, StepPart) {
        let layers = StepPart::Feed(StepShape::feeding(rows, self.options.feed_shapes.most()));
        let end = if sampled == 0 { StepPart::FeedEnd } else { StepPart::FeedSampling(StepShape::of(sampled), mode) };
        (layers, end)
    }

    /// The place of a step among those in flight, oldest first.
    fn index_of(&self, ticket: Ticket) -> usize {
        let index = self.in_flight.iter().position(|step| step.ticket == ticket);
        index.unwrap_or_else(|| panic!("{ticket:?} is not in flight"))
    }

    /// Ends a sequence on the device, and opens its gates.
    fn stop(&mut self, sequence: SequenceId, lane: u32) {
        self.memory.cancel(lane, device_number(sequence));
        if let Err(error) = self.let_cancelled_sample(sequence) {
            // The error is not lost: a wait for the steps will return it too.
            tracing::warn!(%error, "opening the gates of a cancelled sequence");
        }
    }

    /// What a step that is done did for a lane.
    fn observe(&mut self, step: &SubmittedStep, (own, lane): (StepLane, u32)) -> LaneOutput {
        let mut report = self.memory.report(step.slot, lane);
        if report.status == STATUS_SAMPLED {
            // Where a step samples after a prompt's last row, the device's report is about that row alone.
            report.fed = own.kind.fed_of(own.rows);
            self.last_row_of_step = report.count.saturating_sub(1);
        }
        let logprobs = self
            .lanes
            .kept(lane)
            .logprobs
            .filter(|_| own.kind.samples())
            .map(|top| Arc::new(log_probabilities(&self.memory.logprobs(step.slot, lane), report.logit, top)));
        if self.uses_draft_model() && step.kind != StepKind::Decode {
            self.draft_kv_tokens = report.position;
        }
        LaneOutput { logprobs, ..lane_output(&report) }
    }
}

impl StepModel for VulkanModel {
    type Error = Error;

    fn limits(&self) -> ModelLimits {
        self.limits
    }

    fn feed_rows(&self, fed: u32) -> u32 {
        self.options.feed_shapes.of_prompt(fed).rows()
    }

    fn open(&mut self, start: &SequenceStart<'_>) -> Result<SequenceId> {
        self.check_restored(start);
        self.open_sequence(start)
    }

    fn close(&mut self, sequence: SequenceId) {
        let runs = self.in_flight.iter().any(|step| step.lanes.iter().any(|(own, _)| own.sequence == sequence));
        let is_begun = self.begun.as_ref().is_some_and(|begun| begun.feeds(sequence));
        assert!(!runs && !is_begun, "{sequence:?} is closed with a step in flight");
        self.lanes.close(sequence);
    }

    fn submit(&mut self, step: &Step<'_>) -> Result<Ticket> {
        let kind = step.kind();
        if kind.feeds() {
            for range in 0.. {
                if let Some(ticket) = self.feed_range(step, range)? {
                    return Ok(ticket);
                }
            }
        }
        let numbers = self.lanes.lanes_of(step.lanes);
        let is_begun = |begun: &BegunStep| step.lanes.iter().any(|own| begun.feeds(own.sequence));
        assert!(!self.begun.as_ref().is_some_and(is_begun), "{kind:?} of a sequence that is being fed");
        assert!(numbers.len() == 1 || kind == StepKind::Decode, "{kind:?} of {} lanes", numbers.len());
        assert!(step.lanes.iter().all(|own| own.kind == kind), "{:?} as one step", step.lanes);
        let open = numbers.iter().map(|lane| *self.lanes.kept(*lane));
        let mode = open.map(|open| open.mode).reduce(SamplingMode::join).expect("a step has a lane");
        let ticket = Ticket::new(self.next_ticket);
        let slot = self.take_slot();
        if kind == StepKind::Speculate {
            let backlog = std::mem::take(&mut self.draft_backlog);
            if self.uses_draft_model() {
                self.feed_draft(backlog)?;
            }
        } else if kind == StepKind::Decode {
            self.draft_backlog += 1;
        }
        let submitted_at_ns = host_now_ns();
        let split = kind == StepKind::Decode && self.is_split(mode);
        let gate = (split && mode.gate != Gate::Open).then(|| {
            self.last_gate += 1;
            self.last_gate
        });
        let shape = StepShape::of(numbers.len() as u32);
        let part = match kind {
            StepKind::Speculate => StepPart::Speculate(mode),
            _ if split => StepPart::Forward(shape, mode),
            _ => StepPart::Decode(shape, mode),
        };
        self.provide(part, slot)?;
        if split {
            self.provide(StepPart::Sample(shape, mode), slot)?;
        }
        if let Some(stamps) = &self.stamps {
            stamps.reset(slot);
        }
        let mut wanted = StepLanes::of(&numbers, 1);
        for GrownPage { sequence, index, page } in step.grown {
            wanted.grow(self.lanes.lane(*sequence), *index, *page, self.model.cache().lane_pages());
        }
        self.memory.write_wanted(slot, &wanted);
        let (mut forward, mut done, mut sampling_owed) = (None, None, false);
        match self.options.sync {
            Sync::Timeline => {
                let end;
                (forward, end) = if split {
                    self.submit_split((shape, mode), slot, gate)?
                } else {
                    (None, self.submit_part(part, slot)?)
                };
                done = Some(end);
            }
            Sync::FenceKept | Sync::Fence => {
                self.run_part(part, slot)?;
                sampling_owed = split;
            }
        }
        let lanes: Vec<(StepLane, u32)> = step.lanes.iter().copied().zip(numbers).collect();
        let is_gated = |lane: u32| split && self.lanes.kept(lane).mode.gate != Gate::Open;
        self.in_flight.push_back(SubmittedStep {
            waits_for: lanes.iter().filter(|(_, lane)| is_gated(*lane)).map(|(own, _)| own.sequence).collect(),
            ticket,
            kind,
            lanes,
            shape,
            mode,
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

    fn ranges(&mut self, rows: u32, position: u32) -> Vec<Duration> {
        self.estimated_ranges(rows, position)
    }

    fn submit_range(&mut self, step: &Step<'_>, range: u32) -> Result<Option<Ticket>> {
        if range == 0 && !self.model.carries() { self.submit(step).map(Some) } else { self.feed_range(step, range) }
    }

    fn keep(&mut self, sequence: SequenceId, slot: u32, position: u32) -> Result<Kept<Error>> {
        self.keep_state(sequence, slot, position)
    }

    fn guide(&mut self, ticket: Ticket, sequence: SequenceId, guide: &Guide) -> Result<()> {
        let lane = self.lanes.lane(sequence);
        self.memory.write_guide(self.in_flight[self.index_of(ticket)].slot, lane, guide);
        self.let_sample(ticket, sequence)
    }

    fn logits(&mut self, ticket: Ticket, sequence: SequenceId) -> Result<&[f32]> {
        let lane = self.lanes.lane(sequence);
        let step = &self.in_flight[self.index_of(ticket)];
        if let Some(forward) = &step.forward {
            let before_ns = host_now_ns();
            forward.wait_with(&WaitPolicy::default())?;
            self.waited_ns += host_now_ns() - before_ns;
        }
        let slot = step.slot;
        self.logits.resize(self.limits.vocabulary_tokens as usize, 0.0);
        self.memory.read_logits(slot, lane, &mut self.logits);
        Ok(&self.logits)
    }

    fn choose(&mut self, ticket: Ticket, sequence: SequenceId, choice: HostChoice) -> Result<()> {
        let lane = self.lanes.lane(sequence);
        self.memory.write_choice(self.in_flight[self.index_of(ticket)].slot, lane, choice);
        self.let_sample(ticket, sequence)
    }

    fn wait(&mut self, ticket: Ticket) -> Result<StepOutput> {
        self.wait_or_stop(ticket, &|_| false)
    }

    fn wait_or_stop(&mut self, ticket: Ticket, stop: &dyn Fn(SequenceId) -> bool) -> Result<StepOutput> {
        let step = self.in_flight.pop_front().filter(|step| step.ticket == ticket);
        let Some(step) = step else { panic!("waited for {ticket:?}, which is not the oldest step in flight") };
        assert!(step.waits_for.is_empty(), "waited for {ticket:?}, which waits for {:?}", step.waits_for);
        let before_ns = host_now_ns();
        if let Some(done) = &step.done {
            let (lanes, memory) = (&step.lanes, &self.memory);
            done.wait_watching(&WaitPolicy::default(), STOP_LATENCY, &mut || {
                for (own, lane) in lanes.iter().filter(|(own, _)| stop(own.sequence)) {
                    memory.cancel(*lane, device_number(own.sequence));
                }
            })?;
        }
        let observed_at_ns = host_now_ns();
        self.waited_ns += observed_at_ns - before_ns;
        let split = step.kind == StepKind::Decode && self.is_split(step.mode);
        let timing = StepTiming {
            submitted_at_ns: step.submitted_at_ns,
            submit_done_ns: step.submit_done_ns,
            observed_at_ns,
            gpu: self.stamps.as_ref().map(|stamps| stamps.span(step.slot, split, &self.memory)).transpose()?,
        };
        let lanes = step.lanes.iter().map(|lane| self.observe(&step, *lane)).collect();
        self.free_slots.push_back(step.slot);
        Ok(StepOutput { lanes, timing })
    }

    fn cancel(&mut self, sequence: SequenceId) {
        if let Some(lane) = self.lanes.find(sequence) {
            self.stop(sequence, lane);
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
        let open: Vec<(SequenceId, u32)> = self.lanes.iter().map(|(lane, sequence, _)| (sequence, lane)).collect();
        for (sequence, lane) in open {
            self.stop(sequence, lane);
        }
    }
}
