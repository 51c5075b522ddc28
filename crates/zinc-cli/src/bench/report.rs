//! Rows and tables: Markdown for people, and CSV and JSON with llama-bench's keys.

use serde_json::{Map, Value, json};

use super::measure::Measurement;
use super::plan::{Drive, Test};
use crate::args::{self, Act};

/// What is the same in all rows of a model.
#[derive(Clone, Debug)]
pub(crate) struct Subject {
    /// The path as it was given.
    pub(crate) file: String,
    /// Architecture, size and format.
    pub(crate) kind: String,
    /// Bytes of all tensors.
    pub(crate) bytes: u64,
    /// Elements of all tensors.
    pub(crate) parameters: u64,
    pub(crate) device: String,
    pub(crate) cache_type_k: String,
    pub(crate) cache_type_v: String,
    /// Bytes read per second by a kernel that does nothing else.
    pub(crate) bandwidth: Option<f64>,
}

/// The result of one test.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) subject: Subject,
    pub(crate) test: Test,
    pub(crate) drive: Drive,
    /// When it was started, in UTC.
    pub(crate) time: String,
    pub(crate) sampler: String,
    pub(crate) fill: String,
    pub(crate) act: Act,
    pub(crate) measurement: Measurement,
}

/// Mean and sample standard deviation; the latter is 0 for a single sample.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Statistics {
    pub(crate) mean: f64,
    pub(crate) deviation: f64,
}

impl Statistics {
    /// Of at least one sample.
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

/// Header and width of each column of the Markdown table; the first two are aligned to the left.
const COLUMNS: [(&str, usize); 15] = [
    ("model", 24),
    ("sync", 10),
    ("size", 10),
    ("params", 9),
    ("test", 16),
    ("t/s", 18),
    ("GPU us", 9),
    ("gap us", 8),
    ("gap p99", 8),
    ("host us", 8),
    ("dispatches", 10),
    ("barriers", 8),
    ("MB/token", 9),
    ("% BW", 6),
    ("logits", 8),
];

/// The column after those, where activations are not in the form that they are in without a flag.
const ACT_COLUMN: (&str, usize) = ("act", 4);

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

    fn bytes_per_token(&self) -> u64 {
        self.measurement.cost.weight_bytes + self.measurement.cost.cache_bytes
    }

    fn bandwidth_percent(&self) -> Option<f64> {
        Some(percent(self.bytes_per_token() as f64 * self.speed().mean, self.subject.bandwidth?))
    }

    fn logits(&self) -> String {
        format!("{:016x}", self.measurement.logits)
    }

    /// Header and width of each column of the Markdown table.
    fn columns(&self) -> impl Iterator<Item = (&'static str, usize)> + use<> {
        COLUMNS.into_iter().chain((self.act != Act::Q16).then_some(ACT_COLUMN))
    }

    /// The head of the Markdown table.
    pub(crate) fn markdown_head(&self) -> String {
        let names = self.columns().enumerate().map(|(index, (name, width))| align(index, name, width));
        let rules = self.columns().enumerate().map(|(index, (_, width))| {
            if index < 2 { "-".repeat(width) } else { format!("{}:", "-".repeat(width - 1)) }
        });
        line(names) + &line(rules)
    }

    /// A line of the Markdown table.
    pub(crate) fn markdown(&self) -> String {
        let number = |value: Option<f64>| value.map_or("-".to_owned(), |value| format!("{value:.1}"));
        let Statistics { mean, deviation } = self.speed();
        let seam = self.measurement.seam;
        let gap = seam.and_then(|seam| seam.gap_ns);
        let in_flight = self.drive.in_flight;
        let cells = [
            self.subject.kind.clone(),
            if self.drive == Drive::FENCE { "fence".to_owned() } else { format!("timeline {in_flight}") },
            crate::output::bytes(self.subject.bytes),
            crate::output::parameters(self.subject.parameters),
            self.test.to_string(),
            format!("{mean:.2} ± {deviation:.2}"),
            number(seam.map(|seam| microseconds(seam.busy_ns))),
            number(gap.map(|gap| microseconds(gap.0))),
            number(gap.map(|gap| microseconds(gap.1))),
            number(Some(self.measurement.host_ns / 1e3)),
            self.measurement.dispatches.to_string(),
            self.measurement.barriers.to_string(),
            format!("{:.2}", self.bytes_per_token() as f64 / 1e6),
            number(self.bandwidth_percent()),
            // Enough to see a difference; JSON has all of it.
            self.logits()[..8].to_owned(),
            args::word(&self.act),
        ];
        // The last cell has a column only where it is worth one.
        line(self.columns().zip(&cells).enumerate().map(|(index, ((_, width), text))| align(index, text, width)))
    }

    /// All of it, llama-bench's keys first.
    pub(crate) fn json(&self) -> Map<String, Value> {
        let Measurement { samples_ns, host_ns, seam, dispatches, barriers, cost, reproducible, .. } = &self.measurement;
        let nanoseconds = Statistics::of(&samples_ns.iter().map(|&ns| ns as f64).collect::<Vec<_>>());
        let speed = self.speed();
        let gap = seam.and_then(|seam| seam.gap_ns);
        let row = json!({
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
            "test": self.test.to_string(),
            "sync": self.drive.sync_name(),
            "inflight_depth": self.drive.in_flight.get(),
            "sampler": self.sampler,
            "fill": self.fill,
            "act": args::word(&self.act),
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
        });
        match row {
            Value::Object(row) => row,
            other => unreachable!("an object was written, not {other}"),
        }
    }

    /// The names of the CSV columns: the JSON keys whose values are no lists.
    pub(crate) fn csv_head(&self) -> String {
        self.csv_line(|key, _| key.to_owned())
    }

    /// A line of CSV.
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

/// What the timeline gains over the fence, of two rows of one test.
pub(crate) fn comparison(timeline: &Row, fence: &Row) -> String {
    let gap = |row: &Row| row.gap_us().map_or(String::new(), |gap| format!(", idle {gap:.1} us between steps"));
    let (fast, slow) = (timeline.speed().mean, fence.speed().mean);
    format!(
        "{}: fence {slow:.2} t/s{}; timeline, {} in flight, {fast:.2} t/s{}: {:.3} times the fence",
        timeline.test,
        gap(fence),
        timeline.drive.in_flight,
        gap(timeline),
        fast / slow
    )
}

fn microseconds(ns: u64) -> f64 {
    ns as f64 / 1e3
}

fn line(cells: impl Iterator<Item = String>) -> String {
    format!("| {} |\n", cells.collect::<Vec<_>>().join(" | "))
}

fn align(column: usize, text: &str, width: usize) -> String {
    if column < 2 { format!("{text:<width$}") } else { format!("{text:>width$}") }
}

#[cfg(test)]
mod tests {
    use zinc_model::plan::Cost;

    use super::super::measure::SeamFigures;
    use super::super::plan::Work;
    use super::*;

    fn row(drive: Drive, samples_ns: Vec<u64>, gap_ns: u64) -> Row {
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
            test: Test { work: Work::Generate(10), depth: 0 },
            drive,
            time: "2026-01-01T00:00:00Z".to_owned(),
            sampler: "greedy".to_owned(),
            fill: "real".to_owned(),
            act: Act::Q16,
            measurement: Measurement {
                samples_ns,
                host_ns: 1500.0,
                seam: Some(SeamFigures { busy_ns: 9000, gap_ns: Some((gap_ns, 2 * gap_ns)) }),
                dispatches: 109,
                barriers: 80,
                cost: Cost { weight_bytes: 900_000, cache_bytes: 100_000, flops: 0 },
                logits: 0xabc,
                reproducible: true,
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
        // 750 tokens of a megabyte in a second.
        assert_eq!(json["bandwidth_percent"], 75.0);
        assert_eq!((&json["logits_fnv1a"], &json["act"]), (&json!("0000000000000abc"), &json!("q16")));
    }

    #[test]
    fn tables_have_as_many_cells_in_every_line() {
        let mut row = row(Drive::FENCE, vec![10_000_000], 20_000);
        for (act, named) in [(Act::Q16, false), (Act::F32, true)] {
            row.act = act;
            let table = row.markdown_head() + &row.markdown();
            let widths: Vec<(usize, usize)> =
                table.lines().map(|line| (line.chars().count(), line.matches('|').count())).collect();
            assert!(widths.iter().all(|width| *width == widths[0]), "{table}");
            assert_eq!((table.contains(" act |"), table.contains(" f32 |")), (named, named), "{table}");
        }
        assert!(row.csv().contains("\"a \"\"b\"\".gguf\""), "{}", row.csv());
        assert_eq!(row.csv_head().split(',').count(), row.csv().split(',').count());
    }

    #[test]
    fn the_baseline_is_compared_with() {
        let comparison =
            comparison(&row(Drive::TIMELINE, vec![10_000_000], 20_000), &row(Drive::FENCE, vec![15_000_000], 500_000));
        let expected = "tg10: fence 666.67 t/s, idle 500.0 us between steps; timeline, 4 in flight, 1000.00 t/s, \
                        idle 20.0 us between steps: 1.500 times the fence";
        assert_eq!(comparison, expected);
    }
}
