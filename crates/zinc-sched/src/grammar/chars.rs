//! Sets of characters.

use std::fmt;

/// A set of characters: ranges, both ends included, by growing code point and apart from each other.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(super) struct CharSet {
    ranges: Vec<(char, char)>,
}

impl CharSet {
    /// The characters of these ranges, which may overlap. No range runs backwards.
    pub(super) fn new(mut ranges: Vec<(char, char)>) -> Self {
        ranges.sort_unstable();
        let mut merged: Vec<(char, char)> = Vec::with_capacity(ranges.len());
        for (first, last) in ranges {
            match merged.last_mut() {
                Some((_, end)) if after(*end).is_none_or(|next| first <= next) => *end = last.max(*end),
                _ => merged.push((first, last)),
            }
        }
        Self { ranges: merged }
    }

    /// Every character.
    pub(super) fn any() -> Self {
        Self { ranges: vec![('\0', char::MAX)] }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Whether a character is in both sets.
    pub(super) fn meets(&self, other: &Self) -> bool {
        let (mut left, mut right) = (self.ranges.iter().peekable(), other.ranges.iter().peekable());
        while let (Some(&&(a, b)), Some(&&(c, d))) = (left.peek(), right.peek()) {
            if a <= d && c <= b {
                return true;
            }
            if b < d {
                left.next();
            } else {
                right.next();
            }
        }
        false
    }

    /// Adds the characters of another set.
    pub(super) fn extend(&mut self, other: &Self) {
        if !other.is_empty() {
            self.ranges.extend_from_slice(&other.ranges);
            *self = Self::new(std::mem::take(&mut self.ranges));
        }
    }

    /// Every other character.
    pub(super) fn complement(&self) -> Self {
        let mut ranges = Vec::with_capacity(self.ranges.len() + 1);
        let mut start = Some('\0');
        for &(first, last) in &self.ranges {
            if let (Some(start), Some(end)) = (start, before(first))
                && start <= end
            {
                ranges.push((start, end));
            }
            start = after(last);
        }
        ranges.extend(start.map(|start| (start, char::MAX)));
        Self { ranges }
    }

    #[cfg(test)]
    pub(super) fn contains(&self, c: char) -> bool {
        self.ranges.iter().any(|&(first, last)| first <= c && c <= last)
    }
}

/// As a class of a regular expression. What is not a letter or digit of ASCII is a number, so nothing needs an escape.
impl fmt::Display for CharSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let write = |f: &mut fmt::Formatter<'_>, c: char| {
            if c.is_ascii_alphanumeric() { write!(f, "{c}") } else { write!(f, "\\x{{{:x}}}", u32::from(c)) }
        };
        f.write_str("[")?;
        for &(first, last) in &self.ranges {
            write(f, first)?;
            if first != last {
                f.write_str("-")?;
                write(f, last)?;
            }
        }
        f.write_str("]")
    }
}

/// The character after this one; between U+D7FF and U+E000 there is none.
fn after(c: char) -> Option<char> {
    if c == '\u{d7ff}' { Some('\u{e000}') } else { char::from_u32(u32::from(c) + 1) }
}

/// The character before this one.
fn before(c: char) -> Option<char> {
    if c == '\u{e000}' { Some('\u{d7ff}') } else { u32::from(c).checked_sub(1).and_then(char::from_u32) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_sorted_and_joined() {
        let set = CharSet::new(vec![('x', 'z'), ('a', 'c'), ('d', 'f'), ('b', 'b'), ('\u{e000}', '\u{e000}')]);
        assert_eq!(set.ranges, [('a', 'f'), ('x', 'z'), ('\u{e000}', '\u{e000}')]);
        assert_eq!(CharSet::new(vec![('\u{d7ff}', '\u{d7ff}'), ('\u{e000}', '\u{e000}')]).ranges.len(), 1);
        assert_eq!(set.to_string(), r"[a-fx-z\x{e000}]");
    }

    #[test]
    fn complements_skip_what_is_no_character() {
        let set = CharSet::new(vec![('\0', '`'), ('{', '\u{d7ff}')]);
        assert_eq!(set.complement().ranges, [('a', 'z'), ('\u{e000}', char::MAX)]);
        assert_eq!(set.complement().complement(), set);
        assert!(CharSet::any().complement().is_empty());
        assert_eq!(CharSet::default().complement(), CharSet::any());
    }

    #[test]
    fn sets_meet_where_they_share_a_character() {
        let set = |ranges: &[(char, char)]| CharSet::new(ranges.to_vec());
        assert!(set(&[('a', 'c'), ('x', 'z')]).meets(&set(&[('d', 'e'), ('z', 'z')])));
        assert!(!set(&[('a', 'c'), ('x', 'z')]).meets(&set(&[('d', 'w')])));
        assert!(!CharSet::default().meets(&CharSet::any()));
    }
}
