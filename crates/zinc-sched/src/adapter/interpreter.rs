//! The host's interpreter as a [`StepModel`]: a step is computed when it is waited for.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;

use zinc_kernels::reference::{self, Candidate, StepLimits};
use zinc_kernels::sampler::{Bias, SamplerTables};
use zinc_kernels::step::StepReport;
use zinc_model::Model;
use zinc_model::interpret::Interpreter;
use zinc_model::plan::{CacheOptions, PlanKind};
use zinc_vk::host_now_ns;

use super::lanes::{Lanes, device_number};
use super::sampling::{candidate, log_probabilities, sampler_tables};
use super::sequence::{LaneAddresses, end_tokens, initial_lane};
use super::{Score, lane_output, plan_kind};
use crate::control::Guide;
use crate::model::{
    CheckpointLimits, Gate, HostChoice, LastToken, ModelCounters, ModelLimits, SequenceId, SequenceStart, Step,
    StepModel, Ticket,
};
use crate::sampling::Sampling;
use crate::speculation::ResumeCost;
use crate::step::{LaneOutput, StepKind, StepOutput, StepTiming};

/// A model that the interpreter computes on the host.
#[derive(Debug)]
pub struct InterpreterModel {
    interpreter: Interpreter,
    limits: ModelLimits,
    /// The only lane.
    lane: Lanes<()>,
    /// The tables of the sampler chain, if the running sequence needs the chain.
    chain: Option<SamplerTables>,
    logprobs: Option<u32>,
    in_flight: VecDeque<SubmittedStep>,
    submits: u64,
}

/// A step that was submitted and not yet waited for.
#[derive(Debug)]
struct SubmittedStep {
    ticket: Ticket,
    kind: StepKind,
    submitted_at_ns: u64,
    submit_done_ns: u64,
    /// Whether its forward pass was computed already, because the host asked for its logits.
    forward_done: bool,
    guide: Option<Guide>,
    choice: Option<HostChoice>,
}

impl InterpreterModel {
    /// A model with an empty cache.
    #[must_use]
    pub fn new(model: &Arc<Model>, cache: CacheOptions) -> Self {
        Self {
            limits: ModelLimits {
                context_tokens: cache.context,
                vocabulary_tokens: model.config.n_vocab,
                ring_slots: crate::InflightDepth::MAX,
                lanes: 1,
                pages: None,
                // It keeps no checkpoints, so that a sequence with a recurrent state begins at position 0. Windows have all positions.
                checkpoints: (model.config.recurrent_bytes(0) > 0).then_some(CheckpointLimits {
                    slots: 0,
                    page: 1,
                    spacing: CheckpointLimits::SPACING,
                    inside_steps: false,
                }),
                feed_rows: 1,
                last_token: LastToken::Alone,
                max_drafts: 0,
                resume_cost: ResumeCost::Free,
            },
            interpreter: Interpreter::new(model.clone(), cache),
            lane: Lanes::new(1),
            chain: None,
            logprobs: None,
            in_flight: VecDeque::new(),
            submits: 0,
        }
    }

    fn find(&mut self, ticket: Ticket) -> &mut SubmittedStep {
        let step = self.in_flight.iter_mut().find(|step| step.ticket == ticket);
        step.unwrap_or_else(|| panic!("{ticket:?} is not in flight"))
    }

    /// The candidate that a step chooses.
    fn candidate(&self, step: &SubmittedStep) -> Candidate {
        let Interpreter { state, tokens, .. } = &self.interpreter;
        let lane = &state.lane;
        let logits = self.interpreter.logits();
        if let Some(choice) = step.choice {
            return candidate(choice);
        }
        let Some(tables) = &self.chain else {
            return reference::sample_best(logits, lane);
        };
        let guide = step.guide.as_ref();
        let biases: Vec<Bias> =
            guide.map_or(&[][..], Guide::biases).iter().map(|&(id, bias)| Bias { id, bias }).collect();
        let limits = StepLimits { mask: guide.map(Guide::mask), biases: &biases };
        reference::draw(logits, &tokens[..=lane.position as usize], limits, tables, lane)
    }
}

impl StepModel for InterpreterModel {
    type Error = Infallible;

    fn limits(&self) -> ModelLimits {
        self.limits
    }

    fn open(&mut self, start: &SequenceStart<'_>) -> Result<SequenceId, Infallible> {
        let ModelLimits { context_tokens, vocabulary_tokens, .. } = self.limits;
        let sequence = self.lane.open(start.lane, ());
        let lane = initial_lane(start, device_number(sequence), context_tokens, LaneAddresses::default());
        self.interpreter.state = lane.into();
        self.interpreter.tokens[..start.tokens.len()].copy_from_slice(start.tokens);
        self.interpreter.end_tokens = end_tokens(start).to_vec();
        let chained = start.gate == Gate::Guide || !start.sampling.is_plain();
        self.chain = chained.then(|| sampler_tables(start.sampling, vocabulary_tokens, context_tokens));
        self.logprobs = start.logprobs;
        Ok(sequence)
    }

    fn close(&mut self, sequence: SequenceId) {
        self.lane.close(sequence);
    }

    fn submit(&mut self, step: &Step<'_>) -> Result<Ticket, Infallible> {
        self.lane.lanes_of(step.lanes);
        self.submits += 1;
        let ticket = Ticket::new(self.submits);
        let now_ns = host_now_ns();
        self.in_flight.push_back(SubmittedStep {
            ticket,
            kind: step.kind(),
            submitted_at_ns: now_ns,
            submit_done_ns: now_ns,
            forward_done: false,
            guide: None,
            choice: None,
        });
        Ok(ticket)
    }

    fn guide(&mut self, ticket: Ticket, sequence: SequenceId, guide: &Guide) -> Result<(), Infallible> {
        self.lane.lane(sequence);
        self.find(ticket).guide = Some(guide.clone());
        Ok(())
    }

    fn logits(&mut self, ticket: Ticket, sequence: SequenceId) -> Result<&[f32], Infallible> {
        self.lane.lane(sequence);
        self.find(ticket).forward_done = true;
        self.interpreter.forward(PlanKind::Decode);
        Ok(self.interpreter.logits())
    }

    fn choose(&mut self, ticket: Ticket, sequence: SequenceId, choice: HostChoice) -> Result<(), Infallible> {
        self.lane.lane(sequence);
        self.find(ticket).choice = Some(choice);
        Ok(())
    }

    fn wait(&mut self, ticket: Ticket) -> Result<StepOutput, Infallible> {
        let step = self.in_flight.pop_front().filter(|step| step.ticket == ticket);
        let Some(step) = step else { panic!("waited for {ticket:?}, which is not the oldest step in flight") };
        if !step.forward_done {
            self.interpreter.forward(plan_kind(step.kind));
        }
        let samples = step.kind.samples() && self.interpreter.state.row_count > 0;
        let candidates: Vec<Candidate> = samples.then(|| self.candidate(&step)).into_iter().collect();
        let report: StepReport = self.interpreter.advance(&candidates);
        let logprobs = self.logprobs.filter(|_| samples).map(|top| {
            let (lists, masses) = reference::logprob_shares(self.interpreter.logits());
            Arc::new(log_probabilities(&reference::logprobs(&lists, &masses), report.logit, top))
        });
        let timing = StepTiming {
            submitted_at_ns: step.submitted_at_ns,
            submit_done_ns: step.submit_done_ns,
            observed_at_ns: host_now_ns(),
            gpu: None,
        };
        Ok(StepOutput { lanes: vec![LaneOutput { logprobs, ..lane_output(&report) }], timing })
    }

    fn cancel(&mut self, sequence: SequenceId) {
        if self.lane.find(sequence).is_some() {
            self.interpreter.cancelled = device_number(sequence);
        }
    }

    fn counters(&self) -> ModelCounters {
        ModelCounters { submits: self.submits, ..ModelCounters::default() }
    }
}

impl Score for InterpreterModel {
    type Error = Infallible;

    fn score(&mut self, tokens: &[u32], sink: &mut dyn FnMut(usize, &[f32])) -> Result<(), Infallible> {
        let sequence = self.open(&SequenceStart::new(tokens, 0, 1, &Sampling::GREEDY))?;
        for position in 0..tokens.len() {
            self.interpreter.step(PlanKind::Decode);
            sink(position, self.interpreter.logits());
        }
        self.close(sequence);
        Ok(())
    }
}
