//! Compute kernels for transformer inference: SPIR-V, typed interfaces, weight formats and a CPU reference of each.
//!
//! # A tour
//!
//! 1. A struct of [`ops`], such as [`ops::MatVec`], is an operation with its operands: addresses of buffers, formats and sizes. Its
//!    `dispatch` method turns it into a [`Dispatch`]: the kernel, its specialisation constants, its push constants and its number of
//!    workgroups, chosen for a [`Target`].
//! 2. `Pipelines`, with the feature `vk`, builds the pipeline of a dispatch on a zinc-vk device when it is first needed, and puts the
//!    dispatch into a recording. Without that feature, [`KernelDef`] has the SPIR-V for any other Vulkan code.
//! 3. [`Format`] names a format of weights. [`formats::decode`] decodes rows on the host, and [`formats::repack_rows`] brings them into the
//!    form that kernels read.
//! 4. [`mod@reference`] computes on the host, in plain Rust, what the operations mean. Kernels are compared with it.
//! 5. [`sampler`] turns the parameters of the sampler chain into the tables that its kernels read.
//! 6. [`variants`] lists representative dispatches of every kernel, for tools that look at their machine code.
//!
//! # What holds for all kernels
//!
//! - A kernel is four files of one stem: `shaders/X.comp`, the only source of its interface; `ops/X.rs`, its operation; `reference/X.rs`,
//!   what it computes, on the host; and `tests/kernels/X.rs`, which compares the two. Files of other stems hold what several kernels share.
//!   [`generated`] mirrors the interfaces of the shaders and is written by `cargo xtask shaders`.
//! - Weights keep the bits of their file. On a device the fields of a row's blocks are parted into planes, so that each lane loads 16
//!   aligned bytes. There are exactly two decoders of each format, [`formats::decode`] and `shaders/include/formats.glsl`, equal bit for
//!   bit.
//! - Activations between kernels are f32, or integers of 14 bits ([`ops::ActFormat`]). Row lengths are multiples of 32.
//! - Buffers are device addresses in push constants. Values that vary from model to model are specialisation constants, those that vary from
//!   dispatch to dispatch push constants, and those that vary from token to token words of [`step::StepState`]. Every kernel of a step reads
//!   that state: a table of the step's rows, and the lane whose rows they are. A step whose table is empty does nothing.
//! - A step takes one row or several ([`step::StepShape`]). Each row is computed as if it were alone, to the bit.
//! - Sampling is exact: [`reference::draw`] draws on the host the token that the kernels draw.
//! - Any subgroup width from 8 to 64 works. The width is a specialisation constant, and the host derives each grid from the same number.
//!
//! The crate knows no model and no file. Without the feature `vk` (default) it knows no device either.
//!
//! # Errors and panics
//!
//! [`Error`] is for parameters that a user can choose: those of the sampler chain. Building a pipeline returns zinc-vk's error. Operations
//! whose sizes no kernel handles panic with the numbers, because their caller can check them.

mod delta;
mod error;
pub mod formats;
pub mod generated;
mod heads;
pub mod kernel;
mod logprob_report;
pub mod ops;
pub mod reference;
pub mod sampler;
mod splits;
pub mod step;
mod tiles;
mod tuning;
pub mod variants;

#[cfg(feature = "vk")]
mod check;
#[cfg(feature = "vk")]
mod pipelines;

pub use error::Error;
pub use formats::Format;
pub use kernel::{Dispatch, Groups, HalfUnits, KernelDef, Target, Units};
#[cfg(feature = "vk")]
pub use pipelines::{Pipelines, pipeline_spec};
pub use tuning::{Tuning, UnitBlock};

/// Compiles the example of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
