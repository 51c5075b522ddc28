//! Steps in which several workgroups share the groups of products by matrix units: the bits are those of a workgroup for each block.

use std::path::Path;
use std::sync::Arc;

use zinc_kernels::ops::{ActFormat, CacheFormat, GROUP_COUNTERS_BYTES};
use zinc_kernels::{Format, Pipelines, Target, Tuning, Units};
use zinc_model::Model;
use zinc_model::config::{ModelConfig, expected_tensors};
use zinc_model::device::DeviceModel;
use zinc_model::gguf::{File, Writer};
use zinc_model::memory::LoadOptions;
use zinc_model::plan::{Array, CacheOptions, RowCounts};
use zinc_sched::adapter::{Score, Sync};
use zinc_vk::{Buffer, Placement, QueueKind, RecordingBuilder};

use crate::gpu::Gpu;
use crate::tiny::drive;

/// What the values of groups are before a step: NaN.
const UNWRITTEN: u32 = 0x7fa5_7fa5;

/// A dense model of one layer, all of whose products have two groups of columns or three. Its matrices are in Q8_0, but those of values in Q4_0, so that
/// these are a launch of their own.
fn model() -> Arc<Model> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/tiny/llama-f16.gguf");
    let small = File::open(path).expect("a tiny model opens");
    let mut writer = Writer::new();
    for (key, value) in small.metadata().iter() {
        writer.set(key, value.clone());
    }
    for (key, number) in [
        ("block_count", 1u32),
        ("embedding_length", 512),
        ("feed_forward_length", 768),
        ("attention.head_count", 8),
        ("attention.head_count_kv", 2),
        ("rope.dimension_count", 64),
    ] {
        writer.set(&format!("llama.{key}"), number);
    }
    let config = ModelConfig::from_metadata(writer.metadata()).expect("the keys of a model");
    for tensor in expected_tensors(&config) {
        let format = match tensor.shape.len() {
            1 => Format::F32,
            _ if tensor.name.contains("attn_v") => Format::Q4_0,
            _ => Format::Q8_0,
        };
        writer.tensor(&tensor.name, &tensor.shape, format);
    }
    let file = tempfile::NamedTempFile::new().expect("a temporary file");
    let mut seed = 1u32;
    let mut byte = || {
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (seed >> 24) as u8
    };
    writer
        .write(file.path(), |tensor, out| {
            // Norms are 1. A block begins with its scale, a half: 2^-10.
            let block: usize = if tensor.name.contains("attn_v") { 18 } else { 34 };
            let bytes: Vec<u8> = match tensor.shape.len() {
                1 => (0..tensor.shape[0]).flat_map(|_| 1.0f32.to_le_bytes()).collect(),
                _ => (0..tensor.bytes as usize)
                    .map(|at| match at % block {
                        0 => 0x00,
                        1 => 0x14,
                        _ => byte(),
                    })
                    .collect(),
            };
            out.write_all(&bytes)
        })
        .expect("the model is written");
    Arc::new(Model::open(file.path()).expect("the model opens"))
}

/// Fills the values of groups before a step, if `fill` says so, and reads the first of each array of them: whether it is what they are filled with.
fn unwritten(model: &DeviceModel, fill: bool) -> Vec<bool> {
    let device = model.device();
    let first = Buffer::new(device, "first values", 12, Placement::Readback).expect("a buffer");
    let mut recording = RecordingBuilder::new(device, QueueKind::Compute, "values").expect("a recording");
    for number in 0..3 {
        let (buffer, offset, bytes) = model.activation(Array::GroupValues(number), 0);
        let (offset, bytes) = (offset + u64::from(GROUP_COUNTERS_BYTES), (bytes - u64::from(GROUP_COUNTERS_BYTES)));
        if fill {
            recording.fill(buffer, offset, bytes, UNWRITTEN);
        } else {
            recording.copy(buffer, offset, &first, u64::from(4 * number), 4);
        }
    }
    let recording = recording.finish().expect("a recording");
    device.compute_queue().submit(&recording, &[]).expect("submitted").wait().expect("done");
    let mut found = [0u32; 3];
    first.read(0, bytemuck::cast_slice_mut(&mut found));
    found.map(|value| value == UNWRITTEN).to_vec()
}

#[test]
fn logits_have_the_bits_of_workgroups_for_each_block() {
    let gpu = Gpu::borrow();
    let model = model();
    let cache = CacheOptions::new(80, CacheFormat::F16, CacheFormat::F16);
    let ids: Vec<u32> = (0..70).map(|i| (i * i + 7 * i) % model.config.n_vocab).collect();
    let logits = |split_workgroups: u32| {
        let target = gpu.pipelines.target();
        let units = Some(target.units.unwrap_or(Units { depth: 32, emulated: true }));
        let tuning =
            Tuning { few_workgroups: u32::MAX, few_workgroups_a_group: u32::MAX, split_workgroups, ..target.tuning };
        let pipelines = Pipelines::new(gpu.pipelines.device().clone());
        let pipelines = Arc::new(pipelines.with_target(Target { units, tuning, ..target }));
        let options = LoadOptions::new(cache).with_counts(RowCounts::new(32, 1));
        let loaded = Arc::new(DeviceModel::load(&pipelines, &model, options, &mut |_| {}).expect("the model loads"));
        unwritten(&loaded, true);
        let mut bits = Vec::new();
        let mut driven = drive(&loaded, ActFormat::Q14, Sync::Timeline, 1);
        let mut keep = |_, logits: &[f32]| bits.extend(logits.iter().map(|logit| logit.to_bits()));
        driven.score(&ids, &mut keep).expect("the model scores");
        (bits, unwritten(&loaded, false))
    };
    let (whole, of_whole) = logits(1);
    let (split, of_split) = logits(512);
    assert!(whole.iter().all(|bits| f32::from_bits(*bits).is_finite()));
    assert_eq!(of_whole, [true; 3], "a workgroup for each block leaves no values");
    // Queries and keys, and values beside them, share no memory.
    assert_eq!(of_split, [false, false, true]);
    assert!(split == whole);
}
