//! Models of the Qwen and Llama families: from a GGUF file to the commands of a forward pass.
//!
//! - [`gguf`] reads and writes model files; [`config`] says what kind of network a file holds and which tensors it must have.
//! - [`tokenizer`] and [`template`] turn text into ids and conversations into text. They work on files that hold a vocabulary alone.
//! - [`Model`] is a file that zinc can run, with its [`weights`] found and checked.
//! - [`plan`] writes the forward pass down as a list of operations. [`interpret`] runs it on the host, by the kernels' references;
//!   `device` loads the weights onto a Vulkan device and records it.
//! - [`memory`] works out what that takes before anything is uploaded.
//!
//! The loop that submits steps, sequences and the parameters of sampling are in zinc-sched, the kernels in zinc-kernels.
//!
//! The feature `vk` (default) adds `device`. Without it the crate needs no Vulkan.

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
