//! GBNF, the grammars of llama.cpp, as Lark.
//!
//! The translation is exact: what matches the GBNF grammar matches the Lark grammar and the other way round, though llguidance puts a
//! greedy lexer below its parser and GBNF has none. See [`lexemes`] for how.

mod lexemes;
mod parse;

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::error::GrammarError;
use lexemes::{Lexemes, Part};
use parse::{Node, NodeId, RuleId, Rules};

/// Whether a grammar begins as GBNF does: with the name of a rule and `::=`.
pub(super) fn is_gbnf(text: &str) -> bool {
    let mut rest = text.trim_start();
    while let Some(comment) = rest.strip_prefix('#') {
        rest = comment.find(['\r', '\n']).map_or("", |end| &comment[end..]).trim_start();
    }
    let after_name = rest.trim_start_matches(parse::is_name);
    after_name.len() < rest.len() && after_name.trim_start_matches([' ', '\t']).starts_with("::=")
}

/// A GBNF grammar in llguidance's variant of Lark.
///
/// # Errors
/// [`GrammarError::Gbnf`] where the text is not GBNF.
pub(super) fn to_lark(text: &str) -> Result<String, GrammarError> {
    let mut rules = Rules::parse(text)?;
    let lexemes = Lexemes::choose(&mut rules);
    let mut lark = format!("start: r{}\n", rules.root);
    let mut writer = Writer { rules: &rules, terminals: BTreeSet::new() };
    for (id, part) in &lexemes.rules {
        let _ = writeln!(lark, "// {}\nr{id}: {}", rules.rules[*id].name, part_in_lark(part));
    }
    for (id, &node) in lexemes.nodes.iter().enumerate() {
        let _ = writeln!(lark, "L{id}: {}", writer.terminal(node));
    }
    let mut written = BTreeSet::new();
    while let Some(&id) = writer.terminals.difference(&written).next() {
        written.insert(id);
        let _ = writeln!(lark, "// {}\nT{id}: {}", rules.rules[id].name, writer.terminal(rules.rules[id].body));
    }
    Ok(lark)
}

/// A part in the syntax of Lark's rules, as one item.
fn part_in_lark(part: &Part) -> String {
    let all = |parts: &[Part], separator: &str| {
        if parts.is_empty() {
            return "\"\"".to_owned();
        }
        format!("({})", parts.iter().map(part_in_lark).collect::<Vec<_>>().join(separator))
    };
    match part {
        Part::Lexeme(id) => format!("L{id}"),
        Part::Rule(id) => format!("r{id}"),
        Part::Sequence(parts) => all(parts, " "),
        Part::Choice(parts) => all(parts, " | "),
        &Part::Repeat { ref part, min, max } => repeated(part_in_lark(part), min, max),
    }
}

/// An item that many times, as one item.
fn repeated(item: String, min: u32, max: Option<u32>) -> String {
    match (min, max) {
        (_, Some(0)) => "\"\"".to_owned(),
        (1, Some(1)) => item,
        (min, Some(max)) => format!("({item}{{{min},{max}}})"),
        (min, None) => format!("({item}{{{min},}})"),
    }
}

/// The items of a sequence beyond which the sequences that rules hold stay references, so that rules which use each other twice do not
/// make a grammar of exponential length.
const MAX_FLAT_ITEMS: usize = 32;

struct Writer<'r> {
    rules: &'r Rules,
    /// Rules that terminals refer to.
    terminals: BTreeSet<RuleId>,
}

impl Writer<'_> {
    /// A node without recursion in the syntax of Lark's terminals, as one item.
    fn terminal(&mut self, id: NodeId) -> String {
        let rules = self.rules;
        match &rules.nodes[id] {
            Node::Chars(set) => format!("/{set}/"),
            &Node::Rule(id) => {
                self.terminals.insert(id);
                format!("T{id}")
            }
            Node::Sequence(ids) => {
                let mut items = Vec::with_capacity(ids.len());
                self.flatten(ids, &mut items);
                self.all(&items, " ")
            }
            Node::Choice(ids) => self.all(ids, " | "),
            &Node::Repeat { node, min, max } => repeated(self.terminal(node), min, max),
        }
    }

    /// Adds the items of a sequence without recursion, with the items of sequences in it in their place. Sequences that rules hold are
    /// taken apart up to [`MAX_FLAT_ITEMS`] items. The regex engine below llguidance (derivre 0.3.13) panics at two alternatives that are
    /// the same characters in other groups, as in `("xy" "x") | ("x" "yx")`; without the groups it takes them for one.
    fn flatten(&self, ids: &[NodeId], items: &mut Vec<NodeId>) {
        for &id in ids {
            match &self.rules.nodes[id] {
                Node::Sequence(inner) => self.flatten(inner, items),
                &Node::Rule(rule) if items.len() < MAX_FLAT_ITEMS => {
                    match &self.rules.nodes[self.rules.rules[rule].body] {
                        Node::Sequence(inner) => self.flatten(inner, items),
                        _ => items.push(id),
                    }
                }
                _ => items.push(id),
            }
        }
    }

    fn all(&mut self, ids: &[NodeId], separator: &str) -> String {
        if ids.is_empty() {
            return "\"\"".to_owned();
        }
        format!("({})", ids.iter().map(|&id| self.terminal(id)).collect::<Vec<_>>().join(separator))
    }
}

#[cfg(test)]
mod tests;
