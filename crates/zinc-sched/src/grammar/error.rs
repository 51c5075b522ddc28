//! What can be wrong with a grammar, and with a text under it.

/// Why there is no constraint, or why it ended a request.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GrammarError {
    /// A JSON schema whose text is not JSON.
    #[error("the JSON schema is not JSON: line {line}, column {column}: {reason}")]
    Json {
        /// Line, from 1.
        line: usize,
        /// Column, from 1.
        column: usize,
        /// What is wrong there.
        reason: String,
    },
    /// A JSON schema that is none, that no value matches, or that uses what is not supported.
    #[error("the JSON schema cannot be used: at \"{pointer}\": {reason}")]
    Schema {
        /// The smallest schema in it that cannot be used, as a JSON pointer; empty for the whole.
        pointer: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A GBNF grammar that is none.
    #[error("the GBNF grammar cannot be read: line {line}, column {column}: {reason}")]
    Gbnf {
        /// Line, from 1.
        line: usize,
        /// Column, from 1, in characters.
        column: usize,
        /// What is wrong there.
        reason: String,
    },
    /// A regular expression that is none, that no text matches, or that uses what is not supported: look-around, word boundaries,
    /// back-references.
    #[error("the regular expression cannot be used: {reason}")]
    Regex {
        /// What is wrong with it, and where.
        reason: String,
    },
    /// A Lark grammar that is none, or any grammar that is too large or that no text matches.
    #[error("the grammar cannot be used: {reason}")]
    Grammar {
        /// What is wrong with it, and, in Lark, at which `line(column)`.
        reason: String,
    },
    /// A part of an outline that cannot be used.
    #[error("{name}: {source}")]
    Part {
        /// What the outline calls the part.
        name: String,
        /// What is wrong with it.
        source: Box<GrammarError>,
    },
    /// A vocabulary that grammars cannot be matched over.
    #[error(
        "grammars need a vocabulary of at most {max_tokens} tokens and {max_bytes} bytes; this one has {tokens} and {bytes}"
    )]
    Vocabulary {
        /// Tokens.
        tokens: usize,
        /// Bytes of all of them.
        bytes: usize,
        /// The most tokens.
        max_tokens: usize,
        /// The most bytes.
        max_bytes: usize,
    },
    /// A token came that was not allowed.
    #[error("token {token} ({text:?}) is not allowed after {tokens} tokens that end in {end:?}")]
    NotAllowed {
        /// The token.
        token: u32,
        /// Its text.
        text: String,
        /// Tokens before it.
        tokens: usize,
        /// The end of their text.
        end: String,
    },
    /// The text is not complete and no token continues it.
    #[error("no token of the vocabulary continues the text after {tokens} tokens that end in {end:?}")]
    NoContinuation {
        /// Tokens so far.
        tokens: usize,
        /// The end of their text.
        end: String,
    },
    /// Working out what may come next takes more than the limits allow.
    #[error("the grammar is too complex after {tokens} tokens that end in {end:?}: {reason}")]
    TooComplex {
        /// Tokens so far.
        tokens: usize,
        /// The end of their text.
        end: String,
        /// Which limit, or what failed.
        reason: String,
    },
}
