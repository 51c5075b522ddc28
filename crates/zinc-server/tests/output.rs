//! Answers taken apart into reasoning, content and tool calls.

#[path = "output/answers.rs"]
mod answers;
#[path = "output/cuts.rs"]
mod cuts;
#[path = "output/harmony.rs"]
mod harmony;
#[path = "matrix/mod.rs"]
mod matrix;
#[path = "output/reports.rs"]
mod reports;
#[path = "output/support.rs"]
mod support;
