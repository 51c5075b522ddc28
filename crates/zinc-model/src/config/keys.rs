//! The keys of one architecture: `qwen3moe.block_count` and so on.

use std::fmt::Display;

use crate::error::{Error, Result};
use crate::gguf::Metadata;

/// The metadata under an architecture's prefix. Its functions take names without that prefix.
pub(super) struct Keys<'a> {
    pub(super) metadata: &'a Metadata,
    /// The prefix: the file's name of its architecture.
    pub(super) architecture: &'a str,
}

impl<'a> Keys<'a> {
    /// The full name of a key, with the architecture's prefix.
    pub(super) fn full(&self, name: &str) -> String {
        format!("{}.{name}", self.architecture)
    }

    pub(super) fn get_u32(&self, name: &str) -> Result<Option<u32>> {
        self.metadata.get_u32(&self.full(name))
    }

    pub(super) fn get_f32(&self, name: &str) -> Result<Option<f32>> {
        self.metadata.get_f32(&self.full(name))
    }

    pub(super) fn get_bool(&self, name: &str) -> Result<Option<bool>> {
        self.metadata.get_bool(&self.full(name))
    }

    /// Reads a list of yes and no, for which there may be numbers: 0 is no.
    pub(super) fn get_bools(&self, name: &str) -> Result<Option<Vec<bool>>> {
        self.metadata.get_bools(&self.full(name))
    }

    pub(super) fn get_str(&self, name: &str) -> Result<Option<&'a str>> {
        self.metadata.get_str(&self.full(name))
    }

    pub(super) fn require_f32(&self, name: &str) -> Result<f32> {
        self.metadata.require_f32(&self.full(name))
    }

    /// Reads a number from 1 to `max`; `None` if the key is missing.
    pub(super) fn count(&self, name: &str, max: u32) -> Result<Option<u32>> {
        match self.get_u32(name)? {
            Some(count) if !(1..=max).contains(&count) => Err(self.bad(name, count, format!("1 to {max}"))),
            count => Ok(count),
        }
    }

    /// Reads a number from 1 to `max`; a missing key is an error.
    pub(super) fn require_count(&self, name: &str, max: u32) -> Result<u32> {
        self.count(name, max)?.ok_or_else(|| Error::MissingKey { key: self.full(name) })
    }

    /// The error for a value that is none of the expected ones.
    pub(super) fn bad(&self, name: &str, found: impl Display, expected: impl Into<String>) -> Error {
        Error::BadValue { key: self.full(name), found: found.to_string(), expected: expected.into() }
    }
}
