//! Macros, and the bodies of call blocks.

use std::rc::Rc;
use std::sync::Arc;

use super::arguments::Arguments;
use super::ast::Macro;
use super::failure::{Result, fail};
use super::interpreter::{Activation, Interpreter};
use super::value::Value;

/// A macro together with the variables around its definition.
#[derive(Debug)]
pub(in crate::template) struct MacroValue {
    pub(super) definition: Arc<Macro>,
    pub(super) closure: Rc<Activation>,
}

impl MacroValue {
    /// The attributes of Jinja2's macros.
    pub(super) fn attribute(&self, name: &str) -> Result<Option<Value>> {
        let Macro { args, kwargs, varargs, caller, .. } = &*self.definition;
        Ok(Some(match name {
            "name" => self.definition.name.as_ref().map_or(Value::None, Value::str),
            "arguments" => Value::tuple(args.iter().map(|arg| Value::str(&arg.name)).collect())?,
            "catch_kwargs" => Value::Bool(kwargs.is_some()),
            "catch_varargs" => Value::Bool(varargs.is_some()),
            "caller" => Value::Bool(caller.is_some()),
            "explicit_caller" => Value::Bool(args.iter().any(|arg| arg.name == "caller")),
            _ => return Ok(None),
        }))
    }
}

impl Interpreter<'_> {
    /// Calls a macro: its text.
    pub(super) fn call_macro(&mut self, it: &MacroValue, args: Arguments) -> Result<Value> {
        let definition = &it.definition;
        let name = definition.name.as_deref().unwrap_or("caller");
        let Arguments { mut positional, mut named } = args;
        let more = positional.split_off(positional.len().min(definition.args.len()));
        let mut given: Vec<Option<Value>> = positional.into_iter().map(Some).collect();
        let mut take = |name: &str| named.iter().position(|(it, _)| it == name).map(|place| named.remove(place).1);
        for arg in &definition.args[given.len()..] {
            given.push(take(&arg.name));
        }
        let caller = definition.caller.map(|slot| {
            let given = take("caller").filter(|it| !matches!(it, Value::None));
            (slot, given.unwrap_or_else(|| Value::undefined("there is no caller")))
        });
        if let (None, Some((other, _))) = (definition.kwargs, named.first()) {
            return fail(format!("the macro '{name}' has no argument '{other}', or it is given twice"));
        }
        if definition.varargs.is_none() && !more.is_empty() {
            return fail(format!("the macro '{name}' takes at most {} arguments", definition.args.len()));
        }

        let frame = Activation::new(definition.slots, Some(Rc::clone(&it.closure)));
        for (arg, value) in definition.args.iter().zip(given) {
            frame.set(arg.slot.index, value);
        }
        if let Some((slot, caller)) = caller {
            frame.set(slot, Some(caller));
        }
        if let Some(slot) = definition.kwargs {
            frame.set(slot, Some(Value::dict(named.into_iter().map(|(name, value)| (Value::str(name), value)))?));
        }
        if let Some(slot) = definition.varargs {
            frame.set(slot, Some(Value::tuple(more)?));
        }
        self.enter(&definition.scope, &frame);
        let first_default = definition.args.len() - definition.defaults.len();
        for (index, arg) in definition.args.iter().enumerate() {
            if frame.get(arg.slot.index).is_some() {
                continue;
            }
            let value = match index.checked_sub(first_default) {
                Some(place) => self.eval(&definition.defaults[place], &frame)?,
                None => Value::undefined(format!("the parameter '{}' was not provided", arg.name)),
            };
            frame.set(arg.slot.index, Some(value));
        }
        let (text, _) = self.capture(|it| it.body(&definition.body, &frame))?;
        Ok(Value::str(text))
    }
}
