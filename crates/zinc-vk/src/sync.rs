//! The atomics and the lock that timelines are made of.
//!
//! Threads that wait and threads that signal meet in them. The crate's unit tests replace them with loom's, which goes through the
//! interleavings of the real code.

#[cfg(not(test))]
mod real {
    pub(crate) use std::sync::atomic::AtomicU64;

    pub(crate) use parking_lot::Mutex;
}

#[cfg(test)]
#[path = "sync/loom.rs"]
mod real;

pub(crate) use real::{AtomicU64, Mutex};
