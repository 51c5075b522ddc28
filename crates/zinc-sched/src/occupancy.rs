//! How long the device has work, as the host sees it: the loop notes when that changes.

use std::time::Duration;

/// How long the device had work and how long it had none, as the host saw it. Gaps between two steps that were both queued are not seen and count as work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Occupancy {
    /// Time in which a step was in flight.
    pub busy: Duration,
    /// Time in which no step was in flight although a sequence ran.
    pub idle: Duration,
}

/// What the device has to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Work {
    /// A step is in flight.
    Queued,
    /// A sequence runs, and no step is in flight.
    Lacking,
    /// No sequence runs.
    Unwanted,
}

/// Adds up the times between two notes.
#[derive(Debug)]
pub(crate) struct OccupancyMeter {
    sums: Occupancy,
    /// What the device has had to do since the last note.
    work: Work,
    /// When that was noted, on the engine's clock.
    since_ns: u64,
}

impl OccupancyMeter {
    pub(crate) fn new() -> Self {
        Self { sums: Occupancy::default(), work: Work::Unwanted, since_ns: 0 }
    }

    /// Notes what the device has to do from now on, and returns the sums up to now.
    pub(crate) fn note(&mut self, work: Work, now_ns: u64) -> Occupancy {
        let passed = Duration::from_nanos(now_ns.saturating_sub(self.since_ns));
        match self.work {
            Work::Queued => self.sums.busy += passed,
            Work::Lacking => self.sums.idle += passed,
            Work::Unwanted => {}
        }
        (self.work, self.since_ns) = (work, now_ns);
        self.sums
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_counts_for_what_the_device_had_to_do_in_it() {
        let mut meter = OccupancyMeter::new();
        let ns = |busy, idle| Occupancy { busy: Duration::from_nanos(busy), idle: Duration::from_nanos(idle) };
        assert_eq!(meter.note(Work::Queued, 1000), ns(0, 0), "before the first sequence nobody waits");
        assert_eq!(meter.note(Work::Queued, 1010), ns(10, 0));
        assert_eq!(meter.note(Work::Lacking, 1030), ns(30, 0));
        assert_eq!(meter.note(Work::Queued, 1035), ns(30, 5));
        assert_eq!(meter.note(Work::Unwanted, 1040), ns(35, 5));
        assert_eq!(meter.note(Work::Queued, 5000), ns(35, 5));
        assert_eq!(meter.note(Work::Queued, 4000), ns(35, 5), "a clock that goes back takes nothing away");
    }
}
