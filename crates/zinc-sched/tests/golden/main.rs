//! Models against values that other programs computed.

mod demo;
mod gpu;
mod models;
