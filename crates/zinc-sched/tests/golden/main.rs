//! Models against values that other programs computed.

#![allow(clippy::print_stdout, reason = "the table of errors is for whoever reads the output")]

mod demo;
mod gpu;
mod models;
