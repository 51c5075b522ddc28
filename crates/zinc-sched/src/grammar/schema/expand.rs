//! From schemas that a value has to match to the alternatives that it has, without following them into items and properties.
//!
//! References, `allOf`, `anyOf`, `oneOf`, `enum` and the like apply to the value itself. They are resolved here, with a list of what is
//! left to do instead of recursion, until each alternative is a plain list of facts.

use std::collections::HashSet;
use std::rc::Rc;

use super::Problem;
use super::decimal::Decimal;
use super::document::{At, Document, Json, ROOT};
use super::facts::{Facts, Items, Member, Properties, Types};
use super::keywords::{self, More, Patterns};
use super::one_of;
use super::options::Options;

/// Schemas that are applied while the alternatives of one value are found.
const MAX_STEPS: usize = 100_000;
/// References that follow each other without an item or a property between them.
const MAX_CHAIN: usize = 10_000;

/// A pair of alternatives of a `oneOf` that must not both match a value, and what else is known of that value.
#[derive(Debug)]
pub(super) struct Pair {
    pub(super) facts: Facts,
    pub(super) at: At,
    pub(super) members: [Member; 2],
    /// Their numbers in the `oneOf`.
    pub(super) numbers: [usize; 2],
}

/// The alternatives of a value.
#[derive(Debug, Default)]
pub(super) struct Alternatives {
    pub(super) facts: Vec<Facts>,
    /// Of every `oneOf` on the way.
    pub(super) pairs: Vec<Pair>,
    /// Why the last alternative that can match nothing was given up, and the schema that said so.
    pub(super) contradiction: Option<(At, &'static str)>,
}

/// One alternative that is not finished.
#[derive(Clone)]
struct State {
    facts: Facts,
    /// What is to be applied, the next one last, each with the number of the chain that led to it.
    tasks: Vec<(Task, Option<usize>)>,
    /// What is to be chosen once the tasks are done.
    choices: Vec<(More, Option<usize>)>,
    seen: HashSet<At>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Task {
    Match(Member),
    /// Be one of the values of an array that are neither arrays nor objects.
    Scalar(At),
    /// Be an object without the names of an entry of [`Expansion::absent`].
    Without(usize),
}

/// Resolves what applies to one value.
pub(super) struct Expansion<'d> {
    document: &'d Document,
    patterns: &'d mut Patterns,
    /// Schemas with the number of the entry that led to each.
    chains: Vec<(At, Option<usize>, usize)>,
    steps: usize,
    /// Names that alternatives of a `oneOf` leave to others.
    absent: Vec<Vec<String>>,
    /// Whether `oneOf` is read as `anyOf`.
    coerce_one_of: bool,
    found: Alternatives,
}

impl<'d> Expansion<'d> {
    /// The alternatives of a value of which some facts are known and which matches some members.
    ///
    /// # Errors
    /// A keyword that cannot be used, or too many alternatives.
    pub(super) fn run(
        document: &'d Document,
        patterns: &'d mut Patterns,
        options: &Options,
        facts: Facts,
        members: &[Member],
    ) -> Result<Alternatives, Problem> {
        let (chains, absent, coerce_one_of) = (Vec::new(), Vec::new(), options.coerce_one_of);
        let found = Alternatives::default();
        let mut expansion = Self { document, patterns, chains, steps: 0, absent, coerce_one_of, found };
        let tasks = members.iter().rev().map(|&member| (Task::Match(member), None)).collect();
        let mut states = vec![State { facts, tasks, choices: Vec::new(), seen: HashSet::new() }];
        while let Some(state) = states.pop() {
            let first = states.len();
            expansion.advance(state, &mut states)?;
            states[first..].reverse();
        }
        Ok(expansion.found)
    }

    /// Finishes a state, or leaves behind those that its next choice makes of it.
    fn advance(&mut self, mut state: State, states: &mut Vec<State>) -> Result<(), Problem> {
        while let Some((task, chain)) = state.tasks.pop() {
            self.steps += 1;
            let at = match task {
                Task::Match(Member::Schema(at) | Member::Value(at)) | Task::Scalar(at) => at,
                Task::Without(_) => chain.map_or(ROOT, |chain| self.chains[chain].0),
                Task::Match(Member::Nothing) => return Ok(()),
            };
            if self.steps > MAX_STEPS {
                return Err(Problem::new(at, format!("it has more than {MAX_STEPS} combinations of alternatives")));
            }
            match task {
                Task::Match(Member::Schema(_)) => {
                    if !state.seen.insert(at) {
                        if self.leads_back(at, chain) {
                            self.found.contradiction = Some((at, "it refers to itself without an end"));
                            return Ok(());
                        }
                        continue;
                    }
                    let chain = Some(self.follow(at, chain)?);
                    let more = keywords::apply(self.document, self.patterns, at, &mut state.facts)?;
                    let before = state.tasks.len();
                    for more in more {
                        match more {
                            More::And(member) => state.tasks.push((Task::Match(member), chain)),
                            choice => state.choices.push((choice, chain)),
                        }
                    }
                    state.tasks[before..].reverse();
                }
                Task::Match(Member::Value(_)) => self.value(at, &mut state.facts)?,
                Task::Scalar(_) => self.scalars(at, &mut state.facts)?,
                Task::Without(names) => {
                    state.facts.types = state.facts.types.and(Types::OBJECT);
                    state.facts.forbid(&self.absent[names]);
                }
                Task::Match(Member::Nothing) => {}
            }
            if state.facts.types == Types::NONE {
                self.found.contradiction = Some((at, "what it says excludes every type of value"));
                return Ok(());
            }
        }
        if state.choices.is_empty() {
            self.found.facts.push(state.facts);
            return Ok(());
        }
        let (choice, chain) = state.choices.remove(0);
        let one = |member: &Member| vec![Task::Match(*member)];
        let tasks: Vec<Vec<Task>> = match &choice {
            More::And(member) => vec![one(member)],
            More::AnyOf(members) => members.iter().map(one).collect(),
            More::OneOf(_, members) if self.coerce_one_of => members.iter().map(one).collect(),
            More::OneOf(at, members) => match one_of::by_names(self.document, members) {
                Some(alternatives) => alternatives.into_iter().map(|it| self.named(it)).collect(),
                None => {
                    state.facts.types = state.facts.types.without(one_of::shared_types(self.document, members));
                    for (j, &right) in members.iter().enumerate() {
                        for (i, &left) in members[..j].iter().enumerate() {
                            let (facts, numbers) = (state.facts.clone(), [i, j]);
                            self.found.pairs.push(Pair { facts, at: *at, members: [left, right], numbers });
                        }
                    }
                    members.iter().map(one).collect()
                }
            },
            More::Enum(at) => self.values_of(*at).into_iter().map(|task| vec![task]).collect(),
        };
        if tasks.is_empty() {
            let at = chain.map_or(0, |chain| self.chains[chain].0);
            self.found.contradiction = Some((at, "it offers no alternative"));
        }
        let first = |tasks: Vec<Task>| tasks.into_iter().map(|task| (task, chain)).collect();
        states.extend(tasks.into_iter().map(|tasks| State { tasks: first(tasks), ..state.clone() }));
        Ok(())
    }

    /// The tasks of an alternative that is about names alone.
    fn named(&mut self, alternative: one_of::Named) -> Vec<Task> {
        self.absent.push(alternative.absent);
        vec![Task::Without(self.absent.len() - 1), Task::Match(alternative.member)]
    }

    /// Notes that a schema was reached.
    fn follow(&mut self, at: At, from: Option<usize>) -> Result<usize, Problem> {
        let length = from.map_or(0, |from| self.chains[from].2 + 1);
        if length > MAX_CHAIN {
            let reason = format!("more than {MAX_CHAIN} references follow each other to the same value");
            return Err(Problem::new(at, reason));
        }
        self.chains.push((at, from, length));
        Ok(self.chains.len() - 1)
    }

    /// Whether a schema is one of those that led to it.
    fn leads_back(&self, at: At, chain: Option<usize>) -> bool {
        let mut current = chain;
        while let Some(index) = current {
            let (schema, from, _) = self.chains[index];
            if schema == at {
                return true;
            }
            current = from;
        }
        false
    }

    /// The alternatives of an `enum`: its numbers, strings and words together, every array and object alone.
    fn values_of(&self, at: At) -> Vec<Task> {
        let Json::Array(values) = self.document.get(at) else { return Vec::new() };
        let is_compound = |at: &At| matches!(self.document.get(*at), Json::Array(_) | Json::Object(_));
        let mut tasks = Vec::new();
        if values.iter().any(|at| !is_compound(at)) {
            tasks.push(Task::Scalar(at));
        }
        tasks.extend(values.iter().filter(|at| is_compound(at)).map(|&at| Task::Match(Member::Value(at))));
        tasks
    }

    /// Narrows facts to one value.
    fn value(&self, at: At, facts: &mut Facts) -> Result<(), Problem> {
        match self.document.get(at) {
            Json::Array(items) => {
                facts.types = facts.types.and(Types::ARRAY);
                let count = items.len() as u64;
                facts.item_count.at_least(count);
                facts.item_count.at_most(count);
                let prefix = items.iter().copied().map(Member::Value).collect();
                facts.items.push(Rc::new(Items { prefix, rest: None }));
                Ok(())
            }
            Json::Object(members) => {
                facts.types = facts.types.and(Types::OBJECT);
                members.iter().for_each(|(name, _)| facts.require(name));
                let named = members.iter().map(|(name, at)| (name.clone(), Member::Value(*at))).collect();
                let rest = Some(Member::Nothing);
                facts.properties.push(Rc::new(Properties { named, patterns: Vec::new(), rest }));
                Ok(())
            }
            _ => self.one_of(&[at], facts),
        }
    }

    fn scalars(&self, at: At, facts: &mut Facts) -> Result<(), Problem> {
        match self.document.get(at) {
            Json::Array(values) => self.one_of(values, facts),
            _ => Ok(()),
        }
    }

    /// Narrows facts to some values; arrays and objects among them are passed over.
    fn one_of(&self, values: &[At], facts: &mut Facts) -> Result<(), Problem> {
        let mut types = Types::NONE;
        let (mut booleans, mut numbers, mut strings) = ([false; 2], Vec::new(), Vec::new());
        for &at in values {
            match self.document.get(at) {
                Json::Null => types = types.or(Types::NULL),
                Json::Bool(value) => {
                    types = types.or(Types::BOOLEAN);
                    booleans[usize::from(*value)] = true;
                }
                Json::Number(text) => {
                    types = types.or(Types::NUMBER);
                    let number = Decimal::parse(text)
                        .ok_or_else(|| Problem::new(at, format!("{text} has an exponent of more than 32 bits")))?;
                    numbers.push((number, text.clone()));
                }
                Json::String(text) => {
                    types = types.or(Types::STRING);
                    strings.push(text.clone());
                }
                Json::Array(_) | Json::Object(_) => {}
            }
        }
        facts.types = facts.types.and(types);
        facts.booleans = [0, 1].map(|value| facts.booleans[value] && booleans[value]);
        match &mut facts.numbers.only {
            Some(only) => only.retain(|(number, _)| numbers.iter().any(|(other, _)| other == number)),
            only => *only = Some(numbers),
        }
        match &mut facts.strings.only {
            Some(only) => only.retain(|text| strings.contains(text)),
            only => *only = Some(strings),
        }
        Ok(())
    }
}
