//! Splits the source of a template into tokens, by the rules of Jinja2's lexer with `trim_blocks` and `lstrip_blocks`.

use super::failure::{Failure, Result};
use super::unicode::is_space;

/// A token. Operators, brackets and punctuation are `Operator`.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Token {
    /// Text outside all tags.
    Data(String),
    VariableBegin,
    VariableEnd,
    BlockBegin,
    BlockEnd,
    Name(String),
    Text(String),
    Integer(i128),
    Float(f64),
    Operator(&'static str),
    /// The end of the source, again and again.
    End,
}

/// The operators, longer ones before those that they start with.
const OPERATORS: [&str; 26] = [
    "//", "**", "==", "!=", ">=", "<=", "+", "-", "/", "*", "%", "~", "[", "]", "(", ")", "{", "}", ">", "<", "=", ".",
    ":", "|", ",", ";",
];

/// The tokens of a template, each with its line, counted from 1.
pub(super) fn tokens(source: &str) -> Result<Vec<(Token, u32)>> {
    let mut source = source.replace("\r\n", "\n").replace('\r', "\n");
    if source.ends_with('\n') {
        source.pop();
    }
    let mut lexer = Lexer { source: &source, place: 0, line: 1, line_starts: true, tokens: Vec::new() };
    lexer.template().map_err(|failure| failure.at(lexer.line))?;
    Ok(lexer.tokens)
}

#[derive(Clone, Copy, PartialEq)]
enum Tag {
    Variable,
    Block,
    Comment,
}

struct Lexer<'a> {
    source: &'a str,
    /// The byte that comes next.
    place: usize,
    line: u32,
    /// Whether what was read last ended with a line break.
    line_starts: bool,
    tokens: Vec<(Token, u32)>,
}

impl<'a> Lexer<'a> {
    fn rest(&self) -> &'a str {
        &self.source[self.place..]
    }

    fn push(&mut self, token: Token) {
        self.tokens.push((token, self.line));
    }

    /// Goes `length` bytes forward.
    fn advance(&mut self, length: usize) {
        let passed = &self.source[self.place..self.place + length];
        self.line += u32::try_from(passed.matches('\n').count()).unwrap_or(u32::MAX);
        self.line_starts = passed.ends_with('\n');
        self.place += length;
    }

    fn template(&mut self) -> Result<()> {
        while !self.rest().is_empty() {
            let rest = self.rest();
            let Some((start, tag)) = first_tag(rest) else {
                self.push(Token::Data(rest.to_owned()));
                self.advance(rest.len());
                break;
            };
            let sign = rest[start + 2..].chars().next().filter(|c| matches!(c, '-' | '+'));
            let data = self.trimmed(&rest[..start], sign, tag != Tag::Variable);
            if !data.is_empty() {
                self.push(Token::Data(data.to_owned()));
            }
            if tag == Tag::Block
                && let Some(length) = raw_begin(&rest[start..])
            {
                self.advance(start + length);
                self.raw()?;
                continue;
            }
            self.advance(start + 2 + sign.map_or(0, char::len_utf8));
            match tag {
                Tag::Comment => self.comment()?,
                Tag::Variable => {
                    self.push(Token::VariableBegin);
                    self.inside(Tag::Variable)?;
                }
                Tag::Block => {
                    self.push(Token::BlockBegin);
                    self.inside(Tag::Block)?;
                }
            }
        }
        Ok(())
    }

    /// The text before a tag without the white space that the tag removes.
    fn trimmed<'t>(&self, text: &'t str, sign: Option<char>, strips_line: bool) -> &'t str {
        if sign == Some('-') {
            return text.trim_end_matches(is_space);
        }
        if sign.is_none() && strips_line {
            let line = text.rfind('\n').map_or(0, |place| place + 1);
            if (line > 0 || self.line_starts) && text[line..].chars().all(is_space) {
                return &text[..line];
            }
        }
        text
    }

    fn comment(&mut self) -> Result<()> {
        let rest = self.rest();
        let end = rest.find("#}").ok_or_else(|| Failure::new("missing end of comment tag"))?;
        self.advance(end + 2);
        let sign = rest[..end].chars().next_back();
        self.after_end(sign);
        Ok(())
    }

    /// Skips what the end of a block or comment removes: all white space after `-`, nothing after `+`, else a line break.
    fn after_end(&mut self, sign: Option<char>) {
        let rest = self.rest();
        match sign {
            Some('-') => {
                let spaces = rest.len() - rest.trim_start_matches(is_space).len();
                if spaces > 0 {
                    self.advance(spaces);
                }
            }
            Some('+') => {}
            _ if rest.starts_with('\n') => self.advance(1),
            _ => {}
        }
    }

    /// Reads a raw block up to and including its end.
    fn raw(&mut self) -> Result<()> {
        let rest = self.rest();
        let mut from = 0;
        while let Some(found) = rest[from..].find("{%") {
            let start = from + found;
            let after = &rest[start + 2..];
            let sign = after.chars().next().filter(|c| matches!(c, '-' | '+'));
            let body = after[sign.map_or(0, char::len_utf8)..].trim_start_matches(is_space);
            if let Some(body) = body.strip_prefix("endraw") {
                let body = body.trim_start_matches(is_space);
                let end_sign = body.chars().next().filter(|c| matches!(c, '-' | '+'));
                let end = &body[end_sign.map_or(0, char::len_utf8)..];
                if let Some(end) = end.strip_prefix("%}") {
                    let data = self.trimmed(&rest[..start], sign, true);
                    if !data.is_empty() {
                        self.push(Token::Data(data.to_owned()));
                    }
                    self.advance(rest.len() - end.len());
                    self.after_end(end_sign);
                    return Ok(());
                }
            }
            from = start + 2;
        }
        Err(Failure::new("missing end of raw directive"))
    }

    /// Reads the inside of a tag and its end.
    fn inside(&mut self, tag: Tag) -> Result<()> {
        let mut brackets: Vec<&'static str> = Vec::new();
        loop {
            let rest = self.rest();
            let Some(first) = rest.chars().next() else {
                return Ok(());
            };
            if brackets.is_empty() {
                let (sign, end) = match first {
                    '-' => (Some('-'), &rest[1..]),
                    '+' if tag == Tag::Block => (Some('+'), &rest[1..]),
                    _ => (None, rest),
                };
                let close = if tag == Tag::Block { "%}" } else { "}}" };
                if end.starts_with(close) {
                    self.push(if tag == Tag::Block { Token::BlockEnd } else { Token::VariableEnd });
                    self.advance(rest.len() - end.len() + 2);
                    if tag == Tag::Block || sign.is_some() {
                        self.after_end(sign);
                    }
                    return Ok(());
                }
            }
            if is_space(first) {
                self.advance(rest.len() - rest.trim_start_matches(is_space).len());
            } else if first.is_ascii_digit() {
                self.number()?;
            } else if first == '_' || first.is_alphanumeric() {
                self.name()?;
            } else if matches!(first, '\'' | '"') {
                self.text(first)?;
            } else {
                self.operator(&mut brackets)?;
            }
        }
    }

    fn number(&mut self) -> Result<()> {
        let rest = self.rest();
        if !self.source[..self.place].ends_with('.')
            && let Some(length) = float_length(rest)
        {
            let value = rest[..length].replace('_', "").parse().map_err(|_| Failure::new("not a number"))?;
            self.push(Token::Float(value));
            self.advance(length);
            return Ok(());
        }
        let radix = match rest.as_bytes().get(1) {
            Some(b'b' | b'B') => 2,
            Some(b'o' | b'O') => 8,
            Some(b'x' | b'X') => 16,
            _ => 10,
        };
        let prefixed = rest.starts_with('0') && radix != 10;
        let (length, radix) = match prefixed.then(|| digits(&rest[2..], radix, true)) {
            Some(length) if length > 0 => (2 + length, radix),
            _ if rest.starts_with('0') => (zeros(rest), 10),
            _ => (digits(rest, 10, false), 10),
        };
        let text = rest[if radix == 10 { 0 } else { 2 }..length].replace('_', "");
        let value = i128::from_str_radix(&text, radix)
            .map_err(|_| Failure::new(format!("the integer {} is larger than 128 bits", &rest[..length])))?;
        self.push(Token::Integer(value));
        self.advance(length);
        Ok(())
    }

    fn name(&mut self) -> Result<()> {
        let rest = self.rest();
        let length = rest.find(|c: char| c != '_' && !c.is_alphanumeric()).unwrap_or(rest.len());
        let name = &rest[..length];
        if name.starts_with(char::is_numeric) {
            return Err(Failure::new(format!("invalid character in the identifier {name:?}")));
        }
        self.push(Token::Name(name.to_owned()));
        self.advance(length);
        Ok(())
    }

    fn text(&mut self, quote: char) -> Result<()> {
        let rest = self.rest();
        let mut escaped = false;
        let mut end = None;
        for (place, c) in rest.char_indices().skip(1) {
            if escaped {
                escaped = false;
            } else if c == '\\' {
                escaped = true;
            } else if c == quote {
                end = Some(place);
                break;
            }
        }
        let end = end.ok_or_else(|| Failure::new("a string has no end"))?;
        self.push(Token::Text(unescape(&rest[1..end])?));
        self.advance(end + 1);
        Ok(())
    }

    fn operator(&mut self, brackets: &mut Vec<&'static str>) -> Result<()> {
        let rest = self.rest();
        let Some(&operator) = OPERATORS.iter().find(|operator| rest.starts_with(**operator)) else {
            let c = rest.chars().next().unwrap_or_default();
            return Err(Failure::new(format!("unexpected character {c:?}")));
        };
        match operator {
            "{" => brackets.push("}"),
            "(" => brackets.push(")"),
            "[" => brackets.push("]"),
            "}" | ")" | "]" => match brackets.pop() {
                None => return Err(Failure::new(format!("unexpected '{operator}'"))),
                Some(expected) if expected != operator => {
                    return Err(Failure::new(format!("unexpected '{operator}', expected '{expected}'")));
                }
                Some(_) => {}
            },
            _ => {}
        }
        self.push(Token::Operator(operator));
        self.advance(operator.len());
        Ok(())
    }
}

fn first_tag(text: &str) -> Option<(usize, Tag)> {
    let tag = |(start, _): (usize, &str)| match text.as_bytes().get(start + 1)? {
        b'{' => Some((start, Tag::Variable)),
        b'%' => Some((start, Tag::Block)),
        b'#' => Some((start, Tag::Comment)),
        _ => None,
    };
    text.match_indices('{').find_map(tag)
}

/// The length of `{% raw %}` at the start of a text, with the white space that `-%}` removes.
fn raw_begin(text: &str) -> Option<usize> {
    let body = text.strip_prefix("{%")?;
    let body = body.strip_prefix(['-', '+']).unwrap_or(body).trim_start_matches(is_space);
    let body = body.strip_prefix("raw")?.trim_start_matches(is_space);
    let rest = match body.strip_prefix("-%}") {
        Some(rest) => rest.trim_start_matches(is_space),
        None => body.strip_prefix("%}")?,
    };
    Some(text.len() - rest.len())
}

/// The length of digits at the start of a text, with single underscores between them, and before them if `leading`.
fn digits(text: &str, radix: u32, leading: bool) -> usize {
    let bytes = text.as_bytes();
    let is_digit = |place: usize| bytes.get(place).is_some_and(|&byte| char::from(byte).is_digit(radix));
    let mut length = 0;
    loop {
        if is_digit(length) {
            length += 1;
        } else if (leading || length > 0) && bytes.get(length) == Some(&b'_') && is_digit(length + 1) {
            length += 2;
        } else {
            return length;
        }
    }
}

/// The length of zeros at the start of a text, with single underscores between them.
fn zeros(text: &str) -> usize {
    let mut length = 1;
    loop {
        if text[length..].starts_with('0') {
            length += 1;
        } else if text[length..].starts_with("_0") {
            length += 2;
        } else {
            return length;
        }
    }
}

/// The length of a number with a fraction or an exponent at the start of a text.
fn float_length(text: &str) -> Option<usize> {
    let mut length = digits(text, 10, false);
    let mut is_float = false;
    if text[length..].starts_with('.') {
        let fraction = digits(&text[length + 1..], 10, false);
        if fraction > 0 {
            length += 1 + fraction;
            is_float = true;
        }
    }
    if text[length..].starts_with(['e', 'E']) {
        let sign = usize::from(text[length + 1..].starts_with(['+', '-']));
        let exponent = digits(&text[length + 1 + sign..], 10, false);
        if exponent > 0 {
            return Some(length + 1 + sign + exponent);
        }
    }
    is_float.then_some(length)
}

/// Resolves the escapes of a string literal as Python's `unicode-escape` does.
fn unescape(text: &str) -> Result<String> {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        if c != '\\' {
            out.push(c);
            continue;
        }
        let Some(escape) = chars.next() else {
            return Err(Failure::new("a string ends with a backslash"));
        };
        match escape {
            '\n' => {}
            '\\' | '\'' | '"' => out.push(escape),
            'a' => out.push('\u{7}'),
            'b' => out.push('\u{8}'),
            'f' => out.push('\u{c}'),
            'n' => out.push('\n'),
            'r' => out.push('\r'),
            't' => out.push('\t'),
            'v' => out.push('\u{b}'),
            'x' => out.push(code_point(&mut chars, 2)?),
            'u' => out.push(code_point(&mut chars, 4)?),
            'U' => out.push(code_point(&mut chars, 8)?),
            'N' => return Err(Failure::new("characters by name (\\N{...}) are not supported in strings")),
            '0'..='7' => {
                let mut code = escape.to_digit(8).unwrap_or(0);
                for _ in 0..2 {
                    let Some(digit) = chars.clone().next().and_then(|c| c.to_digit(8)) else {
                        break;
                    };
                    code = code * 8 + digit;
                    chars.next();
                }
                out.push(char::from_u32(code).unwrap_or_default());
            }
            _ => {
                out.push('\\');
                // Jinja2 writes other characters as escapes before it resolves escapes, which spoils this one.
                match u32::from(escape) {
                    0..=0x7f => out.push(escape),
                    code @ 0x80..=0xff => out.push_str(&format!("x{code:02x}")),
                    code @ 0x100..=0xffff => out.push_str(&format!("u{code:04x}")),
                    code => out.push_str(&format!("U{code:08x}")),
                }
            }
        }
    }
    Ok(out)
}

fn code_point(chars: &mut std::str::Chars<'_>, digits: usize) -> Result<char> {
    let rest = chars.as_str();
    let text = rest.get(..digits).filter(|text| text.bytes().all(|byte| byte.is_ascii_hexdigit()));
    let code = text.and_then(|text| u32::from_str_radix(text, 16).ok());
    let c = code.and_then(char::from_u32).ok_or_else(|| {
        Failure::new("an escape in a string is no character: \\x takes 2, \\u 4 and \\U 8 hexadecimal digits")
    })?;
    *chars = rest[digits..].chars();
    Ok(c)
}
