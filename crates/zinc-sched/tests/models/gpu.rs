//! The device that the tests of this binary share, under the validation layer.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use zinc_kernels::Pipelines;
use zinc_vk::{Device, DevicePlan, Instance, InstanceOptions, Validation, Wants};

/// Tests take turns: they count the submissions and the memory of the device that they share, and some drivers fail when threads use, open
/// and close devices at the same time.
static TURN: Mutex<()> = Mutex::new(());

/// The device that a user would get and the pipelines that any test of this binary has built for it, for the time of one test. Dropping it
/// checks that the validation layer had nothing to say.
pub(crate) struct Gpu {
    pub(crate) pipelines: Arc<Pipelines>,
    instance: Arc<Instance>,
    _turn: MutexGuard<'static, ()>,
}

impl Gpu {
    /// The shared device, opened by whoever asks first. It stays open until the process ends; [`with_own_device`] looks at how devices close.
    ///
    /// # Panics
    /// Where there is no Vulkan loader, device or validation layer; the error says what to install. A test is never skipped.
    pub(crate) fn shared() -> Self {
        static SHARED: OnceLock<(Arc<Instance>, Arc<Pipelines>)> = OnceLock::new();
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let (instance, pipelines) = SHARED.get_or_init(open).clone();
        Self { pipelines, instance, _turn: turn }
    }
}

impl Drop for Gpu {
    /// What the layer says of one test fails every test that ends after it.
    fn drop(&mut self) {
        if !std::thread::panicking() {
            assert_silent(&self.instance);
        }
    }
}

/// Runs `test` on a device that nothing else uses, closes the device, and checks that the validation layer had nothing to say, of the closing
/// either: it reports what was not destroyed.
///
/// # Panics
/// As [`Gpu::shared`]; if `test` leaves something behind that keeps the device open.
pub(crate) fn with_own_device(test: impl FnOnce(&Arc<Pipelines>)) {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let (instance, pipelines) = open();
    test(&pipelines);
    let device = Arc::downgrade(pipelines.device());
    drop(pipelines);
    assert!(device.upgrade().is_none(), "the device is still open");
    assert_silent(&instance);
}

fn open() -> (Arc<Instance>, Arc<Pipelines>) {
    // Machines without the layer say so; everywhere else its absence is a failure.
    let validation = match std::env::var("ZINC_TEST_VALIDATION").as_deref() {
        Ok("off") => Validation::Off,
        _ => Validation::On,
    };
    let instance =
        Instance::new(&InstanceOptions::default().with_validation(validation)).unwrap_or_else(|e| panic!("{e}"));
    let adapters = instance.adapters().unwrap_or_else(|e| panic!("{e}"));
    let plan = DevicePlan::choose(&adapters, &Wants::default()).unwrap_or_else(|e| panic!("{e}"));
    let device = Device::open(&instance, &plan).unwrap_or_else(|e| panic!("{e}"));
    (instance, Arc::new(Pipelines::new(device)))
}

fn assert_silent(instance: &Instance) {
    let messages = instance.validation_messages();
    assert!(messages.is_empty(), "the validation layer says: {messages:#?}");
}
