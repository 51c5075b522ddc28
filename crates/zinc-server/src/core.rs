//! From a request in no API's shape to the events of its answers: what every API of the server is made of.
//!
//! An API turns its body into an [`Ask`]: a prompt or a conversation, how the answer is to be chosen, and what ends it. [`start`] checks all of that,
//! queues it, and returns an [`Answering`], whose [`Update`]s the API writes in its own shape as they come, or gathers with [`Answering::collect`].
//! To drop an [`Answering`] cancels the request, in whatever phase it is.

mod ask;
mod constrain;
mod effort;
mod event;
mod harmony;
mod message;
mod prompt;
mod read;
mod start;

pub use ask::{Ask, Constraint, Conversation, Prompt, PromptPart, ToolChoice};
pub(crate) use effort::Efforts;
pub use event::{Collected, CollectedCall, End, Event, Reason, TextToken, Timings, Update};
pub(crate) use message::Arguments;
pub use message::{Message, Role, ToolCall, ToolDefinition};
pub(crate) use prompt::rendered;
pub(crate) use start::blocking;
pub use start::{Answering, count, start};
