//! Time as the engine sees it: nanoseconds on one monotonic host clock, replaceable in tests.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// A monotonic host clock.
///
/// The engine uses it for durations only, so any origin will do. To compare its readings with the times in a [`Trace`](crate::Trace), use
/// the clock by which the model stamps its steps (see [`FnClock`]).
pub trait Clock: Send + Sync {
    /// Nanoseconds since a fixed origin; never less than an earlier reading.
    fn now_ns(&self) -> u64;

    /// Keeps the calling thread busy for the duration of `work`, as real work would. It does not sleep, because the time to wake up would be
    /// measured as well.
    fn spend(&self, work: Duration);
}

/// The operating system's monotonic clock (CLOCK_MONOTONIC on Linux), counted from when this value was made.
#[derive(Debug, Clone, Copy)]
pub struct SystemClock {
    origin: Instant,
}

impl SystemClock {
    /// A clock whose origin is now.
    pub fn new() -> Self {
        Self { origin: Instant::now() }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    fn now_ns(&self) -> u64 {
        nanoseconds(self.origin.elapsed())
    }

    fn spend(&self, work: Duration) {
        spin_until(self, work);
    }
}

/// A clock that is read by a function, for example the host clock that a device's timestamps are calibrated to.
#[derive(Debug, Clone, Copy)]
pub struct FnClock<F>(pub F);

impl<F: Fn() -> u64 + Send + Sync> Clock for FnClock<F> {
    fn now_ns(&self) -> u64 {
        (self.0)()
    }

    fn spend(&self, work: Duration) {
        spin_until(self, work);
    }
}

/// A clock that moves only when told to. Clones share the time.
#[derive(Debug, Clone, Default)]
pub struct ManualClock {
    now_ns: Arc<AtomicU64>,
}

impl ManualClock {
    /// A clock at 0.
    pub fn new() -> Self {
        Self::default()
    }

    /// Moves the clock forward by `step`.
    pub fn advance(&self, step: Duration) {
        self.now_ns.fetch_add(nanoseconds(step), Ordering::Relaxed);
    }

    /// Moves the clock forward to `at_ns`. A time in the past leaves it unchanged.
    pub fn advance_to(&self, at_ns: u64) {
        self.now_ns.fetch_max(at_ns, Ordering::Relaxed);
    }
}

impl Clock for ManualClock {
    fn now_ns(&self) -> u64 {
        self.now_ns.load(Ordering::Relaxed)
    }

    fn spend(&self, work: Duration) {
        self.advance(work);
    }
}

/// A duration in whole nanoseconds; `u64::MAX` for one beyond 584 years.
pub(crate) fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

fn spin_until(clock: &impl Clock, work: Duration) {
    let end = clock.now_ns().saturating_add(nanoseconds(work));
    while clock.now_ns() < end {
        std::hint::spin_loop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn manual_clock_moves_only_forward_and_is_shared() {
        let clock = ManualClock::new();
        let other = clock.clone();
        clock.advance(Duration::from_nanos(5));
        other.advance_to(3);
        assert_eq!((clock.now_ns(), other.now_ns()), (5, 5));
        other.advance_to(9);
        clock.spend(Duration::from_nanos(1));
        assert_eq!(other.now_ns(), 10);
    }

    #[test]
    fn spending_nothing_reads_the_clock_and_returns() {
        let clock = SystemClock::new();
        let before = clock.now_ns();
        clock.spend(Duration::ZERO);
        assert!(clock.now_ns() >= before);
    }

    #[test]
    fn a_function_is_a_clock() {
        let ticks = AtomicU64::new(0);
        let clock = FnClock(move || ticks.fetch_add(10, Ordering::Relaxed));
        assert_eq!(clock.now_ns(), 0);
        clock.spend(Duration::from_nanos(25));
        // Read once for the end (10 + 25), then at 20, 30 and 40.
        assert_eq!(clock.now_ns(), 50);
    }

    #[test]
    fn durations_saturate() {
        assert_eq!(nanoseconds(Duration::MAX), u64::MAX);
        assert_eq!(nanoseconds(Duration::from_micros(3)), 3_000);
    }
}
