//! The `zinc` command as a user runs it: the built program, its output and its exit status.

mod broken_input;
mod constraints;
mod generation;
mod measuring;
mod proof;
mod sampling;
mod support;
mod text;
