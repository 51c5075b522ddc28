//! Requests that arrive one by one while others run: `zinc bench -npl N --arrivals poisson:RATE`.
//!
//! The times of arrival are those of a Poisson process whose seed is fixed, so that every run has the same. A request that finds all lanes taken waits for
//! one. What is measured is what a reader sees: how long the first token takes, from the arrival on, and how far apart the tokens behind it are.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{RngCore as _, SeedableRng as _};
use serde_json::{Value, json};
use zinc_sched::{Completion, Request, Sampling, SequenceId, Started, Tracing};
use zinc_vk::host_now_ns;

use super::measure::RandomTokens;
use super::parallel::{ParallelBench, ParallelTest, Reader, Readers, take_turn};
use super::spread::Spread;
use crate::error::{Error, Result};
use crate::output;
use crate::trace::LaneTrace;

/// How requests arrive.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Arrivals {
    /// Requests a second, on average, in [`RATES`].
    pub(crate) rate: f64,
}

/// The rates that make sense: from one request in a quarter of an hour to more than any device answers.
const RATES: std::ops::RangeInclusive<f64> = 0.001..=1e6;

impl std::str::FromStr for Arrivals {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let rate = text.strip_prefix("poisson:").ok_or("must be poisson:RATE, with a number of requests a second")?;
        let rate: f64 = rate.parse().map_err(|error| format!("'{rate}': {error}"))?;
        if RATES.contains(&rate) {
            Ok(Self { rate })
        } else {
            Err(format!("a rate of {rate}: it must be from {} to {} requests a second", RATES.start(), RATES.end()))
        }
    }
}

impl Arrivals {
    /// The times of so many arrivals, in nanoseconds from the beginning, the first at 0. The times between them are distributed exponentially.
    fn times_ns(self, count: u32) -> Vec<u64> {
        const SEED: u64 = 11;
        let mut random = Xoshiro256PlusPlus::seed_from_u64(SEED);
        let mut at_s = 0.0;
        let mut next = || {
            let now_s = at_s;
            // Between 0 and 1, and never 0.
            let share = ((random.next_u64() >> 11) + 1) as f64 / (1_u64 << 53) as f64;
            at_s -= share.ln() / self.rate;
            (now_s * 1e9) as u64
        };
        (0..count).map(|_| next()).collect()
    }
}

/// What one request saw.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Answered {
    /// When it arrived, in nanoseconds from the beginning.
    pub(crate) arrived_ns: u64,
    /// When its tokens came.
    pub(crate) tokens_ns: Vec<u64>,
}

impl Answered {
    fn first_token_ns(&self) -> Option<u64> {
        self.tokens_ns.first().map(|first| first.saturating_sub(self.arrived_ns))
    }

    fn gaps_ns(&self) -> impl Iterator<Item = u64> {
        self.tokens_ns.windows(2).map(|pair| pair[1].saturating_sub(pair[0]))
    }
}

/// What a run took.
#[derive(Debug)]
pub(crate) struct ArrivalsResult {
    pub(crate) test: ParallelTest,
    pub(crate) arrivals: Arrivals,
    pub(crate) max_gap: Duration,
    pub(crate) answered: Vec<Answered>,
}

impl ArrivalsResult {
    fn first_tokens(&self) -> Option<Spread> {
        Spread::of(self.answered.iter().filter_map(Answered::first_token_ns))
    }

    fn gaps(&self) -> Option<Spread> {
        Spread::of(self.answered.iter().flat_map(Answered::gaps_ns))
    }

    /// Tokens a second of all requests, from the beginning to the last token.
    fn tokens_per_second(&self) -> f64 {
        let tokens: usize = self.answered.iter().map(|answered| answered.tokens_ns.len()).sum();
        let last_ns = self.answered.iter().filter_map(|answered| answered.tokens_ns.last()).max();
        tokens as f64 / (last_ns.copied().unwrap_or(0).max(1) as f64 / 1e9)
    }

    /// The keys of llama-batched-bench, where it has such.
    pub(crate) fn json(&self, model: &str, device: &str) -> Value {
        let request = |answered: &Answered| {
            json!({
                "arrived_ms": answered.arrived_ns as f64 / 1e6,
                "first_token_ms": answered.first_token_ns().map(|ns| ns as f64 / 1e6),
                "gaps": Spread::json(Spread::of(answered.gaps_ns())),
            })
        };
        self.test.with_json(
            model,
            device,
            json!({
                "arrivals": format!("poisson:{}", self.arrivals.rate),
                "max_gap_ms": self.max_gap.as_secs_f64() * 1e3,
                "n_requests": self.answered.len(),
                "avg_ts": self.tokens_per_second(),
                "first_token": Spread::json(self.first_tokens()),
                "gaps": Spread::json(self.gaps()),
                "requests": self.answered.iter().map(request).collect::<Vec<Value>>(),
            }),
        )
    }

    /// The head of a Markdown table of results.
    pub(crate) const MARKDOWN_HEAD: &'static str = "\
| n_parallel |    npp |    ntg | requests |  rate/s | max gap ms |      t/s | first token ms: median |      p95 |      max | gap ms: median |      p95 |      max |
| ---------: | -----: | -----: | -------: | ------: | ---------: | -------: | ---------------------: | -------: | -------: | -------------: | -------: | -------: |
";

    /// A line of a Markdown table.
    pub(crate) fn markdown(&self) -> String {
        let ParallelTest { n_parallel, n_prompt, n_gen } = self.test;
        let [first, first_95, first_max] = Spread::cells(self.first_tokens());
        let [gap, gap_95, gap_max] = Spread::cells(self.gaps());
        let (requests, rate, limit_ms) = (self.answered.len(), self.arrivals.rate, self.max_gap.as_secs_f64() * 1e3);
        let together = self.tokens_per_second();
        format!(
            "| {n_parallel:>10} | {n_prompt:>6} | {n_gen:>6} | {requests:>8} | {rate:>7.2} | {limit_ms:>10.1} | {together:>8.2} | \
             {first:>22} | {first_95:>8} | {first_max:>8} | {gap:>14} | {gap_95:>8} | {gap_max:>8} |\n"
        )
    }
}

impl ParallelBench<'_> {
    /// Lets requests arrive, as many for each repetition as there are lanes, and answers them. With [`Tracing::On`] the steps of each request are returned, in the
    /// order of the ends.
    ///
    /// # Errors
    /// A usage error for more requests than can be counted, an error of the device, or logits that are not finite.
    pub(crate) fn arrive(
        &self,
        test: ParallelTest,
        arrivals: Arrivals,
        trace: Tracing,
    ) -> Result<(ArrivalsResult, Vec<LaneTrace>)> {
        let ParallelTest { n_parallel, n_prompt, n_gen } = test;
        let repetitions = self.repetitions;
        let count = repetitions.checked_mul(n_parallel).ok_or_else(|| {
            Error::usage(format!("-r {repetitions} times --npl {n_parallel} are more requests than {}", u32::MAX))
        })?;
        let mut engine = self.engine(trace)?;
        let mut tokens = RandomTokens::new(self.model.model().config.n_vocab);
        if !self.no_warm_up {
            self.run(&mut engine, test, &mut tokens, Tracing::Off)?;
        }
        let progress = output::progress_steps(0, format!("{count} requests"));
        progress.set_length(count.into());
        let mut coming: VecDeque<(u64, Arc<Request>)> = (0..)
            .zip(arrivals.times_ns(count))
            .map(|(number, at_ns)| {
                let prompt: Vec<u32> = tokens.by_ref().take(n_prompt as usize).collect();
                let sampling = Sampling { seed: number, ..self.sampling.clone() };
                let request = Request::new(prompt, []).with_max_tokens(n_gen).with_sampling(sampling).with_trace(trace);
                (at_ns, Arc::new(request))
            })
            .collect();
        let begin_ns = host_now_ns();
        let mut readers = Readers::default();
        let mut arrived: Vec<(SequenceId, u64)> = Vec::new();
        let mut ended: Vec<(SequenceId, Completion)> = Vec::new();
        while !coming.is_empty() || engine.running() > 0 {
            let now_ns = host_now_ns() - begin_ns;
            while let Some((at_ns, request)) =
                coming.pop_front_if(|(at_ns, request)| *at_ns <= now_ns && engine.admits(request))
            {
                let reader = Reader::new(self.tokenizer, n_gen);
                if let Started::Running(id) = engine.start(&request, &reader)? {
                    arrived.push((id, at_ns));
                    readers.push((id, reader));
                }
            }
            if engine.running() == 0 {
                let next_ns = coming.front().map_or(0, |(at_ns, _)| *at_ns);
                std::thread::sleep(Duration::from_nanos(next_ns.saturating_sub(host_now_ns() - begin_ns)));
                continue;
            }
            take_turn(&mut engine, &mut readers, &mut ended)?;
            progress.set_position(ended.len() as u64);
        }
        progress.finish_and_clear();
        let answered = arrived.iter().zip(&readers).map(|((_, arrived_ns), (_, reader))| Answered {
            arrived_ns: *arrived_ns,
            tokens_ns: reader.times_ns.iter().map(|ns| ns.saturating_sub(begin_ns)).collect(),
        });
        let result = ArrivalsResult { test, arrivals, max_gap: self.max_gap, answered: answered.collect() };
        let traces = ended.into_iter().filter_map(|(id, completion)| {
            let number = arrived.iter().position(|(own, _)| *own == id)?;
            Some(LaneTrace::new(number, begin_ns + arrived[number].1, completion.trace?))
        });
        Ok((result, traces.collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrivals_are_read_and_refused() {
        assert_eq!("poisson:2.5".parse::<Arrivals>(), Ok(Arrivals { rate: 2.5 }));
        for (text, reason) in [
            ("2", "poisson:RATE"),
            ("poisson:", "''"),
            ("poisson:0", "from 0.001 to 1000000"),
            ("poisson:-1", "from 0.001"),
            ("poisson:1e-300", "from 0.001"),
            ("poisson:1e7", "to 1000000"),
            ("poisson:inf", "to 1000000"),
            ("poisson:NaN", "from 0.001"),
        ] {
            let error = text.parse::<Arrivals>().unwrap_err();
            assert!(error.contains(reason), "{text}: {error}");
        }
    }

    #[test]
    fn arrivals_are_the_same_each_time_and_as_many_as_asked_for() {
        let times = Arrivals { rate: 100.0 }.times_ns(2_000);
        assert_eq!(times, Arrivals { rate: 100.0 }.times_ns(2_000));
        assert!(times[0] == 0 && times.is_sorted());
        // The sum of 1,999 exponential times of a mean of 10 ms has a deviation of 10 * sqrt(1,999) = 447 ms.
        let seconds = times[1_999] as f64 / 1e9;
        assert!((seconds - 19.99).abs() < 4.0 * 0.447, "{seconds}");
    }

    #[test]
    fn a_result_says_what_readers_saw() {
        let answered = |arrived_ms: u64, tokens_ms: &[u64]| Answered {
            arrived_ns: arrived_ms * 1_000_000,
            tokens_ns: tokens_ms.iter().map(|ms| ms * 1_000_000).collect(),
        };
        let result = ArrivalsResult {
            test: ParallelTest { n_parallel: 2, n_prompt: 3, n_gen: 4 },
            arrivals: Arrivals { rate: 0.5 },
            max_gap: Duration::from_millis(30),
            answered: vec![answered(0, &[10, 12, 15]), answered(5, &[35, 40]), answered(7, &[])],
        };
        let json = result.json("m", "d");
        assert_eq!(json["first_token"], json!({ "median_ms": 10.0, "p95_ms": 30.0, "max_ms": 30.0 }));
        assert_eq!(json["gaps"], json!({ "median_ms": 3.0, "p95_ms": 5.0, "max_ms": 5.0 }));
        assert_eq!(
            (&json["avg_ts"], &json["n_requests"], &json["max_gap_ms"]),
            (&json!(125.0), &json!(3), &json!(30.0))
        );
        assert_eq!(json["requests"][2]["first_token_ms"], Value::Null);
        assert_eq!(json["requests"][1]["arrived_ms"], json!(5.0));
        let columns = |line: &str| line.matches('|').count();
        assert_eq!(columns(&result.markdown()), columns(ArrivalsResult::MARKDOWN_HEAD.lines().next().unwrap()));
    }
}
