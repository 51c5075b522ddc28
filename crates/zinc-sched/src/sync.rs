//! The channels, flags and threads that the handle, its generations and the engine's thread share.
//!
//! In the crate's unit tests they are loom's, which runs the real code in every interleaving.

#[cfg(not(test))]
mod real {
    pub(crate) use std::sync::atomic::{AtomicBool, AtomicUsize};
    pub(crate) use std::thread::JoinHandle;

    pub(crate) use crossbeam_channel::{Receiver, Sender, unbounded};

    /// Starts a thread.
    pub(crate) fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> std::io::Result<JoinHandle<()>> {
        std::thread::Builder::new().name(name.into()).spawn(body)
    }
}

#[cfg(test)]
#[path = "sync/loom.rs"]
mod real;

pub(crate) use real::{AtomicBool, AtomicUsize, JoinHandle, Receiver, Sender, spawn, unbounded};
