//! The strings that a schema allows, and a regular expression for them: without quotes and escapes, which the writer puts around it.

use llguidance::derivre::{Regex, RegexAst, RegexBuilder};

/// Work for deciding whether an expression matches anything, or a given text; where it is not enough, the expression counts as one that
/// does.
const FUEL: u64 = 500_000;

/// A set of strings.
#[derive(Debug, Clone, Default)]
pub(super) struct Strings {
    /// If not `None`, only these.
    pub(super) only: Option<Vec<String>>,
    /// Characters, at least and at most.
    pub(super) min_length: u64,
    pub(super) max_length: Option<u64>,
    /// Every string matches all of these, as a whole.
    pub(super) patterns: Vec<RegexAst>,
}

impl Strings {
    /// Narrows the set to strings of at most so many characters.
    pub(super) fn at_most(&mut self, length: u64) {
        self.max_length = Some(self.max_length.map_or(length, |old| old.min(length)));
    }

    /// A regular expression for the strings of the set, `None` if there are certainly none.
    ///
    /// # Errors
    /// An expression that llguidance cannot use.
    pub(super) fn regex(&self) -> Result<Option<RegexAst>, String> {
        if self.max_length.is_some_and(|max| max < self.min_length) {
            return Ok(None);
        }
        let Ok(min) = u32::try_from(self.min_length) else {
            return Err(format!("minLength is {}; the most that is supported is {}", self.min_length, u32::MAX));
        };
        // No text is longer than what 32 bits count.
        let max = self.max_length.and_then(|max| u32::try_from(max).ok()).filter(|&max| max < u32::MAX);
        if let Some(only) = &self.only {
            let mut kept = Vec::new();
            let mut patterns = self.patterns.iter().map(Compiled::new).collect::<Result<Vec<_>, _>>()?;
            for text in only {
                let length = text.chars().count() as u64;
                let fits = self.min_length <= length && self.max_length.is_none_or(|max| length <= max);
                if fits && patterns.iter_mut().all(|pattern| pattern.matches(text)) {
                    kept.push(RegexAst::Literal(text.clone()));
                }
            }
            return Ok(one_or(kept));
        }
        let mut parts = self.patterns.clone();
        match (min, max, parts.is_empty()) {
            (0, None, true) => parts.push(any()),
            (0, None, false) => {}
            (min, max, _) => {
                let max = max.map_or_else(String::new, |max| max.to_string());
                parts.push(RegexAst::Regex(format!("(?s:.{{{min},{max}}})")));
            }
        }
        let all = if parts.len() == 1 { parts.remove(0) } else { RegexAst::And(parts) };
        Ok((self.patterns.is_empty() || !is_empty(&all)?).then_some(all))
    }
}

/// Any text.
pub(super) fn any() -> RegexAst {
    RegexAst::Regex("(?s:.*)".to_owned())
}

/// Any of these expressions; `None` if there are none.
pub(super) fn one_or(mut choices: Vec<RegexAst>) -> Option<RegexAst> {
    match choices.len() {
        0 => None,
        1 => choices.pop(),
        _ => Some(RegexAst::Or(choices)),
    }
}

/// Whether no text matches. An expression for which that is too much work to find out counts as one that is matched.
///
/// # Errors
/// An expression that llguidance cannot use.
pub(super) fn is_empty(expression: &RegexAst) -> Result<bool, String> {
    let mut builder = RegexBuilder::new();
    let expr = builder.mk(expression).map_err(|error| error.to_string())?;
    Ok(builder.into_regex_limited(expr, FUEL).is_ok_and(|mut regex| regex.always_empty()))
}

/// An expression that texts are held against.
pub(super) struct Compiled(Regex);

impl Compiled {
    /// # Errors
    /// An expression that llguidance cannot use.
    pub(super) fn new(expression: &RegexAst) -> Result<Self, String> {
        let mut builder = RegexBuilder::new();
        let expr = builder.mk(expression).map_err(|error| error.to_string())?;
        let regex = builder.into_regex_limited(expr, FUEL);
        Ok(Self(regex.map_err(|_| "the pattern is too large to hold names and constants against it".to_owned())?))
    }

    pub(super) fn matches(&mut self, text: &str) -> bool {
        self.0.is_match(text)
    }
}
