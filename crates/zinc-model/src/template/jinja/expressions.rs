//! Evaluates expressions.

use std::rc::Rc;

use super::arguments::{Arguments, iterate};
use super::arithmetic::{binary, concat, unary};
use super::ast::{Args, Comparison, Expr, Step, StepKind};
use super::attributes::{attribute, item, slice};
use super::compare::{contains, equal, ordered};
use super::failure::{Failure, Result, fail};
use super::interpreter::{Activation, Interpreter};
use super::value::Value;
use super::{filters, globals, methods, type_tests};

type Frame = Rc<Activation>;

impl Interpreter<'_> {
    /// The value of an expression.
    pub(super) fn eval(&mut self, expr: &Expr, frame: &Frame) -> Result<Value> {
        match expr {
            Expr::None => Ok(Value::None),
            Expr::Bool(value) => Ok(Value::Bool(*value)),
            Expr::Integer(value) => Ok(Value::Int(*value)),
            Expr::Float(value) => Ok(Value::Float(*value)),
            Expr::Text(text) => Ok(Value::str(text)),
            Expr::Name(name) => Ok(frame.find(name.slot).unwrap_or_else(|| Value::missing(&name.name))),
            Expr::Captured => self.captured.last().cloned().ok_or_else(|| Failure::new("nothing was captured")),
            _ => {
                self.tick()?;
                self.deeper(|it| it.eval_operator(expr, frame))
            }
        }
    }

    fn eval_all(&mut self, items: &[Expr], frame: &Frame) -> Result<Vec<Value>> {
        items.iter().map(|item| self.eval(item, frame)).collect()
    }

    fn eval_operator(&mut self, expr: &Expr, frame: &Frame) -> Result<Value> {
        match expr {
            Expr::List(items) => Value::list(self.eval_all(items, frame)?),
            Expr::Tuple(items) => Value::tuple(self.eval_all(items, frame)?),
            Expr::Dict(items) => {
                let mut pairs = Vec::with_capacity(items.len());
                for (key, value) in items {
                    pairs.push((self.eval(key, frame)?, self.eval(value, frame)?));
                }
                Value::dict(pairs)
            }
            Expr::Concat(items) => {
                let value = concat(&self.eval_all(items, frame)?)?;
                self.charge_for(&value)?;
                Ok(value)
            }
            Expr::Arithmetic(first, rest) => {
                let mut value = self.eval(first, frame)?;
                for (operator, operand) in rest {
                    let operand = self.eval(operand, frame)?;
                    value = binary(*operator, &value, &operand)?;
                    self.charge_for(&value)?;
                }
                Ok(value)
            }
            Expr::And(operands) => self.eval_until(operands, false, frame),
            Expr::Or(operands) => self.eval_until(operands, true, frame),
            Expr::Not(operand) => Ok(Value::Bool(!self.eval(operand, frame)?.is_true())),
            Expr::Negative(operand) => unary(true, &self.eval(operand, frame)?),
            Expr::Positive(operand) => unary(false, &self.eval(operand, frame)?),
            Expr::Compare(first, rest) => {
                let mut left = self.eval(first, frame)?;
                for (comparison, right) in rest {
                    let right = self.eval(right, frame)?;
                    if !compare(*comparison, &left, &right)? {
                        return Ok(Value::Bool(false));
                    }
                    left = right;
                }
                Ok(Value::Bool(true))
            }
            Expr::Condition(condition) => {
                if self.eval(&condition.test, frame)?.is_true() {
                    return self.eval(&condition.then, frame);
                }
                match &condition.otherwise {
                    Some(otherwise) => self.eval(otherwise, frame),
                    None => Ok(Value::undefined("the condition of an expression does not hold, and it has no 'else'")),
                }
            }
            Expr::Postfix(base, steps) => {
                let value = self.eval(base, frame)?;
                self.eval_steps(value, steps, frame)
            }
            // The others have no operands.
            _ => self.eval(expr, frame),
        }
    }

    /// The first operand whose truth is `wanted`, or the last one.
    fn eval_until(&mut self, operands: &[Expr], wanted: bool, frame: &Frame) -> Result<Value> {
        let mut value = Value::None;
        for operand in operands {
            value = self.eval(operand, frame)?;
            if value.is_true() == wanted {
                break;
            }
        }
        Ok(value)
    }

    /// Counts the text and the items that an operation has made.
    fn charge_for(&mut self, value: &Value) -> Result<()> {
        self.charge(match value {
            Value::Str(text) | Value::Markup(text) => text.len(),
            Value::List(items) | Value::Tuple(items) => items.values.len().saturating_mul(32),
            _ => 0,
        })
    }

    fn eval_steps(&mut self, mut value: Value, steps: &[Step], frame: &Frame) -> Result<Value> {
        for step in steps {
            value = match &step.kind {
                StepKind::Attribute(name) => {
                    self.line = step.line;
                    if let Value::Loop(it) = &value {
                        it.look_ahead(name, Some(self))?;
                    }
                    attribute(&value, name)?
                }
                StepKind::Item(key) => {
                    let key = self.eval(key, frame)?;
                    self.line = step.line;
                    if let (Value::Loop(it), Some(name)) = (&value, key.as_str()) {
                        it.look_ahead(name, Some(self))?;
                    }
                    item(&value, &key)?
                }
                StepKind::Slice(bounds) => {
                    let mut values = [const { None }; 3];
                    for (value, bound) in values.iter_mut().zip(bounds.iter()) {
                        *value = bound.as_ref().map(|bound| self.eval(bound, frame)).transpose()?;
                    }
                    self.line = step.line;
                    slice(&value, &values)?
                }
                StepKind::Call(args) => {
                    let args = self.args(args, frame)?;
                    self.line = step.line;
                    self.call(&value, args)?
                }
                StepKind::Filter(name, args) => {
                    let args = self.args(args, frame)?;
                    self.line = step.line;
                    filters::call(self, name, &value, args)?
                }
                StepKind::Test { name, args, negated } => {
                    let args = self.args(args, frame)?;
                    self.line = step.line;
                    Value::Bool(type_tests::call(name, &value, args)? != *negated)
                }
            };
            self.charge_for(&value)?;
        }
        Ok(value)
    }

    fn args(&mut self, args: &Args, frame: &Frame) -> Result<Arguments> {
        let mut positional = self.eval_all(&args.positional, frame)?;
        let mut named = Vec::with_capacity(args.named.len());
        for (name, value) in &args.named {
            named.push((name.clone(), self.eval(value, frame)?));
        }
        if let Some(all) = &args.all {
            positional.extend(iterate(&self.eval(all, frame)?)?);
        }
        if let Some(all) = &args.all_named {
            let Value::Dict(dict) = self.eval(all, frame)? else {
                return fail("'**' in a call needs a dict");
            };
            for (key, value) in dict.entries.values() {
                let key = key.as_str().ok_or_else(|| Failure::new("'**' in a call needs strings as keys"))?;
                if named.iter().any(|(name, _)| **name == **key) {
                    return fail(format!("the argument '{key}' is given twice"));
                }
                named.push((key.to_string(), value.clone()));
            }
        }
        Ok(Arguments { positional, named })
    }

    /// Calls a value.
    pub(super) fn call(&mut self, callee: &Value, args: Arguments) -> Result<Value> {
        match callee {
            Value::Method(method) => methods::call(method, args),
            Value::Function(function) => globals::call(self, *function, args),
            Value::Macro(it) => self.deeper(|interpreter| interpreter.call_macro(it, args)),
            Value::Loop(it) => self.deeper(|interpreter| interpreter.call_loop(it, args)),
            Value::Joiner(joiner) => {
                args.unnamed::<0>("joiner", 0)?;
                Ok(if joiner.used.replace(true) { joiner.separator.clone() } else { Value::str("") })
            }
            Value::Undefined(message) => fail(&**message),
            _ => fail(format!("a value of type '{}' cannot be called", callee.type_name())),
        }
    }

    /// The call of a call block, which hands its body to what is called.
    pub(super) fn call_with_caller(&mut self, call: &Expr, caller: Value, frame: &Frame) -> Result<Value> {
        let Expr::Postfix(base, steps) = call else {
            return fail("the statement 'call' needs a call");
        };
        let Some((Step { line, kind: StepKind::Call(args) }, steps)) = steps.split_last() else {
            return fail("the statement 'call' needs a call");
        };
        let callee = self.eval(base, frame)?;
        let callee = self.eval_steps(callee, steps, frame)?;
        let mut args = self.args(args, frame)?;
        args.named.push(("caller".to_owned(), caller));
        self.line = *line;
        self.call(&callee, args)
    }
}

/// Applies a comparison.
pub(super) fn compare(comparison: Comparison, left: &Value, right: &Value) -> Result<bool> {
    match comparison {
        Comparison::Equal => Ok(equal(left, right)),
        Comparison::NotEqual => Ok(!equal(left, right)),
        Comparison::In => contains(right, left),
        Comparison::NotIn => contains(right, left).map(|it| !it),
        _ => ordered(comparison, left, right),
    }
}
