//! JSON schemas: defaults, and finding the place of what cannot be used.

use llguidance::TokenParser;
use llguidance::api::TopLevelGrammar;
use serde_json::{Map, Value, json};

use super::error::GrammarError;

/// The key under which a schema can hold llguidance's options.
const OPTIONS: &str = "x-guidance";

/// White space between two tokens of JSON, as llama.cpp has it: enough for one line and for indented lines, and bounded, because models
/// that may write any amount of white space sometimes write nothing else.
const WHITE_SPACE: &str = r" |\n{1,2}[ \t]{0,20}";

/// Schemas to try while looking for the one that cannot be used.
const MAX_TRIALS: usize = 500;

/// Keywords whose value is a schema or, for some, an array of them.
const SCHEMAS: [&str; 8] =
    ["items", "additionalItems", "additionalProperties", "prefixItems", "allOf", "anyOf", "oneOf", "not"];
/// Keywords whose value holds schemas by name. Definitions come first: what refers to them fails with them.
const NAMED_SCHEMAS: [&str; 4] = ["$defs", "definitions", "properties", "patternProperties"];

/// Makes the parser of a schema.
///
/// # Errors
/// [`GrammarError::Json`], [`GrammarError::Schema`].
pub(super) fn compile(
    text: &str,
    parser: impl Fn(TopLevelGrammar) -> Result<TokenParser, String>,
) -> Result<TokenParser, GrammarError> {
    let schema: Value = serde_json::from_str(text).map_err(|error| {
        // The message ends in the place.
        let reason = error.to_string();
        let reason = reason.split(" at line ").next().unwrap_or_default().to_owned();
        GrammarError::Json { line: error.line(), column: error.column(), reason }
    })?;
    let parser = |schema: &Value| parser(TopLevelGrammar::from_json_schema(with_options(schema)));
    parser(&schema).map_err(|reason| {
        let mut trials = MAX_TRIALS;
        let fails = |part: &Value| {
            trials = trials.saturating_sub(1);
            trials > 0 && parser(&with_definitions(part, &schema)).is_err_and(|other| other == reason)
        };
        let pointer = place(&schema, fails);
        GrammarError::Schema { pointer, reason }
    })
}

fn with_options(schema: &Value) -> Value {
    let mut schema = if *schema == Value::Bool(true) { Value::Object(Map::new()) } else { schema.clone() };
    if let Value::Object(keywords) = &mut schema {
        keywords.entry(OPTIONS).or_insert_with(|| json!({ "whitespace_pattern": WHITE_SPACE }));
    }
    schema
}

/// A part of a schema that can be used alone: with the definitions and options of the whole.
fn with_definitions(part: &Value, whole: &Value) -> Value {
    let mut part = part.clone();
    if let (Value::Object(part), Value::Object(whole)) = (&mut part, whole) {
        for key in ["$defs", "definitions", OPTIONS] {
            if let Some(value) = whole.get(key) {
                part.entry(key).or_insert_with(|| value.clone());
            }
        }
    }
    part
}

/// The JSON pointer of the innermost schema that fails as the whole does.
fn place(whole: &Value, mut fails: impl FnMut(&Value) -> bool) -> String {
    let mut pointer = String::new();
    let mut current = whole;
    while let Some((steps, part)) = parts(current).into_iter().find(|(_, part)| fails(part)) {
        pointer.push_str(&steps);
        current = part;
    }
    pointer
}

/// The schemas directly in a schema, with their JSON pointers.
fn parts(schema: &Value) -> Vec<(String, &Value)> {
    let mut parts = Vec::new();
    for key in NAMED_SCHEMAS {
        let named = schema.get(key).and_then(Value::as_object).into_iter().flatten();
        parts
            .extend(named.map(|(name, part)| (format!("/{key}/{}", name.replace('~', "~0").replace('/', "~1")), part)));
    }
    for key in SCHEMAS {
        match schema.get(key) {
            Some(Value::Array(all)) => {
                parts.extend(all.iter().enumerate().map(|(index, part)| (format!("/{key}/{index}"), part)));
            }
            Some(part @ Value::Object(_)) => parts.push((format!("/{key}"), part)),
            _ => {}
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_innermost_schema_that_fails_is_found() {
        let schema = json!({
            "properties": { "a": { "type": "string" }, "b/c": { "anyOf": [{}, { "items": { "not": 1, "bad": true } }] } }
        });
        let bad = |part: &Value| part.to_string().contains("bad");
        assert_eq!(place(&schema, bad), "/properties/b~1c/anyOf/1/items");
        assert_eq!(place(&json!({ "bad": true }), bad), "");
    }

    #[test]
    fn options_of_the_schema_are_kept() {
        assert_eq!(with_options(&json!({}))[OPTIONS]["whitespace_pattern"], WHITE_SPACE);
        let own = json!({ "x-guidance": { "whitespace_flexible": false } });
        assert_eq!(with_options(&own), own);
        assert_eq!(with_options(&json!(true)), with_options(&json!({})));
    }
}
