//! Equality, order and membership of values, as Python has them.

use std::cmp::Ordering;

use super::ast::Comparison;
use super::failure::{Result, fail};
use super::value::{Value, View};

/// Python's `==`.
pub(super) fn equal(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Undefined(_), Value::Undefined(_)) | (Value::None, Value::None) => true,
        (Value::Str(left) | Value::Markup(left), Value::Str(right) | Value::Markup(right)) => left == right,
        (Value::List(left), Value::List(right)) | (Value::Tuple(left), Value::Tuple(right)) => {
            left.values.len() == right.values.len()
                && left.values.iter().zip(&right.values).all(|(left, right)| equal(left, right))
        }
        (Value::Dict(left), Value::Dict(right)) => {
            let same = |(key, (_, value)): (_, &(Value, Value))| {
                right.entries.get(key).is_some_and(|(_, other)| equal(value, other))
            };
            left.entries.len() == right.entries.len() && left.entries.iter().all(same)
        }
        (Value::View(View::Keys, left), Value::View(View::Keys, right)) => {
            left.entries.len() == right.entries.len() && left.entries.keys().all(|key| right.entries.contains_key(key))
        }
        (Value::View(View::Items, left), Value::View(View::Items, right)) => {
            equal(&Value::Dict(left.clone()), &Value::Dict(right.clone()))
        }
        (Value::Range(left), Value::Range(right)) => {
            left.len() == right.len()
                && (left.len() == 0 || left.start == right.start && (left.len() == 1 || left.step == right.step))
        }
        _ => match numbers(left, right) {
            Some(order) => order == Some(Ordering::Equal),
            None => left.address().is_some() && left.address() == right.address(),
        },
    }
}

/// How two numbers lie to each other; `None` if they are no numbers, `Some(None)` if one is not a number.
fn numbers(left: &Value, right: &Value) -> Option<Option<Ordering>> {
    Some(match (left.as_int(), right.as_int(), left, right) {
        (Some(left), Some(right), ..) => Some(left.cmp(&right)),
        (Some(left), None, _, Value::Float(right)) => int_to_float(left, *right),
        (None, Some(right), Value::Float(left), _) => int_to_float(right, *left).map(Ordering::reverse),
        (None, None, Value::Float(left), Value::Float(right)) => left.partial_cmp(right),
        _ => return None,
    })
}

/// How an integer lies to a float, exactly.
fn int_to_float(int: i128, float: f64) -> Option<Ordering> {
    const LIMIT: f64 = 170_141_183_460_469_231_731_687_303_715_884_105_728.0;
    if float.is_nan() {
        None
    } else if float >= LIMIT {
        Some(Ordering::Less)
    } else if float < -LIMIT {
        Some(Ordering::Greater)
    } else {
        let whole = float.floor();
        let order = int.cmp(&(whole as i128));
        Some(if order == Ordering::Equal && float > whole { Ordering::Less } else { order })
    }
}

/// Python's `<`, `<=`, `>`, `>=`.
pub(super) fn ordered(comparison: Comparison, left: &Value, right: &Value) -> Result<bool> {
    let holds = |order: Option<Ordering>| match (comparison, order) {
        (_, None) => false,
        (Comparison::Less, Some(order)) => order.is_lt(),
        (Comparison::LessEqual, Some(order)) => order.is_le(),
        (Comparison::Greater, Some(order)) => order.is_gt(),
        (_, Some(order)) => order.is_ge(),
    };
    match (left, right) {
        (Value::Str(left) | Value::Markup(left), Value::Str(right) | Value::Markup(right)) => {
            Ok(holds(Some(left.cmp(right))))
        }
        (Value::List(left), Value::List(right)) | (Value::Tuple(left), Value::Tuple(right)) => {
            let differ = left.values.iter().zip(&right.values).find(|(left, right)| !equal(left, right));
            match differ {
                Some((left, right)) => ordered(comparison, left, right),
                None => Ok(holds(Some(left.values.len().cmp(&right.values.len())))),
            }
        }
        _ => {
            left.defined()?;
            right.defined()?;
            match numbers(left, right) {
                Some(order) => Ok(holds(order)),
                None => fail(format!(
                    "values of types '{}' and '{}' cannot be ordered",
                    left.type_name(),
                    right.type_name()
                )),
            }
        }
    }
}

/// Python's `item in container`.
pub(super) fn contains(container: &Value, item: &Value) -> Result<bool> {
    match container {
        Value::Undefined(_) => Ok(false),
        Value::Str(text) | Value::Markup(text) => match item.as_str() {
            Some(part) => Ok(text.contains(&**part)),
            None => fail(format!("a string cannot contain a value of type '{}'", item.type_name())),
        },
        Value::List(items) | Value::Tuple(items) => Ok(items.values.iter().any(|value| equal(value, item))),
        Value::Dict(dict) | Value::View(View::Keys, dict) => Ok(dict.get(item)?.is_some()),
        Value::View(View::Values, dict) => Ok(dict.entries.values().any(|(_, value)| equal(value, item))),
        Value::View(View::Items, dict) => match item {
            Value::Tuple(pair) => match &pair.values[..] {
                [key, value] => Ok(dict.get(key)?.is_some_and(|found| equal(&found, value))),
                _ => Ok(false),
            },
            _ => Ok(false),
        },
        Value::Range(range) => {
            Ok((0..range.len()).any(|index| range.get(index).is_some_and(|value| equal(&Value::Int(value), item))))
        }
        Value::Iterator(iterator) => {
            while let Some(value) = iterator.next() {
                if equal(&value, item) {
                    return Ok(true);
                }
            }
            Ok(false)
        }
        _ => fail(format!("a value of type '{}' contains nothing", container.type_name())),
    }
}

/// Sorts stably by `<` alone, as Python does.
pub(super) fn sort<T>(items: Vec<(Value, T)>, reverse: bool) -> Result<Vec<(Value, T)>> {
    let not_a_number = |value: &Value| match value {
        Value::Float(value) => value.is_nan(),
        Value::List(items) | Value::Tuple(items) => {
            items.values.iter().any(|value| matches!(value, Value::Float(value) if value.is_nan()))
        }
        _ => false,
    };
    if items.len() > 1 && items.iter().any(|(key, _)| not_a_number(key)) {
        return fail("values that are not numbers (nan) cannot be sorted");
    }
    if items.len() < 2 {
        return Ok(items);
    }
    let mut right = items;
    let left: Vec<(Value, T)> = right.drain(..right.len() / 2).collect();
    let (left, right) = (sort(left, reverse)?, sort(right, reverse)?);
    let mut sorted = Vec::with_capacity(left.len() + right.len());
    let (mut left, mut right) = (left.into_iter().peekable(), right.into_iter().peekable());
    while let (Some((first, _)), Some((second, _))) = (left.peek(), right.peek()) {
        let swaps =
            if reverse { ordered(Comparison::Less, first, second)? } else { ordered(Comparison::Less, second, first)? };
        sorted.extend(if swaps { right.next() } else { left.next() });
    }
    sorted.extend(left);
    sorted.extend(right);
    Ok(sorted)
}
