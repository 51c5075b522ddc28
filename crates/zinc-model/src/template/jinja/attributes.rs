//! Attributes, items and slices of values, as Jinja2's immutable sandbox gives them.
//!
//! `a.b` is Python's attribute where there is one, else the item; `a['b']` the other way round. What would change a
//! list or dict, and what begins with an underscore, has no value.

use super::failure::{Result, fail};
use super::value::{Dict, Items, Range, Value};

/// What Python knows under the name of an attribute.
enum Attribute {
    Value(Value),
    /// It is there, and the sandbox does not give it.
    Unsafe,
}

const OF_STR: [&str; 47] = [
    "capitalize",
    "casefold",
    "center",
    "count",
    "encode",
    "endswith",
    "expandtabs",
    "find",
    "format",
    "format_map",
    "index",
    "isalnum",
    "isalpha",
    "isascii",
    "isdecimal",
    "isdigit",
    "isidentifier",
    "islower",
    "isnumeric",
    "isprintable",
    "isspace",
    "istitle",
    "isupper",
    "join",
    "ljust",
    "lower",
    "lstrip",
    "maketrans",
    "partition",
    "removeprefix",
    "removesuffix",
    "replace",
    "rfind",
    "rindex",
    "rjust",
    "rpartition",
    "rsplit",
    "rstrip",
    "split",
    "splitlines",
    "startswith",
    "strip",
    "swapcase",
    "title",
    "translate",
    "upper",
    "zfill",
];
const OF_MARKUP: [&str; 3] = ["escape", "striptags", "unescape"];
const OF_LIST: [&str; 3] = ["copy", "count", "index"];
const CHANGES_LIST: [&str; 8] = ["append", "clear", "extend", "insert", "pop", "remove", "reverse", "sort"];
const OF_TUPLE: [&str; 2] = ["count", "index"];
const OF_DICT: [&str; 6] = ["copy", "fromkeys", "get", "items", "keys", "values"];
const CHANGES_DICT: [&str; 5] = ["clear", "pop", "popitem", "setdefault", "update"];
const OF_INT: [&str; 6] = ["as_integer_ratio", "bit_count", "bit_length", "conjugate", "from_bytes", "to_bytes"];
const OF_FLOAT: [&str; 5] = ["as_integer_ratio", "conjugate", "fromhex", "hex", "is_integer"];

/// Attributes of every Python object.
const OF_OBJECT: [&str; 24] = [
    "__class__",
    "__delattr__",
    "__dir__",
    "__doc__",
    "__eq__",
    "__format__",
    "__ge__",
    "__getattribute__",
    "__getitem__",
    "__getstate__",
    "__gt__",
    "__hash__",
    "__init__",
    "__init_subclass__",
    "__le__",
    "__len__",
    "__lt__",
    "__ne__",
    "__new__",
    "__reduce__",
    "__reduce_ex__",
    "__repr__",
    "__setattr__",
    "__str__",
];

/// `object.name`.
pub(super) fn attribute(object: &Value, name: &str) -> Result<Value> {
    object.defined()?;
    Ok(match python_attribute(object, name)? {
        Some(Attribute::Value(value)) => value,
        Some(Attribute::Unsafe) => not_safe(object, name),
        None => subscript(object, &Value::str(name))?.unwrap_or_else(|| nothing(object, &format!("'{name}'"))),
    })
}

/// The attribute that Python finds, without a look at items.
pub(super) fn own_attribute(object: &Value, name: &str) -> Result<Value> {
    object.defined()?;
    Ok(match python_attribute(object, name)? {
        Some(Attribute::Value(value)) => value,
        Some(Attribute::Unsafe) => not_safe(object, name),
        None => nothing(object, &format!("'{name}'")),
    })
}

/// `object[key]`.
pub(super) fn item(object: &Value, key: &Value) -> Result<Value> {
    object.defined()?;
    if let Some(value) = subscript(object, key)? {
        return Ok(value);
    }
    let Some(name) = key.as_str() else {
        return Ok(nothing(object, &super::print::repr(key).unwrap_or_else(|_| key.type_name().to_owned())));
    };
    Ok(match python_attribute(object, name)? {
        Some(Attribute::Value(value)) => value,
        Some(Attribute::Unsafe) => not_safe(object, name),
        None => nothing(object, &format!("'{name}'")),
    })
}

fn nothing(object: &Value, name: &str) -> Value {
    Value::undefined(format!("a value of type '{}' has no attribute or item {name}", object.type_name()))
}

fn not_safe(object: &Value, name: &str) -> Value {
    Value::undefined(format!("the attribute '{name}' of a value of type '{}' is not for templates", object.type_name()))
}

fn method(object: &Value, names: &[&'static str], name: &str) -> Option<Attribute> {
    let known = names.iter().find(|known| **known == name)?;
    Some(Attribute::Value(Value::method(object, known)))
}

fn python_attribute(object: &Value, name: &str) -> Result<Option<Attribute>> {
    if OF_OBJECT.contains(&name) {
        return Ok(Some(Attribute::Unsafe));
    }
    let changes = |names: &[&str]| names.contains(&name).then_some(Attribute::Unsafe);
    let value = |value: Value| Some(Attribute::Value(value));
    Ok(match object {
        Value::Str(_) => method(object, &OF_STR, name),
        Value::Markup(_) => method(object, &OF_STR, name).or_else(|| method(object, &OF_MARKUP, name)),
        Value::List(_) => method(object, &OF_LIST, name).or_else(|| changes(&CHANGES_LIST)),
        Value::Tuple(items) => match name {
            "grouper" if items.is_group => value(items.values[0].clone()),
            "list" if items.is_group => value(items.values[1].clone()),
            _ => method(object, &OF_TUPLE, name),
        },
        Value::Dict(_) => method(object, &OF_DICT, name).or_else(|| changes(&CHANGES_DICT)),
        Value::View(..) => match name {
            "isdisjoint" | "mapping" => return fail(format!("'{name}' of a view of a dict is not supported")),
            _ => None,
        },
        Value::Bool(_) | Value::Int(_) => match name {
            "real" | "numerator" => value(Value::Int(object.as_int().unwrap_or(0))),
            "imag" => value(Value::Int(0)),
            "denominator" => value(Value::Int(1)),
            _ => method(object, &OF_INT, name),
        },
        Value::Float(_) => match name {
            "real" => value(object.clone()),
            "imag" => value(Value::Float(0.0)),
            _ => method(object, &OF_FLOAT, name),
        },
        Value::Range(range) => match name {
            "start" => value(Value::Int(range.start)),
            "stop" => value(Value::Int(range.stop)),
            "step" => value(Value::Int(range.step)),
            _ => method(object, &OF_TUPLE, name),
        },
        Value::Namespace(namespace) => namespace
            .attributes
            .borrow()
            .get(name)
            .map(|it| if name.starts_with('_') { Attribute::Unsafe } else { Attribute::Value(it.clone()) }),
        Value::Cycler(cycler) => match name {
            "current" => value(cycler.items.values[cycler.place.get()].clone()),
            "pos" => value(Value::Int(cycler.place.get() as i128)),
            "items" => value(Value::Tuple(cycler.items.clone())),
            _ => method(object, &["next", "reset"], name),
        },
        Value::Joiner(joiner) => match name {
            "sep" => value(joiner.separator.clone()),
            "used" => value(Value::Bool(joiner.used.get())),
            _ => None,
        },
        Value::Macro(it) => it.attribute(name)?.map(Attribute::Value),
        Value::Loop(it) => it.attribute(object, name)?.map(Attribute::Value),
        // A method of Python has no attributes but those with underscores.
        Value::None | Value::Undefined(_) | Value::Method(_) => None,
        Value::Iterator(_) | Value::Function(_) => {
            return fail(format!("attributes of a value of type '{}' are not supported", object.type_name()));
        }
    })
}

/// Python's `object[key]`; `None` where Python has a `TypeError` or a `LookupError`.
fn subscript(object: &Value, key: &Value) -> Result<Option<Value>> {
    let index = key.as_int();
    Ok(match (object, index) {
        (Value::Dict(dict), _) => from_dict(dict, key),
        (Value::List(items) | Value::Tuple(items), Some(index)) => from_items(items, index),
        (Value::Str(text), Some(index)) => char_at(text, index).map(Value::str),
        (Value::Markup(text), Some(index)) => char_at(text, index).map(|text| Value::Markup(text.into())),
        (Value::Range(range), Some(index)) => place(index, range.len()).and_then(|it| range.get(it)).map(Value::Int),
        _ => None,
    })
}

fn from_dict(dict: &Dict, key: &Value) -> Option<Value> {
    // A key that no dict can have is a type error.
    dict.get(key).ok().flatten()
}

fn from_items(items: &Items, index: i128) -> Option<Value> {
    place(index, items.values.len()).map(|index| items.values[index].clone())
}

fn char_at(text: &str, index: i128) -> Option<String> {
    let length = if index < 0 { text.chars().count() } else { usize::MAX };
    let index = if index < 0 { place(index, length)? } else { usize::try_from(index).ok()? };
    text.chars().nth(index).map(String::from)
}

/// An index counted from the start, if there is such an item.
fn place(index: i128, length: usize) -> Option<usize> {
    let index = if index < 0 { index.checked_add(length as i128)? } else { index };
    usize::try_from(index).ok().filter(|index| *index < length)
}

/// `object[start:stop:step]`.
pub(super) fn slice(object: &Value, bounds: &[Option<Value>; 3]) -> Result<Value> {
    object.defined()?;
    let Some(length) = object.len().filter(|_| !matches!(object, Value::Dict(_) | Value::View(..))) else {
        return fail(format!("a value of type '{}' has no slices", object.type_name()));
    };
    let mut numbers = [None; 3];
    for (number, bound) in numbers.iter_mut().zip(bounds) {
        *number = match bound {
            None | Some(Value::None) => None,
            Some(bound) => Some(super::arguments::int(bound)?),
        };
    }
    let [start, stop, step] = numbers;
    let step = step.unwrap_or(1);
    if step == 0 {
        return fail("the step of a slice is zero");
    }
    let length = length as i128;
    let (lowest, highest) = if step > 0 { (0, length) } else { (-1, length - 1) };
    let clamp = |bound: i128| {
        let bound = if bound < 0 { bound.saturating_add(length) } else { bound };
        bound.clamp(lowest, highest)
    };
    let start = start.map_or(if step > 0 { lowest } else { highest }, clamp);
    let stop = stop.map_or(if step > 0 { highest } else { lowest }, clamp);
    let range = Range { start, stop, step };
    let places = (0..range.len()).filter_map(|index| range.get(index)).filter_map(|place| usize::try_from(place).ok());
    match object {
        Value::Str(text) => Ok(Value::str(characters(text, places))),
        Value::Markup(text) => Ok(Value::Markup(characters(text, places).into())),
        Value::List(items) => Value::list(places.map(|place| items.values[place].clone()).collect()),
        Value::Tuple(items) => Value::tuple(places.map(|place| items.values[place].clone()).collect()),
        Value::Range(of) => {
            let at = |place: i128| of.start + of.step * place;
            Ok(Value::Range(Range { start: at(start), stop: at(stop), step: of.step * step }))
        }
        _ => fail(format!("a value of type '{}' has no slices", object.type_name())),
    }
}

fn characters(text: &str, places: impl Iterator<Item = usize>) -> String {
    let chars: Vec<char> = text.chars().collect();
    places.map(|place| chars[place]).collect()
}
