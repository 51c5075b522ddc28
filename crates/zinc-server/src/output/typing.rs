//! The type of an argument that comes as plain text, by the schema of the tool.
//!
//! Schemas are read as far as they say what type a value has: `type`, `enum`, `const`, `$ref` within the schema, `allOf`, `anyOf`, `oneOf`, and
//! `nullable`. All else restricts nothing here.

use std::cell::OnceCell;

use serde_json::Value;

use super::Tool;
use super::held::is_space;
use super::json::{Scan, Scanner, quoted, write_char};

/// Schemas that are looked at to decide about one value. If that is not enough, the value may have any type.
const MAX_SCHEMAS: u32 = 2_000;
/// Schemas in each other that are looked at. References may form circles.
const MAX_DEPTH: u32 = 64;

/// The type of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Null,
    Boolean,
    /// A number without a fraction.
    Integer,
    /// A number that may have a fraction.
    Number,
    String,
    Array,
    Object,
}

impl Kind {
    const ALL: [Self; 7] =
        [Self::Null, Self::Boolean, Self::Integer, Self::Number, Self::String, Self::Array, Self::Object];

    fn of(value: &Value) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Bool(_) => Self::Boolean,
            Value::Number(number) if number.is_i64() || number.is_u64() => Self::Integer,
            Value::Number(_) => Self::Number,
            Value::String(_) => Self::String,
            Value::Array(_) => Self::Array,
            Value::Object(_) => Self::Object,
        }
    }

    /// Whether this is the type, or one of those, that a schema calls `name`. A name that no schema has stands for any type.
    fn is_called(self, name: &str) -> bool {
        match name {
            "null" => self == Self::Null,
            "boolean" => self == Self::Boolean,
            "integer" => self == Self::Integer,
            "number" => matches!(self, Self::Integer | Self::Number),
            "string" => self == Self::String,
            "array" => self == Self::Array,
            "object" => self == Self::Object,
            _ => true,
        }
    }

    /// Whether the text of a value of this type can begin with `c`.
    fn begins_with(self, c: char) -> bool {
        match self {
            Self::Null => c == 'n',
            Self::Boolean => c == 't' || c == 'f',
            Self::Integer | Self::Number => c == '-' || c.is_ascii_digit(),
            Self::String => true,
            Self::Array => c == '[',
            Self::Object => c == '{',
        }
    }
}

/// What may be the value of one parameter of a tool.
#[derive(Debug)]
pub(super) struct Typing<'t> {
    /// The schema of the tool's arguments, in which references lead.
    root: &'t Value,
    schema: &'t Value,
    kinds: Vec<Kind>,
}

impl<'t> Typing<'t> {
    /// The type of the parameter `key`. Any, if nothing is known of the tool or the parameter.
    pub(super) fn new(tool: Option<&'t Tool>, key: &str) -> Self {
        let root = tool.map_or(&Value::Null, |tool| &tool.parameters);
        let schema = parameter(root, key).unwrap_or(&Value::Null);
        let kinds = Kind::ALL.into_iter().filter(|&kind| Search::new(root).allows(schema, kind, None, 0)).collect();
        Self { root, schema, kinds }
    }

    /// Whether a text that begins with `c` is a string, whatever follows.
    pub(super) fn is_string_after(&self, c: char) -> bool {
        self.kinds.contains(&Kind::String)
            && !self.kinds.iter().any(|&kind| kind != Kind::String && kind.begins_with(c))
    }

    /// Whether the value can be a string.
    pub(super) fn may_be_string(&self) -> bool {
        self.kinds.contains(&Kind::String)
    }

    /// All values, if the schema lists them in `enum` or `const`, itself or where it refers to.
    pub(super) fn listed(&self) -> Option<&'t [Value]> {
        let mut schema = self.schema;
        for _ in 0..MAX_DEPTH {
            if schema.get("const").is_some() {
                return schema.get("const").map(std::slice::from_ref);
            }
            if let Some(values) = schema.get("enum").and_then(Value::as_array) {
                return Some(values);
            }
            schema = target(self.root, schema.get("$ref")?.as_str()?)?;
        }
        None
    }

    /// The value, as JSON, that a text stands for: a value of a type that the schema allows, if the text is one, or else a string.
    pub(super) fn value(&self, text: &str) -> String {
        self.other_than_string(text.trim_matches(is_space)).unwrap_or_else(|| quoted(text))
    }

    /// The value that a text stands for if that is no string.
    pub(super) fn other_than_string(&self, text: &str) -> Option<String> {
        if let Some((kind, json)) = json(text) {
            if self.allows(kind, &json) {
                return Some(json);
            }
            // 2.0 is an integer, but not to all who read it.
            let whole = json.split_once('.').filter(|(_, fraction)| fraction.bytes().all(|digit| digit == b'0'));
            if let Some((whole, _)) = whole
                && kind == Kind::Number
                && self.allows(Kind::Integer, whole)
            {
                return Some(whole.to_owned());
            }
            return None;
        }
        // Python's spelling, where it cannot be a string.
        let word = match text {
            "True" | "TRUE" => "true",
            "False" | "FALSE" => "false",
            "None" => "null",
            _ => return None,
        };
        let kind = if word == "null" { Kind::Null } else { Kind::Boolean };
        (!self.kinds.contains(&Kind::String) && self.allows(kind, word)).then(|| word.to_owned())
    }

    /// Whether the schema allows a value of this type and text, as far as it is read here.
    fn allows(&self, kind: Kind, json: &str) -> bool {
        let value = Candidate { json, read: OnceCell::new() };
        self.kinds.contains(&kind) && Search::new(self.root).allows(self.schema, kind, Some(&value), 0)
    }
}

/// The schema of a parameter in the schema of the arguments.
fn parameter<'t>(root: &'t Value, key: &str) -> Option<&'t Value> {
    let mut schema = root;
    for _ in 0..MAX_DEPTH {
        if let Some(own) = schema.get("properties").and_then(|properties| properties.get(key)) {
            return Some(own);
        }
        match schema.get("$ref").and_then(Value::as_str) {
            Some(reference) => schema = target(root, reference)?,
            None => return schema.get("additionalProperties").filter(|others| others.is_object()),
        }
    }
    None
}

/// Whether the schema of a tool's arguments names a parameter.
pub(super) fn names_parameter(tool: Option<&Tool>, key: &str) -> bool {
    tool.and_then(|tool| tool.parameters.get("properties")).is_some_and(|properties| properties.get(key).is_some())
}

/// Where a reference within a schema leads.
fn target<'t>(root: &'t Value, reference: &str) -> Option<&'t Value> {
    root.pointer(reference.strip_prefix('#')?)
}

/// The type and the text of a JSON value, if a text is one and no string.
fn json(text: &str) -> Option<(Kind, String)> {
    let (mut scanner, mut json) = (Scanner::new(), String::with_capacity(text.len()));
    let mut chars = text.chars();
    for c in chars.by_ref() {
        write_char(&mut json, c, scanner.in_string());
        match scanner.push(c) {
            Scan::More => {}
            Scan::Complete => break,
            Scan::CompleteBefore | Scan::Invalid => return None,
        }
    }
    if !scanner.may_end() || chars.next().is_some() {
        return None;
    }
    let kind = match text.chars().next()? {
        'n' => Kind::Null,
        't' | 'f' => Kind::Boolean,
        '[' => Kind::Array,
        '{' => Kind::Object,
        '"' => return None,
        _ if scanner.is_whole() => Kind::Integer,
        _ => Kind::Number,
    };
    Some((kind, json))
}

/// A value that is read if a schema lists values.
struct Candidate<'j> {
    json: &'j str,
    read: OnceCell<Option<Value>>,
}

impl Candidate<'_> {
    fn value(&self) -> Option<&Value> {
        self.read.get_or_init(|| serde_json::from_str(self.json).ok()).as_ref()
    }
}

/// Looks at schemas, up to a number of them.
struct Search<'t> {
    root: &'t Value,
    left: u32,
}

impl<'t> Search<'t> {
    fn new(root: &'t Value) -> Self {
        Self { root, left: MAX_SCHEMAS }
    }

    /// Whether a schema allows a value of this type; without `value`, whether it allows any such value. `depth` schemas are around it.
    fn allows(&mut self, schema: &'t Value, kind: Kind, value: Option<&Candidate<'_>>, depth: u32) -> bool {
        if self.left == 0 || depth == MAX_DEPTH {
            return true;
        }
        self.left -= 1;
        let Some(object) = schema.as_object() else { return schema != &Value::Bool(false) };
        if kind == Kind::Null && object.get("nullable") == Some(&Value::Bool(true)) {
            return true;
        }
        let typed = match object.get("type") {
            Some(Value::String(name)) => kind.is_called(name),
            Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).any(|name| kind.is_called(name)),
            _ => true,
        };
        let listed = match (object.get("const"), object.get("enum").and_then(Value::as_array)) {
            (Some(only), _) => is_among(kind, value, std::slice::from_ref(only)),
            (None, Some(values)) => is_among(kind, value, values),
            (None, None) => true,
        };
        if !typed || !listed {
            return false;
        }
        let referred = object.get("$ref").and_then(Value::as_str).and_then(|reference| target(self.root, reference));
        if !referred.is_none_or(|schema| self.allows(schema, kind, value, depth + 1)) {
            return false;
        }
        let alternatives = |name| object.get(name).and_then(Value::as_array).filter(|schemas| !schemas.is_empty());
        let all = alternatives("allOf").into_iter().flatten();
        if !all.into_iter().all(|schema| self.allows(schema, kind, value, depth + 1)) {
            return false;
        }
        ["anyOf", "oneOf"]
            .into_iter()
            .filter_map(alternatives)
            .all(|schemas| schemas.iter().any(|schema| self.allows(schema, kind, value, depth + 1)))
    }
}

/// Whether a value, or without it any value of this type, is one of `values`.
fn is_among(kind: Kind, value: Option<&Candidate<'_>>, values: &[Value]) -> bool {
    let Some(value) = value else { return values.iter().any(|one| Kind::of(one) == kind) };
    let Some(value) = value.value() else { return false };
    values.iter().any(|one| match (one.as_f64(), value.as_f64()) {
        (Some(one), Some(value)) => one == value,
        _ => one == value,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// The value that a text is under a schema, with some definitions beside it.
    fn value(schema: &Value, text: &str) -> String {
        let parameters = json!({
            "properties": {"x": schema},
            "$defs": {
                "Count": {"type": "integer"},
                "Circle": {"$ref": "#/$defs/Circle"},
                "Two/Three": {"anyOf": [{"$ref": "#/$defs/Count"}, {"type": "boolean"}]},
            },
        });
        let tool = Tool { name: "f".to_owned(), description: None, parameters };
        let typing = Typing::new(Some(&tool), "x");
        let value = typing.value(text);
        // What is told from the first character alone holds at the end, too.
        if let Some(c) = text.trim_start().chars().next()
            && typing.is_string_after(c)
        {
            assert_eq!(value, quoted(text), "{schema} {text:?}");
        }
        value
    }

    #[test]
    fn values_have_the_type_of_the_schema() {
        let any_of =
            |kinds: &[&str]| json!({"anyOf": kinds.iter().map(|kind| json!({"type": kind})).collect::<Vec<_>>()});
        for (schema, text, expected) in [
            (json!({"type": "string"}), "42", "\"42\""),
            (json!({"type": "string"}), " a\n\"b\" ", "\" a\\n\\\"b\\\" \""),
            (json!({"type": "string"}), "null", "\"null\""),
            (json!({"type": "integer"}), "42", "42"),
            (json!({"type": "integer"}), " -7\n", "-7"),
            (json!({"type": "integer"}), "3.0", "3"),
            (json!({"type": "integer"}), "3.5", "\"3.5\""),
            (json!({"type": "integer"}), "three", "\"three\""),
            (json!({"type": "integer"}), "99999999999999999999999", "99999999999999999999999"),
            (json!({"type": "number"}), "3.50", "3.50"),
            (json!({"type": "number"}), "1e400", "1e400"),
            (json!({"type": "number"}), "4", "4"),
            (json!({"type": "number"}), "4 apples", "\"4 apples\""),
            (json!({"type": "number"}), "", "\"\""),
            (json!({"type": "boolean"}), "true", "true"),
            (json!({"type": "boolean"}), "False", "false"),
            (json!({"type": "boolean"}), "yes", "\"yes\""),
            (json!({"type": "null"}), "None", "null"),
            (json!({"type": "object"}), "{\"a\": [1, {\"b\": null}]}", "{\"a\": [1, {\"b\": null}]}"),
            (json!({"type": "object"}), "{\"a\": \"1\n2\"}", "{\"a\": \"1\\n2\"}"),
            (json!({"type": "object"}), "{'a': 1}", "\"{'a': 1}\""),
            (json!({"type": "object"}), "[1]", "\"[1]\""),
            (json!({"type": "array"}), "[1, 2]", "[1, 2]"),
            (json!({"type": "array"}), "[1, 2", "\"[1, 2\""),
            (json!({"type": "array"}), "[1] [2]", "\"[1] [2]\""),
            (json!({"type": ["string", "null"]}), "null", "null"),
            (json!({"type": ["string", "null"]}), "None", "\"None\""),
            (json!({"type": ["string", "null"]}), "nullify", "\"nullify\""),
            (json!({"type": "string", "nullable": true}), "null", "null"),
            (any_of(&["integer", "null"]), "42", "42"),
            (any_of(&["string", "number"]), "42", "42"),
            (any_of(&["string", "number"]), "42 or so", "\"42 or so\""),
            (json!({"oneOf": [{"type": "boolean"}, {"type": "array"}]}), "[]", "[]"),
            (json!({"allOf": [{"type": ["integer", "string"]}, {"type": ["integer", "boolean"]}]}), "true", "\"true\""),
            (json!({"enum": ["1", "2"]}), "1", "\"1\""),
            (json!({"enum": ["auto", 1, 2.5]}), "1", "1"),
            (json!({"enum": ["auto", 1, 2.5]}), "2", "\"2\""),
            (json!({"enum": ["auto", 1, 2.5]}), "2.50", "2.50"),
            (json!({"const": true}), "true", "true"),
            (json!({"$ref": "#/$defs/Count"}), "5", "5"),
            (json!({"$ref": "#/$defs/Two~1Three"}), "true", "true"),
            (json!({"$ref": "#/$defs/Two~1Three"}), "null", "\"null\""),
            (json!({"$ref": "#/$defs/Circle"}), "5", "5"),
            (json!({"$ref": "#/nowhere"}), "5", "5"),
            (json!({}), "5", "5"),
            (json!(true), "five", "\"five\""),
            (json!({"type": "text"}), "5", "5"),
        ] {
            assert_eq!(value(&schema, text), expected, "{schema} {text:?}");
        }
    }

    #[test]
    fn schemas_that_explode_are_looked_at_in_part() {
        let mut schema = json!({"type": "string"});
        for _ in 0..40 {
            schema = json!({"anyOf": [{"allOf": [schema, {"type": "integer"}]}, {"$ref": "#"}]});
        }
        let tool = Tool { name: "f".to_owned(), description: None, parameters: json!({"properties": {"x": schema}}) };
        assert!(["1", "\"1\""].contains(&&*Typing::new(Some(&tool), "x").value("1")));
    }

    #[test]
    fn parameters_that_are_not_named_have_any_type_or_that_of_the_others() {
        let tool = |parameters| Tool { name: "f".to_owned(), description: None, parameters };
        let others = tool(json!({"properties": {}, "additionalProperties": {"type": "string"}}));
        assert_eq!(Typing::new(Some(&others), "x").value("1"), "\"1\"");
        let referred = tool(json!({"$ref": "#/$defs/A", "$defs": {"A": {"properties": {"x": {"type": "string"}}}}}));
        assert_eq!(Typing::new(Some(&referred), "x").value("1"), "\"1\"");
        let circle = tool(json!({"$ref": "#"}));
        assert_eq!(Typing::new(Some(&circle), "x").value("1"), "1");
        assert_eq!(Typing::new(None, "x").value("[1]"), "[1]");
    }
}
