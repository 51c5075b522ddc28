//! The `zinc` command as a user runs it: the built program, its output and its exit status.

mod broken_input;
#[cfg(unix)]
mod cache_faults;
mod constraints;
mod generation;
mod habits;
mod measuring;
mod proof;
mod sampling;
mod support;
#[cfg(unix)]
mod terminal;
mod text;
