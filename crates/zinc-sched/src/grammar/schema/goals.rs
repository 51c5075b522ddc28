//! The values that a schema is about, each with its alternatives, and which of them exist.
//!
//! A goal is a set of schemas that one value has to match: the whole answer, an item, or the value of a property. Schemas that refer to
//! each other in a circle lead to the same goals again, so there are finitely many. A goal that no value can match is found out here,
//! from the values without items and properties upwards.

use std::collections::HashMap;

use llguidance::derivre::RegexAst;

use super::document::{At, Document, ROOT};
use super::expand::{Expansion, Pair};
use super::facts::{Count, Facts, Member, Properties, Types};
use super::keywords::Patterns;
use super::options::Options;
use super::text::{self, Compiled};
use super::{Problem, keywords};

/// Goals of one schema.
const MAX_GOALS: usize = 20_000;
/// Sets of names that patterns tell apart in one object.
const MAX_NAME_CLASSES: usize = 64;

/// Index of a goal.
pub(super) type GoalId = usize;

/// A value and its alternatives.
#[derive(Debug)]
pub(super) struct Goal {
    pub(super) members: Vec<Member>,
    pub(super) branches: Vec<Branch>,
    /// Why one of its alternatives matches nothing, and the schema that says so.
    contradiction: Option<(At, &'static str)>,
}

/// An alternative of a value.
#[derive(Debug)]
pub(super) enum Branch {
    /// A value that is one lexeme: an expression for its text.
    Scalar(RegexAst),
    Array {
        count: Count,
        /// The first items, each with its own goal.
        prefix: Vec<GoalId>,
        /// All further items.
        rest: GoalId,
    },
    Object {
        count: Count,
        /// Members by name in the order in which they come, and whether they must.
        named: Vec<(String, GoalId, bool)>,
        /// Other members: an expression for their names, without quotes, and their goal. No name is in two of them.
        classes: Vec<(RegexAst, GoalId)>,
    },
}

/// All goals of a schema, the first one that of the whole answer.
#[derive(Debug)]
pub(super) struct Goals {
    pub(super) goals: Vec<Goal>,
    /// Whether a value exists that matches the goal.
    pub(super) possible: Vec<bool>,
}

impl Goals {
    /// Finds the goals of the schema at a place of a document.
    ///
    /// # Errors
    /// Something that cannot be used, or alternatives of a `oneOf` that a value may match together.
    pub(super) fn find(document: &Document, at: At, options: &Options) -> Result<Self, Problem> {
        let patterns = Patterns::default();
        let (ids, goals, queue, pairs) = (HashMap::new(), Vec::new(), 0, Vec::new());
        let mut search = Search { document, options, patterns, compiled: HashMap::new(), ids, goals, queue, pairs };
        search.goal(vec![Member::Schema(at)])?;
        search.finish()?;
        // What two alternatives of a `oneOf` have in common is looked at for its own sake; a `oneOf` inside of it counts as `anyOf`, by
        // which it can only get larger.
        let pairs = std::mem::take(&mut search.pairs);
        let mut common = Vec::with_capacity(pairs.len());
        for pair in &pairs {
            let found = Expansion::run(document, &mut search.patterns, options, pair.facts.clone(), &pair.members)?;
            common.push(search.branches(pair.at, found.facts)?);
        }
        search.finish()?;
        let possible = possible(&search.goals);
        for (pair, branches) in pairs.iter().zip(&common) {
            if branches.iter().any(|branch| is_possible(branch, &possible)) {
                return Err(overlap(pair));
            }
        }
        let goals = Self { goals: search.goals, possible };
        if goals.possible[0] { Ok(goals) } else { Err(goals.impossible(document)) }
    }

    /// Says why nothing matches the whole: at the innermost value that must be there and cannot.
    fn impossible(&self, document: &Document) -> Problem {
        let mut current = 0;
        let mut seen = vec![false; self.goals.len()];
        loop {
            seen[current] = true;
            let goal = &self.goals[current];
            let needed = goal.branches.iter().flat_map(needed);
            match needed.into_iter().find(|&id| !self.possible[id] && !seen[id]) {
                Some(next) => current = next,
                None => break,
            }
        }
        let goal = &self.goals[current];
        let at = place(&goal.members);
        let why = match goal.contradiction {
            Some((other, why)) if other == at => format!(": {why}"),
            Some((other, why)) => format!(": {why} (\"{}\")", document.pointer(other)),
            None if goal.branches.is_empty() => ": its bounds leave nothing".to_owned(),
            None => ": it needs a value inside of itself without an end, or one that cannot be".to_owned(),
        };
        Problem::new(at, format!("no value matches it{why}"))
    }
}

fn overlap(pair: &Pair) -> Problem {
    let [i, j] = pair.numbers;
    let reason = format!(
        "alternatives {i} and {j} of `oneOf` may both match a value; make them exclude each other (by `const` or `type`), use `anyOf`, \
         or set `\"x-guidance\": {{\"coerce_one_of\": true}}`"
    );
    Problem::new(pair.at, reason)
}

/// The first place of some members; that of the whole schema if there is none.
fn place(members: &[Member]) -> At {
    let places = members.iter().filter_map(|member| match member {
        Member::Schema(at) | Member::Value(at) => Some(*at),
        Member::Nothing => None,
    });
    places.min().unwrap_or(ROOT)
}

/// Goals that an alternative cannot do without.
fn needed(branch: &Branch) -> Vec<GoalId> {
    match branch {
        Branch::Scalar(_) => Vec::new(),
        Branch::Array { count, prefix, rest } => {
            let mut needed: Vec<GoalId> = prefix.iter().copied().take(count.min.min(1 << 32) as usize).collect();
            needed.extend((count.min > prefix.len() as u64).then_some(*rest));
            needed
        }
        Branch::Object { named, .. } => named.iter().filter(|it| it.2).map(|it| it.1).collect(),
    }
}

/// Which goals have a value: the least solution.
fn possible(goals: &[Goal]) -> Vec<bool> {
    let mut possible = vec![false; goals.len()];
    loop {
        let mut stable = true;
        // Goals come after those that led to them, so that most are known in the first round.
        for (id, goal) in goals.iter().enumerate().rev() {
            if !possible[id] && goal.branches.iter().any(|branch| is_possible(branch, &possible)) {
                possible[id] = true;
                stable = false;
            }
        }
        if stable {
            return possible;
        }
    }
}

fn is_possible(branch: &Branch, possible: &[bool]) -> bool {
    if !needed(branch).into_iter().all(|id| possible[id]) {
        return false;
    }
    match branch {
        Branch::Scalar(_) => true,
        Branch::Array { count, .. } => !count.is_empty(),
        Branch::Object { count, named, classes } => {
            let required = named.iter().filter(|it| it.2).count() as u64;
            let available = named.iter().filter(|it| possible[it.1]).count() as u64;
            let more = classes.iter().any(|class| possible[class.1]);
            !count.is_empty() && count.max.is_none_or(|max| required <= max) && (more || available >= count.min)
        }
    }
}

struct Search<'d> {
    document: &'d Document,
    options: &'d Options,
    patterns: Patterns,
    /// Patterns by number that names were held against.
    compiled: HashMap<usize, Compiled>,
    ids: HashMap<Vec<Member>, GoalId>,
    goals: Vec<Goal>,
    /// The first goal whose alternatives are not known.
    queue: usize,
    pairs: Vec<Pair>,
}

impl Search<'_> {
    /// The goal of some members.
    fn goal(&mut self, mut members: Vec<Member>) -> Result<GoalId, Problem> {
        members.retain(|member| match member {
            Member::Schema(at) => !keywords::restricts_nothing(self.document, *at),
            _ => true,
        });
        members.sort_unstable();
        members.dedup();
        if let Some(&id) = self.ids.get(&members) {
            return Ok(id);
        }
        let id = self.goals.len();
        if id == MAX_GOALS {
            return Err(Problem::new(
                place(&members),
                format!("the schema is about more than {MAX_GOALS} combinations of schemas"),
            ));
        }
        self.ids.insert(members.clone(), id);
        self.goals.push(Goal { members, branches: Vec::new(), contradiction: None });
        Ok(id)
    }

    /// Finds the alternatives of all goals so far and of those that they lead to.
    fn finish(&mut self) -> Result<(), Problem> {
        while self.queue < self.goals.len() {
            let id = self.queue;
            self.queue += 1;
            let members = self.goals[id].members.clone();
            let found = Expansion::run(self.document, &mut self.patterns, self.options, Facts::any(), &members)?;
            let branches = self.branches(place(&members), found.facts)?;
            self.pairs.extend(found.pairs);
            self.goals[id].branches = branches;
            self.goals[id].contradiction = found.contradiction;
        }
        Ok(())
    }

    fn branches(&mut self, at: At, alternatives: Vec<Facts>) -> Result<Vec<Branch>, Problem> {
        let mut branches = Vec::new();
        let mut scalars = Vec::new();
        for mut facts in alternatives {
            let has = |types| facts.types.has(types);
            scalars.extend(has(Types::NULL).then(|| RegexAst::Literal("null".to_owned())));
            if has(Types::BOOLEAN) {
                let words = [(false, "false"), (true, "true")];
                let words = words.into_iter().filter(|&(value, _)| facts.booleans[usize::from(value)]);
                scalars.extend(words.map(|(_, word)| RegexAst::Literal(word.to_owned())));
            }
            let problem = |reason| Problem::new(at, reason);
            if has(Types::NUMBER) {
                facts.numbers.settle().map_err(problem)?;
                scalars.extend(facts.numbers.regex().map_err(problem)?);
            }
            if facts.types.has(Types::STRING) {
                let strings = facts.strings.regex().map_err(problem)?;
                scalars.extend(strings.map(|strings| self.options.quote(strings)));
            }
            if facts.types.has(Types::ARRAY) && !facts.item_count.is_empty() {
                branches.push(self.array(&facts)?);
            }
            let required = facts.required.len() as u64;
            facts.property_count.at_least(required);
            if facts.types.has(Types::OBJECT) && !facts.property_count.is_empty() {
                branches.push(self.object(at, &facts)?);
            }
        }
        if let Some(scalar) = text::one_or(scalars) {
            branches.insert(0, Branch::Scalar(scalar));
        }
        Ok(branches)
    }

    fn array(&mut self, facts: &Facts) -> Result<Branch, Problem> {
        let mut length = facts.items.iter().map(|items| items.prefix.len()).max().unwrap_or(0);
        if let Some(max) = facts.item_count.max {
            length = length.min(usize::try_from(max).unwrap_or(usize::MAX));
        }
        let item = |index: usize| {
            let members = facts.items.iter().filter_map(|items| items.prefix.get(index).copied().or(items.rest));
            members.collect::<Vec<Member>>()
        };
        let prefix = (0..length).map(|index| self.goal(item(index))).collect::<Result<_, _>>()?;
        let rest = self.goal(item(usize::MAX))?;
        Ok(Branch::Array { count: facts.item_count.clone(), prefix, rest })
    }

    fn object(&mut self, at: At, facts: &Facts) -> Result<Branch, Problem> {
        let names = if facts.names.is_empty() { None } else { Some(self.strings(at, &facts.names)?) };
        let mut known: HashMap<&str, usize> = HashMap::new();
        let mut order: Vec<&str> = Vec::new();
        let all = facts.properties.iter().flat_map(|properties| properties.named.iter().map(|(name, _)| &**name));
        for name in all.chain(facts.required.iter().map(|name| &**name)) {
            known.entry(name).or_insert_with(|| {
                order.push(name);
                order.len() - 1
            });
        }
        let mut allowed =
            names.clone().map(|names| Compiled::new(&names)).transpose().map_err(|it| Problem::new(at, it))?;
        // By their place in the order, what the schemas say of each name.
        let mut members: Vec<Vec<Member>> = vec![Vec::new(); order.len()];
        for properties in &facts.properties {
            let mut own: Vec<bool> = vec![false; order.len()];
            for (name, member) in &properties.named {
                members[known[&**name]].push(*member);
                own[known[&**name]] = true;
            }
            for (index, &name) in order.iter().enumerate() {
                let by_pattern = self.by_pattern(at, properties, name)?;
                if by_pattern.is_empty() && !own[index] {
                    members[index].extend(properties.rest);
                }
                members[index].extend(by_pattern);
            }
        }
        let required: std::collections::HashSet<&str> = facts.required.iter().map(|name| &**name).collect();
        let mut named = Vec::with_capacity(order.len());
        for (name, mut members) in order.iter().zip(members) {
            if allowed.as_mut().is_some_and(|allowed| !allowed.matches(name)) {
                members = vec![Member::Nothing];
            }
            named.push(((*name).to_owned(), self.goal(members)?, required.contains(name)));
        }
        let classes = self.name_classes(at, facts, &order, names)?;
        Ok(Branch::Object { count: facts.property_count.clone(), named, classes })
    }

    /// What the patterns of a schema say of a name.
    fn by_pattern(&mut self, at: At, properties: &Properties, name: &str) -> Result<Vec<Member>, Problem> {
        let mut members = Vec::new();
        for &(number, member) in &properties.patterns {
            if !self.compiled.contains_key(&number) {
                let compiled = Compiled::new(&self.patterns.expressions[number]);
                self.compiled.insert(number, compiled.map_err(|reason| Problem::new(at, reason))?);
            }
            if self.compiled.get_mut(&number).is_some_and(|compiled| compiled.matches(name)) {
                members.push(member);
            }
        }
        Ok(members)
    }

    /// The names that are not in a list, in classes of which each matches the same patterns.
    fn name_classes(
        &mut self,
        at: At,
        facts: &Facts,
        named: &[&str],
        names: Option<RegexAst>,
    ) -> Result<Vec<(RegexAst, GoalId)>, Problem> {
        let mut numbers: Vec<usize> = Vec::new();
        for &(number, _) in facts.properties.iter().flat_map(|properties| &properties.patterns) {
            if !numbers.contains(&number) {
                numbers.push(number);
            }
        }
        let mut rest: Vec<RegexAst> = names.into_iter().collect();
        if !named.is_empty() {
            let named = named.iter().map(|name| RegexAst::Literal((*name).to_owned())).collect();
            rest.push(RegexAst::Not(Box::new(RegexAst::Or(named))));
        }
        let mut classes: Vec<(Vec<usize>, Vec<RegexAst>)> = vec![(Vec::new(), rest)];
        for number in numbers {
            let pattern = self.patterns.expressions[number].clone();
            let mut split = Vec::new();
            for (matched, parts) in classes {
                let with = [&parts[..], std::slice::from_ref(&pattern)].concat();
                let without = [&parts[..], &[RegexAst::Not(Box::new(pattern.clone()))]].concat();
                let all = [&matched[..], &[number]].concat();
                for (matched, parts) in [(all, with), (matched, without)] {
                    let is_empty = text::is_empty(&all_of(&parts)).map_err(|reason| Problem::new(at, reason))?;
                    if !is_empty {
                        split.push((matched, parts));
                    }
                }
            }
            classes = split;
            if classes.len() > MAX_NAME_CLASSES {
                let reason = format!("the patterns of an object's names overlap in more than {MAX_NAME_CLASSES} ways");
                return Err(Problem::new(at, reason));
            }
        }
        let mut done = Vec::with_capacity(classes.len());
        for (matched, parts) in classes {
            let mut members = Vec::new();
            for properties in &facts.properties {
                let by_pattern = properties.patterns.iter().filter(|(number, _)| matched.contains(number));
                let by_pattern: Vec<Member> = by_pattern.map(|&(_, member)| member).collect();
                members.extend(if by_pattern.is_empty() { properties.rest.into_iter().collect() } else { by_pattern });
            }
            done.push((all_of(&parts), self.goal(members)?));
        }
        Ok(done)
    }

    /// An expression for the strings that match some members.
    fn strings(&mut self, at: At, members: &[Member]) -> Result<RegexAst, Problem> {
        let found = Expansion::run(self.document, &mut self.patterns, self.options, Facts::any(), members)?;
        if !found.pairs.is_empty() {
            return Err(Problem::new(found.pairs[0].at, "`oneOf` is not supported in `propertyNames`".to_owned()));
        }
        let mut choices = Vec::new();
        for facts in found.facts.iter().filter(|facts| facts.types.has(Types::STRING)) {
            choices.extend(facts.strings.regex().map_err(|reason| Problem::new(at, reason))?);
        }
        Ok(text::one_or(choices).unwrap_or(RegexAst::NoMatch))
    }
}

/// An expression for texts that match all of these, any text if there are none.
fn all_of(parts: &[RegexAst]) -> RegexAst {
    if parts.is_empty() { text::any() } else { RegexAst::And([&[text::any()], parts].concat()) }
}
