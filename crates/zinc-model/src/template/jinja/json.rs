//! JSON as Python's `json.dumps` writes it, which is what models have seen in training.

use super::arguments::{Arguments, is_true};
use super::compare::sort;
use super::failure::{Result, fail};
use super::float;
use super::print::MAX_TEXT;
use super::value::{Dict, Value};

/// The filter `tojson` of Hugging Face's templates: `json.dumps` with `ensure_ascii=False`, nothing escaped for HTML.
/// Takes `ensure_ascii`, `indent`, `separators` and `sort_keys`.
pub(super) fn tojson(value: &Value, args: Arguments) -> Result<Value> {
    let [ascii, indent, separators, sort_keys] =
        args.bind("tojson", ["ensure_ascii", "indent", "separators", "sort_keys"], 0)?;
    let indent = indent.map(|indent| indentation(&indent)).transpose()?.flatten();
    let separators = separators.filter(|separators| !matches!(separators, Value::None));
    let (item, key) = match separators {
        Some(separators) => separators_of(&separators)?,
        None => (if indent.is_some() { "," } else { ", " }.to_owned(), ": ".to_owned()),
    };
    let keys = if is_true(sort_keys.as_ref()) { Keys::Sorted } else { Keys::AsTheyAre };
    let text = if is_true(ascii.as_ref()) { Text::Ascii } else { Text::Unicode };
    let mut writer = Writer { out: String::new(), text, indent, item, key, keys, depth: 0 };
    writer.value(value)?;
    Ok(Value::str(writer.out))
}

/// What a level is indented by: a number of spaces or a string.
fn indentation(indent: &Value) -> Result<Option<String>> {
    const MAX: usize = 64;
    match (indent, indent.as_int()) {
        (Value::None, _) => Ok(None),
        (Value::Str(text), _) if text.len() <= MAX => Ok(Some(text.to_string())),
        (_, Some(spaces)) if spaces <= MAX as i128 => Ok(Some(" ".repeat(usize::try_from(spaces).unwrap_or(0)))),
        _ => fail(format!("tojson: the indent is neither a string nor a number up to {MAX}")),
    }
}

fn separators_of(separators: &Value) -> Result<(String, String)> {
    if let Value::List(items) | Value::Tuple(items) = separators
        && let [item, key] = &items.values[..]
        && let (Some(item), Some(key)) = (item.as_str(), key.as_str())
    {
        return Ok((item.to_string(), key.to_string()));
    }
    fail("tojson: the separators are not two strings")
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
    fn value(&mut self, value: &Value) -> Result<()> {
        if self.out.len() > MAX_TEXT {
            return fail(format!("tojson: the text is longer than {MAX_TEXT} bytes"));
        }
        match value {
            Value::None => self.out.push_str("null"),
            Value::Bool(value) => self.out.push_str(if *value { "true" } else { "false" }),
            Value::Int(value) => self.out.push_str(&value.to_string()),
            Value::Float(value) => self.out.push_str(&number(*value)),
            Value::Str(text) | Value::Markup(text) => self.string(text),
            Value::List(items) | Value::Tuple(items) => {
                self.container(['[', ']'], &items.values, |writer, value| writer.value(value))?;
            }
            Value::Dict(dict) => {
                self.container(['{', '}'], &self.pairs(dict)?, |writer, (key, value)| {
                    writer.map_key(key)?;
                    writer.out.push_str(&writer.key.clone());
                    writer.value(value)
                })?;
            }
            other => {
                other.defined()?;
                return fail(format!("tojson: a value of type '{}' has no JSON", other.type_name()));
            }
        }
        Ok(())
    }

    fn pairs(&self, dict: &Dict) -> Result<Vec<(Value, Value)>> {
        let pairs = dict.entries.values().cloned().collect();
        match self.keys {
            Keys::Sorted => sort(pairs, false),
            Keys::AsTheyAre => Ok(pairs),
        }
    }

    fn map_key(&mut self, key: &Value) -> Result<()> {
        match key {
            Value::Str(text) | Value::Markup(text) => self.string(text),
            // Numbers and the like become strings.
            Value::None | Value::Bool(_) | Value::Int(_) | Value::Float(_) => {
                self.out.push('"');
                self.value(key)?;
                self.out.push('"');
            }
            _ => return fail(format!("tojson: a key of type '{}' has no JSON", key.type_name())),
        }
        Ok(())
    }

    fn container<T>(
        &mut self,
        [open, close]: [char; 2],
        items: &[T],
        mut write: impl FnMut(&mut Self, &T) -> Result<()>,
    ) -> Result<()> {
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

/// A float as Python's JSON has it.
fn number(value: f64) -> String {
    if value.is_nan() {
        return "NaN".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "Infinity" } else { "-Infinity" }.to_owned();
    }
    float::repr(value)
}
