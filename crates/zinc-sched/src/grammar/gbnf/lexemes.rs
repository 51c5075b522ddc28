//! Which parts of a grammar become lexemes.
//!
//! GBNF knows characters and nothing above them. llguidance has a lexer below its parser, and only what the lexer sees as one lexeme is
//! fast: inside of a string of JSON it decides on most of the vocabulary at once, where the parser would go through it character by
//! character. So the largest parts that do not recurse become lexemes.
//!
//! But the lexer is greedy. While the next character can continue some lexeme that is allowed here, no lexeme ends. In
//! `[a-z]* "x"` the `x` would be taken for another letter, and no text could ever end. A part may be a lexeme only if greed loses
//! nothing: no text of a lexeme `e`, followed by a character that can come after `e`, begins a text of a lexeme `f` that may stand where
//! `e` stands. Where that does not hold, `f` is taken apart, at worst down to its characters, which can lose nothing: the UTF-8 of no
//! character begins that of another.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use llguidance::derivre::{ExprRef, RegexAst, RegexBuilder};

use super::parse::{Node, NodeId, RuleId, Rules};
use crate::grammar::chars::CharSet;

/// Nodes that a lexeme may have when it is written out, rules inserted, beyond twice those of the whole grammar: rules that refer to
/// each other several times can stand for expressions of any size.
const MAX_INSERTED: u64 = 1000;

/// Work for comparing two lexemes; a comparison that takes more counts as a conflict.
const COMPARISON_FUEL: u64 = 500_000;

/// Index of a lexeme in [`Lexemes::nodes`].
pub(super) type LexemeId = usize;

/// A part of a rule over lexemes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Part {
    Lexeme(LexemeId),
    Rule(RuleId),
    Sequence(Vec<Part>),
    Choice(Vec<Part>),
    Repeat { part: Box<Part>, min: u32, max: Option<u32> },
}

/// A grammar over lexemes.
#[derive(Debug)]
pub(super) struct Lexemes {
    /// What each lexeme matches: a node without recursion.
    pub(super) nodes: Vec<NodeId>,
    /// The rules that are left, the root among them.
    pub(super) rules: BTreeMap<RuleId, Part>,
}

impl Lexemes {
    /// Chooses the lexemes of a grammar. Nodes may be added to it.
    pub(super) fn choose(rules: &mut Rules) -> Self {
        let mut regexes = Regexes::new(rules);
        let mut taken_apart = HashSet::new();
        loop {
            let draft = Draft::new(rules, &mut regexes, &taken_apart);
            let conflicts = draft.conflicts(&mut regexes);
            if conflicts.is_empty() {
                return Self { nodes: draft.nodes, rules: draft.parts };
            }
            taken_apart.extend(conflicts);
        }
    }
}

/// What is known of nodes without recursion.
#[derive(Debug, Clone)]
struct Facts {
    expr: ExprRef,
    /// Characters that a text can start with.
    first: CharSet,
    /// Whether the empty text matches.
    nullable: bool,
    /// Whether every text is one character.
    single: bool,
    /// Size when written out.
    size: u64,
}

/// The regular expressions of nodes without recursion.
struct Regexes {
    builder: RegexBuilder,
    facts: HashMap<NodeId, Facts>,
    /// The largest size of a lexeme.
    max_size: u64,
    /// For rules without recursion.
    bodies: Vec<Option<NodeId>>,
    /// The items of the expressions that are sequences, none of which is a sequence itself while there are no more than
    /// [`MAX_FLAT_ITEMS`]. The regex engine (derivre 0.3.13) panics at two alternatives that are the same characters in other groups, as in
    /// `("xy" "x") | ("x" "yx")`; without the groups it takes them for one.
    items: HashMap<ExprRef, Vec<ExprRef>>,
    /// Whether two expressions have a text in common.
    overlaps: HashMap<(ExprRef, ExprRef), bool>,
}

/// The items of a sequence beyond which the sequences in it stay as they are, so that memory does not grow with the product of their lengths.
const MAX_FLAT_ITEMS: usize = 1000;

impl Regexes {
    fn new(rules: &Rules) -> Self {
        let mut regexes = Self {
            builder: RegexBuilder::new(),
            facts: HashMap::new(),
            max_size: MAX_INSERTED + 2 * rules.nodes.len() as u64,
            bodies: vec![None; rules.rules.len()],
            items: HashMap::new(),
            overlaps: HashMap::new(),
        };
        // A rule does not recurse if none that it refers to does: the least solution.
        loop {
            let known = regexes.bodies.iter().flatten().count();
            for (id, rule) in rules.rules.iter().enumerate().rev() {
                if regexes.bodies[id].is_none() && regexes.facts(rules, rule.body).is_some() {
                    regexes.bodies[id] = Some(rule.body);
                }
            }
            if regexes.bodies.iter().flatten().count() == known {
                return regexes;
            }
        }
    }

    /// The facts of a node; `None` if it recurses or is too large.
    fn facts(&mut self, rules: &Rules, id: NodeId) -> Option<Facts> {
        if let Some(facts) = self.facts.get(&id) {
            return Some(facts.clone());
        }
        let facts = self.compute(rules, id).filter(|facts| facts.size <= self.max_size)?;
        self.facts.insert(id, facts.clone());
        Some(facts)
    }

    fn compute(&mut self, rules: &Rules, id: NodeId) -> Option<Facts> {
        Some(match &rules.nodes[id] {
            Node::Chars(set) => {
                let expr = self.expr(&RegexAst::Regex(set.to_string()))?;
                Facts { expr, first: set.clone(), nullable: false, single: true, size: 1 }
            }
            Node::Rule(rule) => {
                let body = self.bodies[*rule]?;
                let facts = self.facts(rules, body)?;
                Facts { size: facts.size + 1, ..facts }
            }
            Node::Sequence(ids) => {
                let mut all = Facts {
                    expr: ExprRef::EMPTY_STRING,
                    first: CharSet::default(),
                    nullable: true,
                    single: false,
                    size: 1,
                };
                let mut exprs = Vec::with_capacity(ids.len());
                for &id in ids {
                    let facts = self.facts(rules, id)?;
                    match self.items.get(&facts.expr) {
                        Some(items) if exprs.len() + items.len() <= MAX_FLAT_ITEMS => exprs.extend(items),
                        _ => exprs.push(facts.expr),
                    }
                    if all.nullable {
                        all.first.extend(&facts.first);
                    }
                    all.nullable &= facts.nullable;
                    all.size += facts.size;
                }
                let expr = self.expr(&RegexAst::Concat(exprs.iter().copied().map(RegexAst::ExprRef).collect()))?;
                self.items.insert(expr, exprs);
                Facts { expr, ..all }
            }
            Node::Choice(ids) => {
                let mut all = Facts {
                    expr: ExprRef::NO_MATCH,
                    first: CharSet::default(),
                    nullable: false,
                    single: true,
                    size: 1,
                };
                let mut exprs = Vec::with_capacity(ids.len());
                for &id in ids {
                    let facts = self.facts(rules, id)?;
                    exprs.push(RegexAst::ExprRef(facts.expr));
                    all.first.extend(&facts.first);
                    all.nullable |= facts.nullable;
                    all.single &= facts.single;
                    all.size += facts.size;
                }
                Facts { expr: self.expr(&RegexAst::Or(exprs))?, ..all }
            }
            &Node::Repeat { node, min, max } => {
                let facts = self.facts(rules, node)?;
                let inner = Box::new(RegexAst::ExprRef(facts.expr));
                let expr = self.expr(&RegexAst::Repeat(inner, min, max.unwrap_or(u32::MAX)))?;
                let first = if max == Some(0) { CharSet::default() } else { facts.first };
                let nullable = facts.nullable || min == 0;
                Facts {
                    expr,
                    first,
                    nullable,
                    single: facts.single && (min, max) == (1, Some(1)),
                    size: facts.size + 1,
                }
            }
        })
    }

    fn expr(&mut self, ast: &RegexAst) -> Option<ExprRef> {
        self.builder.mk(ast).ok()
    }

    /// Whether two expressions have a text in common, or telling is too much work.
    fn overlap(&mut self, left: ExprRef, right: ExprRef) -> bool {
        if let Some(&known) = self.overlaps.get(&(left, right)) {
            return known;
        }
        let both = RegexAst::And(vec![RegexAst::ExprRef(left), RegexAst::ExprRef(right)]);
        let both = self.builder.mk(&both).and_then(|both| self.builder.to_regex_limited(both, COMPARISON_FUEL));
        let overlap = both.map_or(true, |mut both| !both.always_empty());
        self.overlaps.insert((left, right), overlap);
        overlap
    }

    /// The texts of a lexeme, followed by one of these characters and anything else.
    fn followed(&mut self, lexeme: &Facts, next: &CharSet) -> Option<ExprRef> {
        let mut texts = RegexAst::ExprRef(lexeme.expr);
        if lexeme.nullable {
            // There is no empty lexeme; the parser does without.
            texts = RegexAst::And(vec![texts, RegexAst::Regex("(?s:.)+".to_owned())]);
        }
        let next = RegexAst::Regex(next.to_string());
        self.expr(&RegexAst::Concat(vec![texts, next, RegexAst::Regex("(?s:.)*".to_owned())]))
    }
}

/// A choice of lexemes that may have conflicts.
struct Draft {
    nodes: Vec<NodeId>,
    facts: Vec<Facts>,
    /// What to take apart to be rid of the lexeme.
    owners: Vec<BTreeSet<NodeId>>,
    parts: BTreeMap<RuleId, Part>,
    root: RuleId,
}

impl Draft {
    fn new(rules: &mut Rules, regexes: &mut Regexes, taken_apart: &HashSet<NodeId>) -> Self {
        let root = rules.root;
        let draft = Self { nodes: Vec::new(), facts: Vec::new(), owners: Vec::new(), parts: BTreeMap::new(), root };
        let mut building = Building { rules, regexes, taken_apart, draft, ids: HashMap::new(), queue: vec![root] };
        while let Some(rule) = building.queue.pop() {
            if !building.draft.parts.contains_key(&rule) {
                let part = building.part(building.rules.rules[rule].body);
                building.draft.parts.insert(rule, part);
            }
        }
        building.draft
    }

    /// The nodes to take apart: the owners of lexemes by which greed would lose something.
    fn conflicts(&self, regexes: &mut Regexes) -> BTreeSet<NodeId> {
        let flow = Flow::new(self);
        let next: Vec<CharSet> = flow.follow.iter().map(|follow| self.first_characters(follow)).collect();
        let mut conflicts = BTreeSet::new();
        for together in self.together(&flow, regexes) {
            for &e in &together {
                for &f in &together {
                    let (shorter, longer) = (&self.facts[e], &self.facts[f]);
                    if longer.single || next[e].is_empty() || !shorter.first.meets(&longer.first) {
                        continue;
                    }
                    let followed = regexes.followed(shorter, &next[e]);
                    if followed.is_none_or(|followed| regexes.overlap(followed, longer.expr)) {
                        conflicts.extend(&self.owners[f]);
                    }
                }
            }
        }
        conflicts
    }

    /// Sets of lexemes that may be allowed at one place; every pair that may be is in one of them.
    fn together(&self, flow: &Flow, regexes: &mut Regexes) -> Vec<BTreeSet<LexemeId>> {
        // Two lexemes with a text in common may be the last one at once. Then what follows either of them is allowed.
        let mut class: Vec<usize> = (0..self.nodes.len()).collect();
        loop {
            let mut sets: BTreeMap<usize, BTreeSet<LexemeId>> = BTreeMap::new();
            for (id, follow) in flow.follow.iter().enumerate() {
                sets.entry(class[id]).or_default().extend(follow);
            }
            let sets: Vec<_> = sets.into_values().chain([flow.start.clone()]).collect();
            let mut stable = true;
            for set in &sets {
                for (&e, &f) in set.iter().flat_map(|e| set.range(e + 1..).map(move |f| (e, f))) {
                    let (left, right) = (&self.facts[e], &self.facts[f]);
                    if class[e] != class[f] && left.first.meets(&right.first) && regexes.overlap(left.expr, right.expr)
                    {
                        let (kept, gone) = (class[e], class[f]);
                        class.iter_mut().filter(|class| **class == gone).for_each(|class| *class = kept);
                        stable = false;
                    }
                }
            }
            if stable {
                return sets;
            }
        }
    }

    fn first_characters(&self, lexemes: &BTreeSet<LexemeId>) -> CharSet {
        let mut characters = CharSet::default();
        for &lexeme in lexemes {
            characters.extend(&self.facts[lexeme].first);
        }
        characters
    }
}

struct Building<'a> {
    rules: &'a mut Rules,
    regexes: &'a mut Regexes,
    taken_apart: &'a HashSet<NodeId>,
    draft: Draft,
    /// By expression: what matches the same is the same lexeme.
    ids: HashMap<ExprRef, LexemeId>,
    queue: Vec<RuleId>,
}

impl Building<'_> {
    fn part(&mut self, id: NodeId) -> Part {
        if self.is_whole(id) {
            return self.lexeme(id, id);
        }
        match self.rules.nodes[id].clone() {
            Node::Chars(_) => self.lexeme(id, id),
            Node::Rule(rule) => {
                self.queue.push(rule);
                Part::Rule(rule)
            }
            Node::Sequence(ids) => {
                let children: Vec<(NodeId, bool)> = ids.iter().map(|&child| (child, self.joins(id, child))).collect();
                let runs = children.chunk_by(|(_, left), (_, right)| *left && *right);
                let runs = runs.map(|run| run.iter().map(|&(child, _)| child).collect::<Vec<_>>());
                Part::Sequence(runs.map(|run| self.joined(id, &run, Node::Sequence)).collect())
            }
            Node::Choice(ids) => {
                let (whole, other): (Vec<_>, Vec<_>) = ids.into_iter().partition(|&child| self.joins(id, child));
                let mut parts: Vec<Part> = other.into_iter().map(|child| self.part(child)).collect();
                if !whole.is_empty() {
                    parts.push(self.joined(id, &whole, Node::Choice));
                }
                Part::Choice(parts)
            }
            Node::Repeat { node, min, max } => Part::Repeat { part: Box::new(self.part(node)), min, max },
        }
    }

    /// Whether a node becomes one lexeme.
    fn is_whole(&mut self, id: NodeId) -> bool {
        !self.taken_apart.contains(&id) && self.regexes.facts(self.rules, id).is_some()
    }

    /// Whether a child of a node becomes a part of a lexeme with its neighbours.
    fn joins(&mut self, parent: NodeId, child: NodeId) -> bool {
        !self.taken_apart.contains(&parent) && self.is_whole(child)
    }

    fn joined(&mut self, parent: NodeId, children: &[NodeId], node: fn(Vec<NodeId>) -> Node) -> Part {
        match children {
            [child] => self.part(*child),
            children => {
                let id = self.rules.add(node(children.to_vec()));
                if self.regexes.facts(self.rules, id).is_some() {
                    return self.lexeme(id, parent);
                }
                // Together they are too large.
                let parts = children.iter().map(|&child| self.part(child)).collect();
                match node(Vec::new()) {
                    Node::Choice(_) => Part::Choice(parts),
                    _ => Part::Sequence(parts),
                }
            }
        }
    }

    fn lexeme(&mut self, id: NodeId, owner: NodeId) -> Part {
        let facts = self.regexes.facts(self.rules, id).expect("a lexeme does not recurse");
        if facts.first.is_empty() {
            // Nothing but the empty text.
            return Part::Sequence(Vec::new());
        }
        let lexeme = *self.ids.entry(facts.expr).or_insert_with(|| {
            self.draft.nodes.push(id);
            self.draft.facts.push(facts);
            self.draft.owners.push(BTreeSet::new());
            self.draft.nodes.len() - 1
        });
        self.draft.owners[lexeme].insert(owner);
        Part::Lexeme(lexeme)
    }
}

/// Which lexemes come first, last, and after one another.
struct Flow {
    start: BTreeSet<LexemeId>,
    follow: Vec<BTreeSet<LexemeId>>,
}

/// Which lexemes a part can begin and end with.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Ends {
    nullable: bool,
    first: BTreeSet<LexemeId>,
    last: BTreeSet<LexemeId>,
}

impl Flow {
    fn new(draft: &Draft) -> Self {
        let mut flow = Self { start: BTreeSet::new(), follow: vec![BTreeSet::new(); draft.nodes.len()] };
        let mut ends: BTreeMap<RuleId, Ends> = BTreeMap::new();
        loop {
            let mut stable = true;
            for (&rule, part) in &draft.parts {
                let new = flow.ends(draft, part, &ends);
                if ends.get(&rule) != Some(&new) {
                    ends.insert(rule, new);
                    stable = false;
                }
            }
            if stable {
                flow.start = ends.remove(&draft.root).unwrap_or_default().first;
                return flow;
            }
        }
    }

    /// The ends of a part, given what is known of rules so far; what follows what inside of it is noted.
    fn ends(&mut self, draft: &Draft, part: &Part, rules: &BTreeMap<RuleId, Ends>) -> Ends {
        match part {
            &Part::Lexeme(id) => {
                let only = BTreeSet::from([id]);
                Ends { nullable: draft.facts[id].nullable, first: only.clone(), last: only }
            }
            Part::Rule(rule) => rules.get(rule).cloned().unwrap_or_default(),
            Part::Sequence(parts) => {
                let mut all = Ends { nullable: true, ..Ends::default() };
                for part in parts {
                    let ends = self.ends(draft, part, rules);
                    self.join(&all.last, &ends.first);
                    if all.nullable {
                        all.first.extend(&ends.first);
                    }
                    if !ends.nullable {
                        all.last.clear();
                    }
                    all.last.extend(ends.last);
                    all.nullable &= ends.nullable;
                }
                all
            }
            Part::Choice(parts) => {
                let mut all = Ends::default();
                for part in parts {
                    let ends = self.ends(draft, part, rules);
                    all.nullable |= ends.nullable;
                    all.first.extend(ends.first);
                    all.last.extend(ends.last);
                }
                all
            }
            Part::Repeat { max: Some(0), .. } => Ends { nullable: true, ..Ends::default() },
            &Part::Repeat { ref part, min, max } => {
                let mut ends = self.ends(draft, part, rules);
                if max != Some(1) {
                    self.join(&ends.last, &ends.first);
                }
                ends.nullable |= min == 0;
                ends
            }
        }
    }

    fn join(&mut self, last: &BTreeSet<LexemeId>, first: &BTreeSet<LexemeId>) {
        for &lexeme in last {
            self.follow[lexeme].extend(first);
        }
    }
}
