//! The text of a schema as a list of JSON values in which every number keeps the digits it was written with.

use std::collections::HashMap;
use std::fmt;

use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::grammar::error::GrammarError;

/// Arrays and objects inside of each other that a schema may have.
pub(super) const MAX_DEPTH: usize = 512;

/// Index of a value in a [`Document`]; the whole document is [`ROOT`].
pub(super) type At = usize;
/// The value that is the whole document.
pub(super) const ROOT: At = 0;

/// One value; those inside of it are named by their index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Json {
    Null,
    Bool(bool),
    /// A number as it was written.
    Number(String),
    String(String),
    Array(Vec<At>),
    /// Members in the order of the text. Of two members with one name the last counts, at the place of the first.
    Object(Vec<(String, At)>),
}

/// A JSON text.
#[derive(Debug)]
pub(super) struct Document {
    values: Vec<Json>,
    /// For every value the array or object it is in, and its index or name there. The root has none.
    parents: Vec<Option<(At, String)>>,
}

impl Document {
    /// Reads a text.
    ///
    /// # Errors
    /// [`GrammarError::Json`] if the text is not JSON or is nested deeper than [`MAX_DEPTH`].
    pub(super) fn parse(text: &str) -> Result<Self, GrammarError> {
        check_depth(text)?;
        let root: &RawValue = serde_json::from_str(text).map_err(|error| json_error(&error))?;
        let mut document = Self { values: Vec::new(), parents: Vec::new() };
        let mut queue = vec![(root, None)];
        while let Some((raw, parent)) = queue.pop() {
            let at = document.values.len();
            if let Some((parent, index)) = &parent {
                document.link(*parent, *index, at);
            }
            let parent = parent.map(|(parent, index)| (parent, document.step(parent, index)));
            let before = queue.len();
            let value = one_level(raw.get(), &mut |index, part| queue.push((part, Some((at, index)))));
            // What is on top comes next, so that indices grow along the text.
            queue[before..].reverse();
            document.values.push(value.map_err(|error| place_in(text, raw.get(), &error))?);
            document.parents.push(parent);
        }
        Ok(document)
    }

    /// Notes that the part with this index of an array or object is the value `at`.
    fn link(&mut self, parent: At, index: usize, at: At) {
        match &mut self.values[parent] {
            Json::Array(items) => items[index] = at,
            Json::Object(members) => members[index].1 = at,
            _ => {}
        }
    }

    /// The token of a JSON pointer that leads from a value to the part with this index.
    fn step(&self, parent: At, index: usize) -> String {
        match &self.values[parent] {
            Json::Object(members) => members[index].0.clone(),
            _ => index.to_string(),
        }
    }

    pub(super) fn get(&self, at: At) -> &Json {
        &self.values[at]
    }

    /// The member of an object by its name; `None` for what is no object.
    pub(super) fn member(&self, at: At, name: &str) -> Option<At> {
        self.members(at).iter().find(|(key, _)| key == name).map(|&(_, value)| value)
    }

    /// The members of an object; none for what is no object.
    pub(super) fn members(&self, at: At) -> &[(String, At)] {
        match &self.values[at] {
            Json::Object(members) => members,
            _ => &[],
        }
    }

    /// The part of an array or object that a token of a JSON pointer names.
    pub(super) fn part(&self, at: At, token: &str) -> Option<At> {
        match &self.values[at] {
            Json::Array(items) => {
                // RFC 6901: digits without a leading zero.
                let is_index = token == "0" || !token.starts_with('0') && token.bytes().all(|b| b.is_ascii_digit());
                items.get(token.parse::<usize>().ok().filter(|_| is_index)?).copied()
            }
            _ => self.member(at, token),
        }
    }

    pub(super) fn string(&self, at: At) -> Option<&str> {
        match &self.values[at] {
            Json::String(text) => Some(text),
            _ => None,
        }
    }

    pub(super) fn parent(&self, at: At) -> Option<At> {
        self.parents[at].as_ref().map(|(parent, _)| *parent)
    }

    /// The JSON pointer of a value (RFC 6901): empty for the whole document.
    pub(super) fn pointer(&self, at: At) -> String {
        let mut tokens = Vec::new();
        let mut current = at;
        while let Some((parent, token)) = &self.parents[current] {
            tokens.push(token.replace('~', "~0").replace('/', "~1"));
            current = *parent;
        }
        tokens.iter().rev().fold(String::new(), |pointer, token| pointer + "/" + token)
    }

    /// A value as JSON text, cut after 60 characters: for messages.
    pub(super) fn excerpt(&self, at: At) -> String {
        let mut text = String::new();
        let mut queue: Vec<Result<String, At>> = vec![Err(at)];
        while let Some(next) = queue.pop() {
            if text.chars().count() > 60 {
                return text.chars().take(60).collect::<String>() + "…";
            }
            match next {
                Ok(piece) => text.push_str(&piece),
                Err(at) => match &self.values[at] {
                    Json::Null => text.push_str("null"),
                    Json::Bool(value) => text.push_str(if *value { "true" } else { "false" }),
                    Json::Number(digits) => text.push_str(digits),
                    Json::String(string) => text.push_str(&quoted(string)),
                    Json::Array(items) => {
                        text.push('[');
                        queue.push(Ok("]".to_owned()));
                        for (index, &item) in items.iter().enumerate().rev() {
                            queue.push(Err(item));
                            queue.extend((index > 0).then(|| Ok(",".to_owned())));
                        }
                    }
                    Json::Object(members) => {
                        text.push('{');
                        queue.push(Ok("}".to_owned()));
                        for (index, (key, value)) in members.iter().enumerate().rev() {
                            queue.push(Err(*value));
                            let comma = if index > 0 { "," } else { "" };
                            queue.push(Ok(format!("{comma}{}:", quoted(key))));
                        }
                    }
                },
            }
        }
        text
    }

    /// Every value, in the order of the text.
    pub(super) fn all(&self) -> impl Iterator<Item = At> {
        0..self.values.len()
    }
}

/// A string in the quotes and with the escapes of JSON.
pub(super) fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// One value of a text; `part` takes the texts of what is inside of it, with their indices.
fn one_level<'t>(raw: &'t str, part: &mut dyn FnMut(usize, &'t RawValue)) -> serde_json::Result<Json> {
    Ok(match raw.as_bytes().first() {
        Some(b'n') => Json::Null,
        Some(b't') => Json::Bool(true),
        Some(b'f') => Json::Bool(false),
        Some(b'"') => Json::String(serde_json::from_str(raw)?),
        Some(b'[') => {
            let items: Vec<&RawValue> = serde_json::from_str(raw)?;
            items.iter().enumerate().for_each(|(index, item)| part(index, item));
            Json::Array(vec![ROOT; items.len()])
        }
        Some(b'{') => {
            let mut deserializer = serde_json::Deserializer::from_str(raw);
            let pairs = deserializer.deserialize_map(Pairs)?;
            let mut indices: HashMap<String, usize> = HashMap::new();
            let mut members: Vec<(String, &RawValue)> = Vec::new();
            for (key, value) in pairs {
                match indices.get(&key) {
                    Some(&index) => members[index].1 = value,
                    None => {
                        indices.insert(key.clone(), members.len());
                        members.push((key, value));
                    }
                }
            }
            members.iter().enumerate().for_each(|(index, (_, value))| part(index, value));
            Json::Object(members.into_iter().map(|(key, _)| (key, ROOT)).collect())
        }
        _ => Json::Number(raw.to_owned()),
    })
}

/// Reads the members of an object with the texts of their values.
struct Pairs;

impl<'de> Visitor<'de> for Pairs {
    type Value = Vec<(String, &'de RawValue)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut pairs = Vec::new();
        while let Some(pair) = map.next_entry()? {
            pairs.push(pair);
        }
        Ok(pairs)
    }
}

/// Refuses a text whose arrays and objects are nested too deep, whether or not it is JSON otherwise.
fn check_depth(text: &str) -> Result<(), GrammarError> {
    let (mut depth, mut in_string, mut escaped) = (0_usize, false, false);
    for (index, byte) in text.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = in_string,
            b'"' => in_string = !in_string,
            _ if in_string => {}
            b'[' | b'{' => depth += 1,
            b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > MAX_DEPTH {
            let (line, column) = line_and_column(text, index);
            let reason = format!("arrays and objects are nested deeper than {MAX_DEPTH}, the most that is read");
            return Err(GrammarError::Json { line, column, reason });
        }
    }
    Ok(())
}

/// Line and column of a byte of a text, both from 1; columns count characters.
fn line_and_column(text: &str, index: usize) -> (usize, usize) {
    let before = text.get(..index).unwrap_or(text);
    let column = before.rsplit('\n').next().map_or(0, |line| line.chars().count());
    (before.matches('\n').count() + 1, column + 1)
}

fn json_error(error: &serde_json::Error) -> GrammarError {
    GrammarError::Json { line: error.line(), column: error.column(), reason: without_place(error) }
}

/// The error of a value that is a part of the text, at the beginning of that value.
fn place_in(text: &str, part: &str, error: &serde_json::Error) -> GrammarError {
    let (line, column) = line_and_column(text, part.as_ptr() as usize - text.as_ptr() as usize);
    GrammarError::Json { line, column, reason: without_place(error) }
}

/// What serde_json has to say, without the place that it ends in.
fn without_place(error: &serde_json::Error) -> String {
    error.to_string().split(" at line ").next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_their_digits_and_objects_their_order() {
        let text = r#" {"b": [1.50, -0, 123456789012345678901234567890, 1E400], "a": "é\n", "b~/c": {"": null}} "#;
        let document = Document::parse(text).unwrap();
        let keys: Vec<&str> = document.members(ROOT).iter().map(|(key, _)| &**key).collect();
        assert_eq!(keys, ["b", "a", "b~/c"]);
        let Json::Array(items) = document.get(document.member(ROOT, "b").unwrap()) else { panic!("no array") };
        let numbers: Vec<&Json> = items.iter().map(|&item| document.get(item)).collect();
        let expected = ["1.50", "-0", "123456789012345678901234567890", "1E400"].map(|it| Json::Number(it.to_owned()));
        assert!(numbers.iter().copied().eq(&expected), "{numbers:?}");
        let inner = document.part(document.part(ROOT, "b~/c").unwrap(), "").unwrap();
        assert_eq!((document.get(inner), &*document.pointer(inner)), (&Json::Null, "/b~0~1c/"));
        assert_eq!(document.pointer(items[2]), "/b/2");
        assert_eq!(document.excerpt(ROOT).chars().count(), 61);
    }

    #[test]
    fn the_last_of_members_with_one_name_counts() {
        let document = Document::parse(r#"{"a": 1, "b": 2, "a": 3}"#).unwrap();
        let values: Vec<_> = document.members(ROOT).iter().map(|&(_, at)| document.get(at).clone()).collect();
        assert_eq!(values, [Json::Number("3".to_owned()), Json::Number("2".to_owned())]);
    }

    #[test]
    fn errors_have_a_place() {
        let place = |text: &str| match Document::parse(text) {
            Err(GrammarError::Json { line, column, .. }) => (line, column),
            other => panic!("{text:?} gave {other:?}"),
        };
        assert_eq!(place("{\n \"a\" 1}"), (2, 6));
        assert_eq!(place("[1,\n [\"\\ud800\"]]"), (2, 3));
        assert_eq!(place("{} {}"), (1, 4));
        let deep = "[".repeat(100_000);
        assert_eq!(place(&deep), (1, MAX_DEPTH + 1));
        assert!(Document::parse(&format!("{}{}", "[".repeat(MAX_DEPTH), "]".repeat(MAX_DEPTH))).is_ok());
        // Brackets in strings are no nesting.
        assert!(Document::parse(&format!("\"{}\\\"{}\"", "[".repeat(5000), "{".repeat(5000))).is_ok());
    }
}
