//! Python's `'format' % values`.

use super::failure::{Failure, Result, fail};
use super::float;
use super::print::{MAX_TEXT, ascii, repr, text};
use super::value::Value;

/// How wide a field or how long a fraction can be.
const MAX_WIDTH: usize = 1 << 16;

/// The flags, width and precision of a place in the format.
#[derive(Default)]
struct Field {
    left: bool,
    plus: bool,
    space: bool,
    alternate: bool,
    zeros: bool,
    width: usize,
    precision: Option<usize>,
}

/// The values that a format consumes.
struct Values<'a> {
    all: &'a Value,
    place: usize,
}

impl Values<'_> {
    fn next(&mut self) -> Result<Value> {
        let value = match self.all {
            Value::Tuple(items) => items.values.get(self.place).cloned(),
            single => (self.place == 0).then(|| single.clone()),
        };
        self.place += 1;
        value.ok_or_else(|| Failure::new("'%' has too few values for its format"))
    }

    /// Whether values are left over that must not be.
    fn has_more(&self) -> bool {
        match self.all {
            Value::Tuple(items) => self.place < items.values.len(),
            Value::Dict(_) | Value::List(_) | Value::Range(_) | Value::Undefined(_) => false,
            _ => self.place == 0,
        }
    }
}

/// Fills in a format.
pub(super) fn format(format: &str, values: &Value) -> Result<String> {
    let mut values = Values { all: values, place: 0 };
    let mut out = String::new();
    let mut chars = format.chars().peekable();
    let incomplete = || Failure::new("the format of '%' is incomplete");
    while let Some(c) = chars.next() {
        if c != '%' {
            out.push(c);
            continue;
        }
        let mut named = None;
        if chars.peek() == Some(&'(') {
            chars.next();
            let mut key = String::new();
            let mut depth = 1;
            loop {
                let c = chars.next().ok_or_else(incomplete)?;
                depth += i32::from(c == '(') - i32::from(c == ')');
                if depth == 0 {
                    break;
                }
                key.push(c);
            }
            let Value::Dict(dict) = values.all else {
                return fail("the format of '%' needs a dict");
            };
            named = Some(dict.get_str(&key).cloned().ok_or_else(|| Failure::new(format!("'%' has no value '{key}'")))?);
        }
        let mut field = Field::default();
        while let Some(flag) = chars.peek() {
            match flag {
                '-' => field.left = true,
                '+' => field.plus = true,
                ' ' => field.space = true,
                '#' => field.alternate = true,
                '0' => field.zeros = true,
                _ => break,
            }
            chars.next();
        }
        let (width, negative) = number(&mut chars, &mut values)?;
        field.width = width.unwrap_or(0);
        field.left |= negative;
        if chars.peek() == Some(&'.') {
            chars.next();
            let (precision, negative) = number(&mut chars, &mut values)?;
            field.precision = Some(if negative { 0 } else { precision.unwrap_or(0) });
        }
        if matches!(chars.peek(), Some('h' | 'l' | 'L')) {
            chars.next();
        }
        let conversion = chars.next().ok_or_else(incomplete)?;
        if conversion == '%' {
            out.push('%');
            continue;
        }
        let value = match named {
            Some(value) => value,
            None => values.next()?,
        };
        field.write(conversion, &value, &mut out)?;
        if out.len() > MAX_TEXT {
            return fail(format!("the text of '%' is longer than {MAX_TEXT} bytes"));
        }
    }
    if values.has_more() {
        return fail("'%' has more values than its format");
    }
    Ok(out)
}

/// A width or precision: digits, or `*` for the next value. Says whether it is negative.
fn number(
    chars: &mut std::iter::Peekable<std::str::Chars<'_>>,
    values: &mut Values<'_>,
) -> Result<(Option<usize>, bool)> {
    let mut number = None;
    let mut negative = false;
    if chars.peek() == Some(&'*') {
        chars.next();
        let value = values.next()?.as_int().ok_or_else(|| Failure::new("'*' in the format of '%' needs an integer"))?;
        negative = value < 0;
        number = Some(usize::try_from(value.unsigned_abs()).unwrap_or(usize::MAX));
    }
    while let Some(digit) = chars.peek().and_then(|c| c.to_digit(10)) {
        chars.next();
        number = Some(number.unwrap_or(0usize).saturating_mul(10).saturating_add(digit as usize));
    }
    match number {
        Some(number) if number > MAX_WIDTH => fail(format!("a width of {number} is larger than {MAX_WIDTH}")),
        number => Ok((number, negative)),
    }
}

impl Field {
    fn write(&self, conversion: char, value: &Value, out: &mut String) -> Result<()> {
        match conversion {
            's' => self.pad_text(&self.cut(text(value)?), out),
            'r' => self.pad_text(&self.cut(repr(value)?), out),
            'a' => self.pad_text(&self.cut(ascii(value)?), out),
            'c' => {
                let c = match value.as_int() {
                    Some(code) => u32::try_from(code).ok().and_then(char::from_u32),
                    None => value.as_str().and_then(|text| {
                        let mut chars = text.chars();
                        chars.next().filter(|_| chars.next().is_none())
                    }),
                };
                let c = c.ok_or_else(|| Failure::new("%c needs a character or its code"))?;
                self.pad_text(&c.to_string(), out);
            }
            'd' | 'i' | 'u' | 'o' | 'x' | 'X' => self.integer(conversion, value, out)?,
            'e' | 'E' | 'f' | 'F' | 'g' | 'G' => self.float(conversion, value, out)?,
            _ => return fail(format!("'%' has no conversion {conversion:?}")),
        }
        Ok(())
    }

    fn cut(&self, text: String) -> String {
        match self.precision {
            Some(precision) => text.chars().take(precision).collect(),
            None => text,
        }
    }

    fn pad_text(&self, text: &str, out: &mut String) {
        let fill = self.width.saturating_sub(text.chars().count());
        if self.left {
            out.push_str(text);
        }
        out.extend(std::iter::repeat_n(' ', fill));
        if !self.left {
            out.push_str(text);
        }
    }

    fn integer(&self, conversion: char, value: &Value, out: &mut String) -> Result<()> {
        let value = match (value, value.as_int()) {
            (_, Some(int)) => int,
            (Value::Float(value), None) if matches!(conversion, 'd' | 'i' | 'u') => truncated(*value)?,
            _ => {
                value.defined()?;
                return fail(format!("%{conversion} needs a number, not a value of type '{}'", value.type_name()));
            }
        };
        let size = value.unsigned_abs();
        let (digits, prefix) = match conversion {
            'o' => (format!("{size:o}"), "0o"),
            'x' => (format!("{size:x}"), "0x"),
            'X' => (format!("{size:X}"), "0X"),
            _ => (size.to_string(), ""),
        };
        let zeros = self.precision.unwrap_or(0).saturating_sub(digits.len());
        let prefix = if self.alternate { prefix } else { "" };
        self.number(value < 0, prefix, &("0".repeat(zeros) + &digits), out);
        Ok(())
    }

    fn float(&self, conversion: char, value: &Value, out: &mut String) -> Result<()> {
        let value = match (value, value.as_int()) {
            (Value::Float(value), _) => *value,
            (_, Some(int)) => int as f64,
            _ => {
                value.defined()?;
                return fail(format!("%{conversion} needs a number, not a value of type '{}'", value.type_name()));
            }
        };
        let precision = self.precision.unwrap_or(6);
        let digits = if value.is_finite() {
            match conversion.to_ascii_lowercase() {
                'e' => float::exponential(value, precision, self.alternate),
                'f' => float::fixed(value, precision, self.alternate),
                _ => {
                    let largest = i32::try_from(precision.max(1)).unwrap_or(i32::MAX);
                    float::general(value, precision, self.alternate, largest)
                }
            }
        } else {
            float::repr(value.abs())
        };
        let digits = if conversion.is_uppercase() { digits.to_uppercase() } else { digits };
        self.number(value.is_sign_negative() && !value.is_nan(), "", &digits, out);
        Ok(())
    }

    fn number(&self, negative: bool, prefix: &str, digits: &str, out: &mut String) {
        let sign = match () {
            () if negative => "-",
            () if self.plus => "+",
            () if self.space => " ",
            () => "",
        };
        let fill = self.width.saturating_sub(sign.len() + prefix.len() + digits.len());
        let zeros = self.zeros && !self.left;
        if !self.left && !zeros {
            out.extend(std::iter::repeat_n(' ', fill));
        }
        out.push_str(sign);
        out.push_str(prefix);
        if zeros {
            out.extend(std::iter::repeat_n('0', fill));
        }
        out.push_str(digits);
        if self.left {
            out.extend(std::iter::repeat_n(' ', fill));
        }
    }
}

/// A float without its fraction.
pub(super) fn truncated(value: f64) -> Result<i128> {
    if value.abs() < 1.7e38 {
        Ok(value.trunc() as i128)
    } else {
        fail(format!("{} has no integer of 128 bits", float::repr(value)))
    }
}
