//! The `zinc` command as a user runs it: the built program, its output and its exit status.

mod broken_input;
mod cache_faults;
mod constraints;
mod generation;
mod measuring;
mod proof;
mod sampling;
mod support;
mod terminal;
mod text;
