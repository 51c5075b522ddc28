//! What lies on the device after loading: every tensor, whole, in the form that the shaders read.

use std::sync::Arc;

use zinc_kernels::formats::repack_rows;
use zinc_kernels::ops::CacheFormat;
use zinc_model::Model;
use zinc_model::device::DeviceModel;
use zinc_model::memory::{LoadOptions, MemoryPlan};
use zinc_model::plan::CacheOptions;
use zinc_model::weights::TensorId;
use zinc_vk::{Buffer, Device, Placement, QueueKind, RecordingBuilder};

use crate::gpu::{Gpu, with_own_device};
use crate::tiny::models;

/// Bytes of all buffers of the device.
fn allocated(device: &Device) -> u64 {
    device.memory_report().heaps.iter().map(|heap| heap.ours).sum()
}

#[test]
fn a_loaded_model_holds_what_was_planned_and_a_dropped_one_nothing() {
    with_own_device(|pipelines| {
        let device = pipelines.device();
        let cache = CacheOptions::new(512, CacheFormat::F16, CacheFormat::F16);
        for (path, batch) in models().into_iter().zip([1, 8].into_iter().cycle()) {
            let model = Arc::new(Model::open(&path).expect("a tiny model opens"));
            let options = LoadOptions::new(cache, batch);
            let planned = MemoryPlan::new(&model.config, &model.weights, options).total();
            let loaded = DeviceModel::load(pipelines, &model, options, &mut |_| {}).expect("a tiny model loads");
            let held = allocated(device);
            // Buffers are rounded up to what the device allocates; the staging ring alone would be several times a tiny model.
            assert!(held as f64 <= 1.05 * planned as f64, "{}: {held} bytes, {planned} planned", path.display());
            assert!(held >= model.weights.bytes(), "{}: {held} bytes", path.display());
            drop(loaded);
            assert_eq!(allocated(device), 0, "{}: bytes after dropping the model", path.display());
        }
    });
}

#[test]
fn every_tensor_arrives_in_the_form_of_the_device() {
    let gpu = Gpu::shared();
    let device = gpu.pipelines.device();
    let cache = CacheOptions::new(16, CacheFormat::F16, CacheFormat::F16);
    for path in models() {
        let model = Arc::new(Model::open(&path).expect("a tiny model opens"));
        let mut progress = Vec::new();
        let loaded =
            DeviceModel::load(&gpu.pipelines, &model, cache, &mut |done| progress.push(done)).expect("a model loads");
        assert!(progress.is_sorted(), "{}: {progress:?}", path.display());
        assert_eq!(progress.last(), Some(&model.weights.bytes()), "{}", path.display());
        for (index, tensor) in (0..).zip(&model.weights.tensors) {
            let bytes = tensor.device_bytes();
            let (buffer, offset) = loaded.tensor(TensorId::new(index));
            let readback = Buffer::new(device, "tensor", bytes, Placement::Readback).expect("a buffer");
            let mut recording = RecordingBuilder::new(device, QueueKind::Compute, "read").expect("a recording");
            recording.copy(buffer, offset, &readback, 0, bytes);
            let recording = recording.finish().expect("a recording");
            device.compute_queue().submit(&recording, &[]).expect("submitted").wait().expect("done");
            let mut found = vec![0; bytes as usize];
            readback.read(0, &mut found);
            let mut expected = vec![0; bytes as usize];
            repack_rows(tensor.format, tensor.columns as usize, model.data(tensor), &mut expected);
            let name = &model.file.tensors()[tensor.file_index].name;
            assert!(found == expected, "{}: {name} ({})", path.display(), tensor.format);
        }
    }
}
