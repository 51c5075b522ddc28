//! Jinja2's tests: `value is name`.

use super::arguments::Arguments;
use super::arithmetic::binary;
use super::ast::{Comparison, Operator};
use super::compare::equal;
use super::expressions::compare;
use super::failure::{Result, fail};
use super::filters;
use super::methods::{is_lower, is_upper};
use super::print::text;
use super::value::Value;

const NAMES: [&str; 39] = [
    "odd",
    "even",
    "divisibleby",
    "defined",
    "undefined",
    "filter",
    "test",
    "none",
    "boolean",
    "false",
    "true",
    "integer",
    "float",
    "lower",
    "upper",
    "string",
    "mapping",
    "number",
    "sequence",
    "iterable",
    "callable",
    "sameas",
    "escaped",
    "in",
    "==",
    "eq",
    "equalto",
    "!=",
    "ne",
    ">",
    "gt",
    "greaterthan",
    "ge",
    ">=",
    "<",
    "lt",
    "lessthan",
    "<=",
    "le",
];

/// Whether there is a test of this name.
pub(super) fn exists(name: &str) -> bool {
    NAMES.contains(&name)
}

/// Applies a test.
pub(super) fn call(name: &str, value: &Value, args: Arguments) -> Result<bool> {
    let comparison = match name {
        "==" | "eq" | "equalto" => Some(Comparison::Equal),
        "!=" | "ne" => Some(Comparison::NotEqual),
        ">" | "gt" | "greaterthan" => Some(Comparison::Greater),
        ">=" | "ge" => Some(Comparison::GreaterEqual),
        "<" | "lt" | "lessthan" => Some(Comparison::Less),
        "<=" | "le" => Some(Comparison::LessEqual),
        _ => None,
    };
    if let Some(comparison) = comparison {
        let [other] = args.unnamed(name, 1)?;
        return compare(comparison, value, &other.unwrap_or(Value::None));
    }
    match name {
        "divisibleby" => {
            let [number] = args.bind(name, ["num"], 1)?;
            Ok(equal(&binary(Operator::Modulo, value, &number.unwrap_or(Value::None))?, &Value::Int(0)))
        }
        "in" => {
            let [container] = args.bind(name, ["seq"], 1)?;
            compare(Comparison::In, value, &container.unwrap_or(Value::None))
        }
        "sameas" => {
            let [other] = args.bind(name, ["other"], 1)?;
            is_same(value, &other.unwrap_or(Value::None))
        }
        _ => {
            args.unnamed::<0>(name, 0)?;
            without_arguments(name, value)
        }
    }
}

fn without_arguments(name: &str, value: &Value) -> Result<bool> {
    Ok(match name {
        "odd" => equal(&binary(Operator::Modulo, value, &Value::Int(2))?, &Value::Int(1)),
        "even" => equal(&binary(Operator::Modulo, value, &Value::Int(2))?, &Value::Int(0)),
        "defined" => !value.is_undefined(),
        "undefined" => value.is_undefined(),
        "filter" => {
            value.key()?;
            value.as_str().is_some_and(|name| filters::exists(name))
        }
        "test" => {
            value.key()?;
            value.as_str().is_some_and(|name| exists(name))
        }
        "none" => matches!(value, Value::None),
        "boolean" => matches!(value, Value::Bool(_)),
        "true" => matches!(value, Value::Bool(true)),
        "false" => matches!(value, Value::Bool(false)),
        "integer" => matches!(value, Value::Int(_)),
        "float" => matches!(value, Value::Float(_)),
        "lower" => is_lower(&text(value)?),
        "upper" => is_upper(&text(value)?),
        "string" => value.as_str().is_some(),
        "mapping" => matches!(value, Value::Dict(_)),
        "number" => matches!(value, Value::Bool(_) | Value::Int(_) | Value::Float(_)),
        "sequence" => value.len().is_some() && !matches!(value, Value::View(..)),
        "iterable" => value.len().is_some() || matches!(value, Value::Iterator(_) | Value::Loop(_)),
        "callable" => matches!(
            value,
            Value::Undefined(_)
                | Value::Joiner(_)
                | Value::Macro(_)
                | Value::Loop(_)
                | Value::Method(_)
                | Value::Function(_)
        ),
        "escaped" => matches!(value, Value::Markup(_)),
        _ => return fail(format!("there is no test '{name}'")),
    })
}

/// Python's `left is right`, where that does not depend on what Python happens to share.
fn is_same(left: &Value, right: &Value) -> Result<bool> {
    let unknown = || fail(format!("whether two values of type '{}' are the same one is not known", left.type_name()));
    match (left, right) {
        (Value::None, Value::None) => Ok(true),
        (Value::Bool(left), Value::Bool(right)) => Ok(left == right),
        (Value::Int(left), Value::Int(right)) if left == right => {
            if (-5..=256).contains(left) {
                Ok(true)
            } else {
                unknown()
            }
        }
        (Value::Str(left), Value::Str(right)) if left == right => {
            if left.len() <= 1 || std::rc::Rc::ptr_eq(left, right) { Ok(true) } else { unknown() }
        }
        (Value::List(left), Value::List(right)) => Ok(std::rc::Rc::ptr_eq(left, right)),
        (Value::Dict(left), Value::Dict(right)) => Ok(std::rc::Rc::ptr_eq(left, right)),
        (Value::Tuple(first), Value::Tuple(second)) if equal(left, right) => {
            if std::rc::Rc::ptr_eq(first, second) || first.values.is_empty() { Ok(true) } else { unknown() }
        }
        (Value::Float(first), Value::Float(second)) if first == second => unknown(),
        (Value::Undefined(_), Value::Undefined(_)) | (Value::Markup(_), Value::Markup(_)) => unknown(),
        (Value::Range(first), Value::Range(second)) if first == second => unknown(),
        _ => Ok(left.address().is_some() && left.address() == right.address()),
    }
}
