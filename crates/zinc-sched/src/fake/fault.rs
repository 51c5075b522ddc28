//! Faults of the simulated model, which tests ask for.

use std::time::Duration;

/// A fault that occurs once. Steps are counted from 0 over the lifetime of the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Opening a sequence fails.
    Open {
        /// How many sequences the model has opened before it.
        sequence: u64,
    },
    /// Submitting the step fails.
    Submit {
        /// How many steps the model has run before it.
        step: u64,
    },
    /// The device is lost while the step runs.
    Wait {
        /// How many steps the model has run before it.
        step: u64,
    },
    /// The step never ends, and the wait for it gives up after a while.
    Stall {
        /// How many steps the model has run before it.
        step: u64,
        /// How long the wait lasts before it gives up.
        patience: Duration,
    },
    /// Queueing a copy of a recurrent state fails.
    Keep {
        /// How many copies the model was asked for before it.
        copy: u64,
    },
    /// There is no memory for a copy of a recurrent state, which is left out.
    NoMemory {
        /// How many copies the model was asked for before it.
        copy: u64,
    },
    /// The step's logits are not finite, if it samples.
    NonFinite {
        /// How many steps the model has run before it.
        step: u64,
    },
    /// Opening the gate of the step fails.
    Gate {
        /// How many steps the model has run before it.
        step: u64,
    },
    /// The step reports a position one too high.
    WrongPosition {
        /// How many steps the model has run before it.
        step: u64,
    },
}

/// The errors of the simulated model, one for each fault that has one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FakeError {
    /// The error of [`Fault::Open`].
    #[error("sequence {sequence} was not opened")]
    NotOpened {
        /// How many sequences the model has opened before it.
        sequence: u64,
    },
    /// The error of [`Fault::Submit`].
    #[error("step {step} was not submitted")]
    NotSubmitted {
        /// How many steps the model has run before it.
        step: u64,
    },
    /// The error of [`Fault::Keep`].
    #[error("copy {copy} of a state was not queued")]
    NotKept {
        /// How many copies the model was asked for before it.
        copy: u64,
    },
    /// The reason that [`Fault::NoMemory`] gives.
    #[error("there is no memory for copy {copy} of a state")]
    NoMemory {
        /// How many copies the model was asked for before it.
        copy: u64,
    },
    /// The error of [`Fault::Gate`].
    #[error("the gate of step {step} was not opened")]
    GateStuck {
        /// How many steps the model has run before it.
        step: u64,
    },
    /// The error of [`Fault::Wait`].
    #[error("the device was lost in step {step}")]
    Lost {
        /// How many steps the model has run before it.
        step: u64,
    },
    /// The error of [`Fault::Stall`].
    #[error("step {step} made no progress for {waited_ns} ns")]
    Stalled {
        /// How many steps the model has run before it.
        step: u64,
        /// How long the wait went on.
        waited_ns: u64,
    },
}
