//! The gates of a sequence whose tokens the host has a say in: what each step's sampling waits for, and who decides it.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::control::{Constraint, Control, ControlError, Guide, TokenSampler, Verdict};
use crate::error::{Error, ModelCall, Result};
use crate::model::{Choice, Gate, StepModel, Ticket};

/// The gates of one sequence.
pub(crate) struct Gates {
    keeper: Keeper,
    /// Sampling steps that were submitted and whose gates are closed, oldest first.
    closed: VecDeque<Ticket>,
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

impl Gates {
    /// The gates of a sequence that begins with `prompt`.
    ///
    /// # Errors
    /// What the constraint or the sampler says when it is made.
    pub(crate) fn new(control: &Control, prompt: &[u32], vocabulary_tokens: u32) -> Result<Self> {
        let refused = |source| control_error(prompt.len() as u32, source);
        let keeper = match control {
            Control::Device => Keeper::Nobody,
            Control::Masked(start) => Keeper::Constraint {
                constraint: start().map_err(refused)?,
                guide: Guide::new(vocabulary_tokens),
                ready: true,
            },
            Control::HostFed(start) => Keeper::Sampler { sampler: start().map_err(refused)?, tokens: prompt.to_vec() },
        };
        Ok(Self { keeper, closed: VecDeque::new() })
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

    /// Opens the oldest gate if what it takes is known: the device need not have reached it. `position` is that of the token to be chosen.
    ///
    /// # Errors
    /// [`Error::Control`] and the model's.
    pub(crate) fn open_early<M: StepModel>(&mut self, model: &mut M, position: u32) -> Result<Verdict> {
        if let Keeper::Constraint { constraint, guide, ready } = &mut self.keeper
            && *ready
            && let Some(&ticket) = self.closed.front()
        {
            guide.reset();
            if constraint.guide(guide).map_err(|source| control_error(position, source))? == Verdict::Complete {
                return Ok(Verdict::Complete);
            }
            if guide.allowed() == 0 {
                return Err(control_error(position, "the constraint allows no token at all".into()));
            }
            self.closed.pop_front();
            *ready = false;
            model.guide(ticket, guide).map_err(|source| Error::model(ModelCall::Gate, source))?;
        }
        Ok(Verdict::Choose)
    }

    /// Opens the gate of the step that is about to be waited for, if it takes the step's own logits.
    ///
    /// # Errors
    /// [`Error::Control`] and the model's.
    pub(crate) fn open_late<M: StepModel>(&mut self, model: &mut M, awaited: Ticket, position: u32) -> Result<()> {
        if let Keeper::Sampler { sampler, tokens } = &mut self.keeper
            && self.closed.front() == Some(&awaited)
        {
            let logits = model.logits(awaited).map_err(|source| Error::model(ModelCall::Gate, source))?;
            let choice = if logits.iter().any(|logit| logit.is_nan() || *logit == f32::INFINITY) {
                Choice::NonFinite
            } else {
                let id = sampler.sample(logits, tokens).map_err(|source| control_error(position, source))?;
                let Some(&logit) = logits.get(id as usize) else {
                    let message = format!("the sampler chose token {id} of a vocabulary of {}", logits.len());
                    return Err(control_error(position, message.into()));
                };
                Choice::Token { id, logit }
            };
            self.closed.pop_front();
            model.choose(awaited, choice).map_err(|source| Error::model(ModelCall::Gate, source))?;
        }
        Ok(())
    }

    /// Takes a token that was chosen at `position`, with which the sequence does not end.
    ///
    /// # Errors
    /// [`Error::Control`].
    pub(crate) fn accept(&mut self, token: u32, position: u32) -> Result<()> {
        match &mut self.keeper {
            Keeper::Nobody => {}
            Keeper::Constraint { constraint, ready, .. } => {
                constraint.accept(token).map_err(|source| control_error(position, source))?;
                *ready = true;
            }
            Keeper::Sampler { tokens, .. } => tokens.push(token),
        }
        Ok(())
    }
}

fn control_error(position: u32, source: ControlError) -> Error {
    Error::Control { position, source: Arc::from(source) }
}
