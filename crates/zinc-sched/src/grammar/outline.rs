//! Texts with values of JSON schemas in them: tool calls, whose arguments are JSON between marks.

use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use llguidance::api::GrammarInit;
use llguidance::derivre::RegexAst;

use super::builder::{Builder, Symbol};
use super::error::GrammarError;
use super::schema::{Schema, Source, Spacing};

/// Outlines inside of each other.
const MAX_DEPTH: usize = 64;
/// The parts of an outline, with all that are inside of them.
const MAX_PARTS: usize = 100_000;

/// What a text consists of. White space is only where the outline has it, and between the tokens of JSON.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outline {
    /// This text.
    Text(String),
    /// The control token that is written like this, if the vocabulary has one, or else the text.
    Mark(String),
    /// A value of a JSON schema.
    Json {
        /// What errors call it.
        name: String,
        /// The text of the schema.
        schema: Arc<str>,
        /// Where in that text the schema of the value is: names of members and numbers of items, from the top. References lead through the
        /// whole text.
        path: Vec<String>,
    },
    /// Any text that ends with this one and does not contain it before.
    Until(String),
    /// All of them, in this order.
    Sequence(Vec<Outline>),
    /// One of them.
    Choice(Vec<Outline>),
    /// The same part several times.
    Repeat {
        /// The part.
        part: Box<Outline>,
        /// How often at least.
        min: u32,
        /// How often at most; `None` for any number.
        max: Option<u32>,
    },
}

/// The grammar of the texts of an outline. `control` finds control tokens by what they are written like.
///
/// # Errors
/// [`GrammarError::Part`] for a schema that cannot be used, [`GrammarError::Grammar`] for all else.
pub(super) fn grammar(outline: &Outline, control: &dyn Fn(&str) -> Option<u32>) -> Result<GrammarInit, GrammarError> {
    let mut schemas = Schemas { all: HashMap::new(), sources: HashMap::new(), parts: 0 };
    schemas.read(outline, 0)?;
    let builder = Builder::new(None).map_err(reason)?;
    let mut writer = Writer { schemas: schemas.all, symbols: HashMap::new(), builder, control };
    let root = writer.write(outline)?;
    writer.builder.finish(root).map_err(reason)
}

fn reason(reason: String) -> GrammarError {
    GrammarError::Grammar { reason }
}

/// A schema by its text and the path into it.
type Key<'o> = (&'o str, &'o [String]);

/// The schemas of an outline.
struct Schemas<'o> {
    all: HashMap<Key<'o>, Schema>,
    /// Their texts, each read once.
    sources: HashMap<&'o str, Rc<Source>>,
    /// Parts looked at so far.
    parts: usize,
}

impl<'o> Schemas<'o> {
    fn read(&mut self, outline: &'o Outline, depth: usize) -> Result<(), GrammarError> {
        self.parts += 1;
        if depth > MAX_DEPTH || self.parts > MAX_PARTS {
            return Err(reason(format!(
                "it has more than {MAX_PARTS} parts or more than {MAX_DEPTH} inside of each other"
            )));
        }
        match outline {
            Outline::Text(_) | Outline::Mark(_) | Outline::Until(_) => Ok(()),
            Outline::Json { name, schema, path } => {
                if self.all.contains_key(&(&**schema, &**path)) {
                    return Ok(());
                }
                let part = |source| GrammarError::Part { name: name.clone(), source: Box::new(source) };
                let source = match self.sources.get(&**schema) {
                    Some(source) => source.clone(),
                    None => Rc::new(Source::read(schema).map_err(part)?),
                };
                let read = Schema::find(&source, path).map_err(part)?;
                self.sources.insert(schema, source);
                self.all.insert((schema, path), read);
                Ok(())
            }
            Outline::Sequence(parts) | Outline::Choice(parts) => {
                parts.iter().try_for_each(|part| self.read(part, depth + 1))
            }
            Outline::Repeat { part, .. } => self.read(part, depth + 1),
        }
    }
}

struct Writer<'o> {
    schemas: HashMap<Key<'o>, Schema>,
    /// What has been written of them.
    symbols: HashMap<Key<'o>, Symbol>,
    builder: Builder,
    control: &'o dyn Fn(&str) -> Option<u32>,
}

impl<'o> Writer<'o> {
    fn write(&mut self, outline: &'o Outline) -> Result<Symbol, GrammarError> {
        self.builder.check_size().map_err(reason)?;
        match outline {
            Outline::Text(text) if text.is_empty() => Ok(self.builder.empty()),
            Outline::Text(text) => self.builder.literal(text).map_err(reason),
            Outline::Mark(text) => match (self.control)(text) {
                Some(id) => self.builder.token(text, id).map_err(reason),
                None => self.builder.literal(text).map_err(reason),
            },
            Outline::Until(end) if end.is_empty() => Err(reason("a text cannot end with the empty text".to_owned())),
            Outline::Until(end) => self.builder.lexeme(&until(end)).map_err(reason),
            Outline::Json { name, schema, path } => self.json(name, (schema, path)),
            Outline::Sequence(parts) => {
                let parts = parts.iter().map(|part| self.write(part)).collect::<Result<Vec<_>, _>>()?;
                self.builder.join(&parts).map_err(reason)
            }
            Outline::Choice(parts) if parts.is_empty() => Err(reason("there is nothing to choose from".to_owned())),
            Outline::Choice(parts) => {
                let parts = parts.iter().map(|part| self.write(part)).collect::<Result<Vec<_>, _>>()?;
                self.builder.choice(&parts).map_err(reason)
            }
            &Outline::Repeat { ref part, min, max } => {
                if max.is_some_and(|max| max < min) {
                    return Err(reason(format!(
                        "a part cannot come at least {min} and at most {} times",
                        max.unwrap_or(0)
                    )));
                }
                let part = self.write(part)?;
                self.builder.repeat(part, u64::from(min), max.map(u64::from)).map_err(reason)
            }
        }
    }

    fn json(&mut self, name: &str, key: Key<'o>) -> Result<Symbol, GrammarError> {
        if let Some(&symbol) = self.symbols.get(&key) {
            return Ok(symbol);
        }
        let part = |source| GrammarError::Part { name: name.to_owned(), source: Box::new(source) };
        let symbol = self.schemas[&key].write(&mut self.builder, Spacing::OfTokens).map_err(part)?;
        self.symbols.insert(key, symbol);
        Ok(symbol)
    }
}

/// Texts that end with `end` and do not contain it before.
fn until(end: &str) -> RegexAst {
    let any = || RegexAst::Regex("(?s:.*)".to_owned());
    let end = || RegexAst::Literal(end.to_owned());
    let more = RegexAst::Regex("(?s:.+)".to_owned());
    let earlier = RegexAst::Concat(vec![any(), end(), more]);
    RegexAst::And(vec![RegexAst::Concat(vec![any(), end()]), RegexAst::Not(Box::new(earlier))])
}
