//! The regular expressions of JSON Schema, which are those of ECMA-262, as expressions of llguidance.
//!
//! What is read is the grammar of ECMA-262 with the flag `u`, under which a character is a code point:
//!
//! ```text
//! Disjunction ::= Alternative ("|" Alternative)*
//! Alternative ::= ("^" | "$" | Atom Quantifier?)*
//! Atom        ::= character | "." | "\" escape | Class | "(" Disjunction ")" | "(?:" Disjunction ")" | "(?<" name ">" Disjunction ")"
//! Quantifier  ::= ("*" | "+" | "?" | "{" n "}" | "{" n "," "}" | "{" n "," n "}") "?"?
//! Class       ::= "[" "^"? (character "-" character | character | "\" escape)* "]"
//! ```
//!
//! Beyond it, what only the flag `u` forbids and annex B gives a meaning to is read with that meaning: braces and closing brackets that
//! are literal, a backslash before a punctuation mark, and a hyphen beside an escape in a class. A quantifier's `?` makes no difference to
//! which texts match. Refused, by name: look-around, word boundaries, back-references, modifiers, octal escapes, and backslashes before
//! letters that have no meaning in ECMA-262.
//!
//! [`parse`] reads an expression, [`anchors`] does away with `^` and `$`, which may stand anywhere.

mod anchors;
mod classes;
mod parse;

use llguidance::derivre::RegexAst;

use super::chars::CharSet;

/// A part of an expression.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Node {
    /// One character of the set; with an empty set nothing matches.
    Chars(CharSet),
    /// One after the other; the empty text if there are none.
    Sequence(Vec<Node>),
    /// Any one of them.
    Choice(Vec<Node>),
    /// At least `min` and at most `max` times.
    Repeat { node: Box<Node>, min: u32, max: Option<u32> },
    /// `^`: nothing is before.
    Start,
    /// `$`: nothing follows.
    End,
}

/// An expression that matches a whole text exactly if `pattern` is found somewhere in the text.
///
/// # Errors
/// What is not supported or not in ECMA-262, and at which character.
pub(super) fn search(pattern: &str) -> Result<RegexAst, String> {
    anchors::search(&parse::parse(pattern)?)
}

#[cfg(test)]
mod tests;
