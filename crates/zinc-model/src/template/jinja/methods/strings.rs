//! The methods of Python's strings.

use super::super::arguments::{Arguments, int, int_or, is_true, iterate, str_of};
use super::super::failure::{Failure, Result, fail};
use super::super::print::MAX_TEXT;
use super::super::str_format;
use super::super::unicode::{
    ends_line, is_alphanumeric, is_cased, is_decimal, is_digit, is_identifier, is_letter, is_numeric, is_printable,
    is_space, is_title, lower_each, push_folded, push_title,
};
use super::super::value::Value;

/// How wide a padded string can be.
const MAX_WIDTH: usize = 1 << 20;

/// Calls a method of a string.
pub(super) fn call(text: &str, name: &str, args: Arguments) -> Result<Value> {
    match name {
        "split" | "rsplit" => {
            let [separator, max] = args.bind(name, ["sep", "maxsplit"], 0)?;
            let separator = separator.filter(|it| !matches!(it, Value::None)).map(|it| str_of(&it)).transpose()?;
            let max = usize::try_from(int_or(max.as_ref(), -1)?).unwrap_or(usize::MAX);
            list_of(split(text, separator.as_deref(), max, name == "rsplit")?)
        }
        "splitlines" => {
            let [keep] = args.bind(name, ["keepends"], 0)?;
            list_of(lines(text, is_true(keep.as_ref())))
        }
        "format" => str_format::format(text, &args.positional, &str_format::Named::Arguments(&args.named)),
        "format_map" => {
            let [map] = args.unnamed(name, 1)?;
            str_format::format(text, &[], &str_format::Named::Mapping(&map.unwrap_or(Value::None)))
        }
        "expandtabs" => {
            let [size] = args.bind(name, ["tabsize"], 0)?;
            expand_tabs(text, usize::try_from(int_or(size.as_ref(), 8)?.max(0)).unwrap_or(usize::MAX)).map(Value::str)
        }
        "join" => {
            let [items] = args.unnamed(name, 1)?;
            join(text, &iterate(&items.unwrap_or(Value::None))?)
        }
        "strip" | "lstrip" | "rstrip" => {
            let [chars] = args.unnamed(name, 0)?;
            strip(text, name, chars.as_ref()).map(Value::str)
        }
        "startswith" | "endswith" => {
            let [affix, start, end] = args.unnamed(name, 1)?;
            let affix = affix.unwrap_or(Value::None);
            let affixes = match &affix {
                Value::Tuple(items) => items.values.iter().map(str_of).collect::<Result<Vec<_>>>()?,
                single => vec![str_of(single)?],
            };
            let Some((part, _)) = part(text, start, end)? else {
                return Ok(Value::Bool(false));
            };
            let matches = |affix: &String| match name {
                "startswith" => part.starts_with(affix.as_str()),
                _ => part.ends_with(affix.as_str()),
            };
            Ok(Value::Bool(affixes.iter().any(matches)))
        }
        "find" | "rfind" | "index" | "rindex" | "count" => {
            let [sought, start, end] = args.unnamed(name, 1)?;
            search(text, name, &str_of(&sought.unwrap_or(Value::None))?, start, end)
        }
        "replace" => {
            let [old, new, count] = args.unnamed(name, 2)?;
            let (old, new) = (str_of(&old.unwrap_or(Value::None))?, str_of(&new.unwrap_or(Value::None))?);
            replace(text, &old, &new, int_or(count.as_ref(), -1)?).map(Value::str)
        }
        "partition" | "rpartition" => {
            let [separator] = args.unnamed(name, 1)?;
            let separator = str_of(&separator.unwrap_or(Value::None))?;
            if separator.is_empty() {
                return fail(format!("{name}() needs a separator that is not empty"));
            }
            let parts = match name {
                "partition" => text.split_once(&separator).map_or([text, "", ""], |(a, b)| [a, &separator, b]),
                _ => text.rsplit_once(&separator).map_or(["", "", text], |(a, b)| [a, &separator, b]),
            };
            Value::tuple(parts.into_iter().map(Value::str).collect())
        }
        "removeprefix" | "removesuffix" => {
            let [affix] = args.unnamed(name, 1)?;
            let affix = str_of(&affix.unwrap_or(Value::None))?;
            let stripped = match name {
                "removeprefix" => text.strip_prefix(affix.as_str()),
                _ => text.strip_suffix(affix.as_str()),
            };
            Ok(Value::str(stripped.unwrap_or(text)))
        }
        "center" | "ljust" | "rjust" => {
            let [width, fill] = args.unnamed(name, 1)?;
            let fill = fill.map_or(Ok(" ".to_owned()), |fill| str_of(&fill))?;
            pad(text, name, int_or(width.as_ref(), 0)?, &fill).map(Value::str)
        }
        "zfill" => {
            let [width] = args.unnamed(name, 1)?;
            let width = usize::try_from(int_or(width.as_ref(), 0)?).unwrap_or(0);
            let missing = bounded(width)?.saturating_sub(text.chars().count());
            let sign = usize::from(text.starts_with(['+', '-']));
            Ok(Value::str([&text[..sign], &"0".repeat(missing), &text[sign..]].concat()))
        }
        "translate" => {
            let [table] = args.unnamed(name, 1)?;
            translate(text, &table.unwrap_or(Value::None))
        }
        "encode" | "maketrans" => fail(format!("the method '{name}' of a string is not supported")),
        _ => {
            args.unnamed::<0>(name, 0)?;
            Ok(simple(text, name))
        }
    }
}

/// Methods without arguments.
fn simple(text: &str, name: &str) -> Value {
    let all = |class: fn(char) -> bool| Value::Bool(!text.is_empty() && text.chars().all(class));
    match name {
        "upper" => Value::str(text.to_uppercase()),
        "lower" => Value::str(text.to_lowercase()),
        "capitalize" => Value::str(capitalize(text)),
        "title" => Value::str(title(text)),
        "swapcase" => {
            let mut out = String::new();
            for (c, lower) in text.chars().zip(lower_each(text)) {
                if c.is_uppercase() {
                    out.push_str(&lower);
                } else if c.is_lowercase() {
                    out.extend(c.to_uppercase());
                } else {
                    out.push(c);
                }
            }
            Value::str(out)
        }
        "casefold" => {
            let mut out = String::new();
            text.chars().for_each(|c| push_folded(c, &mut out));
            Value::str(out)
        }
        "isalnum" => all(is_alphanumeric),
        "isalpha" => all(is_letter),
        "isascii" => Value::Bool(text.is_ascii()),
        "isdecimal" => all(is_decimal),
        "isdigit" => all(is_digit),
        "isidentifier" => Value::Bool(is_identifier(text)),
        "isnumeric" => all(is_numeric),
        "isprintable" => Value::Bool(text.chars().all(is_printable)),
        "isspace" => all(is_space),
        "islower" => Value::Bool(is_lower(text)),
        "isupper" => Value::Bool(is_upper(text)),
        _ => Value::Bool(is_titled(text)),
    }
}

pub(in super::super) fn is_lower(text: &str) -> bool {
    text.chars().any(char::is_lowercase) && !text.chars().any(|c| c.is_uppercase() || is_title(c))
}

pub(in super::super) fn is_upper(text: &str) -> bool {
    text.chars().any(char::is_uppercase) && !text.chars().any(|c| c.is_lowercase() || is_title(c))
}

fn is_titled(text: &str) -> bool {
    let (mut found, mut in_word) = (false, false);
    for c in text.chars() {
        if c.is_uppercase() || is_title(c) {
            if in_word {
                return false;
            }
            (found, in_word) = (true, true);
        } else if c.is_lowercase() {
            if !in_word {
                return false;
            }
        } else {
            in_word = false;
        }
    }
    found
}

/// The first character in title case, the others in lower case.
pub(in super::super) fn capitalize(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    if let Some(first) = text.chars().next() {
        push_title(first, &mut out);
    }
    out.extend(lower_each(text).into_iter().skip(1));
    out
}

fn title(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut in_word = false;
    for (c, lower) in text.chars().zip(lower_each(text)) {
        if in_word {
            out.push_str(&lower);
        } else {
            push_title(c, &mut out);
        }
        in_word = is_cased(c);
    }
    out
}

fn list_of(parts: Vec<&str>) -> Result<Value> {
    Value::list(parts.into_iter().map(Value::str).collect())
}

fn split<'t>(text: &'t str, separator: Option<&str>, max: usize, from_right: bool) -> Result<Vec<&'t str>> {
    let Some(separator) = separator else {
        return Ok(split_at_space(text, max, from_right));
    };
    if separator.is_empty() {
        return fail("split() needs a separator that is not empty");
    }
    let parts = max.saturating_add(1);
    Ok(if from_right {
        let mut parts: Vec<&str> = text.rsplitn(parts, separator).collect();
        parts.reverse();
        parts
    } else {
        text.splitn(parts, separator).collect()
    })
}

/// Splits at white space. What is left after `max` parts keeps its white space on the far side.
fn split_at_space(text: &str, max: usize, from_right: bool) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut rest = if from_right { text.trim_end_matches(is_space) } else { text.trim_start_matches(is_space) };
    while !rest.is_empty() {
        let cut = if parts.len() == max {
            None
        } else if from_right {
            rest.char_indices().rfind(|(_, c)| is_space(*c)).map(|(place, c)| (place, place + c.len_utf8()))
        } else {
            rest.char_indices().find(|(_, c)| is_space(*c)).map(|(place, c)| (place, place + c.len_utf8()))
        };
        let Some((before, after)) = cut else {
            parts.push(if from_right { rest.trim_start_matches(|c| parts.len() < max && is_space(c)) } else { rest });
            break;
        };
        if from_right {
            parts.push(&rest[after..]);
            rest = rest[..before].trim_end_matches(is_space);
        } else {
            parts.push(&rest[..before]);
            rest = rest[after..].trim_start_matches(is_space);
        }
    }
    if from_right {
        parts.reverse();
    }
    parts
}

pub(in super::super) fn lines(text: &str, keep_ends: bool) -> Vec<&str> {
    let mut lines = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let Some((end, c)) = rest.char_indices().find(|(_, c)| ends_line(*c)) else {
            lines.push(rest);
            break;
        };
        let next = end + if rest[end..].starts_with("\r\n") { 2 } else { c.len_utf8() };
        lines.push(&rest[..if keep_ends { next } else { end }]);
        rest = &rest[next..];
    }
    lines
}

fn join(separator: &str, items: &[Value]) -> Result<Value> {
    let mut out = String::new();
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            out.push_str(separator);
        }
        let text = item.as_str();
        let text = text.ok_or_else(|| Failure::new(format!("join() takes strings, not '{}'", item.type_name())))?;
        out.push_str(text);
        if out.len() > MAX_TEXT {
            return fail(format!("the text of join() is longer than {MAX_TEXT} bytes"));
        }
    }
    Ok(Value::str(out))
}

pub(in super::super) fn strip<'t>(text: &'t str, name: &str, chars: Option<&Value>) -> Result<&'t str> {
    let chars = match chars {
        None | Some(Value::None) => None,
        Some(chars) => Some(str_of(chars)?),
    };
    let stripped = |c: char| chars.as_ref().map_or_else(|| is_space(c), |chars| chars.contains(c));
    Ok(match name {
        "lstrip" => text.trim_start_matches(stripped),
        "rstrip" => text.trim_end_matches(stripped),
        _ => text.trim_matches(stripped),
    })
}

/// The part of a text between two places in characters, and where it begins; `None` where the start lies behind the end
/// of the text or of the part.
fn part(text: &str, start: Option<Value>, end: Option<Value>) -> Result<Option<(&str, usize)>> {
    let given = |value: Option<Value>| value.filter(|it| !matches!(it, Value::None)).map(|it| int(&it)).transpose();
    let (start, end) = (given(start)?, given(end)?);
    if start.is_none() && end.is_none() {
        return Ok(Some((text, 0)));
    }
    let length = text.chars().count() as i128;
    let clamp = |bound: i128| if bound < 0 { (bound.saturating_add(length)).max(0) } else { bound };
    let start = clamp(start.unwrap_or(0));
    let end = clamp(end.unwrap_or(length)).min(length);
    if start > end {
        return Ok(None);
    }
    let place = |count: i128| {
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        text.char_indices().nth(count).map_or(text.len(), |(place, _)| place)
    };
    Ok(Some((&text[place(start)..place(end)], usize::try_from(start).unwrap_or(0))))
}

fn search(text: &str, name: &str, sought: &str, start: Option<Value>, end: Option<Value>) -> Result<Value> {
    let part = part(text, start, end)?;
    if name == "count" {
        let count = part.map_or(0, |(part, _)| match sought {
            "" => part.chars().count() + 1,
            _ => part.matches(sought).count(),
        });
        return Ok(Value::Int(count as i128));
    }
    let found = part.and_then(|(part, start)| {
        let place = if name.starts_with('r') { part.rfind(sought) } else { part.find(sought) }?;
        Some((start + part[..place].chars().count()) as i128)
    });
    match found {
        Some(place) => Ok(Value::Int(place)),
        None if name.ends_with("find") => Ok(Value::Int(-1)),
        None => fail(format!("{name}(): there is no such part")),
    }
}

pub(in super::super) fn replace(text: &str, old: &str, new: &str, count: i128) -> Result<String> {
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    let places = if old.is_empty() { text.chars().count() + 1 } else { text.matches(old).count() };
    let size = text.len().saturating_add(new.len().saturating_mul(places.min(count)));
    if size > MAX_TEXT.saturating_add(old.len().saturating_mul(places)) {
        return fail(format!("the text of replace() is longer than {MAX_TEXT} bytes"));
    }
    Ok(text.replacen(old, new, count))
}

fn bounded(width: usize) -> Result<usize> {
    if width > MAX_WIDTH { fail(format!("a width of {width} is larger than {MAX_WIDTH}")) } else { Ok(width) }
}

pub(in super::super) fn pad(text: &str, name: &str, width: i128, fill: &str) -> Result<String> {
    if fill.chars().count() != 1 {
        return fail(format!("{name}() fills with one character, not with {fill:?}"));
    }
    let width = bounded(usize::try_from(width).unwrap_or(0))?;
    let missing = width.saturating_sub(text.chars().count());
    let left = match name {
        "ljust" => 0,
        "rjust" => missing,
        // The odd blank goes to the left where the width is odd.
        _ => missing / 2 + (missing & width & 1),
    };
    Ok([&fill.repeat(left), text, &fill.repeat(missing - left)].concat())
}

fn expand_tabs(text: &str, size: usize) -> Result<String> {
    let size = bounded(size)?;
    let mut out = String::new();
    let mut column = 0;
    for c in text.chars() {
        if c == '\t' {
            let blanks = if size > 0 { size - column % size } else { 0 };
            out.extend(std::iter::repeat_n(' ', blanks));
            column += blanks;
            if out.len() > MAX_TEXT {
                return fail(format!("the text of expandtabs() is longer than {MAX_TEXT} bytes"));
            }
        } else {
            out.push(c);
            column = if matches!(c, '\n' | '\r') { 0 } else { column + 1 };
        }
    }
    Ok(out)
}

fn translate(text: &str, table: &Value) -> Result<Value> {
    let Value::Dict(dict) = table else {
        return fail("translate() needs a dict");
    };
    let mut out = String::new();
    for c in text.chars() {
        match dict.get(&Value::Int(i128::from(u32::from(c))))? {
            None => out.push(c),
            Some(Value::None) => {}
            Some(Value::Str(text)) => out.push_str(&text),
            Some(other) => {
                let code = other.as_int().and_then(|code| u32::try_from(code).ok()).and_then(char::from_u32);
                out.push(code.ok_or_else(|| Failure::new("translate() maps to strings, characters or none"))?);
            }
        }
    }
    Ok(Value::str(out))
}
