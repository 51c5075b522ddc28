//! JSON as Python's `json.dumps` writes it, which is what models have seen in training.

use minijinja::value::{Kwargs, Value, ValueKind};
use minijinja::{Error, ErrorKind};

/// The filter `tojson` of Hugging Face's templates: `json.dumps` with `ensure_ascii=False`, nothing escaped for HTML.
/// Takes `ensure_ascii`, `indent`, `separators` and `sort_keys`.
#[expect(clippy::needless_pass_by_value, reason = "filters are given their arguments by value")]
pub(super) fn tojson(value: &Value, ensure_ascii: Option<bool>, kwargs: Kwargs) -> Result<Value, Error> {
    let ensure_ascii = match ensure_ascii {
        Some(ascii) => ascii,
        None => kwargs.get::<Option<bool>>("ensure_ascii")?.unwrap_or(false),
    };
    let indent = kwargs.get::<Option<Value>>("indent")?.map(|indent| indentation(&indent)).transpose()?.flatten();
    let separators = kwargs.get::<Option<Value>>("separators")?.filter(|separators| !separators.is_none());
    let (item, key) = match separators {
        Some(separators) => (separator(&separators, 0)?, separator(&separators, 1)?),
        None => (if indent.is_some() { "," } else { ", " }.to_owned(), ": ".to_owned()),
    };
    let keys = if kwargs.get::<Option<bool>>("sort_keys")?.unwrap_or(false) { Keys::Sorted } else { Keys::AsTheyAre };
    kwargs.assert_all_used()?;
    let text = if ensure_ascii { Text::Ascii } else { Text::Unicode };
    let mut writer = Writer { out: String::new(), text, indent, item, key, keys, depth: 0 };
    writer.value(value)?;
    Ok(Value::from(writer.out))
}

/// What a level is indented by: a number of spaces or a string.
fn indentation(indent: &Value) -> Result<Option<String>, Error> {
    const MAX: usize = 64;
    if indent.is_none() {
        return Ok(None);
    }
    if let Some(text) = indent.as_str() {
        return Ok(Some(text.to_owned()));
    }
    match indent.as_usize() {
        Some(spaces @ ..=MAX) => Ok(Some(" ".repeat(spaces))),
        _ => Err(invalid(format!("tojson: indent={indent} is neither a string nor a number up to {MAX}"))),
    }
}

fn separator(separators: &Value, index: usize) -> Result<String, Error> {
    let separator = separators.get_item_by_index(index)?;
    let text = separator.as_str().map(str::to_owned);
    text.ok_or_else(|| invalid(format!("tojson: separators={separators} are not two strings")))
}

fn invalid(message: String) -> Error {
    Error::new(ErrorKind::InvalidOperation, message)
}

#[derive(Clone, Copy)]
enum Text {
    Unicode,
    Ascii,
}

#[derive(Clone, Copy)]
enum Keys {
    AsTheyAre,
    Sorted,
}

struct Writer {
    out: String,
    text: Text,
    indent: Option<String>,
    item: String,
    key: String,
    keys: Keys,
    depth: usize,
}

impl Writer {
    /// A template can nest values without end; minijinja's own limit is as deep.
    const MAX_DEPTH: usize = 200;

    fn value(&mut self, value: &Value) -> Result<(), Error> {
        match value.kind() {
            ValueKind::None => self.out.push_str("null"),
            ValueKind::Bool => self.out.push_str(if value.is_true() { "true" } else { "false" }),
            ValueKind::Number if value.is_integer() => self.out.push_str(&value.to_string()),
            ValueKind::Number => self.out.push_str(&float(f64::try_from(value.clone())?)),
            ValueKind::String => self.string(value.as_str().unwrap_or_default()),
            ValueKind::Seq => {
                let values: Vec<Value> = value.try_iter()?.collect();
                self.container(['[', ']'], &values, |writer, value| writer.value(value))?;
            }
            ValueKind::Map => {
                let mut keys: Vec<Value> = value.try_iter()?.collect();
                if let Keys::Sorted = self.keys {
                    keys.sort();
                }
                self.container(['{', '}'], &keys, |writer, key| {
                    writer.map_key(key)?;
                    writer.out.push_str(&writer.key.clone());
                    writer.value(&value.get_item(key)?)
                })?;
            }
            kind => {
                return Err(invalid(format!("tojson: a value of type {kind} has no JSON")));
            }
        }
        Ok(())
    }

    fn map_key(&mut self, key: &Value) -> Result<(), Error> {
        if key.kind() == ValueKind::String {
            return self.value(key);
        }
        // Numbers and the like become strings.
        self.out.push('"');
        self.value(key)?;
        self.out.push('"');
        Ok(())
    }

    fn container(
        &mut self,
        [open, close]: [char; 2],
        items: &[Value],
        mut write: impl FnMut(&mut Self, &Value) -> Result<(), Error>,
    ) -> Result<(), Error> {
        if self.depth == Self::MAX_DEPTH {
            return Err(invalid(format!("tojson: the value is nested deeper than {}", Self::MAX_DEPTH)));
        }
        self.out.push(open);
        self.depth += 1;
        for (index, item) in items.iter().enumerate() {
            if index > 0 {
                self.out.push_str(&self.item.clone());
            }
            self.new_line();
            write(self, item)?;
        }
        self.depth -= 1;
        if !items.is_empty() {
            self.new_line();
        }
        self.out.push(close);
        Ok(())
    }

    fn new_line(&mut self) {
        if let Some(indent) = &self.indent {
            self.out.push('\n');
            self.out.push_str(&indent.repeat(self.depth));
        }
    }

    fn string(&mut self, text: &str) {
        self.out.push('"');
        for c in text.chars() {
            match c {
                '"' => self.out.push_str("\\\""),
                '\\' => self.out.push_str("\\\\"),
                '\n' => self.out.push_str("\\n"),
                '\r' => self.out.push_str("\\r"),
                '\t' => self.out.push_str("\\t"),
                '\u{8}' => self.out.push_str("\\b"),
                '\u{c}' => self.out.push_str("\\f"),
                '\0'..' ' => self.escape(c),
                ' '..='~' => self.out.push(c),
                _ => match self.text {
                    Text::Unicode => self.out.push(c),
                    Text::Ascii => self.escape(c),
                },
            }
        }
        self.out.push('"');
    }

    fn escape(&mut self, c: char) {
        for unit in c.encode_utf16(&mut [0; 2]) {
            self.out.push_str(&format!("\\u{unit:04x}"));
        }
    }
}

/// A float as Python's `repr` has it: the shortest digits, with an exponent below 1e-4 and from 1e16.
fn float(value: f64) -> String {
    if value.is_nan() {
        return "NaN".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "Infinity" } else { "-Infinity" }.to_owned();
    }
    let scientific = format!("{value:e}");
    let (digits, exponent) = scientific.split_once('e').expect("an exponent was asked for");
    let exponent: i32 = exponent.parse().expect("exponents are numbers");
    if value == 0.0 || (-4..16).contains(&exponent) {
        // `{:?}` has the shortest digits too, and a ".0", but its own idea of where exponents start.
        let fixed = format!("{value}");
        return if fixed.contains('.') { fixed } else { fixed + ".0" };
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_are_written_as_python_writes_them() {
        let cases = [
            (0.0, "0.0"),
            (-0.0, "-0.0"),
            (1.0, "1.0"),
            (0.1, "0.1"),
            (1e-4, "0.0001"),
            (1e-5, "1e-05"),
            (1.5e-7, "1.5e-07"),
            (123_456.789, "123456.789"),
            (1e15, "1000000000000000.0"),
            (1e16, "1e+16"),
            (1.25e22, "1.25e+22"),
            (1e100, "1e+100"),
            (f64::MAX, "1.7976931348623157e+308"),
            (5e-324, "5e-324"),
            (f64::INFINITY, "Infinity"),
            (f64::NEG_INFINITY, "-Infinity"),
            (f64::NAN, "NaN"),
        ];
        for (value, expected) in cases {
            assert_eq!(float(value), expected);
        }
    }
}
