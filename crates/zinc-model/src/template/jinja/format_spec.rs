//! Python's format specifications, as in `'{:>8.3f}'.format(x)`.

use super::failure::{Failure, Result, fail};
use super::float;
use super::print::text;
use super::value::Value;

/// How wide a field or how long a fraction can be.
const MAX_WIDTH: usize = 1 << 16;

struct Spec {
    fill: char,
    align: Option<char>,
    sign: char,
    alternate: bool,
    width: usize,
    grouping: Option<char>,
    precision: Option<usize>,
    kind: Option<char>,
}

impl Spec {
    fn parse(text: &str) -> Result<Self> {
        let chars: Vec<char> = text.chars().collect();
        let is_align = |place: usize| chars.get(place).is_some_and(|c| matches!(c, '<' | '>' | '=' | '^'));
        let (mut fill, mut align, mut sign, mut alternate) = (' ', None, '-', false);
        let mut place = 0;
        if is_align(1) {
            (fill, align, place) = (chars[0], Some(chars[1]), 2);
        } else if is_align(0) {
            (align, place) = (Some(chars[0]), 1);
        }
        if let Some(&c @ ('+' | '-' | ' ')) = chars.get(place) {
            (sign, place) = (c, place + 1);
        }
        if chars.get(place) == Some(&'z') {
            return fail("the format option 'z' is not supported");
        }
        if chars.get(place) == Some(&'#') {
            (alternate, place) = (true, place + 1);
        }
        if chars.get(place) == Some(&'0') {
            place += 1;
            if align.is_none() {
                (fill, align) = ('0', Some('='));
            } else if !is_align(1) {
                fill = '0';
            }
        }
        let number = |place: &mut usize| -> Result<Option<usize>> {
            let mut number = None;
            while let Some(digit) = chars.get(*place).and_then(|c| c.to_digit(10)) {
                number = Some(number.unwrap_or(0usize).saturating_mul(10).saturating_add(digit as usize));
                *place += 1;
            }
            match number {
                Some(number) if number > MAX_WIDTH => fail(format!("a width of {number} is larger than {MAX_WIDTH}")),
                number => Ok(number),
            }
        };
        let width = number(&mut place)?.unwrap_or(0);
        let mut grouping = None;
        if let Some(&c @ (',' | '_')) = chars.get(place) {
            (grouping, place) = (Some(c), place + 1);
        }
        let mut precision = None;
        if chars.get(place) == Some(&'.') {
            place += 1;
            precision = number(&mut place)?;
            if precision.is_none() {
                return fail("a format has a point without a precision");
            }
        }
        let kind = chars.get(place).copied();
        if place + usize::from(kind.is_some()) < chars.len() {
            return fail(format!("{text:?} is no format"));
        }
        Ok(Self { fill, align, sign, alternate, width, grouping, precision, kind })
    }

    fn pad(&self, default: char, sign: &str, body: &str) -> String {
        let fill = self.width.saturating_sub(sign.chars().count() + body.chars().count());
        let fills = |count: usize| self.fill.to_string().repeat(count);
        match self.align.unwrap_or(default) {
            '<' => format!("{sign}{body}{}", fills(fill)),
            '=' => format!("{sign}{}{body}", fills(fill)),
            '^' => format!("{}{sign}{body}{}", fills(fill / 2), fills(fill - fill / 2)),
            _ => format!("{}{sign}{body}", fills(fill)),
        }
    }

    fn sign(&self, negative: bool) -> &'static str {
        match (negative, self.sign) {
            (true, _) => "-",
            (false, '+') => "+",
            (false, ' ') => " ",
            _ => "",
        }
    }

    /// The text of a number: with separators between groups of digits, and zeros that are grouped too.
    fn number(&self, sign: &str, prefix: &str, body: &str, group: usize) -> String {
        let end = body.find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(body.len());
        let end = if group == 3 { body.find(|c: char| !c.is_ascii_digit()).unwrap_or(body.len()) } else { end };
        let (digits, rest) = body.split_at(end);
        let Some(separator) = self.grouping else {
            return self.pad('>', &format!("{sign}{prefix}"), body);
        };
        let mut digits = digits.to_owned();
        if self.fill == '0' && self.align == Some('=') {
            let taken = sign.len() + prefix.len() + rest.len();
            while grouped(&digits, separator, group).len() + taken < self.width {
                digits.insert(0, '0');
            }
        }
        let digits = grouped(&digits, separator, group);
        // Zeros never leave a separator in front, so that the field can be one wider than asked for.
        self.pad('>', &format!("{sign}{prefix}"), &(digits + rest))
    }
}

fn grouped(digits: &str, separator: char, group: usize) -> String {
    let mut out = String::new();
    for (index, c) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(group) {
            out.push(separator);
        }
        out.push(c);
    }
    out
}

/// Python's `format(value, spec)`.
pub(super) fn format(value: &Value, spec: &str) -> Result<String> {
    if spec.is_empty() {
        return text(value);
    }
    match (value, value.as_int()) {
        (Value::Str(it), _) => string(it, &Spec::parse(spec)?),
        (_, Some(int)) => integer(int, &Spec::parse(spec)?),
        (Value::Float(float), _) => number(*float, &Spec::parse(spec)?),
        _ => fail(format!("a value of type '{}' takes no format", value.type_name())),
    }
}

fn unknown(spec: &Spec, type_name: &str) -> Failure {
    Failure::new(format!("a value of type '{type_name}' has no format {:?}", spec.kind.unwrap_or_default()))
}

fn string(value: &str, spec: &Spec) -> Result<String> {
    if !matches!(spec.kind, None | Some('s')) {
        return Err(unknown(spec, "str"));
    }
    if spec.sign != '-' || spec.alternate || spec.grouping.is_some() || (spec.align == Some('=') && spec.fill != '0') {
        return fail("a string takes no sign, '#', '=' or separators in its format");
    }
    let cut: String = value.chars().take(spec.precision.unwrap_or(usize::MAX)).collect();
    if spec.align == Some('=') {
        // A width that begins with a zero fills with zeros, on the right.
        let fill = spec.width.saturating_sub(cut.chars().count());
        return Ok(cut + &"0".repeat(fill));
    }
    Ok(spec.pad('<', "", &cut))
}

fn integer(value: i128, spec: &Spec) -> Result<String> {
    let size = value.unsigned_abs();
    let (digits, prefix, group) = match spec.kind {
        None | Some('d' | 'n') => (size.to_string(), "", 3),
        Some('b') => (format!("{size:b}"), "0b", 4),
        Some('o') => (format!("{size:o}"), "0o", 4),
        Some('x') => (format!("{size:x}"), "0x", 4),
        Some('X') => (format!("{size:X}"), "0X", 4),
        Some('c') => {
            let c = u32::try_from(value).ok().and_then(char::from_u32);
            let c = c.ok_or_else(|| Failure::new(format!("{value} is the code of no character")))?;
            return Ok(spec.pad('<', "", &c.to_string()));
        }
        Some('e' | 'E' | 'f' | 'F' | 'g' | 'G' | '%') => return number(value as f64, spec),
        _ => return Err(unknown(spec, "int")),
    };
    if spec.precision.is_some() {
        return fail("an integer takes no precision in its format");
    }
    if group == 4 && spec.grouping == Some(',') {
        return fail("',' separates decimal digits only");
    }
    let prefix = if spec.alternate { prefix } else { "" };
    Ok(spec.number(spec.sign(value < 0), prefix, &digits, group))
}

fn number(value: f64, spec: &Spec) -> Result<String> {
    let negative = value.is_sign_negative() && !value.is_nan();
    let kind = spec.kind.unwrap_or(' ');
    let precision = spec.precision.unwrap_or(6);
    if !matches!(kind, ' ' | 'e' | 'E' | 'f' | 'F' | 'g' | 'G' | 'n' | '%') {
        return Err(unknown(spec, "float"));
    }
    let largest = |precision: usize| i32::try_from(precision.max(1)).unwrap_or(i32::MAX);
    let body = if !value.is_finite() {
        float::repr(value.abs()) + if kind == '%' { "%" } else { "" }
    } else {
        match kind {
            'e' | 'E' => float::exponential(value, precision, spec.alternate),
            'f' | 'F' => float::fixed(value, precision, spec.alternate),
            'g' | 'G' | 'n' => float::general(value, precision, spec.alternate, largest(precision)),
            '%' => float::fixed(value * 100.0, precision, spec.alternate) + "%",
            _ => match spec.precision {
                // As `g`, with an exponent from one digit less, and a digit after the point at least.
                Some(precision) => {
                    let text = float::general(value, precision, spec.alternate, largest(precision) - 1);
                    if text.contains(['.', 'e']) { text } else { text + ".0" }
                }
                None => float::repr(value.abs()),
            },
        }
    };
    let body = if kind.is_uppercase() { body.to_uppercase() } else { body };
    Ok(spec.number(spec.sign(negative), "", &body, 3))
}
