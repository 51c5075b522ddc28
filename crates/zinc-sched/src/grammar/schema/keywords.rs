//! The keywords of JSON Schema: what each one says of a value.
//!
//! A keyword that restricts values and is not known here in full is refused. All others, known to the specification or not, are
//! annotations.

use std::rc::Rc;

use super::decimal::Decimal;
use super::document::{At, Document, Json};
use super::facts::{Facts, Items, Member, Properties, Types};
use super::number::Bound;
use super::{Problem, formats, references};
use crate::grammar::ecma;
use llguidance::derivre::RegexAst;

/// What else a value has to match, from the keywords of one schema.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum More {
    /// This too.
    And(Member),
    /// At least one of these.
    AnyOf(Vec<Member>),
    /// Exactly one of these; the place is that of the `oneOf`.
    OneOf(At, Vec<Member>),
    /// One of the values of an `enum` that are neither arrays nor objects, or one of the others.
    Enum(At),
}

/// Regular expressions of `pattern` and `patternProperties`, each translated once.
#[derive(Default)]
pub(super) struct Patterns {
    texts: Vec<String>,
    pub(super) expressions: Vec<RegexAst>,
}

impl Patterns {
    fn number(&mut self, text: &str) -> Result<usize, String> {
        if let Some(number) = self.texts.iter().position(|known| known == text) {
            return Ok(number);
        }
        let expression =
            ecma::search(text).map_err(|reason| format!("the pattern \"{text}\" cannot be used: {reason}"))?;
        self.texts.push(text.to_owned());
        self.expressions.push(expression);
        Ok(self.texts.len() - 1)
    }
}

/// Adds what a schema says to what is known of a value, and returns what it says by way of other schemas, in the order of its text.
///
/// # Errors
/// A keyword that is not supported, or has a value that it cannot have.
pub(super) fn apply(
    document: &Document,
    patterns: &mut Patterns,
    at: At,
    facts: &mut Facts,
) -> Result<Vec<More>, Problem> {
    match document.get(at) {
        Json::Bool(true) => return Ok(Vec::new()),
        Json::Bool(false) => {
            facts.types = Types::NONE;
            return Ok(Vec::new());
        }
        Json::Object(_) => {}
        _ => {
            return Err(Problem::new(
                at,
                format!("a schema is an object, true or false, not {}", document.excerpt(at)),
            ));
        }
    }
    let schema = Schema { document, at };
    schema.scalars(patterns, facts)?;
    schema.items(facts)?;
    schema.properties(patterns, facts)?;
    schema.more(facts)
}

/// Whether a schema lets every value pass, as far as its own keywords show.
pub(super) fn restricts_nothing(document: &Document, at: At) -> bool {
    match document.get(at) {
        Json::Bool(allowed) => *allowed,
        Json::Object(_) => restricting(document, at).next().is_none(),
        _ => false,
    }
}

/// The keywords of a schema that restrict values.
pub(super) fn restricting(document: &Document, at: At) -> impl Iterator<Item = (&str, At)> {
    let members = document.members(at).iter().map(|(key, value)| (&**key, *value));
    members.filter(|(key, _)| RESTRICTING.contains(key))
}

/// The types of which a `type` allows every value.
pub(super) fn types_named(document: &Document, at: At) -> Types {
    let named = |at: At| document.string(at).and_then(type_named).filter(|_| document.string(at) != Some("integer"));
    match document.get(at) {
        Json::Array(items) => items.iter().filter_map(|item| named(*item)).fold(Types::NONE, Types::or),
        _ => named(at).unwrap_or(Types::NONE),
    }
}

/// The type of a name. Integers are numbers.
fn type_named(name: &str) -> Option<Types> {
    Some(match name {
        "null" => Types::NULL,
        "boolean" => Types::BOOLEAN,
        "number" | "integer" => Types::NUMBER,
        "string" => Types::STRING,
        "array" => Types::ARRAY,
        "object" => Types::OBJECT,
        _ => return None,
    })
}

/// Keywords that restrict values; without one of these a schema lets every value pass.
const RESTRICTING: [&str; 43] = [
    "$dynamicRef",
    "$recursiveRef",
    "$ref",
    "additionalItems",
    "additionalProperties",
    "allOf",
    "anyOf",
    "const",
    "contains",
    "dependencies",
    "dependentRequired",
    "dependentSchemas",
    "else",
    "enum",
    "exclusiveMaximum",
    "exclusiveMinimum",
    "format",
    "if",
    "items",
    "maxContains",
    "maxItems",
    "maxLength",
    "maxProperties",
    "maximum",
    "minContains",
    "minItems",
    "minLength",
    "minProperties",
    "minimum",
    "multipleOf",
    "not",
    "oneOf",
    "pattern",
    "patternProperties",
    "prefixItems",
    "properties",
    "propertyNames",
    "required",
    "then",
    "type",
    "unevaluatedItems",
    "unevaluatedProperties",
    "uniqueItems",
];

/// A schema that is an object.
#[derive(Clone, Copy)]
struct Schema<'d> {
    document: &'d Document,
    at: At,
}

impl<'d> Schema<'d> {
    fn key(self, key: &str) -> Option<At> {
        self.document.member(self.at, key)
    }

    fn error(self, reason: impl Into<String>) -> Problem {
        Problem::new(self.at, reason.into())
    }

    fn unsupported(self, key: &str, why: &str) -> Problem {
        self.error(format!("`{key}` is not supported{why}"))
    }

    fn wrong(self, key: &str, at: At, expected: &str) -> Problem {
        self.error(format!("`{key}` must be {expected}, not {}", self.document.excerpt(at)))
    }

    fn string(self, key: &str) -> Result<Option<&'d str>, Problem> {
        let Some(at) = self.key(key) else { return Ok(None) };
        self.document.string(at).map(Some).ok_or_else(|| self.wrong(key, at, "a string"))
    }

    fn array(self, key: &str) -> Result<Option<&'d [At]>, Problem> {
        match self.key(key).map(|at| (at, self.document.get(at))) {
            None => Ok(None),
            Some((_, Json::Array(items))) => Ok(Some(items)),
            Some((at, _)) => Err(self.wrong(key, at, "an array")),
        }
    }

    fn object(self, key: &str) -> Result<&'d [(String, At)], Problem> {
        match self.key(key).map(|at| (at, self.document.get(at))) {
            None => Ok(&[]),
            Some((_, Json::Object(members))) => Ok(members),
            Some((at, _)) => Err(self.wrong(key, at, "an object")),
        }
    }

    fn strings(self, key: &str, at: At) -> Result<Vec<&'d str>, Problem> {
        let Json::Array(items) = self.document.get(at) else { return Err(self.wrong(key, at, "an array of strings")) };
        let strings = items.iter().map(|&item| self.document.string(item));
        strings.collect::<Option<_>>().ok_or_else(|| self.wrong(key, at, "an array of strings"))
    }

    fn number(self, key: &str, at: At) -> Result<Decimal, Problem> {
        let Json::Number(text) = self.document.get(at) else { return Err(self.wrong(key, at, "a number")) };
        Decimal::parse(text).ok_or_else(|| self.error(format!("`{key}` has an exponent of more than 32 bits: {text}")))
    }

    /// A whole number that is not negative, in any notation.
    fn count(self, key: &str) -> Result<Option<u64>, Problem> {
        let Some(at) = self.key(key) else { return Ok(None) };
        let number = self.number(key, at)?;
        if number.is_negative() || !number.is_integer() {
            return Err(self.wrong(key, at, "a whole number that is not negative"));
        }
        let digits = number.floor().unwrap_or_else(|| vec![9; 30]);
        let count = digits.iter().try_fold(0_u64, |count, &digit| count.checked_mul(10)?.checked_add(u64::from(digit)));
        Ok(Some(count.unwrap_or(u64::MAX)))
    }

    fn scalars(self, patterns: &mut Patterns, facts: &mut Facts) -> Result<(), Problem> {
        if let Some(at) = self.key("type") {
            let names = match self.document.get(at) {
                Json::String(name) => vec![&**name],
                _ => self.strings("type", at)?,
            };
            let mut types = Types::NONE;
            for &name in &names {
                types = types.or(self.type_named(name)?);
            }
            facts.types = facts.types.and(types);
            facts.numbers.integer |= names.contains(&"integer") && !names.contains(&"number");
        }
        let mut bounds = [None, None];
        for (bound, keys) in bounds.iter_mut().zip([["minimum", "exclusiveMinimum"], ["maximum", "exclusiveMaximum"]]) {
            let inclusive = self.key(keys[0]).map(|at| self.number(keys[0], at)).transpose()?;
            // In draft 4, the exclusive bound is true or false and says what the other is.
            let open = match self.key(keys[1]).map(|at| (at, self.document.get(at))) {
                Some((_, Json::Bool(open))) => *open,
                Some((at, _)) => {
                    let number = self.number(keys[1], at)?;
                    *bound = Some(Bound { number, exclusive: true });
                    false
                }
                None => false,
            };
            if let Some(number) = inclusive {
                let inclusive = Bound { number, exclusive: open };
                if keys[0] == "minimum" { facts.numbers.at_least(inclusive) } else { facts.numbers.at_most(inclusive) }
            }
        }
        let [least, most] = bounds;
        least.into_iter().for_each(|bound| facts.numbers.at_least(bound));
        most.into_iter().for_each(|bound| facts.numbers.at_most(bound));
        if let Some(at) = self.key("multipleOf") {
            let number = self.number("multipleOf", at)?;
            facts.numbers.multiple_of(&number).map_err(|reason| self.error(reason))?;
        }
        let length = self.count("minLength")?.unwrap_or(0);
        facts.strings.min_length = facts.strings.min_length.max(length);
        if let Some(length) = self.count("maxLength")? {
            facts.strings.at_most(length);
        }
        if let Some(pattern) = self.string("pattern")? {
            let number = patterns.number(pattern).map_err(|reason| self.error(reason))?;
            facts.strings.patterns.push(patterns.expressions[number].clone());
        }
        if let Some(name) = self.string("format")?
            && let Some(pattern) = formats::pattern(name)
        {
            facts.strings.patterns.push(RegexAst::Regex(pattern));
            formats::max_length(name).into_iter().for_each(|length| facts.strings.at_most(length));
        }
        Ok(())
    }

    fn type_named(self, name: &str) -> Result<Types, Problem> {
        type_named(name).ok_or_else(|| self.error(format!("there is no type \"{name}\"")))
    }

    fn items(self, facts: &mut Facts) -> Result<(), Problem> {
        facts.item_count.at_least(self.count("minItems")?.unwrap_or(0));
        if let Some(count) = self.count("maxItems")? {
            facts.item_count.at_most(count);
        }
        let items = self.key("items");
        // Up to draft 2019-09, an array of schemas was what `prefixItems` is, and `additionalItems` what `items` is beside it.
        let old = items.filter(|&at| matches!(self.document.get(at), Json::Array(_)));
        let prefix = if old.is_some() { self.array("items")? } else { self.array("prefixItems")? };
        let mut rest = if old.is_some() { self.key("additionalItems") } else { items };
        if let Some(at) = self.key("unevaluatedItems")
            && !restricts_nothing(self.document, at)
            && rest.is_none()
        {
            // With `items` there, every item is evaluated.
            self.only_own("unevaluatedItems")?;
            rest = Some(at);
        }
        if prefix.is_some() || rest.is_some() {
            let prefix = prefix.unwrap_or_default().iter().copied().map(Member::Schema).collect();
            facts.items.push(Rc::new(Items { prefix, rest: rest.map(Member::Schema) }));
        }
        match self.key("uniqueItems").map(|at| (at, self.document.get(at))) {
            None | Some((_, Json::Bool(false))) => {}
            Some((_, Json::Bool(true))) if facts.item_count.max.is_some_and(|max| max <= 1) => {}
            Some((_, Json::Bool(true))) => return Err(self.unsupported("uniqueItems", " for arrays of several items")),
            Some((at, _)) => return Err(self.wrong("uniqueItems", at, "true or false")),
        }
        if let Some(at) = self.key("contains") {
            let (min, max) = (self.count("minContains")?.unwrap_or(1), self.count("maxContains")?);
            if restricts_nothing(self.document, at) {
                facts.item_count.at_least(min);
                max.into_iter().for_each(|max| facts.item_count.at_most(max));
            } else if min > 0 || max.is_some() {
                return Err(self.unsupported("contains", ""));
            }
        }
        Ok(())
    }

    fn properties(self, patterns: &mut Patterns, facts: &mut Facts) -> Result<(), Problem> {
        facts.property_count.at_least(self.count("minProperties")?.unwrap_or(0));
        if let Some(count) = self.count("maxProperties")? {
            facts.property_count.at_most(count);
        }
        let named = self.object("properties")?.iter().map(|(name, at)| (name.clone(), Member::Schema(*at)));
        let named: Vec<_> = named.collect();
        let mut by_pattern = Vec::new();
        for (pattern, at) in self.object("patternProperties")? {
            let number = patterns.number(pattern).map_err(|reason| self.error(reason))?;
            by_pattern.push((number, Member::Schema(*at)));
        }
        let mut rest = self.key("additionalProperties");
        if let Some(at) = self.key("unevaluatedProperties")
            && !restricts_nothing(self.document, at)
            && rest.is_none()
        {
            self.only_own("unevaluatedProperties")?;
            rest = Some(at);
        }
        if !named.is_empty() || !by_pattern.is_empty() || rest.is_some() {
            let rest = rest.map(Member::Schema);
            facts.properties.push(Rc::new(Properties { named, patterns: by_pattern, rest }));
        }
        if let Some(at) = self.key("required") {
            self.strings("required", at)?.into_iter().for_each(|name| facts.require(name));
        }
        if let Some(at) = self.key("propertyNames")
            && !restricts_nothing(self.document, at)
        {
            facts.names.push(Member::Schema(at));
        }
        for (_, at) in self.object("dependentRequired")? {
            if !self.strings("dependentRequired", *at)?.is_empty() {
                return Err(self.unsupported("dependentRequired", ""));
            }
        }
        for key in ["dependentSchemas", "dependencies"] {
            for (_, at) in self.object(key)? {
                let is_empty = matches!(self.document.get(*at), Json::Array(items) if items.is_empty());
                if !is_empty && !restricts_nothing(self.document, *at) {
                    return Err(self.unsupported(key, ""));
                }
            }
        }
        Ok(())
    }

    /// Whether other schemas than those of its items and properties apply to the value itself.
    fn applies_others(self) -> bool {
        let keys = [
            "$ref",
            "$dynamicRef",
            "$recursiveRef",
            "allOf",
            "anyOf",
            "oneOf",
            "if",
            "not",
            "dependentSchemas",
            "contains",
        ];
        keys.iter().any(|key| self.key(key).is_some())
    }

    fn only_own(self, key: &str) -> Result<(), Problem> {
        if self.applies_others() {
            return Err(self.unsupported(key, " beside schemas that apply to the same value"));
        }
        Ok(())
    }

    /// The keywords that hold other schemas for the same value.
    fn more(self, facts: &mut Facts) -> Result<Vec<More>, Problem> {
        let mut more = Vec::new();
        for (key, at) in self.document.members(self.at) {
            let schemas = || {
                let schemas = self.array(key)?.unwrap_or_default();
                Ok::<_, Problem>(schemas.iter().copied().map(Member::Schema).collect::<Vec<_>>())
            };
            match &**key {
                "$ref" => {
                    let reference = self.string(key)?.unwrap_or_default();
                    let target = references::resolve(self.document, self.at, reference);
                    more.push(More::And(Member::Schema(target.map_err(|reason| self.error(reason))?)));
                }
                "$dynamicRef" | "$recursiveRef" => return Err(self.unsupported(key, "; `$ref` is")),
                "allOf" => more.extend(schemas()?.into_iter().map(More::And)),
                "anyOf" => more.push(More::AnyOf(schemas()?)),
                "oneOf" => more.push(More::OneOf(*at, schemas()?)),
                "const" => more.push(More::And(Member::Value(*at))),
                "enum" => {
                    self.array(key)?;
                    more.push(More::Enum(*at));
                }
                "not" => self.negation(*at, facts)?,
                "if" => more.extend(self.condition(*at)?),
                _ => {}
            }
        }
        Ok(more)
    }

    /// What must not be: a schema that allows nothing or everything, types, or one name.
    fn negation(self, at: At, facts: &mut Facts) -> Result<(), Problem> {
        let document = self.document;
        let inner = Schema { document, at };
        if restricts_nothing(document, at) {
            facts.types = Types::NONE;
            return Ok(());
        }
        match document.get(at) {
            Json::Bool(false) => return Ok(()),
            Json::Object(_) => {}
            _ => return Err(self.wrong("not", at, "a schema")),
        }
        match restricting(document, at).collect::<Vec<_>>()[..] {
            [(key, value)] if key == "type" => {
                let names = match document.get(value) {
                    Json::String(name) => vec![&**name],
                    _ => inner.strings(key, value)?,
                };
                if !names.contains(&"integer") || names.contains(&"number") || !facts.types.has(Types::NUMBER) {
                    for name in names {
                        facts.types = facts.types.without(inner.type_named(name)?);
                    }
                    return Ok(());
                }
            }
            [(key, value)] if key == "required" => {
                if let [name] = inner.strings(key, value)?[..] {
                    facts.types = facts.types.and(Types::OBJECT);
                    facts.forbid(&[name.to_owned()]);
                    return Ok(());
                }
            }
            _ => {}
        }
        Err(self.unsupported("not", " but for types, one required name, and schemas that are true or false"))
    }

    /// What `if` with `then` and `else` say.
    fn condition(self, at: At) -> Result<Option<More>, Problem> {
        let branch = |key| self.key(key).filter(|&at| !restricts_nothing(self.document, at));
        let branches = (branch("then"), branch("else"));
        let is_true = restricts_nothing(self.document, at);
        let is_false = *self.document.get(at) == Json::Bool(false);
        match branches {
            (None, None) => Ok(None),
            (then, _) if is_true => Ok(then.map(|at| More::And(Member::Schema(at)))),
            (_, otherwise) if is_false => Ok(otherwise.map(|at| More::And(Member::Schema(at)))),
            _ => Err(self.unsupported("if", " with `then` or `else`")),
        }
    }
}
