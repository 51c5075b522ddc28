//! The key-value section of a file, with getters that say what is wrong.

use std::collections::HashMap;

use crate::error::{Error, Result};
use crate::gguf::{Array, Value};

/// Keys and values in the order of the file.
///
/// The getters return `None` for a key that is not there and an error for a value of another type; the variants named
/// `require_*` turn the missing key into an error too. Integers of any width are accepted where the value fits.
#[derive(Clone, Debug, Default)]
pub struct Metadata {
    entries: Vec<(String, Value)>,
    index: HashMap<String, usize>,
}

impl Metadata {
    /// Adds a value. Nothing is changed if the key is there already.
    pub(super) fn insert(&mut self, key: String, value: Value) -> Inserted {
        match self.index.entry(key.clone()) {
            std::collections::hash_map::Entry::Occupied(_) => Inserted::KeyExists,
            std::collections::hash_map::Entry::Vacant(entry) => {
                entry.insert(self.entries.len());
                self.entries.push((key, value));
                Inserted::New
            }
        }
    }

    /// Replaces or adds a value.
    pub(super) fn set(&mut self, key: &str, value: Value) {
        match self.index.get(key) {
            Some(&index) => self.entries[index].1 = value,
            None => {
                self.insert(key.to_owned(), value);
            }
        }
    }

    /// Number of keys.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is no key.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Keys and values in the order of the file.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.entries.iter().map(|(key, value)| (key.as_str(), value))
    }

    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.index.get(key).map(|&index| &self.entries[index].1)
    }

    /// An integer that fits 32 bits without a sign.
    pub fn get_u32(&self, key: &str) -> Result<Option<u32>> {
        self.get_integer(key, "an unsigned 32-bit integer")
    }

    /// An integer that fits 64 bits without a sign.
    pub fn get_u64(&self, key: &str) -> Result<Option<u64>> {
        self.get_integer(key, "an unsigned 64-bit integer")
    }

    fn get_integer<T: TryFrom<i128>>(&self, key: &str, expected: &'static str) -> Result<Option<T>> {
        let Some(value) = self.get(key) else {
            return Ok(None);
        };
        let Some(integer) = value.as_integer() else {
            return Err(wrong_type(key, value, expected));
        };
        match T::try_from(integer) {
            Ok(integer) => Ok(Some(integer)),
            Err(_) => {
                Err(Error::BadValue { key: key.to_owned(), found: integer.to_string(), expected: expected.to_owned() })
            }
        }
    }

    /// A floating-point number, rounded to 32 bits.
    pub fn get_f32(&self, key: &str) -> Result<Option<f32>> {
        self.get_as(key, "a floating-point number", |value| match value {
            Value::F32(value) => Some(*value),
            Value::F64(value) => Some(*value as f32),
            _ => None,
        })
    }

    /// A boolean.
    pub fn get_bool(&self, key: &str) -> Result<Option<bool>> {
        self.get_as(key, "a boolean", |value| match value {
            Value::Bool(value) => Some(*value),
            _ => None,
        })
    }

    /// A string.
    pub fn get_str(&self, key: &str) -> Result<Option<&str>> {
        self.get_as(key, "a string", |value| match value {
            Value::String(value) => Some(value.as_str()),
            _ => None,
        })
    }

    /// An array of strings.
    pub fn get_strings(&self, key: &str) -> Result<Option<&[String]>> {
        self.get_as(key, "an array of strings", |value| match value {
            Value::Array(Array::String(values)) => Some(values.as_slice()),
            _ => None,
        })
    }

    /// An array of integers that fit 32 bits with a sign.
    pub fn get_i32s(&self, key: &str) -> Result<Option<Vec<i32>>> {
        const EXPECTED: &str = "an array of 32-bit integers";
        let Some(integers) = self.get_as(key, EXPECTED, |value| value.as_array()?.to_integers())? else {
            return Ok(None);
        };
        let fits = |(index, integer): (usize, i128)| {
            i32::try_from(integer).map_err(|_| Error::BadValue {
                key: key.to_owned(),
                found: format!("{integer} at index {index}"),
                expected: EXPECTED.to_owned(),
            })
        };
        integers.into_iter().enumerate().map(fits).collect::<Result<_>>().map(Some)
    }

    /// An array of booleans, or of integers, of which 0 is false.
    pub fn get_bools(&self, key: &str) -> Result<Option<Vec<bool>>> {
        self.get_as(key, "an array of booleans", |value| match value.as_array()? {
            Array::Bool(values) => Some(values.clone()),
            integers => Some(integers.to_integers()?.into_iter().map(|integer| integer != 0).collect()),
        })
    }

    /// An array of numbers, rounded to 32-bit floating-point ones.
    pub fn get_f32s(&self, key: &str) -> Result<Option<Vec<f32>>> {
        self.get_as(key, "an array of numbers", |value| match value.as_array()? {
            Array::F32(values) => Some(values.clone()),
            Array::F64(values) => Some(values.iter().map(|&value| value as f32).collect()),
            integers => Some(integers.to_integers()?.into_iter().map(|integer| integer as f32).collect()),
        })
    }

    /// [`Self::get_u32`], or an error if the key is not there.
    pub fn require_u32(&self, key: &str) -> Result<u32> {
        self.get_u32(key)?.ok_or_else(|| missing(key))
    }

    /// [`Self::get_f32`], or an error if the key is not there.
    pub fn require_f32(&self, key: &str) -> Result<f32> {
        self.get_f32(key)?.ok_or_else(|| missing(key))
    }

    /// [`Self::get_str`], or an error if the key is not there.
    pub fn require_str(&self, key: &str) -> Result<&str> {
        self.get_str(key)?.ok_or_else(|| missing(key))
    }

    /// [`Self::get_strings`], or an error if the key is not there.
    pub fn require_strings(&self, key: &str) -> Result<&[String]> {
        self.get_strings(key)?.ok_or_else(|| missing(key))
    }

    /// [`Self::get_f32s`], or an error if the key is not there.
    pub fn require_f32s(&self, key: &str) -> Result<Vec<f32>> {
        self.get_f32s(key)?.ok_or_else(|| missing(key))
    }

    fn get_as<'a, T>(
        &'a self,
        key: &str,
        expected: &'static str,
        read: impl FnOnce(&'a Value) -> Option<T>,
    ) -> Result<Option<T>> {
        let Some(value) = self.get(key) else {
            return Ok(None);
        };
        match read(value) {
            Some(value) => Ok(Some(value)),
            None => Err(wrong_type(key, value, expected)),
        }
    }
}

/// What became of an insertion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Inserted {
    New,
    KeyExists,
}

fn missing(key: &str) -> Error {
    Error::MissingKey { key: key.to_owned() }
}

fn wrong_type(key: &str, value: &Value, expected: &'static str) -> Error {
    Error::WrongType { key: key.to_owned(), expected, found: value.type_name() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metadata() -> Metadata {
        let mut metadata = Metadata::default();
        metadata.set("small", Value::U8(7));
        metadata.set("negative", Value::I32(-1));
        metadata.set("text", Value::from("x"));
        metadata.set("list", Value::from(vec![1i32, 2, 3]));
        metadata
    }

    #[test]
    fn integers_of_any_width_are_read_where_they_fit() {
        let metadata = metadata();
        assert_eq!(metadata.get_u32("small").unwrap(), Some(7));
        assert_eq!(metadata.get_u32("absent").unwrap(), None);
        let error = metadata.get_u32("negative").unwrap_err().to_string();
        assert_eq!(error, "the metadata key 'negative' is -1: it must be an unsigned 32-bit integer");
    }

    #[test]
    fn arrays_of_integers_of_any_width_are_read_where_they_fit() {
        let mut metadata = metadata();
        let arrays: [Value; 8] = [
            vec![1u8, 2, 3].into(),
            vec![1i8, 2, 3].into(),
            vec![1u16, 2, 3].into(),
            vec![1i16, 2, 3].into(),
            vec![1u32, 2, 3].into(),
            vec![1i32, 2, 3].into(),
            vec![1u64, 2, 3].into(),
            vec![1i64, 2, 3].into(),
        ];
        for array in arrays {
            metadata.set("list", array);
            assert_eq!(metadata.get_i32s("list").unwrap(), Some(vec![1, 2, 3]));
            assert_eq!(metadata.get_f32s("list").unwrap(), Some(vec![1.0, 2.0, 3.0]));
        }
        metadata.set("list", vec![0u64, 1 << 31].into());
        let error = metadata.get_i32s("list").unwrap_err().to_string();
        assert!(error.contains("is 2147483648 at index 1: it must be an array of 32-bit integers"), "{error}");
        metadata.set("list", vec![0.5f64].into());
        assert_eq!(metadata.get_f32s("list").unwrap(), Some(vec![0.5]));
        assert!(metadata.get_i32s("list").is_err());
        assert!(metadata.get_f32s("text").is_err());
    }

    #[test]
    fn another_type_is_named() {
        let metadata = metadata();
        let error = metadata.get_u32("list").unwrap_err().to_string();
        assert_eq!(error, "the metadata key 'list' should be an unsigned 32-bit integer, but it is an array of 3 i32");
        assert!(metadata.get_f32("small").is_err());
        assert!(metadata.get_bool("small").is_err());
        assert!(metadata.get_strings("text").is_err());
        assert!(matches!(metadata.require_str("absent"), Err(Error::MissingKey { key }) if key == "absent"));
    }

    #[test]
    fn setting_replaces_and_keeps_the_order() {
        let mut metadata = metadata();
        metadata.set("small", Value::F32(0.5));
        assert_eq!(metadata.len(), 4);
        assert_eq!(metadata.iter().next(), Some(("small", &Value::F32(0.5))));
        assert_eq!(metadata.insert("text".to_owned(), Value::U8(0)), Inserted::KeyExists);
    }
}
