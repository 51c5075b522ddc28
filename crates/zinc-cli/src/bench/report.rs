//! Rows of results, and their CSV and JSON with the keys of llama-bench.

use std::time::Duration;

use serde_json::{Map, Value, json};
use zinc_sched::adapter::Queues;
use zinc_sched::{SpeculationStats, SpeculativeDecoding};

use super::measure::Measurement;
use super::plan::{Drive, Test};
use crate::args::{self, Act, BenchArgs, BenchControl, MatrixUnits};

/// The values that are the same in all rows of a model.
#[derive(Clone, Debug)]
pub(crate) struct Subject {
    /// The path of the file as it was given.
    pub(crate) file: String,
    /// Architecture, size and format, in words.
    pub(crate) kind: String,
    /// Bytes of all tensors.
    pub(crate) bytes: u64,
    /// Elements of all tensors.
    pub(crate) parameters: u64,
    pub(crate) device: String,
    pub(crate) cache_type_k: String,
    pub(crate) cache_type_v: String,
    /// The device's bandwidth: bytes read per second by a kernel that does nothing else.
    pub(crate) bandwidth: Option<f64>,
}

/// The values that are the same in all rows of a run.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) sampler: String,
    pub(crate) fill: String,
    pub(crate) act: Act,
    pub(crate) matrix_units: MatrixUnits,
    /// Busy time of the host for each mask.
    pub(crate) mask_work: Duration,
    /// The source of drafts, where there are any: the file of a draft model or of a replay, or `ngram`.
    pub(crate) drafter: String,
    /// The most tokens that are drafted in a step.
    pub(crate) draft_max: u32,
}

impl From<&BenchArgs> for Settings {
    fn from(args: &BenchArgs) -> Self {
        let draft = &args.draft;
        Self {
            sampler: args::word(&args.sampler),
            fill: args::word(&args.fill),
            act: args.act,
            matrix_units: args.units.matrix_units,
            mask_work: args.mask_work,
            drafter: match (&draft.draft, &args.draft_replay) {
                (Some(path), _) => path.display().to_string(),
                (None, Some(path)) => {
                    let right = match args.draft_replay_rate {
                        1.0 => String::new(),
                        rate => format!(", {:.0} % of it right", 100.0 * rate),
                    };
                    let beside = if draft.draft_mtp { ", beside multi-token prediction" } else { "" };
                    format!("replay of {}{right}{beside}", path.display())
                }
                (None, None) if draft.draft_mtp => "multi-token prediction".to_owned(),
                (None, None) => "ngram".to_owned(),
            },
            draft_max: draft.draft_max,
        }
    }
}

/// The result of one test.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) subject: Subject,
    pub(crate) settings: Settings,
    pub(crate) test: Test,
    pub(crate) drive: Drive,
    /// When the test was started, in UTC.
    pub(crate) time: String,
    pub(crate) measurement: Measurement,
    /// In the sync matrix: the speed divided by that of the fence that it is compared with.
    pub(crate) fence_ratio: Option<f64>,
    /// With drafts: the speed divided by that of the same drive without them.
    pub(crate) draft_ratio: Option<f64>,
}

/// Mean and sample standard deviation. The deviation of a single sample is 0.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Statistics {
    pub(crate) mean: f64,
    pub(crate) deviation: f64,
}

impl Statistics {
    /// The mean and deviation of `samples`, of which there must be at least one.
    pub(crate) fn of(samples: &[f64]) -> Self {
        let count = samples.len() as f64;
        let mean = samples.iter().sum::<f64>() / count;
        let squares = samples.iter().map(|sample| (sample - mean).powi(2)).sum::<f64>();
        let deviation = if samples.len() > 1 { (squares / (count - 1.0)).sqrt() } else { 0.0 };
        Self { mean, deviation }
    }
}

/// `part` of `whole` in percent.
pub(crate) fn percent(part: f64, whole: f64) -> f64 {
    100.0 * part / whole
}

impl Row {
    /// Tokens per second of each repetition.
    fn rates(&self) -> Vec<f64> {
        let tokens = f64::from(self.test.work.tokens());
        self.measurement.samples_ns.iter().map(|&ns| tokens / (ns.max(1) as f64 * 1e-9)).collect()
    }

    /// Tokens per second.
    pub(crate) fn speed(&self) -> Statistics {
        Statistics::of(&self.rates())
    }

    /// Median idle time between two steps, in microseconds.
    pub(crate) fn gap_us(&self) -> Option<f64> {
        Some(microseconds(self.measurement.seam?.gap_ns?.0))
    }

    pub(crate) fn bytes_per_token(&self) -> u64 {
        self.measurement.cost.weight_bytes + self.measurement.cost.cache_bytes
    }

    pub(crate) fn bandwidth_percent(&self) -> Option<f64> {
        Some(percent(self.bytes_per_token() as f64 * self.speed().mean, self.subject.bandwidth?))
    }

    pub(crate) fn logits(&self) -> String {
        format!("{:016x}", self.measurement.logits)
    }

    pub(crate) fn is_drafted(&self) -> bool {
        self.drive.speculative == SpeculativeDecoding::On
    }

    /// The description of how tokens are chosen. A sampler on the host has no parameters.
    fn sampler(&self) -> &str {
        if self.drive.control == BenchControl::HostFed { "likeliest" } else { &self.settings.sampler }
    }

    /// The row as JSON, with the keys of llama-bench first.
    pub(crate) fn json(&self) -> Map<String, Value> {
        let parts = [self.llama_bench_json(), self.way_json(), self.figures_json()];
        let entries = parts.into_iter().flat_map(|part| match part {
            Value::Object(entries) => entries,
            other => unreachable!("an object was written, not {other}"),
        });
        entries.collect()
    }

    /// The values that llama-bench reports as well.
    fn llama_bench_json(&self) -> Value {
        let samples_ns = &self.measurement.samples_ns;
        let nanoseconds = Statistics::of(&samples_ns.iter().map(|&ns| ns as f64).collect::<Vec<_>>());
        let speed = self.speed();
        json!({
            "build_commit": env!("CARGO_PKG_VERSION"),
            "gpu_info": self.subject.device,
            "backends": "Vulkan",
            "model_filename": self.subject.file,
            "model_type": self.subject.kind,
            "model_size": self.subject.bytes,
            "model_n_params": self.subject.parameters,
            "type_k": self.subject.cache_type_k,
            "type_v": self.subject.cache_type_v,
            "n_prompt": self.test.work.prompt(),
            "n_gen": self.test.work.generated(),
            "n_depth": self.test.depth,
            "test_time": self.time,
            "avg_ns": nanoseconds.mean.round() as u64,
            "stddev_ns": nanoseconds.deviation.round() as u64,
            "avg_ts": speed.mean,
            "stddev_ts": speed.deviation,
            "samples_ns": samples_ns,
            "samples_ts": self.rates(),
        })
    }

    /// How the model was driven.
    fn way_json(&self) -> Value {
        let (drive, settings) = (self.drive, &self.settings);
        let is_masked = drive.control == BenchControl::Masked;
        json!({
            "test": self.test.to_string(),
            "sync": drive.sync_name(),
            "inflight_depth": drive.in_flight.get(),
            "queues": match self.measurement.queues {
                Queues::One => 1,
                Queues::Two => 2,
            },
            "control": args::word(&drive.control),
            "mask_us": is_masked.then_some(settings.mask_work.as_micros() as u64),
            "host_work_us": drive.host_work.as_micros() as u64,
            "draft": self.is_drafted().then_some(&settings.drafter),
            "draft_max": self.is_drafted().then_some(settings.draft_max),
            "sampler": self.sampler(),
            "fill": settings.fill,
            "act": args::word(&settings.act),
            "matrix_units": args::word(&settings.matrix_units),
            "n_ubatch": self.measurement.feed_rows,
        })
    }

    /// The results other than the speed.
    fn figures_json(&self) -> Value {
        let Measurement { host_ns, seam, dispatches, barriers, cost, reproducible, speculation_stats, .. } =
            &self.measurement;
        let gap = seam.and_then(|seam| seam.gap_ns);
        let speculation_stats = self.is_drafted().then_some(speculation_stats);
        json!({
            "fence_ratio": self.fence_ratio,
            "draft_ratio": self.draft_ratio,
            "draft_steps": speculation_stats.map(|speculation_stats| speculation_stats.steps),
            "draft_accepted_per_step": speculation_stats.and_then(SpeculationStats::accepted_per_step),
            "gpu_busy_us": seam.map(|seam| microseconds(seam.busy_ns)),
            "idle_gap_median_us": gap.map(|gap| microseconds(gap.0)),
            "idle_gap_p99_us": gap.map(|gap| microseconds(gap.1)),
            "host_us": host_ns / 1e3,
            "dispatches": dispatches,
            "barriers": barriers,
            "weight_bytes_per_token": cost.weight_bytes,
            "cache_bytes_per_token": cost.cache_bytes,
            "bandwidth_bytes_per_s": self.subject.bandwidth,
            "bandwidth_percent": self.bandwidth_percent(),
            "logits_fnv1a": self.logits(),
            "logits_reproducible": reproducible,
        })
    }

    /// The names of the CSV columns: the JSON keys whose values are no lists.
    pub(crate) fn csv_head(&self) -> String {
        self.csv_line(|key, _| key.to_owned())
    }

    /// The row as a line of CSV.
    pub(crate) fn csv(&self) -> String {
        self.csv_line(|_, value| match value {
            Value::String(text) => format!("\"{}\"", text.replace('"', "\"\"")),
            Value::Null => String::new(),
            other => other.to_string(),
        })
    }

    fn csv_line(&self, cell: impl Fn(&str, &Value) -> String) -> String {
        let row = self.json();
        let cells: Vec<String> =
            row.iter().filter(|(_, value)| !value.is_array()).map(|(key, value)| cell(key, value)).collect();
        cells.join(",") + "\n"
    }
}

/// A sentence that compares the speed of the timeline with that of the fence, from two rows of one test.
pub(crate) fn comparison(timeline: &Row, fence: &Row) -> String {
    let gap = |row: &Row| row.gap_us().map_or(String::new(), |gap| format!(", idle {gap:.1} us between steps"));
    let (fast, slow) = (timeline.speed().mean, fence.speed().mean);
    format!(
        "{}{}: fence {slow:.2} t/s{}; timeline, {} in flight, {fast:.2} t/s{}: {:.3} times the fence",
        timeline.test,
        if timeline.is_drafted() { " with drafts" } else { "" },
        gap(fence),
        timeline.drive.in_flight,
        gap(timeline),
        fast / slow
    )
}

/// A sentence that compares the speed with drafts and without, from two rows of one test.
pub(crate) fn draft_comparison(drafted: &Row, plain: &Row) -> String {
    let (with, without) = (drafted.speed().mean, plain.speed().mean);
    let speculation_stats = drafted.measurement.speculation_stats;
    let accepted = speculation_stats.accepted_per_step().map_or("no step had any".to_owned(), |accepted| {
        format!("{accepted:.2} accepted in each of {} steps", speculation_stats.steps)
    });
    format!(
        "{}, {}: {without:.2} t/s without drafts; with drafts, {accepted}, {with:.2} t/s: {:.3} times that",
        drafted.test,
        drafted.drive,
        with / without
    )
}

pub(super) fn microseconds(ns: u64) -> f64 {
    ns as f64 / 1e3
}

#[cfg(test)]
pub(super) mod tests {
    use zinc_model::plan::Cost;

    use super::super::measure::SeamFigures;
    use super::super::plan::Work;
    use super::*;

    /// A row of ten tokens that took `samples_ns`, with a gap of `gap_ns` between them.
    pub(crate) fn row(drive: Drive, samples_ns: Vec<u64>, gap_ns: u64) -> Row {
        Row {
            subject: Subject {
                file: "a \"b\".gguf".to_owned(),
                kind: "qwen3moe 30.53 B Q4_K".to_owned(),
                bytes: 1 << 30,
                parameters: 30_530_000_000,
                device: "a card".to_owned(),
                cache_type_k: "f16".to_owned(),
                cache_type_v: "f16".to_owned(),
                bandwidth: Some(1e9),
            },
            settings: Settings {
                sampler: "greedy".to_owned(),
                fill: "real".to_owned(),
                act: Act::Q14,
                matrix_units: MatrixUnits::On,
                mask_work: Duration::from_micros(700),
                drafter: "ngram".to_owned(),
                draft_max: 4,
            },
            test: Test { work: Work::Generate(10), depth: 0 },
            drive,
            time: "2026-01-01T00:00:00Z".to_owned(),
            fence_ratio: None,
            draft_ratio: None,
            measurement: Measurement {
                samples_ns,
                host_ns: 1500.0,
                seam: Some(SeamFigures { busy_ns: 9000, gap_ns: Some((gap_ns, 2 * gap_ns)) }),
                dispatches: 109,
                barriers: 80,
                cost: Cost { weight_bytes: 900_000, cache_bytes: 100_000, flops: 0 },
                logits: 0xabc,
                reproducible: true,
                queues: Queues::One,
                feed_rows: 16,
                speculation_stats: SpeculationStats { steps: 10, tokens: 25, drafts: 30 },
                tokens: Vec::new(),
            },
        }
    }

    #[test]
    fn statistics_are_those_of_a_sample() {
        assert_eq!(Statistics::of(&[3.0]), Statistics { mean: 3.0, deviation: 0.0 });
        assert_eq!(Statistics::of(&[1.0, 3.0]), Statistics { mean: 2.0, deviation: 2.0f64.sqrt() });
    }

    #[test]
    fn rates_are_tokens_over_the_time_of_each_repetition() {
        let row = row(Drive::TIMELINE, vec![10_000_000, 20_000_000], 20_000);
        let json = row.json();
        assert_eq!((json["avg_ns"].as_u64(), json["n_gen"].as_u64()), (Some(15_000_000), Some(10)));
        assert_eq!(json["samples_ts"], json!([1000.0, 500.0]));
        assert_eq!(json["avg_ts"], 750.0);
        // 750 tokens per second, of one megabyte each.
        assert_eq!(json["bandwidth_percent"], 75.0);
        assert_eq!((&json["logits_fnv1a"], &json["act"]), (&json!("0000000000000abc"), &json!("q14")));
        assert_eq!(json["matrix_units"], "on");
    }

    #[test]
    fn csv_has_a_name_for_every_value() {
        let row = row(Drive::FENCE, vec![10_000_000], 20_000);
        assert!(row.csv().contains("\"a \"\"b\"\".gguf\""), "{}", row.csv());
        assert_eq!(row.csv_head().split(',').count(), row.csv().split(',').count());
    }

    #[test]
    fn rows_say_what_the_host_did() {
        let json = |drive| row(drive, vec![10_000_000], 0).json();
        let host_work = Duration::from_micros(250);
        let plain = json(Drive { host_work, ..Drive::TIMELINE });
        assert_eq!((&plain["control"], &plain["host_work_us"]), (&json!("gpu"), &json!(250)));
        assert_eq!((&plain["mask_us"], &plain["sampler"]), (&Value::Null, &json!("greedy")));
        let masked = json(Drive { control: BenchControl::Masked, ..Drive::TIMELINE });
        assert_eq!((&masked["control"], &masked["mask_us"]), (&json!("masked"), &json!(700)));
        let fed = json(Drive { control: BenchControl::HostFed, ..Drive::TIMELINE });
        assert_eq!((&fed["mask_us"], &fed["sampler"]), (&Value::Null, &json!("likeliest")));
    }

    #[test]
    fn drafts_are_told_of_where_there_are_any() {
        let keys = ["draft", "draft_max", "draft_steps", "draft_accepted_per_step"];
        let values = |speculative| {
            let json = row(Drive { speculative, ..Drive::TIMELINE }, vec![10_000_000], 0).json();
            keys.map(|key| json[key].clone())
        };
        assert_eq!(values(SpeculativeDecoding::Off), [Value::Null, Value::Null, Value::Null, Value::Null]);
        assert_eq!(values(SpeculativeDecoding::On), [json!("ngram"), json!(4), json!(10), json!(1.5)]);
    }

    #[test]
    fn the_baseline_is_compared_with() {
        let comparison =
            comparison(&row(Drive::TIMELINE, vec![10_000_000], 20_000), &row(Drive::FENCE, vec![15_000_000], 500_000));
        let expected = "tg10: fence 666.67 t/s, idle 500.0 us between steps; timeline, 4 in flight, 1000.00 t/s, \
                        idle 20.0 us between steps: 1.500 times the fence";
        assert_eq!(comparison, expected);
    }
    #[test]
    fn drafts_are_compared_with_none() {
        let plain = row(Drive::TIMELINE, vec![10_000_000], 0);
        let mut drafted = row(Drive { speculative: SpeculativeDecoding::On, ..Drive::TIMELINE }, vec![5_000_000], 0);
        assert_eq!(
            draft_comparison(&drafted, &plain),
            "tg10, timeline 4: 1000.00 t/s without drafts; with drafts, 1.50 accepted in each of 10 steps, 2000.00 t/s: \
             2.000 times that"
        );
        drafted.measurement.speculation_stats = SpeculationStats::default();
        assert!(draft_comparison(&drafted, &plain).contains("no step had any"));
    }
}
