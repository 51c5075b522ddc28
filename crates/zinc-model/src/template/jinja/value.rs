//! The values of templates, as Python has them.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use indexmap::IndexMap;

use super::failure::{Result, fail};
use super::globals::Function;
use super::loops::Loop;
use super::macros::MacroValue;

/// How deep lists, tuples and dicts can lie in each other.
pub(in crate::template) const MAX_DEPTH: u32 = 200;

#[derive(Clone, Debug)]
pub(in crate::template) enum Value {
    /// What has no value, with the message of the error that most uses of it give.
    Undefined(Rc<str>),
    None,
    Bool(bool),
    /// Python's integers have any size; these have 128 bits, and what does not fit is an error.
    Int(i128),
    Float(f64),
    Str(Rc<str>),
    /// A string that is HTML already, from `safe` or `escape`.
    Markup(Rc<str>),
    List(Rc<Items>),
    Tuple(Rc<Items>),
    Dict(Rc<Dict>),
    /// What `keys()`, `values()` and `items()` of a dict give.
    View(View, Rc<Dict>),
    Range(Range),
    /// An iterator, which can be gone through once.
    Iterator(Rc<OneShot>),
    Namespace(Rc<Namespace>),
    Cycler(Rc<Cycler>),
    Joiner(Rc<Joiner>),
    Macro(Rc<MacroValue>),
    Loop(Rc<Loop>),
    Method(Rc<Method>),
    Function(Function),
}

/// The items of a list or tuple.
#[derive(Debug)]
pub(in crate::template) struct Items {
    pub(super) values: Vec<Value>,
    depth: u32,
    /// Whether it is a tuple of the filter `groupby`, whose items have the names `grouper` and `list`.
    pub(super) is_group: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::template) enum View {
    Keys,
    Values,
    Items,
}

/// A dict: for each key, the key as it was given and its value, in the order of insertion.
#[derive(Debug, Default)]
pub(in crate::template) struct Dict {
    pub(super) entries: IndexMap<Key, (Value, Value)>,
    depth: u32,
}

/// What a dict tells its keys apart by: numbers that are equal are the same key, whatever their types.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(in crate::template) enum Key {
    None,
    Undefined,
    Int(i128),
    /// The bits of a number that is no integer of 128 bits.
    Float(u64),
    Str(Rc<str>),
    Tuple(Vec<Key>),
    /// The address of what equals only itself.
    Identity(usize),
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::template) struct Range {
    pub(super) start: i128,
    pub(super) stop: i128,
    pub(super) step: i128,
}

impl Range {
    pub(super) fn len(self) -> usize {
        let distance =
            if self.step > 0 { self.stop.checked_sub(self.start) } else { self.start.checked_sub(self.stop) };
        let distance = distance.unwrap_or(i128::MAX).max(0);
        let step = self.step.unsigned_abs().cast_signed().max(1);
        usize::try_from((distance - 1).div_euclid(step) + 1).unwrap_or(usize::MAX)
    }

    pub(super) fn get(self, index: usize) -> Option<i128> {
        (index < self.len()).then(|| self.start + self.step * index as i128)
    }
}

#[derive(Debug)]
pub(in crate::template) struct OneShot {
    pub(super) rest: RefCell<std::vec::IntoIter<Value>>,
    /// What Python calls its type.
    pub(super) type_name: &'static str,
    depth: u32,
}

impl OneShot {
    pub(super) fn next(&self) -> Option<Value> {
        self.rest.borrow_mut().next()
    }
}

#[derive(Debug, Default)]
pub(in crate::template) struct Namespace {
    pub(super) attributes: RefCell<IndexMap<String, Value>>,
}

#[derive(Debug)]
pub(in crate::template) struct Cycler {
    pub(super) items: Rc<Items>,
    pub(super) place: Cell<usize>,
}

#[derive(Debug)]
pub(in crate::template) struct Joiner {
    pub(super) separator: Value,
    pub(super) used: Cell<bool>,
}

/// A method together with what it belongs to.
#[derive(Debug)]
pub(in crate::template) struct Method {
    pub(super) object: Value,
    pub(super) name: &'static str,
}

fn depth_of<'v>(values: impl Iterator<Item = &'v Value>) -> Result<u32> {
    let depth = 1 + values.map(Value::depth).max().unwrap_or(0);
    if depth > MAX_DEPTH { fail(format!("values are nested deeper than {MAX_DEPTH} levels")) } else { Ok(depth) }
}

impl Value {
    pub(in crate::template) fn str(text: impl AsRef<str>) -> Self {
        Self::Str(Rc::from(text.as_ref()))
    }

    pub(super) fn undefined(message: impl AsRef<str>) -> Self {
        Self::Undefined(Rc::from(message.as_ref()))
    }

    /// The value of a variable that has none.
    pub(super) fn missing(name: &str) -> Self {
        Self::undefined(format!("'{name}' is undefined"))
    }

    pub(super) fn list(values: Vec<Value>) -> Result<Self> {
        let depth = depth_of(values.iter())?;
        Ok(Self::List(Rc::new(Items { values, depth, is_group: false })))
    }

    pub(super) fn tuple(values: Vec<Value>) -> Result<Self> {
        let depth = depth_of(values.iter())?;
        Ok(Self::Tuple(Rc::new(Items { values, depth, is_group: false })))
    }

    /// A tuple of the filter `groupby`.
    pub(super) fn group(grouper: Value, list: Value) -> Result<Self> {
        let values = vec![grouper, list];
        let depth = depth_of(values.iter())?;
        Ok(Self::Tuple(Rc::new(Items { values, depth, is_group: true })))
    }

    pub(super) fn dict(pairs: impl IntoIterator<Item = (Value, Value)>) -> Result<Self> {
        let mut entries: IndexMap<Key, (Value, Value)> = IndexMap::new();
        for (key, value) in pairs {
            // A key that is there already stays as it was first written.
            match entries.entry(key.key()?) {
                indexmap::map::Entry::Occupied(mut entry) => entry.get_mut().1 = value,
                indexmap::map::Entry::Vacant(entry) => {
                    entry.insert((key, value));
                }
            }
        }
        let depth = depth_of(entries.values().flat_map(|(key, value)| [key, value]))?;
        Ok(Self::Dict(Rc::new(Dict { entries, depth })))
    }

    pub(super) fn iterator(type_name: &'static str, values: Vec<Value>) -> Result<Self> {
        let depth = depth_of(values.iter())?;
        Ok(Self::Iterator(Rc::new(OneShot { rest: RefCell::new(values.into_iter()), type_name, depth })))
    }

    pub(super) fn method(object: &Value, name: &'static str) -> Self {
        Self::Method(Rc::new(Method { object: object.clone(), name }))
    }

    /// How deep values lie in this one. Namespaces and macros count once, whatever they hold: the interpreter ends
    /// them by itself.
    pub(super) fn depth(&self) -> u32 {
        match self {
            Self::List(items) | Self::Tuple(items) => items.depth,
            Self::Dict(dict) | Self::View(_, dict) => dict.depth,
            Self::Iterator(iterator) => iterator.depth,
            Self::Cycler(cycler) => cycler.items.depth + 1,
            Self::Joiner(joiner) => joiner.separator.depth() + 1,
            Self::Method(method) => method.object.depth() + 1,
            Self::Loop(it) => it.depth_of_values(),
            _ => 0,
        }
    }

    /// What Python calls the type.
    pub(super) fn type_name(&self) -> &'static str {
        match self {
            Self::Undefined(_) => "Undefined",
            Self::None => "NoneType",
            Self::Bool(_) => "bool",
            Self::Int(_) => "int",
            Self::Float(_) => "float",
            Self::Str(_) => "str",
            Self::Markup(_) => "Markup",
            Self::List(_) => "list",
            Self::Tuple(_) => "tuple",
            Self::Dict(_) => "dict",
            Self::View(View::Keys, _) => "dict_keys",
            Self::View(View::Values, _) => "dict_values",
            Self::View(View::Items, _) => "dict_items",
            Self::Range(_) => "range",
            Self::Iterator(iterator) => iterator.type_name,
            Self::Namespace(_) => "Namespace",
            Self::Cycler(_) => "Cycler",
            Self::Joiner(_) => "Joiner",
            Self::Macro(_) => "Macro",
            Self::Loop(_) => "LoopContext",
            Self::Method(_) => "method",
            Self::Function(function) => function.type_name(),
        }
    }

    /// What Python's `bool()` says.
    pub(super) fn is_true(&self) -> bool {
        match self {
            Self::Undefined(_) | Self::None => false,
            Self::Bool(value) => *value,
            Self::Int(value) => *value != 0,
            Self::Float(value) => *value != 0.0,
            Self::Str(text) | Self::Markup(text) => !text.is_empty(),
            Self::List(items) | Self::Tuple(items) => !items.values.is_empty(),
            Self::Dict(dict) | Self::View(_, dict) => !dict.entries.is_empty(),
            Self::Range(range) => range.len() > 0,
            _ => true,
        }
    }

    /// The text of a string.
    pub(super) fn as_str(&self) -> Option<&Rc<str>> {
        match self {
            Self::Str(text) | Self::Markup(text) => Some(text),
            _ => None,
        }
    }

    /// The value of an integer, as which truth values count too.
    pub(super) fn as_int(&self) -> Option<i128> {
        match self {
            Self::Int(value) => Some(*value),
            Self::Bool(value) => Some(i128::from(*value)),
            _ => None,
        }
    }

    pub(super) fn is_undefined(&self) -> bool {
        matches!(self, Self::Undefined(_))
    }

    /// Fails if there is no value.
    pub(super) fn defined(&self) -> Result<()> {
        match self {
            Self::Undefined(message) => fail(&**message),
            _ => Ok(()),
        }
    }

    /// What Python's `len()` says, where the type has a length.
    pub(super) fn len(&self) -> Option<usize> {
        match self {
            Self::Undefined(_) => Some(0),
            Self::Str(text) | Self::Markup(text) => Some(text.chars().count()),
            Self::List(items) | Self::Tuple(items) => Some(items.values.len()),
            Self::Dict(dict) | Self::View(_, dict) => Some(dict.entries.len()),
            Self::Range(range) => Some(range.len()),
            _ => None,
        }
    }

    /// The key as which a dict holds this value.
    pub(super) fn key(&self) -> Result<Key> {
        Ok(match self {
            Self::None => Key::None,
            Self::Undefined(_) => Key::Undefined,
            Self::Bool(value) => Key::Int(i128::from(*value)),
            Self::Int(value) => Key::Int(*value),
            Self::Float(value) => {
                let whole = *value as i128;
                if whole as f64 == *value && whole != i128::MAX { Key::Int(whole) } else { Key::Float(value.to_bits()) }
            }
            Self::Str(text) | Self::Markup(text) => Key::Str(Rc::clone(text)),
            Self::Tuple(items) => Key::Tuple(items.values.iter().map(Self::key).collect::<Result<_>>()?),
            Self::List(_) | Self::Dict(_) | Self::View(..) | Self::Range(_) => {
                return fail(format!("a value of type '{}' cannot be a key", self.type_name()));
            }
            _ => Key::Identity(self.address().unwrap_or(0)),
        })
    }

    /// The address of what equals only itself.
    pub(super) fn address(&self) -> Option<usize> {
        Some(match self {
            Self::Iterator(it) => Rc::as_ptr(it).cast::<()>() as usize,
            Self::Namespace(it) => Rc::as_ptr(it).cast::<()>() as usize,
            Self::Cycler(it) => Rc::as_ptr(it).cast::<()>() as usize,
            Self::Joiner(it) => Rc::as_ptr(it).cast::<()>() as usize,
            Self::Macro(it) => Rc::as_ptr(it).cast::<()>() as usize,
            Self::Loop(it) => Rc::as_ptr(it).cast::<()>() as usize,
            Self::Method(it) => Rc::as_ptr(it).cast::<()>() as usize,
            Self::Function(function) => *function as usize,
            _ => return None,
        })
    }
}

impl Dict {
    pub(super) fn get(&self, key: &Value) -> Result<Option<Value>> {
        Ok(self.entries.get(&key.key()?).map(|(_, value)| value.clone()))
    }

    pub(super) fn get_str(&self, key: &str) -> Option<&Value> {
        self.entries.get(&Key::Str(Rc::from(key))).map(|(_, value)| value)
    }

    /// The items of a view.
    pub(super) fn view(&self, view: View, index: usize) -> Option<Result<Value>> {
        let (_, (key, value)) = self.entries.get_index(index)?;
        Some(match view {
            View::Keys => Ok(key.clone()),
            View::Values => Ok(value.clone()),
            View::Items => Value::tuple(vec![key.clone(), value.clone()]),
        })
    }
}
