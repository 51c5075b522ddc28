//! Whole numbers of requests, which some clients write as `100.0`.

use std::fmt;

use serde::de::{self, Deserialize, Deserializer, Visitor};
use utoipa::ToSchema;

/// A whole number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ToSchema)]
#[schema(value_type = i64)]
pub struct Whole(pub i64);

impl Whole {
    /// The number where it is not negative, up to the largest that there is room for.
    #[must_use]
    pub fn count(self) -> Option<u32> {
        u64::try_from(self.0).ok().map(|count| u32::try_from(count).unwrap_or(u32::MAX))
    }
}

impl<'de> Deserialize<'de> for Whole {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(WholeVisitor)
    }
}

struct WholeVisitor;

impl Visitor<'_> for WholeVisitor {
    type Value = Whole;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a whole number")
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<Whole, E> {
        Ok(Whole(value))
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<Whole, E> {
        Ok(Whole(i64::try_from(value).unwrap_or(i64::MAX)))
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<Whole, E> {
        // Beyond 2^53 not every whole number is a float.
        if value.fract() == 0.0 && value.abs() <= 9_007_199_254_740_992.0 {
            return Ok(Whole(value as i64));
        }
        Err(E::invalid_value(de::Unexpected::Float(value), &self))
    }
}
