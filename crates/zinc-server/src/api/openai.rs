//! OpenAI's API.

pub mod chat;
pub mod completions;
pub mod models;
mod shared;

pub use shared::{StopField, StreamOptions, UsageReply, finish_reason};
