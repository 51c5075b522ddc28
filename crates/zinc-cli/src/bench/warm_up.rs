//! Repetitions that are not counted, before those that are.

use std::time::Duration;

use zinc_vk::host_now_ns;

/// How long a device is warmed up at least. A card that was idle raises its clocks in the first half second of work: on an H200 a prompt of 2,048 tokens took 7 % longer
/// until then.
const LEAST: Duration = Duration::from_secs(1);

/// Says which repetitions count: those that begin once the device is warm.
#[derive(Debug)]
pub(crate) struct WarmUp {
    /// When it has been warmed up for long enough; `None` if all repetitions count.
    until_ns: Option<u64>,
    /// Whether a repetition has begun.
    has_begun: bool,
}

impl WarmUp {
    /// A device that is to be warmed up from now on, or `off` if the first repetition counts.
    pub(crate) fn new(off: bool) -> Self {
        Self { until_ns: (!off).then(|| host_now_ns() + LEAST.as_nanos() as u64), has_begun: false }
    }

    /// Whether the repetition that begins now counts. One at least does not, unless the warm-up is off.
    pub(crate) fn is_over(&mut self) -> bool {
        let is_first = !std::mem::replace(&mut self.has_begun, true);
        self.until_ns.is_none_or(|until_ns| !is_first && host_now_ns() >= until_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repetition_and_a_time_do_not_count() {
        assert!(WarmUp::new(true).is_over());
        let mut begun = WarmUp::new(false);
        assert!(!begun.is_over() && !begun.is_over(), "the time is not over");
        let mut late = WarmUp { until_ns: Some(0), has_begun: false };
        assert!(!late.is_over() && late.is_over(), "the time is over, and one repetition does not count all the same");
    }
}
