//! Every op of a step on the device against the interpreter: where the two part, the first op that differs is named.

use std::path::Path;
use std::sync::Arc;

use zinc_kernels::ops::{ActFormat, CacheFormat};
use zinc_kernels::step::{Lane, StepShape, StepState};
use zinc_model::Model;
use zinc_model::device::{DeviceModel, StepIo};
use zinc_model::interpret::Interpreter;
use zinc_model::plan::{Array, CacheOptions, Op, PlanKind, PlanOptions, StepPlan};
use zinc_vk::{Access, Buffer, Placement, QueueKind, RecordingBuilder};

use crate::gpt_oss::GPT_OSS;
use crate::gpu::Gpu;
use crate::qwen35::{QWEN35, QWEN35_MOE};

/// Of the largest value of an array: f32 sums of a few hundred terms in another order, through two layers.
const RELATIVE_ERROR: f32 = 2e-5;

const TOKENS: [u32; 4] = [336, 250, 473, 62];
const CACHE: CacheOptions = CacheOptions::new(96, CacheFormat::F32, CacheFormat::F32);

/// Runs the ops of a step of a loaded model in one recording. Gives the arrays that `read` names for each op as that op leaves them, in the
/// order of the ops.
fn run(gpu: &Gpu, model: &DeviceModel, ops: &[Op], state: &StepState, read: &[Vec<Array>]) -> Vec<Vec<f32>> {
    let device = gpu.pipelines.device();
    let step_state = Buffer::new(device, "state", size_of::<StepState>() as u64, Placement::Upload).expect("a buffer");
    step_state.write(0, bytemuck::bytes_of(state));
    let io = StepIo { state: step_state.address(), ..StepIo::default() };
    let sizes: Vec<u64> = read.iter().flatten().map(|array| model.activation(*array, 0).2).collect();
    let readback = Buffer::new(device, "arrays", sizes.iter().sum(), Placement::Readback).expect("a buffer");
    let mut recording = RecordingBuilder::new(device, QueueKind::Compute, "step").expect("a recording");
    recording.keep(step_state);
    let plan = StepPlan { ops: ops.to_vec(), kind: PlanKind::Decode, shape: StepShape::ONE };
    let (mut behind_op, mut at) = (read.iter(), 0);
    let mut copy = |recording: &mut RecordingBuilder| {
        recording.barrier(Access::SHADER_WRITE, Access::TRANSFER_READ);
        for array in behind_op.next().expect("an entry for each op") {
            let (activations, offset, bytes) = model.activation(*array, 0);
            recording.copy(activations, offset, &readback, at, bytes);
            at += bytes;
        }
        // The next op may overwrite what these copies read.
        recording.barrier(Access::TRANSFER_READ, Access::SHADER_WRITE);
    };
    model.record_marked(&plan, &io, &mut recording, &mut copy).expect("the ops are recorded");
    let recording = recording.finish().expect("a recording");
    device.compute_queue().submit(&recording, &[]).expect("submitted").wait().expect("done");
    let mut at = 0;
    let arrays = sizes.iter().map(|bytes| {
        let mut values = vec![0.0f32; *bytes as usize / 4];
        readback.read(at, bytemuck::cast_slice_mut(&mut values));
        at += bytes;
        values
    });
    arrays.collect()
}

fn check(name: &str) {
    let gpu = Gpu::borrow();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../tests/data/tiny/{name}.gguf"));
    let model = Arc::new(Model::open(path).expect("a tiny model opens"));
    let mut interpreter = Interpreter::new(model.clone(), CACHE);
    let loaded = DeviceModel::load(&gpu.pipelines, &model, CACHE, &mut |_| {}).expect("a tiny model loads");

    let mut ops = StepPlan::new(&model.weights, &PlanOptions::new(PlanKind::Decode, ActFormat::F32)).ops;
    assert!(matches!(ops.pop(), Some(Op::Advance { .. })), "a step ends by advancing");
    // The state lists the row already.
    assert_eq!(ops.remove(0), Op::List);
    let mut compared = 0;
    for (position, token) in (0..).zip(TOKENS) {
        let state = StepState::from(Lane { token, position, ..Lane::default() });
        interpreter.state = state;
        interpreter.begin_row();
        let (mut read, mut expected) = (Vec::new(), Vec::new());
        for (index, op) in ops.iter().enumerate() {
            interpreter.run(op);
            let mut arrays = Vec::new();
            for array in op.writes() {
                let Some(values) = interpreter.array(array) else { continue };
                arrays.push(array);
                expected.push((index, array, values));
            }
            read.push(arrays);
        }
        let found = run(&gpu, &loaded, &ops, &state, &read);
        for ((index, array, expected), found) in expected.iter().zip(&found) {
            // These arrays hold floats or the rounded form, which is longer for narrow vectors, or what layers of another kind have more of.
            let longer = matches!(array, Array::Attended | Array::Normed | Array::MixerGate);
            let either = longer && found.len() > expected.len();
            let found = if either { &found[..expected.len()] } else { &found[..] };
            compare(&format!("{name}: op {} ({:?}), {array:?}", index + 1, ops[*index]), found, expected);
            compared += 1;
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
fn windows_sinks_and_biases_of_experts_agree_op_by_op() {
    check(GPT_OSS);
}

#[test]
fn delta_nets_gates_and_shared_experts_agree_op_by_op() {
    check(QWEN35);
    check(QWEN35_MOE);
}

#[test]
fn interleaved_rotation_agrees_op_by_op() {
    check("llama-f16");
}
