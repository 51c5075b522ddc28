//! Faults of the simulated model, which tests ask for.

use std::time::Duration;

/// A fault that occurs once. Steps are counted from 0 over the lifetime of the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Beginning a sequence fails.
    Begin {
        /// Sequences before it.
        sequence: u64,
    },
    /// Submitting the step fails.
    Submit {
        /// Steps before it.
        step: u64,
    },
    /// The device is lost while the step runs.
    Wait {
        /// Steps before it.
        step: u64,
    },
    /// The step never ends, and the wait for it gives up after a while.
    Stall {
        /// Steps before it.
        step: u64,
        /// How long the wait lasts before it gives up.
        patience: Duration,
    },
    /// The step's logits are not finite, if it samples.
    NonFinite {
        /// Steps before it.
        step: u64,
    },
    /// Opening the gate of the step fails.
    Gate {
        /// Steps before it.
        step: u64,
    },
    /// The step reports a position one too high.
    WrongPosition {
        /// Steps before it.
        step: u64,
    },
}

/// The errors of the simulated model, one for each fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FakeError {
    /// By [`Fault::Begin`].
    #[error("sequence {sequence} was not begun")]
    NotBegun {
        /// Sequences before it.
        sequence: u64,
    },
    /// By [`Fault::Submit`].
    #[error("step {step} was not submitted")]
    NotSubmitted {
        /// Steps before it.
        step: u64,
    },
    /// By [`Fault::Gate`].
    #[error("the gate of step {step} was not opened")]
    GateStuck {
        /// Steps before it.
        step: u64,
    },
    /// By [`Fault::Wait`].
    #[error("the device was lost in step {step}")]
    Lost {
        /// Steps before it.
        step: u64,
    },
    /// By [`Fault::Stall`].
    #[error("step {step} made no progress for {waited_ns} ns")]
    Stalled {
        /// Steps before it.
        step: u64,
        /// How long the wait went on.
        waited_ns: u64,
    },
}
