//! Fills a cache with made-up keys and values, to measure with a long context without computing it.

use zinc_kernels::ops::CacheFormat;
use zinc_vk::{Buffer, Placement, QueueKind, RecordingBuilder};

use super::DeviceModel;
use crate::error::Result;

/// Elements of the pattern, which is repeated: a prime, so that it lies differently in every row.
const PATTERN_ELEMENTS: usize = 262_147;

impl DeviceModel {
    /// Overwrites every key and value of the cache with pseudo-random numbers between -1 and 1. What the model computes from them
    /// means nothing, and is the same each time.
    ///
    /// # Errors
    /// Whatever error the device reports.
    pub fn fill_cache(&self) -> Result<()> {
        let device = self.device();
        // In the list of caches, keys and values alternate.
        for (first, format) in [(0, self.cache.key_format), (1, self.cache.value_format)] {
            let bytes = pattern(format);
            let pattern = Buffer::new(device, "cache pattern", bytes.len() as u64, Placement::Upload)?;
            pattern.write(0, &bytes);
            let mut recording = RecordingBuilder::new(device, QueueKind::Compute, "fill cache")?;
            for cache in self.arrays.caches.iter().skip(first).step_by(2) {
                let mut offset = 0;
                while offset < cache.size() {
                    let part = pattern.size().min(cache.size() - offset);
                    recording.copy(&pattern, 0, cache, offset, part);
                    offset += part;
                }
            }
            device.compute_queue().submit(&recording.finish()?, &[])?.wait()?;
        }
        Ok(())
    }
}

/// The repeated pattern of pseudo-random numbers, as a cache of this format stores it.
fn pattern(format: CacheFormat) -> Vec<u8> {
    let mut state = 1u32;
    let numbers = (0..PATTERN_ELEMENTS).map(|_| {
        // A linear congruential generator modulo 2^32; its upper half is random enough.
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (f32::from((state >> 16) as u16) + 0.5) / 32_768.0 - 1.0
    });
    match format {
        CacheFormat::F32 => numbers.flat_map(f32::to_le_bytes).collect(),
        CacheFormat::F16 => numbers.flat_map(|number| half::f16::from_f32(number).to_le_bytes()).collect(),
    }
}
