//! Measures what single acts cost: submitting, waiting, signalling, dispatching.

use std::time::{Duration, Instant};

use serde::Serialize;
use zinc_sched::Quantiles;
use zinc_vk::{ClockMethod, HostTimeline, QueueKind, Result, Stage, WaitPolicy, host_now_ns};

use super::probe::{Between, Probe};
use crate::stopwatch::Stopwatch;

/// How many samples of each act are taken.
const SAMPLES: usize = 200;
/// How many samples are taken before those that count, while clocks rise and caches fill.
const WARM_UPS: usize = 20;

/// How many dispatches a recording has whose time is divided by their number.
const DISPATCHES: u32 = 256;
/// How many times that recording runs.
const RUNS: usize = 16;

/// How long the host waits before it releases a step, so that the device has come to rest at its wait.
const REST: Duration = Duration::from_micros(200);

/// How long an act takes, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Micros {
    /// The median: half of the samples are no larger.
    pub(crate) median_us: f64,
    /// The 99th percentile: 99 % of the samples are no larger.
    pub(crate) p99_us: f64,
}

/// The costs of acts on a device, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Costs {
    /// A submit call for a recording that is already made.
    pub(crate) submit: Micros,
    /// From the submit of an empty step until a wait for a fence returns.
    pub(crate) fence_round_trip: Micros,
    /// From the submit of an empty step until the timeline's counter, which the host reads again and again, has the step's value.
    pub(crate) timeline_polling: Micros,
    /// From the submit of an empty step until a blocking wait for the timeline returns.
    pub(crate) timeline_blocking: Micros,
    /// From a host signal that releases a step queued ahead until the counter has the step's value.
    pub(crate) host_signal: Micros,
    /// From the end of a step on the compute queue to the begin of one that is queued ahead on the second queue; `None` without a second queue
    /// or timestamps.
    pub(crate) queue_hop: Option<Micros>,
    /// Time on the device of a dispatch that waits for the one before it.
    pub(crate) dispatch_barrier_us: f64,
    /// Time on the device of a dispatch that waits for nothing.
    pub(crate) dispatch_us: f64,
    /// Time on the host to record a dispatch and its barrier.
    pub(crate) record_us: f64,
    /// How well the device's clock is calibrated with the host's; `None` if the device has no timestamps.
    pub(crate) clock: Option<Clock>,
}

/// How the device's clock is calibrated with the host's.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Clock {
    /// Whether the driver reads both together.
    pub(crate) calibrated: bool,
    /// How far the two readings may be apart, in microseconds.
    pub(crate) max_error_us: f64,
}

impl Micros {
    /// The statistics of at least one sample, given in nanoseconds.
    fn of(samples_ns: Vec<u64>) -> Self {
        let quantiles = Quantiles::of(samples_ns).expect("there are samples");
        Self { median_us: microseconds(quantiles.median), p99_us: microseconds(quantiles.p99) }
    }
}

/// Measures all costs. The queue must have nothing else to do.
///
/// # Errors
/// Whatever error the device reports.
pub(crate) fn measure(probe: &Probe) -> Result<Costs> {
    let queue = probe.device().compute_queue();
    let empty = probe.start()?.finish()?;
    let polling = WaitPolicy { spin: WaitPolicy::default().stall, ..WaitPolicy::default() };
    let blocking = WaitPolicy { spin: Duration::ZERO, ..WaitPolicy::default() };

    let submit = sampled(|| {
        let before = host_now_ns();
        let point = queue.submit(&empty, &[])?;
        let after = host_now_ns();
        point.wait_with(&polling)?;
        Ok(after - before)
    })?;
    let fence_round_trip = sampled(|| elapsed_ns(|| queue.submit_and_wait_fence(&empty)))?;
    let round_trip = |policy: &WaitPolicy| sampled(|| elapsed_ns(|| queue.submit(&empty, &[])?.wait_with(policy)));
    let (timeline_polling, timeline_blocking) = (round_trip(&polling)?, round_trip(&blocking)?);
    let host = HostTimeline::new(probe.device(), "probe")?;
    let mut value = 0;
    let host_signal = sampled(|| {
        value += 1;
        let point = queue.submit(&empty, &[host.point(value)])?;
        let queued = Instant::now();
        while queued.elapsed() < REST {
            std::hint::spin_loop();
        }
        elapsed_ns(|| {
            host.signal(value)?;
            point.wait_with(&polling)
        })
    })?;

    let (dispatch_barrier_us, record_us) = dispatches(probe, Between::Barrier)?;
    let (dispatch_us, _) = dispatches(probe, Between::Nothing)?;
    let clock = match probe.timestamps(1)? {
        None => None,
        Some(_) => {
            let clock = probe.device().clock()?;
            let calibrated = clock.method == ClockMethod::Calibrated;
            Some(Clock { calibrated, max_error_us: microseconds(clock.max_error_ns) })
        }
    };
    Ok(Costs {
        submit,
        fence_round_trip,
        timeline_polling,
        timeline_blocking,
        host_signal,
        queue_hop: queue_hop(probe)?,
        dispatch_barrier_us,
        dispatch_us,
        record_us,
        clock,
    })
}

/// Measures the time on the device from the end of a step on one queue to the begin of a step on the other.
fn queue_hop(probe: &Probe) -> Result<Option<Micros>> {
    let device = probe.device();
    let (Some(second), Some(timestamps)) = (device.second_compute_queue(), probe.timestamps(2)?) else {
        return Ok(None);
    };
    // The first step takes long enough for the second to be submitted before it ends.
    let mut before = probe.start()?;
    before.reset_timestamps(&timestamps, 0..2);
    probe.record(&mut before, DISPATCHES, Between::Barrier)?;
    before.timestamp(&timestamps, 0, Stage::End);
    let mut behind = probe.start_for(QueueKind::SecondCompute)?;
    behind.timestamp(&timestamps, 1, Stage::Begin);
    let (before, behind) = (before.finish()?, behind.finish()?);
    let clock = device.clock()?;
    let hop = sampled(|| {
        let end = device.compute_queue().submit(&before, &[])?;
        second.submit(&behind, &[end])?.wait()?;
        let ticks = timestamps.read(0..2)?;
        Ok(clock.host_ns(ticks[1]).saturating_sub(clock.host_ns(ticks[0])))
    })?;
    Ok(Some(hop))
}

/// Microseconds that one of many dispatches takes on the device (on the host's clock where the device has none), and that writing it
/// into a command buffer takes on the host.
fn dispatches(probe: &Probe, between: Between) -> Result<(f64, f64)> {
    let queue = probe.device().compute_queue();
    let stopwatch = Stopwatch::new(probe.device())?;
    let mut recording = probe.start()?;
    stopwatch.start(&mut recording);
    probe.record(&mut recording, DISPATCHES, between)?;
    stopwatch.stop(&mut recording);
    let recording = recording.finish()?;
    let (mut samples, mut recorded_ns) = (Vec::with_capacity(RUNS), Vec::with_capacity(RUNS));
    for _ in 0..RUNS {
        recorded_ns.push(elapsed_ns(|| queue.record_again(&recording))?);
        samples.push(stopwatch.run(&recording)?);
    }
    let each = |us: f64| us / f64::from(DISPATCHES);
    Ok((each(Micros::of(samples).median_us), each(Micros::of(recorded_ns).median_us)))
}

fn sampled(mut act: impl FnMut() -> Result<u64>) -> Result<Micros> {
    for _ in 0..WARM_UPS {
        act()?;
    }
    Ok(Micros::of((0..SAMPLES).map(|_| act()).collect::<Result<_>>()?))
}

fn elapsed_ns(act: impl FnOnce() -> Result<()>) -> Result<u64> {
    let before = host_now_ns();
    act()?;
    Ok(host_now_ns() - before)
}

fn microseconds(ns: u64) -> f64 {
    ns as f64 / 1e3
}
