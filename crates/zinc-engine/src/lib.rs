//! A model from its file to the text of its answers: what every front end of zinc shares.
//!
//! ```no_run
//! use zinc_engine::{AnswerEvent, AnswerOptions, Conversation, LoadedModel, OpenOptions};
//!
//! # fn main() -> zinc_engine::Result<()> {
//! let model = LoadedModel::open("model.gguf", &OpenOptions::new(), &mut |_| {})?;
//! let template = model.file().template()?;
//! let rules = AnswerOptions::new().for_model(model.file())?;
//!
//! let mut conversation = Conversation::new(Some("Be brief."));
//! conversation.say("What is a telescope?");
//! let prompt = model.file().chat_prompt(&template, &conversation.input(Default::default()))?;
//! for event in model.answer(&rules, prompt)? {
//!     match event? {
//!         AnswerEvent::Text(piece) => print!("{}", piece.text),
//!         AnswerEvent::Ended(answer) => conversation.answered(&answer.text),
//!         _ => {}
//!     }
//! }
//! model.close()
//! # }
//! ```
//!
//! # The stages of opening a model
//!
//! [`LoadedModel::open`] does it all. A front end that has something to check before gigabytes are loaded goes stage by stage:
//!
//! 1. [`ModelFile::open`] maps the file, checks that zinc can run the model, makes its tokenizer and decides on the context.
//! 2. Against the [`ModelFile`] are checked: the sampling parameters and the constraint of answers ([`AnswerOptions::for_model`]), the
//!    chat template ([`ModelFile::template`]) and a prompt ([`ModelFile::chat_prompt`], [`ModelFile::text_prompt`]).
//! 3. [`Place::open`] opens Vulkan and a device, or stands for the interpreter. Several models may share it.
//! 4. [`ModelFile::load`] checks that the model fits, uploads it, builds its pipelines and starts the engine's thread.
//!
//! Each stage tells a callback of its progress and of what a user should know ([`OpenEvent`]).
//!
//! # From a conversation to a request
//!
//! A [`Conversation`] keeps the messages. A chat template makes its prompt of them, in which control tokens come from the template alone.
//! [`AnswerRules`], checked against the model's vocabulary, make the request: sampling parameters, the constraint's control, the tokens
//! that end it.
//!
//! # From tokens to text
//!
//! [`AnswerText`] turns ids into text: characters that are spread over several tokens come out whole, control tokens not at all, and
//! nothing behind a stop string does. [`AnswerStream`] does that for a running request, cancels it at a stop string, and ends with an
//! [`Answer`] that says why it ended ([`Ending`]) and what it took.
//!
//! # Invariants
//!
//! - Nothing here prints, exits, or reads flags or environment variables; events go to `tracing`.
//! - A failure to keep something for the next start never fails this one.
//! - Errors that concern one request alone can be told from those of the model: [`Error::concerns_one_request`].

mod answer;
mod conversation;
mod draft;
mod error;
mod estimate;
mod event;
mod file;
mod load;
mod place;
mod rules;
mod samplers;
mod score;
mod scored;
mod text;

pub use answer::{Answer, AnswerEvent, AnswerStream, Ending, TextPiece};
pub use conversation::Conversation;
pub use draft::{DraftOptions, Drafter};
pub use error::{Error, Result};
pub use estimate::Estimate;
pub use event::{Note, OpenEvent};
pub use file::{ContextSize, FileOptions, ModelFile, chat_template};
pub use load::{DeviceModels, DriveOptions, LoadedModel, OpenOptions, SamplingRows, longest_range};
pub use place::{DeviceChoice, DeviceOptions, Place};
pub use rules::{AnswerOptions, AnswerRules, EndTokens, FreeThinking, random_seed};
pub use samplers::SamplerChain;
pub use text::AnswerText;
