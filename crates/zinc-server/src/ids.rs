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
