//! The atomics and the lock of timelines, where threads that wait meet threads that signal.
//!
//! The crate's unit tests get loom's instead, with which they go through the interleavings of the real code.

#[cfg(not(test))]
mod real {
    pub(crate) use std::sync::atomic::AtomicU64;

    pub(crate) use parking_lot::Mutex;
}

#[cfg(test)]
#[path = "sync/loom.rs"]
mod real;

pub(crate) use real::{AtomicU64, Mutex};
