//! The gates of a sequence: where the host decides about tokens, each step waits at its gate before it samples, until the host opens it.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::control::{Constraint, Control, ControlError, Guide, TokenSampler, Verdict};
use crate::error::{Error, ModelCall, Result};
use crate::model::{Gate, HostChoice, SequenceId, StepModel, Ticket};
use crate::request::Request;

/// The gates of one sequence, and what decides when they open.
pub(crate) struct Gates {
    keeper: Keeper,
    /// The request, whose logit biases apply on top of a guide.
    request: Arc<Request>,
    /// Tickets of submitted steps that sample and whose gates are closed, oldest first.
    closed: VecDeque<Ticket>,
    /// Position of the next token to be chosen.
    position: u32,
}

/// What decides about the tokens of a sequence.
enum Keeper {
    /// The device alone: there are no gates.
    Nobody,
    /// A constraint on the host says which tokens are allowed.
    Constraint {
        constraint: Box<dyn Constraint>,
        guide: Guide,
        /// Whether the constraint has accepted all tokens before the step whose gate is the oldest closed one.
        ready: bool,
    },
    /// A sampler on the host chooses each token.
    Sampler {
        sampler: Box<dyn TokenSampler>,
        /// The prompt and all tokens delivered since.
        tokens: Vec<u32>,
    },
}

impl Gates {
    /// The gates of a request's sequence.
    ///
    /// # Errors
    /// [`Error::Control`] if the request's constraint or sampler cannot be made.
    pub(crate) fn new(request: &Arc<Request>, vocabulary_tokens: u32) -> Result<Self> {
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
        Ok(Self { keeper, request: request.clone(), closed: VecDeque::new(), position })
    }

    /// What the steps of the sequence wait for.
    pub(crate) fn gate(&self) -> Gate {
        match self.keeper {
            Keeper::Nobody => Gate::Open,
            Keeper::Constraint { .. } => Gate::Guide,
            Keeper::Sampler { .. } => Gate::Token,
        }
    }

    /// Notes that a step that samples was submitted; its gate is closed, if it has one.
    pub(crate) fn submitted(&mut self, ticket: Ticket) {
        if self.gate() != Gate::Open {
            self.closed.push_back(ticket);
        }
    }

    /// Notes that the sequence was cancelled, whereby the model opens all gates.
    pub(crate) fn cancelled(&mut self) {
        self.closed.clear();
    }

    /// Opens the oldest closed gate if its guide can be computed, which needs only the tokens before it. The device may still be at work on
    /// the step's forward pass.
    ///
    /// # Errors
    /// [`Error::Control`] from the constraint, or [`Error::Model`].
    pub(crate) fn open_early<M: StepModel>(&mut self, model: &mut M, sequence: SequenceId) -> Result<Verdict> {
        let position = self.position;
        if let Keeper::Constraint { constraint, guide, ready } = &mut self.keeper
            && *ready
            && let Some(&ticket) = self.closed.front()
        {
            guide.reset();
            if constraint.guide(guide).map_err(|source| control_error(position, source))? == Verdict::Complete {
                return Ok(Verdict::Complete);
            }
            if !guide.leaves_a_choice(&self.request.sampling.logit_bias) {
                return Err(control_error(
                    position,
                    "the constraint and the logit biases leave no token at all".into(),
                ));
            }
            self.closed.pop_front();
            *ready = false;
            model
                .guide(ticket, sequence, guide)
                .map_err(|source| Error::model(ModelCall::Gate { position }, source))?;
        }
        Ok(Verdict::Choose)
    }

    /// Opens the gate of `awaited`, the step that is about to be waited for, if a sampler on the host chooses from its logits. Leaves the gate
    /// closed if the sequence has been cancelled by the time the logits are computed.
    ///
    /// # Errors
    /// [`Error::Control`] from the sampler, or [`Error::Model`].
    pub(crate) fn open_late<M: StepModel>(
        &mut self,
        model: &mut M,
        sequence: SequenceId,
        awaited: Ticket,
        cancelled: &dyn Fn() -> bool,
    ) -> Result<()> {
        let position = self.position;
        if let Keeper::Sampler { sampler, tokens } = &mut self.keeper
            && self.closed.front() == Some(&awaited)
        {
            let failed = |source| Error::model(ModelCall::Gate { position }, source);
            let logits = model.logits(awaited, sequence).map_err(failed)?;
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
            model.choose(awaited, sequence, choice).map_err(failed)?;
        }
        Ok(())
    }

    /// Tells the constraint or sampler which tokens were chosen next. None of them may end the sequence.
    ///
    /// # Errors
    /// [`Error::Control`] if the constraint refuses one.
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

/// Whether a token can be chosen from the logits. As on the device, minus infinity forbids a token; NaN, plus infinity, or minus infinity
/// everywhere mean that the model is broken.
fn are_usable(logits: &[f32]) -> bool {
    let broken = |logit: &f32| logit.is_nan() || *logit == f32::INFINITY;
    !logits.iter().any(broken) && logits.iter().any(|logit| logit.is_finite())
}

fn control_error(position: u32, source: ControlError) -> Error {
    Error::Control { position, source: Arc::from(source) }
}
