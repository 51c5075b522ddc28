//! Floats as Python writes and rounds them.

/// A float as Python's `repr` has it: the shortest digits that give the same float, with an exponent below 1e-4 and from
/// 1e16.
pub(super) fn repr(value: f64) -> String {
    if value.is_nan() {
        return "nan".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "inf" } else { "-inf" }.to_owned();
    }
    let scientific = format!("{value:e}");
    let (digits, exponent) = scientific.split_once('e').expect("an exponent was asked for");
    let exponent: i32 = exponent.parse().expect("exponents are numbers");
    if value == 0.0 || (-4..16).contains(&exponent) {
        // `{:?}` has the shortest digits too, and a ".0", but its own idea of where exponents start.
        let fixed = format!("{value}");
        return if fixed.contains('.') { fixed } else { fixed + ".0" };
    }
    format!("{digits}e{}", exponent_text(exponent))
}

/// An exponent with its sign and at least two digits.
fn exponent_text(exponent: i32) -> String {
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{sign}{:02}", exponent.abs())
}

/// A finite number without its sign as C's `%e` writes it, with a decimal point in any case if `alternate`.
pub(super) fn exponential(value: f64, precision: usize, alternate: bool) -> String {
    let scientific = format!("{:.precision$e}", value.abs());
    let (digits, exponent) = scientific.split_once('e').expect("an exponent was asked for");
    let point = if alternate && precision == 0 { "." } else { "" };
    format!("{digits}{point}e{}", exponent_text(exponent.parse().expect("exponents are numbers")))
}

/// A finite number without its sign as C's `%f` writes it, with a decimal point in any case if `alternate`.
pub(super) fn fixed(value: f64, precision: usize, alternate: bool) -> String {
    let point = if alternate && precision == 0 { "." } else { "" };
    format!("{:.precision$}{point}", value.abs())
}

/// A finite number without its sign as C's `%g` writes it: with zeros at the end if `alternate`. An exponent is written
/// below 1e-4 and from 10 to the power of `largest`.
pub(super) fn general(value: f64, precision: usize, alternate: bool, largest: i32) -> String {
    let precision = precision.max(1);
    let scientific = format!("{:.*e}", precision - 1, value.abs());
    let (digits, exponent) = scientific.split_once('e').expect("an exponent was asked for");
    let exponent: i32 = exponent.parse().expect("exponents are numbers");
    let strip = |text: &str| {
        if alternate || !text.contains('.') {
            text.to_owned()
        } else {
            text.trim_end_matches('0').trim_end_matches('.').to_owned()
        }
    };
    if exponent < -4 || exponent >= largest {
        return format!("{}e{}", strip(digits), exponent_text(exponent));
    }
    let places = usize::try_from(i32::try_from(precision).unwrap_or(i32::MAX) - 1 - exponent).unwrap_or(0);
    strip(&format!("{:.places$}", value.abs()))
}

/// Python's `round(value, digits)`: to the nearest, to even where two are equally near. `None` where the result is no
/// float.
pub(super) fn round(value: f64, digits: i128) -> Option<f64> {
    if !value.is_finite() || digits > 323 {
        return Some(value);
    }
    if digits < -308 {
        return Some(0.0 * value);
    }
    if let Ok(digits) = usize::try_from(digits) {
        // Formatting rounds the exact value, half to even.
        return format!("{value:.digits$}").parse().ok().filter(|rounded: &f64| rounded.is_finite());
    }
    let power = u32::try_from(-digits).ok()?;
    let sign = value.signum();
    let value = value.abs();
    let Some(unit) = 10i128.checked_pow(power) else {
        // The unit is above 1e38; smaller numbers round to zero.
        return (value < 4e38).then_some(0.0 * sign);
    };
    if value > 1e38 {
        return None;
    }
    let whole = value.trunc() as i128;
    let (mut count, rest) = (whole / unit, whole % unit);
    let twice = rest * 2;
    let above_half = twice > unit || (twice == unit && (value.fract() > 0.0 || count % 2 == 1));
    count += i128::from(above_half);
    Some((count * unit) as f64 * sign)
}

/// Reads a number as Python's `float()` does.
pub(super) fn parse(text: &str) -> Option<f64> {
    let text = text.trim_matches(super::unicode::is_space);
    let bytes = text.as_bytes();
    let is_digit = |place: usize| bytes.get(place).is_some_and(u8::is_ascii_digit);
    for (place, _) in text.match_indices('_') {
        if place == 0 || !is_digit(place - 1) || !is_digit(place + 1) {
            return None;
        }
    }
    text.replace('_', "").parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_are_written_as_python_writes_them() {
        let cases = [
            (0.0, "0.0"),
            (-0.0, "-0.0"),
            (1.0, "1.0"),
            (0.1, "0.1"),
            (1e-4, "0.0001"),
            (1e-5, "1e-05"),
            (1.5e-7, "1.5e-07"),
            (123_456.789, "123456.789"),
            (1e15, "1000000000000000.0"),
            (1e16, "1e+16"),
            (1.25e22, "1.25e+22"),
            (1e100, "1e+100"),
            (f64::MAX, "1.7976931348623157e+308"),
            (5e-324, "5e-324"),
            (f64::INFINITY, "inf"),
            (f64::NEG_INFINITY, "-inf"),
            (f64::NAN, "nan"),
        ];
        for (value, expected) in cases {
            assert_eq!(repr(value), expected);
        }
    }
}
