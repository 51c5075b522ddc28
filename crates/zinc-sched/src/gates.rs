//! The gates of a sequence whose tokens the host has a say in: what each step's sampling waits for, and who decides it.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::control::{Constraint, Control, ControlError, Guide, TokenSampler, Verdict};
use crate::error::{Error, ModelCall, Result};
use crate::model::{Gate, HostChoice, StepModel, Ticket};
use crate::request::Request;

/// The gates of one sequence.
pub(crate) struct Gates<'a> {
    keeper: Keeper,
    /// The request's own, which a guide comes on top of.
    logit_bias: &'a [(u32, f32)],
    /// Sampling steps that were submitted and whose gates are closed, oldest first.
    closed: VecDeque<Ticket>,
    /// Of the next token to be accepted.
    position: u32,
}

/// Who decides.
enum Keeper {
    Nobody,
    Constraint {
        constraint: Box<dyn Constraint>,
        guide: Guide,
        /// Whether the constraint has taken all tokens before the oldest closed gate.
        ready: bool,
    },
    Sampler {
        sampler: Box<dyn TokenSampler>,
        /// Prompt and what was delivered.
        tokens: Vec<u32>,
    },
}

impl<'a> Gates<'a> {
    /// The gates of a request's sequence.
    ///
    /// # Errors
    /// What the constraint or the sampler says when it is made.
    pub(crate) fn new(request: &'a Request, vocabulary_tokens: u32) -> Result<Self> {
        // The prompt is checked against the context, whose size is a u32.
        let position = request.prompt.len() as u32;
        let refused = |source| control_error(position, source);
        let keeper = match &request.control {
            Control::Device => Keeper::Nobody,
            Control::Masked(start) => Keeper::Constraint {
                constraint: start().map_err(refused)?,
                guide: Guide::new(vocabulary_tokens),
                ready: true,
            },
            Control::HostFed(start) => {
                Keeper::Sampler { sampler: start().map_err(refused)?, tokens: request.prompt.clone() }
            }
        };
        Ok(Self { keeper, logit_bias: &request.sampling.logit_bias, closed: VecDeque::new(), position })
    }

    /// What the steps wait for.
    pub(crate) fn gate(&self) -> Gate {
        match self.keeper {
            Keeper::Nobody => Gate::Open,
            Keeper::Constraint { .. } => Gate::Guide,
            Keeper::Sampler { .. } => Gate::Token,
        }
    }

    /// Notes a sampling step that was submitted.
    pub(crate) fn submitted(&mut self, ticket: Ticket) {
        if self.gate() != Gate::Open {
            self.closed.push_back(ticket);
        }
    }

    /// Forgets the closed gates, because the model opens them all.
    pub(crate) fn cancelled(&mut self) {
        self.closed.clear();
    }

    /// Opens the oldest gate if what it takes is known: the device need not have reached it.
    ///
    /// # Errors
    /// [`Error::Control`] and the model's.
    pub(crate) fn open_early<M: StepModel>(&mut self, model: &mut M) -> Result<Verdict> {
        let position = self.position;
        if let Keeper::Constraint { constraint, guide, ready } = &mut self.keeper
            && *ready
            && let Some(&ticket) = self.closed.front()
        {
            guide.reset();
            if constraint.guide(guide).map_err(|source| control_error(position, source))? == Verdict::Complete {
                return Ok(Verdict::Complete);
            }
            if !guide.leaves_a_choice(self.logit_bias) {
                return Err(control_error(
                    position,
                    "the constraint and the logit biases leave no token at all".into(),
                ));
            }
            self.closed.pop_front();
            *ready = false;
            model.guide(ticket, guide).map_err(|source| Error::model(ModelCall::Gate { position }, source))?;
        }
        Ok(Verdict::Choose)
    }

    /// Opens the gate of the step that is about to be waited for, if it takes the step's own logits; leaves it closed if, by the time that they
    /// are there, the sequence has been cancelled.
    ///
    /// # Errors
    /// [`Error::Control`] and the model's.
    pub(crate) fn open_late<M: StepModel>(
        &mut self,
        model: &mut M,
        awaited: Ticket,
        cancelled: &dyn Fn() -> bool,
    ) -> Result<()> {
        let position = self.position;
        if let Keeper::Sampler { sampler, tokens } = &mut self.keeper
            && self.closed.front() == Some(&awaited)
        {
            let failed = |source| Error::model(ModelCall::Gate { position }, source);
            let logits = model.logits(awaited).map_err(failed)?;
            if cancelled() {
                return Ok(());
            }
            let choice = if are_usable(logits) {
                let id = sampler.sample(logits, tokens).map_err(|source| control_error(position, source))?;
                let Some(&logit) = logits.get(id as usize) else {
                    let message = format!("the sampler chose token {id} of a vocabulary of {}", logits.len());
                    return Err(control_error(position, message.into()));
                };
                HostChoice::Token { id, logit }
            } else {
                HostChoice::NonFinite
            };
            self.closed.pop_front();
            model.choose(awaited, choice).map_err(failed)?;
        }
        Ok(())
    }

    /// Takes the tokens that were chosen next, none of which ends the sequence.
    ///
    /// # Errors
    /// [`Error::Control`].
    pub(crate) fn accept(&mut self, chosen: &[u32]) -> Result<()> {
        for &token in chosen {
            match &mut self.keeper {
                Keeper::Nobody => {}
                Keeper::Constraint { constraint, ready, .. } => {
                    constraint.accept(token).map_err(|source| control_error(self.position, source))?;
                    *ready = true;
                }
                Keeper::Sampler { tokens, .. } => tokens.push(token),
            }
            self.position += 1;
        }
        Ok(())
    }
}

/// Whether a token can be chosen: as on the device, minus infinity only forbids, unless it forbids everything.
fn are_usable(logits: &[f32]) -> bool {
    let broken = |logit: &f32| logit.is_nan() || *logit == f32::INFINITY;
    !logits.iter().any(broken) && logits.iter().any(|logit| logit.is_finite())
}

fn control_error(position: u32, source: ControlError) -> Error {
    Error::Control { position, source: Arc::from(source) }
}
