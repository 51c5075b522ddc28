//! OpenAI's API.

pub mod chat;
pub mod completions;
pub mod models;
pub mod responses;
mod shared;

pub(crate) use shared::{Head, Header, set_effort};
pub use shared::{StopField, StreamOptions, UsageReply, finish_reason};
