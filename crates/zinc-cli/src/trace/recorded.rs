//! The form of a trace in its file: writing it, and reading it back.

use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};
use zinc_sched::{Completion, Quantiles, TraceSummary};

/// The key of the trace in the file. Viewers of trace events ignore keys that they do not know.
pub(super) const KEY: &str = "zinc";

/// How a trace was taken.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Taken<'a> {
    /// How the host followed the GPU, by its name on the command line.
    pub(crate) sync: &'a str,
    /// How many steps were in flight.
    pub(crate) depth: u32,
    /// Busy time that was added after every token.
    pub(crate) host_work: Duration,
    /// The name of the device.
    pub(crate) device: &'a str,
}

impl Taken<'_> {
    /// The JSON document of a traced generation.
    ///
    /// # Panics
    /// If the generation was not traced.
    pub(crate) fn document(&self, completion: &Completion) -> Value {
        let trace = completion.trace.as_ref().expect("a trace was asked for");
        json!({
            "sync": self.sync,
            "depth": self.depth,
            "device": self.device,
            "host_work_us": u64::try_from(self.host_work.as_micros()).unwrap_or(u64::MAX),
            "prompt_tokens": completion.usage.prompt_tokens,
            "completion_tokens": completion.usage.completion_tokens,
            "tokens_per_second": completion.decode_tokens_per_second(),
            "speculated": completion.speculation_stats,
            "summary": TraceSummary::of(trace),
            "counters": trace.counters,
            "steps": trace.steps,
        })
    }
}

/// The part of a trace file that pictures and trace events need. The rest of a file is ignored.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub(crate) struct Recorded {
    /// How the host followed the GPU.
    pub(crate) sync: String,
    /// Steps in flight.
    pub(crate) depth: u32,
    /// The name of the device; empty if the file does not have it.
    #[serde(default)]
    pub(crate) device: String,
    /// Time for which the host was kept busy after every token, in microseconds.
    #[serde(default)]
    pub(crate) host_work_us: u64,
    /// Rate of the generation, in tokens per second; `None` if fewer than two tokens were generated or the file has no
    /// rate.
    #[serde(default)]
    pub(crate) tokens_per_second: Option<f64>,
    #[serde(default)]
    pub(crate) summary: Summary,
    /// The steps, in the order in which they were submitted.
    pub(crate) steps: Vec<Step>,
}

/// The part of a [`TraceSummary`] that is shown.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub(crate) struct Summary {
    #[serde(default)]
    pub(crate) decode: SeamSummary,
}

/// The part of a [`Seam`](zinc_sched::Seam) that is shown.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub(crate) struct SeamSummary {
    pub(crate) idle_gap_ns: Option<Quantiles>,
    pub(crate) gpu_step_ns: Option<Quantiles>,
    pub(crate) submitted_ahead_share: Option<f64>,
}

/// A step: a [`StepTrace`](zinc_sched::StepTrace) whose kind and status are the words in the file.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub(crate) struct Step {
    /// How many steps of the sequence come before it.
    pub(crate) step: u32,
    #[serde(rename = "shape")]
    pub(crate) kind: String,
    /// Position of its first input token.
    pub(crate) position: u32,
    /// How many tokens it sampled.
    #[serde(default)]
    pub(crate) tokens: u32,
    /// How many prompt tokens it fed.
    #[serde(default)]
    pub(crate) fed: u32,
    pub(crate) status: String,
    pub(crate) submitted_at_ns: u64,
    pub(crate) submit_done_ns: u64,
    pub(crate) observed_at_ns: u64,
    /// When the device ran it; `None` if it takes no timestamps.
    #[serde(default)]
    pub(crate) gpu: Option<Stamps>,
}

/// When the device ran a step, in nanoseconds on the host's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub(crate) struct Stamps {
    pub(crate) begin_ns: u64,
    pub(crate) end_ns: u64,
    /// How long the device idled inside the step.
    #[serde(default)]
    pub(crate) idle_ns: u64,
}

impl Step {
    /// Whether it was no no-op.
    pub(super) fn ran(&self) -> bool {
        self.status != "no_op"
    }

    /// The positions that it computed: `7`, or `7-9` for a step of several rows.
    pub(super) fn positions(&self) -> String {
        let first = self.position;
        match u64::from(self.tokens) + u64::from(self.fed) {
            0 | 1 => first.to_string(),
            rows => format!("{first}-{}", u64::from(first) + rows - 1),
        }
    }
}

impl Recorded {
    /// Reads the document that [`Taken::document`] has written.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(super) fn from_document(document: &Value) -> Result<Self, String> {
        Self::deserialize(document).map_err(|error| format!("no trace of zinc: {error}"))
    }

    /// A description of how the trace was taken.
    pub(super) fn title(&self) -> String {
        let Self { sync, depth, host_work_us, .. } = self;
        let how = match &sync[..] {
            "fence" => "fence: recorded, submitted and waited for, token by token".to_owned(),
            "fence-kept" => "fence: recorded once, submitted and waited for, token by token".to_owned(),
            "timeline" => format!("timeline: {depth} {} in flight", if *depth == 1 { "step" } else { "steps" }),
            other => format!("{other}: {depth} in flight"),
        };
        let work = if *host_work_us == 0 { String::new() } else { format!(", host busy {host_work_us} µs a token") };
        how + &work
    }
}

/// Reads a trace from the text of a file.
///
/// # Errors
/// What is wrong with it.
pub(super) fn parse(text: &str) -> Result<Recorded, String> {
    let file: Value = serde_json::from_str(text).map_err(|error| format!("not JSON: {error}"))?;
    let document = file.get(KEY);
    let document = document.ok_or_else(|| format!("no trace that `zinc run --trace` wrote: it has no \"{KEY}\""))?;
    Recorded::from_document(document)
}

#[cfg(test)]
mod tests {
    use zinc_sched::{
        Durations, FinishReason, GpuSpan, ModelCounters, SpeculationStats, StepKind, StepStatus, StepTiming, StepTrace,
        Trace, Usage,
    };

    use super::*;

    #[test]
    fn what_is_written_can_be_read() {
        let step = |step, gpu| StepTrace {
            step,
            kind: StepKind::Decode,
            position: 7 + step,
            tokens: 2,
            fed: 0,
            rows: 1,
            status: StepStatus::Emitted,
            timing: StepTiming { submitted_at_ns: 1, submit_done_ns: 2, observed_at_ns: u64::MAX, gpu },
        };
        let gpu = Some(GpuSpan { begin_ns: 3, end_ns: 4, idle_ns: 1 });
        let completion = Completion {
            reason: FinishReason::Length,
            usage: Usage { prompt_tokens: 1, cached_tokens: 0, completion_tokens: 3 },
            durations: Durations { prompt: Duration::ZERO, decode: Duration::from_secs(1) },
            overshoot_steps: 0,
            speculation_stats: SpeculationStats::default(),
            trace: Some(Trace { steps: vec![step(0, gpu), step(1, None)], counters: ModelCounters::default() }),
        };
        let taken = Taken { sync: "fence", depth: 1, host_work: Duration::from_micros(250), device: "a card" };
        let recorded = Recorded::from_document(&taken.document(&completion)).unwrap();
        let head = (&recorded.sync[..], recorded.depth, &recorded.device[..], recorded.host_work_us);
        assert_eq!(head, ("fence", 1, "a card", 250));
        assert_eq!(recorded.tokens_per_second, Some(2.0));
        assert_eq!(recorded.summary.decode.gpu_step_ns.map(|step| step.median), Some(1));
        let words = (&recorded.steps[0].kind[..], &recorded.steps[0].status[..]);
        assert_eq!(words, ("decode", "emitted"));
        assert_eq!(recorded.steps[0].gpu, Some(Stamps { begin_ns: 3, end_ns: 4, idle_ns: 1 }));
        assert_eq!((recorded.steps[1].position, recorded.steps[1].observed_at_ns), (8, u64::MAX));
        assert_eq!((recorded.steps[1].gpu, &recorded.steps[1].positions()[..]), (None, "8-9"));
    }

    #[test]
    fn what_is_no_trace_is_refused_with_the_reason() {
        for (text, reason) in [
            ("", "not JSON"),
            ("[1, 2]", "no \"zinc\""),
            ("{\"traceEvents\": []}", "no \"zinc\""),
            ("{\"zinc\": 3}", "no trace of zinc"),
            ("{\"zinc\": {\"sync\": \"fence\", \"depth\": 1}}", "steps"),
            ("{\"zinc\": {\"sync\": \"fence\", \"depth\": -1, \"steps\": []}}", "-1"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(reason), "{text}: {error}");
        }
        let least = parse("{\"zinc\": {\"sync\": \"x\", \"depth\": 1, \"steps\": []}}").unwrap();
        assert_eq!((least.steps, least.device), (vec![], String::new()));
    }
}
