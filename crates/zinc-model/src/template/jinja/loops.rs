//! `for` loops and their variable `loop`.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use super::arguments::Arguments;
use super::ast::For;
use super::compare::equal;
use super::failure::{Result, fail};
use super::interpreter::{Activation, Flow, Interpreter};
use super::value::{Dict, Items, OneShot, Range, Value, View};

/// What a loop takes its items from, one after the other.
#[derive(Debug)]
pub(super) struct Source {
    kind: Kind,
    place: usize,
    /// Whether there was no next item.
    is_at_end: bool,
}

#[derive(Debug)]
enum Kind {
    Items(Rc<Items>),
    Entries(View, Rc<Dict>),
    Text(Rc<str>),
    Range(Range),
    OneShot(Rc<OneShot>),
    Ready(Vec<Value>),
    /// The items of another source for which the condition of a loop holds.
    Filtered(Box<Source>, Arc<For>, Rc<Activation>),
}

impl Source {
    fn new(value: &Value) -> Result<Self> {
        let kind = match value {
            Value::Undefined(_) => Kind::Ready(Vec::new()),
            Value::List(items) | Value::Tuple(items) => Kind::Items(Rc::clone(items)),
            Value::Dict(dict) => Kind::Entries(View::Keys, Rc::clone(dict)),
            Value::View(view, dict) => Kind::Entries(*view, Rc::clone(dict)),
            Value::Str(text) | Value::Markup(text) => Kind::Text(Rc::clone(text)),
            Value::Range(range) => Kind::Range(*range),
            Value::Iterator(iterator) => Kind::OneShot(Rc::clone(iterator)),
            _ => return fail(format!("a value of type '{}' cannot be iterated over", value.type_name())),
        };
        Ok(Self::of(kind))
    }

    fn of(kind: Kind) -> Self {
        Self { kind, place: 0, is_at_end: false }
    }

    /// The next item. Conditions need the interpreter.
    fn next(&mut self, interpreter: Option<&mut Interpreter<'_>>) -> Result<Option<Value>> {
        if self.is_at_end {
            return Ok(None);
        }
        let next = self.take(interpreter)?;
        self.is_at_end = next.is_none();
        Ok(next)
    }

    fn take(&mut self, interpreter: Option<&mut Interpreter<'_>>) -> Result<Option<Value>> {
        let place = self.place;
        self.place += 1;
        Ok(match &mut self.kind {
            Kind::Items(items) => items.values.get(place).cloned(),
            Kind::Entries(view, dict) => dict.view(*view, place).transpose()?,
            Kind::Range(range) => range.get(place).map(Value::Int),
            Kind::OneShot(iterator) => iterator.next(),
            Kind::Ready(values) => values.get(place).cloned(),
            Kind::Text(text) => {
                let next = text[place..].chars().next();
                self.place = place + next.map_or(0, char::len_utf8);
                next.map(|c| Value::str(c.encode_utf8(&mut [0; 4])))
            }
            Kind::Filtered(source, node, closure) => {
                let (Some(interpreter), Some(test)) = (interpreter, &node.test) else {
                    return fail("the next item of a loop with a condition cannot be found here");
                };
                if place == 0 {
                    let outer = Rc::clone(closure);
                    *closure = Activation::new(test.slots, Some(outer));
                    interpreter.enter(&test.scope, closure);
                }
                loop {
                    interpreter.tick()?;
                    let Some(value) = source.next(Some(&mut *interpreter))? else {
                        break None;
                    };
                    interpreter.assign(&test.target, value.clone(), closure)?;
                    if interpreter.eval(&test.condition, closure)?.is_true() {
                        break Some(value);
                    }
                }
            }
        })
    }
}

/// The variable `loop`.
#[derive(Debug)]
pub(in crate::template) struct Loop {
    state: RefCell<State>,
    /// The loop itself, if it is recursive, and the variables around it.
    recursion: Option<(Arc<For>, Rc<Activation>)>,
    /// How deep the values that it holds are.
    depth_of_values: u32,
    depth: i128,
}

#[derive(Debug)]
struct State {
    source: Source,
    /// The length of what is iterated over, once it is known.
    length: Option<usize>,
    /// How many items there were, the current one included.
    count: usize,
    previous: Option<Value>,
    current: Option<Value>,
    /// The next item, if it was looked at already.
    next: Option<Value>,
    changed: Option<Vec<Value>>,
}

impl Loop {
    pub(super) fn depth_of_values(&self) -> u32 {
        self.depth_of_values
    }

    fn advance(&self, interpreter: &mut Interpreter<'_>) -> Result<Option<Value>> {
        let mut state = self.state.try_borrow_mut().or_else(|_| fail("a loop is used in its own condition"))?;
        let next = match state.next.take() {
            Some(next) => Some(next),
            None => state.source.next(Some(interpreter))?,
        };
        let Some(next) = next else {
            return Ok(None);
        };
        state.count += 1;
        state.previous = state.current.replace(next.clone());
        Ok(Some(next))
    }

    /// Finds out what an attribute needs to know of the items to come.
    pub(super) fn look_ahead(&self, name: &str, interpreter: Option<&mut Interpreter<'_>>) -> Result<()> {
        let mut state = self.state.try_borrow_mut().or_else(|_| fail("a loop is used in its own condition"))?;
        match name {
            "last" | "nextitem" if state.next.is_none() => state.next = state.source.next(interpreter)?,
            "length" | "revindex" | "revindex0" if state.length.is_none() => {
                let mut rest = Vec::new();
                let mut interpreter = interpreter;
                while let Some(value) = state.source.next(interpreter.as_deref_mut())? {
                    rest.push(value);
                }
                state.length = Some(state.count + usize::from(state.next.is_some()) + rest.len());
                state.source = Source::of(Kind::Ready(rest));
            }
            _ => {}
        }
        Ok(())
    }

    pub(super) fn repr(&self) -> Result<String> {
        self.look_ahead("length", None)?;
        let state = self.state.borrow();
        Ok(format!("<LoopContext {}/{}>", state.count, state.length.unwrap_or(0)))
    }

    /// An attribute of the loop, which is `object`.
    pub(super) fn attribute(&self, object: &Value, name: &str) -> Result<Option<Value>> {
        self.look_ahead(name, None)?;
        let state = self.state.borrow();
        let int = |value: usize| Value::Int(value as i128);
        let length = || state.length.unwrap_or(0) as i128;
        Ok(Some(match name {
            "index" => int(state.count),
            "index0" => Value::Int(state.count as i128 - 1),
            "first" => Value::Bool(state.count == 1),
            "last" => Value::Bool(state.next.is_none()),
            "length" => Value::Int(length()),
            "revindex" => Value::Int(length() - state.count as i128 + 1),
            "revindex0" => Value::Int(length() - state.count as i128),
            "depth" => Value::Int(self.depth + 1),
            "depth0" => Value::Int(self.depth),
            "previtem" => match &state.previous {
                Some(value) if state.count > 1 => value.clone(),
                _ => Value::undefined("there is no previous item"),
            },
            "nextitem" => state.next.clone().unwrap_or_else(|| Value::undefined("there is no next item")),
            "cycle" => Value::method(object, "cycle"),
            "changed" => Value::method(object, "changed"),
            _ => return Ok(None),
        }))
    }

    /// `loop.cycle` and `loop.changed`.
    pub(super) fn method(&self, name: &str, args: Arguments) -> Result<Value> {
        if !args.named.is_empty() {
            return fail(format!("loop.{name}() takes no arguments by name"));
        }
        let values = args.positional;
        let mut state = self.state.try_borrow_mut().or_else(|_| fail("a loop is used in its own condition"))?;
        if name == "cycle" {
            if values.is_empty() {
                return fail("loop.cycle() needs items");
            }
            return Ok(values[state.count.saturating_sub(1) % values.len()].clone());
        }
        let same = state.changed.as_ref().is_some_and(|before| {
            before.len() == values.len() && before.iter().zip(&values).all(|(before, value)| equal(before, value))
        });
        if !same {
            // A loop that remembers a loop, and so on, could not be dropped without a deep recursion.
            if !values.iter().all(is_plain) {
                return fail("loop.changed() takes numbers, strings, lists, tuples and dicts of these alone");
            }
            state.changed = Some(values);
        }
        Ok(Value::Bool(!same))
    }
}

/// Whether a value is made of data alone.
fn is_plain(value: &Value) -> bool {
    match value {
        Value::List(items) | Value::Tuple(items) => items.values.iter().all(is_plain),
        Value::Dict(dict) => dict.entries.values().all(|(key, value)| is_plain(key) && is_plain(value)),
        _ => value.depth() == 0 && value.address().is_none(),
    }
}

impl Interpreter<'_> {
    /// Runs a loop.
    pub(super) fn for_loop(&mut self, node: &Arc<For>, frame: &Rc<Activation>) -> Result<Flow> {
        let iterable = self.eval(&node.iter, frame)?;
        if node.recursive {
            let text = self.recursive_loop(node, frame, &iterable, 0)?;
            self.write(&text)?;
            return Ok(Flow::Next);
        }
        self.run_loop(node, frame, frame, &iterable, 0)
    }

    /// The text of a recursive loop over `iterable`.
    fn recursive_loop(
        &mut self,
        node: &Arc<For>,
        closure: &Rc<Activation>,
        iterable: &Value,
        depth: i128,
    ) -> Result<String> {
        let frame = Activation::new(node.slots, Some(Rc::clone(closure)));
        let (text, _) = self.capture(|it| it.run_loop(node, &frame, closure, iterable, depth))?;
        Ok(text)
    }

    /// Calls the variable `loop` of a recursive loop.
    pub(super) fn call_loop(&mut self, it: &Loop, args: Arguments) -> Result<Value> {
        let [iterable] = args.bind("loop", ["iterable"], 1)?;
        let Some((node, closure)) = &it.recursion else {
            return fail("only a loop with 'recursive' can be called");
        };
        let text = self.recursive_loop(node, closure, &iterable.unwrap_or(Value::None), it.depth + 1)?;
        Ok(Value::str(text))
    }

    /// Runs a loop whose variables are in `frame`, and whose condition sees those in `closure`.
    fn run_loop(
        &mut self,
        node: &Arc<For>,
        frame: &Rc<Activation>,
        closure: &Rc<Activation>,
        iterable: &Value,
        depth: i128,
    ) -> Result<Flow> {
        let mut source = Source::new(iterable)?;
        let mut length = iterable.len();
        if node.test.is_some() {
            self.keep(closure);
            source = Source::of(Kind::Filtered(Box::new(source), Arc::clone(node), Rc::clone(closure)));
            length = None;
        }
        let mut is_empty = true;
        if let Some(slot) = node.loop_slot {
            if node.recursive {
                self.keep(closure);
                self.keep(frame);
            }
            let state = State { source, length, count: 0, previous: None, current: None, next: None, changed: None };
            let it = Rc::new(Loop {
                state: RefCell::new(state),
                recursion: node.recursive.then(|| (Arc::clone(node), Rc::clone(closure))),
                depth_of_values: iterable.depth() + 1,
                depth,
            });
            while let Some(value) = it.advance(self)? {
                self.assign(&node.target, value, frame)?;
                frame.set(slot, Some(Value::Loop(Rc::clone(&it))));
                match self.iteration(node, frame)? {
                    Flow::Next => is_empty = false,
                    Flow::Continue => {}
                    Flow::Break => break,
                }
            }
        } else {
            while let Some(value) = source.next(Some(self))? {
                self.assign(&node.target, value, frame)?;
                match self.iteration(node, frame)? {
                    Flow::Next => is_empty = false,
                    Flow::Continue => {}
                    Flow::Break => break,
                }
            }
        }
        self.leave(&node.scope, frame);
        // As in Jinja2, 'else' also follows a loop in which no iteration came to its end.
        if is_empty && !node.otherwise.is_empty() {
            self.enter(&node.otherwise_scope, frame);
            let flow = self.body(&node.otherwise, frame)?;
            self.leave(&node.otherwise_scope, frame);
            return Ok(flow);
        }
        Ok(Flow::Next)
    }

    fn iteration(&mut self, node: &For, frame: &Rc<Activation>) -> Result<Flow> {
        self.tick()?;
        self.enter(&node.scope, frame);
        self.body(&node.body, frame)
    }
}
