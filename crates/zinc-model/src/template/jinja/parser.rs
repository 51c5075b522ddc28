//! Parses the statements of a template, by the grammar of Jinja2 with the statements `break`, `continue` and
//! `generation`.

mod expression;

use std::sync::Arc;

use super::ast::{Args, Expr, For, LoopTest, Macro, Name, Scope, Step, StepKind, Stmt, StmtKind, Target, Template};
use super::failure::{Failure, Result, fail};
use super::lexer::{Token, tokens};

/// How deep brackets, operators and blocks can lie in each other. Python's compiler, which Jinja2 uses, refuses 200
/// brackets in each other and 20 loops.
const MAX_NESTING: usize = 100;

/// Parses the source of a template. The names in the result are not resolved yet.
pub(super) fn parse(source: &str) -> Result<Template> {
    let mut parser = Parser { tokens: tokens(source)?, place: 0, nesting: 0 };
    let body = parser.until(&[]).map_err(|failure| failure.at(parser.line()))?;
    Ok(Template { body, scope: Scope::default(), slots: 0 })
}

struct Parser {
    tokens: Vec<(Token, u32)>,
    place: usize,
    nesting: usize,
}

impl Parser {
    fn current(&self) -> &Token {
        self.tokens.get(self.place).map_or(&Token::End, |(token, _)| token)
    }

    fn look(&self) -> &Token {
        self.tokens.get(self.place + 1).map_or(&Token::End, |(token, _)| token)
    }

    /// The line of the current token, or of the last one at the end.
    fn line(&self) -> u32 {
        self.tokens.get(self.place).or(self.tokens.last()).map_or(1, |(_, line)| *line)
    }

    fn next(&mut self) -> Token {
        let token =
            self.tokens.get_mut(self.place).map_or(Token::End, |(token, _)| std::mem::replace(token, Token::End));
        self.place += 1;
        token
    }

    fn is_operator(&self, operator: &str) -> bool {
        matches!(self.current(), Token::Operator(it) if *it == operator)
    }

    fn is_name(&self, name: &str) -> bool {
        matches!(self.current(), Token::Name(it) if it == name)
    }

    fn skip_operator(&mut self, operator: &str) -> bool {
        let found = self.is_operator(operator);
        self.place += usize::from(found);
        found
    }

    fn skip_name(&mut self, name: &str) -> bool {
        let found = self.is_name(name);
        self.place += usize::from(found);
        found
    }

    fn expect_operator(&mut self, operator: &str) -> Result<()> {
        if self.skip_operator(operator) { Ok(()) } else { self.unexpected(&format!("'{operator}'")) }
    }

    fn expect_word(&mut self, name: &str) -> Result<()> {
        if self.skip_name(name) { Ok(()) } else { self.unexpected(&format!("'{name}'")) }
    }

    fn expect_name(&mut self) -> Result<String> {
        match self.current() {
            Token::Name(_) => {
                let Token::Name(name) = self.next() else { unreachable!("the current token is a name") };
                Ok(name)
            }
            _ => self.unexpected("a name"),
        }
    }

    fn expect_block_end(&mut self) -> Result<()> {
        if *self.current() == Token::BlockEnd {
            self.place += 1;
            Ok(())
        } else {
            self.unexpected("the end of the statement")
        }
    }

    fn unexpected<T>(&self, expected: &str) -> Result<T> {
        let found = match self.current() {
            Token::Data(_) => "text".to_owned(),
            Token::VariableBegin => "'{{'".to_owned(),
            Token::VariableEnd => "'}}'".to_owned(),
            Token::BlockBegin => "'{%'".to_owned(),
            Token::BlockEnd => "'%}'".to_owned(),
            Token::Name(name) => format!("'{name}'"),
            Token::Text(_) => "a string".to_owned(),
            Token::Integer(value) => value.to_string(),
            Token::Float(value) => value.to_string(),
            Token::Operator(operator) => format!("'{operator}'"),
            Token::End => "the end of the template".to_owned(),
        };
        fail(format!("expected {expected} and found {found}"))
    }

    /// Runs `parse` one level further inside.
    fn nested<T>(&mut self, parse: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        if self.nesting == MAX_NESTING {
            return fail(format!("brackets, operators or blocks are nested deeper than {MAX_NESTING} levels"));
        }
        self.nesting += 1;
        let result = parse(self);
        self.nesting -= 1;
        result
    }

    /// Statements up to one of the words `ends` after `{%`, or to the end of the template where there are none.
    fn until(&mut self, ends: &[&str]) -> Result<Vec<Stmt>> {
        let mut body = Vec::new();
        loop {
            let line = self.line();
            let kind = match self.next() {
                Token::Data(text) => StmtKind::Text(text),
                Token::VariableBegin => {
                    let value = self.tuple(true)?;
                    if *self.current() != Token::VariableEnd {
                        return self.unexpected("'}}'");
                    }
                    self.place += 1;
                    StmtKind::Print(vec![value])
                }
                Token::BlockBegin => {
                    if ends.iter().any(|end| self.is_name(end)) {
                        return Ok(body);
                    }
                    let kind = self.nested(Self::statement)?;
                    self.expect_block_end()?;
                    kind
                }
                Token::End if ends.is_empty() => return Ok(body),
                Token::End => return fail(format!("the template ends where {} is missing", ends.join(" or "))),
                _ => return fail("a tag is not closed"),
            };
            body.push(Stmt { line, kind });
        }
    }

    /// The body of a statement up to one of `ends`, which is the current token afterwards.
    fn body(&mut self, ends: &[&str]) -> Result<Vec<Stmt>> {
        self.skip_operator(":");
        self.expect_block_end()?;
        self.until(ends)
    }

    /// The body of a statement up to and including its end.
    fn whole_body(&mut self, end: &str) -> Result<Vec<Stmt>> {
        let body = self.body(&[end])?;
        self.place += 1;
        Ok(body)
    }

    fn statement(&mut self) -> Result<StmtKind> {
        let line = self.line();
        let word = self.expect_name()?;
        let kind = match word.as_str() {
            "for" => self.for_loop(),
            "if" => self.condition(),
            "set" => self.set(),
            "with" => self.with(),
            "macro" => self.macro_definition(),
            "call" => self.call_block(),
            "generation" => self.generation(),
            "filter" => self.filter_block(),
            "print" => self.print(),
            "break" => Ok(StmtKind::Break),
            "continue" => Ok(StmtKind::Continue),
            "include" | "import" | "from" | "extends" => {
                while !matches!(self.current(), Token::BlockEnd | Token::End) {
                    self.place += 1;
                }
                Ok(StmtKind::Refused(format!("the statement '{word}' needs other templates, and there are none")))
            }
            "block" | "autoescape" => fail(format!("the statement '{word}' is not supported in chat templates")),
            _ => fail(format!("unknown statement '{word}'")),
        };
        // A failure at the end of the source is that of the statement that was not closed.
        kind.map_err(|failure| if self.place >= self.tokens.len() { failure.at(line) } else { failure })
    }

    fn for_loop(&mut self) -> Result<StmtKind> {
        let target = self.target(false)?;
        self.expect_word("in")?;
        let iter = self.tuple(false)?;
        let condition = if self.skip_name("if") { Some(self.expression()?) } else { None };
        let recursive = self.skip_name("recursive");
        let body = self.body(&["endfor", "else"])?;
        let otherwise = if self.skip_name("else") { self.body(&["endfor"])? } else { Vec::new() };
        self.expect_word("endfor")?;
        let test = condition.map(|condition| LoopTest {
            target: target.clone(),
            condition,
            scope: Scope::default(),
            slots: 0,
        });
        Ok(StmtKind::For(Arc::new(For {
            target,
            iter,
            test,
            recursive,
            body,
            scope: Scope::default(),
            otherwise,
            otherwise_scope: Scope::default(),
            loop_slot: None,
            slots: 0,
        })))
    }

    fn condition(&mut self) -> Result<StmtKind> {
        let mut branches = Vec::new();
        loop {
            let test = self.tuple(false)?;
            branches.push((test, self.body(&["elif", "else", "endif"])?));
            if self.skip_name("elif") {
                continue;
            }
            let otherwise = if self.skip_name("else") { self.body(&["endif"])? } else { Vec::new() };
            self.expect_word("endif")?;
            return Ok(StmtKind::If { branches, otherwise });
        }
    }

    fn set(&mut self) -> Result<StmtKind> {
        let target = self.target(true)?;
        if self.skip_operator("=") {
            let value = self.tuple(true)?;
            return Ok(StmtKind::Set { target, value });
        }
        let filter = if self.is_operator("|") { Some(self.filter_chain()?) } else { None };
        let body = self.whole_body("endset")?;
        Ok(StmtKind::SetBlock { target, filter, body, scope: Scope::default() })
    }

    /// The filters of a block, which are applied to what the block captures.
    fn filter_chain(&mut self) -> Result<Expr> {
        let mut steps = Vec::new();
        while self.skip_operator("|") {
            steps.push(self.filter()?);
        }
        Ok(Expr::Postfix(Box::new(Expr::Captured), steps))
    }

    fn filter_block(&mut self) -> Result<StmtKind> {
        let mut steps = vec![self.filter()?];
        while self.skip_operator("|") {
            steps.push(self.filter()?);
        }
        let filter = Expr::Postfix(Box::new(Expr::Captured), steps);
        let body = self.whole_body("endfilter")?;
        Ok(StmtKind::FilterBlock { filter, body, scope: Scope::default() })
    }

    fn with(&mut self) -> Result<StmtKind> {
        let (mut targets, mut values) = (Vec::new(), Vec::new());
        while !matches!(self.current(), Token::BlockEnd | Token::End) {
            if !targets.is_empty() {
                self.expect_operator(",")?;
            }
            targets.push(self.target(false)?);
            self.expect_operator("=")?;
            values.push(self.expression()?);
        }
        let body = self.whole_body("endwith")?;
        Ok(StmtKind::With { targets, values, body, scope: Scope::default() })
    }

    fn print(&mut self) -> Result<StmtKind> {
        let mut values = Vec::new();
        while !matches!(self.current(), Token::BlockEnd | Token::End) {
            if !values.is_empty() {
                self.expect_operator(",")?;
            }
            values.push(self.expression()?);
        }
        Ok(StmtKind::Print(values))
    }

    fn macro_definition(&mut self) -> Result<StmtKind> {
        let name = self.assignable_name()?;
        let (args, defaults) = self.signature()?;
        let body = self.whole_body("endmacro")?;
        let definition = Arc::new(definition(Some(name.clone()), args, defaults, body));
        Ok(StmtKind::Macro { name: Name::new(name), definition })
    }

    fn call_block(&mut self) -> Result<StmtKind> {
        let (args, defaults) = if self.is_operator("(") { self.signature()? } else { (Vec::new(), Vec::new()) };
        let call = self.expression()?;
        let is_call = |steps: &[Step]| matches!(steps.last(), Some(Step { kind: StepKind::Call(_), .. }));
        if !matches!(&call, Expr::Postfix(_, steps) if is_call(steps)) {
            return fail("the statement 'call' needs a call");
        }
        let body = self.whole_body("endcall")?;
        Ok(StmtKind::CallBlock { call: Some(call), caller: Arc::new(definition(None, args, defaults, body)) })
    }

    /// `generation` marks what training looks at. It prints its body, which has a scope of its own.
    fn generation(&mut self) -> Result<StmtKind> {
        let body = self.whole_body("endgeneration")?;
        Ok(StmtKind::CallBlock { call: None, caller: Arc::new(definition(None, Vec::new(), Vec::new(), body)) })
    }

    fn signature(&mut self) -> Result<(Vec<Name>, Vec<Expr>)> {
        let (mut args, mut defaults) = (Vec::<Name>::new(), Vec::new());
        self.expect_operator("(")?;
        while !self.is_operator(")") {
            if !args.is_empty() {
                self.expect_operator(",")?;
            }
            let name = self.assignable_name()?;
            if self.skip_operator("=") {
                defaults.push(self.expression()?);
            } else if !defaults.is_empty() {
                return fail(format!("the argument '{name}' without a default follows arguments with one"));
            }
            if args.iter().any(|arg| arg.name == name) {
                return fail(format!("the argument '{name}' is there twice"));
            }
            args.push(Name::new(name));
        }
        self.expect_operator(")")?;
        Ok((args, defaults))
    }

    fn assignable_name(&mut self) -> Result<String> {
        let name = self.expect_name()?;
        if matches!(name.as_str(), "true" | "false" | "none" | "True" | "False" | "None") {
            return fail(format!("'{name}' cannot be assigned to"));
        }
        Ok(name)
    }

    /// What is assigned to: a name, an attribute of a namespace where these are allowed, or several.
    fn target(&mut self, attributes: bool) -> Result<Target> {
        self.nested(|parser| {
            let mut targets = Vec::new();
            let mut is_tuple = false;
            loop {
                if !targets.is_empty() && !parser.skip_operator(",") {
                    break;
                }
                let at_end =
                    matches!(parser.current(), Token::VariableEnd | Token::BlockEnd) || parser.is_operator(")");
                if at_end {
                    break;
                }
                targets.push(parser.single_target(attributes)?);
                if !parser.is_operator(",") {
                    break;
                }
                is_tuple = true;
            }
            match targets.pop() {
                Some(target) if targets.is_empty() && !is_tuple => Ok(target),
                Some(target) => {
                    targets.push(target);
                    Ok(Target::Tuple(targets))
                }
                None => parser.unexpected("a name to assign to"),
            }
        })
    }

    fn single_target(&mut self, attributes: bool) -> Result<Target> {
        if self.skip_operator("(") {
            if self.skip_operator(")") {
                return Ok(Target::Tuple(Vec::new()));
            }
            // In brackets names alone can be assigned to.
            let target = self.target(false)?;
            self.expect_operator(")")?;
            return Ok(target);
        }
        let name = self.assignable_name()?;
        if attributes && self.skip_operator(".") {
            return Ok(Target::Attribute(Name::new(name), self.expect_name()?));
        }
        Ok(Target::Name(Name::new(name)))
    }
}

fn definition(name: Option<String>, args: Vec<Name>, defaults: Vec<Expr>, body: Vec<Stmt>) -> Macro {
    let scope = Scope::default();
    Macro { name, args, defaults, body, scope, slots: 0, caller: None, kwargs: None, varargs: None }
}

impl Args {
    fn is_empty(&self) -> bool {
        self.positional.is_empty() && self.named.is_empty() && self.all.is_none() && self.all_named.is_none()
    }
}

/// A failure that a call is written in a way that Python refuses.
fn bad_call() -> Failure {
    Failure::new("arguments by position come first in a call, then arguments by name, *args and **kwargs")
}
