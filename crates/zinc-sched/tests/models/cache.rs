//! Reads and overwrites the keys and values of a model on a device.

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

/// Keys and values of each layer, in turn, of the first `positions` positions of the cache.
pub(crate) fn read_cache(gpu: &Gpu, model: &DeviceModel, positions: u32) -> Vec<Vec<u8>> {
    let all = model.cache().positions();
    let read = model.caches().iter().map(|cache| {
        let bytes = cache.size() / all * u64::from(positions);
        let readback = Buffer::new(gpu.pipelines.device(), "keys or values", bytes, Placement::Readback);
        let readback = readback.expect("a buffer");
        run(gpu, |recording| {
            recording.copy(cache, 0, &readback, 0, bytes);
        });
        let mut found = vec![0; bytes as usize];
        readback.read(0, &mut found);
        found
    });
    read.collect()
}

fn run(gpu: &Gpu, record: impl FnOnce(&mut RecordingBuilder)) {
    let device = gpu.pipelines.device();
    let mut recording = RecordingBuilder::new(device, QueueKind::Compute, "cache").expect("a recording");
    record(&mut recording);
    let recording = recording.finish().expect("a recording");
    device.compute_queue().submit(&recording, &[]).expect("submitted").wait().expect("done");
}
