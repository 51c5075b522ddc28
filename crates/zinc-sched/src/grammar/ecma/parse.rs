//! From the text of an expression to its parts.

use super::{Look, Node, classes};
use crate::grammar::chars::CharSet;

/// Groups inside of each other.
const MAX_NESTING: usize = 100;
/// The largest number of repetitions: llguidance counts with 32 bits, and its largest number means no limit.
const MAX_REPEATS: u32 = u32::MAX - 1;

/// Reads an expression.
///
/// # Errors
/// What is not supported or not in ECMA-262, and at which character.
pub(super) fn parse(pattern: &str) -> Result<Node, String> {
    let mut parser = Parser { chars: pattern.chars().collect(), at: 0, nesting: 0 };
    let node = parser.choice()?;
    match parser.peek() {
        None => Ok(node),
        // Only a parenthesis that closes nothing ends a choice early.
        Some(_) => Err(parser.error("a `)` that closes nothing")),
    }
}

struct Parser {
    chars: Vec<char>,
    at: usize,
    nesting: usize,
}

/// What an escape or a character of a class stands for.
enum Atom {
    Char(char),
    Set(CharSet),
}

impl Parser {
    fn choice(&mut self) -> Result<Node, String> {
        let mut alternatives = vec![self.sequence()?];
        while self.eat("|") {
            alternatives.push(self.sequence()?);
        }
        Ok(if alternatives.len() == 1 { alternatives.remove(0) } else { Node::Choice(alternatives) })
    }

    fn sequence(&mut self) -> Result<Node, String> {
        let mut nodes = Vec::new();
        while let Some(c) = self.peek().filter(|&c| c != '|' && c != ')') {
            let start = self.at;
            let node = match c {
                '^' | '$' => {
                    self.at += 1;
                    if self.quantifier()?.is_some() {
                        self.at = start;
                        return Err(self.error(&format!("a repeated `{c}`")));
                    }
                    nodes.push(if c == '^' { Node::Start } else { Node::End });
                    continue;
                }
                '*' | '+' | '?' => return Err(self.error(&format!("nothing before `{c}` to repeat"))),
                '{' if self.quantifier()?.is_some() => {
                    self.at = start;
                    return Err(self.error("nothing before `{` to repeat"));
                }
                '(' => self.group()?,
                '[' => self.class()?,
                '.' => {
                    self.at += 1;
                    Node::Chars(classes::dot())
                }
                '\\' => match self.escape(false)? {
                    Atom::Char(c) => Node::Chars(CharSet::new(vec![(c, c)])),
                    Atom::Set(set) => Node::Chars(set),
                },
                c => {
                    self.at += 1;
                    Node::Chars(CharSet::new(vec![(c, c)]))
                }
            };
            if let Node::Look(look) = &node
                && self.quantifier()?.is_some()
            {
                self.at = start;
                return Err(self.error(&format!("a repeated {}", look.name())));
            }
            nodes.push(match self.quantifier()? {
                Some((1, Some(1))) | None => node,
                Some((min, max)) => Node::Repeat { node: Box::new(node), min, max },
            });
        }
        Ok(if nodes.len() == 1 { nodes.remove(0) } else { Node::Sequence(nodes) })
    }

    fn group(&mut self) -> Result<Node, String> {
        let start = self.at;
        if self.nesting == MAX_NESTING {
            return Err(self.error(&format!("more than {MAX_NESTING} groups inside of each other")));
        }
        if self.eat("(?") {
            let looks = [("=", false, false), ("!", false, true), ("<=", true, false), ("<!", true, true)];
            if let Some((_, behind, negative)) = looks.into_iter().find(|(text, ..)| self.eat(text)) {
                let node = Box::new(self.inside(start)?);
                return Ok(Node::Look(Look { behind, negative, node }));
            }
            if self.eat("<") {
                let name: String = self.chars[self.at..].iter().take_while(|&&c| c != '>').collect();
                let is_name = |(index, c): (usize, char)| {
                    c == '$' || c == '_' || c.is_alphabetic() || index > 0 && c.is_alphanumeric()
                };
                if name.is_empty() || !name.chars().enumerate().all(is_name) {
                    return Err(self.error("a group without a name after `(?<`"));
                }
                self.at += name.chars().count();
                if !self.eat(">") {
                    return Err(self.error("a group's name without `>`"));
                }
            } else if !self.eat(":") {
                self.at = start;
                return Err(self.error("a modifier `(?…)` of a group"));
            }
        } else {
            self.at += 1;
        }
        self.inside(start)
    }

    /// What is in a group that begins at `start`, up to its end.
    fn inside(&mut self, start: usize) -> Result<Node, String> {
        self.nesting += 1;
        let node = self.choice()?;
        self.nesting -= 1;
        if !self.eat(")") {
            self.at = start;
            return Err(self.error("a group `(` without its `)`"));
        }
        Ok(node)
    }

    /// The number of repetitions, at least and at most; `None` and nothing read if there is no quantifier here.
    fn quantifier(&mut self) -> Result<Option<(u32, Option<u32>)>, String> {
        let start = self.at;
        let bounds = if self.eat("*") {
            (0, None)
        } else if self.eat("+") {
            (1, None)
        } else if self.eat("?") {
            (0, Some(1))
        } else if self.eat("{") {
            let min = self.digits();
            let max = if self.eat(",") { Some(self.digits()) } else { None };
            if min.is_empty() || !self.eat("}") {
                // A brace that opens no quantifier is one.
                self.at = start;
                return Ok(None);
            }
            let most = max.as_ref().unwrap_or(&min).clone();
            let number = |digits: &str| digits.parse::<u32>().ok().filter(|&number| number <= MAX_REPEATS);
            let too_many = format!("more than {MAX_REPEATS} repetitions");
            let min = number(&min).ok_or_else(|| self.error(&too_many))?;
            let max = if most.is_empty() { None } else { Some(number(&most).ok_or_else(|| self.error(&too_many))?) };
            if max.is_some_and(|max| max < min) {
                self.at = start;
                return Err(self.error("a quantifier whose numbers are out of order"));
            }
            (min, max)
        } else {
            return Ok(None);
        };
        self.eat("?");
        Ok(Some(bounds))
    }

    fn digits(&mut self) -> String {
        let digits: String = self.chars[self.at..].iter().take_while(|c| c.is_ascii_digit()).collect();
        self.at += digits.len();
        digits
    }

    fn class(&mut self) -> Result<Node, String> {
        let start = self.at;
        self.at += 1;
        let negated = self.eat("^");
        let mut set = CharSet::default();
        loop {
            match self.peek() {
                None => {
                    self.at = start;
                    return Err(self.error("a class `[` without its `]`"));
                }
                Some(']') => break,
                Some(_) => {}
            }
            let at = self.at;
            let first = self.class_atom()?;
            let is_range = self.peek() == Some('-') && self.chars.get(self.at + 1).is_some_and(|&c| c != ']');
            if !is_range {
                set.extend(&first.set());
                continue;
            }
            self.at += 1;
            match (first, self.class_atom()?) {
                (Atom::Char(first), Atom::Char(last)) if first <= last => {
                    set.extend(&CharSet::new(vec![(first, last)]));
                }
                (Atom::Char(_), Atom::Char(_)) => {
                    self.at = at;
                    return Err(self.error("a range of a class that runs backwards"));
                }
                // Beside an escape for several characters a hyphen is one.
                (first, last) => {
                    set.extend(&first.set());
                    set.extend(&CharSet::new(vec![('-', '-')]));
                    set.extend(&last.set());
                }
            }
        }
        self.at += 1;
        Ok(Node::Chars(if negated { set.complement() } else { set }))
    }

    fn class_atom(&mut self) -> Result<Atom, String> {
        match self.peek() {
            Some('\\') => self.escape(true),
            Some(c) => {
                self.at += 1;
                Ok(Atom::Char(c))
            }
            None => Err(self.error("a class `[` without its `]`")),
        }
    }

    /// What a backslash and what follows it stand for.
    fn escape(&mut self, in_class: bool) -> Result<Atom, String> {
        let start = self.at;
        self.at += 1;
        let Some(c) = self.peek() else {
            self.at = start;
            return Err(self.error("a `\\` at the end"));
        };
        self.at += 1;
        let refused = |parser: &mut Self, construct: &str| {
            parser.at = start;
            Err(parser.error(construct))
        };
        let c = match c {
            'd' | 'w' | 's' => return Ok(Atom::Set(classes::of_escape(c).unwrap_or_default())),
            'D' | 'W' | 'S' => {
                let set = classes::of_escape(c.to_ascii_lowercase()).unwrap_or_default();
                return Ok(Atom::Set(set.complement()));
            }
            't' => '\t',
            'n' => '\n',
            'v' => '\u{b}',
            'f' => '\u{c}',
            'r' => '\r',
            'b' if in_class => '\u{8}',
            'b' | 'B' => return refused(self, &format!("word boundary `\\{c}`")),
            '0' if !self.peek().is_some_and(|c| c.is_ascii_digit()) => '\0',
            '0' => return refused(self, "octal escape `\\0`"),
            '1'..='9' if in_class => return refused(self, &format!("octal escape `\\{c}`")),
            '1'..='9' => return refused(self, &format!("back-reference `\\{c}`")),
            'k' => return refused(self, "back-reference `\\k`"),
            'c' => match self.peek().filter(char::is_ascii_alphabetic) {
                Some(letter) => {
                    self.at += 1;
                    char::from(letter as u8 % 32)
                }
                None => return refused(self, "`\\c` without a letter"),
            },
            'x' => match self.hexadecimal(2).and_then(char::from_u32) {
                Some(c) => c,
                None => return refused(self, "`\\x` without two hexadecimal digits"),
            },
            'u' => match self.code_point() {
                // Half of a pair alone is in no text.
                Some(code) => match char::from_u32(code) {
                    Some(c) => c,
                    None => return Ok(Atom::Set(CharSet::default())),
                },
                None => return refused(self, "`\\u` without a code point"),
            },
            'p' | 'P' => {
                if !self.eat("{") {
                    return refused(self, &format!("`\\{c}` without a property in braces"));
                }
                let name: String = self.chars[self.at..].iter().take_while(|&&c| c != '}').collect();
                self.at += name.chars().count();
                if !self.eat("}") {
                    return refused(self, &format!("`\\{c}` without a property in braces"));
                }
                let set = match classes::of_property(&name) {
                    Ok(set) => set,
                    Err(reason) => return refused(self, &reason),
                };
                return Ok(Atom::Set(if c == 'P' { set.complement() } else { set }));
            }
            c if c.is_ascii_alphanumeric() => {
                return refused(self, &format!("`\\{c}`, which is no escape of ECMA-262"));
            }
            c => c,
        };
        Ok(Atom::Char(c))
    }

    /// The code point after `\u`: four digits, twice four for a pair of surrogates, or any number of them in braces.
    fn code_point(&mut self) -> Option<u32> {
        if self.eat("{") {
            let digits: String = self.chars[self.at..].iter().take_while(|&&c| c != '}').collect();
            self.at += digits.chars().count();
            let code = u32::from_str_radix(digits.trim_start_matches('0'), 16).ok();
            let code = code.or((!digits.is_empty() && digits.bytes().all(|b| b == b'0')).then_some(0));
            return code.filter(|&code| !digits.starts_with('+') && code <= 0x10_ffff && self.eat("}"));
        }
        let high = self.hexadecimal(4)?;
        let after = self.at;
        if (0xd800..0xdc00).contains(&high)
            && self.eat("\\u")
            && let Some(low) = self.hexadecimal(4)
            && (0xdc00..0xe000).contains(&low)
        {
            return Some(0x1_0000 + ((high - 0xd800) << 10) + (low - 0xdc00));
        }
        self.at = after;
        Some(high)
    }

    fn hexadecimal(&mut self, count: usize) -> Option<u32> {
        let digits = self.chars.get(self.at..self.at + count)?;
        let code = digits.iter().try_fold(0, |code, digit| Some(code * 16 + digit.to_digit(16)?))?;
        self.at += count;
        Some(code)
    }

    fn peek(&self) -> Option<char> {
        self.chars.get(self.at).copied()
    }

    fn starts_with(&self, text: &str) -> bool {
        text.chars().enumerate().all(|(index, c)| self.chars.get(self.at + index) == Some(&c))
    }

    fn eat(&mut self, text: &str) -> bool {
        let found = self.starts_with(text);
        if found {
            self.at += text.chars().count();
        }
        found
    }

    /// What was found at the current character.
    fn error(&self, what: &str) -> String {
        format!("{what} at character {}", self.at + 1)
    }
}

impl Atom {
    fn set(&self) -> CharSet {
        match self {
            Self::Char(c) => CharSet::new(vec![(*c, *c)]),
            Self::Set(set) => set.clone(),
        }
    }
}
