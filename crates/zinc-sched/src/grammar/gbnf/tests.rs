use std::collections::HashSet;
use std::fmt::Write as _;

use llguidance::TokenParser;
use llguidance::api::{GrammarInit, TopLevelGrammar};
use proptest::prelude::*;

use super::*;
use crate::grammar::bytes;

fn parser(gbnf: &str) -> TokenParser {
    let lark = to_lark(gbnf).unwrap();
    let parser = bytes::parser(GrammarInit::Serialized(TopLevelGrammar::from_lark(lark.clone())));
    parser.unwrap_or_else(|error| panic!("{error} in {lark}"))
}

/// Whether a text matches; `None` if no text that starts with it does.
fn matches(gbnf: &str, text: &str) -> Option<bool> {
    bytes::matches(&parser(gbnf), text)
}

#[track_caller]
fn check(gbnf: &str, whole: &[&str], beginnings: &[&str], neither: &[&str]) {
    for text in whole {
        assert_eq!(matches(gbnf, text), Some(true), "{text:?} under {gbnf}");
    }
    for text in beginnings {
        assert_eq!(matches(gbnf, text), Some(false), "{text:?} under {gbnf}");
    }
    for text in neither {
        assert_eq!(matches(gbnf, text), None, "{text:?} under {gbnf}");
    }
}

/// JSON, with white space of any length after each token.
const JSON: &str = r#"
root   ::= ws value
value  ::= object | array | string | number | ("true" | "false" | "null") ws
object ::= "{" ws (member ("," ws member)*)? "}" ws
member ::= string ":" ws value
array  ::= "[" ws (value ("," ws value)*)? "]" ws
string ::= "\"" ([^"\\\x00-\x1f] | "\\" (["\\/bfnrt] | "u" [0-9a-fA-F]{4}))* "\"" ws
number ::= "-"? ("0" | [1-9] [0-9]*) ("." [0-9]+)? ([eE] [-+]? [0-9]+)? ws
ws     ::= [ \t\n]*
"#;

/// Sums in lines: white space eats the newline that ends a line, if it may.
const SUMS: &str = r#"
root ::= (expr "=" ws term "\n")+
expr ::= term ([-+*/] term)*
term ::= name | number | "(" ws expr ")" ws
name ::= [a-z] [a-z0-9_]* ws
number ::= [0-9]+ ws
ws ::= [ \t\n]*
"#;

#[test]
fn grammars_without_recursion_are_one_lexeme() {
    let text = "root ::= item+ # a list\nitem ::= \"- \" [^\\n]+ \"\\n\"";
    let expected = "start: r0\n// root\nr0: L0\nL0: (T1{1,})\n// item\n\
                    T1: (/[\\x{2d}]/ /[\\x{20}]/ (/[\\x{0}-\\x{9}\\x{b}-\\x{10ffff}]/{1,}) /[\\x{a}]/)\n";
    let lark = to_lark(text).unwrap();
    assert_eq!(lark, expected, "{lark}");
}

#[test]
fn strings_and_numbers_of_json_stay_lexemes() {
    let lark = to_lark(JSON).unwrap();
    assert!(!lark.lines().any(|line| line.starts_with('r') && line.contains("{0,}) L")), "{lark}");
    // One for strings, numbers and the three words; the brackets; the commas; a key with its colon.
    assert!(lark.lines().filter(|line| line.starts_with('L')).count() <= 10, "{lark}");
    check(
        JSON,
        &["{}", " [1, -2.5e+3 , \"a\\u00e9é\"] ", "{\"a\": [{}, null], \"b\":{\"c\":true}}\n", "0"],
        &["", "{\"a\"", "[1,", "\"abc", "-", "tru"],
        &["{a", "[1,]", "01", "nul1", "]", "\"\\x"],
    );
}

#[test]
fn greed_loses_nothing() {
    check("root ::= [a-z]* \"x\"", &["x", "ax", "xx", "xax"], &["", "a", "xa"], &["1"]);
    // A recursion keeps the letters and the x from being one lexeme.
    check(
        "root ::= [a-z]* \"x\" tail\ntail ::= \"(\" tail \")\" | \"!\"",
        &["x!", "axbx(!)"],
        &["xx", "x(("],
        &["!", "a!"],
    );
    check(
        "root ::= (\"ab\" | \"a\") tail\ntail ::= \"bc\" tail | \"c\" tail | \"\"",
        &["ab", "abc", "abcbc", "ac"],
        &["abb"],
        &["b"],
    );
    check(
        "root ::= \"int\" tail | \"integer\" tail\ntail ::= \"eger\" tail | \"\"",
        &["int", "integer", "integereger"],
        &["inte"],
        &["intx"],
    );
    check(SUMS, &["a=1\n", "a +(b*12) = c \nx=y\n\n"], &["a=1", "(a", "a=1 "], &["=", "a=1=", "a b"]);
}

#[test]
fn recursion_of_every_kind() {
    check("root ::= root \"x\" | \"y\"", &["y", "yxx"], &[""], &["x", "yy"]);
    check("root ::= \"x\" root | \"\"", &["", "xxx"], &[], &["y"]);
    check("root ::= \"x\" root \"y\" | \"\"", &["", "xxyy"], &["xxy"], &["xyx"]);
    check("root ::= a a\na ::= b | \"\"\nb ::= \"x\" a", &["", "x", "xxx"], &[], &["y"]);
    check("root ::= ([ \\t\\n] root)?", &["", " \n"], &[], &["x"]);
}

#[test]
fn repetitions_count() {
    check("root ::= \"ab\"{2,3}", &["abab", "ababab"], &["ab", "aba"], &["abababa"]);
    check("root ::= (\"a\" root){2} | \"b\"", &["b", "abab", "abaabab"], &["ab"], &["bb"]);
    check("root ::= \"a\"{0} \"b\"{0,0} (\"c\" root){0} \"d\"", &["d"], &[""], &["a", "b", "c"]);
    check("root ::= (\"(\" root \")\"){2,} | .{1,2}", &["xé", "(a)(b)", "(("], &["(a)(b)((", "((a)("], &["xyz"]);
}

#[test]
fn characters_beyond_ascii() {
    check("root ::= [é語-誟😀] root | \"\\u00fc\"", &["ü", "é語😀ü"], &["誟"], &["a", "誝"]);
    check("root ::= [^a] root | \"a\"", &["a", "語a"], &["\u{10ffff}"], &["aa"]);
}

#[test]
fn rules_that_double_are_not_written_out() {
    let mut text = "root ::= r0\nr64 ::= \"x\"?\n".to_owned();
    for rule in 0..64 {
        let _ = writeln!(text, "r{rule} ::= r{next} r{next}", next = rule + 1);
    }
    assert_eq!(Rules::parse(&text).unwrap().rules.len(), 66);
    assert!(to_lark(&text).unwrap().len() < 10_000);
}

#[test]
fn alternatives_may_be_the_same_characters_in_other_groups() {
    for text in [
        "root ::= \"xy\" \"x\" | \"x\" \"yx\"",
        "root ::= b\na ::= \"x\" \"yx\"\nb ::= (\"xy\" \"x\" | a)",
        "root ::= a \"x\" | \"xyx\"\na ::= \"xy\"",
        "root ::= \"x\" a | \"xyx\"\na ::= \"yx\"",
        "root ::= (a b | b c) \"z\"?\na ::= \"x\" \"y\"\nb ::= \"x\" \"y\"\nc ::= (\"x\" \"y\")",
        "root ::= ((\"x\" \"y\") \"x\" | \"x\" (\"y\" \"x\")) \"yx\"?",
    ] {
        let accepted = ["xyx", "xyxy", "xyxyx"].map(|given| matches(text, given));
        assert!(accepted.contains(&Some(true)), "{text}: {accepted:?}");
        assert_eq!(matches(text, "yx"), None, "{text}");
    }
}

#[test]
fn gbnf_is_known_by_its_first_rule() {
    assert!(is_gbnf("root ::= \"x\"") && is_gbnf("# c\r\n\n # d\n my-rule::=x"));
    assert!(!is_gbnf("start: \"::=\"") && !is_gbnf("") && !is_gbnf("::= x") && !is_gbnf("// ::=\nstart: x"));
}

/// What a grammar says of a text by its definition: all stacks of what is still to come, as llama.cpp has them.
struct Reference {
    rules: Rules,
    stacks: HashSet<Vec<Task>>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Task {
    Node(NodeId),
    /// That many more times, and so many of them may be left out.
    Repeat(NodeId, u32, Option<u32>),
}

impl Reference {
    const MAX_TASKS: usize = 40;
    const MAX_STACKS: usize = 2000;

    /// `None` if a rule has no text, or there are too many stacks.
    fn new(text: &str) -> Option<Self> {
        let rules = Rules::parse(text).ok()?;
        let start = vec![Task::Node(rules.rules[rules.root].body)];
        let mut reference = Self { rules, stacks: HashSet::new() };
        reference.stacks = reference.expand(vec![start])?;
        Some(reference)
    }

    /// The stacks that begin with a character, or are empty; `None` if they are too many.
    fn expand(&mut self, mut queue: Vec<Vec<Task>>) -> Option<HashSet<Vec<Task>>> {
        let (mut seen, mut done) = (HashSet::new(), HashSet::new());
        while let Some(stack) = queue.pop() {
            if seen.len() > Self::MAX_STACKS {
                return None;
            }
            if stack.len() > Self::MAX_TASKS {
                // As long as the texts are short, no grammar needs as many.
                continue;
            }
            if !seen.insert(stack.clone()) {
                continue;
            }
            let mut rest = stack.clone();
            match rest.pop() {
                None => drop(done.insert(stack)),
                Some(Task::Repeat(node, min, max)) => {
                    if min == 0 {
                        queue.push(rest.clone());
                    }
                    if max != Some(0) {
                        rest.push(Task::Repeat(node, min.saturating_sub(1), max.map(|max| max - 1)));
                        rest.push(Task::Node(node));
                        queue.push(rest);
                    }
                }
                Some(Task::Node(node)) => match &self.rules.nodes[node] {
                    Node::Chars(_) => drop(done.insert(stack)),
                    Node::Rule(rule) => queue.push([rest, vec![Task::Node(self.rules.rules[*rule].body)]].concat()),
                    Node::Sequence(ids) => {
                        rest.extend(ids.iter().rev().map(|&id| Task::Node(id)));
                        queue.push(rest);
                    }
                    Node::Choice(ids) => queue.extend(ids.iter().map(|&id| [&rest[..], &[Task::Node(id)]].concat())),
                    &Node::Repeat { node, min, max } => queue.push([rest, vec![Task::Repeat(node, min, max)]].concat()),
                },
            }
        }
        Some(done)
    }

    fn accepts(&self) -> bool {
        self.stacks.contains(&Vec::new())
    }

    /// The stacks after a character.
    fn after(&mut self, c: char) -> Option<HashSet<Vec<Task>>> {
        let mut next = Vec::new();
        for stack in &self.stacks {
            if let Some((Task::Node(node), rest)) = stack.split_last()
                && let Node::Chars(set) = &self.rules.nodes[*node]
                && set.contains(c)
            {
                next.push(rest.to_vec());
            }
        }
        self.expand(next)
    }
}

/// The right side of a rule over three letters and the rules `root`, `a` and `b`.
fn right_side() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        4 => prop::sample::select(vec!["\"x\"", "\"y\"", "[xy]", "[^x]", "\"xy\"", "\"yx\"", "\"\""]),
        2 => prop::sample::select(vec!["root", "a", "b"]),
    ];
    leaf.prop_map(str::to_owned).prop_recursive(4, 16, 3, |inner| {
        let repeat = prop::sample::select(vec!["*", "+", "?", "{2}", "{1,3}", "{0,2}"]);
        prop_oneof![
            3 => prop::collection::vec(inner.clone(), 1..4).prop_map(|items| items.join(" ")),
            2 => prop::collection::vec(inner.clone(), 2..4).prop_map(|items| format!("({})", items.join(" | "))),
            2 => (inner, repeat).prop_map(|(item, repeat)| format!("({item}){repeat}")),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(400) })]

    /// At every step the parser of the translation allows what the grammar's definition allows, and accepts when that does.
    #[test]
    fn translations_are_exact(
        sides in prop::array::uniform3(right_side()),
        choices in prop::collection::vec(0usize..3, 5),
    ) {
        let text = format!("root ::= {}\na ::= {}\nb ::= {}\n", sides[0], sides[1], sides[2]);
        let Some(mut reference) = Reference::new(&text) else { return Ok(()) };
        let mut parser = parser(&text);
        let mut seen = String::new();
        for choice in choices {
            prop_assert_eq!(parser.is_accepting(), reference.accepts(), "after {:?} of {}", seen, text);
            let mut allowed = Vec::new();
            for c in ['x', 'y', 'z'] {
                let Some(after) = reference.after(c) else { return Ok(()) };
                let expected = !after.is_empty();
                let found = parser.validate_token(u32::from(c)).unwrap();
                prop_assert_eq!(found, expected, "{} after {:?} of {}", c, seen, text);
                if expected {
                    allowed.push((c, after));
                }
            }
            if allowed.is_empty() {
                break;
            }
            let (c, after) = allowed.swap_remove(choice % allowed.len());
            seen.push(c);
            reference.stacks = after;
            parser.consume_token(u32::from(c)).unwrap();
        }
    }
}
