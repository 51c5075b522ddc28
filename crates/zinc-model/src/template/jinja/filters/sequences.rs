//! Filters for lists, dicts and other things with items.

use super::super::arguments::{Arguments, int, is_true, iterate, str_of};
use super::super::ast::Comparison;
use super::super::attributes::{item, own_attribute};
use super::super::compare::{equal, ordered, sort};
use super::super::failure::{Failure, Result, fail};
use super::super::value::{Value, View};

/// The most items in a batch of the filter `batch`, and the most slices of the filter `slice`.
const MAX_ITEMS: usize = 1 << 20;

pub(super) fn call(name: &str, value: &Value, args: Arguments) -> Result<Value> {
    match name {
        "d" | "default" => {
            let [default, boolean] = args.bind(name, ["default_value", "boolean"], 0)?;
            let missing = value.is_undefined() || (is_true(boolean.as_ref()) && !value.is_true());
            Ok(if missing { default.unwrap_or_else(|| Value::str("")) } else { value.clone() })
        }
        "attr" => {
            let [name] = args.bind(name, ["name"], 1)?;
            own_attribute(value, &str_of(&name.unwrap_or(Value::None))?)
        }
        "batch" => batch(value, args),
        "slice" => slice(value, args),
        "dictsort" => dictsort(value, args),
        "groupby" => groupby(value, args),
        "sort" => {
            let [reverse, case_sensitive, attribute] =
                args.bind(name, ["reverse", "case_sensitive", "attribute"], 0)?;
            let keys = Keys::new(attribute.as_ref(), case_sensitive.as_ref())?;
            let keyed = iterate(value)?.into_iter().map(|item| Ok((keys.of(&item)?, item))).collect::<Result<_>>()?;
            let sorted = sort(keyed, is_true(reverse.as_ref()))?;
            Value::list(sorted.into_iter().map(|(_, item)| item).collect())
        }
        "unique" => {
            let [case_sensitive, attribute] = args.bind(name, ["case_sensitive", "attribute"], 0)?;
            let path = Path::new(&attribute.unwrap_or(Value::None))?;
            let mut seen = std::collections::HashSet::new();
            let mut values = Vec::new();
            for item in iterate(value)? {
                if seen.insert(folded(path.of(&item, None)?, case_sensitive.as_ref()).key()?) {
                    values.push(item);
                }
            }
            Value::iterator("generator", values)
        }
        "min" | "max" => extreme(name, value, args),
        _ => {
            args.unnamed::<0>(name, 0)?;
            without_arguments(name, value)
        }
    }
}

fn without_arguments(name: &str, value: &Value) -> Result<Value> {
    match name {
        "length" | "count" => match value.len() {
            Some(length) => Ok(Value::Int(length as i128)),
            None => fail(format!("a value of type '{}' has no length", value.type_name())),
        },
        "list" => Value::list(iterate(value)?),
        "items" => match value {
            Value::Undefined(_) => Value::iterator("generator", Vec::new()),
            Value::Dict(dict) => Value::iterator("generator", iterate(&Value::View(View::Items, dict.clone()))?),
            _ => fail(format!("a value of type '{}' has no items by key", value.type_name())),
        },
        "first" => {
            let first = match value {
                Value::Iterator(iterator) => iterator.next(),
                _ => iterate(value)?.into_iter().next(),
            };
            Ok(first.unwrap_or_else(|| Value::undefined("there is no first item")))
        }
        "last" => {
            if value.len().is_none() {
                return fail(format!("a value of type '{}' has no last item", value.type_name()));
            }
            Ok(iterate(value)?.pop().unwrap_or_else(|| Value::undefined("there is no last item")))
        }
        _ => {
            if let Value::Str(text) = value {
                return Ok(Value::str(text.chars().rev().collect::<String>()));
            }
            if let Value::Markup(text) = value {
                return Ok(Value::Markup(text.chars().rev().collect::<String>().into()));
            }
            let mut items = iterate(value)?;
            items.reverse();
            if matches!(value, Value::Iterator(_)) {
                return Value::list(items);
            }
            Value::iterator("reversed", items)
        }
    }
}

/// The path of an attribute, as in `author.names.0`: names and indices with points between them. Several filters take
/// one as an argument.
pub(super) struct Path(Vec<Value>);

impl Path {
    pub(super) fn new(attribute: &Value) -> Result<Self> {
        let parts = match attribute {
            Value::None => Vec::new(),
            Value::Str(text) | Value::Markup(text) => text.split('.').map(part).collect::<Result<_>>()?,
            other => vec![other.clone()],
        };
        Ok(Self(parts))
    }

    /// Returns what this path leads to in `value`. A part that leads to nothing gives `default` if there is one, else
    /// an undefined value.
    pub(super) fn of(&self, value: &Value, default: Option<&Value>) -> Result<Value> {
        let mut value = value.clone();
        for part in &self.0 {
            value = item(&value, part)?;
            if let Some(default) = default.filter(|it| !matches!(it, Value::None))
                && value.is_undefined()
            {
                value = default.clone();
            }
        }
        Ok(value)
    }
}

fn part(text: &str) -> Result<Value> {
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        let number = text.parse().map_err(|_| Failure::new(format!("the index {text} is too large")))?;
        return Ok(Value::Int(number));
    }
    Ok(Value::str(text))
}

/// Returns a sort key in lower case, unless the filter was told to be case-sensitive.
fn folded(key: Value, case_sensitive: Option<&Value>) -> Value {
    match &key {
        Value::Str(text) | Value::Markup(text) if !is_true(case_sensitive) => Value::str(text.to_lowercase()),
        _ => key,
    }
}

/// What items are sorted by: one or several attributes.
struct Keys<'a> {
    paths: Vec<Path>,
    case_sensitive: Option<&'a Value>,
}

impl<'a> Keys<'a> {
    fn new(attribute: Option<&Value>, case_sensitive: Option<&'a Value>) -> Result<Self> {
        let paths = match attribute {
            Some(Value::Str(text)) => text.split(',').map(|it| Path::new(&Value::str(it))).collect::<Result<_>>()?,
            Some(other) => vec![Path::new(other)?],
            None => vec![Path::new(&Value::None)?],
        };
        Ok(Self { paths, case_sensitive })
    }

    fn of(&self, value: &Value) -> Result<Value> {
        let keys = self.paths.iter().map(|path| Ok(folded(path.of(value, None)?, self.case_sensitive)));
        Value::list(keys.collect::<Result<_>>()?)
    }
}

fn extreme(name: &str, value: &Value, args: Arguments) -> Result<Value> {
    let [case_sensitive, attribute] = args.bind(name, ["case_sensitive", "attribute"], 0)?;
    let path = Path::new(&attribute.unwrap_or(Value::None))?;
    let comparison = if name == "min" { Comparison::Less } else { Comparison::Greater };
    let mut best: Option<(Value, Value)> = None;
    for item in iterate(value)? {
        let key = folded(path.of(&item, None)?, case_sensitive.as_ref());
        let better = match &best {
            Some((best, _)) => ordered(comparison, &key, best)?,
            None => true,
        };
        if better {
            best = Some((key, item));
        }
    }
    Ok(best.map_or_else(|| Value::undefined("there is no item to choose"), |(_, item)| item))
}

fn dictsort(value: &Value, args: Arguments) -> Result<Value> {
    let [case_sensitive, by, reverse] = args.bind("dictsort", ["case_sensitive", "by", "reverse"], 0)?;
    let Value::Dict(dict) = value else {
        value.defined()?;
        return fail(format!("a value of type '{}' has no items by key", value.type_name()));
    };
    let by = by.map_or(Ok("key".to_owned()), |by| str_of(&by))?;
    if !matches!(by.as_str(), "key" | "value") {
        return fail(format!("the filter 'dictsort' sorts by 'key' or by 'value', not by {by:?}"));
    }
    let mut keyed = Vec::new();
    for (key, value) in dict.entries.values() {
        let sorted_by = if by == "key" { key } else { value };
        let pair = Value::tuple(vec![key.clone(), value.clone()])?;
        keyed.push((folded(sorted_by.clone(), case_sensitive.as_ref()), pair));
    }
    let sorted = sort(keyed, is_true(reverse.as_ref()))?;
    Value::list(sorted.into_iter().map(|(_, pair)| pair).collect())
}

fn groupby(value: &Value, args: Arguments) -> Result<Value> {
    let names = ["attribute", "default", "case_sensitive"];
    let [attribute, default, case_sensitive] = args.bind("groupby", names, 1)?;
    let path = Path::new(&attribute.unwrap_or(Value::None))?;
    let mut keyed = Vec::new();
    for item in iterate(value)? {
        keyed.push((folded(path.of(&item, default.as_ref())?, case_sensitive.as_ref()), item));
    }
    let mut groups: Vec<(Value, Vec<Value>)> = Vec::new();
    for (key, item) in sort(keyed, false)? {
        match groups.last_mut().filter(|(last, _)| equal(last, &key)) {
            Some((_, items)) => items.push(item),
            None => groups.push((key, vec![item])),
        }
    }
    let mut tuples = Vec::new();
    for (key, items) in groups {
        let key = if is_true(case_sensitive.as_ref()) { key } else { path.of(&items[0], default.as_ref())? };
        tuples.push(Value::group(key, Value::list(items)?)?);
    }
    Value::list(tuples)
}

fn batch(value: &Value, args: Arguments) -> Result<Value> {
    let [count, fill] = args.bind("batch", ["linecount", "fill_with"], 1)?;
    let count = int(&count.unwrap_or(Value::None))?;
    let mut batches = Vec::new();
    let mut batch: Vec<Value> = Vec::new();
    for item in iterate(value)? {
        if batch.len() as i128 == count {
            batches.push(Value::list(std::mem::take(&mut batch))?);
        }
        batch.push(item);
    }
    if !batch.is_empty() {
        if let Some(fill) = fill.filter(|it| !matches!(it, Value::None)) {
            let count = usize::try_from(count).unwrap_or(0);
            if count > MAX_ITEMS {
                return fail(format!("a batch of {count} items is larger than {MAX_ITEMS}"));
            }
            batch.resize(batch.len().max(count), fill);
        }
        batches.push(Value::list(batch)?);
    }
    Value::iterator("generator", batches)
}

fn slice(value: &Value, args: Arguments) -> Result<Value> {
    let [slices, fill] = args.bind("slice", ["slices", "fill_with"], 1)?;
    let slices = int(&slices.unwrap_or(Value::None))?;
    let items = iterate(value)?;
    if slices == 0 {
        return fail("the filter 'slice' needs at least one slice, not 0");
    }
    let slices = usize::try_from(slices).unwrap_or(0);
    if slices > MAX_ITEMS {
        return fail(format!("{slices} slices are more than {MAX_ITEMS}"));
    }
    let fill = fill.filter(|it| !matches!(it, Value::None));
    let mut out = Vec::new();
    let mut start = 0;
    for index in 0..slices {
        let longer = index < items.len() % slices;
        let end = start + items.len() / slices + usize::from(longer);
        let mut part = items[start..end].to_vec();
        if !longer {
            part.extend(fill.clone());
        }
        out.push(Value::list(part)?);
        start = end;
    }
    Value::iterator("generator", out)
}
