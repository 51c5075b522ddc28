//! Contents that are either a text or a list of parts.

use std::fmt;
use std::marker::PhantomData;

use serde::Serialize;
use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{self, Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use utoipa::ToSchema;

/// A text or a list of parts of type `T`. Any other value is read too, so that what has it can be ignored by name where zinc does not know what it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(untagged)]
pub(crate) enum TextOrParts<T> {
    /// A text.
    Text(String),
    /// Parts.
    Parts(Vec<T>),
    /// Something else, such as an object or a number.
    Other,
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for TextOrParts<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TextOrPartsVisitor(PhantomData))
    }
}

/// Reads a value without keeping it first, as an untagged enum would, so that errors and unknown fields inside of it still have their paths.
struct TextOrPartsVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for TextOrPartsVisitor<T> {
    type Value = TextOrParts<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text or a list of parts")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Self::Value, E> {
        Ok(TextOrParts::Text(text.to_owned()))
    }

    fn visit_string<E: de::Error>(self, text: String) -> Result<Self::Value, E> {
        Ok(TextOrParts::Text(text))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, parts: A) -> Result<Self::Value, A::Error> {
        Vec::deserialize(SeqAccessDeserializer::new(parts)).map(TextOrParts::Parts)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
        IgnoredAny::deserialize(MapAccessDeserializer::new(map)).map(|_| TextOrParts::Other)
    }

    fn visit_bool<E: de::Error>(self, _: bool) -> Result<Self::Value, E> {
        Ok(TextOrParts::Other)
    }

    fn visit_i64<E: de::Error>(self, _: i64) -> Result<Self::Value, E> {
        Ok(TextOrParts::Other)
    }

    fn visit_u64<E: de::Error>(self, _: u64) -> Result<Self::Value, E> {
        Ok(TextOrParts::Other)
    }

    fn visit_f64<E: de::Error>(self, _: f64) -> Result<Self::Value, E> {
        Ok(TextOrParts::Other)
    }

    fn visit_unit<E: de::Error>(self) -> Result<Self::Value, E> {
        Ok(TextOrParts::Other)
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;
    use crate::body::{Fields, NoFields};

    #[derive(Debug, Deserialize)]
    struct Message {
        content: TextOrParts<Part>,
    }

    #[derive(Debug, PartialEq, Eq, Deserialize)]
    struct Part {
        text: String,
    }

    fn read(content: &str) -> Result<TextOrParts<Part>, crate::error::ApiError> {
        let body = format!("{{\"content\": {content}}}");
        Fields::<Message, NoFields>::parse(body.as_bytes()).map(|fields| fields.own.content)
    }

    #[test]
    fn texts_lists_and_anything_else_are_read() {
        let part = |text: &str| Part { text: text.to_owned() };
        assert_eq!(read("\"Gr\\u00fcn\"").unwrap(), TextOrParts::Text("Grün".to_owned()));
        assert_eq!(read("[]").unwrap(), TextOrParts::Parts(vec![]));
        assert_eq!(read(r#"[{"text": "a"}, {"text": "b"}]"#).unwrap(), TextOrParts::Parts(vec![part("a"), part("b")]));
        for other in ["1", "-1", "1.5", "true", "null", "{}", r#"{"a": [{"b": 1}]}"#] {
            assert_eq!(read(other).unwrap(), TextOrParts::Other, "{other}");
        }
    }

    #[test]
    fn errors_and_unknown_fields_inside_have_their_paths() {
        assert_eq!(read(r#"[{"text": "a"}, {"text": 1}]"#).unwrap_err().param.as_deref(), Some("content[1].text"));
        let body = r#"{"content": [{"text": "a", "colour": 1}]}"#;
        let ignored = Fields::<Message, NoFields>::parse(body.as_bytes()).unwrap().ignored;
        let mut expected = crate::body::Ignored::default();
        expected.add("content.0.colour");
        assert_eq!(ignored, expected);
    }
}
