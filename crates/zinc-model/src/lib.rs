//! GGUF files, tokenizers, chat templates and the forward pass of Qwen3-MoE and its relatives as a list of operations.

pub mod config;
mod error;
pub mod gguf;
pub mod template;
pub mod tokenizer;

pub use config::ModelConfig;
pub use error::{Error, Result};
pub use template::{ChatInput, ChatTemplate};
pub use tokenizer::{Special, Tokenizer};
