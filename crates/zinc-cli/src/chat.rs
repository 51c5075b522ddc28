//! The user's side of a conversation: where messages come from, and what they ask for.

mod input;
mod lines;

pub(crate) use input::{HELP, Input};
pub(crate) use lines::{Editing, Line, Lines};
