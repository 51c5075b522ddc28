//! Filters for numbers.

use super::super::arguments::{Arguments, int, int_or, iterate, str_of};
use super::super::arithmetic::{binary, unary};
use super::super::ast::Operator;
use super::super::failure::{Failure, Result, fail};
use super::super::float;
use super::super::percent_format::truncated;
use super::super::unicode::is_space;
use super::super::value::Value;
use super::sequences::Path;

pub(super) fn call(name: &str, value: &Value, args: Arguments) -> Result<Value> {
    match name {
        "abs" => {
            args.unnamed::<0>(name, 0)?;
            let negative = match value {
                Value::Float(value) => value.is_sign_negative(),
                _ => value.as_int().is_some_and(|value| value < 0),
            };
            unary(negative, value)
        }
        "float" => {
            let [default] = args.bind(name, ["default"], 0)?;
            value.defined()?;
            Ok(to_float(value)?.map(Value::Float).or(default).unwrap_or(Value::Float(0.0)))
        }
        "int" => {
            let [default, base] = args.bind(name, ["default", "base"], 0)?;
            value.defined()?;
            let base = int_or(base.as_ref(), 10)?;
            Ok(to_int(value, base)?.map(Value::Int).or(default).unwrap_or(Value::Int(0)))
        }
        "round" => round(value, args),
        "sum" => {
            let [attribute, start] = args.bind(name, ["attribute", "start"], 0)?;
            let path = Path::new(&attribute.unwrap_or(Value::None))?;
            let mut sum = start.unwrap_or(Value::Int(0));
            if sum.as_str().is_some() {
                return fail("the filter 'sum' adds no strings");
            }
            for item in iterate(value)? {
                sum = binary(Operator::Add, &sum, &path.of(&item, None)?)?;
            }
            Ok(sum)
        }
        _ => fail("the filter 'random' gives what is never the same"),
    }
}

/// Python's `float()`; `None` where it refuses the value.
fn to_float(value: &Value) -> Result<Option<f64>> {
    Ok(match (value, value.as_int()) {
        (Value::Float(value), _) => Some(*value),
        (_, Some(value)) => Some(value as f64),
        (Value::Str(text) | Value::Markup(text), _) => float::parse(ascii_number(text)?),
        _ => None,
    })
}

/// A text without digits that are not ASCII, which Python reads too.
fn ascii_number(text: &str) -> Result<&str> {
    if text.chars().any(|c| !c.is_ascii() && super::super::unicode::is_decimal(c)) {
        return fail("digits other than 0 to 9 are not supported in numbers");
    }
    Ok(text)
}

/// Python's `int()`, and the integer part of a number in a text; `None` where there is no integer.
fn to_int(value: &Value, base: i128) -> Result<Option<i128>> {
    match (value, value.as_int()) {
        (_, Some(value)) => Ok(Some(value)),
        (Value::Float(value), _) if value.is_nan() => Ok(None),
        (Value::Float(value), _) => truncated(*value).map(Some),
        (Value::Str(text) | Value::Markup(text), _) => {
            let text = ascii_number(text)?;
            if let Some(value) = parse_int(text, base)? {
                return Ok(Some(value));
            }
            match float::parse(text).filter(|value| value.is_finite()) {
                Some(value) => truncated(value).map(Some),
                None => Ok(None),
            }
        }
        _ => Ok(None),
    }
}

/// Reads an integer as Python's `int(text, base)` does.
fn parse_int(text: &str, base: i128) -> Result<Option<i128>> {
    if base != 0 && !(2..=36).contains(&base) {
        // Python's error is the one that the filter takes for "no integer".
        return Ok(None);
    }
    let text = text.trim_matches(is_space);
    let (negative, digits) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let lower = digits.to_ascii_lowercase();
    let prefixed = [("0b", 2), ("0o", 8), ("0x", 16)]
        .into_iter()
        .find(|(prefix, of)| lower.starts_with(prefix) && (base == 0 || base == *of));
    let (digits, radix, after_prefix) = match prefixed {
        Some((_, of)) => (&lower[2..], of, true),
        None => (lower.as_str(), if base == 0 { 10 } else { base }, false),
    };
    let radix = u32::try_from(radix).unwrap_or(10);
    let digits = if after_prefix { digits.strip_prefix('_').unwrap_or(digits) } else { digits };
    let is_digit = |c: char| c.is_digit(radix);
    let valid = digits.starts_with(is_digit)
        && digits.ends_with(is_digit)
        && !digits.contains("__")
        && digits.chars().all(|c| c == '_' || is_digit(c));
    let zero_led =
        base == 0 && !after_prefix && digits.starts_with('0') && digits.contains(|c: char| matches!(c, '1'..='9'));
    if !valid || zero_led {
        return Ok(None);
    }
    let size = i128::from_str_radix(&digits.replace('_', ""), radix);
    let size = size.map_err(|_| Failure::new(format!("the integer {text} is larger than 128 bits")))?;
    Ok(Some(if negative { -size } else { size }))
}

fn round(value: &Value, args: Arguments) -> Result<Value> {
    let [precision, method] = args.bind("round", ["precision", "method"], 0)?;
    let method = method.map_or(Ok("common".to_owned()), |method| str_of(&method))?;
    value.defined()?;
    if method == "common" {
        return round_common(value, precision.as_ref());
    }
    if !matches!(method.as_str(), "ceil" | "floor") {
        return fail(format!("the filter 'round' has the methods 'common', 'ceil' and 'floor', not {method:?}"));
    }
    let precision = precision.unwrap_or(Value::Int(0));
    let power = binary(Operator::Power, &Value::Int(10), &precision)?;
    let scaled = match binary(Operator::Multiply, value, &power)? {
        Value::Float(value) => Value::Int(truncated(if method == "ceil" { value.ceil() } else { value.floor() })?),
        other => other,
    };
    binary(Operator::Divide, &scaled, &power)
}

fn round_common(value: &Value, precision: Option<&Value>) -> Result<Value> {
    if let (Value::Float(number), Some(Value::None)) = (value, precision) {
        let rounded = float::round(*number, 0).unwrap_or(*number);
        return truncated(rounded).map(Value::Int);
    }
    let digits = match precision {
        None | Some(Value::None) => 0,
        Some(precision) => int(precision)?,
    };
    if let Value::Float(value) = value {
        let rounded = float::round(*value, digits);
        return rounded.map(Value::Float).ok_or_else(|| Failure::new("the rounded number has no float"));
    }
    let Some(number) = value.as_int() else {
        return fail(format!("a value of type '{}' cannot be rounded", value.type_name()));
    };
    if digits >= 0 {
        return Ok(Value::Int(number));
    }
    let Some(unit) = u32::try_from(-digits).ok().and_then(|power| 10i128.checked_pow(power)) else {
        return if -digits > 39 { Ok(Value::Int(0)) } else { fail("an integer is larger than 128 bits") };
    };
    let (below, rest) = (number.div_euclid(unit), number.rem_euclid(unit));
    let up = rest > unit - rest || (rest == unit - rest && below % 2 != 0);
    let rounded = below.checked_add(i128::from(up)).and_then(|count| count.checked_mul(unit));
    rounded.map(Value::Int).ok_or_else(|| Failure::new("an integer is larger than 128 bits"))
}
