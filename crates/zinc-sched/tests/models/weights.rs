//! What lies on the device after loading: every tensor, whole, in the form that the shaders read.

use std::sync::Arc;

use zinc_kernels::formats::repack_rows;
use zinc_kernels::ops::CacheFormat;
use zinc_kernels::step::MOST_RUN;
use zinc_model::Model;
use zinc_model::device::DeviceModel;
use zinc_model::memory::{LoadOptions, MemoryPlan};
use zinc_model::plan::{Array, CacheOptions, RowCounts};
use zinc_model::weights::TensorId;
use zinc_vk::{Buffer, Device, Placement, QueueKind, RecordingBuilder};

use crate::gpu::{Gpu, with_own_device};
use crate::qwen35::{QWEN35, QWEN35_MOE, path};
use crate::tiny::models;

/// Bytes of all buffers of the device.
fn allocated(device: &Device) -> u64 {
    device.memory_report().heaps.iter().map(|heap| heap.ours).sum()
}

/// Copies `bytes` bytes on the device and waits for them.
fn copy(device: &Arc<Device>, from: &Arc<Buffer>, from_offset: u64, to: &Arc<Buffer>, to_offset: u64, bytes: u64) {
    let mut recording = RecordingBuilder::new(device, QueueKind::Compute, "copy").expect("a recording");
    recording.copy(from, from_offset, to, to_offset, bytes);
    let recording = recording.finish().expect("a recording");
    device.compute_queue().submit(&recording, &[]).expect("submitted").wait().expect("done");
}

/// The `bytes` bytes of `buffer` from `offset` on.
fn read_back(device: &Arc<Device>, buffer: &Arc<Buffer>, offset: u64, bytes: u64) -> Vec<u8> {
    let readback = Buffer::new(device, "read back", bytes, Placement::Readback).expect("a buffer");
    copy(device, buffer, offset, &readback, 0, bytes);
    let mut found = vec![0; bytes as usize];
    readback.read(0, &mut found);
    found
}

#[test]
fn a_loaded_model_holds_what_was_planned_and_a_dropped_one_nothing() {
    with_own_device(|pipelines| {
        let device = pipelines.device();
        let cache = CacheOptions::new(512, CacheFormat::F16, CacheFormat::F16);
        for (path, counts) in models().into_iter().zip([RowCounts::ONE, RowCounts::new(16, 4)].into_iter().cycle()) {
            let model = Arc::new(Model::open(&path).expect("a tiny model opens"));
            let options = LoadOptions::new(cache).with_counts(counts);
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

/// Memory that a driver hands out again may hold anything. A step of fewer rows than it has room for reads ids of experts that no step has
/// written, and would load weights from wherever they point.
#[test]
fn what_kernels_read_before_a_step_writes_it_is_zero_in_used_memory() {
    let gpu = Gpu::borrow();
    let device = gpu.pipelines.device();
    let cache = CacheOptions::new(16, CacheFormat::F16, CacheFormat::F16);
    for path in models() {
        let model = Arc::new(Model::open(&path).expect("a tiny model opens"));
        let load = || {
            let options = LoadOptions::new(cache).with_counts(RowCounts::new(MOST_RUN, MOST_RUN));
            DeviceModel::load(&gpu.pipelines, &model, options, &mut |_| {}).expect("a tiny model loads")
        };
        // Fills the memory that the next load is likely to get.
        let loaded = load();
        let activations = loaded.activation(Array::Residual, 0).0;
        let garbage = Buffer::new(device, "garbage", activations.size(), Placement::Upload).expect("a buffer");
        garbage.write(0, &vec![0xff; activations.size() as usize]);
        copy(device, &garbage, 0, activations, 0, activations.size());
        drop((garbage, loaded));

        let loaded = load();
        for array in [Array::ExpertIds, Array::DryLengths, Array::Counters] {
            for row in 0..MOST_RUN {
                let (buffer, offset, bytes) = loaded.activation(array, row);
                // A dense model has no experts.
                let found = if bytes == 0 { Vec::new() } else { read_back(device, buffer, offset, bytes) };
                assert!(found.iter().all(|&byte| byte == 0), "{}: {array:?} of row {row}", path.display());
            }
        }
    }
}

#[test]
fn every_tensor_arrives_in_the_form_of_the_device() {
    let gpu = Gpu::borrow();
    let device = gpu.pipelines.device();
    let cache = CacheOptions::new(16, CacheFormat::F16, CacheFormat::F16);
    for path in models().into_iter().chain([QWEN35, QWEN35_MOE].map(path)) {
        let model = Arc::new(Model::open(&path).expect("a tiny model opens"));
        let mut progress = Vec::new();
        let loaded =
            DeviceModel::load(&gpu.pipelines, &model, cache, &mut |done| progress.push(done)).expect("a model loads");
        assert!(progress.is_sorted(), "{}: {progress:?}", path.display());
        assert_eq!(progress.last(), Some(&model.weights.bytes()), "{}", path.display());
        for (index, tensor) in (0..).zip(&model.weights.tensors) {
            let bytes = tensor.device_bytes();
            let (buffer, offset) = loaded.tensor(TensorId::new(index));
            let found = read_back(device, buffer, offset, bytes);
            let mut expected = vec![0; bytes as usize];
            repack_rows(tensor.format, tensor.columns as usize, &model.data(tensor), &mut expected);
            let name = model.name(tensor);
            assert!(found == expected, "{}: {name} ({})", path.display(), tensor.format);
        }
    }
}
