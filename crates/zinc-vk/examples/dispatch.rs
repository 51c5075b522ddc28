//! Loads a compute shader, runs it on a buffer and reads the result back: the shortest complete use of the crate.
//!
//! `cargo run -p zinc-vk --example dispatch`. The shader is `tests/shaders/affine.comp`, compiled to SPIR-V with
//! `glslc --target-env=vulkan1.2 -O`. It computes `data[i] = data[i] * MUL + add` for all `i` below `count`.

use zinc_vk::{
    Access, Buffer, Device, DevicePlan, Instance, InstanceOptions, Pipeline, PipelineSpec, Placement, QueueKind,
    RecordingBuilder, Wants,
};

const SHADER: &[u8] = include_bytes!("../tests/shaders/affine.spv");
const COUNT: u32 = 1000;
const MUL: u32 = 3;
const ADD: u32 = 7;

#[allow(clippy::print_stdout, reason = "an example prints")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let instance = Instance::new(&InstanceOptions::default())?;
    let device = Device::open(&instance, &DevicePlan::choose(&instance.adapters()?, &Wants::default())?)?;

    // The module is words, lowest byte first. Constant 0 of this shader is its workgroup's size, constant 1 the factor.
    let spirv: Vec<u32> = SHADER.chunks_exact(4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect();
    let workgroup_size = 2 * device.subgroup_width();
    let pipeline = Pipeline::new(
        &device,
        &PipelineSpec {
            name: "affine",
            spirv: &spirv,
            push_bytes: 16,
            constants: &[(0, workgroup_size), (1, MUL)],
            workgroup_size,
        },
    )?;

    // The host writes `input`, the shader works on `data`, the host reads `output`.
    let bytes = u64::from(COUNT) * 4;
    let input = Buffer::new(&device, "input", bytes, Placement::Upload)?;
    let data = Buffer::new(&device, "data", bytes, Placement::Device)?;
    let output = Buffer::new(&device, "output", bytes, Placement::Readback)?;
    let numbers: Vec<u8> = (0..COUNT).flat_map(u32::to_ne_bytes).collect();
    input.write(0, &numbers);

    // The shader's push block: the address of the data, the count, the summand.
    let push = [&data.address().to_ne_bytes()[..], &COUNT.to_ne_bytes(), &ADD.to_ne_bytes()].concat();
    let mut recording = RecordingBuilder::new(&device, QueueKind::Compute, "affine")?;
    recording
        .copy(&input, 0, &data, 0, bytes)
        .barrier(Access::TRANSFER_WRITE, Access::SHADER_READ | Access::SHADER_WRITE)
        .dispatch(&pipeline, &push, [COUNT.div_ceil(workgroup_size), 1, 1])
        // The copies name the buffer too; one that only its address names would live no longer than its last handle.
        .keep(data.clone())
        .barrier(Access::SHADER_WRITE, Access::TRANSFER_READ)
        .copy(&data, 0, &output, 0, bytes);
    let recording = recording.finish()?;

    device.compute_queue().submit(&recording, &[])?.wait()?;
    let mut result = vec![0; bytes as usize];
    output.read(0, &mut result);
    for (i, word) in (0..COUNT).zip(result.chunks_exact(4)) {
        let value = u32::from_ne_bytes([word[0], word[1], word[2], word[3]]);
        assert_eq!(value, i * MUL + ADD, "element {i}");
    }
    println!("{}: {COUNT} elements computed and read back", device.facts().name);
    Ok(())
}
