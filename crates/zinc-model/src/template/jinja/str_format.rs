//! Python's `str.format`, with attributes and items as the sandbox gives them.

use super::attributes::{attribute, item};
use super::failure::{Failure, Result, fail};
use super::format_spec;
use super::print::{MAX_TEXT, ascii, repr, text};
use super::value::Value;

/// The values that fields refer to by name.
pub(super) enum Named<'a> {
    Arguments(&'a [(String, Value)]),
    Mapping(&'a Value),
}

struct Formatter<'a> {
    positional: &'a [Value],
    named: &'a Named<'a>,
    /// The number of the next field without one; `None` once a field had a number.
    automatic: Option<usize>,
}

/// Fills in a format.
pub(super) fn format(format: &str, positional: &[Value], named: &Named<'_>) -> Result<Value> {
    let mut formatter = Formatter { positional, named, automatic: Some(0) };
    formatter.fill(format, 2).map(Value::str)
}

impl Formatter<'_> {
    fn fill(&mut self, format: &str, depth: usize) -> Result<String> {
        let Some(depth) = depth.checked_sub(1) else {
            return fail("fields in a format are nested too deep");
        };
        let mut out = String::new();
        let mut rest = format;
        while let Some(place) = rest.find(['{', '}']) {
            out.push_str(&rest[..place]);
            let brace = &rest[place..=place];
            let after = &rest[place + 1..];
            if let Some(after) = after.strip_prefix(brace) {
                out.push_str(brace);
                rest = after;
                continue;
            }
            if brace == "}" {
                return fail("a format has '}' without '{'");
            }
            let end = closing(after).ok_or_else(|| Failure::new("a format has '{' without '}'"))?;
            out.push_str(&self.field(&after[..end], depth)?);
            rest = &after[end + 1..];
            if out.len() > MAX_TEXT {
                return fail(format!("the text of format() is longer than {MAX_TEXT} bytes"));
            }
        }
        out.push_str(rest);
        Ok(out)
    }

    fn field(&mut self, field: &str, depth: usize) -> Result<String> {
        // A bracket can hold colons and exclamation marks.
        let mut in_bracket = false;
        let end = field.find(|c| {
            in_bracket = (in_bracket || c == '[') && c != ']';
            !in_bracket && matches!(c, ':' | '!')
        });
        let (name, rest) = field.split_at(end.unwrap_or(field.len()));
        let (conversion, spec) = match rest.strip_prefix('!') {
            Some(rest) => {
                let (conversion, spec) = rest.split_once(':').unwrap_or((rest, ""));
                (Some(conversion), spec)
            }
            None => (None, rest.strip_prefix(':').unwrap_or("")),
        };
        let value = self.value(name)?;
        let spec = if spec.contains(['{', '}']) { self.fill(spec, depth)? } else { spec.to_owned() };
        let value = match conversion {
            None => value,
            Some("s") => Value::str(text(&value)?),
            Some("r") => Value::str(repr(&value)?),
            Some("a") => Value::str(ascii(&value)?),
            Some(other) => return fail(format!("a format has no conversion {other:?}")),
        };
        format_spec::format(&value, &spec)
    }

    /// The value that the name of a field refers to, such as `0.role` or `message[content]`.
    fn value(&mut self, name: &str) -> Result<Value> {
        let end = name.find(['.', '[']).unwrap_or(name.len());
        let (first, mut rest) = name.split_at(end);
        let mut value = self.first(first)?;
        while !rest.is_empty() {
            if let Some(after) = rest.strip_prefix('.') {
                let end = after.find(['.', '[']).unwrap_or(after.len());
                if end == 0 {
                    return fail("a format has an empty attribute");
                }
                value = attribute(&value, &after[..end])?;
                rest = &after[end..];
            } else if let Some(after) = rest.strip_prefix('[') {
                let end = after.find(']').ok_or_else(|| Failure::new("a format has '[' without ']'"))?;
                let key = &after[..end];
                if key.is_empty() {
                    return fail("a format has an empty attribute");
                }
                let is_number = key.bytes().all(|byte| byte.is_ascii_digit());
                let key =
                    if is_number { key.parse().ok().map(Value::Int) } else { None }.unwrap_or_else(|| Value::str(key));
                value = item(&value, &key)?;
                rest = &after[end + 1..];
            } else {
                return fail("a format has text after ']'");
            }
        }
        Ok(value)
    }

    fn first(&mut self, name: &str) -> Result<Value> {
        let number = if name.is_empty() {
            let number =
                self.automatic.ok_or_else(|| Failure::new("a format mixes fields with and without numbers"))?;
            self.automatic = Some(number + 1);
            Some(number)
        } else if name.bytes().all(|byte| byte.is_ascii_digit()) {
            if self.automatic.is_some_and(|number| number > 0) {
                return fail("a format mixes fields with and without numbers");
            }
            self.automatic = None;
            Some(name.parse().unwrap_or(usize::MAX))
        } else {
            None
        };
        let found = match (number, self.named) {
            (Some(number), _) => self.positional.get(number).cloned(),
            (None, Named::Arguments(named)) => named.iter().find(|(it, _)| it == name).map(|(_, value)| value.clone()),
            (None, Named::Mapping(Value::Dict(dict))) => dict.get_str(name).cloned(),
            (None, Named::Mapping(_)) => return fail("format_map() needs a dict"),
        };
        found.ok_or_else(|| Failure::new(format!("a format has no value for the field '{{{name}}}'")))
    }
}

/// Where the brace closes that was opened before a text.
fn closing(text: &str) -> Option<usize> {
    let mut depth = 1;
    text.char_indices()
        .find(|(_, c)| {
            depth += i32::from(*c == '{') - i32::from(*c == '}');
            depth == 0
        })
        .map(|(place, _)| place)
}
