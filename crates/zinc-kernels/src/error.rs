//! What a user can ask for and not get.

use crate::generated::sampler::MAX_TAIL;

/// Why the sampler chain cannot be set up as asked.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A parameter of a sampler is outside its range.
    #[error("{name} is {value}; it can be from {least} to {most}")]
    OutOfRange {
        /// The parameter, by its name in [`SamplerSettings`](crate::sampler::SamplerSettings).
        name: &'static str,
        /// What was asked for.
        value: f64,
        /// The smallest value.
        least: f64,
        /// The largest value.
        most: f64,
    },
    /// A logit bias or a sequence breaker names a token that does not exist.
    #[error("token {token} is not in the vocabulary of {vocabulary} tokens")]
    UnknownToken {
        /// The id that was given.
        token: u32,
        /// Tokens of the model.
        vocabulary: u32,
    },
    /// A logit bias is plus infinity or not a number.
    #[error("the bias of token {token} is {bias}; it can be finite, or -inf to forbid the token")]
    Bias {
        /// The token.
        token: u32,
        /// What was to be added to its logit.
        bias: f32,
    },
    /// A sequence breaker has no tokens or too many.
    #[error("a sequence breaker of {tokens} tokens; it can have from 1 to {most}", most = MAX_TAIL + 1)]
    BreakerLength {
        /// Its tokens.
        tokens: usize,
    },
}
