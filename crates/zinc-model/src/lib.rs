//! Models of the Qwen and Llama families: from a GGUF file to the commands of a forward pass.
//!
//! ```no_run
//! use std::sync::Arc;
//!
//! use zinc_kernels::ops::CacheFormat;
//! use zinc_model::interpret::Interpreter;
//! use zinc_model::plan::CacheOptions;
//! use zinc_model::{Model, Special, Tokenizer};
//!
//! # fn main() -> zinc_model::Result<()> {
//! let model = Model::open("model.gguf")?;
//! let tokenizer = Tokenizer::from_gguf(&model.file)?;
//! let ids = tokenizer.encode("What is a telescope?", Special::Plain)?;
//! let cache = CacheOptions::new(256, CacheFormat::F16, CacheFormat::F16);
//! let mut interpreter = Interpreter::new(Arc::new(model), cache);
//! interpreter.tokens[..ids.len()].copy_from_slice(&ids);
//! // examples/answer.rs goes on from here to the text of an answer.
//! # Ok(())
//! # }
//! ```
//!
//! # A tour
//!
//! 1. [`gguf::File`] reads a file, split ones included; [`gguf::Writer`] writes one. [`config::ModelConfig`] says what kind of network a
//!    file holds and which tensors it must have.
//! 2. [`Tokenizer`] turns text into ids and ids into text. [`ChatTemplate`] makes the prompt of a conversation. Both work on files that
//!    hold a vocabulary alone.
//! 3. [`Model::open`] opens a file, finds its [`weights`] and checks that zinc can run it. The weights stay in the mapped file.
//! 4. [`plan::StepPlan`] is the forward pass of one step, a list of operations in network order. The interpreter, the recorder, the pass that
//!    places barriers and the cost model read that list.
//! 5. [`interpret::Interpreter`] runs a plan on the host, by the references of zinc-kernels. It defines what devices must compute, and is
//!    slow.
//! 6. [`memory::MemoryPlan`] works out how many bytes a model needs before anything is uploaded. `device::DeviceModel` uploads the
//!    weights to a Vulkan device and records plans.
//!
//! The loop that submits steps, sequences and the parameters of sampling are in zinc-sched, the kernels in zinc-kernels.
//!
//! # Features
//!
//! `vk` (default) adds `device`. Without it the crate needs no Vulkan.
//!
//! # Errors and panics
//!
//! [`Error`] is for what a caller cannot foresee: files, memory, a lost device. No file can cause a panic or an allocation larger than
//! the file justifies.

pub mod config;
#[cfg(feature = "vk")]
pub mod device;
mod error;
pub mod gguf;
pub mod interpret;
pub mod memory;
mod model;
pub mod plan;
mod rotation;
pub mod template;
pub mod tokenizer;
pub mod weights;

pub use config::ModelConfig;
pub use error::{Error, Result};
pub use model::Model;
pub use rotation::rotation_table;
pub use template::{ChatInput, ChatTemplate};
pub use tokenizer::{Special, Tokenizer};

/// Compiles the example of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
