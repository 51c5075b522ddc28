//! Flags that constrain answers, up to where a model would be loaded.

use crate::support::{argument, zinc};

#[test]
fn constraints_that_cannot_be_used_are_usage_errors_with_a_place() {
    let cases: [(&[&str], &[&str]); 8] = [
        (&["--json-schema", "{\"type\": }"], &["JSON schema is not JSON", "line 1, column 10"]),
        (
            &["-j", r#"{"properties": {"a": {"type": "string", "not": {}}}}"#],
            &["/properties/a", "not"],
        ),
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
