//! GGUF files, tokenizers, chat templates and the forward pass of Qwen3-MoE and its relatives as a list of operations.

pub mod config;
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
