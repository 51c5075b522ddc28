//! JSON schemas as grammars.
//!
//! llguidance has a compiler of its own for them, which reads numbers as doubles and patterns as those of Rust, follows references by
//! recursion, and refuses keywords that restrict nothing. This one is exact where it accepts a schema: every text of the grammar is a
//! value that the schema allows. The other way round, some values are never written: see docs/constraints.md.
//!
//! 1. [`document`] reads the text; numbers keep their digits.
//! 2. [`keywords`] says what each keyword means, [`references`] where a `$ref` leads.
//! 3. [`expand`] resolves what applies to one value into alternatives, each a list of [`facts`]; [`one_of`] says what those of a `oneOf` leave to
//!    each other.
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
mod one_of;
mod options;
mod references;
mod text;
mod write;

use std::rc::Rc;

use llguidance::api::GrammarInit;

use super::builder::{Builder, Symbol};
use super::error::GrammarError;
use document::{At, Document, Json, ROOT};
use facts::Member;
use goals::{GoalId, Goals};
use options::Options;

pub(super) use write::Spacing;

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

    fn into_error(self, document: &Document) -> GrammarError {
        GrammarError::Schema { pointer: document.pointer(self.at), reason: self.reason }
    }
}

/// The text of a schema that has been read.
pub(super) struct Source {
    document: Document,
    options: Options,
}

impl Source {
    /// Reads the text of a schema.
    ///
    /// # Errors
    /// [`GrammarError::Json`], and [`GrammarError::Schema`] for options that do not exist.
    pub(super) fn read(text: &str) -> Result<Self, GrammarError> {
        let document = Document::parse(text)?;
        let options = Options::of(&document)?;
        Ok(Self { document, options })
    }
}

/// A schema in a text, which a value matches.
pub(super) struct Schema {
    source: Rc<Source>,
    goals: Goals,
}

impl Schema {
    /// The schema to which `path` leads, from the top of the text through members and items. References lead through the whole text, whose
    /// options count.
    ///
    /// # Errors
    /// [`GrammarError::Schema`].
    pub(super) fn find(source: &Rc<Source>, path: &[String]) -> Result<Self, GrammarError> {
        let document = &source.document;
        let place = |problem: Problem| problem.into_error(document);
        let mut at = ROOT;
        for step in path {
            let missing = || Problem::new(at, format!("there is no \"{step}\" in it"));
            at = document.part(at, step).ok_or_else(|| place(missing()))?;
        }
        if !matches!(document.get(at), Json::Bool(_) | Json::Object(_)) {
            return Err(place(Problem::new(at, "a schema is an object, true or false".to_owned())));
        }
        let goals = Goals::find(document, at, &source.options).map_err(place)?;
        Ok(Self { source: source.clone(), goals })
    }

    /// Adds the JSON texts that the schema allows to a grammar, as a symbol.
    ///
    /// # Errors
    /// [`GrammarError::Schema`].
    pub(super) fn write(&self, builder: &mut Builder, spacing: Spacing) -> Result<Symbol, GrammarError> {
        write::write(builder, &self.goals, &self.source.options, spacing).map_err(|(id, reason)| self.error(id, reason))
    }

    /// Why a goal cannot be written.
    fn error(&self, id: GoalId, reason: String) -> GrammarError {
        let members = &self.goals.goals[id].members;
        let at = members.iter().find_map(|member| match member {
            Member::Schema(at) | Member::Value(at) => Some(*at),
            Member::Nothing => None,
        });
        Problem::new(at.unwrap_or(ROOT), reason).into_error(&self.source.document)
    }
}

/// The grammar of the JSON texts that a schema allows.
///
/// # Errors
/// [`GrammarError::Json`], [`GrammarError::Schema`].
pub(super) fn grammar(text: &str) -> Result<GrammarInit, GrammarError> {
    let schema = Schema::find(&Rc::new(Source::read(text)?), &[])?;
    let whole = |reason| schema.error(0, reason);
    let mut builder = Builder::new(schema.source.options.white_space.clone()).map_err(whole)?;
    let root = schema.write(&mut builder, Spacing::OfGrammar)?;
    builder.finish(root).map_err(whole)
}

#[cfg(test)]
mod tests;
