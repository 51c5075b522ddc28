//! Parses expressions.

use super::super::ast::{Args, Comparison, Condition, Expr, Name, Operator, Step, StepKind};
use super::super::failure::{Result, fail};
use super::super::lexer::Token;
use super::{Parser, bad_call};

/// Operators that bind equally, the loosest first. `~` lies between the first two.
const SUMS: [(&str, Operator); 2] = [("+", Operator::Add), ("-", Operator::Subtract)];
const PRODUCTS: [(&str, Operator); 4] =
    [("*", Operator::Multiply), ("/", Operator::Divide), ("//", Operator::FloorDivide), ("%", Operator::Modulo)];
const POWERS: [(&str, Operator); 1] = [("**", Operator::Power)];

const COMPARISONS: [(&str, Comparison); 6] = [
    ("==", Comparison::Equal),
    ("!=", Comparison::NotEqual),
    ("<", Comparison::Less),
    ("<=", Comparison::LessEqual),
    (">", Comparison::Greater),
    (">=", Comparison::GreaterEqual),
];

impl Parser {
    /// Several expressions with commas between them are a tuple. `conditions` says whether `a if b` is allowed without
    /// brackets.
    pub(super) fn tuple(&mut self, conditions: bool) -> Result<Expr> {
        let (items, is_tuple) = self.tuple_items(conditions)?;
        self.tuple_or_single(items, is_tuple, false)
    }

    fn tuple_items(&mut self, conditions: bool) -> Result<(Vec<Expr>, bool)> {
        let mut items = Vec::new();
        let mut is_tuple = false;
        loop {
            if !items.is_empty() {
                self.expect_operator(",")?;
            }
            let at_end = matches!(self.current(), Token::VariableEnd | Token::BlockEnd) || self.is_operator(")");
            if at_end {
                break;
            }
            items.push(if conditions { self.expression()? } else { self.nested(Self::or)? });
            if !self.is_operator(",") {
                break;
            }
            is_tuple = true;
        }
        Ok((items, is_tuple))
    }

    fn tuple_or_single(&self, mut items: Vec<Expr>, is_tuple: bool, in_brackets: bool) -> Result<Expr> {
        if !is_tuple && let Some(single) = items.pop() {
            return Ok(single);
        }
        if items.is_empty() && !in_brackets {
            return self.unexpected("an expression");
        }
        Ok(Expr::Tuple(items))
    }

    pub(super) fn expression(&mut self) -> Result<Expr> {
        self.nested(|parser| {
            let mut then = parser.or()?;
            // Each further `if` makes what stands before it an operand, so the tree grows.
            let mut height = 0;
            while parser.skip_name("if") {
                height += 1;
                if parser.nesting + height > super::MAX_NESTING {
                    return fail(format!("more than {} conditions follow each other", super::MAX_NESTING));
                }
                let test = parser.or()?;
                let otherwise = if parser.skip_name("else") { Some(parser.expression()?) } else { None };
                then = Expr::Condition(Box::new(Condition { test, then, otherwise }));
            }
            Ok(then)
        })
    }

    fn or(&mut self) -> Result<Expr> {
        let first = self.and()?;
        if !self.is_name("or") {
            return Ok(first);
        }
        let mut operands = vec![first];
        while self.skip_name("or") {
            operands.push(self.and()?);
        }
        Ok(Expr::Or(operands))
    }

    fn and(&mut self) -> Result<Expr> {
        let first = self.not()?;
        if !self.is_name("and") {
            return Ok(first);
        }
        let mut operands = vec![first];
        while self.skip_name("and") {
            operands.push(self.not()?);
        }
        Ok(Expr::And(operands))
    }

    fn not(&mut self) -> Result<Expr> {
        if self.skip_name("not") {
            return Ok(Expr::Not(Box::new(self.nested(Self::not)?)));
        }
        self.compare()
    }

    fn compare(&mut self) -> Result<Expr> {
        let first = self.sum()?;
        let mut rest = Vec::new();
        loop {
            let comparison = match self.current() {
                Token::Operator(operator) => COMPARISONS.iter().find(|(name, _)| name == operator).map(|(_, it)| *it),
                Token::Name(name) if name == "in" => Some(Comparison::In),
                Token::Name(name) if name == "not" && matches!(self.look(), Token::Name(name) if name == "in") => {
                    self.place += 1;
                    Some(Comparison::NotIn)
                }
                _ => None,
            };
            let Some(comparison) = comparison else {
                break;
            };
            self.place += 1;
            rest.push((comparison, self.sum()?));
        }
        Ok(if rest.is_empty() { first } else { Expr::Compare(Box::new(first), rest) })
    }

    fn chain(&mut self, operators: &[(&str, Operator)], operand: impl Fn(&mut Self) -> Result<Expr>) -> Result<Expr> {
        let first = operand(self)?;
        let mut rest = Vec::new();
        while let Token::Operator(found) = self.current()
            && let Some((_, operator)) = operators.iter().find(|(name, _)| name == found)
        {
            self.place += 1;
            rest.push((*operator, operand(self)?));
        }
        Ok(if rest.is_empty() { first } else { Expr::Arithmetic(Box::new(first), rest) })
    }

    fn sum(&mut self) -> Result<Expr> {
        self.chain(&SUMS, Self::concat)
    }

    fn concat(&mut self) -> Result<Expr> {
        let first = self.product()?;
        if !self.is_operator("~") {
            return Ok(first);
        }
        let mut operands = vec![first];
        while self.skip_operator("~") {
            operands.push(self.product()?);
        }
        Ok(Expr::Concat(operands))
    }

    fn product(&mut self) -> Result<Expr> {
        self.chain(&PRODUCTS, |parser| parser.chain(&POWERS, |parser| parser.unary(true)))
    }

    fn unary(&mut self, filters: bool) -> Result<Expr> {
        let base = if self.skip_operator("-") {
            Expr::Negative(Box::new(self.nested(|parser| parser.unary(false))?))
        } else if self.skip_operator("+") {
            Expr::Positive(Box::new(self.nested(|parser| parser.unary(false))?))
        } else {
            self.primary()?
        };
        let mut steps = Vec::new();
        self.postfix(&mut steps)?;
        if filters {
            self.filters_and_tests(&mut steps)?;
        }
        Ok(with_steps(base, steps))
    }

    /// Filters, tests, and calls of what they give.
    fn filters_and_tests(&mut self, steps: &mut Vec<Step>) -> Result<()> {
        loop {
            let step = if self.skip_operator("|") {
                self.filter()?
            } else if self.is_name("is") {
                self.test()?
            } else if self.is_operator("(") {
                let line = self.line();
                Step { line, kind: StepKind::Call(self.call_args()?) }
            } else {
                return Ok(());
            };
            steps.push(step);
        }
    }

    fn primary(&mut self) -> Result<Expr> {
        let expression = match self.current() {
            Token::Name(_) => {
                let name = self.expect_name()?;
                match name.as_str() {
                    "true" | "True" => Expr::Bool(true),
                    "false" | "False" => Expr::Bool(false),
                    "none" | "None" => Expr::None,
                    _ => Expr::Name(Name::new(name)),
                }
            }
            Token::Text(_) => {
                let mut text = String::new();
                while let Token::Text(part) = self.current() {
                    text.push_str(part);
                    self.place += 1;
                }
                Expr::Text(text)
            }
            &Token::Integer(value) => {
                self.place += 1;
                Expr::Integer(value)
            }
            &Token::Float(value) => {
                self.place += 1;
                Expr::Float(value)
            }
            Token::Operator("(") => {
                self.place += 1;
                let (items, is_tuple) = self.tuple_items(true)?;
                let tuple = self.tuple_or_single(items, is_tuple, true)?;
                self.expect_operator(")")?;
                tuple
            }
            Token::Operator("[") => self.list()?,
            Token::Operator("{") => self.dict()?,
            _ => return self.unexpected("an expression"),
        };
        Ok(expression)
    }

    fn list(&mut self) -> Result<Expr> {
        self.place += 1;
        let mut items = Vec::new();
        while !self.is_operator("]") {
            if !items.is_empty() {
                self.expect_operator(",")?;
                if self.is_operator("]") {
                    break;
                }
            }
            items.push(self.expression()?);
        }
        self.expect_operator("]")?;
        Ok(Expr::List(items))
    }

    fn dict(&mut self) -> Result<Expr> {
        self.place += 1;
        let mut items = Vec::new();
        while !self.is_operator("}") {
            if !items.is_empty() {
                self.expect_operator(",")?;
                if self.is_operator("}") {
                    break;
                }
            }
            let key = self.expression()?;
            self.expect_operator(":")?;
            items.push((key, self.expression()?));
        }
        self.expect_operator("}")?;
        Ok(Expr::Dict(items))
    }

    /// Attributes, items and calls.
    fn postfix(&mut self, steps: &mut Vec<Step>) -> Result<()> {
        loop {
            let line = self.line();
            let kind = match self.current() {
                Token::Operator(".") => {
                    self.place += 1;
                    match self.next() {
                        Token::Name(name) => StepKind::Attribute(name),
                        Token::Integer(index) => StepKind::Item(Expr::Integer(index)),
                        _ => return fail("expected a name or a number after '.'"),
                    }
                }
                Token::Operator("[") => {
                    self.place += 1;
                    self.subscript()?
                }
                Token::Operator("(") => StepKind::Call(self.call_args()?),
                _ => return Ok(()),
            };
            steps.push(Step { line, kind });
        }
    }

    fn subscript(&mut self) -> Result<StepKind> {
        let mut items = Vec::new();
        while !self.is_operator("]") {
            if !items.is_empty() {
                self.expect_operator(",")?;
            }
            let mut bounds = [None, None, None];
            let mut colons = 0;
            loop {
                if self.skip_operator(":") {
                    colons += 1;
                    if colons > 2 {
                        return self.unexpected("']'");
                    }
                } else if self.is_operator("]") || self.is_operator(",") || bounds[colons].is_some() {
                    break;
                } else {
                    bounds[colons] = Some(self.expression()?);
                }
            }
            if colons > 0 {
                if !items.is_empty() || !self.is_operator("]") {
                    return fail("a slice among several items is not supported");
                }
                self.place += 1;
                return Ok(StepKind::Slice(Box::new(bounds)));
            }
            let [item, ..] = bounds;
            match item {
                Some(item) => items.push(item),
                None => return self.unexpected("an expression"),
            }
        }
        self.expect_operator("]")?;
        let single = if items.len() == 1 { items.pop() } else { None };
        Ok(StepKind::Item(single.unwrap_or(Expr::Tuple(items))))
    }

    fn call_args(&mut self) -> Result<Args> {
        self.expect_operator("(")?;
        let mut args = Args::default();
        while !self.is_operator(")") {
            if !args.is_empty() {
                self.expect_operator(",")?;
                if self.is_operator(")") {
                    break;
                }
            }
            if self.skip_operator("*") {
                if args.all.is_some() || args.all_named.is_some() {
                    return Err(bad_call());
                }
                args.all = Some(Box::new(self.expression()?));
            } else if self.skip_operator("**") {
                if args.all_named.is_some() {
                    return Err(bad_call());
                }
                args.all_named = Some(Box::new(self.expression()?));
            } else if matches!(self.current(), Token::Name(_)) && matches!(self.look(), Token::Operator("=")) {
                if args.all_named.is_some() {
                    return Err(bad_call());
                }
                let name = self.expect_name()?;
                self.place += 1;
                if args.named.iter().any(|(other, _)| *other == name) {
                    return fail(format!("the argument '{name}' is given twice"));
                }
                args.named.push((name, self.expression()?));
            } else {
                if args.all.is_some() || args.all_named.is_some() || !args.named.is_empty() {
                    return Err(bad_call());
                }
                args.positional.push(self.expression()?);
            }
        }
        self.expect_operator(")")?;
        Ok(args)
    }

    fn dotted_name(&mut self) -> Result<String> {
        let mut name = self.expect_name()?;
        while self.skip_operator(".") {
            name.push('.');
            name.push_str(&self.expect_name()?);
        }
        Ok(name)
    }

    /// A filter after its `|`.
    pub(super) fn filter(&mut self) -> Result<Step> {
        let line = self.line();
        let name = self.dotted_name()?;
        let args = if self.is_operator("(") { self.call_args()? } else { Args::default() };
        Ok(Step { line, kind: StepKind::Filter(name, args) })
    }

    fn test(&mut self) -> Result<Step> {
        let line = self.line();
        self.place += 1;
        let negated = self.skip_name("not");
        let name = self.dotted_name()?;
        let takes_arg = match self.current() {
            Token::Name(word) => !matches!(word.as_str(), "else" | "or" | "and"),
            Token::Text(_) | Token::Integer(_) | Token::Float(_) | Token::Operator("[" | "{") => true,
            _ => false,
        };
        let args = if self.is_operator("(") {
            self.call_args()?
        } else if takes_arg {
            if self.is_name("is") {
                return fail("tests with 'is' cannot follow each other");
            }
            let base = self.nested(Self::primary)?;
            let mut steps = Vec::new();
            self.postfix(&mut steps)?;
            Args { positional: vec![with_steps(base, steps)], ..Args::default() }
        } else {
            Args::default()
        };
        Ok(Step { line, kind: StepKind::Test { name, args, negated } })
    }
}

fn with_steps(base: Expr, steps: Vec<Step>) -> Expr {
    if steps.is_empty() { base } else { Expr::Postfix(Box::new(base), steps) }
}
