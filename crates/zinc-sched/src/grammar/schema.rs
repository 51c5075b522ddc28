//! JSON schemas as grammars.
//!
//! llguidance has a compiler of its own for them, which reads numbers as doubles and patterns as those of Rust, follows references by
//! recursion, and refuses keywords that restrict nothing. This one is exact where it accepts a schema: every text of the grammar is a
//! value that the schema allows. The other way round, some values are never written: see docs/constraints.md.
//!
//! 1. [`document`] reads the text; numbers keep their digits.
//! 2. [`keywords`] says what each keyword means, [`references`] where a `$ref` leads.
//! 3. [`expand`] resolves what applies to one value into alternatives, each a list of [`facts`].
//! 4. [`goals`] does so for the answer, its items and properties, and finds out which of these values exist at all.
//! 5. [`write`] makes the grammar.

mod decimal;
mod document;
mod expand;
mod facts;
mod formats;
mod goals;
mod keywords;
mod number;
mod options;
mod references;
mod text;
mod write;

use llguidance::api::GrammarInit;

use super::error::GrammarError;
use document::{At, Document, Json, ROOT};
use facts::Member;

/// What is wrong with a schema, and where.
#[derive(Debug)]
struct Problem {
    at: At,
    reason: String,
}

impl Problem {
    fn new(at: At, reason: String) -> Self {
        Self { at, reason }
    }
}

/// The grammar of the JSON texts that a schema allows.
///
/// # Errors
/// [`GrammarError::Json`], [`GrammarError::Schema`].
pub(super) fn grammar(text: &str) -> Result<GrammarInit, GrammarError> {
    let document = Document::parse(text)?;
    let options = options::Options::of(&document)?;
    let place =
        |problem: Problem| GrammarError::Schema { pointer: document.pointer(problem.at), reason: problem.reason };
    if !matches!(document.get(ROOT), Json::Bool(_) | Json::Object(_)) {
        return Err(place(Problem::new(ROOT, "a schema is an object, true or false".to_owned())));
    }
    let goals = goals::Goals::find(&document, &options).map_err(place)?;
    write::grammar(&goals, &options).map_err(|(id, reason)| {
        let members = &goals.goals[id].members;
        let at = members.iter().find_map(|member| match member {
            Member::Schema(at) | Member::Value(at) => Some(*at),
            Member::Nothing => None,
        });
        place(Problem::new(at.unwrap_or(ROOT), reason))
    })
}

#[cfg(test)]
mod tests;
