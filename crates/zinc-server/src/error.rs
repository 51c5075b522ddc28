//! Why a request is refused or has failed: one type, and the shape that each API gives it.
//!
//! A handler returns [`ApiError`]. The response that axum makes of it carries the error itself along, and the outermost layer of the router
//! writes the body in the shape that clients of the request's path expect.

use std::borrow::Cow;

use axum::Json;
use axum::extract::Request;
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use hyper::body::Body as _;
use serde::Serialize;

/// Says to OpenAI's clients whether another try can help.
const SHOULD_RETRY: HeaderName = HeaderName::from_static("x-should-retry");

/// Seconds after which a client may try again, where nothing better is known.
pub(crate) const RETRY_AFTER_S: u32 = 1;

/// A result whose error is [`ApiError`].
pub type ApiResult<T, E = ApiError> = std::result::Result<T, E>;

/// What kind of failure it is. Each kind has its status and its name in each API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// The request is wrong.
    InvalidRequest,
    /// The prompt is longer than the context.
    ContextExceeded,
    /// There is no key, or a wrong one.
    Authentication,
    /// The request may not be made from where it comes.
    Permission,
    /// There is no such thing at this server.
    NotFound,
    /// The path knows no such method.
    MethodNotAllowed,
    /// The body did not come in time.
    Timeout,
    /// The body is too large.
    TooLarge,
    /// zinc does not do that.
    NotSupported,
    /// Not now: the model loads, the queue is full, or the server is about to end.
    Unavailable,
    /// Something broke.
    Server,
}

impl ErrorKind {
    /// The status of a response.
    #[must_use]
    pub fn status(self) -> StatusCode {
        match self {
            Self::InvalidRequest | Self::ContextExceeded => StatusCode::BAD_REQUEST,
            Self::Authentication => StatusCode::UNAUTHORIZED,
            Self::Permission => StatusCode::FORBIDDEN,
            Self::NotFound => StatusCode::NOT_FOUND,
            Self::MethodNotAllowed => StatusCode::METHOD_NOT_ALLOWED,
            Self::Timeout => StatusCode::REQUEST_TIMEOUT,
            Self::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::NotSupported => StatusCode::NOT_IMPLEMENTED,
            Self::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
            Self::Server => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    /// Whether such an error may come before all of the request's body was read. Behind what is left of it no further request can be found on the
    /// connection, and a client that is not told that the connection ends would send its next one there.
    fn may_leave_the_body(self) -> bool {
        match self {
            Self::Authentication
            | Self::Permission
            | Self::NotFound
            | Self::MethodNotAllowed
            | Self::Timeout
            | Self::TooLarge
            | Self::NotSupported => true,
            Self::InvalidRequest | Self::ContextExceeded | Self::Unavailable | Self::Server => false,
        }
    }

    /// The name in OpenAI's API and llama.cpp's.
    fn openai(self) -> &'static str {
        match self {
            Self::InvalidRequest | Self::MethodNotAllowed | Self::TooLarge | Self::Timeout => "invalid_request_error",
            Self::ContextExceeded => "exceed_context_size_error",
            Self::Authentication => "authentication_error",
            Self::Permission => "permission_error",
            Self::NotFound => "not_found_error",
            Self::NotSupported => "not_supported_error",
            Self::Unavailable => "unavailable_error",
            Self::Server => "server_error",
        }
    }

    /// The name in Anthropic's API.
    fn anthropic(self) -> &'static str {
        match self {
            Self::InvalidRequest | Self::ContextExceeded | Self::MethodNotAllowed | Self::NotSupported => {
                "invalid_request_error"
            }
            Self::Timeout => "timeout_error",
            Self::Authentication => "authentication_error",
            Self::Permission => "permission_error",
            Self::NotFound => "not_found_error",
            Self::TooLarge => "request_too_large",
            Self::Unavailable => "overloaded_error",
            Self::Server => "api_error",
        }
    }
}

/// Why a request is refused or has failed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct ApiError {
    /// What kind of failure it is.
    pub kind: ErrorKind,
    /// What failed, with the numbers, and what to do. It holds no paths.
    pub message: String,
    /// The field of the request that is wrong, as a path with dots.
    pub param: Option<String>,
    /// A word for programs.
    pub code: Option<&'static str>,
    /// Seconds after which another try may succeed.
    pub retry_after_s: Option<u32>,
    /// Tokens of a prompt that is too long, and of the context.
    pub sizes: Option<(u64, u32)>,
}

impl ApiError {
    /// An error of this kind.
    #[must_use]
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), param: None, code: None, retry_after_s: None, sizes: None }
    }

    /// A request whose field `param` is wrong.
    #[must_use]
    pub fn invalid(param: impl Into<String>, message: impl Into<String>) -> Self {
        Self { param: Some(param.into()), ..Self::new(ErrorKind::InvalidRequest, message) }
    }

    /// A request that may succeed in a moment.
    #[must_use]
    pub fn unavailable(message: impl Into<String>, retry_after_s: u32) -> Self {
        Self { retry_after_s: Some(retry_after_s), ..Self::new(ErrorKind::Unavailable, message) }
    }

    /// The same error, of the field `param` if it names none.
    #[must_use]
    pub fn with_param(mut self, param: &str) -> Self {
        self.param.get_or_insert_with(|| param.to_owned());
        self
    }

    /// Whether a client should try the same again; `None` where its own rules are right.
    fn should_retry(&self) -> Option<bool> {
        match self.kind {
            ErrorKind::Unavailable => Some(true),
            ErrorKind::Server | ErrorKind::NotSupported => Some(false),
            _ => None,
        }
    }

    /// The body of OpenAI's API and llama.cpp's.
    #[must_use]
    pub fn openai_body(&self) -> OpenAiError<'_> {
        OpenAiError {
            error: OpenAiErrorFields {
                message: &self.message,
                kind: self.kind.openai(),
                param: self.param.as_deref(),
                code: self.code,
                n_prompt_tokens: self.sizes.map(|(prompt, _)| prompt),
                n_ctx: self.sizes.map(|(_, context)| context),
            },
        }
    }

    /// The body of Anthropic's API.
    #[must_use]
    pub fn anthropic_body(&self) -> AnthropicError<'_> {
        // There is no field for the name of what is wrong, so that the message has to say it.
        let message = match &self.param {
            Some(param) if !self.message.contains(param.as_str()) => Cow::Owned(format!("{param}: {}", self.message)),
            _ => Cow::Borrowed(self.message.as_str()),
        };
        let error = AnthropicErrorFields { kind: self.kind.anthropic(), message };
        AnthropicError { kind: "error", error }
    }

    /// The body of ollama's API.
    #[must_use]
    pub fn ollama_body(&self) -> OllamaError<'_> {
        OllamaError { error: &self.message }
    }
}

/// An error in the shape of OpenAI's API.
#[derive(Debug, Serialize)]
pub struct OpenAiError<'a> {
    error: OpenAiErrorFields<'a>,
}

#[derive(Debug, Serialize)]
struct OpenAiErrorFields<'a> {
    message: &'a str,
    #[serde(rename = "type")]
    kind: &'static str,
    param: Option<&'a str>,
    code: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    n_prompt_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    n_ctx: Option<u32>,
}

/// An error in the shape of Anthropic's API.
#[derive(Debug, Serialize)]
pub struct AnthropicError<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    error: AnthropicErrorFields<'a>,
}

#[derive(Debug, Serialize)]
struct AnthropicErrorFields<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    message: Cow<'a, str>,
}

/// An error in the shape of ollama's API.
#[derive(Debug, Serialize)]
pub struct OllamaError<'a> {
    error: &'a str,
}

impl From<zinc_engine::Error> for ApiError {
    fn from(error: zinc_engine::Error) -> Self {
        use zinc_engine::Error as Engine;
        let message = error.to_string();
        match error {
            Engine::Scheduler(error) => Self::from(error),
            Engine::NoTemplate => {
                Self::invalid("messages", format!("{message}; /v1/completions continues a text without one"))
            }
            Engine::Scored { .. } => Self::invalid("echo", message),
            Engine::Constraint(_) => {
                Self { code: Some("invalid_constraint"), ..Self::new(ErrorKind::InvalidRequest, message) }
            }
            Engine::Model(zinc_model::Error::Template { .. }) => Self::invalid("messages", message),
            Engine::Model(zinc_model::Error::NoByteToken { .. } | zinc_model::Error::Tokenizer(_)) => {
                Self::new(ErrorKind::InvalidRequest, message)
            }
            _ => Self::hidden(&message),
        }
    }
}

impl From<zinc_sched::Error> for ApiError {
    fn from(error: zinc_sched::Error) -> Self {
        use zinc_sched::Error as Scheduler;
        let message = error.to_string();
        match error {
            Scheduler::PromptTooLong { prompt_tokens, context_tokens } => Self {
                code: Some("context_length_exceeded"),
                sizes: Some((prompt_tokens, context_tokens)),
                ..Self::new(ErrorKind::ContextExceeded, message)
            },
            Scheduler::PromptExceedsCache { prompt_tokens, cache_tokens } => Self {
                code: Some("context_length_exceeded"),
                sizes: Some((prompt_tokens, u32::try_from(cache_tokens).unwrap_or(u32::MAX))),
                ..Self::new(ErrorKind::ContextExceeded, message)
            },
            Scheduler::EmptyPrompt | Scheduler::TokenOutsideVocabulary { .. } => Self::invalid("prompt", message),
            Scheduler::InvalidSampling { parameter, .. } => Self::invalid(parameter.replace('-', "_"), message),
            Scheduler::BiasOutsideVocabulary { .. } | Scheduler::BiasesForbidAll { .. } => {
                Self::invalid("logit_bias", message)
            }
            Scheduler::BreakerOutsideVocabulary { .. } | Scheduler::BreakerLength { .. } => {
                Self::invalid("dry_sequence_breakers", message)
            }
            Scheduler::TooManyLogprobs { .. } => Self::invalid("top_logprobs", message),
            Scheduler::QueueFull { .. } => {
                Self { code: Some("queue_full"), ..Self::unavailable(message, RETRY_AFTER_S) }
            }
            Scheduler::Draining => Self::unavailable(message, RETRY_AFTER_S),
            Scheduler::NonFinite { .. } | Scheduler::Control { .. } | Scheduler::Stopped => {
                Self::new(ErrorKind::Server, message)
            }
            Scheduler::Model { .. } => {
                tracing::error!(error = message, "the model has failed");
                let message = "the device has failed while it answered; the server's log says how";
                Self { code: Some("device_failed"), ..Self::new(ErrorKind::Server, message) }
            }
            _ => Self::hidden(&message),
        }
    }
}

impl ApiError {
    /// A failure whose message is for the server's log alone, since it may name files.
    fn hidden(message: &str) -> Self {
        tracing::error!(error = message, "a request has failed");
        Self::new(ErrorKind::Server, "the server has failed; its log says how")
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let mut response = self.kind.status().into_response();
        response.extensions_mut().insert(self);
        response
    }
}

/// The APIs, by the shape of their errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    OpenAi,
    Anthropic,
    Ollama,
}

impl Shape {
    fn of(path: &str) -> Self {
        if path == "/v1/messages" || path.starts_with("/v1/messages/") {
            Self::Anthropic
        } else if path.starts_with("/api/") {
            Self::Ollama
        } else {
            Self::OpenAi
        }
    }
}

/// The outermost layer: gives an error the shape that clients of the path expect.
pub(crate) async fn shaped(request: Request, next: Next) -> Response {
    let shape = Shape::of(request.uri().path());
    let has_body = !request.body().is_end_stream();
    let response = next.run(request).await;
    let Some(error) = response.extensions().get::<ApiError>().cloned() else { return response };
    let mut shaped = match shape {
        Shape::OpenAi => Json(error.openai_body()).into_response(),
        Shape::Anthropic => Json(error.anthropic_body()).into_response(),
        Shape::Ollama => Json(error.ollama_body()).into_response(),
    };
    *shaped.status_mut() = response.status();
    let kept =
        response.headers().iter().filter(|(name, _)| *name != header::CONTENT_LENGTH && *name != header::CONTENT_TYPE);
    let kept: Vec<_> = kept.map(|(name, value)| (name.clone(), value.clone())).collect();
    shaped.headers_mut().extend(kept);
    if let Some(seconds) = error.retry_after_s {
        shaped.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    if let Some(should) = error.should_retry() {
        let should = HeaderValue::from_static(if should { "true" } else { "false" });
        shaped.headers_mut().insert(SHOULD_RETRY, should);
    }
    if has_body && error.kind.may_leave_the_body() {
        shaped.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    if error.kind == ErrorKind::Authentication {
        shaped.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    tracing::debug!(status = shaped.status().as_u16(), error = error.message, "refused");
    shaped
}
