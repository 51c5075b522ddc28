//! Models on the device: against values that other programs computed, op by op against the interpreter, and that their weights arrive.

#![allow(clippy::print_stdout, reason = "the table of errors is for whoever reads the output")]

mod demo;
mod gpu;
mod op_by_op;
mod tiny;
mod weights;
