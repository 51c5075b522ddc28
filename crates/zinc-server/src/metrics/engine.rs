//! What the engine counts, as figures for Prometheus.

use std::fmt;
use std::sync::{Mutex, PoisonError};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use zinc_sched::{RowCounts, Status};

/// The figures of an engine as they were last set.
#[derive(Debug, Default)]
pub(super) struct EngineFigures(Mutex<Status>);

impl EngineFigures {
    pub(super) fn set(&self, status: Status) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = status;
    }
}

impl Collector for EngineFigures {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let Status { failures, running, queued, pages, counts, .. } =
            *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (sampling, feeding) = (counts.sampling_rows, counts.feeding_rows);
        let mut figure = |name, help, metric: &dyn EncodeMetric| {
            metric.encode(encoder.encode_descriptor(name, help, None, metric.metric_type())?)
        };
        figure("requests_processing", "Requests that run", &ConstGauge::new(running as u64))?;
        figure("requests_deferred", "Requests that wait", &ConstGauge::new(queued as u64))?;
        figure("device_losses", "Failures of the device", &ConstCounter::new(failures))?;
        figure("n_decode", "Steps of the device", &ConstCounter::new(counts.steps))?;
        let mean = if sampling.count() > 0 { sampling.rows as f64 / sampling.count() as f64 } else { 0.0 };
        let busy = "Sequences of a step that generates tokens, on average since the start";
        figure("n_busy_slots_per_decode", busy, &ConstGauge::new(mean))?;
        let rows = "Rows of a step: sequences of one that generates tokens (decode), tokens of one that computes prompts (prompt)";
        figure("step_rows", rows, &Labelled("kind", &[("decode", Rows(sampling)), ("prompt", Rows(feeding))]))?;
        let busy = "Time in which the device had steps to do, in seconds";
        figure("device_busy_seconds", busy, &ConstCounter::new(counts.occupancy.busy.as_secs_f64()))?;
        let idle = "Time in which requests ran and the device had nothing to do, in seconds";
        figure("device_idle_seconds", idle, &ConstCounter::new(counts.occupancy.idle.as_secs_f64()))?;
        let preempted = "How often a running request had to give its pages back to others, to be computed again later";
        figure("preemptions", preempted, &ConstCounter::new(counts.preemptions))?;
        let kept = "Checkpoints of recurrent states that were kept";
        figure("checkpoints_kept", kept, &ConstCounter::new(counts.checkpoints_kept))?;
        let restored = "How often a request began with a checkpoint, or went on with one after it gave its pages back";
        figure("checkpoints_restored", restored, &ConstCounter::new(counts.checkpoints_restored))?;
        let refused =
            "How often there was no memory for one more checkpoint, so that fewer are kept than were asked for";
        figure("checkpoints_without_memory", refused, &ConstCounter::new(counts.checkpoints_without_memory))?;
        let speculation = counts.speculation;
        let help = "Steps of ended answers that verified what was drafted";
        figure("spec_decode_num_drafts", help, &ConstCounter::new(speculation.steps))?;
        let help = "Tokens that these steps drafted";
        figure("spec_decode_num_draft_tokens", help, &ConstCounter::new(speculation.drafts))?;
        let help = "Drafted tokens that were accepted";
        figure("spec_decode_num_accepted_tokens", help, &ConstCounter::new(speculation.accepted()))?;
        let Some(pages) = pages else { return Ok(()) };
        let help = "Pages of the KV cache: used by running requests, cached for prompts that begin alike, or free";
        let pages = [("used", pages.used), ("cached", pages.cached), ("free", pages.free)];
        figure(
            "kv_pages",
            help,
            &Labelled("kind", &pages.map(|(kind, count)| (kind, ConstGauge::new(u64::from(count))))),
        )
    }
}

/// Metrics of one name that a label tells apart.
struct Labelled<'a, M>(&'static str, &'a [(&'static str, M)]);

impl<M: EncodeMetric> EncodeMetric for Labelled<'_, M> {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> fmt::Result {
        self.1.iter().try_for_each(|(value, metric)| metric.encode(encoder.encode_family(&[(self.0, *value)])?))
    }

    fn metric_type(&self) -> MetricType {
        self.1.first().map_or(MetricType::Unknown, |(_, metric)| metric.metric_type())
    }
}

/// A histogram of rows.
struct Rows(RowCounts);

impl EncodeMetric for Rows {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> fmt::Result {
        let bounds = RowCounts::BOUNDS.map(f64::from).into_iter().chain([f64::INFINITY]);
        let buckets: Vec<(f64, u64)> = bounds.zip(self.0.steps).collect();
        encoder.encode_histogram::<NoLabelSet>(self.0.rows as f64, self.0.count(), &buckets, None)
    }

    fn metric_type(&self) -> MetricType {
        MetricType::Histogram
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use prometheus_client::encoding::text::encode;
    use prometheus_client::registry::Registry;
    use zinc_sched::pages::PageCounts;
    use zinc_sched::{EngineCounts, Occupancy, SpeculationStats};

    use super::*;

    #[test]
    fn all_that_an_engine_counts_is_written() {
        let figures = Arc::new(EngineFigures::default());
        let mut registry = Registry::with_prefix("zinc");
        registry.register_collector(Box::new(Arc::clone(&figures)));
        let mut sampling_rows = RowCounts { rows: 10, ..RowCounts::default() };
        // Two steps of a row, and two of four.
        (sampling_rows.steps[0], sampling_rows.steps[2]) = (2, 2);
        let mut feeding_rows = RowCounts { rows: 5000, ..RowCounts::default() };
        feeding_rows.steps[12] = 1;
        figures.set(Status {
            failures: 2,
            running: 3,
            queued: 4,
            pages: Some(PageCounts { used: 5, free: 6, cached: 7 }),
            counts: EngineCounts {
                steps: 8,
                preemptions: 9,
                checkpoints_kept: 11,
                checkpoints_restored: 12,
                checkpoints_without_memory: 1,
                speculation: SpeculationStats { steps: 10, tokens: 25, drafts: 30 },
                sampling_rows,
                feeding_rows,
                occupancy: Occupancy { busy: Duration::from_millis(1500), idle: Duration::from_millis(250) },
                ..EngineCounts::default()
            },
            ..Status::default()
        });
        let mut text = String::new();
        encode(&mut text, &registry).unwrap();
        for line in [
            "zinc_device_losses_total 2",
            "zinc_requests_processing 3",
            "zinc_requests_deferred 4",
            "zinc_n_decode_total 8",
            "zinc_n_busy_slots_per_decode 2.5",
            "# TYPE zinc_step_rows histogram",
            "zinc_step_rows_bucket{le=\"1.0\",kind=\"decode\"} 2",
            "zinc_step_rows_bucket{le=\"2.0\",kind=\"decode\"} 2",
            "zinc_step_rows_bucket{le=\"4.0\",kind=\"decode\"} 4",
            "zinc_step_rows_count{kind=\"decode\"} 4",
            "zinc_step_rows_sum{kind=\"decode\"} 10.0",
            "zinc_step_rows_bucket{le=\"2048.0\",kind=\"prompt\"} 0",
            "zinc_step_rows_bucket{le=\"+Inf\",kind=\"prompt\"} 1",
            "zinc_device_busy_seconds_total 1.5",
            "zinc_device_idle_seconds_total 0.25",
            "zinc_preemptions_total 9",
            "zinc_checkpoints_kept_total 11",
            "zinc_checkpoints_restored_total 12",
            "zinc_checkpoints_without_memory_total 1",
            "zinc_spec_decode_num_drafts_total 10",
            "zinc_spec_decode_num_draft_tokens_total 30",
            "zinc_spec_decode_num_accepted_tokens_total 15",
            "zinc_kv_pages{kind=\"used\"} 5",
            "zinc_kv_pages{kind=\"cached\"} 7",
            "zinc_kv_pages{kind=\"free\"} 6",
        ] {
            assert!(text.lines().any(|own| own == line), "{line}: {text}");
        }
    }
}
