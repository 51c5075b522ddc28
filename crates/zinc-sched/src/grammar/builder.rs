//! Grammars of llguidance, put together symbol by symbol.

use std::collections::HashMap;

use llguidance::api::{GrammarInit, SkipSpec};
use llguidance::derivre::{ExprRef, RegexAst};
use llguidance::earley::lexerspec::{LexemeClass, LexerSpec};
use llguidance::earley::{Grammar, SymIdx, SymbolProps};

/// A rule, or something that is matched as one piece.
pub(super) type Symbol = SymIdx;

/// llguidance numbers symbols with 16 bits; some are needed for its own.
const MAX_SYMBOLS: usize = 60_000;

/// A grammar in the making.
pub(super) struct Builder {
    grammar: Grammar,
    lexer: LexerSpec,
    class: LexemeClass,
    start: Symbol,
    empty: Symbol,
    lexemes: HashMap<ExprRef, Symbol>,
    /// By symbol and count: exactly so many, and at most so many.
    exactly: HashMap<(Symbol, u64), Symbol>,
    at_most: HashMap<(Symbol, u64), Symbol>,
}

impl Builder {
    /// A grammar that allows one piece of this white space between any two lexemes.
    ///
    /// # Errors
    /// An expression that cannot be used.
    pub(super) fn new(white_space: Option<String>) -> Result<Self, String> {
        let mut lexer = LexerSpec::new().map_err(|error| error.to_string())?;
        let skip = white_space.map_or(RegexAst::NoMatch, RegexAst::Regex);
        let class = lexer.setup_lexeme_class_with_skip(SkipSpec::once(skip)).map_err(|error| error.to_string())?;
        let mut grammar = Grammar::new(None);
        let props = SymbolProps { grammar_id: class, is_start: true, ..SymbolProps::default() };
        let start = grammar.fresh_symbol_ext("start", props);
        let (exactly, at_most) = (HashMap::new(), HashMap::new());
        let mut builder =
            Self { grammar, lexer, class, start, empty: start, lexemes: HashMap::new(), exactly, at_most };
        builder.empty = builder.symbol("empty");
        builder.rule(builder.empty, Vec::new())?;
        Ok(builder)
    }

    /// The grammar of what a symbol matches.
    ///
    /// # Errors
    /// It has too many symbols.
    pub(super) fn finish(mut self, root: Symbol) -> Result<GrammarInit, String> {
        self.rule(self.start, vec![root])?;
        self.check_size()?;
        Ok(GrammarInit::Internal(self.grammar, self.lexer))
    }

    /// Refuses a grammar that has become too large, before it takes more memory.
    ///
    /// # Errors
    /// It has too many symbols.
    pub(super) fn check_size(&self) -> Result<(), String> {
        let symbols = self.grammar.num_symbols();
        if symbols <= MAX_SYMBOLS {
            return Ok(());
        }
        Err(format!("it becomes a grammar of more than {MAX_SYMBOLS} symbols"))
    }

    /// A symbol that has no rules yet.
    pub(super) fn symbol(&mut self, name: &str) -> Symbol {
        let props = SymbolProps { grammar_id: self.class, ..SymbolProps::default() };
        self.grammar.fresh_symbol_ext(name, props)
    }

    /// Lets a symbol match what these match one after the other.
    ///
    /// # Errors
    /// The symbol is a lexeme.
    pub(super) fn rule(&mut self, symbol: Symbol, parts: Vec<Symbol>) -> Result<(), String> {
        self.grammar.add_rule(symbol, parts).map_err(|error| error.to_string())
    }

    /// A piece of the text that an expression matches, which the empty text does not.
    ///
    /// # Errors
    /// An expression that cannot be used.
    pub(super) fn lexeme(&mut self, expression: &RegexAst) -> Result<Symbol, String> {
        let expr = self.lexer.regex_builder.mk(expression).map_err(|error| error.to_string())?;
        if let Some(&symbol) = self.lexemes.get(&expr) {
            return Ok(symbol);
        }
        let lexeme = self.lexer.add_greedy_lexeme(String::new(), RegexAst::ExprRef(expr), false, None, usize::MAX);
        let lexeme = lexeme.map_err(|error| error.to_string())?;
        let symbol = self.symbol("");
        self.grammar.make_terminal(symbol, lexeme, &self.lexer).map_err(|error| error.to_string())?;
        self.lexemes.insert(expr, symbol);
        Ok(symbol)
    }

    /// A token that is no text.
    ///
    /// # Errors
    /// The lexer is too large.
    pub(super) fn token(&mut self, name: &str, id: u32) -> Result<Symbol, String> {
        let lexeme = self.lexer.add_special_token(name.to_owned(), vec![id..=id]).map_err(|error| error.to_string())?;
        let symbol = self.symbol("");
        self.grammar.make_terminal(symbol, lexeme, &self.lexer).map_err(|error| error.to_string())?;
        Ok(symbol)
    }

    /// A piece of the text that is this.
    ///
    /// # Errors
    /// None that a text has; those of [`Self::lexeme`].
    pub(super) fn literal(&mut self, text: &str) -> Result<Symbol, String> {
        self.lexeme(&RegexAst::Literal(text.to_owned()))
    }

    /// Nothing.
    pub(super) fn empty(&self) -> Symbol {
        self.empty
    }

    /// One after the other.
    ///
    /// # Errors
    /// None that parts have; those of [`Self::rule`].
    pub(super) fn join(&mut self, parts: &[Symbol]) -> Result<Symbol, String> {
        let parts: Vec<Symbol> = parts.iter().copied().filter(|&part| part != self.empty).collect();
        match parts[..] {
            [] => Ok(self.empty),
            [part] => Ok(part),
            _ => {
                let symbol = self.symbol("");
                self.rule(symbol, parts)?;
                Ok(symbol)
            }
        }
    }

    /// Any one of them.
    ///
    /// # Errors
    /// None that parts have; those of [`Self::rule`].
    pub(super) fn choice(&mut self, parts: &[Symbol]) -> Result<Symbol, String> {
        if let [part] = parts {
            return Ok(*part);
        }
        let symbol = self.symbol("");
        for &part in parts {
            self.rule(symbol, if part == self.empty { Vec::new() } else { vec![part] })?;
        }
        Ok(symbol)
    }

    /// A part that may be left out.
    ///
    /// # Errors
    /// None that parts have; those of [`Self::rule`].
    pub(super) fn optional(&mut self, part: Symbol) -> Result<Symbol, String> {
        if part == self.empty { Ok(part) } else { self.choice(&[self.empty, part]) }
    }

    /// A part so many times, at least and at most. The number of symbols grows with the logarithm of the counts.
    ///
    /// # Errors
    /// None that parts have; those of [`Self::rule`].
    pub(super) fn repeat(&mut self, part: Symbol, min: u64, max: Option<u64>) -> Result<Symbol, String> {
        let first = self.exactly(part, min)?;
        let rest = match max {
            Some(max) => self.at_most(part, max.saturating_sub(min))?,
            None => {
                let symbol = self.symbol("");
                self.rule(symbol, Vec::new())?;
                self.rule(symbol, vec![symbol, part])?;
                symbol
            }
        };
        self.join(&[first, rest])
    }

    fn exactly(&mut self, part: Symbol, count: u64) -> Result<Symbol, String> {
        if count <= 4 {
            return self.join(&vec![part; count as usize]);
        }
        if let Some(&symbol) = self.exactly.get(&(part, count)) {
            return Ok(symbol);
        }
        let pair = self.pair(part)?;
        let pairs = self.exactly(pair, count / 2)?;
        let odd = if count % 2 == 1 { part } else { self.empty };
        let symbol = self.join(&[pairs, odd])?;
        self.exactly.insert((part, count), symbol);
        Ok(symbol)
    }

    /// Every count in one way: some pairs, then perhaps a single one.
    fn at_most(&mut self, part: Symbol, count: u64) -> Result<Symbol, String> {
        if count == 0 {
            return Ok(self.empty);
        }
        if count == 1 {
            return self.optional(part);
        }
        if let Some(&symbol) = self.at_most.get(&(part, count)) {
            return Ok(symbol);
        }
        let pair = self.pair(part)?;
        let single = self.optional(part)?;
        let symbol = if count % 2 == 1 {
            let pairs = self.at_most(pair, count / 2)?;
            self.join(&[pairs, single])?
        } else {
            let pairs = self.at_most(pair, count / 2 - 1)?;
            let fewer = self.join(&[pairs, single])?;
            let all = self.exactly(pair, count / 2)?;
            self.choice(&[fewer, all])?
        };
        self.at_most.insert((part, count), symbol);
        Ok(symbol)
    }

    fn pair(&mut self, part: Symbol) -> Result<Symbol, String> {
        if let Some(&symbol) = self.exactly.get(&(part, 2)) {
            return Ok(symbol);
        }
        let symbol = self.join(&[part, part])?;
        self.exactly.insert((part, 2), symbol);
        Ok(symbol)
    }
}
