//! Classes and case mappings of characters, as Python's strings have them.

use std::sync::LazyLock;

use regex::Regex;

/// Whether Python's `str.isspace` and its regular expressions take a character for white space.
pub(super) fn is_space(c: char) -> bool {
    c.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&c)
}

/// Whether a character ends a line for `str.splitlines`.
pub(super) fn ends_line(c: char) -> bool {
    matches!(c, '\n'..='\r' | '\u{1c}'..='\u{1e}' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

fn is_in(class: &Regex, c: char) -> bool {
    class.is_match(c.encode_utf8(&mut [0; 4]))
}

fn in_ranges(ranges: &[(u32, u32)], c: char) -> bool {
    ranges.iter().any(|&(first, last)| (first..=last).contains(&u32::from(c)))
}

fn class(pattern: &str) -> Regex {
    Regex::new(pattern).expect("the classes of Unicode are known")
}

static LETTER: LazyLock<Regex> = LazyLock::new(|| class(r"\p{L}"));
static DECIMAL: LazyLock<Regex> = LazyLock::new(|| class(r"\p{Nd}"));
static NUMBER: LazyLock<Regex> = LazyLock::new(|| class(r"\p{N}"));
static TITLE: LazyLock<Regex> = LazyLock::new(|| class(r"\p{Lt}"));
static INVISIBLE: LazyLock<Regex> = LazyLock::new(|| class(r"[\p{C}\p{Z}]"));
static IDENTIFIER: LazyLock<Regex> = LazyLock::new(|| class(r"^[\p{XID_Start}_]\p{XID_Continue}*$"));

/// Whether `repr` writes a character as it is.
pub(super) fn is_printable(c: char) -> bool {
    if c.is_ascii() { (' '..='~').contains(&c) } else { !is_in(&INVISIBLE, c) }
}

pub(super) fn is_letter(c: char) -> bool {
    if c.is_ascii() { c.is_ascii_alphabetic() } else { is_in(&LETTER, c) }
}

pub(super) fn is_decimal(c: char) -> bool {
    if c.is_ascii() { c.is_ascii_digit() } else { is_in(&DECIMAL, c) }
}

/// Whether a character is a digit, be it raised or in a circle.
pub(super) fn is_digit(c: char) -> bool {
    is_decimal(c) || in_ranges(&OTHER_DIGITS, c)
}

/// Whether a character has a numeric value, as fractions and some Chinese characters have.
pub(super) fn is_numeric(c: char) -> bool {
    if c.is_ascii() { c.is_ascii_digit() } else { is_in(&NUMBER, c) || in_ranges(&NUMERIC_LETTERS, c) }
}

pub(super) fn is_alphanumeric(c: char) -> bool {
    if c.is_ascii() { c.is_ascii_alphanumeric() } else { is_in(&LETTER, c) || is_in(&NUMBER, c) }
}

pub(super) fn is_title(c: char) -> bool {
    !c.is_ascii() && is_in(&TITLE, c)
}

pub(super) fn is_cased(c: char) -> bool {
    c.is_lowercase() || c.is_uppercase() || is_title(c)
}

pub(super) fn is_identifier(text: &str) -> bool {
    IDENTIFIER.is_match(text)
}

/// Each character of a text in lower case. What a capital sigma becomes depends on its place in the word.
pub(super) fn lower_each(text: &str) -> Vec<String> {
    let lower = text.to_lowercase();
    let mut lower = lower.chars();
    text.chars().map(|c| lower.by_ref().take(c.to_lowercase().count()).collect()).collect()
}

/// Adds a character as it begins a word in title case.
pub(super) fn push_title(c: char, out: &mut String) {
    let title: &[u32] = match u32::from(c) {
        0x1c4..=0x1c6 => &[0x1c5],
        0x1c7..=0x1c9 => &[0x1c8],
        0x1ca..=0x1cc => &[0x1cb],
        0x1f1..=0x1f3 => &[0x1f2],
        0x1fb3 | 0x1fbc => &[0x1fbc],
        0x1fc3 | 0x1fcc => &[0x1fcc],
        0x1ff3 | 0x1ffc => &[0x1ffc],
        0x1fb2 => &[0x1fba, 0x345],
        0x1fc2 => &[0x1fca, 0x345],
        0x1ff2 => &[0x1ffa, 0x345],
        0x1fb4 => &[0x386, 0x345],
        0x1fc4 => &[0x389, 0x345],
        0x1ff4 => &[0x38f, 0x345],
        0x1fb7 => &[0x391, 0x342, 0x345],
        0x1fc7 => &[0x397, 0x342, 0x345],
        0x1ff7 => &[0x3a9, 0x342, 0x345],
        // Georgian has capitals, and does not use them in titles.
        0x10d0..=0x10fa | 0x10fd..=0x10ff => return out.push(c),
        code @ 0x1f80..=0x1faf => &[code | 8],
        0xdf | 0x587 | 0xfb00..=0xfb06 | 0xfb13..=0xfb17 => {
            let mut upper = c.to_uppercase();
            out.extend(upper.next());
            return out.extend(upper.flat_map(char::to_lowercase));
        }
        _ => return out.extend(c.to_uppercase()),
    };
    out.extend(title.iter().filter_map(|&code| char::from_u32(code)));
}

/// Adds a character as `str.casefold` has it.
pub(super) fn push_folded(c: char, out: &mut String) {
    match u32::from(c) {
        0x131 | 0x13a0..=0x13f5 => out.push(c),
        // Cherokee folds to capitals.
        code @ 0x13f8..=0x13fd => out.extend(char::from_u32(code - 8)),
        code @ 0xab70..=0xabbf => out.extend(char::from_u32(code - 0xab70 + 0x13a0)),
        0x1e9e => out.push_str("ss"),
        _ => out.extend(c.to_uppercase().flat_map(char::to_lowercase)),
    }
}

/// Digits that are no decimal digits.
const OTHER_DIGITS: [(u32, u32); 20] = [
    (0xb2, 0xb3),
    (0xb9, 0xb9),
    (0x1369, 0x1371),
    (0x19da, 0x19da),
    (0x2070, 0x2070),
    (0x2074, 0x2079),
    (0x2080, 0x2089),
    (0x2460, 0x2468),
    (0x2474, 0x247c),
    (0x2488, 0x2490),
    (0x24ea, 0x24ea),
    (0x24f5, 0x24fd),
    (0x24ff, 0x24ff),
    (0x2776, 0x277e),
    (0x2780, 0x2788),
    (0x278a, 0x2792),
    (0x10a40, 0x10a43),
    (0x10e60, 0x10e68),
    (0x11052, 0x1105a),
    (0x1f100, 0x1f10a),
];

/// Letters with a numeric value.
const NUMERIC_LETTERS: [(u32, u32); 72] = [
    (0x3405, 0x3405),
    (0x3483, 0x3483),
    (0x382a, 0x382a),
    (0x3b4d, 0x3b4d),
    (0x4e00, 0x4e00),
    (0x4e03, 0x4e03),
    (0x4e07, 0x4e07),
    (0x4e09, 0x4e09),
    (0x4e5d, 0x4e5d),
    (0x4e8c, 0x4e8c),
    (0x4e94, 0x4e94),
    (0x4e96, 0x4e96),
    (0x4ebf, 0x4ec0),
    (0x4edf, 0x4edf),
    (0x4ee8, 0x4ee8),
    (0x4f0d, 0x4f0d),
    (0x4f70, 0x4f70),
    (0x5104, 0x5104),
    (0x5146, 0x5146),
    (0x5169, 0x5169),
    (0x516b, 0x516b),
    (0x516d, 0x516d),
    (0x5341, 0x5341),
    (0x5343, 0x5345),
    (0x534c, 0x534c),
    (0x53c1, 0x53c4),
    (0x56db, 0x56db),
    (0x58f1, 0x58f1),
    (0x58f9, 0x58f9),
    (0x5e7a, 0x5e7a),
    (0x5efe, 0x5eff),
    (0x5f0c, 0x5f0e),
    (0x5f10, 0x5f10),
    (0x62fe, 0x62fe),
    (0x634c, 0x634c),
    (0x67d2, 0x67d2),
    (0x6f06, 0x6f06),
    (0x7396, 0x7396),
    (0x767e, 0x767e),
    (0x8086, 0x8086),
    (0x842c, 0x842c),
    (0x8cae, 0x8cae),
    (0x8cb3, 0x8cb3),
    (0x8d30, 0x8d30),
    (0x9621, 0x9621),
    (0x9646, 0x9646),
    (0x964c, 0x964c),
    (0x9678, 0x9678),
    (0x96f6, 0x96f6),
    (0xf96b, 0xf96b),
    (0xf973, 0xf973),
    (0xf978, 0xf978),
    (0xf9b2, 0xf9b2),
    (0xf9d1, 0xf9d1),
    (0xf9d3, 0xf9d3),
    (0xf9fd, 0xf9fd),
    (0x20001, 0x20001),
    (0x20064, 0x20064),
    (0x200e2, 0x200e2),
    (0x20121, 0x20121),
    (0x2092a, 0x2092a),
    (0x20983, 0x20983),
    (0x2098c, 0x2098c),
    (0x2099c, 0x2099c),
    (0x20aea, 0x20aea),
    (0x20afd, 0x20afd),
    (0x20b19, 0x20b19),
    (0x22390, 0x22390),
    (0x22998, 0x22998),
    (0x23b1b, 0x23b1b),
    (0x2626d, 0x2626d),
    (0x2f890, 0x2f890),
];
