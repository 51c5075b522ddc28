//! A model on the device that shows what sequences read and write: pages are poisoned before a sequence gets them, and what lies in them when it is closed is kept.

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use zinc_kernels::step::PAGE_POSITIONS;
use zinc_model::Error;
use zinc_model::device::DeviceModel;
use zinc_sched::adapter::VulkanModel;
use zinc_sched::{
    Guide, HostChoice, Kept, ModelCounters, ModelLimits, SequenceId, SequenceStart, Step, StepModel, StepOutput, Ticket,
};
use zinc_vk::{Access, Buffer, Placement, QueueKind, RecordingBuilder, TimelinePoint};

use crate::cache::{POISON, Rings, poison_cache};
use crate::gpu::Gpu;

/// What a sequence had in the cache when it was closed: keys and values at its positions.
pub(crate) struct Closed {
    /// Its tokens when it was opened.
    pub(crate) tokens: Vec<u32>,
    /// Its pages of each layer's keys or values, in turn, or the ring of its lane.
    left: Arc<Buffer>,
    layer_bytes: Vec<u64>,
    rings: Vec<Option<Rings>>,
    /// They are there once the point is reached. Nobody waits before all is answered: steps of others may wait for their gates meanwhile.
    copied: TimelinePoint,
}

impl Closed {
    /// Whether each layer begins with these keys or values, in turn, or a ring has the last of them; the first layer that does not is the error.
    ///
    /// # Panics
    /// If the device is lost, or the sequence had fewer pages than are expected.
    pub(crate) fn compare(&self, layers: &[Vec<u8>]) -> Result<(), usize> {
        self.copied.wait().expect("the device goes on");
        assert_eq!(layers.len(), self.layer_bytes.len(), "layers");
        let mut offset = 0;
        for (layer, (expected, bytes)) in layers.iter().zip(&self.layer_bytes).enumerate() {
            if let Some(rings) = self.rings[layer] {
                let mut ring = vec![0; *bytes as usize];
                self.left.read(offset, &mut ring);
                if rings.difference(&ring, expected).is_some() {
                    return Err(layer);
                }
                offset += bytes;
                continue;
            }
            assert!(expected.len() as u64 <= *bytes, "{} bytes in pages of {bytes}", expected.len());
            let mut found = vec![0; expected.len()];
            self.left.read(offset, &mut found);
            if found != *expected {
                return Err(layer);
            }
            offset += bytes;
        }
        Ok(())
    }
}

/// A model on the device that poisons pages before a sequence gets them, and the rings of its lane, and keeps what lies in them when it is closed.
pub(crate) struct Poisoned<'a> {
    gpu: &'a Gpu,
    driven: VulkanModel,
    loaded: Arc<DeviceModel>,
    rings: Vec<Option<Rings>>,
    /// The tokens, the pages and the lane of each sequence that is open.
    open: HashMap<SequenceId, (Vec<u32>, Vec<u32>, u32)>,
    /// The sequences that were closed, in order. Whoever looks at them may take them.
    pub(crate) closed: RefCell<Vec<Closed>>,
    /// How many sequences the steps had that sampled.
    pub(crate) sampled: BTreeSet<u32>,
    /// How often a page was poisoned for a sequence.
    pub(crate) given_pages: u64,
}

impl<'a> Poisoned<'a> {
    /// A model all of whose cache is poisoned.
    pub(crate) fn new(gpu: &'a Gpu, driven: VulkanModel, loaded: Arc<DeviceModel>) -> Self {
        poison_cache(gpu, &loaded);
        let (closed, sampled) = (RefCell::default(), BTreeSet::new());
        let rings = Rings::of(&loaded);
        Self { gpu, driven, loaded, rings, open: HashMap::new(), closed, sampled, given_pages: 0 }
    }

    /// Poisons pages behind all that was submitted so far.
    fn poison(&mut self, pages: &[u32]) -> Result<(), Error> {
        self.given_pages += pages.len() as u64;
        let device = self.gpu.pipelines.device();
        let mut recording = RecordingBuilder::new(device, QueueKind::Compute, "poison")?;
        recording.barrier(Access::SHADER_READ | Access::SHADER_WRITE, Access::TRANSFER_WRITE);
        for (cache, _) in self.loaded.caches().iter().zip(&self.rings).filter(|(_, rings)| rings.is_none()) {
            let bytes = cache.size() / u64::from(self.loaded.cache().pages());
            for page in pages {
                recording.fill(cache, u64::from(*page) * bytes, bytes, u32::from_ne_bytes([POISON; 4]));
            }
        }
        recording.barrier(Access::TRANSFER_WRITE, Access::SHADER_READ | Access::SHADER_WRITE);
        device.compute_queue().submit(&recording.finish()?, &[])?;
        Ok(())
    }

    /// Poisons the rings of a lane behind all that was submitted so far.
    fn poison_rings(&self, lane: u32) -> Result<(), Error> {
        let device = self.gpu.pipelines.device();
        let mut recording = RecordingBuilder::new(device, QueueKind::Compute, "poison")?;
        recording.barrier(Access::SHADER_READ | Access::SHADER_WRITE, Access::TRANSFER_WRITE);
        for (cache, _) in self.loaded.caches().iter().zip(&self.rings).filter(|(_, rings)| rings.is_some()) {
            let bytes = cache.size() / u64::from(self.loaded.cache().lanes);
            recording.fill(cache, u64::from(lane) * bytes, bytes, u32::from_ne_bytes([POISON; 4]));
        }
        recording.barrier(Access::TRANSFER_WRITE, Access::SHADER_READ | Access::SHADER_WRITE | Access::TRANSFER_WRITE);
        device.compute_queue().submit(&recording.finish()?, &[])?;
        Ok(())
    }
}

impl StepModel for Poisoned<'_> {
    type Error = Error;

    fn limits(&self) -> ModelLimits {
        self.driven.limits()
    }

    fn feed_rows(&self, fed: u32) -> u32 {
        self.driven.feed_rows(fed)
    }

    fn open(&mut self, start: &SequenceStart<'_>) -> Result<SequenceId, Error> {
        self.poison(&start.pages[(start.cached / PAGE_POSITIONS) as usize..])?;
        // What a window needs of the tokens that are cached comes from a checkpoint.
        self.poison_rings(start.lane)?;
        let sequence = self.driven.open(start)?;
        self.open.insert(sequence, (start.tokens.to_vec(), start.pages.to_vec(), start.lane));
        Ok(sequence)
    }

    fn close(&mut self, sequence: SequenceId) {
        let (tokens, pages, lane) = self.open.remove(&sequence).expect("it is open");
        let device = self.gpu.pipelines.device();
        let mut recording = RecordingBuilder::new(device, QueueKind::Compute, "closed").expect("a recording");
        recording.barrier(Access::SHADER_WRITE, Access::TRANSFER_READ);
        let of_page = |cache: &Arc<Buffer>| cache.size() / u64::from(self.loaded.cache().pages());
        let lanes = u64::from(self.loaded.cache().lanes);
        let layers = || self.loaded.caches().iter().zip(&self.rings);
        let layer_bytes: Vec<u64> = layers()
            .map(|(cache, rings)| rings.map_or(pages.len() as u64 * of_page(cache), |_| cache.size() / lanes))
            .collect();
        let left = Buffer::new(device, "closed", layer_bytes.iter().sum(), Placement::Readback).expect("a buffer");
        let mut offset = 0;
        for (cache, rings) in layers() {
            if rings.is_some() {
                let bytes = cache.size() / lanes;
                recording.copy(cache, u64::from(lane) * bytes, &left, offset, bytes);
                offset += bytes;
                continue;
            }
            let bytes = of_page(cache);
            for page in &pages {
                recording.copy(cache, u64::from(*page) * bytes, &left, offset, bytes);
                offset += bytes;
            }
        }
        let recording = recording.finish().expect("a recording");
        let copied = device.compute_queue().submit(&recording, &[]).expect("submitted");
        self.closed.get_mut().push(Closed { tokens, left, layer_bytes, rings: self.rings.clone(), copied });
        self.driven.close(sequence);
    }

    fn submit(&mut self, step: &Step<'_>) -> Result<Ticket, Error> {
        if !step.grown.is_empty() {
            self.poison(&step.grown.iter().map(|grown| grown.page).collect::<Vec<_>>())?;
        }
        for grown in step.grown {
            self.open.get_mut(&grown.sequence).expect("it is open").1.push(grown.page);
        }
        if !step.kind().feeds() {
            self.sampled.insert(step.lanes.len() as u32);
        }
        self.driven.submit(step)
    }

    fn ranges(&mut self, rows: u32, position: u32) -> Vec<Duration> {
        self.driven.ranges(rows, position)
    }

    fn submit_range(&mut self, step: &Step<'_>, range: u32) -> Result<Option<Ticket>, Error> {
        self.driven.submit_range(step, range)
    }

    fn keep(&mut self, sequence: SequenceId, slot: u32, position: u32) -> Result<Kept<Error>, Error> {
        self.driven.keep(sequence, slot, position)
    }

    fn guide(&mut self, ticket: Ticket, sequence: SequenceId, guide: &Guide) -> Result<(), Error> {
        self.driven.guide(ticket, sequence, guide)
    }

    fn logits(&mut self, ticket: Ticket, sequence: SequenceId) -> Result<&[f32], Error> {
        self.driven.logits(ticket, sequence)
    }

    fn choose(&mut self, ticket: Ticket, sequence: SequenceId, choice: HostChoice) -> Result<(), Error> {
        self.driven.choose(ticket, sequence, choice)
    }

    fn wait(&mut self, ticket: Ticket) -> Result<StepOutput, Error> {
        self.driven.wait(ticket)
    }

    fn wait_or_stop(&mut self, ticket: Ticket, stop: &dyn Fn(SequenceId) -> bool) -> Result<StepOutput, Error> {
        self.driven.wait_or_stop(ticket, stop)
    }

    fn cancel(&mut self, sequence: SequenceId) {
        self.driven.cancel(sequence);
    }

    fn counters(&self) -> ModelCounters {
        self.driven.counters()
    }
}
