//! Estimates how fast a model should run, from the bytes that its tokens need and the measured costs of the device.

use serde::Serialize;
use zinc_model::plan::Cost;

use super::costs::Costs;
use zinc_engine::Estimate;

/// A file whose speed is estimated.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct ModelReport {
    pub(crate) file: String,
    /// The model's needs; `None` if zinc cannot run it.
    pub(crate) needs: Option<Needs>,
    /// Why zinc cannot run it; `None` if it can.
    pub(crate) obstacle: Option<String>,
    /// The estimates with an empty and with a full context; empty if the bandwidth was not measured.
    pub(crate) expected: Vec<Expected>,
}

/// What a model needs of a device.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Needs {
    /// Bytes of weights, KV cache and work arrays.
    pub(crate) memory_bytes: u64,
    /// Bytes that the device has available.
    pub(crate) available_bytes: u64,
    /// Tokens of context.
    pub(crate) context: u32,
    pub(crate) weight_bytes_per_token: u64,
    /// Bytes that a token with a full context needs to be read.
    pub(crate) cache_bytes_per_token: u64,
    pub(crate) dispatches_per_token: usize,
    pub(crate) barriers_per_token: usize,
}

/// The estimated time of a token, and its parts.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Expected {
    /// Tokens of context before the token.
    pub(crate) context: u32,
    /// Time to read what the token needs, at the measured bandwidth.
    pub(crate) reading_us: f64,
    /// Time of the dispatches and their barriers, as if they had nothing to do.
    pub(crate) dispatches_us: f64,
    /// Time that the device idles between two steps.
    pub(crate) idle_us: f64,
    /// Tokens per second, if nothing else took time and every operation reached the bandwidth.
    pub(crate) tokens_per_second: f64,
}

impl ModelReport {
    /// The estimate for a `bandwidth` in bytes per second and an idle time of `idle_us` between two steps, 0 if that is not known.
    pub(super) fn new(
        file: String,
        estimate: Result<&Estimate, String>,
        available_bytes: u64,
        costs: &Costs,
        bandwidth: Option<f64>,
        idle_us: f64,
    ) -> Self {
        let estimate = match estimate {
            Ok(estimate) => estimate,
            Err(obstacle) => return Self { file, needs: None, obstacle: Some(obstacle), expected: Vec::new() },
        };
        let Estimate { memory, cost, dispatches_per_token, barriers_per_token, .. } = *estimate;
        let needs = Needs {
            memory_bytes: memory.total(),
            available_bytes,
            context: memory.context,
            weight_bytes_per_token: cost.weight_bytes,
            cache_bytes_per_token: cost.cache_bytes,
            dispatches_per_token,
            barriers_per_token,
        };
        let dispatches_us = dispatches_us(dispatches_per_token, barriers_per_token, costs);
        let at = |context: u32, cost: Cost| {
            let bytes = cost.weight_bytes + cost.cache_bytes;
            let reading_us = bytes as f64 / bandwidth? * 1e6;
            let tokens_per_second = 1e6 / (reading_us + dispatches_us + idle_us);
            Some(Expected { context, reading_us, dispatches_us, idle_us, tokens_per_second })
        };
        let expected =
            [at(0, Cost { cache_bytes: 0, ..cost }), at(memory.context, cost)].into_iter().flatten().collect();
        Self { file, needs: Some(needs), obstacle: None, expected }
    }
}

/// The time of all dispatches. Each barrier belongs to one of them, which waits for the one before it; the others wait for nothing.
fn dispatches_us(dispatches: usize, barriers: usize, costs: &Costs) -> f64 {
    let free = dispatches.saturating_sub(barriers);
    barriers.min(dispatches) as f64 * costs.dispatch_barrier_us + free as f64 * costs.dispatch_us
}

#[cfg(test)]
mod tests {
    use zinc_model::memory::MemoryPlan;

    use super::super::report::tests::costs;
    use super::*;

    fn estimate() -> Estimate {
        Estimate {
            checkpoint_bytes: 0,
            memory: MemoryPlan {
                weights: 1000,
                kv_cache: 200,
                recurrent: 0,
                work: 34,
                context: 4096,
                bytes_per_position: 1,
            },
            cost: Cost { weight_bytes: 1_800_000_000, cache_bytes: 400_000_000, flops: 0 },
            dispatches_per_token: 292,
            barriers_per_token: 242,
        }
    }

    #[test]
    fn a_token_takes_its_bytes_its_dispatches_and_the_gap() {
        let report = ModelReport::new("m.gguf".to_owned(), Ok(&estimate()), 5000, &costs(), Some(2e12), 14.5);
        let needs = report.needs.unwrap();
        assert_eq!((needs.memory_bytes, needs.available_bytes, needs.barriers_per_token), (1234, 5000, 242));
        let [empty, full] = report.expected[..] else { panic!("{report:?}") };
        // 242 dispatches take 2.2 microseconds each, and 50 take 0.5.
        assert!((empty.dispatches_us - 557.4).abs() < 1e-9, "{empty:?}");
        assert_eq!((empty.context, empty.reading_us, empty.idle_us), (0, 900.0, 14.5));
        assert_eq!((full.context, full.reading_us), (4096, 1100.0));
        assert!((empty.tokens_per_second - 1e6 / 1471.9).abs() < 1e-6, "{empty:?}");
    }

    #[test]
    fn without_a_bandwidth_or_a_model_nothing_is_expected() {
        let report = ModelReport::new("m".to_owned(), Ok(&estimate()), 5000, &costs(), None, 0.0);
        assert!(report.expected.is_empty() && report.needs.is_some());
        let report = ModelReport::new("m".to_owned(), Err("no".to_owned()), 5000, &costs(), Some(1e9), 0.0);
        assert_eq!((report.needs, report.obstacle.as_deref()), (None, Some("no")));
    }
}
