//! What answers and calls are marked with: names that nobody can foresee, and the time.

use std::time::{SystemTime, UNIX_EPOCH};

use zinc_engine::random_seed;

/// A new name that begins with `prefix`.
pub(crate) fn new(prefix: &str) -> String {
    const LETTERS: &[u8; 32] = b"abcdefghijkmnpqrstuvwxyz23456789";
    let bits = (u128::from(random_seed()) << 64) | u128::from(random_seed());
    let letters = (0..24).map(|place| char::from(LETTERS[(bits >> (5 * place)) as usize & 31]));
    prefix.chars().chain(letters).collect()
}

/// The time in seconds since 1970.
pub(crate) fn now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs())
}

/// The time in the form of RFC 3339.
pub(crate) fn now_rfc3339() -> String {
    rfc3339(now_s())
}

/// A time in seconds since 1970 in the form of RFC 3339, in UTC.
pub(crate) fn rfc3339(seconds: u64) -> String {
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    // Howard Hinnant's days_from_civil the other way round: years begin in March, so that a leap day is the last of its year.
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_those_of_the_calendar() {
        for (seconds, expected) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_709_251_199, "2024-02-29T23:59:59Z"),
            (1_709_251_200, "2024-03-01T00:00:00Z"),
            (4_102_444_799, "2099-12-31T23:59:59Z"),
        ] {
            assert_eq!(rfc3339(seconds), expected);
        }
    }

    #[test]
    fn names_begin_as_asked_and_differ() {
        let (one, other) = (new("call_"), new("call_"));
        assert!(one.starts_with("call_") && one.len() == 29 && one != other, "{one} {other}");
    }
}
