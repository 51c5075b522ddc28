//! Models on the device: against values that other programs computed, op by op against the interpreter, several tokens at once against one by
//! one, driven in every way and cancelled at any moment, and that their weights arrive.

#![allow(clippy::print_stdout, reason = "the table of errors is for whoever reads the output")]

mod arch;
mod cache;
mod checkpoints;
mod company;
mod crowd;
mod demo;
mod drafted;
mod feed_decode;
mod gpt_oss;
mod gpu;
mod interleaved;
mod long;
#[path = "../support/matrix.rs"]
mod matrix;
mod mtp;
mod op_by_op;
mod pages;
mod poisoned;
mod pressure;
mod qwen35;
mod ranges;
mod rings;
mod rows;
mod score;
mod secrets;
mod several_prompts;
mod splits;
mod tiny;
mod ways;
mod weights;
mod workloads;
