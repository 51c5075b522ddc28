//! The `zinc` command as a user meets it: its output and its exit status.
//!
//! Most commands run in the process of the tests. As a process of their own run those that are about processes: exit statuses, streams,
//! signals, terminals, the system's own environment variables.

mod broken_input;
#[cfg(unix)]
mod cache_faults;
mod constraints;
mod generation;
mod habits;
mod measuring;
mod process;
mod proof;
mod rope;
mod sampling;
mod serving;
mod support;
#[cfg(unix)]
mod terminal;
mod text;
