//! Resolves the names of a template to variables, by the rules by which Jinja2 compiles templates to Python.
//!
//! A scope is entered for the template, each macro, call block, loop, `with`, filter block and set block; `if` has none.
//! What a scope assigns is its own: when the scope is entered it gets the value of the variable of that name further
//! out, and what is assigned is not seen outside. What a scope only reads is the variable of the next scope outwards
//! that knows the name; where none does, it is looked up in what the template was given, when the scope is entered.
//! Macros, call blocks, recursive loops and the conditions of loops are functions, whose variables live as long as a
//! call; the variables of all other scopes belong to the function around them. Sources: `idtracking.py` and
//! `compiler.py` of Jinja2 3.1.

mod symbols;

use std::sync::Arc;

use indexmap::IndexMap;

use self::symbols::{Load as SymbolLoad, Symbols, SymbolsRef, uses};
use super::ast::{Args, Expr, For, Load, Macro, Name, Scope, Slot, Step, StepKind, Stmt, StmtKind, Target, Template};
use super::failure::{Failure, Result, fail};
use super::filters;
use super::type_tests;

/// A variable: the level of its scope and its name.
type Variable = (usize, String);

/// Resolves all names of a template.
pub(super) fn resolve(template: &mut Template) -> Result<()> {
    if uses(&template.body, &["self"]).contains(&"self") {
        return fail("the variable 'self' is not supported in chat templates");
    }
    let symbols = Symbols::root();
    for stmt in &template.body {
        symbols::statement(&symbols, stmt);
    }
    let mut resolver = Resolver { functions: vec![Function::new(0)], loops: 0, checks: true };
    template.scope = resolver.scope(&symbols)?;
    resolver.body(&mut template.body, &symbols)?;
    template.slots = resolver.functions.pop().map_or(0, |function| function.variables.len());
    Ok(())
}

/// A function in which names are resolved.
struct Function {
    /// The level of its outermost scope.
    level: usize,
    variables: IndexMap<Variable, ()>,
}

impl Function {
    fn new(level: usize) -> Self {
        Self { level, variables: IndexMap::new() }
    }
}

struct Resolver {
    /// From the outside inwards.
    functions: Vec<Function>,
    /// How many loops of the current function the statement lies in.
    loops: usize,
    /// Whether unknown filters and tests are refused; inside conditions they fail only when they are reached.
    checks: bool,
}

impl Resolver {
    fn slot(&mut self, (level, name): &Variable) -> Slot {
        let place = self.functions.iter().rposition(|function| function.level <= *level).unwrap_or(0);
        let hops = self.functions.len() - 1 - place;
        let (index, _) = self.functions[place].variables.insert_full((*level, name.clone()), ());
        Slot { hops, index }
    }

    /// What is done when the scope of these symbols is entered.
    fn scope(&mut self, symbols: &SymbolsRef) -> Result<Scope> {
        let loads = symbols.borrow().loads.clone();
        let mut scope = Scope::default();
        for (variable, load) in loads {
            let slot = self.slot(&variable);
            let load = match load {
                SymbolLoad::Parameter => Load::Parameter,
                SymbolLoad::Resolve(name) => Load::Resolve(name),
                SymbolLoad::Alias(outer) => Load::Alias(self.slot(&outer)),
                SymbolLoad::Undefined => Load::Undefined,
            };
            scope.loads.push((slot.index, load));
        }
        Ok(scope)
    }

    fn name(&mut self, name: &mut Name, symbols: &SymbolsRef) -> Result<()> {
        let variable = Symbols::find(symbols, &name.name)
            .ok_or_else(|| Failure::new(format!("the variable '{}' cannot be used here, as in Jinja2", name.name)))?;
        name.slot = self.slot(&variable);
        Ok(())
    }

    fn own_slot(&mut self, name: &str, symbols: &SymbolsRef) -> Result<usize> {
        let mut name = Name::new(name.to_owned());
        self.name(&mut name, symbols)?;
        Ok(name.slot.index)
    }

    fn target(&mut self, target: &mut Target, symbols: &SymbolsRef) -> Result<()> {
        match target {
            Target::Name(name) | Target::Attribute(name, _) => self.name(name, symbols),
            Target::Tuple(targets) => targets.iter_mut().try_for_each(|target| self.target(target, symbols)),
        }
    }

    fn body(&mut self, body: &mut [Stmt], symbols: &SymbolsRef) -> Result<()> {
        body.iter_mut().try_for_each(|stmt| {
            let line = stmt.line;
            self.statement(&mut stmt.kind, symbols).map_err(|failure| failure.at(line))
        })
    }

    /// Resolves something whose unknown filters and tests are refused, or are not.
    fn checking<T>(&mut self, checks: bool, resolve: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        let before = std::mem::replace(&mut self.checks, checks);
        let result = resolve(self);
        self.checks = before;
        result
    }

    fn statement(&mut self, stmt: &mut StmtKind, symbols: &SymbolsRef) -> Result<()> {
        match stmt {
            StmtKind::Text(_) | StmtKind::Refused(_) => Ok(()),
            StmtKind::Print(values) => values.iter_mut().try_for_each(|value| self.expression(value, symbols)),
            StmtKind::For(node) => self.for_loop(unshared(node)?, symbols),
            StmtKind::If { branches, otherwise } => self.checking(false, |it| {
                for (test, body) in branches {
                    it.expression(test, symbols)?;
                    it.body(body, symbols)?;
                }
                it.body(otherwise, symbols)
            }),
            StmtKind::With { targets, values, body, scope } => {
                let inner = Symbols::inner(symbols);
                targets.iter().for_each(|target| symbols::parameters(&inner, target));
                body.iter().for_each(|stmt| symbols::statement(&inner, stmt));
                values.iter_mut().try_for_each(|value| self.expression(value, symbols))?;
                *scope = self.scope(&inner)?;
                targets.iter_mut().try_for_each(|target| self.target(target, &inner))?;
                self.checking(true, |it| it.body(body, &inner))
            }
            StmtKind::Set { target, value } => {
                self.target(target, symbols)?;
                self.expression(value, symbols)
            }
            StmtKind::SetBlock { target, filter, body, scope } => {
                let inner = Symbols::inner(symbols);
                body.iter().for_each(|stmt| symbols::statement(&inner, stmt));
                *scope = self.scope(&inner)?;
                self.target(target, symbols)?;
                self.checking(true, |it| {
                    it.body(body, &inner)?;
                    filter.iter_mut().try_for_each(|filter| it.expression(filter, &inner))
                })
            }
            StmtKind::FilterBlock { filter, body, scope } => {
                let inner = Symbols::inner(symbols);
                body.iter().for_each(|stmt| symbols::statement(&inner, stmt));
                symbols::expression(&inner, filter);
                *scope = self.scope(&inner)?;
                self.checking(true, |it| {
                    it.body(body, &inner)?;
                    it.expression(filter, &inner)
                })
            }
            StmtKind::Macro { name, definition } => {
                self.name(name, symbols)?;
                self.macro_definition(unshared(definition)?, symbols)
            }
            StmtKind::CallBlock { call, caller } => {
                self.macro_definition(unshared(caller)?, symbols)?;
                call.iter_mut().try_for_each(|call| self.expression(call, symbols))
            }
            StmtKind::Break | StmtKind::Continue if self.loops == 0 => fail("'break' and 'continue' need a loop"),
            StmtKind::Break | StmtKind::Continue => Ok(()),
        }
    }

    fn for_loop(&mut self, node: &mut For, symbols: &SymbolsRef) -> Result<()> {
        if symbols::assigns_loop(node) {
            return fail("the variable 'loop' cannot be assigned to in a loop");
        }
        let inner = Symbols::inner(symbols);
        let uses_loop = node.recursive || uses(&node.body, &["loop"]).contains(&"loop");
        if uses_loop {
            Symbols::parameter(&inner, "loop");
        }
        symbols::parameters(&inner, &node.target);
        node.body.iter().for_each(|stmt| symbols::statement(&inner, stmt));
        let otherwise = Symbols::inner(symbols);
        node.otherwise.iter().for_each(|stmt| symbols::statement(&otherwise, stmt));

        let level = inner.borrow().level;
        self.expression(&mut node.iter, symbols)?;
        if let Some(test) = &mut node.test {
            let in_test = Symbols::inner(symbols);
            symbols::parameters(&in_test, &test.target);
            symbols::expression(&in_test, &test.condition);
            self.functions.push(Function::new(level));
            test.scope = self.scope(&in_test)?;
            self.target(&mut test.target, &inner)?;
            self.checking(true, |it| it.expression(&mut test.condition, &in_test))?;
            test.slots = self.functions.pop().map_or(0, |function| function.variables.len());
        }

        let loops = self.loops;
        if node.recursive {
            self.functions.push(Function::new(level));
            self.loops = 0;
        }
        if uses_loop {
            node.loop_slot = Some(self.own_slot("loop", &inner)?);
        }
        self.target(&mut node.target, &inner)?;
        node.scope = self.scope(&inner)?;
        self.loops += 1;
        self.checking(true, |it| it.body(&mut node.body, &inner))?;
        self.loops -= 1;
        node.otherwise_scope = self.scope(&otherwise)?;
        self.checking(true, |it| it.body(&mut node.otherwise, &otherwise))?;
        if node.recursive {
            node.slots = self.functions.pop().map_or(0, |function| function.variables.len());
        }
        self.loops = loops;
        Ok(())
    }

    fn macro_definition(&mut self, node: &mut Macro, symbols: &SymbolsRef) -> Result<()> {
        const SPECIAL: [&str; 3] = ["caller", "kwargs", "varargs"];
        let inner = Symbols::inner(symbols);
        let used = uses(&node.body, &SPECIAL);
        let explicit = |name: &str| node.args.iter().position(|arg| arg.name == name);
        if used.contains(&"caller")
            && let Some(place) = explicit("caller")
            && place + node.defaults.len() < node.args.len()
        {
            return fail("the argument 'caller' of a macro needs a default");
        }
        let special: Vec<&str> =
            SPECIAL.into_iter().filter(|name| used.contains(name) && explicit(name).is_none()).collect();
        // The second round sees the special variables, as in Jinja2.
        for round in 0..2 {
            if round == 1 {
                special.iter().for_each(|name| Symbols::parameter(&inner, name));
            }
            node.args.iter().for_each(|arg| Symbols::parameter(&inner, &arg.name));
            node.defaults.iter().for_each(|default| symbols::expression(&inner, default));
            node.body.iter().for_each(|stmt| symbols::statement(&inner, stmt));
        }
        let level = inner.borrow().level;
        self.functions.push(Function::new(level));
        let loops = std::mem::replace(&mut self.loops, 0);
        node.args.iter_mut().try_for_each(|arg| self.name(arg, &inner))?;
        for name in special {
            let slot = Some(self.own_slot(name, &inner)?);
            match name {
                "caller" => node.caller = slot,
                "kwargs" => node.kwargs = slot,
                _ => node.varargs = slot,
            }
        }
        node.scope = self.scope(&inner)?;
        self.checking(true, |it| {
            node.defaults.iter_mut().try_for_each(|default| it.expression(default, &inner))?;
            it.body(&mut node.body, &inner)
        })?;
        self.loops = loops;
        node.slots = self.functions.pop().map_or(0, |function| function.variables.len());
        Ok(())
    }

    fn expression(&mut self, expr: &mut Expr, symbols: &SymbolsRef) -> Result<()> {
        match expr {
            Expr::None | Expr::Bool(_) | Expr::Integer(_) | Expr::Float(_) | Expr::Text(_) | Expr::Captured => Ok(()),
            Expr::Name(name) => self.name(name, symbols),
            Expr::List(items) | Expr::Tuple(items) | Expr::Concat(items) | Expr::And(items) | Expr::Or(items) => {
                items.iter_mut().try_for_each(|item| self.expression(item, symbols))
            }
            Expr::Dict(items) => items.iter_mut().try_for_each(|(key, value)| {
                self.expression(key, symbols)?;
                self.expression(value, symbols)
            }),
            Expr::Arithmetic(first, rest) => {
                self.expression(first, symbols)?;
                rest.iter_mut().try_for_each(|(_, operand)| self.expression(operand, symbols))
            }
            Expr::Compare(first, rest) => {
                self.expression(first, symbols)?;
                rest.iter_mut().try_for_each(|(_, operand)| self.expression(operand, symbols))
            }
            Expr::Not(operand) | Expr::Negative(operand) | Expr::Positive(operand) => self.expression(operand, symbols),
            Expr::Condition(condition) => self.checking(false, |it| {
                it.expression(&mut condition.test, symbols)?;
                it.expression(&mut condition.then, symbols)?;
                condition.otherwise.iter_mut().try_for_each(|otherwise| it.expression(otherwise, symbols))
            }),
            Expr::Postfix(base, steps) => {
                self.expression(base, symbols)?;
                steps.iter_mut().try_for_each(|step| {
                    let line = step.line;
                    self.step(step, symbols).map_err(|failure| failure.at(line))
                })
            }
        }
    }

    fn step(&mut self, step: &mut Step, symbols: &SymbolsRef) -> Result<()> {
        match &mut step.kind {
            StepKind::Attribute(_) => Ok(()),
            StepKind::Item(item) => self.expression(item, symbols),
            StepKind::Slice(bounds) => bounds.iter_mut().flatten().try_for_each(|it| self.expression(it, symbols)),
            StepKind::Call(args) => self.args(args, symbols),
            StepKind::Filter(name, args) => {
                if self.checks && !filters::exists(name) {
                    return fail(format!("there is no filter '{name}'"));
                }
                self.args(args, symbols)
            }
            StepKind::Test { name, args, .. } => {
                if self.checks && !type_tests::exists(name) {
                    return fail(format!("there is no test '{name}'"));
                }
                self.args(args, symbols)
            }
        }
    }

    fn args(&mut self, args: &mut Args, symbols: &SymbolsRef) -> Result<()> {
        args.positional.iter_mut().try_for_each(|arg| self.expression(arg, symbols))?;
        args.named.iter_mut().try_for_each(|(_, arg)| self.expression(arg, symbols))?;
        let unpacked = [&mut args.all, &mut args.all_named];
        unpacked.into_iter().flatten().try_for_each(|arg| self.expression(arg, symbols))
    }
}

/// A node of a tree that nothing else refers to yet.
fn unshared<T>(node: &mut Arc<T>) -> Result<&mut T> {
    Arc::get_mut(node).ok_or_else(|| Failure::new("the template is in use while it is compiled"))
}
