//! Constraints by grammar: JSON schemas, regular expressions, grammars in Lark and GBNF, and outlines, over the tokens of a model.
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
//! Matching is llguidance's: an Earley parser over a lexer made of derivatives, and a trie of the vocabulary. Here is what it needs to
//! know of a tokenizer, when a text is complete, the compiler of JSON schemas, and the translation of GBNF.
//!
//! - A token is allowed if the text with it can still become a text of the grammar. How the text is cut into tokens is left to the model.
//! - Tokens are bytes: a character may be spread over several.
//! - Control tokens are no text. None is allowed unless a Lark grammar names it (`<|im_start|>`).
//! - An end-of-generation token is allowed exactly where the text is a text of the grammar.

mod builder;
#[cfg(test)]
mod bytes;
mod chars;
mod ecma;
mod emptiness;
mod error;
mod gbnf;
mod matcher;
mod outline;
mod schema;
mod stack;
mod thinking;

use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, PoisonError};

use llguidance::api::{GrammarInit, ParserLimits, TopLevelGrammar};
use llguidance::derivre::RegexBuilder;
use llguidance::panic_utils::catch_unwind;
use llguidance::toktrie::{ApproximateTokEnv, INVALID_TOKEN, TokEnv, TokRxInfo, TokTrie};
use llguidance::{ParserFactory, TokenParser};
use zinc_model::tokenizer::Tokenizer;

use crate::control::Control;

pub use error::GrammarError;
pub use matcher::GrammarMatcher;
pub use outline::Outline;
pub use thinking::{ThinkingStart, ThinkingTags};

/// The trie numbers tokens with 24 bits, of which one value is taken.
const MAX_TOKENS: usize = (1 << 24) - 1;
/// The trie numbers its nodes, at most one per byte, with 22 bits.
const MAX_BYTES: usize = (1 << 22) - 1;
/// The trie is at most so deep. Longer tokens are never allowed; the longest of known vocabularies have 128 spaces or so.
const MAX_TOKEN_BYTES: usize = 1000;

/// Items and lexer states for one mask, at some 20,000 a millisecond: a grammar that needs more fails instead of stalling the engine.
const MAX_MASK_ITEMS: usize = 2_000_000;
/// Items at one place of a text: an object with thousands of members that may all be left out has some for each.
const MAX_ROW_ITEMS: usize = 20_000;
/// Work of the lexer for one mask, at some 14,000 units a millisecond, with the same purpose.
const MAX_MASK_LEXER_FUEL: u64 = 2_000_000;

/// Lines of a grammar in Lark, at most one rule each, and brackets or negations inside of each other: llguidance calls itself for each rule
/// that refers to the next, and for each part of a part.
const MAX_LARK_LINES: usize = 20_000;
const MAX_LARK_NESTING: usize = 10_000;

/// States of a lexer, at one or two kilobytes each, that are kept for the next text.
const MAX_WARM_STATES: usize = 20_000;

/// What a text has to match.
///
/// A source of any depth and size compiles or is an error. Schemas are compiled here, all else by llguidance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GrammarSource {
    /// A JSON schema. Every text is a value that it allows. Properties come in the schema's order, and white space between the tokens of
    /// JSON is a blank or a newline with indentation, unless the schema has an object `x-guidance` that says otherwise. Patterns in it are
    /// those of ECMA-262.
    JsonSchema(String),
    /// A regular expression in the syntax of the crate `regex`, for the whole text: `^` and `$` at its ends change nothing. It has no
    /// look-around, word boundaries, or back-references.
    Regex(String),
    /// A grammar in llguidance's variant of Lark.
    Lark(String),
    /// A grammar of llama.cpp.
    Gbnf(String),
    /// A text with values of JSON schemas in it.
    Outline(Outline),
    /// A header, and behind it a text of the source. No header is the beginning of a longer one, so that it is known where it ends.
    Behind {
        /// The header.
        header: Outline,
        /// What follows.
        source: Box<GrammarSource>,
    },
}

impl GrammarSource {
    /// A grammar in GBNF, if the text begins as that does, with a name and `::=`, or else in Lark.
    pub fn grammar(text: impl Into<String>) -> Self {
        let text = text.into();
        if gbnf::is_gbnf(without_mark(&text)) { Self::Gbnf(text) } else { Self::Lark(text) }
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

    /// Makes a grammar. A byte order mark at the beginning of a source is passed over, except in a regular expression.
    ///
    /// # Errors
    /// What is wrong with the source, and where. A source that no text matches is an error.
    pub fn compile(&self, source: &GrammarSource) -> Result<Grammar, GrammarError> {
        let mut headers = Vec::new();
        let mut source = source;
        while let GrammarSource::Behind { header, source: behind } = source {
            headers.push(self.parsers(&GrammarSource::Outline(header.clone()))?);
            source = behind;
        }
        let text = self.parsers(source)?;
        Ok(Grammar { stages: Arc::new(Stages { headers, text }), eog: self.eog.clone() })
    }

    /// The parsers of one stage.
    fn parsers(&self, source: &GrammarSource) -> Result<Mutex<Parsers>, GrammarError> {
        let compiled = stack::with_room(|| self.compile_here(source));
        let fresh = compiled.map_err(|reason| GrammarError::Grammar { reason })??;
        let warm = fresh.deep_clone();
        Ok(Mutex::new(Parsers { fresh, warm }))
    }

    /// Tags around what a model thinks before its answer. Takes milliseconds; the tags can be shared by all requests.
    ///
    /// # Errors
    /// [`GrammarError::Grammar`] if a tag is empty.
    pub fn thinking(&self, open: &str, close: &str) -> Result<ThinkingTags, GrammarError> {
        ThinkingTags::new(open, close, self.factory.tok_env().tok_trie(), self.eog.clone())
    }

    /// What [`Self::compile`] does, on the stack of the caller.
    fn compile_here(&self, source: &GrammarSource) -> Result<TokenParser, GrammarError> {
        match source {
            GrammarSource::JsonSchema(text) => {
                let grammar = schema::grammar(without_mark(text))?;
                self.parser(grammar).map_err(|reason| GrammarError::Schema { pointer: String::new(), reason })
            }
            GrammarSource::Regex(pattern) => {
                let regex = |reason| GrammarError::Regex { reason };
                // llguidance would report a place in the grammar that it makes of the expression.
                let checked = RegexBuilder::new().mk_regex(pattern);
                checked.map_err(|error| regex(error.to_string()))?;
                self.parser_of_some(TopLevelGrammar::from_regex(pattern)).map_err(regex)
            }
            GrammarSource::Lark(text) => {
                check_lark(text).map_err(|reason| GrammarError::Grammar { reason })?;
                self.lark(without_mark(text).to_owned())
            }
            GrammarSource::Gbnf(text) => self.lark(gbnf::to_lark(without_mark(text))?),
            GrammarSource::Behind { .. } => {
                let reason = "a header was taken for a text; each is a part of its own".to_owned();
                Err(GrammarError::Grammar { reason })
            }
            GrammarSource::Outline(outline) => {
                let trie = self.factory.tok_env().tok_trie();
                let grammar = outline::grammar(outline, &|text| trie.get_special_token(text))?;
                self.parser(grammar).map_err(|reason| GrammarError::Grammar { reason })
            }
        }
    }

    fn lark(&self, text: String) -> Result<TokenParser, GrammarError> {
        self.parser_of_some(TopLevelGrammar::from_lark(text)).map_err(|reason| GrammarError::Grammar { reason })
    }

    fn parser(&self, grammar: GrammarInit) -> Result<TokenParser, String> {
        let parser = self.factory.create_parser_from_init_default(grammar);
        let mut parser = parser.map_err(|error| match first_line(&error) {
            // llguidance asserts some of its limits.
            reason if reason.starts_with("panic: ") => format!("it is too large ({reason})"),
            reason => reason,
        })?;
        parser.start_without_prompt();
        Ok(parser)
    }

    /// The parser of a grammar that has no dead ends.
    fn parser_of_some(&self, grammar: TopLevelGrammar) -> Result<TokenParser, String> {
        let parser = self.parser(GrammarInit::Serialized(grammar))?;
        match emptiness::dead_end(&parser, self.factory.limits())? {
            Some(reason) => Err(reason),
            None => Ok(parser),
        }
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
    stages: Arc<Stages>,
    eog: Arc<[u32]>,
}

/// What a text consists of, one behind the other.
struct Stages {
    headers: Vec<Mutex<Parsers>>,
    text: Mutex<Parsers>,
}

/// Parsers at the start of a stage.
struct Parsers {
    /// Has never seen a text.
    fresh: TokenParser,
    /// Shares the states of its lexer with the matchers that were made of it.
    warm: TokenParser,
}

impl Grammar {
    /// A matcher for a new text.
    pub fn matcher(&self) -> GrammarMatcher {
        let headers = self.stages.headers.iter().map(Parsers::parser).collect();
        GrammarMatcher::new(headers, Parsers::parser(&self.stages.text), self.eog.clone())
    }

    /// What makes a request follow the grammar.
    pub fn control(&self) -> Control {
        let grammar = self.clone();
        Control::masked(move || Ok(grammar.matcher()))
    }
}

impl Parsers {
    /// A parser for a new text.
    fn parser(stage: &Mutex<Self>) -> TokenParser {
        let mut parsers = stage.lock().unwrap_or_else(PoisonError::into_inner);
        let warm = &parsers.warm;
        // A panic in a matcher poisons the lexer that it shares.
        let states = catch_unwind(AssertUnwindSafe(|| Ok(warm.parser.lexer_stats().num_states)));
        if states.map_or(true, |states| states > MAX_WARM_STATES) {
            parsers.warm = parsers.fresh.deep_clone();
        }
        parsers.warm.clone()
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
        max_items_in_row: MAX_ROW_ITEMS,
        step_max_items: MAX_MASK_ITEMS,
        step_lexer_fuel: MAX_MASK_LEXER_FUEL,
        verbose_errors: false,
        ..ParserLimits::default()
    };
    factory
}

/// Refuses a text in Lark that would take more stack than there is.
fn check_lark(text: &str) -> Result<(), String> {
    let lines = text.lines().count();
    if lines > MAX_LARK_LINES {
        return Err(format!("it has {lines} lines; the most that are read are {MAX_LARK_LINES}"));
    }
    let (mut brackets, mut negations, mut in_string, mut escaped) = (0_usize, 0_usize, false, false);
    for c in text.chars() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' | '\n' => in_string = c == '"' && !in_string,
            _ if in_string => {}
            '(' | '[' | '{' => brackets += 1,
            ')' | ']' | '}' => brackets = brackets.saturating_sub(1),
            _ => {}
        }
        negations = if c == '~' { negations + 1 } else { negations * usize::from(c.is_whitespace()) };
        if brackets.max(negations) > MAX_LARK_NESTING {
            return Err(format!(
                "brackets or negations are nested deeper than {MAX_LARK_NESTING}, the most that is read"
            ));
        }
    }
    Ok(())
}

/// A text without the byte order mark that some editors put before it.
fn without_mark(text: &str) -> &str {
    text.strip_prefix('\u{feff}').unwrap_or(text)
}

/// What llguidance has to say, without the excerpt of the source below it.
fn first_line(error: &impl fmt::Display) -> String {
    error.to_string().lines().next().unwrap_or_default().to_owned()
}
