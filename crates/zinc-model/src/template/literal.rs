//! Telling what messages say from what a template writes, after both have become one text.
//!
//! A character that the messages do not use is put after each character of what looks like a control token in them. The
//! template copies it along, as it would any text; where it turns up in the prompt, the character before it came from a
//! message.

use std::ops::Range;

use serde_json::Value;

/// The character.
#[derive(Clone, Copy, Debug)]
pub(super) struct Marker(char);

impl Marker {
    /// A private character that is in none of `values`; `None` if they use them all.
    pub(super) fn new(values: &[&Value]) -> Option<Self> {
        let unused = |&c: &char| !values.iter().any(|value| contains(value, c));
        ('\u{f0000}'..='\u{ffffd}').find(unused).map(Self)
    }

    /// Marks every string in `value`, keys included, where `control` finds control tokens.
    pub(super) fn mark(self, value: &Value, control: impl Fn(&str) -> Vec<Range<usize>> + Copy) -> Value {
        match value {
            Value::String(text) => Value::String(self.mark_text(text, &control(text))),
            Value::Array(values) => values.iter().map(|value| self.mark(value, control)).collect(),
            Value::Object(map) => {
                let entry =
                    |(key, value): (&String, &Value)| (self.mark_text(key, &control(key)), self.mark(value, control));
                Value::Object(map.iter().map(entry).collect())
            }
            other => other.clone(),
        }
    }

    fn mark_text(self, text: &str, spans: &[Range<usize>]) -> String {
        let mut marked = String::with_capacity(text.len());
        for (place, c) in text.char_indices() {
            marked.push(c);
            if spans.iter().any(|span| span.contains(&place)) {
                marked.push(self.0);
            }
        }
        marked
    }

    /// Takes the marks out again. Each place that is returned, in order, is the end of a character that was marked.
    pub(super) fn unmark(self, marked: &str) -> (String, Vec<usize>) {
        let mut text = String::with_capacity(marked.len());
        let mut places = Vec::new();
        for part in marked.split(self.0) {
            text.push_str(part);
            places.push(text.len());
        }
        // After the last part there was no mark.
        places.pop();
        (text, places)
    }
}

fn contains(value: &Value, c: char) -> bool {
    match value {
        Value::String(text) => text.contains(c),
        Value::Array(values) => values.iter().any(|value| contains(value, c)),
        Value::Object(map) => map.iter().any(|(key, value)| key.contains(c) || contains(value, c)),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Finds "<x>".
    fn control(text: &str) -> Vec<Range<usize>> {
        text.match_indices("<x>").map(|(start, found)| start..start + found.len()).collect()
    }

    #[test]
    fn marks_come_out_where_they_went_in() {
        let value = json!({"content": ["é<x>", 1, null], "<x>": "plain"});
        let marker = Marker::new(&[&value]).unwrap();
        let marked = marker.mark(&value, control);
        let text = marked["content"][0].as_str().unwrap();
        assert_eq!(text.chars().count(), 7);
        assert_eq!(marker.unmark(text), ("é<x>".to_owned(), vec![3, 4, 5]));
        assert_eq!(marked["content"][1], 1);
        let key = marked.as_object().unwrap().keys().next_back().unwrap();
        assert_eq!(marker.unmark(key), ("<x>".to_owned(), vec![1, 2, 3]));
        assert_eq!(marker.unmark("plain"), ("plain".to_owned(), vec![]));
    }

    #[test]
    fn characters_in_use_are_no_markers() {
        let value = json!([{"\u{f0000}": 1}, "\u{f0001}\u{f0003}"]);
        assert_eq!(Marker::new(&[&value]).unwrap().0, '\u{f0002}');
    }
}
