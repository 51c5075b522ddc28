//! GGUF files, tokenizers, chat templates and the forward pass of Qwen3-MoE and its relatives as a list of operations.

mod error;
pub mod gguf;
pub mod tokenizer;

pub use error::{Error, Result};
pub use tokenizer::{Special, Tokenizer};
