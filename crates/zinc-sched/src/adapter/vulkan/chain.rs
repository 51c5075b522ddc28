//! The sampler chain's tables on the device: what [`Sampling`] becomes for the kernels.

use std::sync::Arc;

use zinc_kernels::reference::window_counts;
use zinc_kernels::sampler::SamplerParams;
use zinc_model::Result;
use zinc_model::device::ChainIo;
use zinc_model::plan::ALIGNMENT;
use zinc_vk::{Access, Buffer, Device, Placement, QueueKind, RecordingBuilder};

use super::super::sampling::sampler_tables;
use crate::sampling::Sampling;

/// Memory for the sampler chain's tables of the running sequence, which later sequences use again.
#[derive(Debug)]
pub(super) struct ChainMemory {
    device: Arc<Device>,
    vocabulary: u32,
    context: u32,
    memory: Option<(Arc<Buffer>, Arc<Buffer>)>,
    io: ChainIo,
}

/// Whether the tables lie where they did, so that earlier recordings still have the right addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tables {
    Kept,
    Moved,
}

impl ChainMemory {
    pub(super) fn new(device: &Arc<Device>, vocabulary: u32, context: u32) -> Self {
        Self { device: device.clone(), vocabulary, context, memory: None, io: ChainIo::default() }
    }

    /// Where the tables lie.
    pub(super) fn io(&self) -> ChainIo {
        self.io
    }

    /// The buffer that recordings have to keep.
    pub(super) fn buffer(&self) -> Option<&Arc<Buffer>> {
        self.memory.as_ref().map(|(device, _)| device)
    }

    /// Writes the tables for a sequence that begins with `prompt`. Nothing may be in flight.
    pub(super) fn write(&mut self, sampling: &Sampling, prompt: &[u32]) -> Result<Tables> {
        let tables = sampler_tables(sampling, self.vocabulary, self.context);
        let counts = window_counts(prompt, tables.params.penalty_window, self.vocabulary);
        let list_bytes = |bytes: usize| bytes.next_power_of_two() as u64;
        // What has the same size for every sequence comes first, so that little moves.
        let parts: [(&[u8], u64); 6] = [
            (bytemuck::bytes_of(&tables.params), size_of::<SamplerParams>() as u64),
            (bytemuck::cast_slice(&counts), 4 * u64::from(self.vocabulary)),
            (&tables.breakers, u64::from(self.vocabulary.next_multiple_of(4))),
            (bytemuck::cast_slice(&tables.dry_penalties), 4 * (u64::from(self.context) + 1)),
            (bytemuck::cast_slice(&tables.biases), list_bytes(size_of_val(&tables.biases[..]))),
            (bytemuck::cast_slice(&tables.tails), list_bytes(size_of_val(&tables.tails[..]))),
        ];
        let mut offsets = [0; 6];
        let mut total = 0;
        for (offset, (_, bytes)) in offsets.iter_mut().zip(parts) {
            *offset = total;
            total += bytes.next_multiple_of(ALIGNMENT);
        }
        let room = self.memory.as_ref().map_or(0, |(device, _)| device.size());
        if room < total {
            self.memory = Some((
                Buffer::new(&self.device, "sampler tables", total, Placement::Device)?,
                Buffer::new(&self.device, "sampler tables image", total, Placement::Upload)?,
            ));
        }
        let (memory, image) = self.memory.as_ref().expect("made above");
        for (offset, (part, _)) in offsets.iter().zip(parts) {
            image.write(*offset, part);
        }
        let mut recording = RecordingBuilder::new(&self.device, QueueKind::Compute, "sampler tables")?;
        recording.barrier(Access::SHADER_READ | Access::SHADER_WRITE, Access::TRANSFER_WRITE);
        recording.copy(image, 0, memory, 0, total);
        self.device.compute_queue().submit(&recording.finish()?, &[])?.wait()?;

        let [params, counts, breakers, dry_penalties, biases, tails] = offsets.map(|offset| memory.address() + offset);
        let io = ChainIo { params, biases, dry_penalties, breakers, tails, counts };
        let tables = if io == self.io { Tables::Kept } else { Tables::Moved };
        self.io = io;
        Ok(tables)
    }
}
