//! Grammars that no text matches.

use llguidance::TokenParser;
use llguidance::api::ParserLimits;
use llguidance::earley::CSymIdx;
use llguidance::earley::lexerspec::LexerSpec;
use llguidance::earley::regexvec::LexemeSet;

/// Why a grammar cannot be followed to an end: no text matches it, or a part of it that a text may be led into. `None` if neither is so.
///
/// # Errors
/// The lexer is too large.
pub(super) fn dead_end(parser: &TokenParser, limits: &ParserLimits) -> Result<Option<String>, String> {
    let grammar = parser.parser.grammar();
    // Symbols that the start leads to, with the symbols that each rule needs.
    let mut reached: Vec<CSymIdx> = vec![grammar.start()];
    let mut place = vec![usize::MAX; grammar.start().as_index() + 1];
    place[grammar.start().as_index()] = 0;
    let mut next = 0;
    while next < reached.len() {
        for &rule in grammar.rules_of(reached[next]) {
            for &part in grammar.rule_rhs(rule).0 {
                if part.as_index() >= place.len() {
                    place.resize(part.as_index() + 1, usize::MAX);
                }
                if place[part.as_index()] == usize::MAX {
                    place[part.as_index()] = reached.len();
                    reached.push(part);
                }
            }
        }
        next += 1;
    }
    let mut lexemes = Lexemes::new(grammar.lexer_spec(), limits)?;
    let has_text = |&symbol: &CSymIdx| {
        let data = grammar.sym_data(symbol);
        let is_lexeme = data.lexeme.is_some_and(|lexeme| lexemes.has_text(lexeme.as_usize()));
        // A rule with a condition may hold; a text that is taken through another grammar may be there.
        data.is_nullable || !data.cond_nullable.is_empty() || is_lexeme
    };
    let mut possible: Vec<bool> = reached.iter().map(has_text).collect();
    loop {
        let mut stable = true;
        for (index, &symbol) in reached.iter().enumerate().rev() {
            let ends = |rule| grammar.rule_rhs(rule).0.iter().all(|part| possible[place[part.as_index()]]);
            if !possible[index] && grammar.rules_of(symbol).iter().any(|&rule| ends(rule)) {
                possible[index] = true;
                stable = false;
            }
        }
        if stable {
            break;
        }
    }
    if !possible[0] {
        return Ok(Some("no text matches it".to_owned()));
    }
    // Rules that the grammar names come before parts that llguidance made up a name for.
    let mut dead: Vec<&str> =
        reached.iter().zip(&possible).filter(|it| !it.1).map(|it| grammar.sym_name(*it.0)).collect();
    dead.sort_by_key(|name| !is_rule(name));
    Ok(dead.first().map(|name| match is_rule(name) {
        true => format!("no text matches the rule `{name}`, which it leads to"),
        false => "no text matches a part of it".to_owned(),
    }))
}

/// Whether a symbol's name can be that of a rule.
fn is_rule(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || c == '_')
}

/// The lexemes of a grammar, to be asked one by one.
struct Lexemes {
    regexes: llguidance::earley::regexvec::RegexVec,
    count: usize,
}

impl Lexemes {
    fn new(spec: &LexerSpec, limits: &ParserLimits) -> Result<Self, String> {
        let regexes = spec.to_regex_vec(&mut limits.clone()).map_err(|error| error.to_string())?;
        Ok(Self { regexes, count: spec.lexemes.len() })
    }

    fn has_text(&mut self, lexeme: usize) -> bool {
        let mut only = LexemeSet::new(self.count);
        only.add(llguidance::earley::lexerspec::LexemeIdx::new(lexeme));
        !self.regexes.initial_state(&only).is_dead()
    }
}
