//! Each kernel on a device against its reference, in the module of the kernel's stem; and, in the other modules, what several kernels do
//! together and what holds for all of them.
//!
//! All of it is one test binary, so that the tests share two devices, and a pipeline that one test has built serves the others.

mod adjust;
mod advance;
mod append;
mod attention;
mod attention_rows;
mod cancel;
mod check_bytes;
mod check_halves;
mod choice;
mod choose;
mod delta_conv;
mod delta_layer;
mod delta_net;
mod draws;
mod dry;
mod expert_down;
mod gate_up;
mod gate_up_mul;
mod gather;
mod head_gate;
mod join;
mod last_accepted;
mod last_rows;
mod list;
mod logprob_shares;
mod logprobs;
mod lookup;
mod mat_mul;
mod mat_vec;
#[path = "../../../zinc-sched/tests/support/matrix.rs"]
mod matrix;
mod mtp_norms;
mod no_op;
mod pipelines;
mod products;
mod propose;
mod read;
mod repeat;
mod round;
mod route;
mod router;
mod router_mul;
mod sample;
mod support;
mod truncation;
mod windows;
