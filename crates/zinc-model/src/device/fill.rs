//! Fills a cache with made-up keys and values, and recurrent states with made-up memories, to measure with a long context without computing it.

use std::sync::Arc;

use zinc_kernels::ops::CacheFormat;
use zinc_vk::{Buffer, Placement, QueueKind, RecordingBuilder};

use super::DeviceModel;
use crate::error::Result;

/// Elements of the pattern, which is repeated: a prime, so that it lies differently in every row.
const PATTERN_ELEMENTS: usize = 262_147;

impl DeviceModel {
    /// Overwrites every key and value of the cache, and the recurrent states of all lanes, with pseudo-random numbers between -1 and 1. Sequences can then go on at
    /// `position`. What the model computes from the numbers means nothing, and is the same each time.
    ///
    /// # Errors
    /// Whatever error the device reports.
    pub fn fill_cache(&self, position: u32) -> Result<()> {
        // In the list of caches, keys and values alternate.
        for (first, format) in [(0, self.cache.key_format), (1, self.cache.value_format)] {
            self.fill_buffers(format, self.arrays.caches.iter().skip(first).step_by(2))?;
        }
        self.fill_recurrent(position)
    }

    /// Overwrites the recurrent states of all lanes with pseudo-random numbers between -1 and 1, so that sequences can go on at `position`. Does nothing for a model
    /// without.
    ///
    /// # Errors
    /// Whatever error the device reports.
    fn fill_recurrent(&self, position: u32) -> Result<()> {
        if self.arrays.recurrent.is_empty() {
            return Ok(());
        }
        let device = self.device();
        self.fill_buffers(CacheFormat::F32, self.arrays.recurrent.iter().map(|of| &of.buffer))?;
        let mut recording = RecordingBuilder::new(device, QueueKind::Compute, "positions of states")?;
        let config = &self.model.config;
        let delta_nets = (0..config.n_layer()).filter_map(|layer| config.delta_net(layer));
        for (of, delta_net) in self.arrays.recurrent.iter().zip(delta_nets) {
            let committed = delta_net.heads().committed_range();
            for lane in 0..u64::from(self.cache.lanes) {
                let offset = lane * of.lane_bytes + committed.start;
                recording.fill(&of.buffer, offset, committed.end - committed.start, position);
            }
        }
        device.compute_queue().submit(&recording.finish()?, &[])?.wait()?;
        Ok(())
    }

    /// Overwrites buffers with the pattern of a format.
    fn fill_buffers<'a>(&self, format: CacheFormat, buffers: impl Iterator<Item = &'a Arc<Buffer>>) -> Result<()> {
        let device = self.device();
        let bytes = pattern(format);
        let pattern = Buffer::new(device, "cache pattern", bytes.len() as u64, Placement::Upload)?;
        pattern.write(0, &bytes);
        let mut recording = RecordingBuilder::new(device, QueueKind::Compute, "fill cache")?;
        for buffer in buffers {
            let mut offset = 0;
            while offset < buffer.size() {
                let part = pattern.size().min(buffer.size() - offset);
                recording.copy(&pattern, 0, buffer, offset, part);
                offset += part;
            }
        }
        device.compute_queue().submit(&recording.finish()?, &[])?.wait()?;
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
