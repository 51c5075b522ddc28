//! Decimal numbers of any size, as JSON writes them: compared, rounded and divided digit by digit.

use std::cmp::Ordering;

/// Digits before and after the decimal point of a number that is written out, leading and trailing zeros included. The largest double has
/// 309 before it, the smallest 324 behind it.
pub(super) const MAX_DIGITS: usize = 400;

/// A number without rounding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Decimal {
    negative: bool,
    /// Digits from 0 to 9; neither the first nor the last is 0. None for zero.
    digits: Vec<u8>,
    /// The decimal point is behind so many digits: 0.012 has the digits 12 and the point -1.
    point: i64,
}

impl Decimal {
    /// Reads a number in the syntax of JSON. `None` if its exponent does not fit into 32 bits.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (negative, text) = text.strip_prefix('-').map_or((false, text), |rest| (true, rest));
        let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let digits: Vec<u8> = whole.bytes().chain(fraction.bytes()).map(|digit| digit.wrapping_sub(b'0')).collect();
        let is_zero = digits.iter().all(|&digit| digit == 0);
        let exponent = match exponent.parse::<i32>() {
            Ok(exponent) => i64::from(exponent),
            Err(_) if is_zero => 0,
            Err(_) => return None,
        };
        let point = i64::try_from(whole.len()).ok()? + exponent;
        Some(Self { negative, digits, point }.reduced())
    }

    /// The whole number with these digits, which may begin with zeros.
    pub(super) fn natural(digits: Vec<u8>) -> Self {
        let point = digits.len() as i64;
        Self { negative: false, digits, point }.reduced()
    }

    /// Without zeros at either end.
    fn reduced(mut self) -> Self {
        let leading = self.digits.iter().take_while(|&&digit| digit == 0).count();
        self.digits.drain(..leading);
        self.point -= leading as i64;
        let trailing = self.digits.iter().rev().take_while(|&&digit| digit == 0).count();
        self.digits.truncate(self.digits.len() - trailing);
        if self.digits.is_empty() {
            return Self { negative: false, digits: Vec::new(), point: 0 };
        }
        self
    }

    pub(super) fn is_negative(&self) -> bool {
        self.negative
    }

    pub(super) fn is_zero(&self) -> bool {
        self.digits.is_empty()
    }

    pub(super) fn is_integer(&self) -> bool {
        self.point >= self.digits.len() as i64
    }

    /// The number with the other sign.
    pub(super) fn negated(&self) -> Self {
        Self { negative: !self.negative && !self.is_zero(), ..self.clone() }
    }

    /// The number times ten to the power of `exponent`.
    pub(super) fn shifted(&self, exponent: i64) -> Self {
        if self.is_zero() { self.clone() } else { Self { point: self.point + exponent, ..self.clone() } }
    }

    /// The digits before and behind the decimal point of the absolute value: before it none for what is below one, behind it no zero
    /// at the end. `None` if they are more than [`MAX_DIGITS`] on one side.
    pub(super) fn written(&self) -> Option<(Vec<u8>, Vec<u8>)> {
        let most = MAX_DIGITS as i64;
        let behind = self.digits.len() as i64 - self.point;
        if self.point > most || behind > most {
            return None;
        }
        let mut before: Vec<u8> = self.digits.iter().copied().take(self.point.max(0) as usize).collect();
        before.resize(self.point.max(0) as usize, 0);
        let mut fraction = vec![0; (-self.point).max(0) as usize];
        fraction.extend(self.digits.iter().skip(self.point.max(0) as usize));
        if self.is_zero() {
            fraction.clear();
        }
        Some((before, fraction))
    }

    /// The smallest whole number that is not smaller, of a number that is not negative. `None` as for [`Self::written`].
    pub(super) fn ceiling(&self) -> Option<Vec<u8>> {
        let (mut before, fraction) = self.written()?;
        if !fraction.is_empty() {
            add(&mut before, 1);
        }
        Some(before)
    }

    /// The largest whole number that is not larger, of a number that is not negative. `None` as for [`Self::written`].
    pub(super) fn floor(&self) -> Option<Vec<u8>> {
        Some(self.written()?.0)
    }

    /// Whether the number is a multiple of `coefficient` times ten to the power of `-exponent`. `None` as for [`Self::written`].
    pub(super) fn is_multiple_of(&self, coefficient: u64, exponent: u32) -> Option<bool> {
        let (whole, fraction) = self.shifted(i64::from(exponent)).written()?;
        Some(fraction.is_empty() && remainder(&whole, coefficient) == 0)
    }
}

impl Ord for Decimal {
    fn cmp(&self, other: &Self) -> Ordering {
        let size = |number: &Self| (!number.is_zero()).then_some(number.point);
        let absolute = || size(self).cmp(&size(other)).then_with(|| self.digits.cmp(&other.digits));
        match (self.negative, other.negative) {
            (false, false) => absolute(),
            (true, true) => absolute().reverse(),
            (true, false) => Ordering::Less,
            (false, true) => Ordering::Greater,
        }
    }
}

impl PartialOrd for Decimal {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Adds a number to the whole number of these digits.
pub(super) fn add(digits: &mut Vec<u8>, number: u64) {
    let mut carry = number;
    for digit in digits.iter_mut().rev() {
        carry += u64::from(*digit);
        *digit = (carry % 10) as u8;
        carry /= 10;
    }
    while carry > 0 {
        digits.insert(0, (carry % 10) as u8);
        carry /= 10;
    }
}

/// The remainder of the whole number of these digits.
///
/// # Panics
/// If the divisor is 0 or more than a tenth of 2^64.
pub(super) fn remainder(digits: &[u8], divisor: u64) -> u64 {
    assert!(divisor > 0 && divisor <= u64::MAX / 20, "the divisor is {divisor}");
    digits.iter().fold(0, |rest, &digit| (rest * 10 + u64::from(digit)) % divisor)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(text: &str) -> Decimal {
        Decimal::parse(text).unwrap()
    }

    #[test]
    fn numbers_are_compared_by_value() {
        // In growing order; those in one row are equal.
        let rows = [
            &["-1e400"][..],
            &["-18446744073709551616"],
            &["-18446744073709551615", "-1.8446744073709551615e19"],
            &["-1.5", "-15E-1", "-0.15e+1"],
            &["-1e-400"],
            &["0", "-0", "0.000", "0e99999999999"],
            &["1e-400"],
            &["0.1", "1e-1", "0.100"],
            &["9007199254740992"],
            &["9007199254740993", "9007199254740993.0"],
            &["18446744073709551615"],
            &["1e20", "100000000000000000000"],
        ];
        for (i, left) in rows.iter().enumerate() {
            for (j, right) in rows.iter().enumerate() {
                for (left, right) in left.iter().flat_map(|left| right.iter().map(move |right| (left, right))) {
                    assert_eq!(number(left).cmp(&number(right)), i.cmp(&j), "{left} and {right}");
                }
            }
        }
        assert_eq!(Decimal::parse("1e99999999999"), None);
    }

    #[test]
    fn digits_are_those_of_the_number() {
        let written = |text: &str| {
            let (before, behind) = number(text).written()?;
            let text = |digits: Vec<u8>| digits.iter().map(|digit| char::from(b'0' + digit)).collect::<String>();
            Some(format!("{}.{}", text(before), text(behind)))
        };
        for (text, expected) in [("120.050", "120.05"), ("-12e2", "1200."), ("0", "."), ("12e-3", ".012")] {
            assert_eq!(written(text).as_deref(), Some(expected), "{text}");
        }
        assert!(written("1e399").is_some() && written("1e400").is_none());
        assert!(written("1e-400").is_some() && written("1e-401").is_none());
        assert!(number("2.0").is_integer() && number("20e-1").is_integer() && !number("0.5").is_integer());
        assert_eq!(number("9.1").ceiling(), Some(vec![1, 0]));
        assert_eq!(number("9.9").floor(), Some(vec![9]));
    }

    #[test]
    fn division_has_no_rounding() {
        for (text, coefficient, exponent, expected) in [
            ("0.07", 1, 2, true),
            ("0.075", 1, 2, false),
            ("18446744073709551615", 5, 0, true),
            ("18446744073709551614", 5, 0, false),
            ("-7.5", 25, 1, true),
            ("1e300", 3, 0, false),
            ("0", 7, 0, true),
        ] {
            assert_eq!(number(text).is_multiple_of(coefficient, exponent), Some(expected), "{text}");
        }
    }
}
