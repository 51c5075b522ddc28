use llguidance::derivre::RegexBuilder;
use serde::Deserialize;

use super::search;

#[derive(Deserialize)]
struct Patterns {
    invalid: Vec<String>,
    cases: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    pattern: String,
    matches: Vec<String>,
    others: Vec<String>,
}

/// What Node.js says of patterns and texts: see tests/data/constraints/make_patterns.mjs.
fn golden() -> Patterns {
    serde_json::from_str(include_str!("../../../../../tests/data/constraints/patterns.json")).unwrap()
}

#[test]
fn patterns_match_what_a_javascript_engine_says() {
    let mut wrong = Vec::new();
    for Case { pattern, matches, others } in golden().cases {
        let mut builder = RegexBuilder::new();
        let expression = match search(&pattern) {
            Ok(expression) => builder.mk(&expression).unwrap(),
            Err(reason) => {
                wrong.push(format!("/{pattern}/ is refused: {reason}"));
                continue;
            }
        };
        let mut regex = builder.into_regex_limited(expression, 10_000_000).unwrap();
        wrong
            .extend(matches.iter().filter(|text| !regex.is_match(text)).map(|it| format!("/{pattern}/ misses {it:?}")));
        wrong.extend(others.iter().filter(|text| regex.is_match(text)).map(|it| format!("/{pattern}/ matches {it:?}")));
    }
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn what_is_not_a_pattern_is_refused() {
    for pattern in golden().invalid {
        assert!(search(&pattern).is_err(), "/{pattern}/");
    }
}

#[test]
fn what_is_not_supported_is_named_with_its_place() {
    for (pattern, expected) in [
        ("^(?!x)", "look-ahead `(?!` at character 2"),
        ("a(?=b)", "look-ahead `(?=` at character 2"),
        ("(?<=a)b", "look-behind `(?<=` at character 1"),
        ("(?<!a)b", "look-behind `(?<!` at character 1"),
        (r"\bword\b", r"word boundary `\b` at character 1"),
        (r"a\B", r"word boundary `\B` at character 2"),
        (r"(a)\1", r"back-reference `\1` at character 4"),
        (r"(?<n>a)\k<n>", r"back-reference `\k` at character 8"),
        (r"[\1]", r"octal escape `\1` at character 2"),
        (r"\01", r"octal escape `\0` at character 1"),
        (r"\Aa\z", r"`\A`, which is no escape of ECMA-262 at character 1"),
        ("(?i)a", "a modifier `(?…)` of a group at character 1"),
        ("(?i:a)", "a modifier"),
        (r"\p{Latin}", r"\p{Latin} names no property"),
        (r"\p{lu}", "names no property"),
        (r"\pL", r"`\p` without a property in braces"),
        (r"\xa", r"`\x` without two hexadecimal digits"),
        (r"\u{110000}", r"`\u` without a code point"),
        (r"\c1", r"`\c` without a letter"),
        ("[a--b]", "a range of a class that runs backwards at character 2"),
        ("a{4294967295}", "more than 4294967294 repetitions"),
        ("^*a", "a repeated `^` at character 1"),
    ] {
        let reason = search(pattern).unwrap_err();
        assert!(reason.contains(expected), "/{pattern}/: {reason}");
    }
    let deep = format!("{}a{}", "(".repeat(100_000), ")".repeat(100_000));
    assert!(search(&deep).unwrap_err().contains("more than 100 groups inside of each other"));
    let anchored = format!("{}^{}", "(".repeat(60), "|a)*".repeat(60));
    assert!(search(&anchored).is_err_and(|reason| reason.contains("too many repetitions")), "{anchored}");
}
