//! Measures how long the GPU idles between two steps, for each way in which the host can follow it. This shows what queueing ahead gains.
//!
//! A step is a chain of dispatches that do next to nothing, one for each operation of a small model's token. Every step has a recording and two
//! timestamps of its own. They are read after the run, so that nothing but steps runs on the device.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use serde::{Serialize, Serializer};
use zinc_sched::{Clock as _, FnClock, InflightDepth, Quantiles};
use zinc_vk::{Recording, Result, Stage, Timestamps, host_now_ns};

use super::probe::{Between, Probe};

/// How many steps one run has.
const STEPS: u32 = 32;
/// How many gaps at the start of a run do not count, because the window is still filling.
const WARM_UPS: usize = 4;

/// About how long a step should take on the device, in microseconds: as long as one of a small model.
const STEP_US: f64 = 1000.0;
/// The fewest and the most dispatches of a step. A large model has the most.
const DISPATCHES: (f64, f64) = (16.0, 400.0);

/// The amounts of busy time of the host after every step, in microseconds.
pub(crate) const HOST_WORK_US: [u32; 3] = [0, 250, 500];

/// How the host follows the GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Drive {
    /// The commands are written into the command buffer anew for every step, which is then waited for with a fence.
    Fence,
    /// Steps are recorded once, and each is waited for with a fence.
    FenceKept,
    /// Steps are recorded once and queued ahead on a timeline, with this many in flight.
    Timeline(u32),
}

impl Drive {
    /// All drives that are measured.
    fn all() -> [Self; 5] {
        [Self::Fence, Self::FenceKept, Self::Timeline(1), Self::Timeline(2), Self::default()]
    }
}

impl Default for Drive {
    /// The drive that zinc uses unless flags say otherwise.
    fn default() -> Self {
        Self::Timeline(InflightDepth::DEFAULT.get())
    }
}

impl std::fmt::Display for Drive {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Fence => f.write_str("fence, recorded anew"),
            Self::FenceKept => f.write_str("fence, recording kept"),
            Self::Timeline(depth) => write!(f, "timeline, {depth} in flight"),
        }
    }
}

impl Serialize for Drive {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Idle times of all drives at all host loads.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct SeamTable {
    /// How many dispatches a step has.
    pub(crate) dispatches: u32,
    /// Median time of a step on the device.
    pub(crate) step_us: f64,
    /// The host loads of the columns, in microseconds.
    pub(crate) host_work_us: [u32; 3],
    pub(crate) rows: Vec<SeamRow>,
}

/// The idle times of one drive.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct SeamRow {
    pub(crate) drive: Drive,
    /// Median idle time between two steps in microseconds, for each host load.
    pub(crate) idle_us: [f64; 3],
}

impl SeamTable {
    /// Median idle time of a drive with `work_us` of host work; `None` if that was not measured.
    pub(crate) fn idle_us(&self, drive: Drive, host_work_us: u32) -> Option<f64> {
        let column = self.host_work_us.iter().position(|&load| load == host_work_us)?;
        Some(self.rows.iter().find(|row| row.drive == drive)?.idle_us[column])
    }
}

/// Measures all drives at all loads; `None` on a device without timestamps. `dispatch_us` is the time of a dispatch with its barrier. `done` is
/// called with the number of runs that are over and the number of all runs. The queue must have nothing else to do.
///
/// # Errors
/// Whatever error the device reports.
pub(crate) fn measure(
    probe: &Probe,
    dispatch_us: f64,
    done: &mut dyn FnMut(usize, usize),
) -> Result<Option<SeamTable>> {
    let Some(timestamps) = probe.timestamps(2 * STEPS)? else { return Ok(None) };
    let dispatches = (STEP_US / dispatch_us.max(0.1)).clamp(DISPATCHES.0, DISPATCHES.1) as u32;
    let steps = Steps { probe, timestamps, dispatches };
    let kept = (0..STEPS).map(|step| steps.record(step)).collect::<Result<Vec<_>>>()?;
    let drives = Drive::all();
    let (mut rows, mut steps_ns) = (Vec::new(), Vec::new());
    for (row, drive) in drives.into_iter().enumerate() {
        let mut idle_us = [0.0; HOST_WORK_US.len()];
        for (column, host_work_us) in HOST_WORK_US.into_iter().enumerate() {
            steps.run(&kept, drive, Duration::from_micros(host_work_us.into()))?;
            let (lengths, gaps) = steps.times()?;
            steps_ns.extend(lengths);
            idle_us[column] = median_us(gaps);
            done(row * HOST_WORK_US.len() + column + 1, drives.len() * HOST_WORK_US.len());
        }
        rows.push(SeamRow { drive, idle_us });
    }
    Ok(Some(SeamTable { dispatches, step_us: median_us(steps_ns), host_work_us: HOST_WORK_US, rows }))
}

struct Steps<'a> {
    probe: &'a Probe,
    /// Two timestamps for each step: its begin and its end.
    timestamps: Arc<Timestamps>,
    dispatches: u32,
}

impl Steps<'_> {
    fn record(&self, step: u32) -> Result<Arc<Recording>> {
        let mut recording = self.probe.start()?;
        recording.reset_timestamps(&self.timestamps, 2 * step..2 * step + 2);
        recording.timestamp(&self.timestamps, 2 * step, Stage::Begin);
        self.probe.record(&mut recording, self.dispatches, Between::Barrier)?;
        recording.timestamp(&self.timestamps, 2 * step + 1, Stage::End);
        recording.finish()
    }

    /// Runs every step once. The host is kept busy for `work` after each step that it has observed.
    fn run(&self, kept: &[Arc<Recording>], drive: Drive, work: Duration) -> Result<()> {
        let queue = self.probe.device().compute_queue();
        let busy = || FnClock(host_now_ns).spend(work);
        match drive {
            Drive::Fence => kept.iter().try_for_each(|recording| {
                queue.record_again(recording)?;
                queue.submit_and_wait_fence(recording)?;
                busy();
                Ok(())
            }),
            Drive::FenceKept => kept.iter().try_for_each(|recording| {
                queue.submit_and_wait_fence(recording)?;
                busy();
                Ok(())
            }),
            Drive::Timeline(depth) => {
                let mut in_flight = VecDeque::new();
                for recording in kept {
                    if in_flight.len() == depth as usize {
                        let oldest: zinc_vk::TimelinePoint = in_flight.pop_front().expect("the depth is not 0");
                        oldest.wait()?;
                        busy();
                    }
                    in_flight.push_back(queue.submit(recording, &[])?);
                }
                in_flight.iter().try_for_each(zinc_vk::TimelinePoint::wait)
            }
        }
    }

    /// The lengths of the last run's steps, and the gaps between them, in nanoseconds.
    fn times(&self) -> Result<(Vec<u64>, Vec<u64>)> {
        let clock = self.probe.device().clock()?;
        let ticks = self.timestamps.read(0..2 * STEPS)?;
        Ok(lengths_and_gaps(&ticks.iter().map(|&ticks| clock.host_ns(ticks)).collect::<Vec<_>>()))
    }
}

/// The lengths of steps and the gaps between them, from the begin and the end of each step in turn, in nanoseconds.
fn lengths_and_gaps(moments: &[u64]) -> (Vec<u64>, Vec<u64>) {
    let lengths = moments.chunks_exact(2).map(|step| step[1].saturating_sub(step[0])).collect();
    let inner = moments.get(1..moments.len().saturating_sub(1)).unwrap_or_default();
    let gaps = inner.chunks_exact(2).map(|gap| gap[1].saturating_sub(gap[0])).skip(WARM_UPS).collect();
    (lengths, gaps)
}

fn median_us(samples_ns: Vec<u64>) -> f64 {
    Quantiles::of(samples_ns).map_or(0.0, |quantiles| quantiles.median as f64 / 1e3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_lie_between_the_end_of_a_step_and_the_begin_of_the_next() {
        let moments: Vec<u64> = (0..6u64).flat_map(|step| [100 * step, 100 * step + 90 - step]).collect();
        let (lengths, gaps) = lengths_and_gaps(&moments);
        assert_eq!(lengths, [90, 89, 88, 87, 86, 85]);
        // The gap behind step n is 10 + n, and the first four gaps do not count.
        assert_eq!(gaps, [14]);
        assert_eq!(lengths_and_gaps(&[]), (vec![], vec![]));
        assert_eq!(lengths_and_gaps(&[5, 3]), (vec![0], vec![]));
    }

    #[test]
    fn idle_times_are_looked_up_by_drive_and_load() {
        let row = |drive, idle_us| SeamRow { drive, idle_us };
        let table = SeamTable {
            dispatches: 400,
            step_us: 900.0,
            host_work_us: HOST_WORK_US,
            rows: vec![row(Drive::Fence, [67.0, 339.0, 589.0]), row(Drive::Timeline(2), [14.0, 15.0, 16.0])],
        };
        assert_eq!(table.idle_us(Drive::Fence, 250), Some(339.0));
        assert_eq!(table.idle_us(Drive::Timeline(2), 500), Some(16.0));
        assert_eq!(table.idle_us(Drive::Timeline(4), 0), None);
        assert_eq!(table.idle_us(Drive::Fence, 1), None);
    }
}
