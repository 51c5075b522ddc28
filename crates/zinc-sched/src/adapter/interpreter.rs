//! The host's interpreter as a [`StepModel`]: a step is computed when it is submitted.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;

use zinc_model::Model;
use zinc_model::interpret::Interpreter;
use zinc_model::plan::{CacheOptions, Shape};
use zinc_vk::host_now_ns;

use super::sequence::{end_tokens, initial_state};
use super::{Score, plan_shape, step_output};
use crate::model::{ModelCounters, ModelLimits, SequenceStart, StepModel, StepOutput, StepShape, StepTiming, Ticket};
use crate::sampling::Sampling;

/// A model on the host.
#[derive(Debug)]
pub struct InterpreterModel {
    interpreter: Interpreter,
    limits: ModelLimits,
    sequence: u32,
    cancelled: u32,
    done: VecDeque<(Ticket, StepOutput)>,
    submits: u64,
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
            },
            interpreter: Interpreter::new(model.clone(), cache),
            sequence: 0,
            cancelled: 0,
            done: VecDeque::new(),
            submits: 0,
        }
    }
}

impl StepModel for InterpreterModel {
    type Error = Infallible;

    fn limits(&self) -> ModelLimits {
        self.limits
    }

    fn begin(&mut self, start: &SequenceStart<'_>) -> Result<(), Infallible> {
        self.sequence += 1;
        self.interpreter.state = initial_state(start, self.sequence, self.limits.context_tokens);
        self.interpreter.tokens[..start.tokens.len()].copy_from_slice(start.tokens);
        self.interpreter.end_tokens = end_tokens(start).to_vec();
        Ok(())
    }

    fn submit(&mut self, shape: StepShape) -> Result<Ticket, Infallible> {
        self.submits += 1;
        let ticket = Ticket::new(self.submits);
        let submitted_at_ns = host_now_ns();
        let report = self.interpreter.step(plan_shape(shape), self.cancelled);
        let submit_done_ns = host_now_ns();
        let timing = StepTiming { submitted_at_ns, submit_done_ns, observed_at_ns: submit_done_ns, gpu: None };
        self.done.push_back((ticket, step_output(&report, timing)));
        Ok(ticket)
    }

    fn wait(&mut self, ticket: Ticket) -> Result<StepOutput, Infallible> {
        match self.done.pop_front() {
            Some((oldest, output)) if oldest == ticket => Ok(output),
            other => panic!("waited for {ticket:?}, the oldest step is {:?}", other.map(|(ticket, _)| ticket)),
        }
    }

    fn cancel(&mut self) {
        self.cancelled = self.sequence;
    }

    fn counters(&self) -> ModelCounters {
        ModelCounters { submits: self.submits, ..ModelCounters::default() }
    }
}

impl Score for InterpreterModel {
    type Error = Infallible;

    fn score(&mut self, tokens: &[u32], sink: &mut dyn FnMut(usize, &[f32])) -> Result<(), Infallible> {
        self.begin(&SequenceStart { tokens, cached: 0, budget: 1, sampling: &Sampling::GREEDY, eog: &[] })?;
        for position in 0..tokens.len() {
            self.interpreter.step(Shape::Decode, self.cancelled);
            sink(position, self.interpreter.logits());
        }
        Ok(())
    }
}
