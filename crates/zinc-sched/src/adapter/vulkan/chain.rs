//! The sampler chain's tables on the device: what [`Sampling`] becomes for the kernels.

use std::sync::Arc;

use zinc_kernels::sampler::{Breakers, SamplerParams, SamplerSettings, SamplerTables};
use zinc_model::Result;
use zinc_model::device::ChainIo;
use zinc_vk::{Access, Buffer, Device, Placement, QueueKind, RecordingBuilder};

use crate::sampling::{LastTokens, Sampling};

/// Alignment of the tables, in bytes.
const ALIGNMENT: u64 = 256;

/// Room for the tables of one sequence after the other.
#[derive(Debug)]
pub(super) struct ChainMemory {
    device: Arc<Device>,
    vocabulary: u32,
    context: u32,
    memory: Option<(Arc<Buffer>, Arc<Buffer>)>,
    io: ChainIo,
}

/// Whether what was recorded before still names the right addresses.
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
        let tables = tables(sampling, self.vocabulary, self.context);
        let counts = counts(prompt, tables.params.penalty_window, self.vocabulary);
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

/// The tables of the kernels.
pub(super) fn tables(sampling: &Sampling, vocabulary: u32, context: u32) -> SamplerTables {
    let dry = sampling.dry.as_ref();
    let breakers = dry.and_then(|dry| dry.breakers.as_deref()).map_or_else(Breakers::default, |given| {
        let mut alone = vec![false; vocabulary as usize];
        for &token in &given.tokens {
            alone[token as usize] = true;
        }
        Breakers { alone, sequences: given.sequences.clone() }
    });
    settings(sampling)
        .tables(vocabulary, context, &breakers)
        .unwrap_or_else(|error| panic!("sampling parameters that were checked with the request: {error}"))
}

/// The same parameters as the kernels name them.
fn settings(sampling: &Sampling) -> SamplerSettings {
    let last = |tokens: LastTokens| match tokens {
        LastTokens::Count(count) => i32::try_from(count).unwrap_or(i32::MAX),
        LastTokens::All => -1,
    };
    let mut settings = SamplerSettings {
        logit_bias: sampling.logit_bias.clone(),
        penalty_last_n: last(sampling.penalties.last_n),
        penalty_repeat: sampling.penalties.repeat,
        penalty_freq: sampling.penalties.frequency,
        penalty_present: sampling.penalties.presence,
        top_n_sigma: sampling.top_n_sigma,
        top_k: i32::try_from(sampling.top_k).unwrap_or(i32::MAX),
        typical_p: sampling.typical_p,
        top_p: sampling.top_p,
        min_p: sampling.min_p,
        xtc_probability: sampling.xtc.probability,
        xtc_threshold: sampling.xtc.threshold,
        ..SamplerSettings::OFF
    };
    if let Some(dry) = &sampling.dry {
        settings.dry_multiplier = dry.multiplier;
        settings.dry_base = dry.base;
        settings.dry_allowed_length = i32::try_from(dry.allowed_length).unwrap_or(i32::MAX);
        settings.dry_penalty_last_n = last(dry.last_n);
    }
    settings
}

/// Occurrences of each token among the last `window` tokens of a prompt.
pub(super) fn counts(prompt: &[u32], window: u32, vocabulary: u32) -> Vec<u32> {
    let mut counts = vec![0; vocabulary as usize];
    for &token in prompt.iter().rev().take(window as usize) {
        counts[token as usize] += 1;
    }
    counts
}

/// Whether DRY takes part.
pub(super) fn has_dry(params: &SamplerParams) -> bool {
    params.dry_window > 0
}
