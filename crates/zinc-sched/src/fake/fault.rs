//! What can go wrong in the simulated model, on demand.

use std::time::Duration;

/// Something that goes wrong. Steps are counted from 0 over the lifetime of the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The n-th sequence is not begun.
    Begin {
        /// Sequences before it.
        sequence: u64,
    },
    /// The step is not submitted.
    Submit {
        /// Steps before it.
        step: u64,
    },
    /// The device is lost while the step runs.
    Wait {
        /// Steps before it.
        step: u64,
    },
    /// The step never ends; the wait gives up after a while.
    Stall {
        /// Steps before it.
        step: u64,
        /// How long the wait goes on.
        patience: Duration,
    },
    /// The step's logits are not finite, if it samples.
    NonFinite {
        /// Steps before it.
        step: u64,
    },
    /// The gate of the step is not opened: no guide or choice is taken.
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

/// An error of the simulated model.
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
