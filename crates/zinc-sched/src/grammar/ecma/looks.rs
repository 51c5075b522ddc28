//! Expressions without look-ahead and look-behind.
//!
//! A place of the text at which an expression looks around divides the text in two: what is before the place has to end with what the
//! expression has before it, what is behind the place has to begin with what the expression has behind it, and each with what the looks
//! say. So an expression with looks is a sequence of two languages, each of them an intersection. Alternatives around a look are taken one by one,
//! and so are few repetitions. A look inside of any number of repetitions, or one that sees across another's place, is refused.

use std::cell::Cell;

use llguidance::derivre::RegexAst;

use super::{Look, Node, anchors};
use crate::grammar::chars::CharSet;

/// Sequences that alternatives and repetitions around looks come to.
const MAX_SEQUENCES: usize = 200;
/// A part with looks may be repeated so many times at most.
const MAX_REPEATS: u32 = 8;

/// An expression that matches a whole text exactly if `node` matches a piece of it.
///
/// # Errors
/// A look in a place that is not supported, too many alternatives around looks, and what [`anchors::search`] cannot do.
pub(super) fn search(node: &Node) -> Result<RegexAst, String> {
    Looks { sequences: Cell::new(0) }.search(node)
}

/// Counts what was done.
struct Looks {
    sequences: Cell<usize>,
}

impl Looks {
    fn search(&self, node: &Node) -> Result<RegexAst, String> {
        if !has(node, &is_look) {
            return anchors::search(node);
        }
        let sequences = self.sequences(node)?.into_iter().map(|mut nodes| {
            sort_places(&mut nodes);
            self.of_sequence(&nodes)
        });
        Ok(RegexAst::Or(sequences.collect::<Result<_, _>>()?))
    }

    /// The sequences that a part stands for, so that no look is inside of a part of one.
    fn sequences(&self, node: &Node) -> Result<Vec<Vec<Node>>, String> {
        let found = match node {
            Node::Sequence(nodes) => self.product(nodes.iter())?,
            node if is_look(node) || !has(node, &is_look) => vec![vec![node.clone()]],
            Node::Choice(nodes) => {
                let choices = nodes.iter().map(|node| self.sequences(node));
                choices.collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect()
            }
            Node::Repeat { node, min, max: Some(max) } if *max <= MAX_REPEATS => {
                let times = |times: u32| self.product((0..times).map(|_| &**node));
                let counts = (*min..=*max).map(times).collect::<Result<Vec<_>, _>>()?;
                counts.into_iter().flatten().collect()
            }
            node => return Err(format!("{} inside of repetitions", name(node))),
        };
        self.sequences.set(self.sequences.get() + found.len());
        if self.sequences.get() > MAX_SEQUENCES {
            return Err(format!("{} among too many alternatives", name(node)));
        }
        Ok(found)
    }

    /// The sequences that parts one after the other stand for.
    fn product<'n>(&self, nodes: impl Iterator<Item = &'n Node>) -> Result<Vec<Vec<Node>>, String> {
        let mut all = vec![Vec::new()];
        for node in nodes {
            let next = self.sequences(node)?;
            if all.len() * next.len() > MAX_SEQUENCES {
                return Err(format!("{} among too many alternatives", name(node)));
            }
            all = all.iter().flat_map(|before| next.iter().map(|next| [&before[..], next].concat())).collect();
        }
        Ok(all)
    }

    /// An expression for the texts that a sequence is found in. Looks are parts of the sequence, and not inside of others.
    fn of_sequence(&self, nodes: &[Node]) -> Result<RegexAst, String> {
        let Some(first) = nodes.iter().position(is_look) else {
            return anchors::search(&Node::Sequence(nodes.to_vec()));
        };
        let (before, from) = nodes.split_at(first);
        let (looks, after) = from.split_at(from.iter().take_while(|node| is_look(node)).count());
        let looks = looks.iter().filter_map(|node| if let Node::Look(look) = node { Some(look) } else { None });
        let (behind, ahead): (Vec<&Look>, Vec<&Look>) = looks.partition(|look| look.behind);
        // Whether the place is the start of the text.
        let at_start = !before.is_empty() && before.iter().all(|node| *node == Node::Start);
        let sees_start = has_in(after, &is_start)
            || ahead.iter().any(|look| has(&look.node, &|node| is_start(node) || is_behind(node)));
        if before.is_empty() && sees_start {
            // The place is the start, or it is behind it, where no `^` matches.
            let within: Vec<Node> = nodes.iter().map(without_start).collect();
            let later = [&[Node::Chars(CharSet::any())][..], &within].concat();
            let at_start = [&[Node::Start][..], nodes].concat();
            return Ok(RegexAst::Or(vec![self.of_sequence(&at_start)?, self.of_sequence(&later)?]));
        }
        let across = |what: &str| Err(format!("{} {what}", name(&nodes[first])));
        if !at_start && (sees_start || has_in(before, &is_end)) {
            return across("in the middle, with `^` or look-behind after it or `$` before it");
        }
        if !at_start && has_in(after, &is_behind) {
            return across("in the middle, with look-behind after it");
        }
        if behind.iter().any(|look| has(&look.node, &|node| is_end(node) || is_look(node))) {
            return across("with `$` or another look inside of it");
        }
        let mut left = match before {
            [] => vec![any()],
            _ if at_start => vec![RegexAst::EmptyString],
            before => vec![anchors::search(&Node::Sequence([before, &[Node::End][..]].concat()))?],
        };
        for look in behind {
            let seen = self.search(&Node::Sequence(vec![(*look.node).clone(), Node::End]))?;
            left.push(if look.negative { RegexAst::Not(Box::new(seen)) } else { seen });
        }
        // The place is where the text behind it starts.
        let mut right = vec![self.of_sequence(&[&[Node::Start][..], after].concat())?];
        for look in ahead {
            let seen = self.search(&Node::Sequence(vec![Node::Start, (*look.node).clone()]))?;
            right.push(if look.negative { RegexAst::Not(Box::new(seen)) } else { seen });
        }
        Ok(RegexAst::Concat(vec![all_of(left), all_of(right)]))
    }
}

/// Puts what matches no character into one order at each place: `^`, looks, `$`.
fn sort_places(nodes: &mut [Node]) {
    let rank = |node: &Node| match node {
        Node::Start => Some(0),
        Node::Look(_) => Some(1),
        Node::End => Some(2),
        _ => None,
    };
    for place in nodes.chunk_by_mut(|left, right| rank(left).is_some() && rank(right).is_some()) {
        place.sort_by_key(rank);
    }
}

/// The same part where no `^` matches, but for look-behind, which may reach the start of the text.
fn without_start(node: &Node) -> Node {
    let all = |nodes: &[Node]| nodes.iter().map(without_start).collect();
    match node {
        Node::Start => Node::Chars(CharSet::default()),
        Node::Sequence(nodes) => Node::Sequence(all(nodes)),
        Node::Choice(nodes) => Node::Choice(all(nodes)),
        Node::Repeat { node, min, max } => Node::Repeat { node: Box::new(without_start(node)), min: *min, max: *max },
        Node::Look(look) if !look.behind => Node::Look(Look { node: Box::new(without_start(&look.node)), ..*look }),
        Node::Chars(_) | Node::End | Node::Look(_) => node.clone(),
    }
}

fn is_look(node: &Node) -> bool {
    matches!(node, Node::Look(_))
}

fn is_behind(node: &Node) -> bool {
    matches!(node, Node::Look(look) if look.behind)
}

fn is_start(node: &Node) -> bool {
    *node == Node::Start
}

fn is_end(node: &Node) -> bool {
    *node == Node::End
}

/// Whether a part is such, or anything inside of it, looks included.
fn has(node: &Node, such: &dyn Fn(&Node) -> bool) -> bool {
    such(node)
        || match node {
            Node::Sequence(nodes) | Node::Choice(nodes) => has_in(nodes, such),
            Node::Repeat { node, .. } => has(node, such),
            Node::Look(look) => has(&look.node, such),
            Node::Chars(_) | Node::Start | Node::End => false,
        }
}

fn has_in(nodes: &[Node], such: &dyn Fn(&Node) -> bool) -> bool {
    nodes.iter().any(|node| has(node, such))
}

/// What the first look in a part is called.
fn name(node: &Node) -> &'static str {
    match node {
        Node::Look(look) => look.name(),
        Node::Sequence(nodes) | Node::Choice(nodes) => {
            nodes.iter().find(|node| has(node, &is_look)).map_or("look-around", name)
        }
        Node::Repeat { node, .. } => name(node),
        Node::Chars(_) | Node::Start | Node::End => "look-around",
    }
}

fn any() -> RegexAst {
    RegexAst::Regex("(?s:.*)".to_owned())
}

fn all_of(mut parts: Vec<RegexAst>) -> RegexAst {
    if parts.len() == 1 { parts.remove(0) } else { RegexAst::And(parts) }
}
