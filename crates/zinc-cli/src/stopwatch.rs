//! Times recordings on the compute queue: by the device's clock, or by the host's if the device has no timestamps.

use std::sync::Arc;

use zinc_vk::{ClockCalibration, Device, Error, Recording, RecordingBuilder, Result, Stage, Timestamps, host_now_ns};

/// Two timestamps of a device, which one recording at a time may use.
pub(crate) struct Stopwatch {
    device: Arc<Device>,
    /// `None` if the device has no timestamps.
    stamps: Option<(Arc<Timestamps>, ClockCalibration)>,
}

impl Stopwatch {
    /// Prepares the timestamps.
    ///
    /// # Errors
    /// Whatever error the device reports.
    pub(crate) fn new(device: &Arc<Device>) -> Result<Self> {
        let stamps = match Timestamps::new(device, 2) {
            Err(Error::NoTimestamps { .. }) => None,
            stamps => Some((stamps?, device.clock()?)),
        };
        Ok(Self { device: device.clone(), stamps })
    }

    /// Begins what is timed of a recording.
    pub(crate) fn start(&self, recording: &mut RecordingBuilder) {
        if let Some((stamps, _)) = &self.stamps {
            recording.reset_timestamps(stamps, 0..2).timestamp(stamps, 0, Stage::End);
        }
    }

    /// Ends what is timed of a recording.
    pub(crate) fn stop(&self, recording: &mut RecordingBuilder) {
        if let Some((stamps, _)) = &self.stamps {
            recording.timestamp(stamps, 1, Stage::End);
        }
    }

    /// Runs a recording that has been started and stopped, and gives the nanoseconds between the two; by the host's clock those from the submit to the end.
    ///
    /// # Errors
    /// Whatever error the device reports.
    pub(crate) fn run(&self, recording: &Arc<Recording>) -> Result<u64> {
        let submitted = host_now_ns();
        self.device.compute_queue().submit(recording, &[])?.wait()?;
        let Some((stamps, clock)) = &self.stamps else { return Ok(host_now_ns() - submitted) };
        let ticks = stamps.read(0..2)?;
        Ok(clock.host_ns(ticks[1]).saturating_sub(clock.host_ns(ticks[0])))
    }
}
