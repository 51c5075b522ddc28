//! Methods of values that are not strings.

mod strings;

pub(super) use strings::{capitalize, is_lower, is_upper, lines, pad, replace, strip};

use std::rc::Rc;

use super::arguments::{Arguments, int, iterate};
use super::compare::equal;
use super::failure::{Failure, Result, fail};
use super::html;
use super::value::{Method, Value, View};

/// Calls a method.
pub(super) fn call(method: &Method, args: Arguments) -> Result<Value> {
    let name = method.name;
    match &method.object {
        Value::Str(text) => strings::call(text, name, args),
        Value::Markup(text) => markup(text, name, args),
        Value::List(items) if name == "copy" => {
            args.unnamed::<0>(name, 0)?;
            Value::list(items.values.clone())
        }
        Value::List(items) | Value::Tuple(items) => search(&items.values, name, args),
        Value::Range(_) => search(&iterate(&method.object)?, name, args),
        Value::Dict(dict) => {
            let view = |view: View| Ok(Value::View(view, Rc::clone(dict)));
            match name {
                "get" => {
                    let [key, default] = args.unnamed(name, 1)?;
                    let found = dict.get(&key.unwrap_or(Value::None))?;
                    Ok(found.or(default).unwrap_or(Value::None))
                }
                "fromkeys" => {
                    let [keys, value] = args.unnamed(name, 1)?;
                    let value = value.unwrap_or(Value::None);
                    Value::dict(iterate(&keys.unwrap_or(Value::None))?.into_iter().map(|key| (key, value.clone())))
                }
                _ => {
                    args.unnamed::<0>(name, 0)?;
                    match name {
                        "items" => view(View::Items),
                        "keys" => view(View::Keys),
                        "values" => view(View::Values),
                        _ => Ok(Value::Dict(Rc::clone(dict))),
                    }
                }
            }
        }
        Value::Cycler(cycler) => {
            args.unnamed::<0>(name, 0)?;
            if name == "reset" {
                cycler.place.set(0);
                return Ok(Value::None);
            }
            let place = cycler.place.get();
            cycler.place.set((place + 1) % cycler.items.values.len());
            Ok(cycler.items.values[place].clone())
        }
        Value::Loop(it) => it.method(name, args),
        Value::Float(value) => float(*value, name, args),
        object => match object.as_int() {
            Some(value) => integer(value, name, args),
            None => fail(format!("the method '{name}' of a value of type '{}' is not supported", object.type_name())),
        },
    }
}

/// `count` and `index` of a sequence.
fn search(values: &[Value], name: &str, args: Arguments) -> Result<Value> {
    if name == "count" {
        let [item] = args.unnamed(name, 1)?;
        let item = item.unwrap_or(Value::None);
        return Ok(Value::Int(values.iter().filter(|value| equal(value, &item)).count() as i128));
    }
    let [item, start, stop] = args.unnamed(name, 1)?;
    let item = item.unwrap_or(Value::None);
    let length = values.len() as i128;
    let bound = |value: Option<Value>, default: i128| -> Result<usize> {
        let bound = value.map_or(Ok(default), |value| int(&value))?;
        let bound = if bound < 0 { bound.saturating_add(length) } else { bound };
        Ok(usize::try_from(bound.clamp(0, length)).unwrap_or(0))
    };
    let (start, stop) = (bound(start, 0)?, bound(stop, length)?);
    let found = (start..stop).find(|&place| equal(&values[place], &item));
    found.map(|place| Value::Int(place as i128)).ok_or_else(|| Failure::new("index(): there is no such item"))
}

fn integer(value: i128, name: &str, args: Arguments) -> Result<Value> {
    if matches!(name, "to_bytes" | "from_bytes") {
        return fail(format!("the method '{name}' is not supported: there are no bytes"));
    }
    args.unnamed::<0>(name, 0)?;
    match name {
        "bit_length" => Ok(Value::Int(i128::from(128 - value.unsigned_abs().leading_zeros()))),
        "bit_count" => Ok(Value::Int(i128::from(value.unsigned_abs().count_ones()))),
        "as_integer_ratio" => Value::tuple(vec![Value::Int(value), Value::Int(1)]),
        _ => Ok(Value::Int(value)),
    }
}

fn float(value: f64, name: &str, args: Arguments) -> Result<Value> {
    match name {
        "is_integer" | "conjugate" => {
            args.unnamed::<0>(name, 0)?;
            Ok(if name == "conjugate" { Value::Float(value) } else { Value::Bool(value.fract() == 0.0) })
        }
        _ => fail(format!("the method '{name}' of a float is not supported")),
    }
}

/// Methods of strings that are HTML: what they put in is escaped, and strings that come out are HTML.
fn markup(text: &Rc<str>, name: &'static str, mut args: Arguments) -> Result<Value> {
    const KEEP: [&str; 24] = [
        "capitalize",
        "center",
        "expandtabs",
        "join",
        "ljust",
        "lower",
        "lstrip",
        "partition",
        "removeprefix",
        "removesuffix",
        "replace",
        "rjust",
        "rpartition",
        "rsplit",
        "rstrip",
        "split",
        "splitlines",
        "strip",
        "swapcase",
        "title",
        "translate",
        "upper",
        "zfill",
        "casefold",
    ];
    match name {
        "striptags" => {
            args.unnamed::<0>(name, 0)?;
            return Ok(Value::str(html::strip_tags(text)?));
        }
        "unescape" | "escape" | "format" | "format_map" | "join" => {
            return fail(format!("the method '{name}' of a string marked as safe is not supported"));
        }
        _ => {}
    }
    if !KEEP.contains(&name) {
        return strings::call(text, name, args);
    }
    // What is put in is escaped; what is looked for is taken as it is.
    if matches!(name, "replace" | "center" | "ljust" | "rjust")
        && let Some(value) = args.positional.get_mut(1)
        && let Value::Str(text) = value
    {
        *value = Value::str(html::escape_text(text));
    }
    let marked = |value: Value| match value {
        Value::Str(text) => Value::Markup(text),
        other => other,
    };
    Ok(match strings::call(text, name, args)? {
        Value::List(items) => Value::list(items.values.iter().cloned().map(marked).collect())?,
        Value::Tuple(items) => Value::tuple(items.values.iter().cloned().map(marked).collect())?,
        other => marked(other),
    })
}
