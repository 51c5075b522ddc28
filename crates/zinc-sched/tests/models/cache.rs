//! Reads and overwrites the keys and values of a model on a device.

use zinc_kernels::step::PAGE_POSITIONS;
use zinc_model::device::DeviceModel;
use zinc_vk::{Buffer, Placement, QueueKind, RecordingBuilder};

use crate::gpu::Gpu;

/// What keys and values are overwritten with before a test.
pub(crate) const POISON: u8 = 0xff;

/// Overwrites all keys and values.
pub(crate) fn poison_cache(gpu: &Gpu, model: &DeviceModel) {
    run(gpu, |recording| {
        for cache in model.caches() {
            recording.fill(cache, 0, cache.size(), u32::from_ne_bytes([POISON; 4]));
        }
    });
}

/// The rings of a layer with a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rings {
    pub(crate) window: u32,
    /// Positions of a lane's ring.
    pub(crate) positions: u32,
}

impl Rings {
    /// The rings, or none, of each of [`DeviceModel::caches`].
    pub(crate) fn of(model: &DeviceModel) -> Vec<Option<Self>> {
        let config = &model.model().config;
        let of_layer = |layer: u32| {
            let window = config.attention(layer)?.window;
            let rings = window
                .map(|window| Self { window, positions: model.cache().ring_pages(Some(window)) * PAGE_POSITIONS });
            Some(rings.filter(|rings| rings.positions > 0))
        };
        (0..config.n_block()).filter_map(of_layer).flat_map(|rings| [rings; 2]).collect()
    }

    /// Compares what a ring holds with a layer that has all positions of a sequence, one behind the other: where it differs at the last positions, which a window at the
    /// sequence's end reaches into.
    ///
    /// # Panics
    /// If one of them has a part of a position.
    pub(crate) fn difference(self, ring: &[u8], all: &[u8]) -> Option<usize> {
        let row = ring.len() / self.positions as usize;
        assert!(
            ring.len().is_multiple_of(self.positions as usize) && all.len().is_multiple_of(row),
            "rows of {row} bytes"
        );
        let positions = all.len() / row;
        let kept = positions.saturating_sub(self.window as usize)..positions;
        kept.into_iter().find(|position| {
            let place = position % self.positions as usize;
            ring[place * row..][..row] != all[position * row..][..row]
        })
    }
}

/// Keys and values of each layer, in turn, of the first `positions` positions of the cache.
pub(crate) fn read_cache(gpu: &Gpu, model: &DeviceModel, positions: u32) -> Vec<Vec<u8>> {
    let all = model.cache().positions();
    let read = model.caches().iter().enumerate().map(|(index, cache)| {
        let bytes = cache.size() / all * u64::from(positions);
        read(gpu, model, index, bytes)
    });
    read.collect()
}

/// The first bytes of one of [`DeviceModel::caches`].
pub(crate) fn read(gpu: &Gpu, model: &DeviceModel, index: usize, bytes: u64) -> Vec<u8> {
    let readback = Buffer::new(gpu.pipelines.device(), "keys or values", bytes, Placement::Readback);
    let readback = readback.expect("a buffer");
    run(gpu, |recording| {
        recording.copy(&model.caches()[index], 0, &readback, 0, bytes);
    });
    let mut found = vec![0; bytes as usize];
    readback.read(0, &mut found);
    found
}

fn run(gpu: &Gpu, record: impl FnOnce(&mut RecordingBuilder)) {
    let device = gpu.pipelines.device();
    let mut recording = RecordingBuilder::new(device, QueueKind::Compute, "cache").expect("a recording");
    record(&mut recording);
    let recording = recording.finish().expect("a recording");
    device.compute_queue().submit(&recording, &[]).expect("submitted").wait().expect("done");
}
