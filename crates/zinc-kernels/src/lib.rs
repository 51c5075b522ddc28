//! Compute kernels for transformer inference: SPIR-V, typed interfaces, weight formats and a CPU reference of each.
//!
//! A kernel is four files of one stem: `shaders/X.comp` (the only source of its interface), `ops/X.rs` (a typed operation that becomes a
//! [`Dispatch`]), `reference/X.rs` (what it computes, on the host) and `tests/X.rs` (a table that compares the two). Files of other stems
//! hold what several kernels share. [`generated`] mirrors the GLSL interfaces and is written by `cargo xtask shaders`.
//!
//! - Weights keep the bits of their file ([`Format`]); on a device the fields of a row's blocks are parted into planes
//!   ([`formats::repack_rows`]), so that lanes load 16 aligned bytes. There are exactly two decoders, [`formats::decode`] and
//!   `shaders/include/formats.glsl`, equal bit for bit.
//! - Activations between kernels are f32, or integers of 16 or 8 bits ([`ops::ActFormat`]). Row lengths are multiples of 32.
//! - Buffers are device addresses in push constants. What varies per model is a specialisation constant, per dispatch a push constant, per
//!   token a word of [`generated::state::StepState`], which every kernel reads. Its `live` is the number of tokens that the step takes; a
//!   step whose `live` is 0 does nothing.
//! - A step takes one token or several of one sequence ([`ops::Batch`]); each is computed as if it were alone, to the bit.
//! - Sampling is exact: [`sampler`] holds the parameters of its chain, and [`reference::draw`] draws on the host the token that the kernels draw.
//! - Any subgroup width from 8 to 64 works; the width is a specialisation constant, and the host derives each grid from the same number.
//!
//! The crate knows no model and no file. Without the feature `vk` it knows no device either.

mod error;
pub mod formats;
pub mod generated;
pub mod kernel;
mod logprob_report;
pub mod ops;
pub mod reference;
pub mod sampler;
mod tuning;
pub mod variants;

#[cfg(feature = "vk")]
mod pipelines;

pub use error::Error;
pub use formats::Format;
pub use kernel::{Dispatch, KernelDef, Target};
#[cfg(feature = "vk")]
pub use pipelines::{Pipelines, pipeline_spec};
pub use tuning::Tuning;
