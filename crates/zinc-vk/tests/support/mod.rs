//! The one way in which this crate's tests open a device: with the validation layer, whose messages are failures.
//!
//! The shaders are compiled with `glslc --target-env=vulkan1.2 -O X.comp -o X.spv`.

#![allow(dead_code, unreachable_pub, reason = "each test binary uses its own part of this")]

use std::ops::Deref;
use std::sync::Arc;

use parking_lot::{ReentrantMutex, ReentrantMutexGuard};
use zinc_vk::{
    Access, Buffer, Device, DevicePlan, Instance, InstanceOptions, Pipeline, PipelineSpec, Placement, QueueKind,
    Recording, RecordingBuilder, Validation, Wants,
};

/// Tests of one binary take turns: NVIDIA's driver (580.159) deadlocks when threads open and close devices at the same time.
static TURN: ReentrantMutex<()> = ReentrantMutex::new(());

/// A device under validation. Dropping it fails the test if the layer said anything.
pub struct Gpu {
    device: Option<Arc<Device>>,
    instance: Arc<Instance>,
    _turn: ReentrantMutexGuard<'static, ()>,
}

/// Validation as the environment asks: on, unless `ZINC_TEST_VALIDATION=off` says that this machine has no layer.
pub fn validation() -> Validation {
    match std::env::var("ZINC_TEST_VALIDATION").as_deref() {
        Ok("off") => Validation::Off,
        Ok(other) => panic!("ZINC_TEST_VALIDATION={other}: only `off` is known"),
        Err(_) => Validation::On,
    }
}

/// An instance under validation. Fails, and never skips, where there is no loader or no layer.
pub fn instance() -> Arc<Instance> {
    Instance::new(&InstanceOptions::default().with_validation(validation())).unwrap_or_else(|error| panic!("{error}"))
}

impl Gpu {
    pub fn new() -> Self {
        Self::with(|plan| plan)
    }

    /// A device opened with a changed plan.
    pub fn with(change: impl FnOnce(DevicePlan) -> DevicePlan) -> Self {
        let turn = TURN.lock();
        let instance = instance();
        let adapters = instance.adapters().unwrap();
        let plan = DevicePlan::choose(&adapters, &Wants::default()).unwrap_or_else(|error| panic!("{error}"));
        let device = Device::open(&instance, &change(plan)).unwrap();
        Self { device: Some(device), instance, _turn: turn }
    }

    pub fn instance(&self) -> &Arc<Instance> {
        &self.instance
    }

    pub fn buffer(&self, name: &str, words: u64, placement: Placement) -> Arc<Buffer> {
        Buffer::new(self, name, words * 4, placement).unwrap()
    }

    /// `data[i] = data[i] * mul + push.add`.
    pub fn affine(&self, mul: u32) -> Arc<Pipeline> {
        let size = self.subgroup_width() * 2;
        let spec = PipelineSpec {
            name: "affine",
            spirv: &words(include_bytes!("../shaders/affine.spv")),
            push_bytes: 16,
            constants: &[(0, size), (1, mul)],
            workgroup_size: size,
        };
        Pipeline::new(self, &spec).unwrap()
    }

    /// A step that takes a while.
    pub fn spin(&self) -> Arc<Pipeline> {
        let spec = PipelineSpec {
            name: "spin",
            spirv: &words(include_bytes!("../shaders/spin.spv")),
            push_bytes: 12,
            constants: &[],
            workgroup_size: 32,
        };
        Pipeline::new(self, &spec).unwrap()
    }

    /// One affine step over all of `data`.
    pub fn affine_step(&self, name: &str, data: &Arc<Buffer>, mul: u32, add: u32) -> Arc<Recording> {
        let mut builder = self.compute(name);
        self.record_affine(&mut builder, data, mul, add);
        builder.finish().unwrap()
    }

    pub fn record_affine(&self, builder: &mut RecordingBuilder, data: &Arc<Buffer>, mul: u32, add: u32) {
        let count = u32::try_from(data.size() / 4).unwrap();
        let groups = count.div_ceil(self.subgroup_width() * 2);
        let push = affine_push(data, count, add);
        builder.dispatch(&self.affine(mul), &push, [groups, 1, 1]).keep(Arc::clone(data) as _);
    }

    /// A step of `rounds` rounds that adds 1 to `data[0]`.
    pub fn spin_step(&self, name: &str, data: &Arc<Buffer>, rounds: u32) -> Arc<Recording> {
        let mut push = data.address().to_ne_bytes().to_vec();
        push.extend(rounds.to_ne_bytes());
        let mut builder = self.compute(name);
        builder.dispatch(&self.spin(), &push, [1, 1, 1]).keep(Arc::clone(data) as _);
        builder.finish().unwrap()
    }

    pub fn compute(&self, name: &str) -> RecordingBuilder {
        RecordingBuilder::new(self, QueueKind::Compute, name).unwrap()
    }

    /// Runs `record` and waits.
    pub fn run(&self, record: impl FnOnce(&mut RecordingBuilder)) {
        let mut builder = self.compute("run");
        record(&mut builder);
        self.compute_queue().submit(&builder.finish().unwrap(), &[]).unwrap().wait().unwrap();
    }

    /// Every word of a buffer of any placement.
    pub fn words(&self, buffer: &Arc<Buffer>) -> Vec<u32> {
        let back = Buffer::new(self, "back", buffer.size(), Placement::Readback).unwrap();
        self.run(|r| {
            r.copy(buffer, 0, &back, 0, buffer.size());
        });
        read_words(&back)
    }

    /// Fails if the layer has said anything so far.
    pub fn assert_silent(&self) {
        let messages = self.instance.validation_messages();
        assert!(messages.is_empty(), "the validation layer says:\n{}", messages.join("\n"));
    }
}

impl Deref for Gpu {
    type Target = Arc<Device>;

    fn deref(&self) -> &Arc<Device> {
        self.device.as_ref().expect("open until dropped")
    }
}

impl Drop for Gpu {
    fn drop(&mut self) {
        // The device goes first, so that what its destruction has to say is heard as well.
        self.device = None;
        if !std::thread::panicking() {
            self.assert_silent();
        }
    }
}

pub fn affine_push(data: &Buffer, count: u32, add: u32) -> Vec<u8> {
    let mut push = data.address().to_ne_bytes().to_vec();
    push.extend(count.to_ne_bytes());
    push.extend(add.to_ne_bytes());
    push
}

pub fn words(bytes: &[u8]) -> Vec<u32> {
    bytes.chunks_exact(4).map(|b| u32::from_le_bytes(b.try_into().unwrap())).collect()
}

/// Every word of a mapped buffer.
pub fn read_words(buffer: &Buffer) -> Vec<u32> {
    let mut bytes = vec![0; usize::try_from(buffer.size()).unwrap()];
    buffer.read(0, &mut bytes);
    words(&bytes)
}

pub fn write_words(buffer: &Buffer, words: &[u32]) {
    let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_ne_bytes()).collect();
    buffer.write(0, &bytes);
}

/// Both orders of shader access to shader access: for chains that update one buffer in place.
pub fn shader_chain(builder: &mut RecordingBuilder) {
    builder.barrier(Access::SHADER_WRITE, Access::SHADER_READ | Access::SHADER_WRITE);
}
