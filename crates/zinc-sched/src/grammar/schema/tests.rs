use llguidance::TokenParser;
use proptest::prelude::*;
use serde::Deserialize;

use super::*;
use crate::grammar::{bytes, emptiness};

/// What jsonschema says of a schema and texts: see tests/data/constraints/make_schemas.py.
#[derive(Deserialize)]
struct Case {
    kind: String,
    schema: String,
    valid: Vec<String>,
    invalid: Vec<String>,
}

fn golden(kind: &str) -> Vec<Case> {
    let text = include_str!("../../../../../tests/data/constraints/schemas.json");
    let cases: Vec<Case> = serde_json::from_str(text).unwrap();
    cases.into_iter().filter(|case| case.kind == kind).collect()
}

fn parser(schema: &str) -> Result<TokenParser, GrammarError> {
    let parser = bytes::parser(grammar(schema)?).unwrap_or_else(|error| panic!("{error} in {schema}"));
    assert_eq!(emptiness::dead_end(&parser, bytes::BYTES.limits()), Ok(None), "{schema}");
    Ok(parser)
}

fn refusal(schema: &str) -> (String, String) {
    match parser(schema) {
        Err(GrammarError::Schema { pointer, reason }) => (pointer, reason),
        Err(error) => panic!("{error} in {schema}"),
        Ok(_) => panic!("{schema} is accepted"),
    }
}

/// Checks that the texts of a kind are allowed exactly if they are valid.
#[track_caller]
fn check(kind: &str) {
    let cases = golden(kind);
    assert!(cases.len() >= 5);
    let mut wrong = Vec::new();
    for Case { schema, valid, invalid, .. } in cases {
        let parser = match parser(&schema) {
            Ok(parser) => parser,
            Err(error) => {
                wrong.push(format!("{schema}: {error}"));
                continue;
            }
        };
        let is_allowed = |text: &&String| bytes::matches(&parser, text) == Some(true);
        wrong.extend(valid.iter().filter(|text| !is_allowed(text)).map(|text| format!("{schema} misses {text}")));
        wrong.extend(invalid.iter().filter(is_allowed).map(|text| format!("{schema} allows {text}")));
    }
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn numbers_are_exact_digit_by_digit() {
    check("numbers");
}

#[test]
fn references_lead_where_they_say() {
    check("references");
}

#[test]
fn what_restricts_nothing_is_accepted() {
    check("loose");
}

#[test]
fn alternatives_that_exclude_each_other_are_one_of() {
    check("oneOf");
}

#[test]
fn objects_and_arrays() {
    check("objects");
}

#[test]
fn patterns_of_strings() {
    check("patterns");
}

#[test]
fn formats_allow_nothing_that_is_invalid() {
    check("formats");
}

/// What is accepted is exact, what is said to have no value has none, and what else is refused is a `oneOf`.
#[test]
fn random_schemas_allow_what_is_valid() {
    let (mut compiled, mut checked) = (0, 0);
    for Case { schema, valid, invalid, .. } in golden("random") {
        let parser = match parser(&schema) {
            Ok(parser) => parser,
            Err(error) if error.to_string().contains("no value matches it") => {
                assert!(valid.is_empty(), "{error}, but {valid:?} do: {schema}");
                continue;
            }
            Err(error) => {
                assert!(error.to_string().contains("of `oneOf` may both match a value"), "{error}: {schema}");
                continue;
            }
        };
        compiled += 1;
        for (texts, allowed) in [(valid, true), (invalid, false)] {
            for text in texts {
                assert_eq!(bytes::matches(&parser, &text) == Some(true), allowed, "{text} under {schema}");
                checked += 1;
            }
        }
    }
    assert!(compiled > 120 && checked > 1000, "{compiled} compiled, {checked} checked");
}

#[test]
fn what_no_value_matches_is_found_with_its_place() {
    for (schema, pointer, reason) in [
        (r##"{"$ref": "#/$defs/A", "$defs": {"A": {"$ref": "#/$defs/A"}}}"##, "", "refers to itself without an end"),
        (r##"{"$ref": "#"}"##, "", "refers to itself"),
        (
            r##"{"type": "object", "required": ["a"], "properties": {"a": {"$ref": "#"}}}"##,
            "/properties/a",
            "without an end",
        ),
        (r##"{"type": "array", "minItems": 1, "items": {"$ref": "#"}}"##, "/items", "without an end"),
        (r#"{"enum": []}"#, "", "offers no alternative"),
        (r#"{"anyOf": []}"#, "", "offers no alternative"),
        ("false", "", "no value matches"),
        (r#"{"not": {}}"#, "", "excludes every type"),
        (r#"{"type": "integer", "minimum": 3, "maximum": 2}"#, "", "bounds leave nothing"),
        (r#"{"type": "integer", "exclusiveMinimum": 3, "exclusiveMaximum": 4}"#, "", "bounds leave nothing"),
        (r#"{"type": "number", "minimum": 3, "exclusiveMaximum": 3}"#, "", "bounds leave nothing"),
        (r#"{"type": "integer", "multipleOf": 7, "minimum": 8, "maximum": 13}"#, "", "bounds leave nothing"),
        (
            r#"{"type": "number", "multipleOf": 0.3, "exclusiveMinimum": 0.3, "maximum": 0.5}"#,
            "",
            "bounds leave nothing",
        ),
        (r#"{"type": "string", "minLength": 3, "maxLength": 2}"#, "", "bounds leave nothing"),
        (r#"{"type": "string", "pattern": "^[]$"}"#, "", "bounds leave nothing"),
        (r#"{"type": "string", "pattern": "a$b"}"#, "", "bounds leave nothing"),
        (r#"{"type": "string", "pattern": "^abc$", "maxLength": 2}"#, "", "bounds leave nothing"),
        (r#"{"allOf": [{"type": "string"}, {"type": "null"}]}"#, "", "excludes every type"),
        (r#"{"allOf": [{"const": 1}, {"const": 2}]}"#, "", "bounds leave nothing"),
        (r#"{"const": "abc", "maxLength": 2}"#, "", "bounds leave nothing"),
        (
            r#"{"type": "object", "required": ["a"], "properties": {"a": false}}"#,
            "/properties/a",
            "excludes every type",
        ),
        (
            r#"{"type": "object", "required": ["a"], "additionalProperties": false}"#,
            "/additionalProperties",
            "excludes every type",
        ),
        (r#"{"type": "object", "minProperties": 2, "maxProperties": 1}"#, "", "bounds leave nothing"),
        (r#"{"type": "object", "required": ["a", "b"], "maxProperties": 1}"#, "", "bounds leave nothing"),
        (r#"{"type": "array", "minItems": 2, "maxItems": 1}"#, "", "bounds leave nothing"),
        (r#"{"type": "array", "minItems": 2, "prefixItems": [{}], "items": false}"#, "/items", "excludes every type"),
        (
            r#"{"properties": {"a": {"items": {"minimum": 2, "maximum": 1, "type": "number"}, "minItems": 1, "type": "array"}},
                "type": "object", "required": ["a"]}"#,
            "/properties/a/items",
            "bounds leave nothing",
        ),
    ] {
        let (found, why) = refusal(schema);
        assert!(
            found == pointer && why.contains("no value matches it") && why.contains(reason),
            "{schema}: {found}: {why}"
        );
    }
    // What may be left out may be impossible.
    let parser = parser(
        r##"{"type": "object", "properties": {"a": {"$ref": "#/properties/a"}}, "additionalProperties": false}"##,
    );
    assert_eq!(bytes::matches(&parser.unwrap(), "{}"), Some(true));
}

#[test]
fn what_cannot_be_used_is_refused_with_its_place() {
    for (schema, pointer, reason) in [
        (r#"{"minimum": 1E400}"#, "", "more than 400 digits"),
        (r#"{"const": 1E99999999999}"#, "/const", "exponent of more than 32 bits"),
        (r#"{"multipleOf": 0}"#, "", "more than 0"),
        (r#"{"multipleOf": 1.234567890123}"#, "", "more digits than are supported"),
        (r#"{"properties": {"a": {"type": "strin"}}}"#, "/properties/a", "there is no type \"strin\""),
        (r#"{"items": {"not": {"pattern": "x"}}}"#, "/items", "`not` is not supported"),
        (r#"{"if": {"type": "string"}, "then": {"minLength": 1}}"#, "", "`if` is not supported with `then` or `else`"),
        (r#"{"uniqueItems": true}"#, "", "`uniqueItems` is not supported"),
        (r#"{"contains": {"const": 1}}"#, "", "`contains` is not supported"),
        (r#"{"dependentRequired": {"a": ["b"]}}"#, "", "`dependentRequired` is not supported"),
        (r##"{"$dynamicRef": "#a"}"##, "", "`$dynamicRef` is not supported"),
        (r#"{"oneOf": [{"type": "integer"}, {"minimum": 3}]}"#, "/oneOf", "alternatives 0 and 1"),
        (r#"{"minProperties": 2, "type": "object"}"#, "", "`minProperties` is 2"),
        (r#"{"maxLength": 1.5}"#, "", "`maxLength` must be a whole number"),
        (r#"{"minItems": -1}"#, "", "`minItems` must be a whole number"),
        (r#"{"required": "a"}"#, "", "`required` must be an array of strings"),
        (r#"{"items": 3}"#, "/items", "a schema is an object, true or false, not 3"),
        ("3", "", "a schema is an object, true or false"),
        (
            r#"{"pattern": "((?!x).)+"}"#,
            "",
            "the pattern \"((?!x).)+\" cannot be used: look-ahead `(?!` inside of repetitions",
        ),
        (r#"{"patternProperties": {"(a)\\1": {}}}"#, "", "back-reference `\\1`"),
        (r##"{"$ref": "#/$defs/x", "$defs": {"y": {}}}"##, "", "there is no \"x\" in \"/$defs\""),
        (r##"{"$ref": "#/$defs/a~2b", "$defs": {}}"##, "", "`~` that is followed neither by 0 nor by 1"),
        (r##"{"$ref": "#/%zz"}"##, "", "`%` without two hexadecimal digits"),
        (r#"{"items": {"$ref": "https://example.org/s"}}"#, "/items", "https://example.org/s"),
        (r##"{"$ref": "#word"}"##, "", "names an anchor that is not in this schema"),
        (r#"{"x-guidance": {"white": 1}}"#, "/x-guidance/white", "there is no option `white`"),
    ] {
        let (found, why) = refusal(schema);
        assert!(found == pointer && why.contains(reason), "{schema}: {found}: {why}");
    }
}

#[test]
fn depth_and_size_end_in_a_grammar_or_an_error() {
    // A thousand objects each of which refers to the next, and as many references in a row.
    let chain = |link: &dyn Fn(usize) -> String, count: usize| {
        let links: Vec<String> = (0..count).map(|n| format!(r#""d{n}": {}"#, link(n + 1))).collect();
        format!(r##"{{"$ref": "#/$defs/d0", "$defs": {{{}, "d{count}": {{"const": 1}}}}}}"##, links.join(","))
    };
    let object = |next: usize| {
        format!(
            r##"{{"type": "object", "properties": {{"a": {{"$ref": "#/$defs/d{next}"}}}}, "required": ["a"], "additionalProperties": false}}"##
        )
    };
    let text = format!("{}1{}", r#"{"a":"#.repeat(1000), "}".repeat(1000));
    assert_eq!(bytes::matches(&parser(&chain(&object, 1000)).unwrap(), &text), Some(true));
    let reference = |next: usize| format!(r##"{{"$ref": "#/$defs/d{next}"}}"##);
    assert_eq!(bytes::matches(&parser(&chain(&reference, 1000)).unwrap(), "1"), Some(true));
    assert!(refusal(&chain(&reference, 20_000)).1.contains("references follow each other"));
    let all = |next: usize| format!(r##"{{"allOf": [{{"$ref": "#/$defs/d{next}"}}, {{"$ref": "#/$defs/d{next}"}}]}}"##);
    assert_eq!(bytes::matches(&parser(&chain(&all, 1000)).unwrap(), "1"), Some(true));
    // Forty schemas of two alternatives each have 2^40 combinations, more than the compiler looks at.
    let any: Vec<String> =
        (0..40).map(|n| format!(r#"{{"anyOf": [{{"minimum": {n}}}, {{"minLength": {n}}}]}}"#)).collect();
    assert!(refusal(&format!(r#"{{"allOf": [{}]}}"#, any.join(","))).1.contains("combinations"));
    let deep = |open: &str, close: &str| format!("{}1{}", open.repeat(100_000), close.repeat(100_000));
    for schema in [deep("[", "]"), deep(r#"{"items":"#, "}"), format!(r#"{{"const": {}}}"#, deep("[", "]"))] {
        assert!(matches!(parser(&schema), Err(GrammarError::Json { .. })));
    }
    let deep = format!("{}true{}", r#"{"items":"#.repeat(500), "}".repeat(500));
    assert_eq!(bytes::matches(&parser(&deep).unwrap(), "[[[]]]"), Some(true));
    let long = format!(r#"{{"const": "{}"}}"#, "a".repeat(100_000));
    assert_eq!(bytes::matches(&parser(&long).unwrap(), "\"aaa"), Some(false));
    let count = r#"{"type": "array", "maxItems": 4000000000, "items": {"type": "string", "maxLength": 99999999999}}"#;
    assert_eq!(bytes::matches(&parser(count).unwrap(), "[\"a\",\"b\"]"), Some(true));
    let wide: Vec<String> = (0..3000).map(|n| format!(r#""p{n}": {{"type": "integer"}}"#)).collect();
    let wide = format!(r#"{{"type": "object", "properties": {{{}}}}}"#, wide.join(","));
    assert_eq!(bytes::matches(&parser(&wide).unwrap(), r#"{"p0":1,"p2999":2}"#), Some(true));
}

#[test]
fn options_set_how_values_are_written() {
    let allowed = |options: &str, text: &str| {
        let schema = format!(r#"{{"x-guidance": {options}, "type": "array", "items": {{"enum": [1, "\n"]}}}}"#);
        bytes::matches(&parser(&schema).unwrap(), text) == Some(true)
    };
    assert!(allowed("{}", "[1, 1,\n  1]") && !allowed("{}", "[1,   1]"));
    assert!(allowed(r#"{"whitespace_flexible": true}"#, "[1,   1]"));
    assert!(!allowed(r#"{"whitespace_flexible": false}"#, "[1, 1]"));
    assert!(allowed(r#"{"whitespace_pattern": "_"}"#, "[1,_1]"));
    assert!(allowed(r#"{"item_separator": ", "}"#, "[1, 1]"));
    assert!(allowed("{}", r#"["\u000a"]"#) && !allowed(r#"{"json_allowed_escapes": "n"}"#, r#"["\u000a"]"#));
    let overlap = r#"{"x-guidance": {"coerce_one_of": true}, "oneOf": [{"type": "integer"}, {"minimum": 3}]}"#;
    assert_eq!(bytes::matches(&parser(overlap).unwrap(), "4"), Some(true));
}

/// JSON texts that look like schemas: keywords with values of any kind, right or wrong.
fn some_schema() -> impl Strategy<Value = String> {
    let keyword = prop::sample::select(vec![
        "type",
        "const",
        "enum",
        "allOf",
        "anyOf",
        "oneOf",
        "not",
        "if",
        "then",
        "$ref",
        "$defs",
        "minimum",
        "maximum",
        "exclusiveMinimum",
        "exclusiveMaximum",
        "multipleOf",
        "minLength",
        "maxLength",
        "pattern",
        "format",
        "items",
        "prefixItems",
        "minItems",
        "maxItems",
        "uniqueItems",
        "contains",
        "properties",
        "patternProperties",
        "additionalProperties",
        "propertyNames",
        "required",
        "minProperties",
        "maxProperties",
        "unevaluatedProperties",
        "x-guidance",
        "a",
        "b",
    ]);
    let leaf = prop::sample::select(vec![
        "null",
        "true",
        "false",
        "0",
        "-1",
        "2",
        "3.5",
        "1e300",
        "-0.0",
        "\"a\"",
        "\"string\"",
        "\"object\"",
        "\"array\"",
        "\"integer\"",
        "\"#\"",
        "\"#/$defs/a\"",
        "\"#/items/0\"",
        "\"^a$|b\"",
        "\"(\"",
        "\"date\"",
        "[]",
        "{}",
        "[\"a\", \"b\"]",
        "[\"number\", \"object\"]",
    ]);
    leaf.prop_map(str::to_owned).prop_recursive(4, 24, 4, move |inner| {
        let members = prop::collection::vec((keyword.clone(), inner.clone()), 0..4);
        let object = members.prop_map(|members| {
            let members: Vec<String> = members.iter().map(|(key, value)| format!("\"{key}\": {value}")).collect();
            format!("{{{}}}", members.join(", "))
        });
        let array = prop::collection::vec(inner, 0..3).prop_map(|items| format!("[{}]", items.join(", ")));
        prop_oneof![4 => object, 1 => array]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(300) })]

    /// Whatever looks like a schema becomes a grammar that some text matches, or an error; each text that a walk ends in is JSON.
    #[test]
    fn no_schema_makes_the_compiler_panic(schema in some_schema(), draws in prop::collection::vec(any::<u8>(), 60)) {
        let Ok(grammar) = grammar(&schema) else { return Ok(()) };
        let mut parser = bytes::parser(grammar).unwrap_or_else(|error| panic!("{error} in {schema}"));
        let mut text = Vec::new();
        for draw in draws {
            if parser.is_accepting() {
                let text = String::from_utf8(text).unwrap();
                prop_assert!(serde_json::from_str::<&serde_json::value::RawValue>(&text).is_ok(), "{} under {}", text, schema);
                break;
            }
            let mask = parser.compute_mask().unwrap_or_else(|error| panic!("{error} in {schema}"));
            let next: Vec<u32> = (0..256).filter(|&byte| mask.is_allowed(byte)).collect();
            prop_assert!(!next.is_empty(), "nothing may follow {:?} under {}", text, schema);
            let byte = next[usize::from(draw) % next.len()];
            parser.consume_token(byte).unwrap();
            text.push(byte as u8);
        }
    }
}
