//! What the server counts, for Prometheus. The names are those of llama-server where it has them, with `zinc_` for `llamacpp:`.

mod engine;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use zinc_sched::Status;

use crate::core::{End, Timings};
use crate::state::{Cause, outcome};
use engine::EngineFigures;

/// Bounds of the histograms of waits, in seconds.
const WAITS_S: [f64; 14] = [0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 300.0];
/// Bounds of the histogram of times between tokens, in seconds.
const GAPS_S: [f64; 12] = [0.001, 0.002, 0.005, 0.01, 0.02, 0.03, 0.05, 0.1, 0.2, 0.5, 1.0, 5.0];

/// The labels of a counter of requests: what has become of them.
type Outcome = [(&'static str, &'static str); 1];

/// What becomes of requests: how answers end, by whom they are cancelled, or that they fail.
const OUTCOMES: [&str; 6] = ["stop", "length", "tool_calls", "cancelled", "slow_reader", "error"];

/// A counter of seconds.
type Seconds = Counter<f64, AtomicU64>;

/// A gauge of tokens a second.
type Rate = Gauge<f64, AtomicU64>;

/// Counters and histograms.
pub struct Metrics {
    registry: Registry,
    pub(crate) requests_started: Counter,
    pub(crate) first_token: Histogram,
    pub(crate) inter_token: Histogram,
    pub(crate) queue_wait: Histogram,
    outcomes: Family<Outcome, Counter>,
    prompt_tokens: Counter,
    cached_tokens: Counter,
    prompt_time: Seconds,
    prompt_rate: Rate,
    tokens: Counter,
    /// Tokens behind the first of each answer, which took [`Self::tokens_time`].
    later_tokens: Counter,
    tokens_time: Seconds,
    tokens_rate: Rate,
    most_tokens: Gauge,
    engine: Arc<EngineFigures>,
}

impl Metrics {
    pub(crate) fn new() -> Self {
        let mut metrics = Self {
            registry: Registry::with_prefix("zinc"),
            requests_started: Counter::default(),
            first_token: Histogram::new(WAITS_S),
            inter_token: Histogram::new(GAPS_S),
            queue_wait: Histogram::new(WAITS_S),
            outcomes: Family::default(),
            prompt_tokens: Counter::default(),
            cached_tokens: Counter::default(),
            prompt_time: Seconds::default(),
            prompt_rate: Rate::default(),
            tokens: Counter::default(),
            later_tokens: Counter::default(),
            tokens_time: Seconds::default(),
            tokens_rate: Rate::default(),
            most_tokens: Gauge::default(),
            engine: Arc::default(),
        };
        metrics.register();
        metrics
    }

    fn register(&mut self) {
        let registry = &mut self.registry;
        registry.register("requests_started", "Requests that were queued", self.requests_started.clone());
        registry.register("requests", "Answers by outcome", self.outcomes.clone());
        // A rate can be taken of a counter from its first increase only if it was 0 before.
        for outcome in OUTCOMES {
            drop(self.outcomes.get_or_create(&[("outcome", outcome)]));
        }
        registry.register("prompt_tokens", "Tokens of prompts that were computed", self.prompt_tokens.clone());
        registry.register("prompt_tokens_cached", "Tokens of prompts that the cache held", self.cached_tokens.clone());
        let prompts = "From the first step of a request to its first token, in seconds, of all answers together";
        registry.register("prompt_seconds", prompts, self.prompt_time.clone());
        let rate = "Tokens of prompts that were computed in a second of prompt_seconds";
        registry.register("prompt_tokens_seconds", rate, self.prompt_rate.clone());
        registry.register("tokens_predicted", "Tokens that were generated", self.tokens.clone());
        let answers = "From the first token of an answer to its last, in seconds, of all answers together";
        registry.register("tokens_predicted_seconds", answers, self.tokens_time.clone());
        let rate =
            "Tokens that were generated in a second of tokens_predicted_seconds, without the first of each answer";
        registry.register("predicted_tokens_seconds", rate, self.tokens_rate.clone());
        registry.register(
            "n_tokens_max",
            "Tokens of the longest request so far, answer included",
            self.most_tokens.clone(),
        );
        registry.register_collector(Box::new(Arc::clone(&self.engine)));
        let first = "From the start of a request to its first token, in seconds";
        registry.register("time_to_first_token_seconds", first, self.first_token.clone());
        let between = "Between two tokens of an answer, in seconds";
        registry.register("inter_token_latency_seconds", between, self.inter_token.clone());
        let wait = "From the start of a request to that of its computation, in seconds";
        registry.register("queue_wait_seconds", wait, self.queue_wait.clone());
    }

    /// Notes the end of an answer.
    pub(crate) fn ended(&self, end: &End, timings: &Timings) {
        self.outcomes.get_or_create(&[("outcome", outcome(end))]).inc();
        let usage = &end.usage;
        self.prompt_tokens.inc_by(u64::from(usage.prompt_tokens.saturating_sub(usage.cached_tokens)));
        self.cached_tokens.inc_by(u64::from(usage.cached_tokens));
        self.prompt_time.inc_by(timings.prompt_ms / 1e3);
        self.tokens.inc_by(u64::from(usage.completion_tokens));
        self.later_tokens.inc_by(u64::from(usage.completion_tokens.saturating_sub(1)));
        self.tokens_time.inc_by(timings.predicted_ms / 1e3);
        let tokens = i64::from(usage.prompt_tokens) + i64::from(usage.completion_tokens);
        self.most_tokens.inner().fetch_max(tokens, Relaxed);
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
            self.engine.set(status);
        }
        let rate =
            |count: &Counter, time: &Seconds| if time.get() > 0.0 { count.get() as f64 / time.get() } else { 0.0 };
        self.prompt_rate.set(rate(&self.prompt_tokens, &self.prompt_time));
        self.tokens_rate.set(rate(&self.later_tokens, &self.tokens_time));
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
