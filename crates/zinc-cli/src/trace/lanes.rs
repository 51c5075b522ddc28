//! Turns a trace into lanes: spans of time of the host and of the GPU, on one clock.
//!
//! A trace says when each step was submitted, run and observed. The host is one thread, which at any time submits,
//! waits or works on a token, and this is worked out from those times: from an observation to the next submit the host
//! works on the token that it has observed, and before an observation it waits.

use super::recorded::{Recorded, Stamps, Step};

/// What the host does in a span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Activity {
    /// The host hands a step to the driver. In the fence baseline the host writes the step's commands first.
    Submit,
    /// The host waits for the oldest step in flight.
    Wait,
    /// The host works on the token of the step that it observed last.
    Work,
}

/// A span of the host's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct HostSpan {
    pub(super) activity: Activity,
    /// Index in [`Recorded::steps`] of the step that the span belongs to.
    pub(super) of: usize,
    pub(super) begin_ns: u64,
    pub(super) end_ns: u64,
}

/// A span of the GPU's time: one step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct GpuSpan {
    /// Index in [`Recorded::steps`].
    pub(super) of: usize,
    pub(super) begin_ns: u64,
    pub(super) end_ns: u64,
    /// How long the GPU idled inside the step, at most as long as the step took.
    pub(super) idle_ns: u64,
}

/// The spans of a trace, by lane. The spans of a lane are in order of time and do not overlap.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Lanes {
    pub(super) host: Vec<HostSpan>,
    pub(super) gpu: Vec<GpuSpan>,
}

impl Lanes {
    /// The lanes of a whole trace.
    pub(super) fn of(recorded: &Recorded) -> Self {
        Self { host: host(recorded), gpu: gpu(&recorded.steps) }
    }

    /// The begin and the end, in nanoseconds, of each pause of the GPU between two steps.
    pub(super) fn gaps(&self) -> impl Iterator<Item = (u64, u64)> {
        let pairs = self.gpu.windows(2).map(|pair| (pair[0].end_ns, pair[1].begin_ns));
        pairs.filter(|(begin, end)| end > begin)
    }

    /// When the first span begins, in nanoseconds; 0 if there are no spans.
    pub(super) fn origin_ns(&self) -> u64 {
        let first = self.host.first().map(|span| span.begin_ns).into_iter().chain(self.gpu.first().map(|s| s.begin_ns));
        first.min().unwrap_or(0)
    }
}

/// The GPU's spans. The timestamps of two steps can overlap by the resolution of the device's clock; then the later span begins where the
/// earlier one ends.
fn gpu(steps: &[Step]) -> Vec<GpuSpan> {
    let mut spans: Vec<GpuSpan> = Vec::new();
    for (of, step) in steps.iter().enumerate() {
        let Some(Stamps { begin_ns, end_ns, idle_ns }) = step.gpu else { continue };
        let begin_ns = spans.last().map_or(begin_ns, |before| begin_ns.max(before.end_ns));
        let end_ns = end_ns.max(begin_ns);
        spans.push(GpuSpan { of, begin_ns, end_ns, idle_ns: idle_ns.min(end_ns - begin_ns) });
    }
    spans
}

/// The host's lane while its spans are put together.
#[derive(Default)]
struct Host {
    spans: Vec<HostSpan>,
    /// The time at which the next span begins, in nanoseconds. What the host did before it is known.
    now_ns: u64,
    /// Index of the last observed step, if nothing was submitted after it: the host may have worked on that step's
    /// token since then.
    token: Option<usize>,
}

impl Host {
    /// Adds a span from the end of the last one to `end_ns`, in which the host does `activity` for step `of`. If the
    /// last span says the same, that one is made longer.
    fn spend(&mut self, activity: Activity, of: usize, end_ns: u64) {
        let begin_ns = self.now_ns;
        if end_ns <= begin_ns {
            return;
        }
        self.now_ns = end_ns;
        match self.spans.last_mut() {
            Some(last) if (last.activity, last.of, last.end_ns) == (activity, of, begin_ns) => last.end_ns = end_ns,
            _ => self.spans.push(HostSpan { activity, of, begin_ns, end_ns }),
        }
    }

    fn submit(&mut self, of: usize, step: &Step, blocks: bool) {
        match self.token.take() {
            Some(token) => self.spend(Activity::Work, token, step.submitted_at_ns),
            None => self.now_ns = self.now_ns.max(step.submitted_at_ns),
        }
        // If the call returns only when the step is done, it counts as submitting until the device begins the step.
        let submitted = step.gpu.filter(|_| blocks).map_or(step.submit_done_ns, |gpu| gpu.begin_ns);
        self.spend(Activity::Submit, of, submitted.min(step.submit_done_ns));
        self.spend(Activity::Wait, of, step.submit_done_ns);
    }

    fn observe(&mut self, of: usize, step: &Step, host_work_ns: u64) {
        if let Some(token) = self.token.take() {
            // Nothing was submitted since the last observation, so the trace does not tell when the host stopped
            // working and began to wait. If the device had finished this step by the last observation, the host did not
            // wait for it at all. Otherwise only the busy time that the user asked for (`host_work_ns`) counts as work.
            let was_done = step.gpu.is_some_and(|gpu| gpu.end_ns <= self.now_ns);
            let known = if was_done { u64::MAX } else { self.now_ns.saturating_add(host_work_ns) };
            self.spend(Activity::Work, token, known.min(step.observed_at_ns));
        }
        self.spend(Activity::Wait, of, step.observed_at_ns);
        self.token = Some(of);
    }
}

fn host(recorded: &Recorded) -> Vec<HostSpan> {
    let steps = &recorded.steps;
    let blocks = recorded.sync.starts_with("fence");
    let host_work_ns = recorded.host_work_us.saturating_mul(1000);
    let (mut host, mut submitted) = (Host::default(), 0);
    for (observed, step) in steps.iter().enumerate() {
        // Steps are submitted in order and observed in order, and each is submitted before it is observed.
        while submitted < steps.len()
            && (submitted <= observed || steps[submitted].submitted_at_ns < step.observed_at_ns)
        {
            host.submit(submitted, &steps[submitted], blocks);
            submitted += 1;
        }
        host.observe(observed, step, host_work_ns);
    }
    host.spans
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(submitted_at_ns: u64, submit_done_ns: u64, observed_at_ns: u64, gpu: Option<(u64, u64)>) -> Step {
        let gpu = gpu.map(|(begin_ns, end_ns)| Stamps { begin_ns, end_ns, idle_ns: 7 });
        Step { submitted_at_ns, submit_done_ns, observed_at_ns, gpu, ..Step::default() }
    }

    fn lanes(sync: &str, host_work_us: u64, steps: Vec<Step>) -> Lanes {
        Lanes::of(&Recorded { sync: sync.to_owned(), host_work_us, steps, ..Recorded::default() })
    }

    fn spans(lanes: &Lanes) -> Vec<(Activity, usize, u64, u64)> {
        lanes.host.iter().map(|span| (span.activity, span.of, span.begin_ns, span.end_ns)).collect()
    }

    #[test]
    fn a_window_of_two_works_while_the_device_runs() {
        use Activity::{Submit, Wait, Work};
        let lanes = lanes(
            "timeline",
            0,
            vec![
                step(100, 103, 205, Some((110, 200))),
                step(104, 106, 305, Some((202, 300))),
                step(220, 223, 404, Some((302, 400))),
            ],
        );
        let expected = [
            (Submit, 0, 100, 103),
            (Submit, 1, 104, 106),
            (Wait, 0, 106, 205),
            (Work, 0, 205, 220),
            (Submit, 2, 220, 223),
            (Wait, 1, 223, 305),
            // It is not known what the host did between the last two observations.
            (Wait, 2, 305, 404),
        ];
        assert_eq!(spans(&lanes), expected);
        assert_eq!(lanes.gaps().collect::<Vec<_>>(), [(200, 202), (300, 302)]);
        assert_eq!(lanes.origin_ns(), 100);
    }

    #[test]
    fn what_was_asked_for_as_work_is_work_and_so_is_time_after_which_a_step_was_long_done() {
        use Activity::{Submit, Wait, Work};
        let steps = vec![
            step(100, 110, 2_000, Some((110, 1_900))),
            step(110, 120, 4_500, Some((1_900, 4_400))),
            step(120, 130, 5_000, Some((4_400, 4_450))),
        ];
        let expected = [
            (Submit, 0, 100, 110),
            (Submit, 1, 110, 120),
            (Submit, 2, 120, 130),
            (Wait, 0, 130, 2_000),
            (Work, 0, 2_000, 3_000),
            (Wait, 1, 3_000, 4_500),
            (Work, 1, 4_500, 5_000),
        ];
        assert_eq!(spans(&lanes("timeline", 1, steps)), expected);
    }

    #[test]
    fn a_fences_submit_call_is_parted_where_the_device_begins() {
        use Activity::{Submit, Wait, Work};
        let steps = vec![step(100, 205, 206, Some((130, 200))), step(250, 310, 310, None)];
        let expected = [
            (Submit, 0, 100, 130),
            (Wait, 0, 130, 206),
            (Work, 0, 206, 250),
            // Without timestamps of the device the span is not divided.
            (Submit, 1, 250, 310),
        ];
        assert_eq!(spans(&lanes("fence", 0, steps)), expected);
    }

    #[test]
    fn stamps_that_overlap_leave_no_gap_and_no_overlap() {
        let steps =
            vec![step(0, 1, 30, Some((10, 20))), step(1, 2, 40, Some((19, 15))), step(2, 3, 50, Some((25, 35)))];
        let lanes = lanes("timeline", 0, steps);
        let gpu: Vec<_> = lanes.gpu.iter().map(|span| (span.begin_ns, span.end_ns)).collect();
        assert_eq!(gpu, [(10, 20), (20, 20), (25, 35)]);
        assert_eq!(lanes.gpu.iter().map(|span| span.idle_ns).collect::<Vec<_>>(), [7, 0, 7]);
        assert_eq!(lanes.gaps().collect::<Vec<_>>(), [(20, 25)]);
    }

    #[test]
    fn broken_times_give_no_span_that_runs_backwards() {
        let steps = vec![step(u64::MAX, 3, 0, Some((u64::MAX, 0))), step(5, u64::MAX, 1, None)];
        for sync in ["timeline", "fence"] {
            let lanes = lanes(sync, u64::MAX, steps.clone());
            assert!(lanes.host.iter().all(|span| span.begin_ns < span.end_ns), "{lanes:?}");
            assert!(lanes.gpu.iter().all(|span| span.begin_ns <= span.end_ns), "{lanes:?}");
        }
        assert_eq!(lanes("timeline", 0, vec![]), Lanes::default());
        assert_eq!(Lanes::default().origin_ns(), 0);
    }
}
