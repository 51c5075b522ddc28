//! The sampler chain's tables on the device: what [`Sampling`] becomes for the kernels.

use std::sync::{Arc, Mutex, PoisonError};

use zinc_kernels::reference::window_counts;
use zinc_kernels::sampler::SamplerParams;
use zinc_model::Result;
use zinc_model::plan::ALIGNMENT;
use zinc_vk::{Access, Buffer, Device, Placement, QueueKind, RecordingBuilder};

use super::super::sampling::sampler_tables;
use crate::sampling::Sampling;

/// Memory for the sampler chain's tables of each lane, which later sequences of the lane use again.
#[derive(Debug)]
pub(super) struct ChainMemory {
    device: Arc<Device>,
    vocabulary: u32,
    context: u32,
    tables: Arc<LaneTables>,
}

/// The tables of each lane. Lanes name them by address alone, so that recordings keep all of them.
pub(super) type LaneTables = Mutex<Vec<Option<Tables>>>;

/// The tables of a lane.
#[derive(Debug)]
pub(super) struct Tables {
    device: Arc<Buffer>,
    /// What is copied to `device`.
    image: Arc<Buffer>,
}

impl ChainMemory {
    pub(super) fn new(device: &Arc<Device>, vocabulary: u32, context: u32, lanes: u32) -> Self {
        let tables = Arc::new(Mutex::new((0..lanes).map(|_| None).collect()));
        Self { device: device.clone(), vocabulary, context, tables }
    }

    /// What recordings have to keep.
    pub(super) fn tables(&self) -> &Arc<LaneTables> {
        &self.tables
    }

    /// Gives the tables of a lane other memory to be copied from, because the device has yet to copy what the host wrote last.
    pub(super) fn replace_image(&self, lane: u32) -> Result<()> {
        let mut lanes = self.tables.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(Tables { device, image }) = &mut lanes[lane as usize] {
            *image = Buffer::new(&self.device, "sampler tables image", device.size(), Placement::Upload)?;
        }
        Ok(())
    }

    /// Writes the tables of a lane for a sequence that begins with `prompt`, and returns their address. No step of the lane may be in flight. What is
    /// submitted later finds them.
    pub(super) fn write(&self, lane: u32, sampling: &Sampling, prompt: &[u32]) -> Result<u64> {
        let tables = sampler_tables(sampling, self.vocabulary, self.context);
        let counts = window_counts(prompt, tables.params.penalty_window, self.vocabulary);
        let parts: [&[u8]; 5] = [
            bytemuck::cast_slice(&tables.biases),
            bytemuck::cast_slice(&tables.dry_penalties),
            &tables.breakers,
            bytemuck::cast_slice(&tables.tails),
            bytemuck::cast_slice(&counts),
        ];
        let mut offsets = [0; 5];
        let mut total = (size_of::<SamplerParams>() as u64).next_multiple_of(ALIGNMENT);
        for (offset, part) in offsets.iter_mut().zip(parts) {
            *offset = total;
            total += (part.len() as u64).next_multiple_of(ALIGNMENT);
        }
        let mut lanes = self.tables.lock().unwrap_or_else(PoisonError::into_inner);
        let own = &mut lanes[lane as usize];
        if own.as_ref().is_none_or(|own| own.device.size() < total) {
            *own = Some(Tables {
                device: Buffer::new(&self.device, "sampler tables", total, Placement::Device)?,
                image: Buffer::new(&self.device, "sampler tables image", total, Placement::Upload)?,
            });
        }
        let Tables { device, image } = own.as_ref().expect("made above");
        let [biases, dry_penalties, breakers, tails, counts] = offsets.map(|offset| device.address() + offset);
        let params = SamplerParams { biases, dry_penalties, breakers, tails, counts, ..tables.params };
        image.write(0, bytemuck::bytes_of(&params));
        for (offset, part) in offsets.iter().zip(parts) {
            image.write(*offset, part);
        }
        let mut recording = RecordingBuilder::new(&self.device, QueueKind::Compute, "sampler tables")?;
        recording.barrier(Access::SHADER_READ | Access::SHADER_WRITE, Access::TRANSFER_WRITE);
        recording.copy(image, 0, device, 0, total);
        recording.barrier(Access::TRANSFER_WRITE, Access::SHADER_READ | Access::SHADER_WRITE);
        self.device.compute_queue().submit(&recording.finish()?, &[])?;
        Ok(device.address())
    }
}
