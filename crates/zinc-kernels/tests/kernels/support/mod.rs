//! What the kernel tests share: the device, arrays between guard zones, deterministic data and comparisons.
//!
//! Every bound that a comparison uses is in [`tolerance`].

pub(crate) mod arena;
pub(crate) mod attention_case;
pub(crate) mod chain;
pub(crate) mod compare;
pub(crate) mod data;
pub(crate) mod delta;
pub(crate) mod distribution;
pub(crate) mod gating;
mod launch_operands;
pub(crate) mod launches;
pub(crate) mod many;
pub(crate) mod operand;
pub(crate) mod pages;
pub(crate) mod rows;
pub(crate) mod sigmoids;
pub(crate) mod tolerance;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use zinc_kernels::{Dispatch, Pipelines, Target};
use zinc_vk::{Device, DevicePlan, Instance, InstanceOptions, QueueKind, RecordingBuilder, Validation, Wants};

pub(crate) use arena::Arena;

/// A device of this test binary, under the validation layer.
pub(crate) struct Gpu {
    pub(crate) device: Arc<Device>,
    pub(crate) pipelines: Pipelines,
    instance: Arc<Instance>,
}

impl Gpu {
    /// The device of this thread, opened by whoever asks first. Threads, each of which runs one test, take the devices in turn: a CPU driver
    /// compiles the pipelines of one device one after the other.
    ///
    /// # Panics
    /// Where there is no Vulkan loader, device or validation layer; the error says what to install. A test is never skipped.
    pub(crate) fn get() -> &'static Self {
        static DEVICES: [OnceLock<Gpu>; 2] = [const { OnceLock::new() }; 2];
        static THREADS: AtomicUsize = AtomicUsize::new(0);
        // NVIDIA's driver (580.159) deadlocks when threads open devices at the same time.
        static OPENING: Mutex<()> = Mutex::new(());
        thread_local! {
            static OWN: usize = THREADS.fetch_add(1, Ordering::Relaxed) % DEVICES.len();
        }
        DEVICES[OWN.with(|own| *own)].get_or_init(|| {
            let _opening = OPENING.lock().unwrap_or_else(PoisonError::into_inner);
            let instance =
                Instance::new(&InstanceOptions::default().with_validation(validation())).unwrap_or_else(|error| {
                    panic!("{error} (ZINC_TEST_VALIDATION=off tests without the validation layer)")
                });
            let adapters = instance.adapters().unwrap_or_else(|error| panic!("{error}"));
            let plan = DevicePlan::choose(&adapters, &Wants::default()).unwrap_or_else(|error| panic!("{error}"));
            let device = Device::open(&instance, &plan).unwrap_or_else(|error| panic!("{error}"));
            Self { pipelines: Pipelines::new(device.clone()), device, instance }
        })
    }

    pub(crate) fn target(&self) -> Target {
        self.pipelines.target()
    }

    /// Records a launch.
    ///
    /// # Panics
    /// If Vulkan refuses the kernel.
    pub(crate) fn record(&self, recording: &mut RecordingBuilder, dispatch: &Dispatch) {
        self.pipelines.record(recording, dispatch).unwrap_or_else(|error| panic!("{}: {error}", dispatch.kernel.name));
    }

    /// Runs what `record` records, and waits.
    ///
    /// # Panics
    /// If Vulkan refuses anything, or the validation layer has said anything so far.
    pub(crate) fn submit(&self, record: impl FnOnce(&mut RecordingBuilder)) {
        let mut recording = RecordingBuilder::new(&self.device, QueueKind::Compute, "test").expect("a recording");
        record(&mut recording);
        let recording = recording.finish().expect("the recording ends");
        let point = self.device.compute_queue().submit(&recording, &[]).expect("a submit");
        point.wait().expect("the launches end");
        let messages = self.instance.validation_messages();
        assert!(messages.is_empty(), "the validation layer says:\n{}", messages.join("\n"));
    }
}

/// Validation as the environment asks: on, unless `ZINC_TEST_VALIDATION=off` says that this machine has no layer.
fn validation() -> Validation {
    match std::env::var("ZINC_TEST_VALIDATION").as_deref() {
        Ok("off") => Validation::Off,
        Ok(other) => panic!("ZINC_TEST_VALIDATION={other}: only `off` is known"),
        Err(_) => Validation::On,
    }
}
