//! A template as a tree. Chains of operators and of postfixes are lists, so that the height of the tree is that of the
//! brackets and blocks in the source, which the parser bounds.

use std::sync::Arc;

/// Where a variable lies: in the activation of the function that is `hops` functions further out.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Slot {
    pub(super) hops: usize,
    pub(super) index: usize,
}

/// A variable's name, and its place once `names` has resolved it.
#[derive(Clone, Debug)]
pub(super) struct Name {
    pub(super) name: String,
    pub(super) slot: Slot,
}

impl Name {
    pub(super) fn new(name: String) -> Self {
        Self { name, slot: Slot::default() }
    }
}

/// Where the value of a variable comes from when its scope is entered.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Load {
    /// From the caller of the function; nothing to do.
    Parameter,
    /// From the variables that the template was given.
    Resolve(String),
    /// From a variable further out.
    Alias(Slot),
    /// From nowhere: there is no value yet.
    Undefined,
}

/// What is done when a scope is entered. When it is left, the same variables lose their values.
#[derive(Clone, Debug, Default)]
pub(super) struct Scope {
    pub(super) loads: Vec<(usize, Load)>,
}

#[derive(Debug)]
pub(super) struct Template {
    pub(super) body: Vec<Stmt>,
    pub(super) scope: Scope,
    /// How many variables the activation of the outermost function has.
    pub(super) slots: usize,
}

#[derive(Debug)]
pub(super) struct Stmt {
    pub(super) line: u32,
    pub(super) kind: StmtKind,
}

#[derive(Debug)]
pub(super) enum StmtKind {
    Text(String),
    Print(Vec<Expr>),
    For(Arc<For>),
    If {
        branches: Vec<(Expr, Vec<Stmt>)>,
        otherwise: Vec<Stmt>,
    },
    With {
        targets: Vec<Target>,
        values: Vec<Expr>,
        body: Vec<Stmt>,
        scope: Scope,
    },
    Set {
        target: Target,
        value: Expr,
    },
    SetBlock {
        target: Target,
        filter: Option<Expr>,
        body: Vec<Stmt>,
        scope: Scope,
    },
    FilterBlock {
        filter: Expr,
        body: Vec<Stmt>,
        scope: Scope,
    },
    Macro {
        name: Name,
        definition: Arc<Macro>,
    },
    /// `call`, or `generation` where there is no call.
    CallBlock {
        call: Option<Expr>,
        caller: Arc<Macro>,
    },
    Break,
    Continue,
    /// A statement that fails when it is reached, such as `include`.
    Refused(String),
}

#[derive(Debug)]
pub(super) struct For {
    pub(super) target: Target,
    pub(super) iter: Expr,
    pub(super) test: Option<LoopTest>,
    pub(super) recursive: bool,
    pub(super) body: Vec<Stmt>,
    pub(super) scope: Scope,
    pub(super) otherwise: Vec<Stmt>,
    pub(super) otherwise_scope: Scope,
    /// The variable `loop`, where the body uses it.
    pub(super) loop_slot: Option<usize>,
    /// How many variables the activation of a recursive loop has.
    pub(super) slots: usize,
}

/// The condition after a loop's sequence: a function of the item.
#[derive(Debug)]
pub(super) struct LoopTest {
    pub(super) target: Target,
    pub(super) condition: Expr,
    pub(super) scope: Scope,
    pub(super) slots: usize,
}

/// A macro, or the body of a call block.
#[derive(Debug)]
pub(super) struct Macro {
    /// None for the body of a call block.
    pub(super) name: Option<String>,
    pub(super) args: Vec<Name>,
    /// The defaults of the last arguments.
    pub(super) defaults: Vec<Expr>,
    pub(super) body: Vec<Stmt>,
    pub(super) scope: Scope,
    pub(super) slots: usize,
    /// The variables of the same names, where the body uses them.
    pub(super) caller: Option<usize>,
    pub(super) kwargs: Option<usize>,
    pub(super) varargs: Option<usize>,
}

#[derive(Clone, Debug)]
pub(super) enum Target {
    Name(Name),
    /// An attribute of a namespace.
    Attribute(Name, String),
    Tuple(Vec<Target>),
}

#[derive(Debug)]
pub(super) enum Expr {
    None,
    Bool(bool),
    Integer(i128),
    Float(f64),
    Text(String),
    Name(Name),
    /// What a filter block or a set block with a filter has captured.
    Captured,
    List(Vec<Expr>),
    Tuple(Vec<Expr>),
    Dict(Vec<(Expr, Expr)>),
    Concat(Vec<Expr>),
    Arithmetic(Box<Expr>, Vec<(Operator, Expr)>),
    And(Vec<Expr>),
    Or(Vec<Expr>),
    Not(Box<Expr>),
    Negative(Box<Expr>),
    Positive(Box<Expr>),
    Compare(Box<Expr>, Vec<(Comparison, Expr)>),
    Condition(Box<Condition>),
    Postfix(Box<Expr>, Vec<Step>),
}

/// `then if test else otherwise`.
#[derive(Debug)]
pub(super) struct Condition {
    pub(super) test: Expr,
    pub(super) then: Expr,
    pub(super) otherwise: Option<Expr>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Operator {
    Add,
    Subtract,
    Multiply,
    Divide,
    FloorDivide,
    Modulo,
    Power,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
    In,
    NotIn,
}

#[derive(Debug)]
pub(super) struct Step {
    pub(super) line: u32,
    pub(super) kind: StepKind,
}

#[derive(Debug)]
pub(super) enum StepKind {
    Attribute(String),
    Item(Expr),
    Slice(Box<[Option<Expr>; 3]>),
    Call(Args),
    Filter(String, Args),
    Test { name: String, args: Args, negated: bool },
}

#[derive(Debug, Default)]
pub(super) struct Args {
    pub(super) positional: Vec<Expr>,
    pub(super) named: Vec<(String, Expr)>,
    pub(super) all: Option<Box<Expr>>,
    pub(super) all_named: Option<Box<Expr>>,
}
