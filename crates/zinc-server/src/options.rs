//! What a server can be told.

use std::net::IpAddr;
use std::time::Duration;

use serde::Deserialize;
use utoipa::ToSchema;
use zinc_engine::AnswerOptions;

use crate::auth::Keys;

/// Where the thoughts of an answer of `/v1/chat/completions` are, by llama-server's names. The other APIs have a place of their own for thoughts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ReasoningFormat {
    /// As [`Self::Deepseek`].
    #[default]
    Auto,
    /// In the content, between the model's tags.
    None,
    /// In a field of their own.
    Deepseek,
    /// In both places.
    DeepseekLegacy,
}

impl ReasoningFormat {
    /// Whether they are in a field of their own.
    pub(crate) fn has_field(self) -> bool {
        self != Self::None
    }

    /// Whether they are in the content.
    pub(crate) fn is_in_content(self) -> bool {
        matches!(self, Self::None | Self::DeepseekLegacy)
    }
}

/// The name of the field of thoughts in `/v1/chat/completions`. In requests both names are read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReasoningField {
    /// `reasoning_content`, as llama-server and DeepSeek write it.
    #[default]
    ReasoningContent,
    /// `reasoning`, as OpenRouter, vLLM and ollama write it.
    Reasoning,
    /// Both.
    Both,
}

impl ReasoningField {
    /// A text of thoughts as `reasoning_content` and as `reasoning`.
    pub(crate) fn named<T: Clone>(self, text: T) -> (Option<T>, Option<T>) {
        match self {
            Self::ReasoningContent => (Some(text), None),
            Self::Reasoning => (None, Some(text)),
            Self::Both => (Some(text.clone()), Some(text)),
        }
    }
}

/// How a model is served.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ServerOptions {
    /// The address to listen at. Other addresses than those of the machine itself need keys, or [`Self::insecure`].
    pub host: IpAddr,
    /// The port; 0 is one that is free.
    pub port: u16,
    /// The keys of which a request has to have one; none are needed where there are none.
    pub keys: Keys,
    /// Whether anyone who reaches an address of the network may use the server.
    pub insecure: bool,
    /// Names in `Host` headers that are taken without a key, besides `localhost` and numeric addresses.
    pub allowed_hosts: Vec<String>,
    /// Web pages that may use the server, by origin, as in `https://chat.example`; `*` is all.
    pub cors_origins: Vec<String>,
    /// The name that the model has for clients; the one of its file without it.
    pub alias: Option<String>,
    /// How tokens are chosen where a request does not say it.
    pub defaults: AnswerOptions,
    /// Whether a request without a seed has that of [`Self::defaults`], instead of one that nobody can foresee.
    pub fixed_seed: bool,
    /// Where thoughts are where a request does not say it.
    pub reasoning_format: ReasoningFormat,
    /// The name of their field.
    pub reasoning_field: ReasoningField,
    /// The most bytes of a request's body.
    pub most_body_bytes: usize,
    /// The most connections at a time; further ones wait.
    pub most_connections: usize,
    /// The most messages of a conversation.
    pub most_messages: usize,
    /// The most tools of a request.
    pub most_tools: usize,
    /// The most stop strings of a request.
    pub most_stops: usize,
    /// The most answers of one request.
    pub most_choices: u32,
    /// The most bytes of a schema or a grammar.
    pub most_constraint_bytes: usize,
    /// How long the head of a request may take to come, and its body.
    pub timeout: Duration,
    /// The silence in a stream after which a line comes that means nothing, so that nobody takes the connection for dead; `None` for no such lines.
    pub ping: Option<Duration>,
    /// How many events of an answer wait for a reader that is slow.
    pub outlet_events: usize,
    /// How long a reader may let them wait before its request is cancelled.
    pub reader_patience: Duration,
    /// How long running requests may go on once the server is told to end.
    pub drain_limit: Duration,
}

impl ServerOptions {
    /// llama-server's port.
    pub const PORT: u16 = 8080;

    /// A server for this machine alone, without keys.
    #[must_use]
    pub fn new() -> Self {
        Self {
            host: IpAddr::from([127, 0, 0, 1]),
            port: Self::PORT,
            keys: Keys::default(),
            insecure: false,
            allowed_hosts: Vec::new(),
            cors_origins: Vec::new(),
            alias: None,
            defaults: AnswerOptions::new(),
            fixed_seed: false,
            reasoning_format: ReasoningFormat::Auto,
            reasoning_field: ReasoningField::ReasoningContent,
            most_body_bytes: 32 << 20,
            most_connections: 4096,
            most_messages: 10_000,
            most_tools: 1024,
            most_stops: 64,
            most_choices: 16,
            most_constraint_bytes: 1 << 20,
            timeout: Duration::from_secs(60),
            ping: Some(Duration::from_secs(10)),
            outlet_events: 1024,
            reader_patience: Duration::from_secs(30),
            drain_limit: Duration::from_secs(30),
        }
    }
}

impl Default for ServerOptions {
    fn default() -> Self {
        Self::new()
    }
}
