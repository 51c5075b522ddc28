//! How values are written: white space, separators and escapes, which an object `x-guidance` at the top of a schema can set.

use llguidance::derivre::{JsonQuoteOptions, RegexAst};

use super::document::{Document, Json, ROOT};
use crate::grammar::error::GrammarError;

/// The member of a schema that holds the options; llguidance's name for it.
const KEY: &str = "x-guidance";

/// White space between two tokens of JSON, as llama.cpp has it: enough for one line and for indented lines, and bounded, because models
/// that may write any amount of white space sometimes write nothing else.
const WHITE_SPACE: &str = r" |\n{1,2}[ \t]{0,20}";

/// How values are written.
#[derive(Debug)]
pub(super) struct Options {
    /// White space between tokens; `None` for none.
    pub(super) white_space: Option<String>,
    /// Regular expressions for what is between items, and between a name and its value.
    pub(super) item_separator: String,
    pub(super) key_separator: String,
    /// Whether `oneOf` is read as `anyOf` where its alternatives may overlap.
    pub(super) coerce_one_of: bool,
    /// Letters that may follow a backslash in a string.
    escapes: String,
}

impl Options {
    /// The options that a schema sets, or their defaults.
    ///
    /// # Errors
    /// [`GrammarError::Schema`] for an option that does not exist or has another type.
    pub(super) fn of(document: &Document) -> Result<Self, GrammarError> {
        let mut options = Self {
            white_space: Some(WHITE_SPACE.to_owned()),
            item_separator: ",".to_owned(),
            key_separator: ":".to_owned(),
            coerce_one_of: false,
            escapes: "nrbtf\\\"u".to_owned(),
        };
        let Some(at) = document.member(ROOT, KEY) else { return Ok(options) };
        let (mut flexible, mut pattern) = (None, None);
        for (name, value) in document.members(at) {
            match (&**name, document.get(*value)) {
                ("whitespace_flexible", Json::Bool(value)) => flexible = Some(*value),
                ("whitespace_pattern", Json::String(value)) => pattern = Some(value.clone()),
                ("whitespace_pattern", Json::Null) => pattern = None,
                ("item_separator", Json::String(value)) => options.item_separator = value.clone(),
                ("key_separator", Json::String(value)) => options.key_separator = value.clone(),
                ("coerce_one_of", Json::Bool(value)) => options.coerce_one_of = *value,
                ("json_allowed_escapes", Json::String(value)) if value.chars().all(|c| "nrbtf\\\"u".contains(c)) => {
                    options.escapes = value.clone();
                }
                _ => {
                    let reason = format!("there is no option `{name}` with the value {}", document.excerpt(*value));
                    return Err(GrammarError::Schema { pointer: document.pointer(*value), reason });
                }
            }
        }
        options.white_space = match (pattern, flexible) {
            (Some(pattern), _) => Some(pattern),
            (None, Some(true)) => Some(r"[ \n\r\t]+".to_owned()),
            (None, Some(false)) => None,
            (None, None) => options.white_space,
        };
        Ok(options)
    }

    /// Strings that match an expression, in quotes and escaped.
    pub(super) fn quote(&self, strings: RegexAst) -> RegexAst {
        let options = JsonQuoteOptions { allowed_escapes: self.escapes.clone(), raw_mode: false };
        RegexAst::JsonQuote(Box::new(strings), options)
    }
}
