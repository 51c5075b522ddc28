//! The functions that every template has: those of Jinja2 and those that Hugging Face adds.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use indexmap::IndexMap;

use super::arguments::{Arguments, int, iterate, str_of};
use super::failure::{Failure, Result, fail};
use super::interpreter::Interpreter;
use super::print::text;
use super::value::{Cycler, Items, Joiner, Namespace, Range, Value};

/// How long a range can be, as in Jinja2's sandbox.
const MAX_RANGE: usize = 100_000;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::template) enum Function {
    Range,
    Dict,
    Lipsum,
    Cycler,
    Joiner,
    Namespace,
    RaiseException,
    StrftimeNow,
}

impl Function {
    /// The function that a name means where no variable has it.
    pub(super) fn of(name: &str) -> Option<Self> {
        Some(match name {
            "range" => Self::Range,
            "dict" => Self::Dict,
            "lipsum" => Self::Lipsum,
            "cycler" => Self::Cycler,
            "joiner" => Self::Joiner,
            "namespace" => Self::Namespace,
            "raise_exception" => Self::RaiseException,
            "strftime_now" => Self::StrftimeNow,
            _ => return None,
        })
    }

    /// What Python calls the class, for those that are classes.
    pub(super) fn class(self) -> Option<&'static str> {
        match self {
            Self::Dict => Some("dict"),
            Self::Cycler => Some("jinja2.utils.Cycler"),
            Self::Joiner => Some("jinja2.utils.Joiner"),
            Self::Namespace => Some("jinja2.utils.Namespace"),
            _ => None,
        }
    }

    pub(super) fn type_name(self) -> &'static str {
        if self.class().is_some() { "type" } else { "function" }
    }
}

/// Calls a function.
pub(super) fn call(interpreter: &mut Interpreter<'_>, function: Function, args: Arguments) -> Result<Value> {
    match function {
        Function::Range => range(args),
        Function::Dict => Value::dict(pairs("dict", args)?),
        Function::Lipsum => fail("lipsum() gives a random text, which is never the same"),
        Function::Cycler => {
            if !args.named.is_empty() || args.positional.is_empty() {
                return fail("cycler() takes items by position, and one at least");
            }
            let Value::Tuple(items) = Value::tuple(args.positional)? else {
                return fail("cycler() needs items");
            };
            let items: Rc<Items> = items;
            Ok(Value::Cycler(Rc::new(Cycler { items, place: Cell::new(0) })))
        }
        Function::Joiner => {
            let [separator] = args.bind("joiner", ["sep"], 0)?;
            let separator = separator.unwrap_or_else(|| Value::str(", "));
            Ok(Value::Joiner(Rc::new(Joiner { separator, used: Cell::new(false) })))
        }
        Function::Namespace => {
            let mut attributes = IndexMap::new();
            for (key, value) in pairs("namespace", args)? {
                let key = key.as_str().ok_or_else(|| Failure::new("the names in namespace() are strings"))?;
                attributes.insert(key.to_string(), value);
            }
            let namespace = Rc::new(Namespace { attributes: RefCell::new(attributes) });
            interpreter.keep_namespace(&namespace)?;
            Ok(Value::Namespace(namespace))
        }
        Function::RaiseException => {
            let [message] = args.bind("raise_exception", ["message"], 1)?;
            let message = text(&message.unwrap_or(Value::None))?;
            fail(format!("the template refuses the messages: {message}"))
        }
        Function::StrftimeNow => {
            let [format] = args.bind("strftime_now", ["format"], 1)?;
            let format = str_of(&format.unwrap_or(Value::None))?;
            let refuse = |error| Failure::new(format!("strftime_now({format:?}): {error}"));
            let now = match interpreter.now {
                None => jiff::ZonedDateTime::now(),
                Some(now) => jiff::Timestamp::try_from(now).map_err(refuse)?.to_zoned_datetime(jiff::tz::TimeZone::UTC),
            };
            jiff::fmt::strtime::format(&format, &now).map(Value::str).map_err(refuse)
        }
    }
}

fn range(args: Arguments) -> Result<Value> {
    let bounds = args.unnamed::<3>("range", 1)?;
    let mut numbers = Vec::new();
    for bound in bounds.iter().flatten() {
        numbers.push(int(bound)?);
    }
    let range = match numbers[..] {
        [stop] => Range { start: 0, stop, step: 1 },
        [start, stop] => Range { start, stop, step: 1 },
        [start, stop, step] => Range { start, stop, step },
        _ => return fail("range() needs a number"),
    };
    if range.step == 0 {
        return fail("the step of range() is zero");
    }
    if range.len() > MAX_RANGE {
        return fail(format!("a range of {} items is longer than {MAX_RANGE}", range.len()));
    }
    Ok(Value::Range(range))
}

/// The pairs of a dict that is made of another one or of pairs, and of named arguments.
fn pairs(function: &str, args: Arguments) -> Result<Vec<(Value, Value)>> {
    let mut pairs = Vec::new();
    match &args.positional[..] {
        [] => {}
        [Value::Dict(dict)] => pairs.extend(dict.entries.values().cloned()),
        [single] => {
            single.defined()?;
            for pair in iterate(single)? {
                match &iterate(&pair)?[..] {
                    [key, value] => pairs.push((key.clone(), value.clone())),
                    other => return fail(format!("{function}() needs pairs, and found {} items", other.len())),
                }
            }
        }
        more => return fail(format!("{function}() takes one argument by position, and {} were given", more.len())),
    }
    pairs.extend(args.named.into_iter().map(|(name, value)| (Value::str(name), value)));
    Ok(pairs)
}
