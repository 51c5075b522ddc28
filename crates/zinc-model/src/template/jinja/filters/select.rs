//! Filters that apply a filter or a test to each item.

use super::super::arguments::{Arguments, iterate, str_of};
use super::super::failure::{Failure, Result, fail};
use super::super::interpreter::Interpreter;
use super::super::type_tests;
use super::super::value::Value;
use super::sequences::Path;

pub(super) fn call(interpreter: &mut Interpreter<'_>, name: &str, value: &Value, args: Arguments) -> Result<Value> {
    if !value.is_true() {
        return Value::iterator("generator", Vec::new());
    }
    let values = if name == "map" {
        map(interpreter, value, args)?
    } else {
        let by_attribute = name.ends_with("attr");
        select(interpreter, value, args, by_attribute, name.starts_with("select"))?
    };
    Value::iterator("generator", values)
}

fn map(interpreter: &mut Interpreter<'_>, value: &Value, mut args: Arguments) -> Result<Vec<Value>> {
    let is_attribute = args.positional.is_empty() && args.named.iter().any(|(name, _)| name == "attribute");
    if is_attribute {
        let [attribute, default] = args.bind("map", ["attribute", "default"], 1)?;
        let path = Path::new(&attribute.unwrap_or(Value::None))?;
        return iterate(value)?.iter().map(|item| path.of(item, default.as_ref())).collect();
    }
    if args.positional.is_empty() {
        return fail("the filter 'map' needs a filter or an attribute");
    }
    let filter = args.positional.remove(0);
    let filter = filter.as_str().cloned().ok_or_else(|| Failure::new("the filter 'map' needs the name of a filter"))?;
    let mut values = Vec::new();
    for item in iterate(value)? {
        interpreter.tick()?;
        values.push(super::call(interpreter, &filter, &item, args.clone())?);
    }
    Ok(values)
}

fn select(
    interpreter: &mut Interpreter<'_>,
    value: &Value,
    mut args: Arguments,
    by_attribute: bool,
    wanted: bool,
) -> Result<Vec<Value>> {
    let mut path = None;
    if by_attribute {
        if args.positional.is_empty() {
            return fail("'selectattr' and 'rejectattr' need an attribute");
        }
        path = Some(Path::new(&args.positional.remove(0))?);
    }
    let test = if args.positional.is_empty() { None } else { Some(str_of(&args.positional.remove(0))?) };
    let mut values = Vec::new();
    for item in iterate(value)? {
        interpreter.tick()?;
        let tested = match &path {
            Some(path) => path.of(&item, None)?,
            None => item.clone(),
        };
        let holds = match &test {
            Some(test) => type_tests::call(test, &tested, args.clone())?,
            None => tested.is_true(),
        };
        if holds == wanted {
            values.push(item);
        }
    }
    Ok(values)
}
