//! JSON schemas: each is refused, or what is written by it is JSON.

use serde::de::IgnoredAny;
use zinc_sched::grammar::GrammarSource;

use crate::grammar::{report, written};
use crate::text::{split, text};

/// The first 48 bytes choose what is written by the schema behind them.
pub fn check(data: &[u8]) {
    let (choices, schema) = split::<48>(data);
    let source = GrammarSource::JsonSchema(text(schema).into_owned());
    if let Some((json, true)) = written(&source, &choices)
        && let Err(error) = serde_json::from_slice::<IgnoredAny>(&json)
    {
        report(&format!("{error} in {:?}, written by {source:?}", json.escape_ascii().to_string()));
    }
}
