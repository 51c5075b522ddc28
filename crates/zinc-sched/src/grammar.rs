//! Constraints by grammar: JSON schemas, regular expressions, and grammars in Lark and GBNF, over the tokens of a model.
//!
//! ```no_run
//! use zinc_model::{gguf, tokenizer::Tokenizer};
//! use zinc_sched::Request;
//! use zinc_sched::grammar::{GrammarCompiler, GrammarSource};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let tokenizer = Tokenizer::from_gguf(&gguf::File::open("model.gguf")?)?;
//! let compiler = GrammarCompiler::new(&tokenizer)?;
//! let grammar = compiler.compile(&GrammarSource::Regex("yes|no".to_owned()))?;
//! let request = Request::new([1, 2, 3], tokenizer.eog()).with_control(grammar.control());
//! # Ok(())
//! # }
//! ```
//!
//! The work is llguidance's: an Earley parser over a lexer made of derivatives, and a trie of the vocabulary. Here is what it needs to
//! know of a tokenizer, when a text is complete, and the translation of GBNF.
//!
//! - A token is allowed if the text with it can still become a text of the grammar. How the text is cut into tokens is left to the model.
//! - Tokens are bytes: a character may be spread over several.
//! - Control tokens are no text. None is allowed unless a Lark grammar names it (`<|im_start|>`).
//! - An end-of-generation token is allowed exactly where the text is a text of the grammar.

mod error;
mod gbnf;
mod matcher;
mod schema;

use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, PoisonError};

use llguidance::api::{ParserLimits, TopLevelGrammar};
use llguidance::derivre::RegexBuilder;
use llguidance::panic_utils::catch_unwind;
use llguidance::toktrie::{ApproximateTokEnv, INVALID_TOKEN, TokEnv, TokRxInfo, TokTrie};
use llguidance::{ParserFactory, TokenParser};
use zinc_model::tokenizer::Tokenizer;

use crate::control::Control;

pub use error::GrammarError;
pub use matcher::GrammarMatcher;

/// The trie numbers tokens with 24 bits, of which one value is taken.
const MAX_TOKENS: usize = (1 << 24) - 1;
/// The trie numbers its nodes, at most one per byte, with 22 bits.
const MAX_BYTES: usize = (1 << 22) - 1;
/// The trie is at most so deep. Longer tokens are never allowed; the longest of known vocabularies have 128 spaces or so.
const MAX_TOKEN_BYTES: usize = 1000;

/// Items and lexer states for one mask, at some 20,000 a millisecond: a grammar that needs more fails instead of stalling the engine.
const MAX_MASK_ITEMS: usize = 2_000_000;
/// The same for the lexer, at some 14,000 a millisecond.
const MAX_MASK_LEXER_FUEL: u64 = 2_000_000;

/// States of a lexer, at one or two kilobytes each, that are kept for the next text.
const MAX_WARM_STATES: usize = 20_000;

/// What a text has to match.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GrammarSource {
    /// A JSON schema. Properties come in the schema's order, and white space between the tokens of JSON is a blank or a newline with
    /// indentation, unless the schema has an object `x-guidance` that says otherwise.
    JsonSchema(String),
    /// A regular expression in the syntax of the crate `regex`, for the whole text: `^` and `$` at its ends change nothing. It has no
    /// look-around, word boundaries, or back-references.
    Regex(String),
    /// A grammar in llguidance's variant of Lark.
    Lark(String),
    /// A grammar of llama.cpp.
    Gbnf(String),
}

impl GrammarSource {
    /// A grammar in GBNF, if the text begins as that does, with a name and `::=`, or else in Lark.
    pub fn grammar(text: impl Into<String>) -> Self {
        let text = text.into();
        if gbnf::is_gbnf(&text) { Self::Gbnf(text) } else { Self::Lark(text) }
    }
}

/// Makes grammars over the vocabulary of one tokenizer.
///
/// Making it takes a good part of a second for 150,000 tokens; it is made once per tokenizer and shared.
pub struct GrammarCompiler {
    factory: ParserFactory,
    eog: Arc<[u32]>,
}

impl GrammarCompiler {
    /// A compiler over the vocabulary of a tokenizer.
    ///
    /// # Errors
    /// [`GrammarError::Vocabulary`] if it is too large.
    pub fn new(tokenizer: &Tokenizer) -> Result<Self, GrammarError> {
        let words = words(tokenizer)?;
        let eog: Arc<[u32]> = tokenizer.eog().into();
        let vocabulary = u32::try_from(words.len()).expect("the number of tokens was checked");
        let mut trie = TokTrie::from(&TokRxInfo::new(vocabulary, INVALID_TOKEN), &words);
        if !eog.is_empty() {
            trie = trie.with_eos_tokens(&eog);
        }
        // It never forces a tokenization: every way to cut the text into tokens is allowed.
        let environment: TokEnv = Arc::new(ApproximateTokEnv::new(trie));
        let factory = ParserFactory::new_simple(&environment);
        let factory = factory.map_err(|error| GrammarError::Grammar { reason: first_line(&error) })?;
        Ok(Self { factory: configured(factory), eog })
    }

    /// Makes a grammar.
    ///
    /// # Errors
    /// What is wrong with the source, and where.
    pub fn compile(&self, source: &GrammarSource) -> Result<Grammar, GrammarError> {
        let parser = match source {
            GrammarSource::JsonSchema(text) => schema::compile(text, |schema| self.parser(schema))?,
            GrammarSource::Regex(pattern) => {
                // llguidance would report a place in the grammar that it makes of the expression.
                let checked = RegexBuilder::new().mk_regex(pattern);
                checked.map_err(|error| GrammarError::Regex { reason: error.to_string() })?;
                self.parser(TopLevelGrammar::from_regex(pattern)).map_err(|reason| GrammarError::Regex { reason })?
            }
            GrammarSource::Lark(text) => self.lark(text.clone())?,
            GrammarSource::Gbnf(text) => self.lark(gbnf::to_lark(text)?)?,
        };
        Ok(Grammar::new(parser, self.eog.clone()))
    }

    fn lark(&self, text: String) -> Result<TokenParser, GrammarError> {
        self.parser(TopLevelGrammar::from_lark(text)).map_err(|reason| GrammarError::Grammar { reason })
    }

    fn parser(&self, grammar: TopLevelGrammar) -> Result<TokenParser, String> {
        let mut parser = self.factory.create_parser(grammar).map_err(|error| first_line(&error))?;
        parser.start_without_prompt();
        Ok(parser)
    }
}

impl fmt::Debug for GrammarCompiler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let vocabulary = self.factory.tok_env().tok_trie().vocab_size();
        f.debug_struct("GrammarCompiler")
            .field("vocabulary", &vocabulary)
            .field("eog", &self.eog)
            .finish_non_exhaustive()
    }
}

/// A grammar over a vocabulary, ready for any number of texts. Clones share it, and what matchers find out about the lexer: the first
/// texts take the longest.
#[derive(Clone)]
pub struct Grammar {
    parsers: Arc<Mutex<Parsers>>,
    eog: Arc<[u32]>,
}

/// Parsers at the start of a text.
struct Parsers {
    /// Has never seen a text.
    fresh: TokenParser,
    /// Shares the states of its lexer with the matchers that were made of it.
    warm: TokenParser,
}

impl Grammar {
    fn new(fresh: TokenParser, eog: Arc<[u32]>) -> Self {
        let warm = fresh.deep_clone();
        Self { parsers: Arc::new(Mutex::new(Parsers { fresh, warm })), eog }
    }

    /// A matcher for a new text.
    pub fn matcher(&self) -> GrammarMatcher {
        let mut parsers = self.parsers.lock().unwrap_or_else(PoisonError::into_inner);
        let warm = &parsers.warm;
        // A panic in a matcher poisons the lexer that it shares.
        let states = catch_unwind(AssertUnwindSafe(|| Ok(warm.parser.lexer_stats().num_states)));
        if states.map_or(true, |states| states > MAX_WARM_STATES) {
            parsers.warm = parsers.fresh.deep_clone();
        }
        GrammarMatcher::new(parsers.warm.clone(), self.eog.clone())
    }

    /// What makes a request follow the grammar.
    pub fn control(&self) -> Control {
        let grammar = self.clone();
        Control::masked(move || Ok(grammar.matcher()))
    }
}

impl fmt::Debug for Grammar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Grammar").field("eog", &self.eog).finish_non_exhaustive()
    }
}

/// The bytes of every token as llguidance wants them: a marker before control tokens, nothing for what must never come.
fn words(tokenizer: &Tokenizer) -> Result<Vec<Vec<u8>>, GrammarError> {
    let tokens = tokenizer.vocab_size();
    let ids = 0..u32::try_from(tokens).unwrap_or(u32::MAX);
    let words: Vec<Vec<u8>> = ids
        .map(|id| match tokenizer.token_bytes(id) {
            Some(bytes) if bytes.len() > MAX_TOKEN_BYTES => Vec::new(),
            Some(bytes) if tokenizer.is_control(id) => [&[TokTrie::SPECIAL_TOKEN_MARKER], bytes].concat(),
            Some(bytes) if tokenizer.is_text(id) => bytes.to_vec(),
            _ => Vec::new(),
        })
        .collect();
    let bytes = words.iter().map(Vec::len).sum();
    if tokens > MAX_TOKENS || bytes > MAX_BYTES {
        return Err(GrammarError::Vocabulary { tokens, bytes, max_tokens: MAX_TOKENS, max_bytes: MAX_BYTES });
    }
    Ok(words)
}

fn configured(mut factory: ParserFactory) -> ParserFactory {
    // A library prints nothing.
    factory.quiet();
    *factory.limits_mut() = ParserLimits {
        step_max_items: MAX_MASK_ITEMS,
        step_lexer_fuel: MAX_MASK_LEXER_FUEL,
        verbose_errors: false,
        ..ParserLimits::default()
    };
    factory
}

/// What llguidance has to say, without the excerpt of the source below it.
fn first_line(error: &impl fmt::Display) -> String {
    error.to_string().lines().next().unwrap_or_default().to_owned()
}
