//! What is known of a value that has to match several schemas at once.

use std::rc::Rc;

use super::document::At;
use super::number::Numbers;
use super::text::Strings;

/// One of the things that a value has to match.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Member {
    /// The schema at a place.
    Schema(At),
    /// Exactly the value at a place.
    Value(At),
    /// No value at all.
    Nothing,
}

/// A set of the types of JSON, one bit each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Types(u8);

impl Types {
    pub(super) const NONE: Self = Self(0);
    pub(super) const NULL: Self = Self(1);
    pub(super) const BOOLEAN: Self = Self(2);
    pub(super) const NUMBER: Self = Self(4);
    pub(super) const STRING: Self = Self(8);
    pub(super) const ARRAY: Self = Self(16);
    pub(super) const OBJECT: Self = Self(32);
    pub(super) const ALL: Self = Self(63);

    pub(super) fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    pub(super) fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub(super) fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    pub(super) fn has(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }
}

/// The items of an array by one schema: the first ones each by their own, all others by `rest`, if there is one.
#[derive(Debug)]
pub(super) struct Items {
    pub(super) prefix: Vec<Member>,
    pub(super) rest: Option<Member>,
}

/// The members of an object by one schema: named ones, those whose name matches a pattern, and all others by `rest`, if there is one.
#[derive(Debug)]
pub(super) struct Properties {
    pub(super) named: Vec<(String, Member)>,
    /// Numbers of patterns in the list of the compiler.
    pub(super) patterns: Vec<(usize, Member)>,
    pub(super) rest: Option<Member>,
}

/// Limits of a count.
#[derive(Debug, Clone, Default)]
pub(super) struct Count {
    pub(super) min: u64,
    pub(super) max: Option<u64>,
}

impl Count {
    pub(super) fn at_least(&mut self, count: u64) {
        self.min = self.min.max(count);
    }

    pub(super) fn at_most(&mut self, count: u64) {
        self.max = Some(self.max.map_or(count, |max| max.min(count)));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.max.is_some_and(|max| max < self.min)
    }
}

/// What a value has to be, type by type. A fact about one type says nothing about values of another.
#[derive(Debug, Clone)]
pub(super) struct Facts {
    pub(super) types: Types,
    /// Which of `false` and `true` are allowed.
    pub(super) booleans: [bool; 2],
    pub(super) numbers: Numbers,
    pub(super) strings: Strings,
    pub(super) item_count: Count,
    pub(super) items: Vec<Rc<Items>>,
    pub(super) property_count: Count,
    pub(super) properties: Vec<Rc<Properties>>,
    pub(super) required: Vec<String>,
    /// What the names of members have to match.
    pub(super) names: Vec<Member>,
}

impl Facts {
    /// What is known of any value.
    pub(super) fn any() -> Self {
        Self {
            types: Types::ALL,
            booleans: [true; 2],
            numbers: Numbers::default(),
            strings: Strings::default(),
            item_count: Count::default(),
            items: Vec::new(),
            property_count: Count::default(),
            properties: Vec::new(),
            required: Vec::new(),
            names: Vec::new(),
        }
    }

    pub(super) fn require(&mut self, name: &str) {
        if !self.required.iter().any(|known| known == name) {
            self.required.push(name.to_owned());
        }
    }
    /// No member of an object has one of these names.
    pub(super) fn forbid(&mut self, names: &[String]) {
        let named = names.iter().map(|name| (name.clone(), Member::Nothing)).collect();
        self.properties.push(Rc::new(Properties { named, patterns: Vec::new(), rest: None }));
    }
}
