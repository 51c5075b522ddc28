//! The device that the golden tests share, under the validation layer.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use zinc_kernels::Pipelines;
use zinc_vk::{Device, DevicePlan, Instance, InstanceOptions, Validation, Wants};

/// Tests take turns: some drivers deadlock when threads open and close devices at the same time.
static TURN: Mutex<()> = Mutex::new(());

/// The device that a user would get, watched by the validation layer. Dropping it checks that the layer had nothing to say.
pub(crate) struct Gpu {
    instance: Arc<Instance>,
    pub(crate) pipelines: Arc<Pipelines>,
    _turn: MutexGuard<'static, ()>,
}

impl Gpu {
    pub(crate) fn open() -> Self {
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        // Machines without the layer say so; everywhere else its absence is a failure.
        let validation = match std::env::var("ZINC_TEST_VALIDATION").as_deref() {
            Ok("off") => Validation::Off,
            _ => Validation::On,
        };
        let instance = Instance::new(&InstanceOptions { validation }).unwrap_or_else(|e| panic!("{e}"));
        let adapters = instance.adapters().unwrap_or_else(|e| panic!("{e}"));
        let plan = DevicePlan::choose(&adapters, &Wants::default()).unwrap_or_else(|e| panic!("{e}"));
        let device = Device::open(&instance, &plan).unwrap_or_else(|e| panic!("{e}"));
        Self { instance, pipelines: Arc::new(Pipelines::new(device)), _turn: turn }
    }
}

impl Drop for Gpu {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            let messages = self.instance.validation_messages();
            assert!(messages.is_empty(), "the validation layer says: {messages:#?}");
        }
    }
}
