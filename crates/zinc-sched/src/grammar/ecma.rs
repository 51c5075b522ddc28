//! The regular expressions of JSON Schema, which are those of ECMA-262, as expressions of llguidance.
//!
//! What is read is the grammar of ECMA-262 with the flag `u`, under which a character is a code point:
//!
//! ```text
//! Disjunction ::= Alternative ("|" Alternative)*
//! Alternative ::= ("^" | "$" | Look | Atom Quantifier?)*
//! Look        ::= ("(?=" | "(?!" | "(?<=" | "(?<!") Disjunction ")"
//! Atom        ::= character | "." | "\" escape | Class | "(" Disjunction ")" | "(?:" Disjunction ")" | "(?<" name ">" Disjunction ")"
//! Quantifier  ::= ("*" | "+" | "?" | "{" n "}" | "{" n "," "}" | "{" n "," n "}") "?"?
//! Class       ::= "[" "^"? (character "-" character | character | "\" escape)* "]"
//! ```
//!
//! Beyond it, what only the flag `u` forbids and annex B gives a meaning to is read with that meaning: braces and closing brackets that
//! are literal, a backslash before a punctuation mark, and a hyphen beside an escape in a class. A quantifier's `?` makes no difference to
//! which texts match. Refused, by name: look-around in some places, word boundaries, back-references, modifiers, octal escapes, and backslashes
//! before letters that have no meaning in ECMA-262.
//!
//! [`parse`] reads an expression, [`looks`] does away with look-ahead and look-behind, [`anchors`] with `^` and `$`, which may stand anywhere.

mod anchors;
mod classes;
mod looks;
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
    /// Look-ahead or look-behind.
    Look(Look),
}

/// What has to be at a place of the text, or must not be.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Look {
    /// Whether the text before the place ends with it, instead of the text from there on beginning with it.
    behind: bool,
    /// Whether it must not be there.
    negative: bool,
    node: Box<Node>,
}

impl Look {
    /// How it is called and written.
    fn name(&self) -> &'static str {
        match (self.behind, self.negative) {
            (false, false) => "look-ahead `(?=`",
            (false, true) => "look-ahead `(?!`",
            (true, false) => "look-behind `(?<=`",
            (true, true) => "look-behind `(?<!`",
        }
    }
}

/// An expression that matches a whole text exactly if `pattern` is found somewhere in the text.
///
/// # Errors
/// What is not supported or not in ECMA-262, and at which character.
pub(super) fn search(pattern: &str) -> Result<RegexAst, String> {
    looks::search(&parse::parse(pattern)?)
}

#[cfg(test)]
mod tests;
