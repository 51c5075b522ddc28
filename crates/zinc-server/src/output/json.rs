//! JSON that comes character by character: whether it still is JSON, and where it ends. There is no recursion: what is open is a list.

/// Follows the text of one JSON value.
///
/// Control characters in strings are accepted, which JSON forbids and models write; [`write_char`] escapes them.
#[derive(Clone, Debug)]
pub(super) struct Scanner {
    /// For each open bracket, whether it is an object's.
    open: Vec<bool>,
    state: State,
    /// Whether the number that comes, or came last, is written with digits alone.
    whole: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Before a value; the array that it is in may also end here if it has no items yet.
    Value {
        may_end: bool,
    },
    /// Before a name; the object may also end here if it has no members yet.
    Name {
        may_end: bool,
    },
    Colon,
    /// Behind a value in an array or object.
    Next,
    /// In a string, which may be a name.
    String {
        name: bool,
    },
    /// Behind a backslash.
    Escape {
        name: bool,
    },
    /// In `\u`, with so many digits to come.
    Hex {
        name: bool,
        digits: u8,
    },
    /// In a word, with this to come.
    Word(&'static str),
    Number(Number),
    Complete,
}

/// Where in a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Number {
    Minus,
    Zero,
    Digits,
    Point,
    Fraction,
    Exponent,
    ExponentSign,
    ExponentDigits,
}

/// What a character does to a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scan {
    /// It belongs to the value, which goes on.
    More,
    /// It is the last character of the value.
    Complete,
    /// The value, a number, was complete before it.
    CompleteBefore,
    /// No JSON value has this text.
    Invalid,
}

impl Scanner {
    pub(super) fn new() -> Self {
        Self { open: Vec::new(), state: State::Value { may_end: false }, whole: false }
    }

    /// Whether the next character is one of a string.
    pub(super) fn in_string(&self) -> bool {
        matches!(self.state, State::String { .. } | State::Escape { .. } | State::Hex { .. })
    }

    /// Whether the value can end here.
    pub(super) fn may_end(&self) -> bool {
        let number =
            |number| matches!(number, Number::Zero | Number::Digits | Number::Fraction | Number::ExponentDigits);
        match self.state {
            State::Complete => true,
            State::Number(at) => self.open.is_empty() && number(at),
            _ => false,
        }
    }

    /// Whether the last number has neither a fraction nor an exponent.
    pub(super) fn is_whole(&self) -> bool {
        self.whole
    }

    pub(super) fn push(&mut self, c: char) -> Scan {
        if let State::Number(at) = self.state {
            if let Some(next) = number(at, c) {
                self.whole &= matches!(next, Number::Minus | Number::Zero | Number::Digits);
                self.state = State::Number(next);
                return Scan::More;
            }
            if !matches!(at, Number::Zero | Number::Digits | Number::Fraction | Number::ExponentDigits) {
                return Scan::Invalid;
            }
            if self.close() == Scan::Complete {
                return Scan::CompleteBefore;
            }
        }
        match (self.state, c) {
            (State::Value { .. } | State::Name { .. } | State::Colon | State::Next, ' ' | '\n' | '\r' | '\t') => {
                Scan::More
            }
            (State::Value { may_end: true }, ']') | (State::Name { may_end: true }, '}') => self.leave(),
            (State::Value { .. }, _) => self.value(c),
            (State::Name { .. }, '"') => self.go(State::String { name: true }),
            (State::Colon, ':') => self.go(State::Value { may_end: false }),
            (State::Next, ',') => match self.open.last() {
                Some(true) => self.go(State::Name { may_end: false }),
                _ => self.go(State::Value { may_end: false }),
            },
            (State::Next, '}') if self.open.last() == Some(&true) => self.leave(),
            (State::Next, ']') if self.open.last() == Some(&false) => self.leave(),
            (State::String { name: true }, '"') => self.go(State::Colon),
            (State::String { name: false }, '"') => self.close(),
            (State::String { name }, '\\') => self.go(State::Escape { name }),
            (State::String { .. }, _) => Scan::More,
            (State::Escape { name }, 'u') => self.go(State::Hex { name, digits: 4 }),
            (State::Escape { name }, '"' | '\\' | '/' | 'b' | 'f' | 'n' | 'r' | 't') => self.go(State::String { name }),
            (State::Hex { name, digits: 1 }, _) if c.is_ascii_hexdigit() => self.go(State::String { name }),
            (State::Hex { name, digits }, _) if c.is_ascii_hexdigit() => {
                self.go(State::Hex { name, digits: digits - 1 })
            }
            (State::Word(rest), _) => match rest.strip_prefix(c) {
                Some("") => self.close(),
                Some(rest) => self.go(State::Word(rest)),
                None => Scan::Invalid,
            },
            _ => Scan::Invalid,
        }
    }

    /// The first character of a value.
    fn value(&mut self, c: char) -> Scan {
        match c {
            '{' => {
                self.open.push(true);
                self.go(State::Name { may_end: true })
            }
            '[' => {
                self.open.push(false);
                self.go(State::Value { may_end: true })
            }
            '"' => self.go(State::String { name: false }),
            't' => self.go(State::Word("rue")),
            'f' => self.go(State::Word("alse")),
            'n' => self.go(State::Word("ull")),
            '-' | '0'..='9' => {
                self.whole = true;
                self.go(State::Number(match c {
                    '-' => Number::Minus,
                    '0' => Number::Zero,
                    _ => Number::Digits,
                }))
            }
            _ => Scan::Invalid,
        }
    }

    fn go(&mut self, state: State) -> Scan {
        self.state = state;
        Scan::More
    }

    /// Ends the innermost array or object.
    fn leave(&mut self) -> Scan {
        self.open.pop();
        self.close()
    }

    /// Ends a value.
    fn close(&mut self) -> Scan {
        if self.open.is_empty() {
            self.state = State::Complete;
            return Scan::Complete;
        }
        self.go(State::Next)
    }
}

/// Where in a number a character leads, if it belongs to it.
fn number(at: Number, c: char) -> Option<Number> {
    Some(match (at, c) {
        (Number::Minus, '0') => Number::Zero,
        (Number::Minus | Number::Digits, '0'..='9') => Number::Digits,
        (Number::Zero | Number::Digits, '.') => Number::Point,
        (Number::Point | Number::Fraction, '0'..='9') => Number::Fraction,
        (Number::Zero | Number::Digits | Number::Fraction, 'e' | 'E') => Number::Exponent,
        (Number::Exponent, '+' | '-') => Number::ExponentSign,
        (Number::Exponent | Number::ExponentSign | Number::ExponentDigits, '0'..='9') => Number::ExponentDigits,
        _ => return None,
    })
}

/// Adds a character of the text of a JSON value. Control characters in strings, which JSON forbids, are escaped.
pub(super) fn write_char(json: &mut String, c: char, in_string: bool) {
    if in_string && c < ' ' { escape(json, c) } else { json.push(c) }
}

/// Adds a character of a string, escaped where JSON wants that.
pub(super) fn escape(json: &mut String, c: char) {
    match c {
        '"' => json.push_str("\\\""),
        '\\' => json.push_str("\\\\"),
        '\n' => json.push_str("\\n"),
        '\r' => json.push_str("\\r"),
        '\t' => json.push_str("\\t"),
        ' '.. => json.push(c),
        _ => json.push_str(&format!("\\u{:04x}", u32::from(c))),
    }
}

/// A text as a JSON string.
pub(super) fn quoted(text: &str) -> String {
    let mut json = String::with_capacity(text.len() + 2);
    json.push('"');
    text.chars().for_each(|c| escape(&mut json, c));
    json.push('"');
    json
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bytes of the value that a text begins with.
    fn value(text: &str) -> Option<usize> {
        let mut scanner = Scanner::new();
        for (at, c) in text.char_indices() {
            match scanner.push(c) {
                Scan::More => {}
                Scan::Complete => return Some(at + c.len_utf8()),
                Scan::CompleteBefore => return Some(at),
                Scan::Invalid => return None,
            }
        }
        scanner.may_end().then_some(text.len())
    }

    #[test]
    fn values_end_where_they_end() {
        for json in [
            "null",
            "true",
            "false",
            "0",
            "-0",
            "12",
            "-1.50",
            "1e9",
            "1E-9",
            "0.1e+1",
            "\"\"",
            r#""a\"\\\/\b\f\n\r\té\u00e9""#,
            "[]",
            "[ ]",
            "[1,2]",
            "[[],{}]",
            "{}",
            "{ }",
            r#"{"a":1}"#,
            r#"{ "a" : [ 1 , { "b" : null } ] , "c" : "}" }"#,
            "[-1,0.5,1e1]",
        ] {
            assert_eq!(value(json), Some(json.len()), "{json}");
            assert_eq!(value(&format!("{json} x")), Some(json.len()), "{json} and more");
            assert!(serde_json::from_str::<serde_json::Value>(json).is_ok(), "{json}");
        }
    }

    #[test]
    fn what_is_no_json_has_no_value() {
        for text in [
            "",
            "nul",
            "nulL",
            "tru e",
            "-",
            "1.",
            "1.e1",
            "1e",
            "1e+",
            "-a",
            "\"",
            r#""\x""#,
            r#""\u12g4""#,
            "[",
            "[,]",
            "[1,]",
            "[1 2]",
            "{,}",
            r#"{"a"}"#,
            r#"{"a":}"#,
            r#"{"a":1,}"#,
            "{a:1}",
            "{'a':1}",
            "[}",
            "{]",
            r#"{"a":1]"#,
            "]",
            "}",
            ":",
            "+1",
            ".5",
        ] {
            assert_eq!(value(text), None, "{text}");
            assert!(serde_json::from_str::<serde_json::Value>(text).is_err(), "{text}");
        }
        assert_eq!(value("01"), Some(1), "a number ends before what cannot continue it");
    }

    #[test]
    fn depth_is_no_matter() {
        let deep = "[".repeat(200_000) + &"]".repeat(200_000);
        assert_eq!(value(&deep), Some(deep.len()));
    }

    #[test]
    fn escaped_text_is_the_text() {
        let text: String = ('\0'..='\u{ff}').chain("\u{2028}😀\u{fffd}".chars()).collect();
        assert_eq!(serde_json::from_str::<String>(&quoted(&text)).unwrap(), text);
    }
}
