//! How fast the device is, learned from the steps that the host has waited for: what a step that samples takes, and what ranges of steps that feed take
//! relative to their estimates. A pure function of times, which decides when steps are submitted and nothing else.

use std::time::Duration;

/// A wait of at least so long has ended because the device had ended the step, so that the time of its end is known. A shorter one may have found a step that
/// ended before.
const WAITED: Duration = Duration::from_micros(20);

/// How much a new measurement counts, against all those before it.
const NEWEST: f64 = 0.25;

/// What the device has done between the end of one step in flight and that of the next, and when the host saw it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Measured {
    /// The estimated time of the ranges among it, those of the step included.
    pub(crate) ranges: Duration,
    /// Whether the step is one that only samples.
    pub(crate) samples: bool,
    /// When the first of it had been submitted.
    pub(crate) submitted_ns: u64,
    /// When the host began to wait for the step.
    pub(crate) wait_ns: u64,
    /// When the wait was over.
    pub(crate) observed_ns: u64,
    /// Whether all of it ran as it was submitted: nothing had been cancelled, and nothing waited for the host.
    pub(crate) is_plain: bool,
}

/// The speed of a device.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    /// Nanoseconds of a step that samples.
    sample_ns: Option<f64>,
    /// The time of ranges as a multiple of their estimates.
    scale: Option<f64>,
    /// When the step before ended, if the host has seen that.
    ended_ns: Option<u64>,
}

impl Pace {
    /// What a step that samples takes; `None` before one was measured.
    pub(crate) fn sample_time(&self) -> Option<Duration> {
        self.sample_ns.map(|ns| Duration::from_nanos(ns as u64))
    }

    /// What ranges take whose estimates add up to `estimate`; [`Duration::MAX`] before any were measured, so that no two of them come between two tokens.
    pub(crate) fn range_time(&self, estimate: Duration) -> Duration {
        let scaled = |scale: f64| Duration::try_from_secs_f64(estimate.as_secs_f64() * scale).unwrap_or(Duration::MAX);
        self.scale.map_or(Duration::MAX, scaled)
    }

    /// Takes note of a step that was waited for. What it says is used if the device was busy all along, between ends that the host has seen.
    pub(crate) fn observed(&mut self, step: Measured) {
        let Measured { ranges, samples, submitted_ns, wait_ns, observed_ns, is_plain } = step;
        let saw_end = observed_ns.saturating_sub(wait_ns) >= WAITED.as_nanos() as u64;
        let before = std::mem::replace(&mut self.ended_ns, saw_end.then_some(observed_ns));
        let Some(begun_ns) = before.filter(|ended| is_plain && saw_end && submitted_ns < *ended) else { return };
        let elapsed = observed_ns.saturating_sub(begun_ns) as f64;
        let estimate = ranges.as_nanos() as f64;
        if estimate == 0.0 {
            if samples {
                learn(&mut self.sample_ns, elapsed);
            }
            return;
        }
        let own = if samples { self.sample_ns } else { Some(0.0) };
        if let Some(of_ranges) = own.map(|own| elapsed - own).filter(|left| *left > 0.0) {
            learn(&mut self.scale, of_ranges / estimate);
        }
    }
}

fn learn(known: &mut Option<f64>, value: f64) {
    *known = Some(known.map_or(value, |known| known + (value - known) * NEWEST));
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// A step whose end the host has waited for, and what came with it, submitted long before.
    fn step(ranges_ms: u64, samples: bool, observed_ms: u64) -> Measured {
        Measured {
            ranges: Duration::from_millis(ranges_ms),
            samples,
            submitted_ns: 0,
            wait_ns: observed_ms * MS - MS,
            observed_ns: observed_ms * MS,
            is_plain: true,
        }
    }

    fn times(pace: &Pace) -> (Option<Duration>, Duration) {
        (pace.sample_time(), pace.range_time(Duration::from_millis(10)))
    }

    #[test]
    fn nothing_is_known_before_two_ends_were_seen() {
        let mut pace = Pace::default();
        assert_eq!(times(&pace), (None, Duration::MAX));
        pace.observed(step(0, true, 10));
        assert_eq!(times(&pace), (None, Duration::MAX));
        pace.observed(step(0, true, 15));
        assert_eq!(times(&pace), (Some(Duration::from_millis(5)), Duration::MAX));
    }

    #[test]
    fn ranges_are_what_is_left_beside_the_step_that_samples() {
        let mut pace = Pace::default();
        pace.observed(step(0, true, 10));
        pace.observed(step(20, true, 25));
        assert_eq!(times(&pace).1, Duration::MAX, "what the step itself takes is not known yet");
        pace.observed(step(0, true, 30));
        pace.observed(step(20, true, 45));
        assert_eq!(times(&pace), (Some(Duration::from_millis(5)), Duration::from_millis(5)), "twice as fast");
        pace.observed(step(10, false, 75));
        assert_eq!(times(&pace).1, Duration::from_micros(11_250), "a quarter of the way to three times as slow");
    }

    #[test]
    fn what_the_host_has_not_seen_end_says_nothing() {
        let mut pace = Pace::default();
        pace.observed(step(0, true, 10));
        pace.observed(Measured { wait_ns: 40 * MS, ..step(0, true, 40) });
        pace.observed(step(0, true, 50));
        assert_eq!(times(&pace).0, None, "nobody knows when the step before 50 ms began");
        pace.observed(Measured { is_plain: false, ..step(0, true, 51) });
        pace.observed(Measured { submitted_ns: 53 * MS, ..step(0, true, 54) });
        assert_eq!(times(&pace).0, None, "the device was idle, or had nothing to do");
        pace.observed(step(0, true, 60));
        assert_eq!(times(&pace).0, Some(Duration::from_millis(6)));
    }
}
