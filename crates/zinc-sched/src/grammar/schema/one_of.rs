//! What the alternatives of a `oneOf` leave to each other, where that is seen without looking at values.

use super::document::{At, Document, Json};
use super::facts::{Member, Types};
use super::keywords::{restricting, types_named};

/// Keywords that say something of values of one type alone.
const OF_NUMBERS: [&str; 5] = ["exclusiveMaximum", "exclusiveMinimum", "maximum", "minimum", "multipleOf"];
const OF_STRINGS: [&str; 4] = ["format", "maxLength", "minLength", "pattern"];
const OF_ARRAYS: [&str; 10] = [
    "additionalItems",
    "contains",
    "items",
    "maxContains",
    "maxItems",
    "minContains",
    "minItems",
    "prefixItems",
    "unevaluatedItems",
    "uniqueItems",
];
const OF_OBJECTS: [&str; 11] = [
    "additionalProperties",
    "dependencies",
    "dependentRequired",
    "dependentSchemas",
    "maxProperties",
    "minProperties",
    "patternProperties",
    "properties",
    "propertyNames",
    "required",
    "unevaluatedProperties",
];

/// The combinations of names that are looked at.
const MAX_COMBINATIONS: usize = 64;

/// An alternative of a `oneOf` that is about names alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Named {
    /// The alternative.
    pub(super) member: Member,
    /// Names without which no other alternative matches.
    pub(super) absent: Vec<String>,
}

/// The types of which two of the alternatives allow every value, so that no value of such a type matches exactly one.
pub(super) fn shared_types(document: &Document, members: &[Member]) -> Types {
    let (mut once, mut twice) = (Types::NONE, Types::NONE);
    for member in members {
        let Member::Schema(at) = member else { continue };
        let whole = whole_types(document, *at);
        twice = twice.or(once.and(whole));
        once = once.or(whole);
    }
    twice
}

/// The types of which a schema allows every value.
fn whole_types(document: &Document, at: At) -> Types {
    let mut types = match document.get(at) {
        Json::Bool(true) => return Types::ALL,
        Json::Object(_) => Types::ALL,
        _ => return Types::NONE,
    };
    for (key, value) in restricting(document, at) {
        types = match key {
            "type" => types.and(types_named(document, value)),
            key if OF_NUMBERS.contains(&key) => types.without(Types::NUMBER),
            key if OF_STRINGS.contains(&key) => types.without(Types::STRING),
            key if OF_ARRAYS.contains(&key) => types.without(Types::ARRAY),
            key if OF_OBJECTS.contains(&key) => types.without(Types::OBJECT),
            _ => return Types::NONE,
        };
    }
    types
}

/// The alternatives that each demand names and nothing else of an object, with what must be absent so that no other one matches. `None` if an
/// alternative is about more than names, or there are too many combinations. It says of objects alone which of them match exactly one.
pub(super) fn by_names(document: &Document, members: &[Member]) -> Option<Vec<Named>> {
    let demanded: Vec<Vec<&str>> = members.iter().map(|member| names(document, *member)).collect::<Option<_>>()?;
    if demanded.len() < 2 {
        return None;
    }
    let mut found = Vec::new();
    for (own, &member) in demanded.iter().zip(members) {
        let others = demanded.iter().zip(members).filter(|(_, other)| **other != member);
        // Of each other alternative, one of the names that this one does not demand is absent.
        let mut combinations: Vec<Vec<&str>> = vec![Vec::new()];
        for (other, _) in others {
            let mut next: Vec<Vec<&str>> = Vec::new();
            for &name in other.iter().filter(|name| !own.contains(name)) {
                for absent in &combinations {
                    let mut absent = [&absent[..], &[name]].concat();
                    absent.sort_unstable();
                    absent.dedup();
                    next.push(absent);
                }
            }
            next.sort_unstable();
            next.dedup();
            if next.len() > MAX_COMBINATIONS {
                return None;
            }
            combinations = next;
        }
        let named = |absent: Vec<&str>| Named { member, absent: absent.into_iter().map(str::to_owned).collect() };
        found.extend(combinations.into_iter().map(named));
    }
    (found.len() <= MAX_COMBINATIONS).then_some(found)
}

/// The names that a schema demands, if it says nothing else of an object.
fn names(document: &Document, member: Member) -> Option<Vec<&str>> {
    let Member::Schema(at) = member else { return None };
    let mut names = None;
    for (key, value) in restricting(document, at) {
        match (key, document.get(value)) {
            ("type", Json::String(name)) if name == "object" => {}
            ("required", Json::Array(items)) => {
                names = Some(items.iter().map(|item| document.string(*item)).collect::<Option<_>>()?);
            }
            _ => return None,
        }
    }
    names
}
