//! Anthropic's API.

pub mod messages;
