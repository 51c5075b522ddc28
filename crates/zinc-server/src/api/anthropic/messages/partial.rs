//! Arguments of a call that was cut off, which this API has as an object and not as a text.

use serde_json::{Map, Value};

/// The object that a text is, or if it is only the beginning of one, the object of as much of it as is whole. Texts within it may be cut.
pub(super) fn object(text: &str) -> Map<String, Value> {
    if let Ok(Value::Object(object)) = serde_json::from_str(text) {
        return object;
    }
    match serde_json::from_str(&completed(text)) {
        Ok(Value::Object(object)) => object,
        _ => Map::new(),
    }
}

/// The beginning of a JSON text, without what is behind its last whole value, and with the quotes and brackets that it lacks.
fn completed(text: &str) -> String {
    let mut closing = Vec::new();
    // Up to here the text is whole but for a quote, if the second is true, and for the closing brackets. Each bracket moves this place.
    let mut whole = (0, false);
    let mut mode = Mode::Between;
    let mut is_key = false;
    for (at, c) in text.char_indices() {
        let behind = at + c.len_utf8();
        match (mode, c) {
            (Mode::Text, '\\') => mode = Mode::Escape,
            (Mode::Text, '"') => {
                mode = Mode::Between;
                if !is_key {
                    whole = (behind, false);
                }
            }
            // A text may end behind any character of it, but not behind half of an escape.
            (Mode::Text, _) if !is_key => whole = (behind, true),
            (Mode::Text, _) => {}
            (Mode::Escape, 'u') => mode = Mode::Hex(4),
            (Mode::Hex(left @ 2..), _) => mode = Mode::Hex(left - 1),
            (Mode::Escape | Mode::Hex(_), _) => mode = Mode::Text,
            (Mode::Between, '"') => {
                mode = Mode::Text;
                if !is_key {
                    whole = (behind, true);
                }
            }
            (Mode::Between, '{' | '[') => {
                closing.push(if c == '{' { '}' } else { ']' });
                is_key = c == '{';
                whole = (behind, false);
            }
            (Mode::Between, '}' | ']') => {
                closing.pop();
                is_key = false;
                whole = (behind, false);
            }
            (Mode::Between, ':') => is_key = false,
            (Mode::Between, ',') => {
                // A number or a word is whole only once something comes behind it.
                whole = (at, false);
                is_key = closing.last() == Some(&'}');
            }
            (Mode::Between, _) => {}
        }
    }
    let (end, lacks_quote) = whole;
    let mut completed = text[..end].to_owned();
    if lacks_quote {
        completed.push('"');
    }
    completed.extend(closing.iter().rev());
    completed
}

/// Where in a JSON text a character is.
#[derive(Clone, Copy)]
enum Mode {
    /// Outside of texts.
    Between,
    /// In a text.
    Text,
    /// Behind a backslash.
    Escape,
    /// In the digits of an escape, of which so many are to come.
    Hex(u8),
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn whole_objects_stay_as_they_are() {
        assert_eq!(Value::Object(object(r#"{"a": 1, "b": ["x"]}"#)), json!({ "a": 1, "b": ["x"] }));
        for other in ["", " ", "1", "[1]", "\"a\"", "nonsense", "}", "{\"a\": nonsense"] {
            assert_eq!(object(other), Map::new(), "{other:?}");
        }
    }

    #[test]
    fn beginnings_keep_what_is_whole() {
        for (text, expected) in [
            ("{", json!({})),
            (r#"{"pa"#, json!({})),
            (r#"{"path": "#, json!({})),
            (r#"{"path": ""#, json!({ "path": "" })),
            (r#"{"path": "src/ma"#, json!({ "path": "src/ma" })),
            (r#"{"path": "a\"#, json!({ "path": "a" })),
            (r#"{"path": "a\u00e"#, json!({ "path": "a" })),
            (r#"{"path": "a", "#, json!({ "path": "a" })),
            (r#"{"path": "a", "line": 1"#, json!({ "path": "a" })),
            (r#"{"path": "a", "line": 1, "#, json!({ "path": "a", "line": 1 })),
            (r#"{"edits": [{"old": "x", "new": "y"#, json!({ "edits": [{ "old": "x", "new": "y" }] })),
            (r#"{"edits": [{"old": "x"}, {"#, json!({ "edits": [{ "old": "x" }, {}] })),
            (r#"{"a": tr"#, json!({})),
        ] {
            assert_eq!(Value::Object(object(text)), expected, "{text}");
        }
    }

    #[test]
    fn every_beginning_is_an_object_and_none_panics() {
        let text = r#"{"a": "x\n\"\u00fc\\", "b": {"c": [1, -2.5e3, true, null, "ü€😀"], "d": {}}, "e": "[{,:}]"}"#;
        let whole = object(text);
        assert_eq!(whole.len(), 3);
        let mut most = 0;
        for (end, _) in text.char_indices().skip(1) {
            let fields = object(&text[..end]);
            assert!(fields.len() >= most, "{}", &text[..end]);
            most = fields.len();
        }
        assert_eq!(most, 3);
    }
}
