//! ollama's API, for clients that know no other: what they ask a server before they use it, and their two ways of having text made.

pub mod chat;
pub mod generate;
pub mod info;
mod options;
mod reply;
