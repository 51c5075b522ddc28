//! How fast a device moves its own memory, measured with a copy: what other figures are held against.

use crate::buffer::{Buffer, Placement};
use crate::device::Device;
use crate::error::Result;
use crate::facts::AdapterKind;
use crate::queue::QueueKind;
use crate::recording::RecordingBuilder;
use crate::timestamps::{Stage, Timestamps};

/// Largest buffer that is copied: far above the caches of any GPU.
const LARGEST: u64 = 1 << 30;
/// The same on CPUs, whose caches are smaller than their patience.
const LARGEST_ON_CPU: u64 = 128 << 20;
/// Smallest one, below which the figure would be that of a cache.
const SMALLEST: u64 = 16 << 20;

/// Copies of which the fastest counts; the first ones wake the memory up.
const ATTEMPTS: usize = 5;

impl Device {
    /// Bytes read and written per second while one buffer is copied to another, both in device memory, up to 1 GiB each as memory
    /// allows; the fastest of five copies. The queue must have nothing else to do.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`](crate::Error::OutOfMemory), [`Error::NoTimestamps`](crate::Error::NoTimestamps), or what the driver says.
    pub fn copy_bandwidth(&self) -> Result<f64> {
        let largest = if self.facts().kind == AdapterKind::Cpu { LARGEST_ON_CPU } else { LARGEST };
        let heaps = self.memory_report().heaps;
        let free = heaps.iter().filter(|heap| heap.device_local).map(|heap| heap.available).max().unwrap_or(0);
        let limits = &self.facts().limits;
        let limit = limits.buffer_bytes.unwrap_or(u64::MAX).min(limits.allocation_bytes);
        // A quarter of what is free for each of the two; whole pages, so that the driver may use its fastest way.
        let bytes = (free / 4).clamp(SMALLEST, largest).min(limit) & !0xffff;
        let from = Buffer::new(self, "bandwidth source", bytes, Placement::Device)?;
        let to = Buffer::new(self, "bandwidth target", bytes, Placement::Device)?;
        let stamps = Timestamps::new(self, 2)?;
        let record = |name, fill: bool| {
            let mut recording = RecordingBuilder::new(self, QueueKind::Compute, name)?;
            if fill {
                // Memory that was never written may not exist, or be compressed to nothing.
                recording.fill(&from, 0, bytes, 0x1234_5678);
            } else {
                recording.reset_timestamps(&stamps, 0..2).timestamp(&stamps, 0, Stage::End);
                recording.copy(&from, 0, &to, 0, bytes).timestamp(&stamps, 1, Stage::End);
            }
            recording.finish()
        };
        self.compute_queue().submit(&record("bandwidth fill", true)?, &[])?.wait()?;
        let copy = record("bandwidth copy", false)?;
        let clock = self.clock()?;
        let mut best_ns = u64::MAX;
        for _ in 0..ATTEMPTS {
            self.compute_queue().submit(&copy, &[])?.wait()?;
            let ticks = stamps.read(0..2)?;
            best_ns = best_ns.min(clock.host_ns(ticks[1]).saturating_sub(clock.host_ns(ticks[0])).max(1));
        }
        // The last submission holds the buffers until it is collected.
        self.compute_queue().collect()?;
        Ok(2.0 * bytes as f64 / (best_ns as f64 * 1e-9))
    }
}
