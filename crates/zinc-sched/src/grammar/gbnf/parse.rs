//! From the text of a GBNF grammar to its rules.
//!
//! The syntax is the one of llama.cpp's `grammars/README.md` and its parser, `src/llama-grammar.cpp`, without matching tokens by id.

use std::collections::HashMap;

use crate::grammar::chars::CharSet;
use crate::grammar::error::GrammarError;

/// Groups in groups, and repetitions of repetitions.
const MAX_NESTING: usize = 64;
/// Rules of a grammar: llguidance calls itself for each one that refers to the next.
const MAX_RULES: usize = 10_000;

/// Index of a node in [`Rules::nodes`].
pub(super) type NodeId = usize;
/// Index of a rule in [`Rules::rules`].
pub(super) type RuleId = usize;

/// What a part of a rule matches.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Node {
    /// One character.
    Chars(CharSet),
    /// What a rule matches.
    Rule(RuleId),
    /// One after the other.
    Sequence(Vec<NodeId>),
    /// Any one of them.
    Choice(Vec<NodeId>),
    /// At least `min` and at most `max` times.
    Repeat { node: NodeId, min: u32, max: Option<u32> },
}

/// A grammar. Nodes are in one list, so that each has an id and none contains itself other than through a rule.
#[derive(Debug, Default)]
pub(super) struct Rules {
    pub(super) nodes: Vec<Node>,
    pub(super) rules: Vec<Rule>,
    /// The rule that the whole text matches.
    pub(super) root: RuleId,
}

#[derive(Debug)]
pub(super) struct Rule {
    pub(super) name: String,
    pub(super) body: NodeId,
}

impl Rules {
    /// Reads a grammar.
    ///
    /// # Errors
    /// [`GrammarError::Gbnf`] where the text is none.
    pub(super) fn parse(text: &str) -> Result<Self, GrammarError> {
        let mut parser = Parser { text, at: 0, nesting: 0, nodes: Vec::new(), ids: HashMap::new(), rules: Vec::new() };
        parser.space(Newlines::Skip);
        while parser.peek().is_some() {
            parser.rule()?;
        }
        parser.finish()
    }

    pub(super) fn add(&mut self, node: Node) -> NodeId {
        self.nodes.push(node);
        self.nodes.len() - 1
    }

    /// The first rule that has no text.
    fn endless(&self) -> Option<RuleId> {
        let mut ends = vec![false; self.rules.len()];
        loop {
            let mut stable = true;
            // Rules are numbered as they are first named, so that most are named before those they refer to.
            for (id, rule) in self.rules.iter().enumerate().rev() {
                if !ends[id] && self.ends(rule.body, &ends) {
                    ends[id] = true;
                    stable = false;
                }
            }
            if stable {
                return ends.iter().position(|ends| !ends);
            }
        }
    }

    /// Whether a node has a text, given the rules that are known to have one.
    fn ends(&self, id: NodeId, rules: &[bool]) -> bool {
        match &self.nodes[id] {
            Node::Chars(_) => true,
            Node::Rule(rule) => rules[*rule],
            Node::Sequence(ids) => ids.iter().all(|&id| self.ends(id, rules)),
            Node::Choice(ids) => ids.iter().any(|&id| self.ends(id, rules)),
            &Node::Repeat { node, min, .. } => min == 0 || self.ends(node, rules),
        }
    }
}

/// What newlines are.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Newlines {
    /// The end of a rule.
    End,
    /// Space.
    Skip,
}

/// A rule that was defined, or only referred to so far.
struct Known<'t> {
    name: &'t str,
    body: Option<NodeId>,
    /// Where it was seen first.
    at: usize,
}

struct Parser<'t> {
    text: &'t str,
    /// Byte offset.
    at: usize,
    nesting: usize,
    nodes: Vec<Node>,
    rules: Vec<Known<'t>>,
    ids: HashMap<&'t str, RuleId>,
}

impl<'t> Parser<'t> {
    fn finish(self) -> Result<Rules, GrammarError> {
        let root = self.ids.get("root").copied().filter(|&id| self.rules[id].body.is_some());
        let root = root.ok_or_else(|| self.error_at(0, "there is no rule `root`".to_owned()))?;
        let rules = self.rules.iter().map(|known| match known.body {
            Some(body) => Ok(Rule { name: known.name.to_owned(), body }),
            None => Err(self.error_at(known.at, format!("there is no rule `{}`", known.name))),
        });
        let rules = rules.collect::<Result<_, _>>()?;
        let rules = Rules { nodes: self.nodes, rules, root };
        match rules.endless() {
            Some(id) => {
                let name = self.rules[id].name;
                let reason = format!("no text matches the rule `{name}`: it never comes to an end");
                Err(error_at(self.text, self.rules[id].at, reason))
            }
            None => Ok(rules),
        }
    }

    fn rule(&mut self) -> Result<(), GrammarError> {
        let at = self.at;
        let id = self.name()?;
        if self.rules[id].body.is_some() {
            return Err(self.error_at(at, format!("the rule `{}` is defined twice", self.rules[id].name)));
        }
        self.space(Newlines::End);
        self.expect("::=")?;
        self.space(Newlines::Skip);
        self.rules[id].body = Some(self.choice(Newlines::End)?);
        match self.peek() {
            None | Some('\r' | '\n') => self.space(Newlines::Skip),
            Some(c) => return Err(self.error(format!("{c:?} is neither an item nor the end of the rule"))),
        }
        Ok(())
    }

    fn choice(&mut self, newlines: Newlines) -> Result<NodeId, GrammarError> {
        let mut alternatives = vec![self.sequence(newlines)?];
        while self.eat("|") {
            self.space(Newlines::Skip);
            alternatives.push(self.sequence(newlines)?);
        }
        Ok(if alternatives.len() == 1 { alternatives[0] } else { self.add(Node::Choice(alternatives)) })
    }

    fn sequence(&mut self, newlines: Newlines) -> Result<NodeId, GrammarError> {
        let mut items = Vec::new();
        // Repetitions of the last item.
        let mut repetitions = 0;
        while let Some(c) = self.peek() {
            repetitions = if matches!(c, '*' | '+' | '?' | '{') { repetitions + 1 } else { 0 };
            let node = match c {
                '*' | '+' | '?' | '{' => {
                    let Some(node) = items.pop() else {
                        return Err(self.error(format!("there is nothing before {c:?} to repeat")));
                    };
                    if repetitions > MAX_NESTING {
                        return Err(self.error(format!("more than {MAX_NESTING} repetitions of each other")));
                    }
                    let (min, max) = self.bounds()?;
                    self.add(Node::Repeat { node, min, max })
                }
                '"' => self.literal()?,
                '[' => self.class()?,
                '.' => {
                    self.at += 1;
                    self.add(Node::Chars(CharSet::any()))
                }
                '(' => self.group()?,
                '<' | '!' => {
                    let reason = "tokens by name or id are not supported; write the text of the token as a string";
                    return Err(self.error(reason.to_owned()));
                }
                c if is_name(c) => {
                    let id = self.name()?;
                    self.add(Node::Rule(id))
                }
                _ => break,
            };
            items.push(node);
            self.space(newlines);
        }
        Ok(if items.len() == 1 { items[0] } else { self.add(Node::Sequence(items)) })
    }

    fn group(&mut self) -> Result<NodeId, GrammarError> {
        if self.nesting == MAX_NESTING {
            return Err(self.error(format!("more than {MAX_NESTING} groups in each other")));
        }
        self.nesting += 1;
        self.expect("(")?;
        self.space(Newlines::Skip);
        let node = self.choice(Newlines::Skip)?;
        self.expect(")")?;
        self.nesting -= 1;
        Ok(node)
    }

    /// `*`, `+`, `?`, `{m}`, `{m,}` or `{m,n}`.
    fn bounds(&mut self) -> Result<(u32, Option<u32>), GrammarError> {
        let at = self.at;
        if self.eat("*") {
            return Ok((0, None));
        }
        if self.eat("+") {
            return Ok((1, None));
        }
        if self.eat("?") {
            return Ok((0, Some(1)));
        }
        self.expect("{")?;
        self.space(Newlines::End);
        let min = self.number()?;
        self.space(Newlines::End);
        let mut max = Some(min);
        if self.eat(",") {
            self.space(Newlines::End);
            max = if self.peek().is_some_and(|c| c.is_ascii_digit()) { Some(self.number()?) } else { None };
            self.space(Newlines::End);
        }
        self.expect("}")?;
        match max {
            Some(max) if max < min => Err(self.error_at(at, format!("at least {min} and at most {max} times"))),
            max => Ok((min, max)),
        }
    }

    fn number(&mut self) -> Result<u32, GrammarError> {
        let digits = self.text[self.at..].bytes().take_while(u8::is_ascii_digit).count();
        let text = &self.text[self.at..self.at + digits];
        // Lark, which this is translated to, counts in i32.
        let number = text.parse::<u32>().ok().filter(|&number| i32::try_from(number).is_ok_and(|it| it < i32::MAX));
        let number = number.ok_or_else(|| self.error(format!("expected a number below {}", i32::MAX)))?;
        self.at += digits;
        Ok(number)
    }

    fn literal(&mut self) -> Result<NodeId, GrammarError> {
        let start = self.at;
        self.expect("\"")?;
        let mut items = Vec::new();
        while !self.eat("\"") {
            let c = self.character(start, "string")?;
            items.push(self.add(Node::Chars(CharSet::new(vec![(c, c)]))));
        }
        Ok(if items.len() == 1 { items[0] } else { self.add(Node::Sequence(items)) })
    }

    fn class(&mut self) -> Result<NodeId, GrammarError> {
        let start = self.at;
        self.expect("[")?;
        let negated = self.eat("^");
        let mut ranges = Vec::new();
        while !self.eat("]") {
            let at = self.at;
            let first = self.character(start, "class")?;
            let mut last = first;
            // A minus before the end of the class is one.
            if self.text[self.at..].starts_with('-') && !self.text[self.at..].starts_with("-]") {
                self.at += 1;
                last = self.character(start, "class")?;
            }
            if last < first {
                return Err(self.error_at(at, format!("a range from {first:?} to {last:?}, which comes before it")));
            }
            ranges.push((first, last));
        }
        if ranges.is_empty() {
            return Err(self.error_at(start, "a class without a character".to_owned()));
        }
        let set = CharSet::new(ranges);
        let set = if negated { set.complement() } else { set };
        if set.is_empty() {
            return Err(self.error_at(start, "a class that leaves no character".to_owned()));
        }
        Ok(self.add(Node::Chars(set)))
    }

    /// One character of what began at `start`, or what an escape stands for.
    fn character(&mut self, start: usize, what: &str) -> Result<char, GrammarError> {
        let Some(c) = self.peek() else {
            return Err(self.error_at(start, format!("the {what} has no end")));
        };
        let at = self.at;
        self.at += c.len_utf8();
        if c != '\\' {
            return Ok(c);
        }
        let Some(letter) = self.peek() else {
            return Err(self.error_at(start, format!("the {what} has no end")));
        };
        self.at += letter.len_utf8();
        let digits = match letter {
            't' => return Ok('\t'),
            'r' => return Ok('\r'),
            'n' => return Ok('\n'),
            '\\' | '"' | '[' | ']' | '-' => return Ok(letter),
            'x' => 2,
            'u' => 4,
            'U' => 8,
            _ => return Err(self.error_at(at, format!("there is no escape \\{letter}"))),
        };
        let code = self.text.get(self.at..self.at + digits).filter(|it| it.bytes().all(|b| b.is_ascii_hexdigit()));
        let code = code.ok_or_else(|| self.error_at(at, format!("\\{letter} needs {digits} hexadecimal digits")))?;
        self.at += digits;
        let c = u32::from_str_radix(code, 16).ok().and_then(char::from_u32);
        c.ok_or_else(|| self.error_at(at, format!("there is no character U+{code}")))
    }

    fn name(&mut self) -> Result<RuleId, GrammarError> {
        let at = self.at;
        let length = self.text[at..].find(|c| !is_name(c)).unwrap_or(self.text.len() - at);
        if length == 0 {
            return Err(self.error("expected the name of a rule".to_owned()));
        }
        self.at += length;
        let name = &self.text[at..self.at];
        let next = self.rules.len();
        let id = *self.ids.entry(name).or_insert(next);
        if id == next {
            if next == MAX_RULES {
                return Err(self.error_at(at, format!("more than {MAX_RULES} rules")));
            }
            self.rules.push(Known { name, body: None, at });
        }
        Ok(id)
    }

    /// Skips blanks and comments.
    fn space(&mut self, newlines: Newlines) {
        while let Some(c) = self.peek() {
            match c {
                ' ' | '\t' => self.at += 1,
                '\r' | '\n' if newlines == Newlines::Skip => self.at += 1,
                '#' => self.at += self.text[self.at..].find(['\r', '\n']).unwrap_or(self.text.len() - self.at),
                _ => break,
            }
        }
    }

    fn peek(&self) -> Option<char> {
        self.text[self.at..].chars().next()
    }

    fn eat(&mut self, text: &str) -> bool {
        let found = self.text[self.at..].starts_with(text);
        if found {
            self.at += text.len();
        }
        found
    }

    fn expect(&mut self, text: &str) -> Result<(), GrammarError> {
        if self.eat(text) {
            return Ok(());
        }
        let found = self.peek().map_or("the end".to_owned(), |c| format!("{c:?}"));
        Err(self.error(format!("expected `{text}` and found {found}")))
    }

    fn add(&mut self, node: Node) -> NodeId {
        self.nodes.push(node);
        self.nodes.len() - 1
    }

    fn error(&self, reason: String) -> GrammarError {
        self.error_at(self.at, reason)
    }

    fn error_at(&self, at: usize, reason: String) -> GrammarError {
        error_at(self.text, at, reason)
    }
}

fn error_at(text: &str, at: usize, reason: String) -> GrammarError {
    let before = &text[..at];
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().map_or(0, |line| line.chars().count()) + 1;
    GrammarError::Gbnf { line, column, reason }
}

/// Whether a character can be in a name. The underscore is an extension.
pub(super) fn is_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '-' || c == '_'
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A grammar's rules, written out: groups and classes as they were understood.
    fn written(text: &str) -> Vec<String> {
        let rules = Rules::parse(text).unwrap();
        rules.rules.iter().map(|rule| format!("{} = {}", rule.name, node(&rules, rule.body))).collect()
    }

    fn node(rules: &Rules, id: NodeId) -> String {
        let all = |ids: &[NodeId], separator: &str| {
            format!("({})", ids.iter().map(|&id| node(rules, id)).collect::<Vec<_>>().join(separator))
        };
        match &rules.nodes[id] {
            Node::Chars(set) => set.to_string(),
            Node::Rule(id) => rules.rules[*id].name.clone(),
            Node::Sequence(ids) => all(ids, " "),
            Node::Choice(ids) => all(ids, "|"),
            Node::Repeat { node: id, min, max } => {
                format!("{}{{{min},{}}}", node(rules, *id), max.map_or(String::new(), |max| max.to_string()))
            }
        }
    }

    #[track_caller]
    fn refused(text: &str, line: usize, column: usize, part: &str) {
        match Rules::parse(text) {
            Err(GrammarError::Gbnf { line: l, column: c, reason }) => {
                assert_eq!((l, c), (line, column), "{reason}");
                assert!(reason.contains(part), "{reason}");
            }
            other => panic!("{text:?} gave {other:?}"),
        }
    }

    #[test]
    fn rules_alternatives_and_groups() {
        assert_eq!(
            written("root ::= a | \"x\" b\na ::= [0-9]\nb ::= (a | )"),
            ["root = (a|([x] b))", "a = [0-9]", "b = (a|())"]
        );
        assert_eq!(written("root ::= \"\""), ["root = ()"]);
        assert_eq!(written("root ::= "), ["root = ()"]);
        assert_eq!(
            written("my-rule_2 ::= .\nroot ::= my-rule_2"),
            ["my-rule_2 = [\\x{0}-\\x{10ffff}]", "root = my-rule_2"]
        );
    }

    #[test]
    fn newlines_end_rules_except_in_groups_and_after_bars() {
        let text = "# A comment.\r\nroot ::= # why\r\n  (\n \"a\" # first\n | \"b\"\n) |\n \"c\"\r\n\n\nnext::=root";
        assert_eq!(written(text), ["root = (([a]|[b])|[c])", "next = root"]);
        refused("root ::= \"a\"\n | \"b\"", 2, 2, "expected the name of a rule");
    }

    #[test]
    fn repetitions_apply_to_the_item_before_them() {
        assert_eq!(
            written("root ::= \"ab\"* [x]+ root? (\"a\" | \"b\"){2} \"c\" { 3 , } \"d\"{0,4}+"),
            ["root = (([a] [b]){0,} [x]{1,} root{0,1} ([a]|[b]){2,2} [c]{3,} [d]{0,4}{1,})"]
        );
        refused("root ::= *", 1, 10, "nothing before '*'");
        refused("root ::= \"a\"{,3}", 1, 14, "expected a number");
        refused("root ::= \"a\"{3,2}", 1, 13, "at least 3 and at most 2");
        refused("root ::= \"a\"{2147483647}", 1, 14, "below 2147483647");
        refused("root ::= \"a\"{99999999999}", 1, 14, "expected a number");
    }

    #[test]
    fn strings_and_classes_have_escapes() {
        assert_eq!(
            written(r#"root ::= "\"\\\n\t\r\x41\u00e9\U0001F600é""#),
            [r"root = ([\x{22}] [\x{5c}] [\x{a}] [\x{9}] [\x{d}] [A] [\x{e9}] [\x{1f600}] [\x{e9}])"]
        );
        assert_eq!(
            written(r"root ::= [a-cx\]\-] [a-] [^\x00-\x60{-\U0010FFFF]"),
            [r"root = ([\x{2d}\x{5d}a-cx] [\x{2d}a] [a-z])"]
        );
        refused(r#"root ::= "\q""#, 1, 11, "no escape \\q");
        refused(r#"root ::= "\x4""#, 1, 11, "needs 2 hexadecimal digits");
        refused(r#"root ::= "\uD800""#, 1, 11, "no character U+D800");
        refused("root ::= [z-a]", 1, 11, "from 'z' to 'a'");
        refused("root ::= []", 1, 10, "without a character");
        refused(r"root ::= [^\x00-\U0010FFFF]", 1, 10, "leaves no character");
    }

    #[test]
    fn errors_say_where_and_what() {
        refused("", 1, 1, "no rule `root`");
        refused("a ::= root", 1, 1, "no rule `root`");
        refused("root ::= a\nb ::= \"x\"", 1, 10, "no rule `a`");
        refused("root ::= \"a\"\nroot ::= \"b\"", 2, 1, "defined twice");
        refused("root = \"a\"", 1, 6, "expected `::=` and found '='");
        refused("root", 1, 5, "found the end");
        refused("root ::= (\"a\"", 1, 14, "expected `)`");
        refused("root ::= \"a", 1, 10, "string has no end");
        refused("root ::= [a\\", 1, 10, "class has no end");
        refused("root ::= \"é\" %", 1, 14, "'%' is neither");
        refused("root ::= \"x\" | a\na ::= \"y\" a", 1, 16, "no text matches the rule `a`");
        refused("root ::= root", 1, 1, "no text matches the rule `root`");
        refused("root ::= <think>", 1, 10, "tokens by name");
        refused(&format!("root ::= {}", "(".repeat(65)), 1, 74, "64 groups");
        refused(&format!("root ::= {}", "(".repeat(100_000)), 1, 74, "64 groups");
        refused(&format!("root ::= \"a\"{}", "*".repeat(100_000)), 1, 77, "64 repetitions");
        let rules: String = (0..100_000).map(|n| format!("\nr{n} ::= r{}", n + 1)).collect();
        refused(&format!("root ::= r0{rules}"), 10_000, 11, "10000 rules");
    }
}
