//! A record of the calls into the simulated model, which tests read.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::step::{StepKind, StepStatus};

/// A call into the simulated model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Call {
    /// A sequence was opened.
    Open {
        /// Its prompt.
        tokens: Vec<u32>,
        /// Leading tokens that were said to be cached.
        cached: u32,
        /// Its budget.
        budget: u32,
    },
    /// A step was submitted.
    Submit {
        /// How many steps the model has run before it, over all sequences.
        step: u64,
        /// The kind of the step.
        kind: StepKind,
        /// Steps in flight, this one included.
        in_flight: u32,
        /// When the call was made.
        at_ns: u64,
    },
    /// A range of a step that feeds was submitted, but not the last one, with which the step is.
    Range {
        /// When the call was made.
        at_ns: u64,
    },
    /// A step was observed.
    Wait {
        /// How many steps the model has run before it, over all sequences.
        step: u64,
        /// What it did for its first lane.
        status: StepStatus,
        /// When the call returned.
        at_ns: u64,
    },
    /// A copy of a recurrent state was queued.
    Keep {
        /// Into which slot.
        slot: u32,
    },
    /// The gate of a step was opened for one of its sequences.
    OpenGate {
        /// How many steps the model has run before it, over all sequences.
        step: u64,
        /// When the call was made.
        at_ns: u64,
    },
    /// A sequence was cancelled.
    Cancel {
        /// Steps that were in flight.
        in_flight: u32,
    },
}

/// Reads the calls into a model that may be elsewhere, for example on an engine's thread.
#[derive(Debug, Clone, Default)]
pub struct Probe {
    calls: Arc<Mutex<Vec<Call>>>,
}

impl Probe {
    /// The calls so far.
    pub fn calls(&self) -> Vec<Call> {
        self.lock().clone()
    }

    /// The most steps that were ever in flight.
    pub fn most_in_flight(&self) -> u32 {
        let in_flight = |call: &Call| if let Call::Submit { in_flight, .. } = call { *in_flight } else { 0 };
        self.lock().iter().map(in_flight).max().unwrap_or(0)
    }

    /// Steps submitted so far.
    pub fn submits(&self) -> u64 {
        self.lock().iter().filter(|call| matches!(call, Call::Submit { .. })).count() as u64
    }

    /// How many times a sequence was cancelled.
    pub fn cancels(&self) -> u64 {
        self.lock().iter().filter(|call| matches!(call, Call::Cancel { .. })).count() as u64
    }

    pub(super) fn note(&self, call: Call) {
        self.lock().push(call);
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Call>> {
        // A panic elsewhere leaves the list whole.
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
