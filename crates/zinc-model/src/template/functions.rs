//! What templates can call beyond Jinja's own: Python's string methods and the functions that Hugging Face adds.

use minijinja::value::Value;
use minijinja::{Environment, Error, ErrorKind, State};
use minijinja_contrib::pycompat;

use crate::template::json;

pub(super) fn add_to(environment: &mut Environment<'static>) {
    environment.set_unknown_method_callback(method);
    environment.add_filter("tojson", json::tojson);
    environment.add_function("raise_exception", raise_exception);
    environment.add_function("strftime_now", strftime_now);
}

/// Methods of values.
fn method(state: &mut State<'_, '_>, value: &Value, name: &str, args: &[Value]) -> Result<Value, Error> {
    if let (Some(text), [affix]) = (value.as_str(), args)
        && let Some(affix) = affix.as_str()
    {
        match name {
            "removeprefix" => return Ok(text.strip_prefix(affix).unwrap_or(text).into()),
            "removesuffix" => return Ok(text.strip_suffix(affix).unwrap_or(text).into()),
            _ => {}
        }
    }
    pycompat::unknown_method_callback(state, value, name, args)
}

/// Lets a template refuse the messages.
fn raise_exception(message: &str) -> Result<Value, Error> {
    Err(Error::new(ErrorKind::InvalidOperation, format!("the template refuses the messages: {message}")))
}

/// The local date and time.
fn strftime_now(format: &str) -> Result<String, Error> {
    let invalid = |error| Error::new(ErrorKind::InvalidOperation, format!("strftime_now({format:?}): {error}"));
    jiff::fmt::strtime::format(format, &jiff::ZonedDateTime::now()).map_err(invalid)
}

/// Replaces the tags `generation` and `endgeneration`, which mark answers for training and print nothing, by a condition
/// that always holds. Lines and whitespace control stay as they are.
pub(super) fn without_generation_tags(source: &str) -> String {
    let mut out = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(start) = rest.find("{%") {
        let Some(length) = rest[start..].find("%}") else {
            break;
        };
        let (before, tag) = (&rest[..start], &rest[start..start + length]);
        rest = &rest[start + length..];
        out.push_str(before);
        let word = tag[2..].trim_matches(|c: char| c.is_whitespace() || matches!(c, '-' | '+'));
        match word {
            "generation" => out.push_str(&tag.replace("generation", "if true")),
            "endgeneration" => out.push_str(&tag.replace("endgeneration", "endif")),
            _ => out.push_str(tag),
        }
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generation_tags_become_conditions() {
        let source = "{%- generation -%}a{%endgeneration%}{% set generation = 1 %}{{ generation }}{% generation";
        let expected = "{%- if true -%}a{%endif%}{% set generation = 1 %}{{ generation }}{% generation";
        assert_eq!(without_generation_tags(source), expected);
        assert_eq!(without_generation_tags("no tags"), "no tags");
    }
}
