//! Flags that constrain answers.

use serde_json::Value;

use crate::support::{argument, zinc, zinc_with_input};

const SCHEMA: &str = r#"{"type": "object", "required": ["kind", "n", "tags"], "additionalProperties": false, "properties": {
    "kind": {"enum": ["instrument", "animal"]}, "n": {"type": "integer", "minimum": 10, "maximum": 99},
    "tags": {"type": "array", "items": {"type": "string", "maxLength": 8}, "minItems": 1, "maxItems": 2}}}"#;

#[test]
fn answers_match_at_every_depth() {
    let question = ["run", "-p", "What is a telescope?", "-n", "200"];
    let run = |arguments: &[&str]| zinc(&[&question, arguments].concat()).success();
    for temperature in [&["--temp", "0"], &["--temp", "1.2", "-s", "3"][..]] {
        let text = run(&[&["-j", SCHEMA], temperature].concat());
        let value: Value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error} in {text}"));
        assert!(["instrument", "animal"].contains(&value["kind"].as_str().unwrap()), "{text}");
        assert!((10..=99).contains(&value["n"].as_u64().unwrap()), "{text}");
        assert!(
            value["tags"].as_array().unwrap().iter().all(|tag| tag.as_str().unwrap().chars().count() <= 8),
            "{text}"
        );
        for how in [&["--depth", "1"], &["--depth", "8"], &["--sync", "fence"]] {
            assert_eq!(run(&[&["-j", SCHEMA], temperature, how].concat()), text, "{how:?}");
        }
    }
    let text = run(&["--regex", "(yes|no)[.]", "--temp", "0"]);
    assert!(["yes.\n", "no.\n"].contains(&&*text), "{text:?}");
    let text = run(&["--grammar", r#"root ::= ("- " [a-z]{1,6} "\n"){2}"#, "--temp", "0"]);
    let lines: Vec<&str> = text.lines().collect();
    // The last newline of the answer, and the one after every answer.
    assert!(
        lines.len() == 3 && lines[2].is_empty() && lines[..2].iter().all(|line| line.starts_with("- ")),
        "{text:?}"
    );
}

#[test]
fn every_answer_of_a_conversation_matches() {
    let text = zinc_with_input(&["chat", "--regex", "ok!{1,3}", "--temp", "0"], "hello\nagain\n").success();
    let answers: Vec<&str> = text.lines().collect();
    assert_eq!(answers.len(), 2, "{text:?}");
    assert!(answers.iter().all(|answer| ["ok!", "ok!!", "ok!!!"].contains(answer)), "{text:?}");
}

#[test]
fn constraints_that_cannot_be_used_are_usage_errors_with_a_place() {
    let cases: [(&[&str], &[&str]); 11] = [
        (&["--json-schema", "{\"type\": }"], &["JSON schema is not JSON", "line 1, column 10"]),
        (&["-j", r#"{"properties": {"a": {"type": "string", "not": {"pattern": "x"}}}}"#], &["/properties/a", "not"]),
        (&["-j", r#"{"pattern": "^((?!x).)*$"}"#], &["look-ahead `(?!` inside of repetitions"]),
        (
            &["-j", r##"{"$ref": "#/$defs/A", "$defs": {"A": {"$ref": "#/$defs/A"}}}"##],
            &["refers to itself without an end"],
        ),
        (&["--regex", "[a&&b]"], &["no text matches"]),
        (&["--regex", "(a"], &["regular expression", "unclosed group"]),
        (&["--regex", "-ctk("], &["regular expression", "unclosed group"]),
        (&["--grammar", "root ::= x"], &["GBNF", "line 1, column 10", "no rule `x`"]),
        (&["--grammar", "start: X"], &["grammar", "at 1("]),
        (&["--grammar", "root ::= \"x\"", "--regex", "x"], &["cannot be used with"]),
        (&["-j", "{}", "-jf", "schema.json"], &["cannot be used with"]),
    ];
    for (arguments, parts) in cases {
        zinc(&[&["run", "-p", "x"], arguments].concat()).failure(2, parts);
        zinc(&[&["chat"], arguments].concat()).failure(2, parts);
    }
}

#[test]
fn files_are_read() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("grammar");
    let path = argument(&path);
    for flag in ["-jf", "--json-schema", "--json-schema-file", "--grammar", "--grammar-file"] {
        zinc(&["run", "-p", "x", flag, &path]).failure(1, &["cannot read", &path]);
    }
    std::fs::write(&path, "# A comment.\nroot ::= y\n").unwrap();
    for flag in ["--grammar", "--grammar-file"] {
        zinc(&["run", "-p", "x", flag, &path]).failure(2, &["GBNF", "line 2, column 10"]);
    }
    zinc(&["run", "-p", "x", "-jf", &path]).failure(2, &["not JSON", "line 1, column 1"]);
}
