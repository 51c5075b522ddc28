//! Traces: one row per step that says when it was submitted, run and observed, and summaries of how long the device idled between steps.
//! All of it is pure data; callers write it where they want it.

use crate::model::ModelCounters;
use crate::plan::PlannedStep;
use crate::step::{GpuSpan, LaneOutput, StepKind, StepStatus, StepTiming};

/// One step of a traced sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct StepTrace {
    /// How many steps of the sequence come before it.
    pub step: u32,
    /// The kind of step that was submitted.
    #[cfg_attr(feature = "serde", serde(rename = "shape"))]
    pub kind: StepKind,
    /// Position of its first input token.
    pub position: u32,
    /// How many tokens it sampled.
    pub tokens: u32,
    /// How many prompt tokens it fed.
    pub fed: u32,
    /// The tokens that were submitted with it, of all sequences that share it, without drafts.
    pub rows: u32,
    /// What it did.
    pub status: StepStatus,
    /// When it was submitted, run and observed.
    #[cfg_attr(feature = "serde", serde(flatten))]
    pub timing: StepTiming,
}

impl StepTrace {
    /// The trace of a step of a sequence, which has had `rows` rows of all sequences together.
    pub(crate) fn new(step: &PlannedStep, output: &LaneOutput, rows: u32, timing: StepTiming) -> Self {
        Self {
            step: step.index,
            kind: step.kind,
            position: output.position,
            tokens: output.tokens.as_slice().len() as u32,
            fed: output.fed,
            rows,
            status: output.status,
            timing,
        }
    }

    /// When the device ran the step; `None` for a no-op and for a step without timestamps.
    fn ran(&self) -> Option<GpuSpan> {
        if self.status == StepStatus::NoOp { None } else { self.timing.gpu }
    }
}

/// The trace of a sequence.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Trace {
    /// Every step that was submitted, in order, no-ops included.
    pub steps: Vec<StepTrace>,
    /// The work that the model did between the start of the sequence and its end.
    pub counters: ModelCounters,
}

/// Order statistics, in the unit of the samples. The quantile `q` is the smallest sample for which at least the share `q` of all samples are
/// no larger.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Quantiles {
    /// Half of the samples are no larger.
    pub median: u64,
    /// 99 % of the samples are no larger.
    pub p99: u64,
    /// The largest sample.
    pub max: u64,
}

impl Quantiles {
    /// The quantiles of the given samples; `None` if there are none.
    pub fn of(mut samples: Vec<u64>) -> Option<Self> {
        samples.sort_unstable();
        let max = *samples.last()?;
        let at = |percent: usize| samples[(samples.len() * percent).div_ceil(100) - 1];
        Some(Self { median: at(50), p99: at(99), max })
    }
}

/// How the device went from one step to the next, over pairs of consecutive steps that both ran and have timestamps of the device.
#[derive(Debug, Clone, Copy, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Seam {
    /// The number of such pairs.
    pub pairs: u64,
    /// How long the device idled from the end of the first step to the begin of the second, and inside the second. Steps that overlap count
    /// as 0.
    pub idle_gap_ns: Option<Quantiles>,
    /// In how many pairs the submit call of the second step had returned before the first step ended.
    pub submitted_ahead: u64,
    /// [`submitted_ahead`](Self::submitted_ahead) as a share of the pairs, 0 to 1; `None` without pairs.
    pub submitted_ahead_share: Option<f64>,
    /// How long a step took on the device from its begin to its end, with idling inside, and with the steps of others that came between its ranges.
    pub gpu_step_ns: Option<Quantiles>,
}

impl Seam {
    /// The seam of the steps that `wanted` accepts. A pair counts if both of its steps are accepted.
    fn of(steps: &[StepTrace], wanted: impl Fn(&StepTrace) -> bool) -> Self {
        let ran: Vec<(&StepTrace, GpuSpan)> =
            steps.iter().filter(|s| wanted(s)).filter_map(|s| Some((s, s.ran()?))).collect();
        let pairs: Vec<_> = ran.windows(2).filter(|pair| pair[0].0.step + 1 == pair[1].0.step).collect();
        let gaps =
            pairs.iter().map(|pair| pair[1].1.begin_ns.saturating_sub(pair[0].1.end_ns) + pair[1].1.idle_ns).collect();
        let submitted_ahead =
            pairs.iter().filter(|pair| pair[1].0.timing.submit_done_ns < pair[0].1.end_ns).count() as u64;
        let pairs = pairs.len() as u64;
        Self {
            pairs,
            idle_gap_ns: Quantiles::of(gaps),
            submitted_ahead,
            submitted_ahead_share: (pairs > 0).then(|| submitted_ahead as f64 / pairs as f64),
            gpu_step_ns: Quantiles::of(ran.iter().map(|(_, span)| span.end_ns.saturating_sub(span.begin_ns)).collect()),
        }
    }
}

/// The summary of a trace.
#[derive(Debug, Clone, Copy, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct TraceSummary {
    /// The number of submitted steps.
    pub steps: u64,
    /// How many of them were no-ops.
    pub no_ops: u64,
    /// Submissions per step; `None` without steps.
    pub submits_per_step: Option<f64>,
    /// Command buffers recorded per step; `None` without steps.
    pub recordings_per_step: Option<f64>,
    /// Waits on a binary fence.
    pub fence_waits: u64,
    /// The seam over all steps.
    pub all: Seam,
    /// The seam over steps that feed a prompt.
    pub prompt: Seam,
    /// The seam over steps that sample and feed nothing, after which the host has a token to work on.
    pub decode: Seam,
}

impl TraceSummary {
    /// The summary of `trace`.
    pub fn of(trace: &Trace) -> Self {
        let steps = trace.steps.len() as u64;
        let per_step = |count: u64| (steps > 0).then(|| count as f64 / steps as f64);
        Self {
            steps,
            no_ops: trace.steps.iter().filter(|s| s.status == StepStatus::NoOp).count() as u64,
            submits_per_step: per_step(trace.counters.submits),
            recordings_per_step: per_step(trace.counters.recordings),
            fence_waits: trace.counters.fence_waits,
            all: Seam::of(&trace.steps, |_| true),
            prompt: Seam::of(&trace.steps, |s| s.kind.feeds()),
            decode: Seam::of(&trace.steps, |s| !s.kind.feeds()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(step: u32, kind: StepKind, submit_done_ns: u64, gpu: Option<(u64, u64)>) -> StepTrace {
        let status = if kind == StepKind::Feed { StepStatus::Fed } else { StepStatus::Emitted };
        let gpu = gpu.map(|(begin_ns, end_ns)| GpuSpan { begin_ns, end_ns, idle_ns: 0 });
        let timing =
            StepTiming { submitted_at_ns: submit_done_ns.saturating_sub(1), submit_done_ns, observed_at_ns: 0, gpu };
        StepTrace {
            step,
            kind,
            position: step,
            tokens: u32::from(kind.samples()),
            fed: u32::from(!kind.samples()),
            rows: 1,
            status,
            timing,
        }
    }

    #[test]
    fn quantiles_are_ranks() {
        assert_eq!(Quantiles::of(vec![]), None);
        assert_eq!(Quantiles::of(vec![7]), Some(Quantiles { median: 7, p99: 7, max: 7 }));
        assert_eq!(Quantiles::of(vec![4, 1, 3, 2]), Some(Quantiles { median: 2, p99: 4, max: 4 }));
        assert_eq!(Quantiles::of((1..=200).rev().collect()), Some(Quantiles { median: 100, p99: 198, max: 200 }));
    }

    #[test]
    fn gaps_and_submits_ahead_are_counted_per_pair() {
        use StepKind::{Decode, Feed};
        let trace = Trace {
            steps: vec![
                row(0, Feed, 5, Some((10, 20))),
                row(1, Decode, 6, Some((23, 30))),  // gap 3, ahead
                row(2, Decode, 30, Some((37, 40))), // gap 7, submitted at the very end: not ahead
                row(3, Decode, 39, Some((39, 50))), // stamps overlap: gap 0, ahead
                row(4, Decode, 60, Some((70, 80))), // gap 20, late
            ],
            counters: ModelCounters { submits: 5, recordings: 10, fence_waits: 2, waited_ns: 0 },
        };
        let summary = TraceSummary::of(&trace);
        assert_eq!((summary.steps, summary.no_ops, summary.fence_waits), (5, 0, 2));
        assert_eq!((summary.submits_per_step, summary.recordings_per_step), (Some(1.0), Some(2.0)));
        assert_eq!(summary.all.pairs, 4);
        assert_eq!(summary.all.idle_gap_ns, Some(Quantiles { median: 3, p99: 20, max: 20 }));
        assert_eq!((summary.all.submitted_ahead, summary.all.submitted_ahead_share), (2, Some(0.5)));
        assert_eq!(summary.decode.pairs, 3);
        assert_eq!(summary.decode.idle_gap_ns, Some(Quantiles { median: 7, p99: 20, max: 20 }));
        assert_eq!(summary.decode.submitted_ahead, 1);
        assert_eq!(summary.decode.gpu_step_ns, Some(Quantiles { median: 7, p99: 11, max: 11 }));
        assert_eq!((summary.prompt.pairs, summary.prompt.gpu_step_ns.map(|step| step.max)), (0, Some(10)));
    }

    #[test]
    fn steps_that_did_not_run_or_were_not_stamped_make_no_pair() {
        let mut no_op = row(1, StepKind::Decode, 0, Some((20, 21)));
        no_op.status = StepStatus::NoOp;
        let steps = vec![
            row(0, StepKind::Decode, 0, Some((10, 20))),
            no_op,
            row(2, StepKind::Decode, 0, Some((30, 40))),
            row(3, StepKind::Decode, 0, None),
        ];
        let summary = TraceSummary::of(&Trace { steps, counters: ModelCounters::default() });
        assert_eq!((summary.steps, summary.no_ops, summary.all.pairs), (4, 1, 0));
        assert_eq!((summary.all.idle_gap_ns, summary.all.submitted_ahead_share), (None, None));
    }

    #[test]
    fn an_empty_trace_has_no_averages() {
        let summary = TraceSummary::of(&Trace::default());
        assert_eq!((summary.steps, summary.submits_per_step, summary.recordings_per_step), (0, None, None));
    }
}
