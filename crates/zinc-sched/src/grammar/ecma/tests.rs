use llguidance::derivre::RegexBuilder;
use serde::Deserialize;

use super::search;

#[derive(Deserialize)]
struct Patterns {
    invalid: Vec<String>,
    cases: Vec<Case>,
    looks: Vec<Case>,
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

/// What is wrong with a pattern's expression, and `Err` with the reason of a refusal.
fn wrong(Case { pattern, matches, others }: &Case) -> Result<Vec<String>, String> {
    let mut builder = RegexBuilder::new();
    let expression = builder.mk(&search(pattern)?).unwrap();
    let mut regex = builder.into_regex_limited(expression, 10_000_000).unwrap();
    let mut is_match = |text: &&String| regex.is_match(text);
    let missed: Vec<_> =
        matches.iter().filter(|text| !is_match(text)).map(|it| format!("/{pattern}/ misses {it:?}")).collect();
    let found = others.iter().filter(is_match).map(|it| format!("/{pattern}/ matches {it:?}"));
    Ok(missed.into_iter().chain(found).collect())
}

#[test]
fn patterns_match_what_a_javascript_engine_says() {
    let refused = |case: &Case, reason| vec![format!("/{}/ is refused: {reason}", case.pattern)];
    let found =
        golden().cases.into_iter().flat_map(|case| wrong(&case).unwrap_or_else(|reason| refused(&case, reason)));
    let found: Vec<String> = found.collect();
    assert!(found.is_empty(), "{} wrong:\n{}", found.len(), found.join("\n"));
}

/// Patterns with look-around are exact or refused by name, and few are refused.
#[test]
fn looks_match_what_a_javascript_engine_says() {
    let cases = golden().looks;
    let (mut found, mut refused) = (Vec::new(), 0);
    for case in &cases {
        match wrong(case) {
            Ok(wrong) => found.extend(wrong),
            Err(reason) => {
                assert!(reason.starts_with("look-"), "/{}/ is refused: {reason}", case.pattern);
                refused += 1;
            }
        }
    }
    assert!(found.is_empty(), "{} wrong:\n{}", found.len(), found.join("\n"));
    assert!(cases.len() >= 200 && refused * 5 < cases.len(), "{refused} of {} are refused", cases.len());
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
        ("^(?:(?!x)y)*$", "look-ahead `(?!` inside of repetitions"),
        ("^(?:a|(?<=b)c)+$", "look-behind `(?<=` inside of repetitions"),
        ("^(?:(?=a)|b){9}$", "look-ahead `(?=` inside of repetitions"),
        ("^(?:(?=a)|b){8}$", "look-ahead `(?=` among too many alternatives"),
        ("^a(?=b).(?<!ab)", "look-ahead `(?=` in the middle, with look-behind after it"),
        ("a(?=^b)", "look-ahead `(?=` in the middle, with `^` or look-behind after it or `$` before it"),
        ("(?<=a$)b", "look-behind `(?<=` with `$` or another look inside of it"),
        ("a(?=b)*", "a repeated look-ahead `(?=` at character 2"),
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
