//! Expressions without `^` and `$`, which may stand anywhere in ECMA-262 and in llguidance at the ends alone.
//!
//! A part of an expression matches a piece of the text from one place to another. What it can match depends on whether the first place is
//! the start of the text and whether the second is its end; so each part has a language for each of the four cases. Where a part matches
//! something, the places inside of it are neither; where it matches nothing, both places are the same one.
//!
//! [`super::looks`] has done away with look-ahead and look-behind before.

use std::cell::Cell;

use llguidance::derivre::RegexAst;

use super::{Node, classes};

/// Parts that are looked at in one case: anchors inside of repetitions inside of each other take four times as many a level.
const MAX_STEPS: u32 = 2000;

/// Whether a piece of the text begins at the start of the text and ends at its end.
#[derive(Debug, Clone, Copy)]
struct Case {
    start: bool,
    end: bool,
}

/// An expression that matches a whole text exactly if `node` matches a piece of it.
///
/// # Errors
/// Anchors in too many places.
pub(super) fn search(node: &Node) -> Result<RegexAst, String> {
    let steps = Steps(Cell::new(0));
    let found = steps.search(node);
    if steps.0.get() > MAX_STEPS {
        return Err("`^` and `$` inside of too many repetitions".to_owned());
    }
    Ok(found)
}

/// Counts what was done.
struct Steps(Cell<u32>);

impl Steps {
    fn search(&self, node: &Node) -> RegexAst {
        let some = || RegexAst::Regex("(?s:.+)".to_owned());
        let any = || RegexAst::Regex("(?s:.*)".to_owned());
        if !has_anchor(node) {
            return joined(vec![any(), self.whole(node, Case { start: false, end: false }), any()]);
        }
        if let Node::Choice(nodes) = node {
            return RegexAst::Or(nodes.iter().map(|node| self.search(node)).collect());
        }
        // Anchors at the ends are by far the most frequent, so these are kept simple: what is between them may begin or end anywhere.
        let (nodes, case) = without_outer(node);
        if !nodes.iter().any(has_anchor) {
            let mut parts: Vec<RegexAst> = nodes.iter().map(plain).collect();
            if !case.start {
                parts.insert(0, any());
            }
            if !case.end {
                parts.push(any());
            }
            return joined(parts);
        }
        let at = |start, end| self.whole(node, Case { start, end });
        RegexAst::Or(vec![
            at(true, true),
            joined(vec![some(), at(false, true)]),
            joined(vec![at(true, false), some()]),
            joined(vec![some(), at(false, false), some()]),
        ])
    }

    /// What a part matches in a case.
    fn whole(&self, node: &Node, case: Case) -> RegexAst {
        if !has_anchor(node) {
            return plain(node);
        }
        let mut choices = vec![self.something(node, case)];
        choices.extend(matches_nothing(node, case).then_some(RegexAst::EmptyString));
        RegexAst::Or(choices)
    }

    /// The texts that a part matches in a case, but for the empty one.
    fn something(&self, node: &Node, case: Case) -> RegexAst {
        self.0.set(self.0.get() + 1);
        if self.0.get() > MAX_STEPS {
            return RegexAst::NoMatch;
        }
        match node {
            Node::Chars(set) => classes::expression(set),
            Node::Start | Node::End | Node::Look(_) => RegexAst::NoMatch,
            node if !has_anchor(node) => match matches_nothing(node, case) {
                false => plain(node),
                true => RegexAst::And(vec![plain(node), RegexAst::Regex("(?s:.+)".to_owned())]),
            },
            Node::Choice(nodes) => RegexAst::Or(nodes.iter().map(|node| self.something(node, case)).collect()),
            Node::Sequence(nodes) => self.sequence(nodes, case),
            &Node::Repeat { ref node, min, max } => self.repetition(node, min, max, case),
        }
    }

    /// The texts of a sequence, but for the empty one: from its end, what may follow once something was matched and while nothing was.
    fn sequence(&self, nodes: &[Node], case: Case) -> RegexAst {
        // What the rest of the sequence matches behind something, and whether it may match nothing there.
        let (mut behind, mut behind_nothing) = (RegexAst::NoMatch, true);
        // What the rest matches where nothing was matched before it.
        let mut fresh = RegexAst::NoMatch;
        for node in nodes.iter().rev() {
            let inner = |start| Case { start, end: false };
            let last = |start| Case { start, end: case.end };
            // Something here and something after it, something here and nothing after it, nothing here.
            let mut choices = vec![joined(vec![self.something(node, inner(case.start)), behind.clone()])];
            if behind_nothing {
                choices.push(self.something(node, last(case.start)));
            }
            if matches_nothing(node, inner(case.start)) {
                choices.push(fresh);
            }
            fresh = one_of(choices);
            let mut here = vec![self.something(node, inner(false))];
            here.extend(matches_nothing(node, inner(false)).then_some(RegexAst::EmptyString));
            let mut choices = vec![joined(vec![one_of(here), behind])];
            if behind_nothing {
                choices.push(self.something(node, last(false)));
            }
            behind = one_of(choices);
            behind_nothing = behind_nothing && matches_nothing(node, last(false));
        }
        fresh
    }

    /// The texts of a repetition, but for the empty one: a first, some in between and a last that match something, and any number that match
    /// nothing where that is possible.
    fn repetition(&self, node: &Node, min: u32, max: Option<u32>, case: Case) -> RegexAst {
        if max == Some(0) {
            return RegexAst::NoMatch;
        }
        let at = |start, end| Case { start, end };
        let pads = [at(case.start, false), at(false, false), at(false, case.end)];
        let min = if pads.into_iter().any(|case| matches_nothing(node, case)) { 0 } else { min };
        let mut choices = Vec::new();
        if min <= 1 {
            choices.push(self.something(node, case));
        }
        if max.is_none_or(|max| max >= 2) {
            choices.push(joined(vec![
                self.something(node, at(case.start, false)),
                repeated(self.something(node, at(false, false)), min.saturating_sub(2), max.map(|max| max - 2)),
                self.something(node, at(false, case.end)),
            ]));
        }
        one_of(choices)
    }
}

/// The parts of a sequence without the anchors at its ends, and at which ends there were some.
fn without_outer(node: &Node) -> (&[Node], Case) {
    let nodes = match node {
        Node::Sequence(nodes) => nodes,
        node => std::slice::from_ref(node),
    };
    let first = nodes.iter().take_while(|node| **node == Node::Start).count();
    let last = nodes[first..].iter().rev().take_while(|node| **node == Node::End).count();
    (&nodes[first..nodes.len() - last], Case { start: first > 0, end: last > 0 })
}

fn has_anchor(node: &Node) -> bool {
    match node {
        Node::Chars(_) | Node::Look(_) => false,
        Node::Start | Node::End => true,
        Node::Sequence(nodes) | Node::Choice(nodes) => nodes.iter().any(has_anchor),
        Node::Repeat { node, .. } => has_anchor(node),
    }
}

/// What a part without anchors matches.
fn plain(node: &Node) -> RegexAst {
    match node {
        Node::Chars(set) => classes::expression(set),
        Node::Sequence(nodes) => joined(nodes.iter().map(plain).collect()),
        Node::Choice(nodes) => RegexAst::Or(nodes.iter().map(plain).collect()),
        Node::Repeat { node, min, max } => repeated(plain(node), *min, *max),
        Node::Start | Node::End | Node::Look(_) => RegexAst::NoMatch,
    }
}

/// Whether a part matches the empty text at a place that is, or is not, the start and the end of the text.
fn matches_nothing(node: &Node, case: Case) -> bool {
    match node {
        Node::Chars(_) | Node::Look(_) => false,
        Node::Start => case.start,
        Node::End => case.end,
        Node::Sequence(nodes) => nodes.iter().all(|node| matches_nothing(node, case)),
        Node::Choice(nodes) => nodes.iter().any(|node| matches_nothing(node, case)),
        Node::Repeat { node, min, .. } => *min == 0 || matches_nothing(node, case),
    }
}

fn one_of(choices: Vec<RegexAst>) -> RegexAst {
    let mut choices: Vec<RegexAst> = choices.into_iter().filter(|it| !matches!(it, RegexAst::NoMatch)).collect();
    match choices.len() {
        0 => RegexAst::NoMatch,
        1 => choices.remove(0),
        _ => RegexAst::Or(choices),
    }
}

fn joined(parts: Vec<RegexAst>) -> RegexAst {
    if parts.iter().any(|part| matches!(part, RegexAst::NoMatch)) {
        return RegexAst::NoMatch;
    }
    let mut parts: Vec<RegexAst> = parts.into_iter().filter(|it| !matches!(it, RegexAst::EmptyString)).collect();
    match parts.len() {
        0 => RegexAst::EmptyString,
        1 => parts.remove(0),
        _ => RegexAst::Concat(parts),
    }
}

fn repeated(item: RegexAst, min: u32, max: Option<u32>) -> RegexAst {
    RegexAst::Repeat(Box::new(item), min, max.unwrap_or(u32::MAX))
}
