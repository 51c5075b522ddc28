//! Escapes for HTML, as markupsafe writes them.

use std::rc::Rc;

use super::failure::{Result, fail};
use super::print::text;
use super::unicode::is_space;
use super::value::Value;

/// The text of a value with escapes, unless it is HTML already.
pub(super) fn escape(value: &Value) -> Result<Rc<str>> {
    match value {
        Value::Markup(text) => Ok(Rc::clone(text)),
        _ => Ok(escape_text(&text(value)?).into()),
    }
}

pub(super) fn escape_text(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&#34;"),
            '\'' => out.push_str("&#39;"),
            _ => out.push(c),
        }
    }
    out
}

/// A text without tags and comments, its entities resolved and its white space made single blanks.
pub(super) fn strip_tags(text: &str) -> Result<String> {
    let mut text = text.to_owned();
    for (open, close) in [("<!--", "-->"), ("<", ">")] {
        let mut kept = String::with_capacity(text.len());
        let mut rest = text.as_str();
        // A tag can appear where another one was taken out, which then begins in what was kept.
        while let Some(start) = rest.find(open) {
            let Some(end) = rest[start..].find(close) else {
                break;
            };
            kept.push_str(&rest[..start]);
            rest = &rest[start + end + close.len()..];
            let overlap = open.len() - 1;
            let mut tail: Vec<char> = Vec::new();
            while tail.len() < overlap {
                match kept.pop() {
                    Some(c) => tail.push(c),
                    None => break,
                }
            }
            let tail: String = tail.into_iter().rev().collect();
            if format!("{tail}{}", rest.chars().take(overlap).collect::<String>()).contains(open) {
                return fail("comments in comments are not supported by 'striptags'");
            }
            kept.push_str(&tail);
        }
        kept.push_str(rest);
        text = kept;
    }
    let words: Vec<&str> = text.split(is_space).filter(|word| !word.is_empty()).collect();
    unescape(&words.join(" "))
}

/// Resolves the entities of a text.
fn unescape(text: &str) -> Result<String> {
    const KNOWN: [(&str, &str); 7] = [
        ("amp;", "&"),
        ("lt;", "<"),
        ("gt;", ">"),
        ("quot;", "\""),
        ("#34;", "\""),
        ("#39;", "'"),
        ("nbsp;", "\u{a0}"),
    ];
    let mut parts = text.split('&');
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        if let Some((name, c)) = KNOWN.iter().find(|(name, _)| part.starts_with(name)) {
            out.push_str(c);
            out.push_str(&part[name.len()..]);
        } else if part.starts_with(|c: char| c.is_ascii_alphabetic() || c == '#') {
            return fail(format!("the entity '&{}' is not supported", part.chars().take(8).collect::<String>()));
        } else {
            out.push('&');
            out.push_str(part);
        }
    }
    Ok(out)
}
