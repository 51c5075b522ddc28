//! How times are spread.

use serde_json::{Value, json};

/// The median, the 95th percentile and the largest of some times, in milliseconds; `None` of none.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Spread {
    pub(crate) median_ms: f64,
    pub(crate) p95_ms: f64,
    pub(crate) max_ms: f64,
}

impl Spread {
    /// The spread of these times, in nanoseconds.
    pub(crate) fn of(times_ns: impl Iterator<Item = u64>) -> Option<Self> {
        let mut times_ns: Vec<u64> = times_ns.collect();
        times_ns.sort_unstable();
        // The smallest time for which at least so many percent are no larger.
        let at = |percent: usize| times_ns.get((times_ns.len() * percent).div_ceil(100).checked_sub(1)?);
        let ms = |ns: &u64| *ns as f64 / 1e6;
        Some(Self { median_ms: at(50).map(ms)?, p95_ms: at(95).map(ms)?, max_ms: times_ns.last().map(ms)? })
    }

    /// An object with a key for each of the three, whose values are null if there were no times.
    pub(crate) fn json(spread: Option<Self>) -> Value {
        json!({
            "median_ms": spread.map(|spread| spread.median_ms),
            "p95_ms": spread.map(|spread| spread.p95_ms),
            "max_ms": spread.map(|spread| spread.max_ms),
        })
    }

    /// The three as cells of a table, in their order.
    pub(crate) fn cells(spread: Option<Self>) -> [String; 3] {
        let of = |value: fn(Self) -> f64| spread.map_or("-".to_owned(), |spread| format!("{:.2}", value(spread)));
        [of(|spread| spread.median_ms), of(|spread| spread.p95_ms), of(|spread| spread.max_ms)]
    }
}
