//! Filters for text.

use super::super::arguments::{Arguments, int, int_or, is_true, iterate, soft_str, str_of};
use super::super::failure::{Result, fail};
use super::super::html;
use super::super::json;
use super::super::methods::{capitalize, lines, pad, replace, strip};
use super::super::percent_format;
use super::super::print::{MAX_TEXT, repr, text};
use super::super::unicode::{is_alphanumeric, is_space};
use super::super::value::Value;
use super::sequences::Path;

/// The most columns of an indentation.
const MAX_INDENT: usize = 1 << 16;

pub(super) fn call(name: &str, value: &Value, args: Arguments) -> Result<Value> {
    match name {
        "center" => {
            let [width] = args.bind(name, ["width"], 0)?;
            same_kind(value, pad(&soft_str(value)?, name, int_or(width.as_ref(), 80)?, " ")?)
        }
        "format" => format(value, args),
        "indent" => indent(value, args),
        "join" => join(value, args),
        "replace" => {
            let [old, new, count] = args.bind(name, ["old", "new", "count"], 2)?;
            let count = match &count {
                None | Some(Value::None) => -1,
                Some(count) => int(count)?,
            };
            let (old, new) = (text(&old.unwrap_or(Value::None))?, text(&new.unwrap_or(Value::None))?);
            Ok(Value::str(replace(&text(value)?, &old, &new, count)?))
        }
        "trim" => {
            let [chars] = args.bind(name, ["chars"], 0)?;
            same_kind(value, strip(&soft_str(value)?, "strip", chars.as_ref())?.to_owned())
        }
        "truncate" => truncate(value, args),
        "xmlattr" => xmlattr(value, args),
        "tojson" => json::tojson(value, args),
        "filesizeformat" => {
            let [binary] = args.bind(name, ["binary"], 0)?;
            file_size(value, is_true(binary.as_ref())).map(Value::str)
        }
        "urlize" | "wordwrap" => fail(format!("the filter '{name}' is not supported in chat templates")),
        _ => {
            args.unnamed::<0>(name, 0)?;
            without_arguments(name, value)
        }
    }
}

/// Wraps `text` in the kind of `value`: markup (text that is safe as HTML) stays markup, anything else becomes plain
/// text.
fn same_kind(value: &Value, text: String) -> Result<Value> {
    Ok(match value {
        Value::Markup(_) => Value::Markup(text.into()),
        _ => Value::str(text),
    })
}

fn without_arguments(name: &str, value: &Value) -> Result<Value> {
    match name {
        "capitalize" => same_kind(value, capitalize(&soft_str(value)?)),
        "lower" => same_kind(value, soft_str(value)?.to_lowercase()),
        "upper" => same_kind(value, soft_str(value)?.to_uppercase()),
        "title" => Ok(Value::str(title(&soft_str(value)?))),
        "e" | "escape" => Ok(Value::Markup(html::escape(value)?)),
        "forceescape" => Ok(Value::Markup(html::escape_text(&text(value)?).into())),
        "safe" => Ok(Value::Markup(text(value)?.into())),
        "string" => same_kind(value, text(value)?),
        "striptags" => Ok(Value::str(html::strip_tags(&text(value)?)?)),
        "urlencode" => urlencode(value).map(Value::str),
        "wordcount" => {
            let text = soft_str(value)?;
            let is_word = |c: char| c == '_' || is_alphanumeric(c);
            let words = text.split(|c| !is_word(c)).filter(|word| !word.is_empty()).count();
            Ok(Value::Int(words as i128))
        }
        _ => pprint(value).map(Value::str),
    }
}

/// Begins each word with a capital, where words begin after white space, `-` and opening brackets.
fn title(text: &str) -> String {
    let ends_word = |c: char| is_space(c) || matches!(c, '-' | '(' | '{' | '[' | '<');
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let in_word = !ends_word(first);
        let end = rest.find(|c| ends_word(c) == in_word).unwrap_or(rest.len());
        let (word, after) = rest.split_at(end);
        out.extend(first.to_uppercase());
        out.push_str(&word[first.len_utf8()..].to_lowercase());
        rest = after;
    }
    out
}

fn format(value: &Value, args: Arguments) -> Result<Value> {
    if matches!(value, Value::Markup(_)) {
        return fail("the filter 'format' on a string marked as safe is not supported");
    }
    let values = match (args.positional.is_empty(), args.named.is_empty()) {
        (false, false) => return fail("the filter 'format' takes arguments by position or by name, not both"),
        (true, false) => Value::dict(args.named.into_iter().map(|(name, value)| (Value::str(name), value)))?,
        _ => Value::tuple(args.positional)?,
    };
    percent_format::format(&soft_str(value)?, &values).map(Value::str)
}

fn indent(value: &Value, args: Arguments) -> Result<Value> {
    let [width, first, blank] = args.bind("indent", ["width", "first", "blank"], 0)?;
    let indentation = match &width {
        None => "    ".to_owned(),
        Some(Value::Str(text) | Value::Markup(text)) => text.to_string(),
        Some(width) => {
            let width = usize::try_from(int(width)?).unwrap_or(0);
            if width > MAX_INDENT {
                return fail(format!("an indentation of {width} is wider than {MAX_INDENT}"));
            }
            " ".repeat(width)
        }
    };
    let text = str_of(value)? + "\n";
    let mut out = String::new();
    for (index, line) in lines(&text, false).into_iter().enumerate() {
        if index > 0 {
            out.push('\n');
        }
        let indents = if index == 0 { is_true(first.as_ref()) } else { is_true(blank.as_ref()) || !line.is_empty() };
        if indents {
            out.push_str(&indentation);
        }
        out.push_str(line);
        if out.len() > MAX_TEXT {
            return fail(format!("the indented text is longer than {MAX_TEXT} bytes"));
        }
    }
    same_kind(value, out)
}

fn join(value: &Value, args: Arguments) -> Result<Value> {
    let [separator, attribute] = args.bind("join", ["d", "attribute"], 0)?;
    let path = Path::new(&attribute.unwrap_or(Value::None))?;
    let separator = separator.map_or(Ok(String::new()), |it| text(&it))?;
    let mut out = String::new();
    for (index, item) in iterate(value)?.iter().enumerate() {
        if index > 0 {
            out.push_str(&separator);
        }
        out.push_str(&text(&path.of(item, None)?)?);
        if out.len() > MAX_TEXT {
            return fail(format!("the joined text is longer than {MAX_TEXT} bytes"));
        }
    }
    Ok(Value::str(out))
}

fn truncate(value: &Value, args: Arguments) -> Result<Value> {
    let [length, kill_words, end, leeway] = args.bind("truncate", ["length", "killwords", "end", "leeway"], 0)?;
    let length = int_or(length.as_ref(), 255)?;
    let end = end.map_or(Ok("...".to_owned()), |end| str_of(&end))?;
    let leeway = match &leeway {
        None | Some(Value::None) => 5,
        Some(leeway) => int(leeway)?,
    };
    let end_length = end.chars().count() as i128;
    if length < end_length || leeway < 0 {
        return fail(format!("the filter 'truncate' needs a length of {end_length} at least, and leeway"));
    }
    let Some(size) = value.len() else {
        return fail(format!("a value of type '{}' has no length", value.type_name()));
    };
    if size as i128 <= length.saturating_add(leeway) {
        return Ok(value.clone());
    }
    let kept = usize::try_from(length - end_length).unwrap_or(usize::MAX);
    let mut text: String = str_of(value)?.chars().take(kept).collect();
    if !is_true(kill_words.as_ref())
        && let Some(place) = text.rfind(' ')
    {
        text.truncate(place);
    }
    match value {
        Value::Markup(_) => Ok(Value::Markup((text + &html::escape_text(&end)).into())),
        _ => Ok(Value::str(text + &end)),
    }
}

fn xmlattr(value: &Value, args: Arguments) -> Result<Value> {
    let [autospace] = args.bind("xmlattr", ["autospace"], 0)?;
    let Value::Dict(dict) = value else {
        value.defined()?;
        return fail(format!("a value of type '{}' has no items by key", value.type_name()));
    };
    let mut items = Vec::new();
    for (key, value) in dict.entries.values() {
        if matches!(value, Value::None | Value::Undefined(_)) {
            continue;
        }
        let name = str_of(key)?;
        if name.contains(|c: char| c.is_ascii_whitespace() || matches!(c, '\u{b}' | '/' | '>' | '=')) {
            return fail(format!("{name:?} is no name of an attribute"));
        }
        items.push(format!("{}=\"{}\"", html::escape(key)?, html::escape(value)?));
    }
    let text = items.join(" ");
    let space = autospace.is_none_or(|it| it.is_true()) && !text.is_empty();
    Ok(Value::str(if space { format!(" {text}") } else { text }))
}

fn urlencode(value: &Value) -> Result<String> {
    let pairs = match value {
        Value::Dict(dict) => dict.entries.values().cloned().collect(),
        Value::Str(text) | Value::Markup(text) => return Ok(quoted(text, false)),
        _ if value.len().is_some() || matches!(value, Value::Iterator(_)) => {
            let mut pairs = Vec::new();
            for pair in iterate(value)? {
                match &iterate(&pair)?[..] {
                    [key, value] => pairs.push((key.clone(), value.clone())),
                    other => {
                        return fail(format!("the filter 'urlencode' needs pairs, and found {} items", other.len()));
                    }
                }
            }
            pairs
        }
        _ => return Ok(quoted(&text(value)?, false)),
    };
    let mut parts = Vec::new();
    for (key, value) in pairs {
        parts.push(format!("{}={}", quoted(&text(&key)?, true), quoted(&text(&value)?, true)));
    }
    Ok(parts.join("&"))
}

/// Percent-encodes a text. In a query blanks become `+`, and slashes are encoded.
fn quoted(text: &str, in_query: bool) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'_' | b'.' | b'-' | b'~' => out.push(char::from(byte)),
            b'/' if !in_query => out.push('/'),
            b' ' if in_query => out.push('+'),
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

fn file_size(value: &Value, binary: bool) -> Result<String> {
    value.defined()?;
    let bytes = match (value, value.as_int()) {
        (Value::Float(value), _) => *value,
        (_, Some(value)) => value as f64,
        (Value::Str(text), _) => match super::super::float::parse(text) {
            Some(value) => value,
            None => return fail(format!("{text:?} is no number")),
        },
        _ => return fail(format!("a value of type '{}' is no number", value.type_name())),
    };
    if !bytes.is_finite() {
        return fail("a size has to be finite");
    }
    let base: f64 = if binary { 1024.0 } else { 1000.0 };
    if bytes == 1.0 {
        return Ok("1 Byte".to_owned());
    }
    if bytes < base {
        return Ok(format!("{} Bytes", percent_format::truncated(bytes)?));
    }
    let prefixes = if binary {
        ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB", "ZiB", "YiB"]
    } else {
        ["kB", "MB", "GB", "TB", "PB", "EB", "ZB", "YB"]
    };
    let mut unit = base;
    for (index, prefix) in prefixes.into_iter().enumerate() {
        unit *= base;
        if bytes < unit || index == prefixes.len() - 1 {
            return Ok(format!("{:.1} {prefix}", base * bytes / unit));
        }
    }
    fail("there is no larger unit")
}

/// Formats a value as Python's `pprint.pformat` does. Values that do not fit on a line of 80 characters are an error.
fn pprint(value: &Value) -> Result<String> {
    let text = repr(&sorted(value)?)?;
    if text.chars().count() > 80 {
        return fail("the filter 'pprint' writes no more than a line of 80 characters");
    }
    Ok(text)
}

/// Returns the value with all of its dicts, at every depth, sorted by their keys.
fn sorted(value: &Value) -> Result<Value> {
    match value {
        Value::List(items) => Value::list(items.values.iter().map(sorted).collect::<Result<_>>()?),
        Value::Tuple(items) => Value::tuple(items.values.iter().map(sorted).collect::<Result<_>>()?),
        Value::Dict(dict) => {
            let pairs = dict.entries.values().cloned().collect();
            let pairs = super::super::compare::sort(pairs, false)?;
            let pairs = pairs.into_iter().map(|(key, value)| Ok((key, sorted(&value)?)));
            Value::dict(pairs.collect::<Result<Vec<_>>>()?)
        }
        other => Ok(other.clone()),
    }
}
