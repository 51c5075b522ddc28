//! Arithmetic on values, as Python has it.

use super::ast::Operator;
use super::failure::{Failure, Result, fail};
use super::html::escape;
use super::percent_format;
use super::print::{MAX_TEXT, text};
use super::value::Value;

/// The most items of a list or tuple that an operator may make.
const MAX_ITEMS: usize = 1 << 20;

/// Applies an operator with two operands.
pub(super) fn binary(operator: Operator, left: &Value, right: &Value) -> Result<Value> {
    left.defined()?;
    if !matches!((operator, left), (Operator::Modulo, Value::Str(_) | Value::Markup(_))) {
        right.defined()?;
    }
    match (operator, left, right) {
        (Operator::Add, Value::Str(left), Value::Str(right)) => joined(left, right).map(Value::str),
        (Operator::Add, Value::Markup(_), _) | (Operator::Add, _, Value::Markup(_)) => {
            let (Some(_), Some(_)) = (left.as_str(), right.as_str()) else {
                return no_operator(operator, left, right);
            };
            joined(&escape(left)?, &escape(right)?).map(|text| Value::Markup(text.into()))
        }
        (Operator::Add, Value::List(left), Value::List(right)) => {
            sized(left.values.len() + right.values.len(), MAX_ITEMS)?;
            Value::list(left.values.iter().chain(&right.values).cloned().collect())
        }
        (Operator::Add, Value::Tuple(left), Value::Tuple(right)) => {
            sized(left.values.len() + right.values.len(), MAX_ITEMS)?;
            Value::tuple(left.values.iter().chain(&right.values).cloned().collect())
        }
        (Operator::Modulo, Value::Str(format), _) => percent_format::format(format, right).map(Value::str),
        (Operator::Modulo, Value::Markup(_), _) => fail("'%' on a string marked as safe is not supported"),
        (Operator::Multiply, _, _) => match (left.as_int(), right.as_int()) {
            (None, Some(count)) if is_sequence(left) => repeated(left, count),
            (Some(count), None) if is_sequence(right) => repeated(right, count),
            _ => numeric(operator, left, right),
        },
        _ => numeric(operator, left, right),
    }
}

fn is_sequence(value: &Value) -> bool {
    matches!(value, Value::Str(_) | Value::Markup(_) | Value::List(_) | Value::Tuple(_))
}

fn sized(size: usize, max: usize) -> Result<()> {
    if size > max { fail(format!("a value of {size} bytes or items is larger than {max}")) } else { Ok(()) }
}

fn joined(left: &str, right: &str) -> Result<String> {
    sized(left.len() + right.len(), MAX_TEXT)?;
    Ok([left, right].concat())
}

/// Repeats a text or a list `count` times, as Python's `*` does. A negative count gives an empty result.
fn repeated(value: &Value, count: i128) -> Result<Value> {
    let count = usize::try_from(count.max(0)).unwrap_or(usize::MAX);
    match value {
        Value::Str(text) => {
            sized(text.len().saturating_mul(count), MAX_TEXT)?;
            Ok(Value::str(text.repeat(count)))
        }
        Value::Markup(text) => {
            sized(text.len().saturating_mul(count), MAX_TEXT)?;
            Ok(Value::Markup(text.repeat(count).into()))
        }
        Value::List(items) | Value::Tuple(items) => {
            let total = items.values.len().saturating_mul(count);
            sized(total, MAX_ITEMS)?;
            let values = items.values.iter().cycle().take(total).cloned().collect();
            if matches!(value, Value::List(_)) { Value::list(values) } else { Value::tuple(values) }
        }
        _ => fail("only strings, lists and tuples can be repeated"),
    }
}

fn sign(operator: Operator) -> &'static str {
    match operator {
        Operator::Add => "+",
        Operator::Subtract => "-",
        Operator::Multiply => "*",
        Operator::Divide => "/",
        Operator::FloorDivide => "//",
        Operator::Modulo => "%",
        Operator::Power => "**",
    }
}

fn no_operator(operator: Operator, left: &Value, right: &Value) -> Result<Value> {
    let (left, right) = (left.type_name(), right.type_name());
    fail(format!("'{}' takes no values of types '{left}' and '{right}'", sign(operator)))
}

fn numeric(operator: Operator, left: &Value, right: &Value) -> Result<Value> {
    match (left.as_int(), right.as_int()) {
        (Some(left), Some(right)) => integers(operator, left, right),
        (left_int, right_int) => {
            let float = |value: &Value, int: Option<i128>| match (value, int) {
                (Value::Float(value), _) => Some(*value),
                (_, int) => int.map(|int| int as f64),
            };
            match (float(left, left_int), float(right, right_int)) {
                (Some(left), Some(right)) => floats(operator, left, right),
                _ => no_operator(operator, left, right),
            }
        }
    }
}

fn overflow() -> Failure {
    Failure::new("an integer is larger than 128 bits")
}

fn by_zero() -> Failure {
    Failure::new("division by zero")
}

fn integers(operator: Operator, left: i128, right: i128) -> Result<Value> {
    let result = match operator {
        Operator::Add => left.checked_add(right),
        Operator::Subtract => left.checked_sub(right),
        Operator::Multiply => left.checked_mul(right),
        Operator::Divide => {
            if right == 0 {
                return Err(by_zero());
            }
            let exact = |value: i128| (value as f64) as i128 == value && value != i128::MAX;
            if !exact(left) || !exact(right) {
                return fail(format!("{left} / {right} has integers that no float holds exactly"));
            }
            return Ok(Value::Float(left as f64 / right as f64));
        }
        Operator::FloorDivide | Operator::Modulo if right == 0 => return Err(by_zero()),
        Operator::FloorDivide => left
            .checked_div(right)
            .map(|quotient| quotient - i128::from(left % right != 0 && (left < 0) != (right < 0))),
        Operator::Modulo => {
            left.checked_rem(right).map(|rest| if rest != 0 && (rest < 0) != (right < 0) { rest + right } else { rest })
        }
        Operator::Power if right < 0 => return floats(operator, left as f64, right as f64),
        Operator::Power => match u32::try_from(right) {
            Ok(right) => left.checked_pow(right),
            Err(_) if matches!(left, 0 | 1) => Some(left),
            Err(_) if left == -1 => Some(if right % 2 == 0 { 1 } else { -1 }),
            Err(_) => None,
        },
    };
    result.map(Value::Int).ok_or_else(overflow)
}

fn floats(operator: Operator, left: f64, right: f64) -> Result<Value> {
    let result = match operator {
        Operator::Add => left + right,
        Operator::Subtract => left - right,
        Operator::Multiply => left * right,
        Operator::Divide | Operator::FloorDivide | Operator::Modulo if right == 0.0 => return Err(by_zero()),
        Operator::Divide => left / right,
        Operator::FloorDivide => floor_divide(left, right).0,
        Operator::Modulo => floor_divide(left, right).1,
        Operator::Power => return power(left, right).map(Value::Float),
    };
    Ok(Value::Float(result))
}

/// Divides floats as Python's `//` and `%` do (`float_divmod` in CPython): the quotient is rounded down, and the rest
/// has the sign of the divisor.
fn floor_divide(left: f64, right: f64) -> (f64, f64) {
    let mut rest = left % right;
    let mut quotient = (left - rest) / right;
    if rest == 0.0 {
        rest = 0.0f64.copysign(right);
    } else if (right < 0.0) != (rest < 0.0) {
        rest += right;
        quotient -= 1.0;
    }
    if quotient == 0.0 {
        return (0.0f64.copysign(left / right), rest);
    }
    let floor = quotient.floor();
    (if quotient - floor > 0.5 { floor + 1.0 } else { floor }, rest)
}

fn power(left: f64, right: f64) -> Result<f64> {
    if left == 0.0 && right < 0.0 {
        return fail("zero to a negative power");
    }
    if left < 0.0 && left.is_finite() && right.is_finite() && right.fract() != 0.0 {
        return fail("a negative number to a power that is no integer is complex, which is not supported");
    }
    let result = left.powf(right);
    if result.is_infinite() && left.is_finite() && right.is_finite() {
        return fail("the result of '**' is too large for a float");
    }
    Ok(result)
}

/// Computes `-value` if `negative`, else `+value`.
pub(super) fn unary(negative: bool, value: &Value) -> Result<Value> {
    value.defined()?;
    match (value, value.as_int()) {
        (_, Some(int)) if negative => int.checked_neg().map(Value::Int).ok_or_else(overflow),
        (_, Some(int)) => Ok(Value::Int(int)),
        (Value::Float(value), _) => Ok(Value::Float(if negative { -value } else { *value })),
        _ => fail(format!("a value of type '{}' has no sign", value.type_name())),
    }
}

/// Computes Jinja's `a ~ b`: the texts of the values are joined.
pub(super) fn concat(values: &[Value]) -> Result<Value> {
    let mut out = String::new();
    for value in values {
        out.push_str(&text(value)?);
        sized(out.len(), MAX_TEXT)?;
    }
    Ok(Value::str(out))
}
