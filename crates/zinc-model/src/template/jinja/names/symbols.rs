//! Which names a scope knows, and where their values come from.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use indexmap::IndexMap;

use super::super::ast::{Args, Expr, For, Step, StepKind, Stmt, StmtKind, Target};
use super::Variable;

/// Where the value of a variable comes from when its scope is entered.
#[derive(Clone, Debug)]
pub(super) enum Load {
    Parameter,
    Resolve(String),
    Alias(Variable),
    Undefined,
}

pub(super) type SymbolsRef = Rc<RefCell<Symbols>>;

/// The names of a scope.
#[derive(Clone)]
pub(super) struct Symbols {
    pub(super) level: usize,
    parent: Option<SymbolsRef>,
    refs: HashMap<String, Variable>,
    pub(super) loads: IndexMap<Variable, Load>,
    stores: HashSet<String>,
}

impl Symbols {
    pub(super) fn root() -> SymbolsRef {
        Self::with(0, None)
    }

    /// The symbols of a scope in the scope of `parent`.
    pub(super) fn inner(parent: &SymbolsRef) -> SymbolsRef {
        Self::with(parent.borrow().level + 1, Some(Rc::clone(parent)))
    }

    fn with(level: usize, parent: Option<SymbolsRef>) -> SymbolsRef {
        let (refs, loads, stores) = (HashMap::new(), IndexMap::new(), HashSet::new());
        Rc::new(RefCell::new(Self { level, parent, refs, loads, stores }))
    }

    /// The variable of a name in this scope or the next one outwards that knows it.
    pub(super) fn find(symbols: &SymbolsRef, name: &str) -> Option<Variable> {
        let mut symbols = Rc::clone(symbols);
        loop {
            let found = symbols.borrow().refs.get(name).cloned();
            if found.is_some() {
                return found;
            }
            let parent = symbols.borrow().parent.clone()?;
            symbols = parent;
        }
    }

    fn find_outside(symbols: &SymbolsRef, name: &str) -> Option<Variable> {
        let parent = symbols.borrow().parent.clone();
        parent.and_then(|parent| Self::find(&parent, name))
    }

    fn define(&mut self, name: &str, load: Load) {
        let variable = (self.level, name.to_owned());
        self.refs.insert(name.to_owned(), variable.clone());
        self.loads.insert(variable, load);
    }

    pub(super) fn parameter(symbols: &SymbolsRef, name: &str) {
        let mut symbols = symbols.borrow_mut();
        symbols.stores.insert(name.to_owned());
        symbols.define(name, Load::Parameter);
    }

    fn store(symbols: &SymbolsRef, name: &str) {
        symbols.borrow_mut().stores.insert(name.to_owned());
        if symbols.borrow().refs.contains_key(name) {
            return;
        }
        let load = Self::find_outside(symbols, name).map_or(Load::Undefined, Load::Alias);
        symbols.borrow_mut().define(name, load);
    }

    fn load(symbols: &SymbolsRef, name: &str) {
        if Self::find(symbols, name).is_none() {
            symbols.borrow_mut().define(name, Load::Resolve(name.to_owned()));
        }
    }

    /// Takes over what the branches of a condition have found. What only some of them assign has the value from
    /// outside where they are not taken.
    fn join(symbols: &SymbolsRef, branches: &[SymbolsRef]) {
        let mut stores: Vec<String> = branches.iter().flat_map(|branch| branch.borrow().stores.clone()).collect();
        stores.retain(|name| !symbols.borrow().stores.contains(name));
        for branch in branches {
            let branch = branch.borrow();
            let mut symbols = symbols.borrow_mut();
            symbols.refs.extend(branch.refs.iter().map(|(name, it)| (name.clone(), it.clone())));
            symbols.loads.extend(branch.loads.iter().map(|(name, it)| (name.clone(), it.clone())));
            symbols.stores.extend(branch.stores.iter().cloned());
        }
        for name in stores {
            let Some(target) = Self::find(symbols, &name) else {
                continue;
            };
            let load = Self::find_outside(symbols, &name).map_or_else(|| Load::Resolve(name), Load::Alias);
            symbols.borrow_mut().loads.insert(target, load);
        }
    }
}

/// Makes the names of a target parameters.
pub(super) fn parameters(symbols: &SymbolsRef, target: &Target) {
    match target {
        Target::Name(name) => Symbols::parameter(symbols, &name.name),
        Target::Attribute(name, _) => Symbols::load(symbols, &name.name),
        Target::Tuple(targets) => targets.iter().for_each(|target| parameters(symbols, target)),
    }
}

fn stores(symbols: &SymbolsRef, target: &Target) {
    match target {
        Target::Name(name) => Symbols::store(symbols, &name.name),
        Target::Attribute(name, _) => Symbols::load(symbols, &name.name),
        Target::Tuple(targets) => targets.iter().for_each(|target| stores(symbols, target)),
    }
}

/// Finds the names that a statement uses in the scope around it. The scopes inside it are looked at when they are
/// resolved.
pub(super) fn statement(symbols: &SymbolsRef, stmt: &Stmt) {
    match &stmt.kind {
        StmtKind::Text(_) | StmtKind::Refused(_) | StmtKind::Break | StmtKind::Continue => {}
        StmtKind::Print(values) => values.iter().for_each(|value| expression(symbols, value)),
        StmtKind::For(node) => expression(symbols, &node.iter),
        StmtKind::If { branches, otherwise } => condition(symbols, branches, otherwise),
        StmtKind::With { values, .. } => values.iter().for_each(|value| expression(symbols, value)),
        StmtKind::Set { target, value } => {
            expression(symbols, value);
            stores(symbols, target);
        }
        StmtKind::SetBlock { target, .. } => stores(symbols, target),
        StmtKind::FilterBlock { filter, .. } => expression(symbols, filter),
        StmtKind::Macro { name, .. } => Symbols::store(symbols, &name.name),
        StmtKind::CallBlock { call, .. } => call.iter().for_each(|call| expression(symbols, call)),
    }
}

fn condition(symbols: &SymbolsRef, branches: &[(Expr, Vec<Stmt>)], otherwise: &[Stmt]) {
    let copy = || Rc::new(RefCell::new(symbols.borrow().clone()));
    let visit = |body: &[Stmt]| {
        let branch = copy();
        body.iter().for_each(|stmt| statement(&branch, stmt));
        branch
    };
    let Some(((test, body), others)) = branches.split_first() else {
        return;
    };
    expression(symbols, test);
    let body = visit(body);
    let elifs = copy();
    for (test, body) in others {
        // Each `elif` counts as a condition of its own, with neither `elif` nor `else`.
        expression(&elifs, test);
        let copy = || Rc::new(RefCell::new(elifs.borrow().clone()));
        let branch = copy();
        body.iter().for_each(|stmt| statement(&branch, stmt));
        Symbols::join(&elifs, &[branch, copy(), copy()]);
    }
    let otherwise = visit(otherwise);
    Symbols::join(symbols, &[body, elifs, otherwise]);
}

/// Finds the names that an expression reads.
pub(super) fn expression(symbols: &SymbolsRef, expr: &Expr) {
    each_name(expr, &mut |name| Symbols::load(symbols, name));
}

/// Calls `found` with each name that an expression reads.
fn each_name(expr: &Expr, found: &mut dyn FnMut(&str)) {
    match expr {
        Expr::None | Expr::Bool(_) | Expr::Integer(_) | Expr::Float(_) | Expr::Text(_) | Expr::Captured => {}
        Expr::Name(name) => found(&name.name),
        Expr::List(items) | Expr::Tuple(items) | Expr::Concat(items) | Expr::And(items) | Expr::Or(items) => {
            items.iter().for_each(|item| each_name(item, found));
        }
        Expr::Dict(items) => items.iter().for_each(|(key, value)| {
            each_name(key, found);
            each_name(value, found);
        }),
        Expr::Arithmetic(first, rest) => {
            each_name(first, found);
            rest.iter().for_each(|(_, operand)| each_name(operand, found));
        }
        Expr::Compare(first, rest) => {
            each_name(first, found);
            rest.iter().for_each(|(_, operand)| each_name(operand, found));
        }
        Expr::Not(operand) | Expr::Negative(operand) | Expr::Positive(operand) => each_name(operand, found),
        Expr::Condition(condition) => {
            [Some(&condition.test), Some(&condition.then), condition.otherwise.as_ref()]
                .into_iter()
                .flatten()
                .for_each(|part| each_name(part, found));
        }
        Expr::Postfix(base, steps) => {
            each_name(base, found);
            steps.iter().for_each(|step| each_name_of_step(step, found));
        }
    }
}

fn each_name_of_step(step: &Step, found: &mut dyn FnMut(&str)) {
    match &step.kind {
        StepKind::Attribute(_) => {}
        StepKind::Item(item) => each_name(item, found),
        StepKind::Slice(bounds) => bounds.iter().flatten().for_each(|bound| each_name(bound, found)),
        StepKind::Call(args) | StepKind::Filter(_, args) | StepKind::Test { args, .. } => {
            let Args { positional, named, all, all_named } = args;
            positional.iter().for_each(|arg| each_name(arg, found));
            named.iter().for_each(|(_, arg)| each_name(arg, found));
            [all, all_named].into_iter().flatten().for_each(|arg| each_name(arg, found));
        }
    }
}

/// Which of `names` some statements read, at any depth, before they assign them.
pub(super) fn uses<'n>(body: &[Stmt], names: &[&'n str]) -> Vec<&'n str> {
    let mut search = Uses { wanted: names.to_vec(), found: Vec::new() };
    search.body(body);
    search.found
}

struct Uses<'n> {
    wanted: Vec<&'n str>,
    found: Vec<&'n str>,
}

impl Uses<'_> {
    fn read(&mut self, expr: &Expr) {
        each_name(expr, &mut |name| {
            if let Some(wanted) = self.wanted.iter().find(|wanted| **wanted == name) {
                self.found.push(wanted);
            }
        });
    }

    fn assign(&mut self, target: &Target) {
        match target {
            Target::Name(name) => self.wanted.retain(|wanted| *wanted != name.name),
            Target::Attribute(..) => {}
            Target::Tuple(targets) => targets.iter().for_each(|target| self.assign(target)),
        }
    }

    fn body(&mut self, body: &[Stmt]) {
        body.iter().for_each(|stmt| self.statement(stmt));
    }

    /// Looks at the parts of a statement in the order of Jinja2's fields: targets come before values.
    fn statement(&mut self, stmt: &Stmt) {
        match &stmt.kind {
            StmtKind::Text(_) | StmtKind::Refused(_) | StmtKind::Break | StmtKind::Continue => {}
            StmtKind::Print(values) => values.iter().for_each(|value| self.read(value)),
            StmtKind::For(node) => {
                self.assign(&node.target);
                self.read(&node.iter);
                self.body(&node.body);
                self.body(&node.otherwise);
                node.test.iter().for_each(|test| self.read(&test.condition));
            }
            StmtKind::If { branches, otherwise } => {
                for (test, body) in branches {
                    self.read(test);
                    self.body(body);
                }
                self.body(otherwise);
            }
            StmtKind::With { targets, values, body, .. } => {
                targets.iter().for_each(|target| self.assign(target));
                values.iter().for_each(|value| self.read(value));
                self.body(body);
            }
            StmtKind::Set { target, value } => {
                self.assign(target);
                self.read(value);
            }
            StmtKind::SetBlock { target, filter, body, .. } => {
                self.assign(target);
                filter.iter().for_each(|filter| self.read(filter));
                self.body(body);
            }
            StmtKind::FilterBlock { filter, body, .. } => {
                self.body(body);
                self.read(filter);
            }
            StmtKind::Macro { definition, .. } => {
                definition.args.iter().for_each(|arg| self.wanted.retain(|wanted| *wanted != arg.name));
                definition.defaults.iter().for_each(|default| self.read(default));
                self.body(&definition.body);
            }
            StmtKind::CallBlock { call, caller } => {
                call.iter().for_each(|call| self.read(call));
                caller.args.iter().for_each(|arg| self.wanted.retain(|wanted| *wanted != arg.name));
                caller.defaults.iter().for_each(|default| self.read(default));
                self.body(&caller.body);
            }
        }
    }
}

/// Whether a loop or something in it assigns the variable `loop`.
pub(super) fn assigns_loop(node: &For) -> bool {
    is_loop(&node.target) || node.body.iter().chain(&node.otherwise).any(assigns_loop_in)
}

fn is_loop(target: &Target) -> bool {
    match target {
        Target::Name(name) => name.name == "loop",
        Target::Attribute(..) => false,
        Target::Tuple(targets) => targets.iter().any(is_loop),
    }
}

fn assigns_loop_in(stmt: &Stmt) -> bool {
    let any = |body: &[Stmt]| body.iter().any(assigns_loop_in);
    match &stmt.kind {
        StmtKind::For(node) => assigns_loop(node),
        StmtKind::If { branches, otherwise } => branches.iter().any(|(_, body)| any(body)) || any(otherwise),
        StmtKind::Set { target, .. } => is_loop(target),
        StmtKind::SetBlock { target, body, .. } => is_loop(target) || any(body),
        StmtKind::With { body, .. } | StmtKind::FilterBlock { body, .. } => any(body),
        StmtKind::Macro { definition, .. } => any(&definition.body),
        StmtKind::CallBlock { caller, .. } => any(&caller.body),
        _ => false,
    }
}
