//! Runs the statements of a template.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::time::SystemTime;

use super::arguments::iterate;
use super::ast::{Expr, Load, Scope, Slot, Stmt, StmtKind, Target, Template};
use super::failure::{Failure, Result, fail};
use super::globals::Function;
use super::macros::MacroValue;
use super::print::{MAX_TEXT, text};
use super::value::{Namespace, Value};

/// How deep statements, expressions and calls of macros can lie in each other. Each level needs stack.
const MAX_DEPTH: usize = 700;
/// How many steps a template can take: statements, expressions and iterations, and one for every 32 bytes of text. It
/// makes a template that would run for hours fail within seconds.
pub(super) const MAX_STEPS: u64 = 100_000_000;
/// How many namespaces a template can make.
const MAX_NAMESPACES: usize = 1 << 20;

/// The variables of a call of a function, and the activation of the function around it.
#[derive(Debug)]
pub(in crate::template) struct Activation {
    variables: RefCell<Vec<Option<Value>>>,
    outer: Option<Rc<Activation>>,
}

impl Activation {
    pub(super) fn new(variables: usize, outer: Option<Rc<Activation>>) -> Rc<Self> {
        Rc::new(Self { variables: RefCell::new(vec![None; variables]), outer })
    }

    pub(super) fn get(&self, index: usize) -> Option<Value> {
        self.variables.borrow()[index].clone()
    }

    pub(super) fn set(&self, index: usize, value: Option<Value>) {
        let before = std::mem::replace(&mut self.variables.borrow_mut()[index], value);
        drop(before);
    }

    pub(super) fn find(&self, slot: Slot) -> Option<Value> {
        let mut activation = self;
        for _ in 0..slot.hops {
            activation = activation.outer.as_deref()?;
        }
        activation.get(slot.index)
    }
}

/// How a statement ended.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Flow {
    Next,
    Break,
    Continue,
}

/// What a template is rendered with.
pub(super) struct Interpreter<'a> {
    variables: &'a HashMap<String, Value>,
    /// The time in UTC that the template is told, in the place of the present.
    pub(super) now: Option<SystemTime>,
    out: String,
    /// What blocks with a filter have captured, the innermost last.
    pub(super) captured: Vec<Value>,
    /// The line of what runs.
    pub(super) line: u32,
    depth: usize,
    steps: u64,
    /// What can hold itself, and is emptied in the end: activations around macros and loops, and namespaces.
    activations: Vec<Rc<Activation>>,
    namespaces: Vec<Rc<Namespace>>,
}

impl Drop for Interpreter<'_> {
    fn drop(&mut self) {
        // All values are taken out before any is dropped: dropping one is then never deep.
        let mut values: Vec<Option<Value>> = Vec::new();
        for activation in &self.activations {
            values.append(&mut activation.variables.borrow_mut());
        }
        for namespace in &self.namespaces {
            values.extend(namespace.attributes.borrow_mut().drain(..).map(|(_, value)| Some(value)));
        }
    }
}

/// Renders a template with variables, in at most `steps` steps. `now` is the time in UTC that it is told, in the place of the present.
pub(super) fn render(
    template: &Template,
    variables: &HashMap<String, Value>,
    now: Option<SystemTime>,
    steps: u64,
) -> Result<String> {
    let mut interpreter = Interpreter {
        variables,
        now,
        out: String::new(),
        captured: Vec::new(),
        line: 1,
        depth: 0,
        steps,
        activations: Vec::new(),
        namespaces: Vec::new(),
    };
    let frame = Activation::new(template.slots, None);
    interpreter.activations.push(Rc::clone(&frame));
    interpreter.enter(&template.scope, &frame);
    match interpreter.body(&template.body, &frame) {
        Ok(_) => Ok(std::mem::take(&mut interpreter.out)),
        Err(failure) => Err(failure.at(interpreter.line)),
    }
}

impl Interpreter<'_> {
    /// Counts a step.
    pub(super) fn tick(&mut self) -> Result<()> {
        self.charge(0)
    }

    /// Counts a step that makes `bytes` of text.
    pub(super) fn charge(&mut self, bytes: usize) -> Result<()> {
        match self.steps.checked_sub(1 + bytes as u64 / 32) {
            Some(rest) => {
                self.steps = rest;
                Ok(())
            }
            None => fail("the template takes too many steps, or makes too much text"),
        }
    }

    /// Runs something one level further inside.
    pub(super) fn deeper<T>(&mut self, run: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        if self.depth == MAX_DEPTH {
            return fail(format!("macros, loops and expressions are nested deeper than {MAX_DEPTH} levels"));
        }
        self.depth += 1;
        let result = run(self);
        self.depth -= 1;
        result
    }

    /// Keeps an activation to the end, since a value that lives longer than its call refers to it.
    pub(super) fn keep(&mut self, activation: &Rc<Activation>) {
        if !self.activations.last().is_some_and(|last| Rc::ptr_eq(last, activation)) {
            self.activations.push(Rc::clone(activation));
        }
    }

    pub(super) fn keep_namespace(&mut self, namespace: &Rc<Namespace>) -> Result<()> {
        if self.namespaces.len() == MAX_NAMESPACES {
            return fail(format!("the template makes more than {MAX_NAMESPACES} namespaces"));
        }
        self.namespaces.push(Rc::clone(namespace));
        Ok(())
    }

    pub(super) fn enter(&mut self, scope: &Scope, frame: &Rc<Activation>) {
        for (index, load) in &scope.loads {
            let value = match load {
                Load::Parameter => continue,
                Load::Undefined => None,
                Load::Alias(slot) => frame.find(*slot),
                Load::Resolve(name) => match self.variables.get(name) {
                    Some(value) => Some(value.clone()),
                    None => Function::of(name).map(Value::Function),
                },
            };
            frame.set(*index, value);
        }
    }

    pub(super) fn leave(&mut self, scope: &Scope, frame: &Rc<Activation>) {
        for (index, _) in &scope.loads {
            frame.set(*index, None);
        }
    }

    /// Adds text to what is rendered.
    pub(super) fn write(&mut self, text: &str) -> Result<()> {
        self.charge(text.len())?;
        if self.out.len() + text.len() > MAX_TEXT {
            return fail(format!("the template renders more than {MAX_TEXT} bytes"));
        }
        self.out.push_str(text);
        Ok(())
    }

    /// The text that is rendered meanwhile, apart from what is rendered around it.
    pub(super) fn capture<T>(&mut self, run: impl FnOnce(&mut Self) -> Result<T>) -> Result<(String, T)> {
        let around = std::mem::take(&mut self.out);
        let result = run(self);
        let text = std::mem::replace(&mut self.out, around);
        Ok((text, result?))
    }

    pub(super) fn body(&mut self, body: &[Stmt], frame: &Rc<Activation>) -> Result<Flow> {
        for stmt in body {
            self.line = stmt.line;
            self.tick()?;
            let flow = match &stmt.kind {
                StmtKind::Text(text) => {
                    self.write(text)?;
                    Flow::Next
                }
                StmtKind::Print(values) => {
                    self.print(values, frame)?;
                    Flow::Next
                }
                StmtKind::Set { target, value } => {
                    self.set(target, value, frame)?;
                    Flow::Next
                }
                StmtKind::Break => Flow::Break,
                StmtKind::Continue => Flow::Continue,
                kind => self.deeper(|it| it.block(kind, frame))?,
            };
            if flow != Flow::Next {
                return Ok(flow);
            }
        }
        Ok(Flow::Next)
    }

    fn print(&mut self, values: &[Expr], frame: &Rc<Activation>) -> Result<()> {
        for value in values {
            let value = self.eval(value, frame)?;
            match &value {
                Value::Str(text) | Value::Markup(text) => self.write(text)?,
                other => self.write(&text(other)?)?,
            }
        }
        Ok(())
    }

    fn set(&mut self, target: &Target, value: &Expr, frame: &Rc<Activation>) -> Result<()> {
        self.check_namespaces(target, frame)?;
        let value = self.eval(value, frame)?;
        self.assign(target, value, frame)
    }

    /// Runs a statement that has a body.
    fn block(&mut self, stmt: &StmtKind, frame: &Rc<Activation>) -> Result<Flow> {
        match stmt {
            StmtKind::For(node) => self.for_loop(node, frame),
            StmtKind::If { branches, otherwise } => {
                for (test, body) in branches {
                    if self.eval(test, frame)?.is_true() {
                        return self.body(body, frame);
                    }
                }
                self.body(otherwise, frame)
            }
            StmtKind::With { targets, values, body, scope } => {
                self.enter(scope, frame);
                for (target, value) in targets.iter().zip(values) {
                    let value = self.eval(value, frame)?;
                    self.assign(target, value, frame)?;
                }
                let flow = self.body(body, frame)?;
                if flow == Flow::Next {
                    self.leave(scope, frame);
                }
                Ok(flow)
            }
            StmtKind::SetBlock { target, filter, body, scope } => {
                self.enter(scope, frame);
                let (text, flow) = self.capture(|it| it.body(body, frame))?;
                if flow != Flow::Next {
                    return Ok(flow);
                }
                let mut value = Value::str(text);
                if let Some(filter) = filter {
                    value = self.filtered(value, filter, frame)?;
                }
                self.check_namespaces(target, frame)?;
                self.assign(target, value, frame)?;
                self.leave(scope, frame);
                Ok(Flow::Next)
            }
            StmtKind::FilterBlock { filter, body, scope } => {
                self.enter(scope, frame);
                let (text, flow) = self.capture(|it| it.body(body, frame))?;
                if flow != Flow::Next {
                    return Ok(flow);
                }
                let value = self.filtered(Value::str(text), filter, frame)?;
                self.write_string(&value)?;
                self.leave(scope, frame);
                Ok(Flow::Next)
            }
            StmtKind::Macro { name, definition } => {
                self.keep(frame);
                let it = MacroValue { definition: definition.clone(), closure: Rc::clone(frame) };
                frame.set(name.slot.index, Some(Value::Macro(Rc::new(it))));
                Ok(Flow::Next)
            }
            StmtKind::CallBlock { call, caller } => {
                self.keep(frame);
                let caller = MacroValue { definition: caller.clone(), closure: Rc::clone(frame) };
                let caller = Value::Macro(Rc::new(caller));
                let value = match call {
                    Some(call) => self.call_with_caller(call, caller, frame)?,
                    None => self.call(&caller, super::arguments::Arguments::default())?,
                };
                self.write_string(&value)?;
                Ok(Flow::Next)
            }
            StmtKind::Refused(message) => fail(message),
            // The others have no body.
            _ => Ok(Flow::Next),
        }
    }

    fn filtered(&mut self, value: Value, filter: &Expr, frame: &Rc<Activation>) -> Result<Value> {
        self.captured.push(value);
        let result = self.eval(filter, frame);
        self.captured.pop();
        result
    }

    /// Writes what blocks give, which has to be a string.
    fn write_string(&mut self, value: &Value) -> Result<()> {
        match value.as_str() {
            Some(text) => self.write(text),
            None => fail(format!("a block gives a value of type '{}', not a string", value.type_name())),
        }
    }

    /// Fails if the target has attributes of what is no namespace.
    fn check_namespaces(&self, target: &Target, frame: &Rc<Activation>) -> Result<()> {
        match target {
            Target::Name(_) => Ok(()),
            Target::Attribute(name, _) => match frame.find(name.slot) {
                Some(Value::Namespace(_)) => Ok(()),
                _ => fail(format!("'{}' is no namespace, so its attributes cannot be set", name.name)),
            },
            Target::Tuple(targets) => targets.iter().try_for_each(|target| self.check_namespaces(target, frame)),
        }
    }

    pub(super) fn assign(&mut self, target: &Target, value: Value, frame: &Rc<Activation>) -> Result<()> {
        match target {
            Target::Name(name) => {
                frame.set(name.slot.index, Some(value));
                Ok(())
            }
            Target::Attribute(name, attribute) => match frame.find(name.slot) {
                Some(Value::Namespace(namespace)) => {
                    let before = namespace.attributes.borrow_mut().insert(attribute.clone(), value);
                    drop(before);
                    Ok(())
                }
                _ => fail(format!("'{}' is no namespace, so its attributes cannot be set", name.name)),
            },
            Target::Tuple(targets) => {
                let values = iterate(&value)?;
                if values.len() != targets.len() {
                    return Err(Failure::new(format!(
                        "{} values cannot be assigned to {} names",
                        values.len(),
                        targets.len()
                    )));
                }
                targets.iter().zip(values).try_for_each(|(target, value)| self.assign(target, value, frame))
            }
        }
    }
}
