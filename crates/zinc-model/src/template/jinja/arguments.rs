//! The arguments of a call, and their assignment to the parameters of what is called.

use super::failure::{Failure, Result, fail};
use super::print::text;
use super::value::{Value, View};

/// How many items an iterable can have where all are needed at once.
pub(super) const MAX_ITEMS: usize = 1 << 20;

#[derive(Clone, Debug, Default)]
pub(super) struct Arguments {
    pub(super) positional: Vec<Value>,
    pub(super) named: Vec<(String, Value)>,
}

impl Arguments {
    /// Assigns the arguments to parameters that can be given by name, of which the first `required` must be given.
    pub(super) fn bind<const N: usize>(
        self,
        function: &str,
        names: [&str; N],
        required: usize,
    ) -> Result<[Option<Value>; N]> {
        let given = self.positional.len();
        if given > N {
            return fail(format!("{function}() takes at most {N} arguments, and {given} were given"));
        }
        let mut bound = [const { None }; N];
        for (slot, value) in bound.iter_mut().zip(self.positional) {
            *slot = Some(value);
        }
        for (name, value) in self.named {
            let Some(place) = names.iter().position(|it| *it == name) else {
                return fail(format!("{function}() has no argument '{name}'"));
            };
            if bound[place].replace(value).is_some() {
                return fail(format!("{function}() was given the argument '{name}' twice"));
            }
        }
        match bound[..required].iter().position(Option::is_none) {
            Some(place) => fail(format!("{function}() needs the argument '{}'", names[place])),
            None => Ok(bound),
        }
    }

    /// Assigns the arguments to parameters that have no names, of which the first `required` must be given.
    pub(super) fn unnamed<const N: usize>(self, function: &str, required: usize) -> Result<[Option<Value>; N]> {
        if let Some((name, _)) = self.named.first() {
            return fail(format!("{function}() takes no argument by name, and was given '{name}'"));
        }
        self.bind(function, [""; N], 0).and_then(|bound| {
            if bound[..required].iter().any(Option::is_none) {
                return fail(format!("{function}() needs {required} arguments"));
            }
            Ok(bound)
        })
    }
}

/// An integer that is given as an argument.
pub(super) fn int(value: &Value) -> Result<i128> {
    value.defined()?;
    value.as_int().ok_or_else(|| Failure::new(format!("a value of type '{}' is no integer", value.type_name())))
}

pub(super) fn int_or(value: Option<&Value>, default: i128) -> Result<i128> {
    value.map_or(Ok(default), int)
}

/// A string that is given as an argument.
pub(super) fn str_of(value: &Value) -> Result<String> {
    value.defined()?;
    match value.as_str() {
        Some(text) => Ok(text.to_string()),
        None => fail(format!("a value of type '{}' is no string", value.type_name())),
    }
}

/// The text of any value, as filters for text take it.
pub(super) fn soft_str(value: &Value) -> Result<String> {
    text(value)
}

pub(super) fn is_true(value: Option<&Value>) -> bool {
    value.is_some_and(Value::is_true)
}

/// All items of an iterable.
pub(super) fn iterate(value: &Value) -> Result<Vec<Value>> {
    let items = match value {
        Value::Undefined(_) => Vec::new(),
        Value::Str(text) => text.chars().map(|c| Value::str(c.encode_utf8(&mut [0; 4]))).collect(),
        Value::Markup(text) => text.chars().map(|c| Value::str(c.encode_utf8(&mut [0; 4]))).collect(),
        Value::List(items) | Value::Tuple(items) => items.values.clone(),
        Value::Dict(dict) => dict.entries.values().map(|(key, _)| key.clone()).collect(),
        Value::View(view, dict) => {
            let item = |(key, value): &(Value, Value)| match view {
                View::Keys => Ok(key.clone()),
                View::Values => Ok(value.clone()),
                View::Items => Value::tuple(vec![key.clone(), value.clone()]),
            };
            dict.entries.values().map(item).collect::<Result<_>>()?
        }
        Value::Range(range) => (0..range.len()).filter_map(|index| range.get(index)).map(Value::Int).collect(),
        Value::Iterator(iterator) => std::iter::from_fn(|| iterator.next()).collect(),
        _ => return fail(format!("a value of type '{}' cannot be iterated over", value.type_name())),
    };
    if items.len() > MAX_ITEMS {
        return fail(format!("an iterable has more than {MAX_ITEMS} items"));
    }
    Ok(items)
}
