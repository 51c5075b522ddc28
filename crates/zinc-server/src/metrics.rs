//! What the server counts, for Prometheus. The names are those of llama-server where it has them, with `zinc:` for `llamacpp:`.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use zinc_sched::Status;

use crate::core::End;
use crate::state::{Cause, outcome};

/// Bounds of the histograms of waits, in seconds.
const WAITS_S: [f64; 14] = [0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 300.0];
/// Bounds of the histogram of times between tokens, in seconds.
const GAPS_S: [f64; 12] = [0.001, 0.002, 0.005, 0.01, 0.02, 0.03, 0.05, 0.1, 0.2, 0.5, 1.0, 5.0];

/// The labels of a counter of requests: what has become of them.
type Outcome = [(&'static str, &'static str); 1];

/// The label of a gauge of pages: what they hold.
type PageKind = [(&'static str, &'static str); 1];

/// Counters and histograms.
pub struct Metrics {
    registry: Registry,
    pub(crate) requests_started: Counter,
    pub(crate) device_losses: Counter,
    pub(crate) first_token: Histogram,
    pub(crate) inter_token: Histogram,
    pub(crate) queue_wait: Histogram,
    outcomes: Family<Outcome, Counter>,
    prompt_tokens: Counter,
    cached_tokens: Counter,
    tokens: Counter,
    steps: Counter,
    running: Gauge,
    waiting: Gauge,
    last_step_rows: Gauge,
    kv_pages: Family<PageKind, Gauge>,
    preemptions: Counter,
    /// The engine's own count of steps when it was last read.
    seen_steps: AtomicU64,
    /// And its count of preemptions.
    seen_preemptions: AtomicU64,
}

impl Metrics {
    pub(crate) fn new() -> Self {
        let mut metrics = Self {
            registry: Registry::with_prefix("zinc"),
            requests_started: Counter::default(),
            device_losses: Counter::default(),
            first_token: Histogram::new(WAITS_S),
            inter_token: Histogram::new(GAPS_S),
            queue_wait: Histogram::new(WAITS_S),
            outcomes: Family::default(),
            prompt_tokens: Counter::default(),
            cached_tokens: Counter::default(),
            tokens: Counter::default(),
            steps: Counter::default(),
            running: Gauge::default(),
            waiting: Gauge::default(),
            last_step_rows: Gauge::default(),
            kv_pages: Family::default(),
            preemptions: Counter::default(),
            seen_steps: AtomicU64::new(0),
            seen_preemptions: AtomicU64::new(0),
        };
        metrics.register();
        metrics
    }

    fn register(&mut self) {
        let registry = &mut self.registry;
        registry.register("requests_started", "Requests that were queued", self.requests_started.clone());
        registry.register("requests", "Answers by outcome", self.outcomes.clone());
        registry.register("prompt_tokens", "Tokens of prompts that were computed", self.prompt_tokens.clone());
        registry.register("prompt_tokens_cached", "Tokens of prompts that the cache held", self.cached_tokens.clone());
        registry.register("tokens_predicted", "Tokens that were generated", self.tokens.clone());
        registry.register("n_decode", "Steps of the device", self.steps.clone());
        registry.register("device_losses", "Failures of the device", self.device_losses.clone());
        registry.register("requests_processing", "Requests that run", self.running.clone());
        registry.register("requests_deferred", "Requests that wait", self.waiting.clone());
        registry.register("n_busy_slots_per_decode", "Sequences of the last step", self.last_step_rows.clone());
        let pages = "Pages of the KV cache: used by running requests, cached for prompts that begin alike, or free";
        registry.register("kv_pages", pages, self.kv_pages.clone());
        let preempted = "How often a running request had to give its pages back to others, to be computed again later";
        registry.register("preemptions", preempted, self.preemptions.clone());
        let first = "From the start of a request to its first token, in seconds";
        registry.register("time_to_first_token_seconds", first, self.first_token.clone());
        let between = "Between two tokens of an answer, in seconds";
        registry.register("inter_token_latency_seconds", between, self.inter_token.clone());
        let wait = "From the start of a request to its first step, in seconds";
        registry.register("queue_wait_seconds", wait, self.queue_wait.clone());
    }

    /// Notes the end of an answer.
    pub(crate) fn ended(&self, end: &End) {
        self.outcomes.get_or_create(&[("outcome", outcome(end))]).inc();
        self.prompt_tokens.inc_by(u64::from(end.usage.prompt_tokens.saturating_sub(end.usage.cached_tokens)));
        self.cached_tokens.inc_by(u64::from(end.usage.cached_tokens));
        self.tokens.inc_by(u64::from(end.usage.completion_tokens));
    }

    /// Notes an answer that has failed.
    pub(crate) fn failed(&self) {
        self.outcomes.get_or_create(&[("outcome", "error")]).inc();
    }

    /// Notes an answer that was cancelled.
    pub(crate) fn cancelled(&self, cause: Cause) {
        let outcome = if cause == Cause::SlowReader { "slow_reader" } else { "cancelled" };
        self.outcomes.get_or_create(&[("outcome", outcome)]).inc();
    }

    /// All of it in the text format of OpenMetrics. `status` is the backend's, if there is one yet.
    #[must_use]
    pub fn text(&self, status: Option<Status>) -> String {
        if let Some(status) = status {
            self.running.set(i64::try_from(status.running).unwrap_or(i64::MAX));
            self.waiting.set(i64::try_from(status.queued).unwrap_or(i64::MAX));
            let seen = self.seen_steps.fetch_max(status.counts.steps, Relaxed);
            self.steps.inc_by(status.counts.steps.saturating_sub(seen));
            let seen = self.seen_preemptions.fetch_max(status.counts.preemptions, Relaxed);
            self.preemptions.inc_by(status.counts.preemptions.saturating_sub(seen));
            if let Some(pages) = status.pages {
                for (kind, count) in [("used", pages.used), ("cached", pages.cached), ("free", pages.free)] {
                    self.kv_pages.get_or_create(&[("kind", kind)]).set(count.into());
                }
            }
            self.last_step_rows.set(status.counts.last_step.map_or(0, |step| i64::from(step.lanes)));
        }
        let mut text = String::new();
        // A string takes whatever is written to it.
        let _ = encode(&mut text, &self.registry);
        text
    }
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics").finish_non_exhaustive()
    }
}
