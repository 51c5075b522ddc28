//! When the device ran the steps: timestamps by ring slot, and how they reach the host.
//!
//! The host reads them from their pool, so that a recording holds the two writes and nothing else; what a copy costs would lie between two
//! steps, and count as idle. Where reading waits for all that is queued, recordings copy them to the step's report instead.

use std::ops::Range;
use std::sync::Arc;

use zinc_model::{Error, Result};
use zinc_vk::{ClockCalibration, Device, RecordingBuilder, Stage, Timestamps};

use super::memory::{STAMPS, StepMemory};
use crate::step::GpuSpan;

/// Which two of a step's timestamps are meant.
#[derive(Clone, Copy, Debug)]
pub(super) enum Stamped {
    /// Those of the whole step, or of its forward pass if sampling is recorded apart.
    Forward,
    /// Those of sampling, if that is recorded apart.
    Sampling,
}

/// The timestamps of the steps in flight.
#[derive(Debug)]
pub(super) struct Stamps {
    pool: Arc<Timestamps>,
    clock: ClockCalibration,
    copied: bool,
}

/// The timestamps that were made; `None` on a device that takes none.
pub(super) fn if_taken<T>(made: Result<T>) -> Result<Option<T>> {
    match made {
        Err(Error::Device(zinc_vk::Error::NoTimestamps { .. })) => Ok(None),
        made => made.map(Some),
    }
}

impl Stamps {
    pub(super) fn new(device: &Arc<Device>, slots: u32) -> Result<Self> {
        let pool = Timestamps::new(device, STAMPS * slots)?;
        let copied = device.facts().driver.waits_for_queries() || !pool.reset_by_host();
        Ok(Self { pool, clock: device.clock()?, copied })
    }

    /// Calibrates the device's clock with the host's again, since the two drift apart.
    pub(super) fn calibrate(&mut self, device: &Device) -> Result<()> {
        self.clock = device.clock()?;
        Ok(())
    }

    /// Makes the timestamps of a slot ready for its next step.
    pub(super) fn reset(&self, slot: u32) {
        if !self.copied {
            self.pool.reset(STAMPS * slot..STAMPS * (slot + 1));
        }
    }

    pub(super) fn record_begin(&self, recording: &mut RecordingBuilder, slot: u32, part: Stamped) {
        let range = stamps(slot, part);
        if self.copied {
            recording.reset_timestamps(&self.pool, range.clone());
        }
        recording.timestamp(&self.pool, range.start, Stage::Begin);
    }

    pub(super) fn record_end(&self, recording: &mut RecordingBuilder, slot: u32, part: Stamped, memory: &StepMemory) {
        let range = stamps(slot, part);
        recording.timestamp(&self.pool, range.start + 1, Stage::End);
        if self.copied {
            let at = memory.stamps_offset(slot) + 8 * u64::from(range.start % STAMPS);
            recording.copy_timestamps(&self.pool, range, &memory.reports, at);
        }
    }

    /// When the device ran the step in a slot, which is done, and how long it idled inside.
    pub(super) fn span(&self, slot: u32, split: bool, memory: &StepMemory) -> Result<GpuSpan> {
        let read = |part| -> Result<[u64; 2]> {
            let range = stamps(slot, part);
            let ticks = if self.copied {
                let first = (range.start % STAMPS) as usize;
                memory.stamps(slot)[first..first + 2].to_vec()
            } else {
                self.pool.read(range)?
            };
            Ok([ticks[0], ticks[1]].map(|tick| self.clock.host_ns(tick)))
        };
        let [begin_ns, forward_end_ns] = read(Stamped::Forward)?;
        if !split {
            return Ok(GpuSpan { begin_ns, end_ns: forward_end_ns, idle_ns: 0 });
        }
        let [sampling_begin_ns, end_ns] = read(Stamped::Sampling)?;
        Ok(GpuSpan { begin_ns, end_ns, idle_ns: sampling_begin_ns.saturating_sub(forward_end_ns) })
    }
}

/// The places of two timestamps in the pool.
fn stamps(slot: u32, part: Stamped) -> Range<u32> {
    let first = STAMPS * slot + 2 * part as u32;
    first..first + 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_without_timestamps_is_traced_without_them() {
        let none = || zinc_vk::Error::NoTimestamps { device: "a device".to_owned(), queue: "compute" };
        assert!(matches!(if_taken(Ok(7)), Ok(Some(7))));
        assert!(matches!(if_taken::<u32>(Err(none().into())), Ok(None)));
        assert!(if_taken::<u32>(Err(zinc_vk::Error::DeviceLost { during: "a test" }.into())).is_err());
    }
}
