//! What answers requests: a model that zinc-engine drives, or the scripted model of [`fake`](crate::fake). The server knows neither more closely.

mod loaded;

use serde::Serialize;
use zinc_engine::{AnswerOptions, Ending, Result, TextPiece};
use zinc_model::{ChatInput, Special};
use zinc_sched::{CancelHandle, Durations, PromptProgress, SpeculationStats, Status, Token, Usage};

pub use loaded::Loaded;

/// A model that answers requests. Its functions may take milliseconds and are called on threads that may block.
pub trait Backend: Send + Sync + 'static {
    /// What the model is.
    fn facts(&self) -> &Facts;

    /// The prompt of a conversation as text, to be shown.
    ///
    /// # Errors
    /// No template, or one that refuses the messages.
    fn render(&self, input: &ChatInput) -> Result<String>;

    /// The prompt of a conversation as tokens, however many they are.
    ///
    /// # Errors
    /// The errors of [`Self::render`], and a text that the vocabulary cannot express.
    fn chat_prompt(&self, input: &ChatInput) -> Result<Vec<u32>>;

    /// The tokens of a text that begins a prompt, with the token that the model wants there.
    ///
    /// # Errors
    /// A text that the vocabulary cannot express.
    fn text_prompt(&self, text: &str, special: Special) -> Result<Vec<u32>>;

    /// The tokens of a text by itself.
    ///
    /// # Errors
    /// A text that the vocabulary cannot express.
    fn encode(&self, text: &str, special: Special) -> Result<Vec<u32>>;

    /// The text of tokens, control tokens included.
    fn decode(&self, ids: &[u32]) -> String;

    /// The bytes of a token, which need not be UTF-8; `None` outside of the vocabulary.
    fn token_bytes(&self, id: u32) -> Option<Vec<u8>>;

    /// The id of a control token by its text.
    fn control_token(&self, text: &str) -> Option<u32>;

    /// Queues a request. Its stop strings are none of the backend's business: [`AnswerOptions::stops`] is empty.
    ///
    /// # Errors
    /// A prompt that does not fit, parameters outside their ranges, a constraint that cannot be made, a full queue.
    fn start(&self, prompt: Vec<u32>, options: AnswerOptions) -> Result<Running>;

    /// How much there is to do at the moment.
    fn status(&self) -> Status;

    /// Takes no further requests.
    fn drain(&self);
}

/// A request that waits or runs.
pub struct Running {
    /// Its events, the last of which is [`BackendEvent::Ended`] or an error. The iterator blocks.
    pub events: Box<dyn Iterator<Item = Result<BackendEvent>> + Send>,
    /// Cancels the request from any thread, in any phase; its events then end soon.
    pub cancel: CancelHandle,
}

/// What comes of a request.
#[derive(Clone, Debug)]
pub enum BackendEvent {
    /// How far the prompt has come.
    Prompt(PromptProgress),
    /// A token of the prompt, from the first on, if the request wants their log-probabilities.
    Scored(Token),
    /// A piece of text with its tokens.
    Text(TextPiece),
    /// The end.
    Ended(BackendEnd),
}

/// How a request has ended.
#[derive(Clone, Copy, Debug)]
pub struct BackendEnd {
    /// Why.
    pub ending: Ending,
    /// How many tokens it had.
    pub usage: Usage,
    /// How long its parts took.
    pub durations: Durations,
    /// Its drafts.
    pub speculation: SpeculationStats,
}

/// What a model is, for those who ask.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// The name of its file, without its folder and its ending.
    pub name: String,
    /// Its family, as GGUF files name it.
    pub architecture: String,
    /// Tokens of context that one request may have.
    pub context_tokens: u32,
    /// Tokens of context that the model was trained for; 0 is unknown.
    pub trained_tokens: u32,
    /// Tokens of its vocabulary.
    pub vocabulary_tokens: u32,
    /// Requests that run at the same time.
    pub lanes: u32,
    /// Width of its vectors.
    pub embedding_width: u32,
    /// Number of its weights.
    pub parameters: u64,
    /// Bytes of its weights.
    pub bytes: u64,
    /// The format that most of its weights have, as in `Q4_K`; empty where there is none.
    pub quantisation: String,
    /// The source of its chat template.
    pub template: Option<String>,
    /// The text of the token that begins a text.
    pub bos: String,
    /// The text of the token that ends one.
    pub eos: String,
    /// The tokens for filling in a gap of a text.
    pub infill: InfillTokens,
    /// The device that it runs on.
    pub device: String,
}

/// The control tokens by which a model fills in a gap of a text; `None` where the vocabulary does not have one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct InfillTokens {
    /// Before the text in front of the gap.
    pub prefix: Option<u32>,
    /// Before the text behind the gap.
    pub suffix: Option<u32>,
    /// Where the text of the gap begins.
    pub middle: Option<u32>,
    /// Before the name of a repository.
    pub repository: Option<u32>,
    /// Before the name of a file.
    pub separator: Option<u32>,
}
