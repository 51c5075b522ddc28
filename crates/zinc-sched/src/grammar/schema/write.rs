//! From the goals of a schema to a grammar of JSON texts.

use llguidance::derivre::RegexAst;

use super::document::quoted;
use super::facts::Count;
use super::goals::{Branch, GoalId, Goals};
use super::options::Options;
use super::text;
use crate::grammar::builder::{Builder, Symbol};

/// Symbols for the members of one object whose number is limited: each name takes one for every count so far.
const MAX_COUNTED: u64 = 20_000;

/// How white space between the tokens of JSON gets into a grammar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::grammar) enum Spacing {
    /// The grammar has it between any two lexemes.
    OfGrammar,
    /// It is part of brackets and separators.
    OfTokens,
}

/// Adds the texts of the values that match the first goal to a grammar, as a symbol.
///
/// # Errors
/// The goal where something cannot be written as a grammar, and why.
pub(super) fn write(
    builder: &mut Builder,
    goals: &Goals,
    options: &Options,
    spacing: Spacing,
) -> Result<Symbol, (GoalId, String)> {
    let space = match (&options.white_space, spacing) {
        (Some(space), Spacing::OfTokens) => Some(RegexAst::Repeat(Box::new(RegexAst::Regex(space.clone())), 0, 1)),
        (None, _) | (_, Spacing::OfGrammar) => None,
    };
    let symbols = vec![None; goals.goals.len()];
    let mut writer = Writer { goals, options, space, builder, symbols, queue: Vec::new() };
    let root = writer.goal(0);
    while let Some(id) = writer.queue.pop() {
        writer.write(id).map_err(|reason| (id, reason))?;
    }
    Ok(root)
}

struct Writer<'g> {
    goals: &'g Goals,
    options: &'g Options,
    /// White space, or none, that is part of brackets and separators.
    space: Option<RegexAst>,
    builder: &'g mut Builder,
    symbols: Vec<Option<Symbol>>,
    /// Goals that have a symbol and no rules yet.
    queue: Vec<GoalId>,
}

impl Writer<'_> {
    fn goal(&mut self, id: GoalId) -> Symbol {
        if let Some(symbol) = self.symbols[id] {
            return symbol;
        }
        let symbol = self.builder.symbol("");
        self.symbols[id] = Some(symbol);
        self.queue.push(id);
        symbol
    }

    fn write(&mut self, id: GoalId) -> Result<(), String> {
        let goals = self.goals;
        let symbol = self.goal(id);
        for branch in &goals.goals[id].branches {
            let part = match branch {
                Branch::Scalar(expression) => Some(self.builder.lexeme(expression)?),
                Branch::Array { count, prefix, rest } => self.array(count, prefix, *rest)?,
                Branch::Object { count, named, classes } => self.object(count, named, classes)?,
            };
            if let Some(part) = part {
                self.builder.rule(symbol, vec![part])?;
            }
        }
        self.builder.check_size()
    }

    fn separator(&mut self, expression: &str) -> Result<Symbol, String> {
        let separator = RegexAst::Regex(expression.to_owned());
        let space = || self.space.iter().cloned();
        self.builder.lexeme(&RegexAst::Concat(space().chain([separator]).chain(space()).collect()))
    }

    /// What is between two brackets, with these.
    fn bracketed(&mut self, open: &str, inside: Symbol, close: &str) -> Result<Symbol, String> {
        let literal = |text: &str| RegexAst::Literal(text.to_owned());
        let space = || self.space.iter().cloned();
        let open = RegexAst::Concat([literal(open)].into_iter().chain(space()).collect());
        let close = RegexAst::Concat(space().chain([literal(close)]).collect());
        let (open, close) = (self.builder.lexeme(&open)?, self.builder.lexeme(&close)?);
        self.builder.join(&[open, inside, close])
    }

    /// A part so many times with separators between, behind a separator or not.
    fn list(&mut self, part: Symbol, count: &Count, behind: bool) -> Result<Symbol, String> {
        if count.max == Some(0) {
            return Ok(self.builder.empty());
        }
        let comma = self.separator(&self.options.item_separator)?;
        let next = self.builder.join(&[comma, part])?;
        if behind {
            return self.builder.repeat(next, count.min, count.max);
        }
        let more = self.builder.repeat(next, count.min.saturating_sub(1), count.max.map(|max| max - 1))?;
        let list = self.builder.join(&[part, more])?;
        if count.min == 0 { self.builder.optional(list) } else { Ok(list) }
    }

    /// An array, or `None` if there is none.
    fn array(&mut self, count: &Count, prefix: &[GoalId], rest: GoalId) -> Result<Option<Symbol>, String> {
        let mut count = count.clone();
        // No array is longer than up to an item that cannot be.
        match prefix.iter().position(|&id| !self.goals.possible[id]) {
            Some(index) => count.at_most(index as u64),
            None if !self.goals.possible[rest] => count.at_most(prefix.len() as u64),
            None => {}
        }
        if count.is_empty() {
            return Ok(None);
        }
        let own = usize::try_from(count.max.unwrap_or(u64::MAX)).unwrap_or(usize::MAX).min(prefix.len());
        let mut items = self.builder.empty();
        if own as u64 != count.max.unwrap_or(u64::MAX) {
            let length = own as u64;
            let more = Count { min: count.min.saturating_sub(length), max: count.max.map(|max| max - length) };
            let rest = self.goal(rest);
            items = self.list(rest, &more, own > 0)?;
        }
        for (index, &id) in prefix[..own].iter().enumerate().rev() {
            let item = self.goal(id);
            let comma = if index > 0 { self.separator(&self.options.item_separator)? } else { self.builder.empty() };
            items = self.builder.join(&[comma, item, items])?;
            if index as u64 >= count.min {
                items = self.builder.optional(items)?;
            }
        }
        Ok(Some(self.bracketed("[", items, "]")?))
    }

    /// An object, or `None` if there is none.
    fn object(
        &mut self,
        count: &Count,
        named: &[(String, GoalId, bool)],
        classes: &[(RegexAst, GoalId)],
    ) -> Result<Option<Symbol>, String> {
        let colon = self.separator(&self.options.key_separator)?;
        let mut members = Vec::with_capacity(named.len());
        for (name, id, required) in named {
            if !self.goals.possible[*id] {
                if *required {
                    return Ok(None);
                }
                continue;
            }
            let name = self.builder.literal(&quoted(name))?;
            let value = self.goal(*id);
            members.push((self.builder.join(&[name, colon, value])?, *required));
        }
        let mut others = Vec::with_capacity(classes.len());
        for (names, id) in classes.iter().filter(|class| self.goals.possible[class.1]) {
            if !text::is_empty(names)? {
                let name = self.builder.lexeme(&self.options.quote(names.clone()))?;
                let value = self.goal(*id);
                others.push(self.builder.join(&[name, colon, value])?);
            }
        }
        let others = if others.is_empty() { None } else { Some(self.builder.choice(&others)?) };
        let Some(body) = self.members(count, &members, others)? else { return Ok(None) };
        Ok(Some(self.bracketed("{", body, "}")?))
    }

    /// Members in their order, then others, so many in all; `None` if that cannot be.
    fn members(
        &mut self,
        count: &Count,
        members: &[(Symbol, bool)],
        others: Option<Symbol>,
    ) -> Result<Option<Symbol>, String> {
        let length = members.len() as u64;
        let required = members.iter().filter(|it| it.1).count() as u64;
        if count.is_empty() || count.max.is_some_and(|max| required > max) || others.is_none() && count.min > length {
            return Ok(None);
        }
        // The upper limit matters if there can be more; without one, no difference is made between counts that are large enough.
        let max = count.max.filter(|&max| max < length || others.is_some());
        let most = max.unwrap_or(count.min.max(1)).min(length);
        if (most + 1).saturating_mul(length) > MAX_COUNTED {
            return Err(format!(
                "the number of an object's {length} members is limited, which takes too large a grammar"
            ));
        }
        // By the number of members so far, what may follow.
        let mut follow = Vec::new();
        for so_far in 0..=most {
            let rest = Count { min: count.min.saturating_sub(so_far), max: max.map(|max| max - so_far) };
            follow.push(match others {
                None => (rest.min == 0).then(|| self.builder.empty()),
                // Two others could have one name, and then be one member.
                Some(_) if rest.min > 1 => None,
                Some(others) => Some(self.list(others, &rest, so_far > 0)?),
            });
        }
        let comma = self.separator(&self.options.item_separator)?;
        for &(member, required) in members.iter().rev() {
            let mut next = Vec::with_capacity(follow.len());
            for so_far in 0..follow.len() {
                let after = if max.is_some() { so_far + 1 } else { (so_far + 1).min(most as usize) };
                let with = match follow.get(after).copied().flatten() {
                    Some(rest) if so_far == 0 => Some(self.builder.join(&[member, rest])?),
                    Some(rest) => Some(self.builder.join(&[comma, member, rest])?),
                    None => None,
                };
                let without = if required { None } else { follow[so_far] };
                next.push(match (with, without) {
                    (Some(with), Some(without)) => Some(self.builder.choice(&[with, without])?),
                    (with, without) => with.or(without),
                });
            }
            follow = next;
        }
        if follow[0].is_none() && others.is_some() {
            return Err(format!(
                "`minProperties` is {}, more than the names in `properties` can make up; whether other members have different names \
                 cannot be checked",
                count.min
            ));
        }
        Ok(follow[0])
    }
}
