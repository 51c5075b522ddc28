//! The sets of characters that have names in ECMA-262.

use llguidance::derivre::RegexAst;

use crate::grammar::chars::CharSet;

/// General categories of Unicode by the names that ECMA-262 takes for them: short, long.
const CATEGORIES: [(&str, &str); 37] = [
    ("C", "Other"),
    ("Cc", "Control"),
    ("Cf", "Format"),
    ("Cn", "Unassigned"),
    ("Co", "Private_Use"),
    ("L", "Letter"),
    ("LC", "Cased_Letter"),
    ("Ll", "Lowercase_Letter"),
    ("Lm", "Modifier_Letter"),
    ("Lo", "Other_Letter"),
    ("Lt", "Titlecase_Letter"),
    ("Lu", "Uppercase_Letter"),
    ("M", "Mark"),
    ("Mc", "Spacing_Mark"),
    ("Me", "Enclosing_Mark"),
    ("Mn", "Nonspacing_Mark"),
    ("N", "Number"),
    ("Nd", "Decimal_Number"),
    ("Nl", "Letter_Number"),
    ("No", "Other_Number"),
    ("P", "Punctuation"),
    ("Pc", "Connector_Punctuation"),
    ("Pd", "Dash_Punctuation"),
    ("Pe", "Close_Punctuation"),
    ("Pf", "Final_Punctuation"),
    ("Pi", "Initial_Punctuation"),
    ("Po", "Other_Punctuation"),
    ("Ps", "Open_Punctuation"),
    ("S", "Symbol"),
    ("Sc", "Currency_Symbol"),
    ("Sk", "Modifier_Symbol"),
    ("Sm", "Math_Symbol"),
    ("So", "Other_Symbol"),
    ("Z", "Separator"),
    ("Zl", "Line_Separator"),
    ("Zp", "Paragraph_Separator"),
    ("Zs", "Space_Separator"),
];

/// Properties that characters have or have not, of those that ECMA-262 knows.
const PROPERTIES: [&str; 13] = [
    "ASCII",
    "Alphabetic",
    "Any",
    "Assigned",
    "ASCII_Hex_Digit",
    "Hex_Digit",
    "ID_Continue",
    "ID_Start",
    "Ideographic",
    "Lowercase",
    "Math",
    "Uppercase",
    "White_Space",
];

/// The characters of `\d`, `\w` or `\s`; `None` for another letter.
pub(super) fn of_escape(letter: char) -> Option<CharSet> {
    Some(CharSet::new(match letter {
        'd' => vec![('0', '9')],
        'w' => vec![('0', '9'), ('A', 'Z'), ('_', '_'), ('a', 'z')],
        // White space and line ends of ECMA-262: the space separators of Unicode, tabs, feeds and the byte order mark.
        's' => vec![
            ('\t', '\r'),
            (' ', ' '),
            ('\u{a0}', '\u{a0}'),
            ('\u{1680}', '\u{1680}'),
            ('\u{2000}', '\u{200a}'),
            ('\u{2028}', '\u{2029}'),
            ('\u{202f}', '\u{202f}'),
            ('\u{205f}', '\u{205f}'),
            ('\u{3000}', '\u{3000}'),
            ('\u{feff}', '\u{feff}'),
        ],
        _ => return None,
    }))
}

/// The characters of `.`: all but those that end a line.
pub(super) fn dot() -> CharSet {
    CharSet::new(vec![('\n', '\n'), ('\r', '\r'), ('\u{2028}', '\u{2029}')]).complement()
}

/// The characters of `\p{...}`.
///
/// # Errors
/// A name that ECMA-262 or the tables here do not have.
pub(super) fn of_property(name: &str) -> Result<CharSet, String> {
    let unknown = || format!("\\p{{{name}}} names no property of characters that is supported");
    let syntax = match name.split_once('=') {
        Some(("General_Category" | "gc", value)) => category(value).ok_or_else(unknown)?,
        Some((key @ ("Script" | "sc" | "Script_Extensions" | "scx"), value)) if is_name(value) => {
            format!("{key}={value}")
        }
        Some(_) => return Err(unknown()),
        None if PROPERTIES.contains(&name) => name.to_owned(),
        None => category(name).ok_or_else(unknown)?,
    };
    let hir = regex_syntax::Parser::new().parse(&format!("\\p{{{syntax}}}")).map_err(|_| unknown())?;
    match hir.into_kind() {
        regex_syntax::hir::HirKind::Class(regex_syntax::hir::Class::Unicode(class)) => {
            Ok(CharSet::new(class.iter().map(|range| (range.start(), range.end())).collect()))
        }
        _ => Err(unknown()),
    }
}

fn category(name: &str) -> Option<String> {
    CATEGORIES.iter().find(|(short, long)| name == *short || name == *long).map(|(short, _)| format!("gc={short}"))
}

/// Whether a script's name is written as Unicode writes it.
fn is_name(value: &str) -> bool {
    value.starts_with(|c: char| c.is_ascii_uppercase()) && value.chars().all(|c| c.is_ascii_alphabetic() || c == '_')
}

/// A set as an expression.
pub(super) fn expression(set: &CharSet) -> RegexAst {
    if set.is_empty() { RegexAst::NoMatch } else { RegexAst::Regex(set.to_string()) }
}
