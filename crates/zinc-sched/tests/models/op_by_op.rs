//! Every op of a step on the device against the interpreter: where the two part, the first op that differs is named.

use std::path::Path;
use std::sync::Arc;

use zinc_kernels::generated::state::StepState;
use zinc_kernels::ops::{ActFormat, CacheFormat};
use zinc_model::Model;
use zinc_model::device::{DeviceModel, StepIo};
use zinc_model::interpret::Interpreter;
use zinc_model::plan::{Array, CacheOptions, Op, PlanKind, StepPlan};
use zinc_vk::{Access, Buffer, Placement, QueueKind, RecordingBuilder};

use crate::gpu::Gpu;

/// Of the largest value of an array: f32 sums of a few hundred terms in another order, through two layers.
const RELATIVE_ERROR: f32 = 2e-5;

const TOKENS: [u32; 4] = [336, 250, 473, 62];
const CACHE: CacheOptions = CacheOptions::new(96, CacheFormat::F32, CacheFormat::F32);

/// A loaded model whose steps are run up to any op.
struct Prefixes<'a> {
    gpu: &'a Gpu,
    model: DeviceModel,
    state: Arc<Buffer>,
}

impl Prefixes<'_> {
    /// Runs `ops` for the state; gives the array that `read` names.
    fn run(&self, ops: &[Op], state: &StepState, read: Array) -> Vec<f32> {
        self.state.write(0, bytemuck::bytes_of(state));
        let io = StepIo { state: self.state.address(), ..StepIo::default() };
        let (activations, offset, bytes) = self.model.activation(read);
        let device = self.gpu.pipelines.device();
        let readback = Buffer::new(device, "array", bytes, Placement::Readback).expect("a buffer");
        let mut recording = RecordingBuilder::new(device, QueueKind::Compute, "prefix").expect("a recording");
        recording.keep(self.state.clone());
        let plan = StepPlan { ops: ops.to_vec(), kind: PlanKind::Decode, batch: 1 };
        self.model.record(&plan, &io, &mut recording).expect("the ops are recorded");
        recording.barrier(Access::SHADER_WRITE, Access::TRANSFER_READ);
        recording.copy(activations, offset, &readback, 0, bytes);
        let recording = recording.finish().expect("a recording");
        device.compute_queue().submit(&recording, &[]).expect("submitted").wait().expect("done");
        let mut values = vec![0.0f32; bytes as usize / 4];
        readback.read(0, bytemuck::cast_slice_mut(&mut values));
        values
    }
}

fn check(name: &str) {
    let gpu = Gpu::open();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../tests/data/tiny/{name}.gguf"));
    let model = Arc::new(Model::open(path).expect("a tiny model opens"));
    let mut interpreter = Interpreter::new(model.clone(), CACHE);
    let loaded = DeviceModel::load(&gpu.pipelines, &model, CACHE, &mut |_| {}).expect("a tiny model loads");
    let state = Buffer::new(gpu.pipelines.device(), "state", 256, Placement::Upload).expect("a buffer");
    let device = Prefixes { gpu: &gpu, model: loaded, state };

    let mut ops = StepPlan::new(&model.weights, PlanKind::Decode, ActFormat::F32).ops;
    assert!(matches!(ops.pop(), Some(Op::Advance { .. })), "a step ends by advancing");
    let mut compared = 0;
    for (position, token) in (0..).zip(TOKENS) {
        let state = StepState { live: 1, token, position, ..StepState::default() };
        interpreter.state = state;
        for length in 1..=ops.len() {
            let op = &ops[length - 1];
            interpreter.run(op);
            for array in op.writes() {
                let Some(expected) = interpreter.array(array) else { continue };
                let found = device.run(&ops[..length], &state, array);
                compare(&format!("{name}: op {length} ({op:?}), {array:?}"), &found, &expected);
                compared += 1;
            }
        }
    }
    assert!(
        compared >= TOKENS.len() * (ops.len() - 2),
        "{name}: only {compared} arrays of {} ops were compared",
        ops.len()
    );
}

fn compare(what: &str, found: &[f32], expected: &[f32]) {
    assert_eq!(found.len(), expected.len(), "{what}");
    let largest = expected.iter().fold(0.0f32, |largest, value| largest.max(value.abs()));
    for (index, (found, expected)) in found.iter().zip(expected).enumerate() {
        let error = (found - expected).abs();
        assert!(error <= RELATIVE_ERROR * largest, "{what}: element {index} is {found}, not {expected}");
    }
}

#[test]
fn a_mixture_of_experts_agrees_op_by_op() {
    check("qwen3moe-a-q4_k_m");
}

#[test]
fn a_dense_model_with_biases_agrees_op_by_op() {
    check("qwen2-f16");
}

#[test]
fn interleaved_rotation_agrees_op_by_op() {
    check("llama-f16");
}
