//! The time of each operation of a step, added up by kernel, format and shape.

use std::fmt::Write as _;

use serde::Serialize;
use zinc_model::plan::Cost;
use zinc_sched::StepKind;

use super::measure::{TimedOp, TimedOps};
use super::report::percent;

/// The number of steps over which a profile takes the mean; fewer if the context or the test has no room for as many.
pub(crate) const PROFILE_STEPS: u32 = 16;

/// The sums over all operations of a step that have the same label: the same kernel, format and shape.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct ProfileRow {
    operation: String,
    /// How many operations with this label a step has.
    count: u32,
    us_per_call: f64,
    us_per_step: f64,
    /// Bytes of weights and cache that these operations read in a step, by the cost model.
    bytes_per_step: u64,
    gb_per_s: f64,
    /// `gb_per_s` in percent of the measured bandwidth; `None` if none was measured.
    bandwidth_percent: Option<f64>,
    /// 1e12 operations of arithmetic in a second, by the cost model: a multiplication and an addition are two.
    tflops: f64,
    /// Of operations by integer matrix units, the share of the measured rate of these in percent. An activation has two bytes, so that each product counts
    /// twice.
    unit_percent: Option<f64>,
}

/// What a device was measured to reach at most.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Peaks {
    /// Bytes that it reads from its memory in a second; `None` if that was not measured.
    pub(crate) bandwidth: Option<f64>,
    /// Operations on bytes that its matrix units compute in a second; `None` without such units.
    pub(crate) bytes_per_s: Option<f64>,
}

/// The operations of one label.
struct Sum {
    label: String,
    count: u32,
    cost: Cost,
    by_units: bool,
    ns: f64,
}

/// The times of a step's operations at one depth of context.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Profile {
    n_depth: u32,
    /// The kind of the step: one that feeds a prompt, or one that samples.
    shape: StepKind,
    /// Rows of the step.
    n_rows: u32,
    /// One row for each label, the one with the longest time first.
    profile: Vec<ProfileRow>,
    /// The time of all rows together.
    sum_us: f64,
    /// The time of a real step, without the barriers that separate operations in the profile; `None` if it could not be measured.
    step_us: Option<f64>,
    /// The time between two barriers with no operation between them, which is a part of the time of every call.
    empty_interval_us: f64,
    /// How many submissions the step has.
    submissions: u32,
    /// The time of the operations of the longest submission.
    longest_submission_us: f64,
}

impl Profile {
    /// Adds up the operations of each label. `step_ns` is the time of a real step.
    pub(crate) fn new(depth: u32, timed: TimedOps, step_ns: Option<u64>, peaks: Peaks) -> Self {
        let mut sums: Vec<Sum> = Vec::new();
        for TimedOp { label, cost, by_units, ns } in timed.ops {
            match sums.iter_mut().find(|sum| sum.label == label) {
                Some(sum) => {
                    sum.count += 1;
                    sum.cost = sum.cost + cost;
                    sum.ns += ns;
                }
                None => sums.push(Sum { label, count: 1, cost, by_units, ns }),
            }
        }
        let sum_us = sums.iter().map(|sum| sum.ns / 1e3).sum();
        sums.sort_by(|a, b| b.ns.total_cmp(&a.ns));
        let row = |Sum { label: operation, count, cost, by_units, ns }: Sum| {
            let bytes = cost.weight_bytes + cost.cache_bytes;
            let in_a_second = |count: u64| if ns > 0.0 { count as f64 / (ns * 1e-9) } else { 0.0 };
            let per_second = in_a_second(bytes);
            ProfileRow {
                operation,
                count,
                us_per_call: ns / 1e3 / f64::from(count),
                us_per_step: ns / 1e3,
                bytes_per_step: bytes,
                gb_per_s: per_second / 1e9,
                bandwidth_percent: peaks.bandwidth.map(|bandwidth| percent(per_second, bandwidth)),
                tflops: in_a_second(cost.flops) / 1e12,
                unit_percent: peaks
                    .bytes_per_s
                    .filter(|_| by_units)
                    .map(|rate| percent(in_a_second(2 * cost.flops), rate)),
            }
        };
        let profile = sums.into_iter().map(row).collect();
        let step_us = step_ns.map(|ns| ns as f64 / 1e3);
        Self {
            n_depth: depth,
            shape: timed.kind,
            n_rows: timed.rows,
            profile,
            sum_us,
            step_us,
            empty_interval_us: timed.empty_ns / 1e3,
            submissions: timed.submissions_ns.len() as u32,
            longest_submission_us: timed.submissions_ns.iter().copied().fold(0.0, f64::max) / 1e3,
        }
    }

    /// The profile as a Markdown table, and a text that explains it.
    pub(crate) fn markdown(&self) -> String {
        let mut text = String::new();
        self.write(&mut text).expect("a string takes everything");
        text
    }

    fn write(&self, text: &mut String) -> std::fmt::Result {
        let step = match self.shape {
            StepKind::Feed | StepKind::FeedDecode => format!("{} tokens of a prompt", self.n_rows),
            StepKind::Decode | StepKind::Speculate => "One generated token".to_owned(),
        };
        writeln!(text, "\n{step} @ d{}, operation by operation:\n", self.n_depth)?;
        writeln!(
            text,
            "| {:<44} | {:>5} | {:>8} | {:>9} | {:>10} | {:>8} | {:>5} | {:>6} | {:>5} |",
            "operation", "count", "us/call", "us/step", "MB/step", "GB/s", "% BW", "TFLOPS", "% MU"
        )?;
        let dashes = |count: usize| "-".repeat(count);
        writeln!(
            text,
            "| {} | {}: | {}: | {}: | {}: | {}: | {}: | {}: | {}: |",
            dashes(44),
            dashes(4),
            dashes(7),
            dashes(8),
            dashes(9),
            dashes(7),
            dashes(4),
            dashes(5),
            dashes(4)
        )?;
        for row in &self.profile {
            let shown = |percent: Option<f64>| percent.map_or("-".to_owned(), |percent| format!("{percent:.1}"));
            let (of_bandwidth, of_units) = (shown(row.bandwidth_percent), shown(row.unit_percent));
            writeln!(
                text,
                "| {:<44} | {:>5} | {:>8.2} | {:>9.1} | {:>10.3} | {:>8.1} | {of_bandwidth:>5} | {:>6.1} | {of_units:>5} |",
                row.operation,
                row.count,
                row.us_per_call,
                row.us_per_step,
                row.bytes_per_step as f64 / 1e6,
                row.gb_per_s,
                row.tflops
            )?;
        }
        let step = self.step_us.map_or("unknown".to_owned(), |us| format!("{us:.1} us"));
        writeln!(
            text,
            "\nThe sum is {:.1} us; a real step takes {step}. Here each operation runs alone between two barriers; in a step they \
             overlap where nothing keeps them apart. An empty interval between two barriers takes {:.2} us, which is not subtracted.",
            self.sum_us, self.empty_interval_us
        )?;
        if self.submissions > 1 {
            let (count, longest) = (self.submissions, self.longest_submission_us);
            writeln!(
                text,
                "The step has {count} submissions; the operations of the longest add up to {longest:.1} us."
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_of_one_label_are_added_up() {
        let op = |label: &str, weight_bytes, ns| TimedOp {
            label: label.to_owned(),
            cost: Cost { weight_bytes, flops: 3 * weight_bytes, ..Cost::default() },
            by_units: label == "a",
            ns,
        };
        let ops = vec![op("a", 1000, 1000.0), op("b", 0, 5000.0), op("a", 3000, 3000.0)];
        let peaks = Peaks { bandwidth: Some(4e9), bytes_per_s: Some(1e10) };
        let submissions_ns = vec![4000.0, 5000.0];
        let timed = TimedOps { kind: StepKind::Feed, rows: 8, ops, empty_ns: 250.0, submissions_ns };
        let profile = Profile::new(7, timed, Some(8500), peaks);
        assert_eq!((profile.sum_us, profile.step_us), (9.0, Some(8.5)));
        assert_eq!(profile.profile.iter().map(|row| &row.operation[..]).collect::<Vec<_>>(), ["b", "a"]);
        let a = &profile.profile[1];
        assert_eq!((a.count, a.us_per_call, a.us_per_step, a.bytes_per_step), (2, 2.0, 4.0, 4000));
        assert_eq!((a.gb_per_s.round(), a.bandwidth_percent.map(f64::round)), (1.0, Some(25.0)));
        assert_eq!((a.tflops * 1e3).round(), 3.0);
        assert_eq!((a.unit_percent.map(f64::round), profile.profile[0].unit_percent), (Some(60.0), None));
        assert!(profile.markdown().contains("8 tokens of a prompt @ d7, operation by operation"));
        assert!(profile.markdown().contains("The sum is 9.0 us; a real step takes 8.5 us."));
        assert!(profile.markdown().contains("An empty interval between two barriers takes 0.25 us"));
        assert!(
            profile.markdown().contains("The step has 2 submissions; the operations of the longest add up to 5.0 us.")
        );
    }
}
