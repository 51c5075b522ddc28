//! Values as text: Python's `str` and `repr`.

use super::failure::{Result, fail};
use super::float;
use super::unicode::is_printable;
use super::value::{Items, Value, View};

/// How long the text of one value can be, in bytes.
pub(super) const MAX_TEXT: usize = 64 << 20;

/// Python's `str()`, with which values are printed.
pub(super) fn text(value: &Value) -> Result<String> {
    match value {
        Value::Undefined(_) => Ok(String::new()),
        Value::Str(text) | Value::Markup(text) => Ok(text.to_string()),
        _ => repr(value),
    }
}

/// Python's `repr()`.
pub(super) fn repr(value: &Value) -> Result<String> {
    let mut out = String::new();
    write_repr(value, &mut out, 0)?;
    Ok(out)
}

fn write_repr(value: &Value, out: &mut String, depth: u32) -> Result<()> {
    // Namespaces can hold themselves.
    if depth > super::value::MAX_DEPTH || out.len() > MAX_TEXT {
        return fail("a value is too deep or too long to be printed");
    }
    match value {
        Value::Undefined(_) => out.push_str("Undefined"),
        Value::None => out.push_str("None"),
        Value::Bool(value) => out.push_str(if *value { "True" } else { "False" }),
        Value::Int(value) => out.push_str(&value.to_string()),
        Value::Float(value) => out.push_str(&float::repr(*value)),
        Value::Str(text) => write_text(text, out),
        Value::Markup(text) => {
            out.push_str("Markup(");
            write_text(text, out);
            out.push(')');
        }
        Value::List(items) => write_items(items, ["[", "]"], out, depth)?,
        Value::Tuple(items) if items.values.len() == 1 => write_items(items, ["(", ",)"], out, depth)?,
        Value::Tuple(items) => write_items(items, ["(", ")"], out, depth)?,
        Value::Dict(dict) => {
            out.push('{');
            for (index, (key, value)) in dict.entries.values().enumerate() {
                if index > 0 {
                    out.push_str(", ");
                }
                write_repr(key, out, depth + 1)?;
                out.push_str(": ");
                write_repr(value, out, depth + 1)?;
            }
            out.push('}');
        }
        Value::View(view, dict) => {
            out.push_str(value.type_name());
            out.push_str("([");
            for (index, (key, value)) in dict.entries.values().enumerate() {
                if index > 0 {
                    out.push_str(", ");
                }
                match view {
                    View::Keys => write_repr(key, out, depth + 1)?,
                    View::Values => write_repr(value, out, depth + 1)?,
                    View::Items => {
                        out.push('(');
                        write_repr(key, out, depth + 1)?;
                        out.push_str(", ");
                        write_repr(value, out, depth + 1)?;
                        out.push(')');
                    }
                }
            }
            out.push_str("])");
        }
        Value::Range(range) => {
            out.push_str(&format!("range({}, {}", range.start, range.stop));
            if range.step != 1 {
                out.push_str(&format!(", {}", range.step));
            }
            out.push(')');
        }
        Value::Namespace(namespace) => {
            out.push_str("<Namespace {");
            for (index, (key, value)) in namespace.attributes.borrow().iter().enumerate() {
                if index > 0 {
                    out.push_str(", ");
                }
                write_text(key, out);
                out.push_str(": ");
                write_repr(value, out, depth + 1)?;
            }
            out.push_str("}>");
        }
        Value::Macro(it) => match &it.definition.name {
            Some(name) => {
                out.push_str("<Macro ");
                write_text(name, out);
                out.push('>');
            }
            None => out.push_str("<Macro anonymous>"),
        },
        Value::Loop(it) => out.push_str(&it.repr()?),
        Value::Function(function) if function.class().is_some() => {
            out.push_str(&format!("<class '{}'>", function.class().unwrap_or_default()));
        }
        Value::Iterator(_) | Value::Cycler(_) | Value::Joiner(_) | Value::Method(_) | Value::Function(_) => {
            return fail(format!(
                "a value of type '{}' is printed: Python would write an address, which is never the same",
                value.type_name()
            ));
        }
    }
    Ok(())
}

fn write_items(items: &Items, [open, close]: [&str; 2], out: &mut String, depth: u32) -> Result<()> {
    out.push_str(open);
    for (index, item) in items.values.iter().enumerate() {
        if index > 0 {
            out.push_str(", ");
        }
        write_repr(item, out, depth + 1)?;
    }
    out.push_str(close);
    Ok(())
}

/// A string in quotes, with escapes for what cannot be seen.
fn write_text(text: &str, out: &mut String) {
    let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    out.push(quote);
    for c in text.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            _ if c == quote => {
                out.push('\\');
                out.push(c);
            }
            _ if is_printable(c) => out.push(c),
            _ => write_escape(c, out),
        }
    }
    out.push(quote);
}

fn write_escape(c: char, out: &mut String) {
    match u32::from(c) {
        code @ 0..=0xff => out.push_str(&format!("\\x{code:02x}")),
        code @ 0x100..=0xffff => out.push_str(&format!("\\u{code:04x}")),
        code => out.push_str(&format!("\\U{code:08x}")),
    }
}

/// Python's `ascii()`: `repr` with escapes for all that is not ASCII.
pub(super) fn ascii(value: &Value) -> Result<String> {
    let text = repr(value)?;
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_ascii() { out.push(c) } else { write_escape(c, &mut out) }
    }
    Ok(out)
}
