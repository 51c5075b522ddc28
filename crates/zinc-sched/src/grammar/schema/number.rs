//! The numbers that a schema allows, and a regular expression for how they are written.
//!
//! Bounds and divisors are exact decimals. Numbers that are bounded are written without an exponent; those of `const` and `enum` are
//! written as in the schema, digit by digit, except that a whole number which must be an integer is written without a fraction.

use llguidance::derivre::RegexAst;

use super::decimal::{Decimal, MAX_DIGITS, add, remainder};

/// The largest coefficient of a divisor. The lexer has as many states for it, though it makes only those that a text passes through.
const MAX_COEFFICIENT: u64 = 100_000_000;
/// The most digits of a divisor behind its decimal point: the lexer's remainders have 32 bits.
const MAX_SCALE: u32 = 8;

/// A bound of numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Bound {
    pub(super) number: Decimal,
    /// Whether the bound itself is not allowed.
    pub(super) exclusive: bool,
}

/// A divisor: the coefficient times ten to the power of the negative scale.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Divisor {
    coefficient: u64,
    scale: u32,
}

/// A set of numbers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Numbers {
    /// If not `None`, only these numbers; the text is how the schema writes them.
    pub(super) only: Option<Vec<(Decimal, String)>>,
    pub(super) least: Option<Bound>,
    pub(super) most: Option<Bound>,
    divisor: Option<Divisor>,
    pub(super) integer: bool,
}

impl Numbers {
    /// Narrows the set to numbers from a bound upwards.
    pub(super) fn at_least(&mut self, bound: Bound) {
        let tighter = |old: &Bound| (&bound.number, bound.exclusive) > (&old.number, old.exclusive);
        if self.least.as_ref().is_none_or(tighter) {
            self.least = Some(bound);
        }
    }

    /// Narrows the set to numbers up to a bound.
    pub(super) fn at_most(&mut self, bound: Bound) {
        let tighter = |old: &Bound| (&bound.number, old.exclusive) < (&old.number, bound.exclusive);
        if self.most.as_ref().is_none_or(tighter) {
            self.most = Some(bound);
        }
    }

    /// Narrows the set to multiples of a number.
    ///
    /// # Errors
    /// What is wrong with the number, or that it and those before it have too many digits together.
    pub(super) fn multiple_of(&mut self, number: &Decimal) -> Result<(), String> {
        if number.is_negative() || number.is_zero() {
            return Err("multipleOf must be more than 0".to_owned());
        }
        let too_long = || {
            format!(
                "multipleOf has more digits than are supported: {MAX_SCALE} behind the point, {MAX_COEFFICIENT} in all"
            )
        };
        let (_, fraction) = number.written().ok_or_else(too_long)?;
        let scale = u32::try_from(fraction.len()).ok().filter(|&scale| scale <= MAX_SCALE).ok_or_else(too_long)?;
        let digits = number.shifted(i64::from(scale)).floor().ok_or_else(too_long)?;
        let coefficient = digits.iter().try_fold(0_u64, |value, &digit| {
            Some(value * 10 + u64::from(digit)).filter(|&value| value <= MAX_COEFFICIENT)
        });
        let divisor = Divisor { coefficient: coefficient.ok_or_else(too_long)?, scale };
        self.divisor = Some(match self.divisor {
            Some(old) => least_common_multiple(old, divisor).ok_or_else(too_long)?,
            None => divisor,
        });
        Ok(())
    }

    /// Keeps the listed numbers that the rest of the set allows.
    ///
    /// # Errors
    /// A listed number has too many digits to be divided.
    pub(super) fn settle(&mut self) -> Result<(), String> {
        let Some(mut only) = self.only.take() else { return Ok(()) };
        let divisor = self.divisor;
        let (least, most, integer) = (self.least.clone(), self.most.clone(), self.integer);
        let mut error = None;
        only.retain(|(number, text)| {
            let above = least.as_ref().is_none_or(|it| *number > it.number || *number == it.number && !it.exclusive);
            let below = most.as_ref().is_none_or(|it| *number < it.number || *number == it.number && !it.exclusive);
            let divides = divisor.is_none_or(|it| {
                number.is_multiple_of(it.coefficient, it.scale).unwrap_or_else(|| {
                    error = Some(format!("{text} has more than {MAX_DIGITS} digits, so it cannot be divided"));
                    false
                })
            });
            above && below && divides && (!integer || number.is_integer())
        });
        self.only = Some(only);
        error.map_or(Ok(()), Err)
    }

    /// A regular expression for the numbers of the set, `None` if there are none.
    ///
    /// # Errors
    /// A bound has too many digits.
    pub(super) fn regex(&self) -> Result<Option<RegexAst>, String> {
        if let Some(only) = &self.only {
            let texts: Vec<RegexAst> = only.iter().map(|(number, text)| self.literal(number, text)).collect();
            return Ok((!texts.is_empty()).then_some(RegexAst::Or(texts)));
        }
        let whole = Divisor { coefficient: 1, scale: 0 };
        let divisor = match (self.divisor, self.integer) {
            (Some(divisor), true) => {
                Some(least_common_multiple(divisor, whole).ok_or("multipleOf has too many digits")?)
            }
            (divisor, _) => divisor,
        };
        if (&self.least, &self.most) == (&None, &None) {
            let exponent = if self.integer || divisor.is_some() { "" } else { "([eE][+-]?[0-9]+)?" };
            let fraction = if self.integer { "" } else { r"(\.[0-9]+)?" };
            let any = RegexAst::Regex(format!("-?(0|[1-9][0-9]*){fraction}{exponent}"));
            return Ok(Some(divided(any, divisor)));
        }
        let zero = Bound { number: Decimal::natural(Vec::new()), exclusive: false };
        let negated = |bound: &Bound| Bound { number: bound.number.negated(), exclusive: bound.exclusive };
        let mut parts = Vec::new();
        // Below zero: the same with the bounds exchanged, behind a minus.
        let nearest = self.most.as_ref().map(negated).filter(|it| !it.number.is_negative());
        let nearest = nearest.unwrap_or_else(|| Bound { exclusive: true, ..zero.clone() });
        let nearest = if nearest.number.is_zero() { Bound { exclusive: true, ..nearest } } else { nearest };
        if let Some(size) = self.sizes(&nearest, self.least.as_ref().map(negated).as_ref(), divisor)? {
            parts.push(RegexAst::Concat(vec![RegexAst::Literal("-".to_owned()), size]));
        }
        let nearest = self.least.clone().filter(|it| !it.number.is_negative()).unwrap_or(zero);
        if let Some(size) = self.sizes(&nearest, self.most.as_ref(), divisor)? {
            parts.push(size);
        }
        Ok(match parts.len() {
            0 => None,
            1 => parts.pop(),
            _ => Some(RegexAst::Or(parts)),
        })
    }

    fn literal(&self, number: &Decimal, text: &str) -> RegexAst {
        let digits = number.written().filter(|_| self.integer);
        let text = match digits {
            Some((before, _)) => {
                let sign = if number.is_negative() { "-" } else { "" };
                format!("{sign}{}", if before.is_empty() { "0".to_owned() } else { text_of(&before) })
            }
            None => text.to_owned(),
        };
        RegexAst::Literal(text)
    }

    /// Numbers without a sign from one bound, which is not negative, to another; `None` if there are none.
    fn sizes(&self, least: &Bound, most: Option<&Bound>, divisor: Option<Divisor>) -> Result<Option<RegexAst>, String> {
        let is_empty = |least: &Bound, most: &Bound| {
            least.number > most.number || least.number == most.number && (least.exclusive || most.exclusive)
        };
        if most.is_some_and(|most| most.number.is_negative() || is_empty(least, most)) {
            return Ok(None);
        }
        let step = if self.integer { Some(divisor.unwrap_or(Divisor { coefficient: 1, scale: 0 })) } else { divisor };
        if let Some(step) = step {
            // The first multiple from the lower bound on.
            let mut first = least.number.shifted(i64::from(step.scale)).ceiling().ok_or_else(|| too_long(least))?;
            if least.exclusive && Decimal::natural(first.clone()) == least.number.shifted(i64::from(step.scale)) {
                add(&mut first, 1);
            }
            let rest = remainder(&first, step.coefficient);
            add(&mut first, (step.coefficient - rest) % step.coefficient);
            let first = Decimal::natural(first).shifted(-i64::from(step.scale));
            if most.is_some_and(|most| is_empty(&Bound { number: first, exclusive: false }, most)) {
                return Ok(None);
            }
        }
        let mut both = Vec::new();
        if self.integer {
            let mut lowest = least.number.ceiling().ok_or_else(|| too_long(least))?;
            if least.exclusive && Decimal::natural(lowest.clone()) == least.number {
                add(&mut lowest, 1);
            }
            both.push(naturals_from(&lowest));
            if let Some(most) = most {
                let highest = most.number.floor().ok_or_else(|| too_long(most))?;
                // Excluded, it is the highest of those below: as texts with a fraction that may not be there.
                let open = most.exclusive && most.number.is_integer();
                both.push(naturals_to(&highest, open));
            }
        } else {
            let (whole, fraction) = least.number.written().ok_or_else(|| too_long(least))?;
            let mut above = whole.clone();
            add(&mut above, 1);
            let mut texts = vec![format!("({})({FRACTION})?", naturals_from(&above))];
            texts.extend(fractions_from(&fraction, least.exclusive).map(|it| format!("{}{it}", whole_text(&whole))));
            both.push(texts.join("|"));
            if let Some(most) = most {
                let (whole, fraction) = most.number.written().ok_or_else(|| too_long(most))?;
                let mut texts = Vec::new();
                if !whole.is_empty() {
                    texts.push(format!("({})({FRACTION})?", naturals_to(&whole, true)));
                }
                texts.extend(fractions_to(&fraction, most.exclusive).map(|it| format!("{}{it}", whole_text(&whole))));
                both.push(texts.join("|"));
            }
        }
        let mut both: Vec<RegexAst> = both.into_iter().map(RegexAst::Regex).collect();
        let range = if both.len() == 1 { both.remove(0) } else { RegexAst::And(both) };
        Ok(Some(divided(range, divisor)))
    }
}

/// Any digits behind a decimal point.
const FRACTION: &str = r"\.[0-9]+";

fn too_long(bound: &Bound) -> String {
    let sign = if bound.number.is_negative() { "negative " } else { "" };
    format!("a {sign}bound of numbers has more than {MAX_DIGITS} digits on one side of its decimal point")
}

/// The numbers of a regular expression that are multiples.
fn divided(numbers: RegexAst, divisor: Option<Divisor>) -> RegexAst {
    match divisor {
        Some(Divisor { coefficient, scale }) if (coefficient, scale) != (1, 0) || !is_whole(&numbers) => {
            let coefficient = u32::try_from(coefficient).unwrap_or(u32::MAX);
            let sign = RegexAst::Regex("-?".to_owned());
            let multiples = RegexAst::Concat(vec![sign, RegexAst::MultipleOf(coefficient, scale)]);
            RegexAst::And(vec![numbers, multiples])
        }
        _ => numbers,
    }
}

/// Whether a regular expression of [`Numbers`] has no decimal point in it.
fn is_whole(numbers: &RegexAst) -> bool {
    match numbers {
        RegexAst::Regex(text) => !text.contains('.'),
        RegexAst::And(parts) => parts.iter().all(is_whole),
        _ => false,
    }
}

fn least_common_multiple(left: Divisor, right: Divisor) -> Option<Divisor> {
    let scale = left.scale.max(right.scale);
    let scaled = |it: Divisor| it.coefficient.checked_mul(10_u64.pow(scale - it.scale));
    let (a, b) = (scaled(left)?, scaled(right)?);
    let (mut x, mut y) = (a, b);
    while y > 0 {
        (x, y) = (y, x % y);
    }
    let (mut coefficient, mut scale) = ((a / x).checked_mul(b)?, scale);
    while scale > 0 && coefficient % 10 == 0 {
        (coefficient, scale) = (coefficient / 10, scale - 1);
    }
    (coefficient <= MAX_COEFFICIENT).then_some(Divisor { coefficient, scale })
}

fn text_of(digits: &[u8]) -> String {
    digits.iter().map(|digit| char::from(b'0' + digit)).collect()
}

/// The digits before a decimal point as they are written: at least one.
fn whole_text(digits: &[u8]) -> String {
    if digits.is_empty() { "0".to_owned() } else { text_of(digits) }
}

/// So many digits.
fn any_digits(count: usize) -> String {
    match count {
        0 => String::new(),
        count => format!("[0-9]{{{count}}}"),
    }
}

/// Whole numbers that are not less than one, without zeros before them.
fn naturals_from(digits: &[u8]) -> String {
    let first = digits.iter().take_while(|&&digit| digit == 0).count();
    let digits = &digits[first..];
    if digits.is_empty() {
        return "0|[1-9][0-9]*".to_owned();
    }
    let mut texts = vec![format!("[1-9][0-9]{{{},}}", digits.len()), text_of(digits)];
    for (index, &digit) in digits.iter().enumerate().filter(|(_, digit)| **digit < 9) {
        let rest = any_digits(digits.len() - index - 1);
        texts.push(format!("{}[{}-9]{rest}", text_of(&digits[..index]), digit + 1));
    }
    texts.join("|")
}

/// Whole numbers that are not more than one, or less than it, without zeros before them.
fn naturals_to(digits: &[u8], exclusive: bool) -> String {
    let first = digits.iter().take_while(|&&digit| digit == 0).count();
    let digits = &digits[first..];
    if digits.is_empty() {
        // Nothing is below zero; a class without a character matches nothing.
        return if exclusive { "[a&&b]".to_owned() } else { "0".to_owned() };
    }
    let mut texts = vec!["0".to_owned()];
    texts.extend((!exclusive).then(|| text_of(digits)));
    if digits.len() > 1 {
        texts.push(format!("[1-9][0-9]{{0,{}}}", digits.len() - 2));
    }
    for (index, &digit) in digits.iter().enumerate() {
        let lowest = u8::from(index == 0);
        if digit > lowest {
            let rest = any_digits(digits.len() - index - 1);
            texts.push(format!("{}[{lowest}-{}]{rest}", text_of(&digits[..index]), digit - 1));
        }
    }
    texts.join("|")
}

/// Decimal points with digits, or nothing, that are not less than a fraction, or more than it.
fn fractions_from(digits: &[u8], exclusive: bool) -> Option<String> {
    if digits.is_empty() {
        return Some(if exclusive { r"\.[0-9]*[1-9][0-9]*".to_owned() } else { format!("({FRACTION})?") });
    }
    let same = if exclusive { "[0-9]*[1-9][0-9]*" } else { "[0-9]*" };
    let mut texts = vec![format!("{}{same}", text_of(digits))];
    for (index, &digit) in digits.iter().enumerate().filter(|(_, digit)| **digit < 9) {
        texts.push(format!("{}[{}-9][0-9]*", text_of(&digits[..index]), digit + 1));
    }
    Some(format!(r"\.({})", texts.join("|")))
}

/// Decimal points with digits, or nothing, that are not more than a fraction, or less than it; `None` if there are none.
fn fractions_to(digits: &[u8], exclusive: bool) -> Option<String> {
    if digits.is_empty() {
        return (!exclusive).then(|| r"(\.0+)?".to_owned());
    }
    let mut texts: Vec<String> = (1..digits.len()).map(|length| text_of(&digits[..length])).collect();
    texts.extend((!exclusive).then(|| format!("{}0*", text_of(digits))));
    for (index, &digit) in digits.iter().enumerate().filter(|(_, digit)| **digit > 0) {
        texts.push(format!("{}[0-{}][0-9]*", text_of(&digits[..index]), digit - 1));
    }
    Some(if texts.is_empty() { String::new() } else { format!(r"(\.({}))?", texts.join("|")) })
}
